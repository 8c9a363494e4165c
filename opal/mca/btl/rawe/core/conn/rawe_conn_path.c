/* SPDX-License-Identifier: BSD-3-Clause */
#include "rawe_conn_path.h"

#include <assert.h>
#include <string.h>

/** Set `predicted`: frames of both directions take the preferred route, or not. */
static void predict(struct rawe_conn *conn)
{
    bool preferred =
        conn->path.route == conn->path.preferred && conn->path.back == conn->path.preferred;
    conn->engine->table->migrated += !preferred - (conn->path.predicted == NULL);
    conn->path.predicted = preferred ? conn->engine : NULL;
}

uint32_t rawe_conn_preferred_payload_bytes(const struct rawe_conn *conn)
{
    uint32_t bytes = conn->path.preferred->payload_max_bytes;
    return bytes < conn->path.accepted_max_bytes ? bytes : conn->path.accepted_max_bytes;
}

void rawe_conn_path_fit(struct rawe_conn *conn)
{
    uint32_t bytes = rawe_conn_preferred_payload_bytes(conn);
    uint32_t used_bytes = conn->path.route->payload_max_bytes;
    conn->path.payload_max_bytes = bytes < used_bytes ? bytes : used_bytes;
    assert(conn->path.payload_max_bytes >= RAWE_PAYLOAD_LEAST_BYTES); /* CONNECT must fit */
}

void rawe_conn_limit_payload(struct rawe_conn *conn, uint32_t payload_max_bytes)
{
    if (payload_max_bytes < conn->path.accepted_max_bytes) {
        conn->path.accepted_max_bytes = payload_max_bytes;
        rawe_conn_path_fit(conn);
    }
}

void rawe_conn_path_open(struct rawe_conn *conn, struct rawe_route *preferred)
{
    conn->path.preferred = conn->path.back = preferred;
    conn->path.into = conn->path.predicted = preferred->engine;
    conn->path.accepted_max_bytes = preferred->engine->config.payload_max_bytes;
    rawe_conn_path_use(conn, preferred);
}

void rawe_conn_path_use(struct rawe_conn *conn, struct rawe_route *route)
{
    const struct rawe_engine_config *config = &route->engine->config;
    if (conn->path.route != route) {
        conn->path.route_since_ns = conn->engine->now_ns;
    }
    conn->path.route = route;
    conn->path.via = route->engine;
    predict(conn);
    rawe_eth_header_encode(conn->path.eth_header, route->mac, config->mac, config->ethertype);
    conn->path.peer_port = route->port;
    conn->path.peer_key = route->key;
    rawe_conn_path_fit(conn);
}

void rawe_conn_path_asked(struct rawe_conn *conn, struct rawe_route *route)
{
    struct rawe_engine *engine = route->engine;
    if (conn->path.into != engine) { /* the peer's frames now arrive in another ring */
        bool open = conn->rx.credit.open;
        rawe_credit_close(&conn->path.into->pull.credit, conn->lane, &conn->rx.credit);
        if (open) {
            rawe_credit_open(&engine->pull.credit, conn->lane, &conn->rx.credit);
        }
        rawe_grants_forget(&conn->path.into->pull.grants, &conn->rx.grant);
    }
    conn->path.into = engine;
    conn->path.back = route;
    predict(conn);
}
