/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Opening, probing and reopening a connection.
 */
#ifndef RAWE_CONN_CONNECT_H
#define RAWE_CONN_CONNECT_H

#include "rawe_conn_state.h"

/**
 * Discard measurements of the old path. If the old path `was_dead`, losses of frames in flight are
 * no sign of congestion. If it was only silent, the cause may be congestion at a port that the new
 * path shares, so the window does not grow, and losses reduce it.
 */
void rawe_conn_forget_path(struct rawe_conn *conn, bool was_dead);
/** Initialize the sending and receiving state of a connection before it sends anything. */
void rawe_conn_reset(struct rawe_conn *conn);
/** Restart under a new id and, if `restart`, incarnation. The window must be empty. */
void rawe_conn_renew(struct rawe_conn *conn, bool restart);
/** Send a tail-loss probe. Returns false if the link is full. */
bool rawe_conn_send_probe(struct rawe_conn *conn);
/** Send or repeat a CONNECT. */
void rawe_conn_send_connect(struct rawe_conn *conn);
/** Start connecting to the peer. */
void rawe_conn_connect(struct rawe_conn *conn, uint64_t now_ns);
/** Answer the peer's CONNECT, or process the reply to ours, which opens the connection. */
void rawe_conn_answer(struct rawe_conn *conn, const struct rawe_connect *from, bool reply,
                      uint64_t now_ns);

#endif
