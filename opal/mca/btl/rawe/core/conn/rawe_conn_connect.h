/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The life of a connection: the handshake, probes, its end and its reopening.
 */
#ifndef RAWE_CONN_CONNECT_H
#define RAWE_CONN_CONNECT_H

#include "rawe_conn_state.h"

/**
 * Forget what was measured on the old path. If the old path `was_dead`, losses of frames in flight
 * are no sign of congestion. If it was only silent, the cause may be congestion at a port that the
 * new path shares: the window does not grow, and such losses reduce it.
 */
void rawe_conn_forget_path(struct rawe_conn *conn, bool was_dead);
/** Initialize the sending and receiving state of a connection that has sent nothing yet. */
void rawe_conn_reset(struct rawe_conn *conn);
/** Send a tail-loss probe. Returns false if the link is full. */
bool rawe_conn_send_probe(struct rawe_conn *conn);
/** Send a CONNECT, for the first time or again. */
void rawe_conn_send_connect(struct rawe_conn *conn);
/** Start connecting to the peer. */
void rawe_conn_connect(struct rawe_conn *conn, uint64_t now_ns);
/**
 * The peer says that it has ended the connection or knows none, or, with `given_up`, that it has
 * given us up. Returns true if that is believed. With data in flight, or when given up, believe it
 * only after the peer has said nothing else for a second, because its last acknowledgement may
 * still arrive; but at once when both sides finalize. Then the data in flight has failed, unless
 * the peer finalizes, and queued sends open a new connection. If the peer has given us up, the
 * connection has failed.
 */
bool rawe_conn_disowned(struct rawe_conn *conn, bool given_up, uint64_t now_ns);
/** Fail the connection for good. Returns the sends that the caller must complete as failed. */
struct rawe_send *rawe_conn_fail(struct rawe_conn *conn);
/** Tell the peer's connection that ours has failed. */
void rawe_conn_renounce(struct rawe_conn *conn, uint32_t peer_id);
/** On a failed connection, answer a PROBE: the peer that we gave up is alive, and must know. */
void rawe_conn_answer_failed(struct rawe_conn *conn, const struct rawe_header *header,
                             const uint8_t *payload);
/** Process a CONNECT frame for this connection. */
void rawe_conn_receive_connect(struct rawe_conn *conn, const struct rawe_connect *from, bool reply,
                               uint64_t now_ns);

#endif
