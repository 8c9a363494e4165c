/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Receive path: from a frame to delivered messages and placed data.
 */
#ifndef RAWE_CONN_RECEIVE_H
#define RAWE_CONN_RECEIVE_H

#include "rawe_conn_state.h"

/** Initialize an engine's list of owed acknowledgements. */
void rawe_conn_owing_init(struct rawe_engine *engine);
/** Owe an acknowledgement: at once, after enough frames, or after the delay. */
void rawe_conn_owe_ack(struct rawe_conn *conn, bool at_once, uint64_t now_ns);
/** Owe an acknowledgement at the end of the round, in order to report credit. */
void rawe_conn_report_credit(struct rawe_conn *conn);
/** Remove the oldest entry of a deferral, which must not be empty, and deliver it. */
void rawe_conn_deliver_first(struct rawe_deferral *deferral);
/** Keep fragments that waited for memory, and tell the peer if any were refused. */
void rawe_conn_admit(struct rawe_conn *conn);
/** Process a frame for this connection, except CONNECT. The header is decoded. */
void rawe_conn_receive(struct rawe_conn *conn, const struct rawe_header *header,
                       const uint8_t *payload, uint64_t now_ns);
/** Return where the data of a packet of batch frames belongs; NULL: nowhere, or unknown. */
uint8_t *rawe_conn_place(struct rawe_conn *conn, const struct rawe_batch *batch);
/** Process frames of a decoded batch. `fragment.data` need not be where rawe_conn_place said. */
void rawe_conn_receive_batch(struct rawe_conn *conn, const struct rawe_batch *batch,
                             uint64_t now_ns);

#endif
