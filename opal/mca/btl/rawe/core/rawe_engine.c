/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The engine finds the connection of each frame, divides credit, and drives timers and rounds.
 */
#include "rawe_engine.h"

#include <assert.h>
#include <string.h>

#include "base/rawe_crc32c.h"
#include "conn/rawe_conn.h"
#include "conn/rawe_conn_batch.h"
#include "conn/rawe_conn_connect.h"
#include "conn/rawe_conn_tx.h"
#include "conn/rawe_conn_end.h"
#include "conn/rawe_conn_path.h"
#include "conn/rawe_conn_receive.h"
#include "conn/rawe_conn_record.h"
#include "routes/rawe_peer.h"

/*
 * While their owner cannot be called, the engines still acknowledge, probe and retransmit. They
 * keep deliveries and completions (rawe_reassembly.c) until the owner returns.
 */

void rawe_engine_defer_begin(struct rawe_engine *engine)
{
    engine->deferral->active = true;
}

void rawe_engine_defer_end(struct rawe_engine *engine)
{
    engine->deferral->active = engine->deferral->discards;
}

void rawe_engine_finalizing(struct rawe_engine *engine)
{
    engine->finalizing = engine->deferral->active = true;
    rawe_engine_complete_deferred(engine);
    rawe_conn_serve_forget(engine, RAWE_HANDLE_ANY);
    rawe_deferral_discard(engine->deferral);
    for (uint32_t i = 0; i < engine->table->size; i++) {
        struct rawe_conn *conn = engine->table->entries[i].conn;
        if (conn != NULL && conn->engine == engine) {
            rawe_conn_end_step(conn, RAWE_ON_FINALIZE);
        }
    }
}

static void report_losses(struct rawe_engine *engine)
{
    engine->deferral->losses_wait = false;
    for (uint32_t i = 0; i < engine->table->size; i++) {
        struct rawe_conn *conn = engine->table->entries[i].conn;
        if (conn != NULL) {
            rawe_conn_report_loss(conn);
        }
    }
}

void rawe_engine_complete_deferred(struct rawe_engine *engine)
{
    struct rawe_deferral *deferral = engine->deferral;
    rawe_conn_complete(engine, rawe_deferral_take_completed(deferral, RAWE_STATUS_DONE),
                       RAWE_STATUS_DONE);
    rawe_conn_complete(engine, rawe_deferral_take_completed(deferral, RAWE_STATUS_FAILED),
                       RAWE_STATUS_FAILED);
}

/** Keep the fragments that waited for room, and readmit refused senders. */
static void admit_all(struct rawe_engine *engine)
{
    engine->deferral->fragments_wait = engine->deferral->refused = false;
    for (uint32_t i = 0; i < engine->table->size; i++) {
        struct rawe_conn *conn = engine->table->entries[i].conn;
        if (conn != NULL) {
            rawe_conn_admit(conn);
        }
    }
}

/** Report deferred losses, completions and messages to the owner, oldest messages first. */
static void deliver_all(struct rawe_engine *engine)
{
    struct rawe_deferral *deferral = engine->deferral;
    if (deferral->losses_wait) {
        report_losses(engine);
    }
    rawe_engine_complete_deferred(engine);
    while (deferral->first != NULL) {
        rawe_conn_deliver_first(deferral);
    }
}

void rawe_engine_deliver_deferred(struct rawe_engine *engine)
{
    struct rawe_deferral *deferral = engine->deferral;
    do {
        deliver_all(engine);
        if (deferral->fragments_wait || deferral->refused) {
            admit_all(engine);
        }
    } while (rawe_deferral_has(deferral));
    rawe_deferral_note_reported(deferral); /* memory may still be unavailable */
}

/** Limit on reassembly buffers, over all connections. */
#define REASSEMBLY_BUFFERS_MAX 1024u

/** Minimum number of probes within the timeout: an answer counts when the next probe is due. */
#define PROBES_PER_TIMEOUT 4u

