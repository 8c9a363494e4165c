/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Receive path: from a frame to messages and placed data.
 */
#ifndef RAWE_CONN_RECEIVE_H
#define RAWE_CONN_RECEIVE_H

#include "rawe_conn_state.h"

/** Remove the oldest entry of a deferral, which must not be empty, and deliver it. */
void rawe_conn_deliver_first(struct rawe_deferral *deferral);
/** Memory is free again: keep what stayed behind, and tell the peer if any of it was refused. */
void rawe_conn_admit(struct rawe_conn *conn);
/** Process any frame but CONNECT for this connection; the header is decoded. */
void rawe_conn_receive(struct rawe_conn *conn, const struct rawe_header *header,
                       const uint8_t *payload, uint64_t now_ns);
/** Return where the data of a packet of batch frames belongs; NULL: nowhere, or not known yet. */
uint8_t *rawe_conn_place(struct rawe_conn *conn, const struct rawe_batch *batch);
/** Process frames of a batch, header decoded, `fragment.data` set: in rawe_conn_place's or not. */
void rawe_conn_receive_batch(struct rawe_conn *conn, const struct rawe_batch *batch,
                             uint64_t now_ns);

#endif
