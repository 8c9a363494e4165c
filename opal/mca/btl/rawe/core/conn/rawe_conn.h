/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * A connection delivers messages and PUT data to one peer, reliably and exactly once. Only
 * fragmented messages are delivered in order. It combines the objects of the other files in this
 * folder.
 */
#ifndef RAWE_CONN_H
#define RAWE_CONN_H

#include "rawe_conn_state.h"

/**
 * Open an IDLE connection, without sending anything. It uses `preferred`, which must outlive it,
 * unless that route is down. A connection whose `peer` is NULL never rests. Returns NULL when out
 * of memory.
 */
struct rawe_conn *rawe_conn_open(struct rawe_route *preferred, unsigned lane,
                                 struct rawe_peer *peer, void *owner);

/**
 * Migrate to another route (after RFC 9000 section 9). Ids and windows stay. Unacknowledged frames
 * are resent once a probe over the new route shows that they are lost.
 */
void rawe_conn_move(struct rawe_conn *conn, struct rawe_route *route, uint64_t now_ns);

/**
 * Use the new MAC address of one end of the current route, and probe the peer until it answers: it
 * may learn the address only from our frames.
 */
void rawe_conn_readdress(struct rawe_conn *conn, uint64_t now_ns);

/** Send CLOSE, fail the remaining sends, free all. See rawe_conn_drained, rawe_conn_finalized. */
void rawe_conn_close(struct rawe_conn *conn, uint64_t now_ns);

/** Return true if the connection may rest: nothing is owed, awaited or in progress. */
bool rawe_conn_may_rest(const struct rawe_conn *conn);

/** Plan the next idle check. True: it was idle since the last one, and may rest. */
bool rawe_conn_check_idle(struct rawe_conn *conn, uint64_t now_ns);

/** Free a connection that may rest; its id then finds the saved state. False when out of memory. */
bool rawe_conn_rest(struct rawe_conn *conn);

/** Wake a connection that was opened with this route. NULL, still at rest, when out of memory. */
struct rawe_conn *rawe_conn_wake(struct rawe_rest *rest, struct rawe_route *preferred);

/** Close a resting connection that cannot be woken for lack of memory. The peer is not told. */
void rawe_conn_forget_rest(struct rawe_engine *engine, struct rawe_rest *rest);

/** Return true once the peer has acknowledged everything, or never will. */
bool rawe_conn_drained(const struct rawe_conn *conn);

/** Send the pending acknowledgement and the postponed frames. Called by rawe_engine_flush. */
void rawe_conn_flush(struct rawe_conn *conn, uint64_t now_ns);

#endif