void rawe_engine_init(struct rawe_engine *engine, const struct rawe_engine_config *config,
                      const struct rawe_callbacks *callbacks, void *context,
                      const struct rawe_output *output, uint64_t now_ns)
{
    assert(config->window_frames >= 16 && config->window_frames <= RAWE_WINDOW_FRAMES_MAX &&
           (config->window_frames & (config->window_frames - 1)) == 0);
    assert(config->payload_max_bytes >= 256 && config->payload_max_bytes <= UINT16_MAX);
    memset(engine, 0, sizeof(*engine));
    engine->config = *config;
    if (engine->config.copy_max_bytes >
        engine->config.payload_max_bytes - RAWE_FRAGMENT_MESSAGE_BYTES) {
        engine->config.copy_max_bytes =
            engine->config.payload_max_bytes - RAWE_FRAGMENT_MESSAGE_BYTES;
    }
    uint64_t probe_most_ns = config->liveness.peer_timeout_ns / PROBES_PER_TIMEOUT;
    if (config->liveness.peer_timeout_ns != 0 && config->liveness.probe_most_ns > probe_most_ns) {
        engine->config.liveness.probe_most_ns = probe_most_ns;
    }
    if (config->congestion == NULL) {
        engine->config.congestion = rawe_cc_types[0];
    }
    engine->table = config->table != NULL ? config->table : &engine->own_table;
    engine->callbacks = *callbacks;
    engine->context = context;
    engine->output = *output;
    engine->now_ns = now_ns;
    engine->incarnation = now_ns;
    /*
     * A REPLY may name an operation of any engine in the process, so each has its own key. A later
     * engine has the same one if the process is initialized again. Operations are fewer than
     * nanoseconds, so adding the time makes its keys larger than all earlier ones.
     */
    rawe_operation_table_init(&engine->operations, ((uint64_t)config->key << 32) + now_ns);
    rawe_deferral_init(&engine->own_deferral, config->deferred_max_bytes);
    engine->deferral = config->deferral != NULL ? config->deferral : &engine->own_deferral;
    const struct rawe_pull_config pull = {
        .port_bytes = config->inflow_bytes,
        .link_mbps = config->link_mbps,
        .frame_bytes = config->payload_max_bytes + RAWE_FRAME_WIRE_BYTES,
        .ring_frames = config->receive_frames,
        .window_frames = config->window_frames,
        .host = config->host,
        .host_index = config->host_index,
        .operations = &engine->operations,
    };
    rawe_pull_init(&engine->pull, &pull, now_ns);
    rawe_timer_wheel_init(&engine->timers, now_ns);
    rawe_conn_owing_init(engine);
    rawe_list_init(&engine->pending);
    rawe_list_init(&engine->flushing);
    rawe_list_init(&engine->serving.used);
    rawe_list_init(&engine->serving.free);
    rawe_txframe_pool_init(&engine->frames, engine->config.copy_max_bytes + RAWE_FRAGMENT_BYTES_MAX,
                           config->frames_limit);
    rawe_buffer_pool_init(&engine->reassembly_buffers,
                          sizeof(struct rawe_partial) + config->message_max_bytes,
                          REASSEMBLY_BUFFERS_MAX);
    rawe_conn_bundle_pool_init(&engine->bundles);
}

void rawe_engine_free(struct rawe_engine *engine)
{
    rawe_txframe_pool_free(&engine->frames);
    rawe_buffer_pool_free(&engine->reassembly_buffers);
    rawe_buffer_pool_free(&engine->bundles);
    rawe_conn_serve_free(engine);
    rawe_conn_table_free(&engine->own_table);
}

void rawe_engine_use_batches(struct rawe_engine *engine, const struct rawe_batches *batches)
{
    engine->batches = *batches;
    rawe_credit_use_bulk(&engine->pull.credit, batches->receive_frames);
}

/** Return true if the frame or packet being received may come from this UDP port. */
static inline bool is_from_port(const struct rawe_engine *engine, uint16_t port)
{
    return engine->source_port == 0 || engine->source_port == port;
}

/** Find the route over which the current frame arrived; NULL: none. */
static struct rawe_route *route_from(const struct rawe_engine *engine, struct rawe_route *preferred,
                                     const uint8_t *source_mac)
{
    return rawe_route_from(preferred, engine, source_mac, engine->source_port);
}

