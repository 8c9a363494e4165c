/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Receive path: from a frame to messages and placed data.
 */
#ifndef RAWE_CONN_RECEIVE_H
#define RAWE_CONN_RECEIVE_H

#include "rawe_conn_state.h"

/** Payload of a received frame: all of it at `head`, or, when `data` is set, the data there. */
struct rawe_payload {
    const uint8_t *head;
    size_t head_bytes;
    const uint8_t *data;
};

/** Have a reassembly table. False without memory. */
bool rawe_conn_expect_fragments(struct rawe_conn *conn);
/** Deliver a message. */
void rawe_conn_deliver(struct rawe_conn *conn, uint8_t tag, const uint8_t *data, size_t len_bytes);
/** Deliver the fragments of a MESSAGE frame, one after the other. */
void rawe_conn_deliver_messages(struct rawe_conn *conn, const uint8_t *payload, const uint8_t *end);
/** Deliver the fragmented messages whose turn it is. */
void rawe_conn_deliver_fragmented(struct rawe_conn *conn);
/** Any frame but CONNECT for this connection, header decoded, payload in the frame. */
void rawe_conn_receive(struct rawe_conn *conn, const struct rawe_header *header,
                       const struct rawe_payload *payload, uint64_t now_ns);

#endif
