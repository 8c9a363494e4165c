/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Acknowledgements of our frames, and the losses that they reveal.
 */
#ifndef RAWE_CONN_ACK_H
#define RAWE_CONN_ACK_H

#include "rawe_conn_state.h"

/** What an acknowledgement leaves to do. All zero: nothing. */
struct rawe_conn_ack {
    struct rawe_sends sends; /**< complete */
    bool waits;              /**< for rawe_conn_ack_finish */
};

/**
 * Process the acknowledgement in a frame; it must not exceed the next number to be sent. `sack` is
 * an ACK's untrusted bitmap, or empty. Neither sends nor calls back: rawe_conn_ack_finish does.
 */
void rawe_conn_ack_process(struct rawe_conn *conn, const struct rawe_header *header,
                           const uint8_t *sack, size_t sack_bytes, uint64_t now_ns,
                           struct rawe_conn_ack *left);

/**
 * Send more if there is room, and complete sends. Their callbacks may receive later frames, so the
 * window must already contain the frame that acknowledges. They may change the connection's id. The
 * connection with `id` may have ended since rawe_conn_ack_process.
 */
void rawe_conn_ack_finish(struct rawe_conn *conn, uint32_t id, const struct rawe_conn_ack *left,
                          uint64_t now_ns);

/** Declare frames lost whose reordering window has passed. */
void rawe_conn_detect_losses(struct rawe_conn *conn, uint64_t now_ns);

#endif