/**
 * Find the route of a CONNECT or PROBE. The peer may have found a route unknown to us, or its
 * interface may have a new address. `from` is NULL if the frame does not identify its sender.
 */
static struct rawe_route *route_asked(const struct rawe_engine *engine,
                                      const struct rawe_conn *conn, const struct rawe_connect *from,
                                      const uint8_t *source_mac)
{
    struct rawe_route *route = route_from(engine, conn->path.preferred, source_mac);
    if (route == NULL && from != NULL && engine->callbacks.unknown_source != NULL) {
        engine->callbacks.unknown_source(engine->context, conn, from, source_mac);
        route = route_from(engine, conn->path.preferred, source_mac);
    }
    return route;
}

/** Find the route over which a frame of a connection arrived. */
static struct rawe_route *route_of(const struct rawe_engine *engine, const struct rawe_conn *conn,
                                   const struct rawe_header *header, const uint8_t *payload,
                                   const uint8_t *source_mac)
{
    struct rawe_connect from;
    bool identified =
        header->type == RAWE_FRAME_PROBE &&
        rawe_connect_decode(&from, payload, header->payload_bytes) == RAWE_DECODE_OK &&
        from.connection_id == conn->handshake.peer_id;
    return route_asked(engine, conn, identified ? &from : NULL, source_mac);
}

/** Return true if the request is from the connection's own interface, over any route. */
static bool is_preferred(const struct rawe_conn *conn, const struct rawe_connect *from)
{
    return from->key == conn->path.preferred->key && from->port == conn->path.preferred->port;
}

/** Return true if a frame arrived over the predicted route. Routes may share a peer address. */
static inline bool is_predicted(const struct rawe_engine *engine, const struct rawe_conn *conn,
                                const uint8_t *source_mac)
{
    return __builtin_expect(conn->path.predicted == engine, 1) &&
           memcmp(conn->path.eth_header, source_mac, RAWE_MAC_BYTES) == 0 &&
           is_from_port(engine, conn->path.peer_port);
}

/** Return true if a connection with these routes leads to the peer `from` at that address. */
static bool leads_to(struct rawe_route *preferred, const struct rawe_route *used,
                     const struct rawe_engine *engine, const struct rawe_connect *from,
                     const uint8_t *source_mac)
{
    const struct rawe_route *route = route_from(engine, preferred, source_mac);
    if (route == NULL && memcmp(used->mac, source_mac, RAWE_MAC_BYTES) == 0 &&
        is_from_port(engine, used->port)) {
        route = used;
    }
    return route != NULL && route->key == from->key && route->port == from->port;
}

/** Return true if the peer names one of our connections by its id. */
static bool is_connected(const struct rawe_engine *engine, const struct rawe_connect *from,
                         const uint8_t *source_mac)
{
    for (uint32_t index = 0; index < engine->table->size; index++) {
        const struct rawe_conn *conn = engine->table->entries[index].conn;
        if (conn != NULL && conn->handshake.peer_id == from->connection_id &&
            leads_to(conn->path.preferred, conn->path.route, engine, from, source_mac)) {
            return true;
        }
    }
    return false;
}

/** Answer a peer that probes a closed connection, or requests one while we are finalizing. */
__attribute__((cold)) static void answer_closed(struct rawe_engine *engine,
                                                const struct rawe_header *question,
                                                const uint8_t *source_mac, const uint8_t *payload)
{
    struct rawe_connect from;
    /*
     * A group address is never a sender; an answer to one would reach all hosts. Answer only at the
     * port that asked.
     */
    if ((source_mac[0] & 1) != 0 ||
        rawe_connect_decode(&from, payload, question->payload_bytes) != RAWE_DECODE_OK ||
        !is_from_port(engine, from.port) || is_connected(engine, &from, source_mac)) {
        return;
    }
    uint8_t buffer[RAWE_PAYLOAD_OFFSET + RAWE_CHECKSUM_BYTES];
    struct rawe_header header = {
        .type = RAWE_FRAME_CLOSE,
        .flags = RAWE_FLAG_REPLY | (engine->finalizing ? RAWE_FLAG_FINALIZING : 0),
        .port = from.port,
        .key = from.key,
        .connection_id = from.connection_id,
        .acknowledgement = question->acknowledgement,
    };
    rawe_eth_header_encode(buffer, source_mac, engine->config.mac, engine->config.ethertype);
    (void)rawe_conn_transmit_sealed(engine, buffer, &header);
}

