/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The engine: finds the connection a frame is for, shares out credit, drives timers and batches.
 */
#include "rawe_engine.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "rawe_conn.h"

/** Reassembly buffers in existence at most, over all connections. */
#define REASSEMBLY_BUFFERS_MAX 1024u

/** Senders are counted per epoch of this length, for sharing out the ring. */
#define EPOCH_NS 10000000ull

bool rawe_engine_init(struct rawe_engine *engine, const struct rawe_engine_config *config,
                      const struct rawe_callbacks *callbacks, void *context,
                      const struct rawe_output *output, uint64_t now_ns)
{
    assert(config->window_frames >= 16 && config->window_frames <= RAWE_WINDOW_FRAMES_MAX &&
           (config->window_frames & (config->window_frames - 1)) == 0);
    assert(config->payload_max_bytes >= 256 && config->payload_max_bytes <= UINT16_MAX);
    memset(engine, 0, sizeof(*engine));
    engine->config = *config;
    if (engine->config.copy_max_bytes > config->payload_max_bytes - RAWE_CHUNK_MESSAGE_BYTES) {
        engine->config.copy_max_bytes = config->payload_max_bytes - RAWE_CHUNK_MESSAGE_BYTES;
    }
    engine->callbacks = *callbacks;
    engine->context = context;
    engine->output = *output;
    engine->now_ns = now_ns;
    engine->epoch_start_ns = now_ns;
    engine->epoch = 1;
    engine->incarnation = now_ns;
    rawe_engine_share_credit(engine);
    rawe_timer_wheel_init(&engine->timers, now_ns);
    rawe_handle_table_init(&engine->handles, config->seed);
    rawe_txframe_pool_init(&engine->frames,
                           engine->config.copy_max_bytes + RAWE_CHUNK_BYTES_MAX,
                           config->frames_limit);
    rawe_buffer_pool_init(&engine->reassembly_buffers, config->message_max_bytes,
                          REASSEMBLY_BUFFERS_MAX);
    return true;
}

void rawe_engine_free(struct rawe_engine *engine)
{
    assert(engine->open_count == 0);
    rawe_handle_table_free(&engine->handles);
    rawe_txframe_pool_free(&engine->frames);
    rawe_buffer_pool_free(&engine->reassembly_buffers);
    free(engine->table);
    free(engine->generations);
    engine->table = NULL;
    engine->generations = NULL;
    engine->table_size = 0;
}

static struct rawe_conn *find(const struct rawe_engine *engine, uint32_t connection_id)
{
    uint32_t index = connection_id & 0xFFFFFu;
    if (index >= engine->table_size || engine->table[index] == NULL ||
        engine->table[index]->local_id != connection_id) {
        return NULL;
    }
    return engine->table[index];
}

static void receive_connect(struct rawe_engine *engine, const struct rawe_header *header,
                            const uint8_t *frame, uint64_t now_ns)
{
    struct rawe_connect from;
    if (rawe_connect_decode(&from, frame + RAWE_PAYLOAD_OFFSET, header->payload_bytes) !=
            RAWE_DECODE_OK ||
        from.lane >= RAWE_LANES || from.connection_id == 0) {
        engine->counters.dropped_length++;
        return;
    }
    const uint8_t *source_mac = frame + RAWE_MAC_BYTES;
    bool reply = (header->flags & RAWE_FLAG_REPLY) != 0;
    struct rawe_conn *conn;
    if (reply) {
        conn = find(engine, header->connection_id);
        if (conn == NULL) {
            engine->counters.dropped_connection++;
            return;
        }
    } else {
        conn = engine->callbacks.accept(engine->context, &from, source_mac);
        if (conn == NULL) {
            engine->counters.dropped_stranger++;
            return;
        }
    }
    if (memcmp(conn->eth_header, source_mac, RAWE_MAC_BYTES) != 0) {
        engine->counters.dropped_source++;
        return;
    }
    if (from.key != conn->peer_key || from.port != conn->peer_port || from.lane != conn->lane) {
        engine->counters.dropped_stranger++;
        return;
    }
    rawe_conn_receive_connect(conn, &from, reply, now_ns);
    if (reply && header->credit > conn->peer_credit) {
        conn->peer_credit = header->credit;
    }
}

void rawe_engine_receive(struct rawe_engine *engine, const uint8_t *frame, size_t len_bytes,
                         uint64_t now_ns)
{
    engine->now_ns = now_ns;
    if (len_bytes < RAWE_ETH_HEADER_BYTES) {
        engine->counters.dropped_short++;
        return;
    }
    struct rawe_header header;
    switch (rawe_header_decode(&header, frame + RAWE_ETH_HEADER_BYTES,
                               len_bytes - RAWE_ETH_HEADER_BYTES)) {
    case RAWE_DECODE_OK:
        break;
    case RAWE_DECODE_SHORT:
        engine->counters.dropped_short++;
        return;
    case RAWE_DECODE_VERSION:
        engine->counters.dropped_version++;
        return;
    case RAWE_DECODE_TYPE:
        engine->counters.dropped_type++;
        return;
    case RAWE_DECODE_LENGTH:
        engine->counters.dropped_length++;
        return;
    }
    if (header.port != engine->config.port || header.key != engine->config.key) {
        engine->counters.dropped_key++;
        return;
    }
    if (header.type == RAWE_FRAME_CONNECT) {
        receive_connect(engine, &header, frame, now_ns);
        return;
    }
    struct rawe_conn *conn = find(engine, header.connection_id);
    if (conn == NULL) {
        engine->counters.dropped_connection++;
        return;
    }
    if (memcmp(conn->eth_header, frame + RAWE_MAC_BYTES, RAWE_MAC_BYTES) != 0) {
        engine->counters.dropped_source++;
        return;
    }
    rawe_conn_receive(conn, &header, frame + RAWE_PAYLOAD_OFFSET, now_ns);
}

void rawe_engine_flush(struct rawe_engine *engine, uint64_t now_ns)
{
    engine->now_ns = now_ns;
    if (engine->flushing != NULL) {
        return; /* called from a callback of the flush further up the stack, which goes on */
    }
    engine->flushing = engine->pending;
    engine->pending = NULL;
    while (engine->flushing != NULL) {
        struct rawe_conn *conn = engine->flushing;
        engine->flushing = conn->next_pending;
        conn->is_pending = false;
        rawe_conn_flush(conn, now_ns);
    }
}

void rawe_engine_advance(struct rawe_engine *engine, uint64_t now_ns)
{
    engine->now_ns = now_ns;
    if (now_ns - engine->epoch_start_ns >= EPOCH_NS) {
        engine->active_receivers = engine->active_receivers_now;
        engine->active_receivers_now = 0;
        engine->epoch_start_ns = now_ns;
        engine->epoch++;
        rawe_engine_share_credit(engine);
    }
    rawe_timer_wheel_advance(&engine->timers, now_ns);
}

void rawe_engine_share_credit(struct rawe_engine *engine)
{
    uint32_t senders = engine->active_receivers > engine->active_receivers_now
                           ? engine->active_receivers
                           : engine->active_receivers_now;
    /* A quarter of the ring stays free for control frames and for senders that begin. */
    uint32_t credit = engine->config.receive_frames * 3 / 4 / (senders == 0 ? 1 : senders);
    if (credit > engine->config.window_frames) {
        credit = engine->config.window_frames;
    }
    engine->credit = (uint16_t)(credit < RAWE_CONGESTION_LEAST_FRAMES
                                    ? RAWE_CONGESTION_LEAST_FRAMES
                                    : credit);
}
