/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The path of a connection: see rawe_conn_path.h.
 */
#include "rawe_conn_path.h"

#include <assert.h>
#include <string.h>

/** Questions by which the peer learns that we have moved: for a quarter of a second. */
#define CONFIRMING_PROBES 8u

void rawe_conn_path_open(struct rawe_conn *conn, struct rawe_engine *engine,
                         const uint8_t peer_mac[RAWE_MAC_BYTES], uint16_t peer_port,
                         uint32_t peer_key, uint8_t peer_interface, uint32_t payload_max_bytes)
{
    const struct rawe_engine_config *config = &engine->config;
    if (config->checksum) {
        payload_max_bytes -= RAWE_CHECKSUM_ROOM_BYTES;
    }
    conn->via = conn->predicted = engine;
    memcpy(conn->eth_header, peer_mac, RAWE_MAC_BYTES);
    memcpy(conn->eth_header + RAWE_MAC_BYTES, config->mac, RAWE_MAC_BYTES);
    conn->eth_header[12] = (uint8_t)(config->ethertype >> 8);
    conn->eth_header[13] = (uint8_t)config->ethertype;
    conn->peer_port = peer_port;
    conn->peer_key = peer_key;
    conn->peer_interface = peer_interface;
    conn->payload_max_bytes = payload_max_bytes < config->payload_max_bytes
                                  ? payload_max_bytes
                                  : config->payload_max_bytes;
    conn->preferred_payload_max_bytes = conn->payload_max_bytes;
}

void rawe_conn_path_begin(struct rawe_conn *conn, struct rawe_route *preferred)
{
    conn->preferred = conn->route = preferred;
}

void rawe_conn_path_use(struct rawe_conn *conn, struct rawe_route *route)
{
    struct rawe_engine *engine = route->engine;
    uint32_t route_bytes = route->payload_max_bytes;
    struct rawe_conn_table *table = conn->engine->table;
    if (conn->via != engine) { /* the peer's frames come into another ring */
        rawe_credit_close(&conn->via->credit, conn->lane, &conn->credit);
        rawe_credit_open(&engine->credit, conn->lane);
    }
    table->migrated += (route != conn->preferred) - (conn->route != conn->preferred);
    conn->route = route;
    conn->via = route->engine;
    conn->predicted = route == conn->preferred ? conn->engine : NULL;
    memcpy(conn->eth_header, route->mac, RAWE_MAC_BYTES);
    memcpy(conn->eth_header + RAWE_MAC_BYTES, engine->config.mac, RAWE_MAC_BYTES);
    conn->peer_port = route->port;
    conn->peer_key = route->key;
    if (engine->config.checksum) {
        route_bytes -= RAWE_CHECKSUM_ROOM_BYTES;
    }
    conn->payload_max_bytes = conn->preferred_payload_max_bytes;
    if (route != conn->preferred && route_bytes < conn->payload_max_bytes) {
        conn->payload_max_bytes = route_bytes;
    }
}

void rawe_conn_path_reset(struct rawe_conn *conn)
{
    conn->newest_probe = 0;
    conn->migration = 0;
    conn->confirming = 0;
}

void rawe_conn_path_migrated(struct rawe_conn *conn, bool decided, uint64_t now_ns)
{
    conn->migrated_ns = now_ns;
    conn->migration += decided;
}

void rawe_conn_path_confirm_next(struct rawe_conn *conn)
{
    conn->confirming = CONFIRMING_PROBES;
}

void rawe_conn_path_confirmed(struct rawe_conn *conn)
{
    conn->confirming = 0;
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