__attribute__((cold)) static void receive_connect(struct rawe_engine *engine,
                                                  const struct rawe_header *header,
                                                  const uint8_t *source_mac, const uint8_t *payload,
                                                  uint64_t now_ns)
{
    struct rawe_connect from;
    if (rawe_connect_decode(&from, payload, header->payload_bytes) != RAWE_DECODE_OK ||
        from.lane >= RAWE_LANES || from.connection_id == 0 ||
        from.payload_max_bytes < RAWE_PAYLOAD_LEAST_BYTES || from.payload_max_bytes > UINT16_MAX) {
        engine->counters.dropped_length++;
        return;
    }
    bool reply = (header->flags & RAWE_FLAG_REPLY) != 0;
    struct rawe_conn *conn;
    if (reply) {
        conn = rawe_conn_table_find(engine->table, header->connection_id);
        if (conn == NULL) {
            engine->counters.dropped_connection++;
            return;
        }
    } else {
        conn = engine->callbacks.accept(engine->context, &from, source_mac);
        if (conn == NULL) {
            engine->counters.dropped_unknown_peer++;
            if (engine->finalizing) {
                answer_closed(engine, header, source_mac, payload);
            }
            return;
        }
    }
    if (!is_predicted(engine, conn, source_mac)) {
        struct rawe_route *route = route_asked(engine, conn, &from, source_mac);
        if (route == NULL) {
            engine->counters.dropped_source++;
            return;
        }
        now_ns = rawe_engine_time(conn->engine, now_ns);
        if (!reply && is_preferred(conn, &from)) {
            rawe_conn_path_asked(conn, route);
        }
    }
    if (!is_preferred(conn, &from) || from.lane != conn->lane) {
        engine->counters.dropped_unknown_peer++;
        return;
    }
    bool opening = conn->handshake.state == RAWE_CONN_CONNECTING;
    bool newer = conn->handshake.peer_incarnation != from.incarnation;
    rawe_conn_receive_connect(conn, &from, reply, now_ns);
    if (conn->handshake.peer_incarnation == from.incarnation) {
        if (newer && (header->flags & RAWE_FLAG_FINALIZING) == 0) {
            rawe_conn_note_session(conn);
        }
        rawe_conn_note_finalizing(conn, header);
    }
    if (opening && conn->handshake.state == RAWE_CONN_OPEN) {
        rawe_conn_note_credit(&conn->tx, header->credit, false, false, false, now_ns);
    }
}

/** Count a dropped frame by its reason. A header that could be decoded names another process. */
__attribute__((cold)) static void count_dropped(struct rawe_counters *counters,
                                                enum rawe_decode_result decoded)
{
    switch (decoded) {
    case RAWE_DECODE_OK:
        counters->dropped_key++;
        break;
    case RAWE_DECODE_SHORT:
        counters->dropped_short++;
        break;
    case RAWE_DECODE_VERSION:
        counters->dropped_version++;
        break;
    case RAWE_DECODE_TYPE:
        counters->dropped_type++;
        break;
    case RAWE_DECODE_LENGTH:
        counters->dropped_length++;
        break;
    }
}

/**
 * Accept a frame that arrived over a route its connection does not use, perhaps for a connection of
 * another engine. Returns false, and counts the frame, if the route is unknown: drop the frame. Not
 * inlined, to keep the usual path short.
 */
__attribute__((noinline)) static bool pass_on(struct rawe_engine *engine, struct rawe_conn *conn,
                                              const uint8_t *source_mac,
                                              const struct rawe_header *header,
                                              const uint8_t *payload, uint64_t now_ns)
{
    struct rawe_engine *owner = conn->engine;
    struct rawe_route *route = route_of(engine, conn, header, payload, source_mac);
    if (route == NULL) {
        engine->counters.dropped_source++;
        return false;
    }
    (void)rawe_engine_time(owner, now_ns);
    rawe_engine_arriving(owner, engine->arrived_ns);
    engine->probes_passed_on += header->type == RAWE_FRAME_PROBE;
    if (header->type != RAWE_FRAME_ACK && header->type != RAWE_FRAME_CLOSE) {
        rawe_conn_path_asked(conn, route);
    }
    return true;
}

