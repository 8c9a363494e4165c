/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Engines of the in-memory network: see net_engine.h.
 */
#include "net_engine.h"

#include <string.h>

#include "net_harness.h"
#include "net_packet.h"
#include "conn/rawe_conn.h"

struct rawe_engine_config net_component_config(void)
{
    return (struct rawe_engine_config){
        .ethertype = RAWE_ETHERTYPE_DEFAULT,
        .jobid = 1,
        .payload_max_bytes = 1472,
        .message_max_bytes = 64 * 1024 + 64,
        .window_frames = 512,
        .receive_frames = 10240,
        .copy_max_bytes = 4096,
        .frames_limit = 1u << 17,
        .deferred_max_bytes = 8u << 20,
        .coalesce_from_frames = 4,
        .ack_delay_ns = 50000,
        .reorder_ns = 50000,
        .liveness.probe_least_ns = 200000,
        .liveness.probe_most_ns = 1000000000,
        .liveness.peer_timeout_ns = 30000000000,
        .streak_ns = 40000,
    };
}

void net_identify(struct rawe_engine_config *config, uint32_t index)
{
    struct rawe_peer_config who = net_peer_config(index);

    memcpy(config->mac, who.mac, RAWE_MAC_BYTES);
    config->port = who.port;
    config->key = who.key;
    config->vpid = index;
}

struct rawe_peer_config net_peer_config(uint32_t index)
{
    return (struct rawe_peer_config){
        .mac = {2, 0, 0, (uint8_t)(index >> 16), (uint8_t)(index >> 8), (uint8_t)index},
        .port = (uint16_t)(500 + index % 50000),
        .key = 0xABCD0000u + index,
    };
}

uint32_t net_index_of(const uint8_t *mac)
{
    return (uint32_t)mac[3] << 16 | (uint32_t)mac[4] << 8 | mac[5];
}

void net_engine_start(struct rawe_engine *engine, struct rawe_handle_table *handles,
                      const struct rawe_engine_config *config,
                      const struct rawe_callbacks *callbacks, net_transmit *transmit, void *context,
                      uint64_t now_ns)
{
    struct rawe_engine_config complete = *config;
    const struct rawe_output output = {.transmit = transmit, .context = context};

    rawe_handle_table_init(handles, config->key);
    complete.handles = handles;
    rawe_engine_init(engine, &complete, callbacks, context, &output, now_ns);
}

void net_engine_use_batches(struct rawe_engine *engine, uint32_t bytes_max,
                            net_transmit_batch *transmit)
{
    const struct rawe_batches batches = {
        .output = {.transmit = transmit, .context = engine->context},
        .bytes_max = bytes_max,
        .overhead_bytes = NET_BATCH_OVERHEAD_BYTES,
        .receive_frames = engine->config.receive_frames,
    };

    rawe_engine_use_batches(engine, &batches);
}

struct rawe_conn *net_engine_open(struct rawe_engine *engine, struct rawe_route *route,
                                  uint32_t index, unsigned lane, void *owner)
{
    struct rawe_peer_config who = net_peer_config(index);

    *route = (struct rawe_route){
        .engine = engine,
        .port = who.port,
        .key = who.key,
        .payload_max_bytes = engine->config.payload_max_bytes,
    };
    memcpy(route->mac, who.mac, RAWE_MAC_BYTES);
    rawe_route_init(route);
    return rawe_conn_open(route, lane, NULL, owner);
}

static void check_given_back(const struct rawe_engine *engine)
{
    uint32_t vpid = engine->config.vpid;
    unsigned buffers = 0;
    unsigned bundles = 0;

    for (void *const *buffer = engine->reassembly_buffers.free; buffer != NULL; buffer = *buffer) {
        buffers++;
    }
    for (void *const *bundle = engine->bundles.free; bundle != NULL; bundle = *bundle) {
        bundles++;
    }
    if (engine->frames.taken != 0 || buffers != engine->reassembly_buffers.allocated ||
        bundles != engine->bundles.allocated) {
        net_fail(
            "nothing leaks",
            "n%u at its end: %u of %u frames taken, %u of %u buffers, %u of %u bundles given back",
            vpid, engine->frames.taken, engine->frames.allocated, buffers,
            engine->reassembly_buffers.allocated, bundles, engine->bundles.allocated);
    }
    if (engine->timers.armed != 0 || engine->connections != 0 || rawe_engine_pending(engine)) {
        net_fail("nothing leaks", "n%u at its end: %u timers, %u connections left", vpid,
                 engine->timers.armed, engine->connections);
    }
}

bool net_receive(struct rawe_engine *engine, const uint8_t *bytes, uint32_t len_bytes,
                 uint64_t now_ns)
{
    const uint8_t *source_mac = bytes + RAWE_MAC_BYTES;

    if (!net_is_batch(bytes, len_bytes)) {
        rawe_engine_receive(engine, bytes, len_bytes, now_ns);
        return false;
    }
    uint32_t data_bytes = len_bytes - NET_BATCH_HEAD_BYTES;
    /* The header is in memory of exactly its length, so that sanitizers see reads beyond it. */
    uint8_t *head = net_new(RAWE_BATCH_HEADER_BYTES);
    memcpy(head, bytes + RAWE_ETH_HEADER_BYTES, RAWE_BATCH_HEADER_BYTES);
    uint8_t *place =
        rawe_engine_place(engine, source_mac, head, RAWE_BATCH_HEADER_BYTES, data_bytes);
    uint8_t *data = place != NULL ? place : net_new(data_bytes);

    memcpy(data, bytes + NET_BATCH_HEAD_BYTES, data_bytes);
    rawe_engine_receive_batch(engine, source_mac, head, RAWE_BATCH_HEADER_BYTES, data, data_bytes,
                              now_ns);
    if (place == NULL) {
        net_delete(data);
    }
    net_delete(head);
    return place != NULL;
}

void net_engine_stop(struct rawe_engine *engine)
{
    check_given_back(engine);
    rawe_engine_free(engine);
    rawe_handle_table_free(engine->config.handles);
    if (engine->reassembly_buffers.allocated != 0) {
        net_fail("nothing leaks", "n%u keeps buffers", engine->config.vpid);
    }
}
