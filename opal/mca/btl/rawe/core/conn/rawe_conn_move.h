/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Migration (after RFC 9000 section 9): a connection goes on by another route between the same two
 * processes. It keeps its ids, its windows and what is not acknowledged, which is sent again by the
 * new route when the answer to a probe there shows that it was lost.
 *
 * Each end may decide to move, when its interface is down or the other end is silent, and says so by
 * a PROBE, which comes by the new route and has the migration's number: one more than the newest
 * that the end knows of. The other end follows, and sends a PROBE with the same number, by whose answer
 * it learns what was lost. So migrations end, however many PROBEs are under way on how many routes.
 */
#ifndef RAWE_CONN_MOVE_H
#define RAWE_CONN_MOVE_H

#include "rawe_conn_state.h"
#include "rawe_route.h"

/**
 * A connection just opened prefers this route, which outlives it, and uses it unless it is down.
 */
void rawe_conn_attach(struct rawe_conn *conn, struct rawe_route *preferred);

/** Use another route of the ring: the one in use is down, or the preferred one is back. */
void rawe_conn_move(struct rawe_conn *conn, struct rawe_route *route, uint64_t now_ns);

/**
 * The peer's CONNECT has come by this route, which is not the one used: answer there, unless the
 * peer has been answered before, or has reopened the connection since, so that it is a late one.
 */
void rawe_conn_follow_connect(struct rawe_conn *conn, struct rawe_route *route,
                              uint64_t incarnation, uint64_t now_ns);

/**
 * The peer's newest PROBE has come by this route, and was taken; `from` is what it says of itself.
 * Has the peer moved there? `migration` is the newest one that was known before.
 */
void rawe_conn_follow(struct rawe_conn *conn, struct rawe_route *route,
                      const struct rawe_connect *from, uint8_t migration, uint64_t now_ns);

/**
 * A frame other than PROBE and CONNECT has come by this route, which is not the one used. If it is
 * the preferred route, and up, the peer uses it again.
 */
void rawe_conn_fail_back(struct rawe_conn *conn, const struct rawe_route *route, uint64_t now_ns);

#endif