/** Dispatch a frame for this process, with or without a batch header. */
static inline void dispatch_frame(struct rawe_engine *engine, const uint8_t *source_mac,
                                  const struct rawe_header *header, const uint8_t *payload,
                                  const struct rawe_batch *batch, uint64_t now_ns)
{
    struct rawe_conn *conn = rawe_conn_table_find(engine->table, header->connection_id);
    if (__builtin_expect(conn == NULL, 0)) {
        if (header->type == RAWE_FRAME_PROBE) {
            answer_closed(engine, header, source_mac, payload);
        }
        engine->counters.dropped_connection++;
        return;
    }
    if (__builtin_expect(!is_predicted(engine, conn, source_mac), 0)) {
        if (!pass_on(engine, conn, source_mac, header, payload, now_ns)) {
            return;
        }
        now_ns = conn->engine->now_ns;
    }
    if (batch != NULL) {
        rawe_conn_receive_batch(conn, batch, now_ns);
    } else {
        rawe_conn_receive(conn, header, payload, now_ns);
    }
}

__attribute__((hot)) void rawe_engine_receive(struct rawe_engine *engine, const uint8_t *frame,
                                              size_t len_bytes, uint64_t now_ns)
{
    struct rawe_header header;
    const uint8_t *source_mac = frame + RAWE_MAC_BYTES;
    const uint8_t *bytes = frame + RAWE_ETH_HEADER_BYTES;
    now_ns = rawe_engine_time(engine, now_ns);
    if (__builtin_expect(len_bytes < RAWE_ETH_HEADER_BYTES, 0)) {
        engine->counters.dropped_short++;
        return;
    }
    len_bytes -= RAWE_ETH_HEADER_BYTES;
    enum rawe_decode_result decoded = rawe_header_decode(&header, bytes, len_bytes);
    if (decoded != RAWE_DECODE_OK || header.port != engine->config.port ||
        header.key != engine->config.key) {
        count_dropped(&engine->counters, decoded);
        return;
    }
    size_t covered_bytes = RAWE_HEADER_BYTES + (size_t)header.payload_bytes;
    if (len_bytes < covered_bytes + RAWE_CHECKSUM_BYTES ||
        (!engine->config.checksummed &&
         rawe_checksum_decode(bytes + covered_bytes) != rawe_crc32c(0, bytes, covered_bytes))) {
        engine->counters.dropped_checksum++;
    } else if (header.type == RAWE_FRAME_CONNECT) {
        receive_connect(engine, &header, source_mac, bytes + RAWE_HEADER_BYTES, now_ns);
    } else {
        dispatch_frame(engine, source_mac, &header, bytes + RAWE_HEADER_BYTES, NULL, now_ns);
    }
}

uint8_t *rawe_engine_place(struct rawe_engine *engine, const uint8_t *source_mac,
                           const uint8_t *head, size_t head_bytes, size_t data_bytes)
{
    struct rawe_batch batch;
    if (rawe_batch_decode(&batch, head, head_bytes, data_bytes) != RAWE_DECODE_OK ||
        batch.header.type != RAWE_FRAME_BULK || batch.header.port != engine->config.port ||
        batch.header.key != engine->config.key) {
        return NULL;
    }
    struct rawe_conn *conn = rawe_conn_table_find(engine->table, batch.header.connection_id);
    if (conn == NULL) {
        return NULL;
    }
    return is_predicted(engine, conn, source_mac) ||
                   route_from(engine, conn->path.preferred, source_mac) != NULL
               ? rawe_conn_place(conn, &batch)
               : NULL;
}

