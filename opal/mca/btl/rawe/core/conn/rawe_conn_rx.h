/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The receiving half of a connection, as its other half and its path see it: what our frames tell
 * the peer about its own, which is credit and acknowledgements.
 */
#ifndef RAWE_CONN_RX_H
#define RAWE_CONN_RX_H

#include "rawe_conn_state.h"

/** Return the credit to advertise now: frames that the peer may have in flight to us here. */
static inline uint16_t rawe_conn_advertise(struct rawe_conn *conn)
{
    struct rawe_pull *pull = &conn->path.into->pull;
    uint16_t frames = rawe_credit_advertise(&pull->credit, conn->lane, &conn->rx.credit);
    return conn->lane == RAWE_LANE_BULK ? rawe_grants_credit(&pull->grants, &conn->rx.grant, frames)
                                        : frames;
}
/** Owe an acknowledgement: at once, or after enough frames, or after the delay. */
void rawe_conn_owe_ack(struct rawe_conn *conn, bool at_once, uint64_t now_ns);
/** The connection ends: owe no acknowledgement, and expect no more frames. */
void rawe_conn_owe_nothing(struct rawe_conn *conn);
/** Initialize an engine's list of owed acknowledgements. */
void rawe_conn_owing_init(struct rawe_engine *engine);
/** Owe an acknowledgement at the end of the round, in order to report credit. */
void rawe_conn_report_credit(struct rawe_conn *conn);

#endif
