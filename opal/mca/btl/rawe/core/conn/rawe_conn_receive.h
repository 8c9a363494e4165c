/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Receive path: from a frame to messages and placed data.
 */
#ifndef RAWE_CONN_RECEIVE_H
#define RAWE_CONN_RECEIVE_H

#include "rawe_conn_state.h"

/** Take the oldest entry out of a deferral, and deliver what is in it. There must be one. */
void rawe_conn_deliver_first(struct rawe_deferral *deferral);
/** There is memory again: keep what has stayed, and tell the peer, if something of it was refused. */
void rawe_conn_admit(struct rawe_conn *conn);
/** Any frame but CONNECT for this connection, header decoded, payload in the frame. */
void rawe_conn_receive(struct rawe_conn *conn, const struct rawe_header *header,
                       const uint8_t *payload, uint64_t now_ns);
/** Where the data of a packet with frames of a batch belongs; NULL: nowhere, or not yet known. */
uint8_t *rawe_conn_place(struct rawe_conn *conn, const struct rawe_batch *batch);
/** Frames of a batch, header decoded, `fragment.data` set: where rawe_conn_place said, or not. */
void rawe_conn_receive_batch(struct rawe_conn *conn, const struct rawe_batch *batch,
                             uint64_t now_ns);

#endif
