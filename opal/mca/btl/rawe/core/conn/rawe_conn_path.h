/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The path of a connection: where its frames go, through whose port, and how long they may be. It
 * uses another route while the preferred one is down. Each end chooses its own route; frames are
 * taken by any, and answers go back the way the question came.
 */
#ifndef RAWE_CONN_PATH_H
#define RAWE_CONN_PATH_H

#include "rawe_conn_state.h"

/** The path of a new connection: it uses its preferred route, which outlives it. */
void rawe_conn_path_open(struct rawe_conn *conn, struct rawe_route *preferred);
/** From now on frames are addressed to the far end of this route. */
void rawe_conn_path_use(struct rawe_conn *conn, struct rawe_route *route);
/** The peer has asked by this route, so answers go there: others may not reach it. */
void rawe_conn_path_asked(struct rawe_conn *conn, struct rawe_route *route);
/** Longest payload of frames by the preferred route: what that carries and both ends accept. */
uint32_t rawe_conn_preferred_payload_bytes(const struct rawe_conn *conn);
/**
 * A route to the process carries less now, RAWE_PAYLOAD_LEAST_BYTES at least. New frames are no
 * longer than the route in use and the preferred one carry; longer ones that are lost are resent in
 * slices.
 */
void rawe_conn_path_fit(struct rawe_conn *conn);
/** The peer accepts no longer payload than that. */
void rawe_conn_limit_payload(struct rawe_conn *conn, uint32_t payload_max_bytes);

#endif
