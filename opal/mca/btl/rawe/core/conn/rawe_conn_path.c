/* SPDX-License-Identifier: BSD-3-Clause */
#include "rawe_conn_path.h"

#include <assert.h>
#include <string.h>

/** Do frames come and go by the preferred route? */
static void predict(struct rawe_conn *conn)
{
    bool preferred = conn->route == conn->preferred && conn->back == conn->preferred;
    conn->engine->table->migrated += !preferred - (conn->predicted == NULL);
    conn->predicted = preferred ? conn->engine : NULL;
}

/** Frame payload of a route, without the room for a checksum. */
static uint32_t payload_bytes(const struct rawe_route *route)
{
    return route->payload_max_bytes -
           (route->engine->config.checksum ? RAWE_CHECKSUM_ROOM_BYTES : 0);
}

void rawe_conn_path_open(struct rawe_conn *conn, struct rawe_route *preferred)
{
    uint32_t bytes = payload_bytes(preferred);
    uint32_t link_bytes = preferred->engine->config.payload_max_bytes;
    conn->preferred = conn->back = preferred;
    conn->into = conn->predicted = preferred->engine;
    conn->preferred_payload_max_bytes = bytes < link_bytes ? bytes : link_bytes;
    rawe_conn_path_use(conn, preferred);
}

void rawe_conn_path_use(struct rawe_conn *conn, struct rawe_route *route)
{
    const struct rawe_engine_config *config = &route->engine->config;
    uint32_t route_bytes = payload_bytes(route);
    conn->route = route;
    conn->via = route->engine;
    predict(conn);
    rawe_eth_header_encode(conn->eth_header, route->mac, config->mac, config->ethertype);
    conn->peer_port = route->port;
    conn->peer_key = route->key;
    conn->payload_max_bytes = conn->preferred_payload_max_bytes;
    if (route != conn->preferred && route_bytes < conn->payload_max_bytes) {
        conn->payload_max_bytes = route_bytes;
    }
}

void rawe_conn_path_asked(struct rawe_conn *conn, struct rawe_route *route)
{
    struct rawe_engine *engine = route->engine;
    if (conn->into != engine) { /* the peer's frames come into another ring */
        rawe_credit_close(&conn->into->credit, conn->lane, &conn->credit);
        rawe_credit_open(&engine->credit, conn->lane);
        rawe_grants_forget(&conn->into->grants, &conn->grant);
    }
    conn->into = engine;
    conn->back = route;
    predict(conn);
}

void rawe_conn_set_payload_max(struct rawe_conn *conn, uint32_t payload_max_bytes)
{
    if (conn->engine->config.checksum) {
        payload_max_bytes -= RAWE_CHECKSUM_ROOM_BYTES;
    }
    assert(payload_max_bytes >= RAWE_PAYLOAD_LEAST_BYTES); /* a CONNECT that says less is refused */
    rawe_conn_limit_payload(conn, payload_max_bytes);
}

void rawe_conn_path_shrunk(struct rawe_conn *conn, const struct rawe_route *route)
{
    uint32_t preferred_bytes = conn->preferred_payload_max_bytes;
    if (conn->preferred == route || conn->route == route) {
        rawe_conn_set_payload_max(conn, route->payload_max_bytes);
    }
    if (conn->preferred != route) {
        conn->preferred_payload_max_bytes = preferred_bytes;
    }
}
