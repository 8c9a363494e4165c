/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * A connection delivers messages and PUT data to one peer, reliably and exactly once. Only
 * fragmented messages are delivered in order. The other files in this folder define its parts.
 */
#ifndef RAWE_CONN_H
#define RAWE_CONN_H

#include "rawe_conn_state.h"

/**
 * Open an IDLE connection, without sending anything. It uses the route `preferred`, unless that is
 * down; the route must outlive the connection. Returns NULL when out of memory.
 */
struct rawe_conn *rawe_conn_open(struct rawe_route *preferred, unsigned lane,
                                 struct rawe_peer *peer, void *owner);

/** Process a CONNECT frame for this connection. */
void rawe_conn_receive_connect(struct rawe_conn *conn, const struct rawe_connect *from, bool reply,
                               uint64_t now_ns);

/**
 * Migrate to another route (modeled on RFC 9000 section 9). Ids and windows stay. Unacknowledged
 * frames are resent once a probe over the new route shows that they were lost.
 */
void rawe_conn_move(struct rawe_conn *conn, struct rawe_route *route, uint64_t now_ns);

/**
 * Use the new MAC address of one end of the current route, and probe the peer until it answers: our
 * frames may be its only way to learn the address.
 */
void rawe_conn_readdress(struct rawe_conn *conn, uint64_t now_ns);

/** Send CLOSE, fail the remaining sends, and free. See rawe_conn_drained, rawe_conn_finalized. */
void rawe_conn_close(struct rawe_conn *conn, uint64_t now_ns);

/** Send the pending acknowledgement and the postponed frames. Called by rawe_engine_flush. */
void rawe_conn_flush(struct rawe_conn *conn, uint64_t now_ns);

#endif
