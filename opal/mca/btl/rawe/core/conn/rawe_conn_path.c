/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The path of a connection: see rawe_conn_path.h.
 */
#include "rawe_conn_path.h"

#include <assert.h>
#include <string.h>

void rawe_conn_path_open(struct rawe_conn *conn, struct rawe_engine *engine,
                         const uint8_t peer_mac[RAWE_MAC_BYTES], uint16_t peer_port,
                         uint32_t peer_key, uint8_t peer_interface, uint32_t payload_max_bytes)
{
    const struct rawe_engine_config *config = &engine->config;
    if (config->checksum) {
        payload_max_bytes -= RAWE_CHECKSUM_ROOM_BYTES;
    }
    conn->via = conn->into = conn->predicted = engine;
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

static void write_eth_header(const struct rawe_route *route,
                             uint8_t eth_header[RAWE_ETH_HEADER_BYTES])
{
    const struct rawe_engine_config *config = &route->engine->config;
    memcpy(eth_header, route->mac, RAWE_MAC_BYTES);
    memcpy(eth_header + RAWE_MAC_BYTES, config->mac, RAWE_MAC_BYTES);
    eth_header[12] = (uint8_t)(config->ethertype >> 8);
    eth_header[13] = (uint8_t)config->ethertype;
}

/** Do frames come and go by the preferred route? */
static void predict(struct rawe_conn *conn)
{
    bool preferred = conn->route == conn->preferred && conn->back == conn->preferred;
    conn->engine->table->migrated += !preferred - (conn->predicted == NULL);
    conn->predicted = preferred ? conn->engine : NULL;
}

void rawe_conn_path_begin(struct rawe_conn *conn, struct rawe_route *preferred)
{
    conn->preferred = conn->route = conn->back = preferred;
}

void rawe_conn_path_use(struct rawe_conn *conn, struct rawe_route *route)
{
    uint32_t route_bytes = route->payload_max_bytes;
    conn->route = route;
    conn->via = route->engine;
    predict(conn);
    write_eth_header(route, conn->eth_header);
    conn->peer_port = route->port;
    conn->peer_key = route->key;
    if (route->engine->config.checksum) {
        route_bytes -= RAWE_CHECKSUM_ROOM_BYTES;
    }
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
    }
    conn->into = engine;
    conn->back = route;
    predict(conn);
}

struct rawe_engine *rawe_conn_path_address(const struct rawe_conn *conn, bool answers,
                                           uint8_t eth_header[RAWE_ETH_HEADER_BYTES],
                                           struct rawe_header *header)
{
    const struct rawe_route *back = conn->back;
    if (!answers || back == conn->route || back->down) {
        memcpy(eth_header, conn->eth_header, RAWE_ETH_HEADER_BYTES);
        header->port = conn->peer_port;
        header->key = conn->peer_key;
        return conn->via;
    }
    write_eth_header(back, eth_header);
    header->port = back->port;
    header->key = back->key;
    return back->engine;
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
