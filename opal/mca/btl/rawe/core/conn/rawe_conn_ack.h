/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Acknowledgements of our frames, and the losses that they reveal.
 */
#ifndef RAWE_CONN_ACK_H
#define RAWE_CONN_ACK_H

#include "rawe_conn_state.h"

/**
 * Process the acknowledgement in a frame; it must not exceed the next number to be sent. `sack` is
 * an ACK's untrusted bitmap, or empty. Callbacks of completed sends may change the connection's id.
 */
void rawe_conn_acknowledged(struct rawe_conn *conn, const struct rawe_header *header,
                            const uint8_t *sack, size_t sack_bytes, uint64_t now_ns);

/** Declare frames lost whose reordering window has passed. */
void rawe_conn_detect_losses(struct rawe_conn *conn, uint64_t now_ns);

#endif
