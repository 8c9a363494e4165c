/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The lives of a connection: asking for it, answering, probes, beginning again.
 */
#ifndef RAWE_CONN_CONNECT_H
#define RAWE_CONN_CONNECT_H

#include "rawe_conn_state.h"

/**
 * The path is another one: nothing is known of it. If the old one `was_dead`, losses of what is in
 * flight say nothing of congestion. If it was only silent, that may have been congestion at a port
 * where the new one ends, too: the window is no larger than before, and losses reduce it.
 */
void rawe_conn_forget_path(struct rawe_conn *conn, bool was_dead);
/** Sending and receiving state of a connection on which nothing has been sent yet. */
void rawe_conn_reset(struct rawe_conn *conn);
/** Send a tail-loss probe. False: link is full. */
bool rawe_conn_send_probe(struct rawe_conn *conn);
/** Ask the peer for a connection, for the first time or again. */
void rawe_conn_send_connect(struct rawe_conn *conn);
/** Begin asking the peer for a connection. */
void rawe_conn_connect(struct rawe_conn *conn, uint64_t now_ns);
/**
 * The peer has ended the connection, or has none. With data in flight that is believed when probes
 * were unanswered for long, as its last acknowledgement may be on its way; or at once when both
 * finalize. Then what is in flight has failed, unless the peer finalizes, and what is queued asks
 * for a new connection. `given_up`: as it has given us up, which is believed after as long; then the
 * connection has failed. True: believed.
 */
bool rawe_conn_disowned(struct rawe_conn *conn, bool given_up, uint64_t now_ns);
/** The connection has failed, for good. The caller completes what this returns as failed. */
struct rawe_send *rawe_conn_fail(struct rawe_conn *conn);
/** Tell the peer's connection that ours has failed. */
void rawe_conn_renounce(struct rawe_conn *conn, uint32_t peer_id);
/** The same if ours has, and this is a PROBE: a peer that was given up is there, and asks. */
void rawe_conn_answer_failed(struct rawe_conn *conn, const struct rawe_header *header,
                             const uint8_t *payload);
/** A CONNECT frame for this connection. */
void rawe_conn_receive_connect(struct rawe_conn *conn, const struct rawe_connect *from, bool reply,
                               uint64_t now_ns);

#endif