void rawe_engine_receive_batch(struct rawe_engine *engine, const uint8_t *source_mac,
                               const uint8_t *head, size_t head_bytes, const uint8_t *data,
                               size_t data_bytes, uint64_t now_ns)
{
    struct rawe_batch batch;
    struct rawe_header *header = &batch.header;
    now_ns = rawe_engine_time(engine, now_ns);
    enum rawe_decode_result decoded = rawe_batch_decode(&batch, head, head_bytes, data_bytes);
    if (decoded != RAWE_DECODE_OK || header->port != engine->config.port ||
        header->key != engine->config.key) {
        count_dropped(&engine->counters, decoded);
        return;
    }
    if (header->type == RAWE_FRAME_BULK) {
        batch.fragment.data = data;
        dispatch_frame(engine, source_mac, header, data, &batch, now_ns);
    } else if (header->type == RAWE_FRAME_PROBE) {
        dispatch_frame(engine, source_mac, header, data, NULL, now_ns);
    } else {
        engine->counters.dropped_type++;
    }
}

/** After an epoch, report new credit to peers to which no other frame would report it. */
static void update_credit(struct rawe_engine *engine)
{
    if (!rawe_credit_review(&engine->pull.credit)) {
        return; /* with a thousand peers, the loop below is expensive */
    }
    for (uint32_t i = 0; i < engine->table->size; i++) {
        struct rawe_conn *conn = engine->table->entries[i].conn;
        if (conn == NULL || conn->path.into != engine || conn->handshake.state != RAWE_CONN_OPEN) {
            continue;
        }
        rawe_credit_keep(&engine->pull.credit, conn->lane, &conn->rx.credit);
        if (!conn->rx.window.ack_now &&
            rawe_credit_outdated(&engine->pull.credit, conn->lane, &conn->rx.credit)) {
            rawe_conn_report_credit(conn);
        }
    }
}

/** Begin a credit epoch if due, even in rounds: no timer may be armed here while a peer waits. */
__attribute__((hot)) static void advance_credit(struct rawe_engine *engine, uint64_t now_ns)
{
    if (rawe_credit_advance(&engine->pull.credit, now_ns)) {
        update_credit(engine);
    }
}

/** Begin a flush for the links of other engines that this engine's connections use. */
static void begin_elsewhere(struct rawe_engine *engine, uint64_t now_ns)
{
    const struct rawe_link *flushing = &engine->flushing;
    for (struct rawe_link *link = flushing->next; link != flushing; link = link->next) {
        const struct rawe_conn *conn = RAWE_OWNER(link, struct rawe_conn, pending);
        if (conn->path.via != engine) {
            conn->path.via->link_full = conn->path.via->batches_full = false;
        }
        if (conn->path.into != engine) {
            advance_credit(conn->path.into, now_ns); /* its own rounds may be over */
        }
    }
}

/** Grant peers their shares, and owe them acknowledgements that report the grants. */
static void grant_shares(struct rawe_engine *engine, uint64_t now_ns)
{
    struct rawe_grants *grants = &engine->pull.grants;
    struct rawe_grants_member *member;
    while (grants->waits && (member = rawe_grants_next(grants, now_ns)) != NULL) {
        rawe_conn_report_credit(RAWE_OWNER(member, struct rawe_conn, rx.grant));
    }
}

void rawe_engine_flush(struct rawe_engine *engine, uint64_t now_ns)
{
    now_ns = rawe_engine_time(engine, now_ns);
    advance_credit(engine, now_ns);
    grant_shares(engine, now_ns);
    /* A flush from a callback also finishes the outer flush, which the callback may wait for. */
    rawe_list_append_all(&engine->flushing, &engine->pending);
    engine->link_full = engine->batches_full = false;
    rawe_peer_begin_waiting(engine);
    if (engine->table->migrated != 0) {
        begin_elsewhere(engine, now_ns);
    }
    struct rawe_link *link;
    while ((link = rawe_list_take(&engine->flushing)) != NULL) {
        rawe_conn_flush(RAWE_OWNER(link, struct rawe_conn, pending), now_ns);
    }
}

__attribute__((hot)) void rawe_engine_advance(struct rawe_engine *engine, uint64_t now_ns)
{
    now_ns = rawe_engine_time(engine, now_ns);
    advance_credit(engine, now_ns);
    rawe_txframe_pool_trim(&engine->frames, now_ns);
    rawe_timer_wheel_advance(&engine->timers, now_ns);
}
