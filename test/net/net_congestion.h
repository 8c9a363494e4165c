/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * A congestion control for tests: a fixed window.
 */
#ifndef NET_CONGESTION_H
#define NET_CONGESTION_H

#include "conn/rawe_conn_state.h"

/** From now on the congestion window of a connection has `frames`, until it changes its path. */
void net_fix_window(struct rawe_conn *conn, uint32_t frames);

#endif
