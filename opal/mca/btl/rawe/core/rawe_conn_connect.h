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
/** A CONNECT frame for this connection. */
void rawe_conn_receive_connect(struct rawe_conn *conn, const struct rawe_connect *from, bool reply,
                               uint64_t now_ns);

#endif
