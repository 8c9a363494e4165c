/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Asking for a connection, and answering; probes.
 */
#ifndef RAWE_CONN_CONNECT_H
#define RAWE_CONN_CONNECT_H

#include "rawe_conn_state.h"

/** Send a tail-loss probe. False: link is full. */
bool rawe_conn_send_probe(struct rawe_conn *conn);
/** Ask the peer for a connection, for the first time or again. */
void rawe_conn_send_connect(struct rawe_conn *conn);
/** Begin asking the peer for a connection. */
void rawe_conn_connect(struct rawe_conn *conn, uint64_t now_ns);
/**
 * The peer has ended the connection, or says that it has none. With data in flight that is believed
 * only when it has answered no probe for long, as the CLOSE may be forged; or at once, when both
 * ends finalize. If the peer finalizes, nothing is lost with that. Else what is in flight has failed,
 * and what is still queued needs a new connection, which is asked for. Returns true when it is
 * believed.
 */
bool rawe_conn_disowned(struct rawe_conn *conn, uint64_t now_ns);
/** A CONNECT frame for this connection. */
void rawe_conn_receive_connect(struct rawe_conn *conn, const struct rawe_connect *from, bool reply,
                               uint64_t now_ns);

#endif
