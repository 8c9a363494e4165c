/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The path of a connection: the address and port of its frames, and their maximum length. It uses
 * another route while the preferred one is down. Each end chooses its own route, accepts frames
 * from any, and answers over the route of the request.
 */
#ifndef RAWE_CONN_PATH_H
#define RAWE_CONN_PATH_H

#include "rawe_conn_state.h"

/** Initialize the path of a new connection. It uses its preferred route, which must outlive it. */
void rawe_conn_path_open(struct rawe_conn *conn, struct rawe_route *preferred);
/** Address frames to the far end of this route from now on. */
void rawe_conn_path_use(struct rawe_conn *conn, struct rawe_route *route);
/** Answer over this route, because the peer's request arrived there and others may not reach it. */
void rawe_conn_path_asked(struct rawe_conn *conn, struct rawe_route *route);
/** Return the longest payload for the preferred route: what it carries and both ends accept. */
uint32_t rawe_conn_preferred_payload_bytes(const struct rawe_conn *conn);
/**
 * A route to the process now carries less, at least RAWE_PAYLOAD_LEAST_BYTES. New frames fit both
 * the route in use and the preferred one; longer frames that are lost are resent in slices.
 */
void rawe_conn_path_fit(struct rawe_conn *conn);
/** Set the longest payload that the peer accepts. */
void rawe_conn_limit_payload(struct rawe_conn *conn, uint32_t payload_max_bytes);

#endif
