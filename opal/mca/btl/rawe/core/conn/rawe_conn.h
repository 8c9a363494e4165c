/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * A connection: reliable transport of messages and PUT data to one peer, exactly once; in order
 * only among fragmented messages. It joins the objects that have files of their own.
 */
#ifndef RAWE_CONN_H
#define RAWE_CONN_H

#include "rawe_conn_state.h"

/**
 * A new connection, IDLE; nothing is sent. It prefers this route, which outlives it, and uses it
 * unless it is down. `peer` NULL: it never rests. NULL without memory.
 */
struct rawe_conn *rawe_conn_open(struct rawe_route *preferred, unsigned lane,
                                 struct rawe_peer *peer, void *owner);

/**
 * Migration (after RFC 9000 section 9): send by another route. Ids and windows stay; unacknowledged
 * frames are resent when a probe by that route shows them lost.
 */
void rawe_conn_move(struct rawe_conn *conn, struct rawe_route *route, uint64_t now_ns);

/**
 * An end of the route that the connection uses has another MAC address: frames are addressed so from
 * now on, and the peer, which may learn of it by them, is asked until it answers.
 */
void rawe_conn_readdress(struct rawe_conn *conn, uint64_t now_ns);

/** Send CLOSE, fail what is left, free all. See rawe_conn_drained and rawe_conn_finalized. */
void rawe_conn_close(struct rawe_conn *conn, uint64_t now_ns);

/** May the connection rest? It owes and awaits nothing, and has no part in what is under way. */
bool rawe_conn_may_rest(const struct rawe_conn *conn);

/** Plan the next look. True: it was idle since the last one, and may rest. */
bool rawe_conn_check_idle(struct rawe_conn *conn, uint64_t now_ns);

/** Free a connection that may rest; its id stays, and finds what is kept. False without memory. */
bool rawe_conn_rest(struct rawe_conn *conn);

/** Wake a connection, opened with this route; NULL without memory: it stays at rest. */
struct rawe_conn *rawe_conn_wake(struct rawe_rest *rest, struct rawe_route *preferred);

/** Close a connection at rest that there is no memory to wake: the peer is not told. */
void rawe_conn_forget_rest(struct rawe_engine *engine, struct rawe_rest *rest);

/** True when the peer has acknowledged everything, or will not any more. */
bool rawe_conn_drained(const struct rawe_conn *conn);

/** Send acknowledgement and frames put off; called by rawe_engine_flush. */
void rawe_conn_flush(struct rawe_conn *conn, uint64_t now_ns);

#endif
