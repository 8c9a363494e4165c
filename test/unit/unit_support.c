/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Two engines wired together in memory: see unit_support.h.
 */
#include "unit_support.h"

#include <stdlib.h>
#include <string.h>

/** More steps than any test needs to come to rest. */
#define STEPS_MAX 100000u

static void node_mac(unsigned index, uint8_t mac[RAWE_MAC_BYTES])
{
    static const uint8_t base[RAWE_MAC_BYTES] = {0x02, 0, 0, 0, 0, 0x10};
    memcpy(mac, base, RAWE_MAC_BYTES);
    mac[5] = (uint8_t)(mac[5] + index);
}

static uint16_t node_port(unsigned index)
{
    return (uint16_t)(500 + index);
}

static uint32_t node_key(unsigned index)
{
    return 0xABCD0000u + index;
}

void unit_init(struct unit_net *net)
{
    memset(net, 0, sizeof(*net));
    net->wire_tail = &net->wire;
    net->now_ns = 5 * UNIT_S;
    net->config = (struct rawe_engine_config){
        .ethertype = RAWE_ETHERTYPE_DEFAULT,
        .jobid = 77,
        .payload_max_bytes = 1462,
        .message_max_bytes = 65536,
        .window_frames = 64,
        .receive_frames = 256,
        .copy_max_bytes = 1024,
        .frames_limit = 4096,
        .deferred_max_bytes = 8u << 20,
        .ack_delay_ns = 50 * UNIT_US,
        .liveness.probe_least_ns = 500 * UNIT_US,
        .liveness.probe_most_ns = 100 * UNIT_MS,
        .reorder_ns = 100 * UNIT_US,
        .liveness.peer_timeout_ns = 5 * UNIT_S,
    };
}

/** Every frame an engine sends is checked here for what must hold of all of them. */
static struct unit_frame *frame_sent(struct unit_node *node, const struct rawe_frame *view)
{
    struct unit_frame *frame = calloc(1, sizeof(*frame));
    assert_non_null(frame);
    assert_in_range(view->piece_count, 1, RAWE_FRAME_PIECES_MAX);
    assert_true(view->len_bytes >= RAWE_PAYLOAD_OFFSET);
    assert_true(view->len_bytes <= RAWE_PAYLOAD_OFFSET + node->net->config.payload_max_bytes);
    frame->bytes = malloc(view->len_bytes);
    assert_non_null(frame->bytes);
    for (unsigned i = 0; i < view->piece_count; i++) {
        assert_true(frame->len_bytes + view->pieces[i].len_bytes <= view->len_bytes);
        memcpy(frame->bytes + frame->len_bytes, view->pieces[i].base, view->pieces[i].len_bytes);
        frame->len_bytes += view->pieces[i].len_bytes;
    }
    assert_int_equal(frame->len_bytes, view->len_bytes);
    uint8_t mac[RAWE_MAC_BYTES];
    node_mac(node->index, mac);
    assert_memory_equal(frame->bytes + RAWE_MAC_BYTES, mac, RAWE_MAC_BYTES);
    node_mac(1 - node->index, mac);
    assert_memory_equal(frame->bytes, mac, RAWE_MAC_BYTES);
    assert_int_equal(frame->bytes[12] << 8 | frame->bytes[13], RAWE_ETHERTYPE_DEFAULT);
    assert_int_equal(rawe_header_decode(&frame->header, frame->bytes + RAWE_ETH_HEADER_BYTES,
                                        frame->len_bytes - RAWE_ETH_HEADER_BYTES),
                     RAWE_DECODE_OK);
    assert_int_equal(
        RAWE_PAYLOAD_OFFSET + frame->header.payload_bytes +
            ((frame->header.flags & RAWE_FLAG_CHECKSUM) != 0 ? RAWE_CHECKSUM_BYTES : 0),
        frame->len_bytes);
    assert_int_equal(frame->header.port, node_port(1 - node->index));
    assert_int_equal(frame->header.key, node_key(1 - node->index));
    frame->from = node->index;
    frame->to = 1 - node->index;
    return frame;
}

/** With zeros, as rawe_bulk_transmit does it in the middle of a batch. */
static void fill_up(struct unit_frame *frame, size_t len_bytes)
{
    frame->bytes = realloc(frame->bytes, len_bytes);
    assert_non_null(frame->bytes);
    memset(frame->bytes + frame->len_bytes, 0, len_bytes - frame->len_bytes);
    frame->len_bytes = len_bytes;
}

static unsigned put_on_wire(struct unit_node *node, const struct rawe_frame *frames, unsigned count,
                            unsigned batch)
{
    unsigned taken = 0;
    while (taken < count && node->link_room != 0) {
        struct unit_frame *frame = frame_sent(node, &frames[taken++]);
        frame->batch = batch;
        if (batch != 0 && taken < count) {
            fill_up(frame, frames[0].len_bytes);
        }
        if (node->link_room != UINT32_MAX) {
            node->link_room--;
        }
        node->sent[frame->header.type]++;
        if (batch != 0 && node->net->batches_vanish) {
            unit_frame_free(frame);
            continue;
        }
        if (node->net->filter != NULL && !node->net->filter(node->net, frame)) {
            unit_frame_free(frame);
        } else {
            unit_wire_put(node->net, frame);
        }
    }
    return taken;
}

static unsigned transmit(void *context, const struct rawe_frame *frames, unsigned count)
{
    return put_on_wire(context, frames, count, 0);
}

/** By how much a frame may be filled up: more, when it is a long message's last. */
static uint32_t fill_most_bytes(const struct rawe_batches *batches, const struct rawe_frame *frame)
{
    const uint8_t *cursor = (const uint8_t *)frame->pieces[0].base + RAWE_PAYLOAD_OFFSET;
    uint8_t bytes[RAWE_FRAGMENT_PART_BYTES];
    struct rawe_fragment fragment;
    memcpy(bytes, cursor, sizeof(bytes));
    bytes[2] = bytes[3] = 0; /* its data is elsewhere */
    cursor = bytes;
    if (bytes[0] != RAWE_FRAGMENT_PART ||
        rawe_fragment_decode(&fragment, &cursor, bytes + sizeof(bytes)) != RAWE_DECODE_OK) {
        return 0;
    }
    uint32_t part_bytes = fragment.total_bytes / 16;
    return part_bytes > batches->fill_max_bytes ? part_bytes : batches->fill_max_bytes;
}

/** Takes a batch as a whole or not at all, and checks what makes frames a batch. */
static unsigned transmit_batch(void *context, const struct rawe_frame *frames, unsigned count)
{
    struct unit_node *node = context;
    const struct rawe_batches *batches = &node->engine.batches;
    uint32_t bytes = 0;
    assert_in_range(count, 1, batches->frames_max);
    for (unsigned i = 0; i < count; i++) {
        assert_true(frames[i].len_bytes <= frames[0].len_bytes);
        assert_true(i + 1 == count || frames[0].len_bytes - frames[i].len_bytes <=
                                          fill_most_bytes(batches, &frames[i]));
        assert_true(frames[i].len_bytes <= RAWE_PAYLOAD_OFFSET +
                                               node->net->config.payload_max_bytes -
                                               batches->overhead_bytes);
        bytes += frames[i + 1 == count ? i : 0].len_bytes - RAWE_ETH_HEADER_BYTES;
    }
    assert_true(bytes <= batches->bytes_max);
    if (node->link_room < count) {
        return 0;
    }
    return put_on_wire(node, frames, count, ++node->net->batch_number);
}

static void deliver(void *context, struct rawe_conn *conn, uint8_t tag, const uint8_t *data,
                    size_t len_bytes)
{
    struct unit_node *node = context;
    assert_false(node->engine.deferral.active);
    if ((node->message_count & (node->message_count - 1)) == 0) {
        size_t room = node->message_count == 0 ? 1 : 2 * (size_t)node->message_count;
        node->messages = realloc(node->messages, room * sizeof(*node->messages));
        assert_non_null(node->messages);
    }
    struct unit_message *message = &node->messages[node->message_count++];
    message->tag = tag;
    message->len_bytes = len_bytes;
    message->data = malloc(len_bytes != 0 ? len_bytes : 1);
    assert_non_null(message->data);
    if (len_bytes != 0) {
        memcpy(message->data, data, len_bytes);
    }
    if (node->on_deliver != NULL) {
        node->on_deliver(node, conn, tag);
    }
}

static struct rawe_conn *accept_conn(void *context, const struct rawe_connect *from,
                                     const uint8_t source_mac[RAWE_MAC_BYTES])
{
    struct unit_node *node = context;
    (void)source_mac;
    assert_true(from->lane < RAWE_LANES);
    if (node->refuses || from->jobid != node->net->config.jobid || from->vpid != 1 - node->index) {
        return NULL;
    }
    return node->conn[from->lane] != NULL ? node->conn[from->lane]
                                          : unit_open(node->net, node->index, from->lane);
}

static void silent(void *context, struct rawe_conn *conn, uint64_t silent_ns)
{
    struct unit_node *node = context;
    assert_false(node->engine.deferral.active);
    (void)conn;
    node->silent_calls++;
    node->silent_ns = silent_ns;
}

static void failed(void *context, struct rawe_conn *conn, uint64_t silent_ns)
{
    struct unit_node *node = context;
    assert_false(node->engine.deferral.active);
    node->failed_calls++;
    node->silent_ns = silent_ns;
    if (node->on_failed != NULL) {
        node->on_failed(node, conn);
    }
}

static void lost(void *context, struct rawe_conn *conn)
{
    struct unit_node *node = context;
    assert_false(node->engine.deferral.active);
    (void)conn;
    node->lost_calls++;
}

static void start_node(struct unit_net *net, unsigned index)
{
    struct unit_node *node = &net->node[index];
    node->net = net;
    node->index = index;
    node->started = true;
    struct rawe_engine_config config = net->config;
    node_mac(index, config.mac);
    config.port = node_port(index);
    config.key = node_key(index);
    config.vpid = index;
    rawe_handle_table_init(&node->handles, 1000 + index);
    config.handles = &node->handles;
    struct rawe_callbacks callbacks = {
        .deliver = deliver,
        .accept = accept_conn,
        .silent = silent,
        .failed = failed,
        .lost = lost,
    };
    struct rawe_output output = {.transmit = transmit, .context = node};
    assert_true(rawe_engine_init(&node->engine, &config, &callbacks, node, &output, net->now_ns));
}

void unit_start(struct unit_net *net)
{
    for (unsigned i = 0; i < UNIT_NODES; i++) {
        net->node[i].link_room = UINT32_MAX;
        start_node(net, i);
    }
}

static unsigned free_frames(const struct rawe_txframe_pool *pool)
{
    unsigned count = 0;
    for (unsigned large = 0; large < 2; large++) {
        for (const struct rawe_txframe *frame = pool->free[large]; frame != NULL;
             frame = frame->next) {
            count++;
        }
    }
    return count;
}

static void stop_node(struct unit_node *node)
{
    for (unsigned lane = 0; lane < RAWE_LANES; lane++) {
        if (node->conn[lane] != NULL) {
            unit_close(node->net, node->index, lane);
        }
    }
    assert_int_equal(node->engine.table.used, 0);
    assert_int_equal(node->engine.timers.armed, 0);
    assert_null(node->engine.pending);
    assert_null(node->engine.deferral.first);
    assert_null(node->engine.deferral.completed[0]);
    assert_null(node->engine.deferral.completed[1]);
    assert_int_equal(node->engine.deferral.bytes, 0);
    assert_null(node->engine.inplace.conn);
    assert_int_equal(free_frames(&node->engine.frames), node->engine.frames.allocated);
    rawe_engine_free(&node->engine);
    rawe_handle_table_free(&node->handles);
    assert_int_equal(node->engine.reassembly_buffers.allocated, 0);
    node->started = false;
}

void unit_stop(struct unit_net *net)
{
    net->filter = NULL;
    for (unsigned i = 0; i < UNIT_NODES; i++) {
        struct unit_node *node = &net->node[i];
        if (node->started) {
            stop_node(node);
        }
        for (unsigned m = 0; m < node->message_count; m++) {
            free(node->messages[m].data);
        }
        free(node->messages);
        node->messages = NULL;
        node->message_count = 0;
    }
    unit_wire_clear(net);
}

void unit_restart(struct unit_net *net, unsigned node)
{
    unsigned room = net->node[node].link_room;
    net->node[node].link_room = 0; /* it dies without a CLOSE */
    stop_node(&net->node[node]);
    net->node[node].link_room = room;
    start_node(net, node);
}

void unit_use_batches(struct unit_net *net, unsigned frames_max)
{
    for (unsigned i = 0; i < UNIT_NODES; i++) {
        struct rawe_batches batches = {
            .output = {.transmit = transmit_batch, .context = &net->node[i]},
            .frames_max = frames_max,
            .bytes_max = 60000,
            .fill_max_bytes = net->fill_max_bytes,
            .overhead_bytes = UNIT_BATCH_OVERHEAD_BYTES,
            .receive_frames = net->config.receive_frames,
        };
        assert_true(rawe_engine_use_batches(&net->node[i].engine, &batches));
    }
}

void unit_set_credit(struct unit_net *net, unsigned node, uint16_t frames)
{
    for (unsigned lane = 0; lane < RAWE_LANES; lane++) {
        net->node[node].engine.credit.share[lane] = (struct rawe_credit_share){frames, frames, 1};
    }
}

struct rawe_conn *unit_open(struct unit_net *net, unsigned node, enum rawe_lane lane)
{
    struct rawe_conn_config config = {
        .peer_port = node_port(1 - node),
        .peer_key = node_key(1 - node),
        .payload_max_bytes = net->config.payload_max_bytes,
        .lane = (uint8_t)lane,
        .owner = &net->node[node],
    };
    node_mac(1 - node, config.peer_mac);
    assert_null(net->node[node].conn[lane]);
    struct rawe_conn *conn = rawe_conn_open(&net->node[node].engine, &config);
    assert_non_null(conn);
    net->node[node].conn[lane] = conn;
    return conn;
}

void unit_close(struct unit_net *net, unsigned node, enum rawe_lane lane)
{
    struct rawe_conn *conn = net->node[node].conn[lane];
    net->node[node].conn[lane] = NULL;
    rawe_conn_close(conn, net->now_ns);
}

struct rawe_conn *unit_connect(struct unit_net *net, enum rawe_lane lane)
{
    struct rawe_conn *conn = unit_open(net, 0, lane);
    rawe_conn_connect(conn, net->now_ns);
    unit_settle(net);
    assert_int_equal(conn->handshake.state, RAWE_CONN_OPEN);
    assert_non_null(net->node[1].conn[lane]);
    assert_int_equal(net->node[1].conn[lane]->handshake.state, RAWE_CONN_OPEN);
    return conn;
}

void unit_begin_at(struct unit_net *net, enum rawe_lane lane, uint32_t sequence)
{
    for (unsigned i = 0; i < UNIT_NODES; i++) {
        struct rawe_conn *conn = net->node[i].conn[lane];
        assert_int_equal(conn->sendwin.next, 0);
        conn->sendwin.una = conn->sendwin.next = conn->sendwin.transmit_from = conn->ack_requested = sequence;
        conn->recvwin.acktr->next = sequence;
    }
}

/** A copy of exactly `len_bytes`, for the address sanitizer to see who reads on. */
static uint8_t *exactly(const uint8_t *bytes, size_t len_bytes)
{
    uint8_t *copy = malloc(len_bytes != 0 ? len_bytes : 1);
    assert_non_null(copy);
    memcpy(copy, bytes, len_bytes);
    return copy;
}

/** Headers apart, data in place; then as many as come as expected at once, the others singly. */
static void receive_placed(struct rawe_engine *engine, const struct unit_frame *first,
                           unsigned count, const struct rawe_placement *place, uint64_t now_ns)
{
    const uint8_t *mac = first->bytes + RAWE_MAC_BYTES;
    const size_t stride = place->head_bytes;
    uint8_t *heads = malloc(count * stride);
    assert_non_null(heads);
    const struct unit_frame *frame = first;
    size_t last_bytes = 0;
    for (unsigned i = 0; i < count; i++, frame = frame->next) {
        const uint8_t *bytes = frame->bytes + RAWE_ETH_HEADER_BYTES;
        last_bytes = frame->len_bytes - RAWE_ETH_HEADER_BYTES - stride;
        memcpy(heads + i * stride, bytes, stride);
        memcpy(place->base + (size_t)i * place->data_bytes, bytes + stride, last_bytes);
    }
    unsigned full = last_bytes == place->data_bytes ? count : count - 1;
    for (unsigned i = 0; i < count; i++) {
        uint8_t *data = place->base + (size_t)i * place->data_bytes;
        rawe_engine_receive_parts(engine, mac, heads + i * stride, stride, data,
                                  i + 1 == count ? last_bytes : place->data_bytes, now_ns);
        if (i + 1 < full) {
            i += rawe_engine_receive_predicted(engine, mac, heads + (i + 1) * stride, stride, place,
                                         data + place->data_bytes, full - i - 1, now_ns);
        }
    }
    free(heads);
}

/**
 * Receive the frames of a batch as a link does that reads it in one go: straight into place when
 * the engine can tell where that is. Returns how many frames, from the first on, belonged to it.
 */
static unsigned receive_batch(struct unit_net *net, const struct unit_frame *first)
{
    struct rawe_engine *engine = &net->node[first->to].engine;
    size_t frame_bytes = first->len_bytes - RAWE_ETH_HEADER_BYTES;
    size_t total_bytes = 0;
    unsigned count = 0;
    /* A frame lost on the way ends it: receivers put together what follows without a gap. */
    for (const struct unit_frame *frame = first;
         frame != NULL && frame->batch == first->batch && frame->to == first->to &&
         frame->header.sequence == first->header.sequence + count;
         frame = frame->next) {
        total_bytes += frame->len_bytes - RAWE_ETH_HEADER_BYTES;
        count++;
    }
    const uint8_t *mac = first->bytes + RAWE_MAC_BYTES;
    uint8_t *head = exactly(first->bytes + RAWE_ETH_HEADER_BYTES, frame_bytes);
    struct rawe_placement placement;
    bool placed = rawe_engine_plan(engine, mac, head,
                                   frame_bytes < RAWE_HEADER_BYTES + RAWE_FRAGMENT_BYTES_MAX
                                       ? frame_bytes
                                       : RAWE_HEADER_BYTES + RAWE_FRAGMENT_BYTES_MAX,
                                   frame_bytes, total_bytes, &placement);
    free(head);
    net->batches_placed += placed;
    net->batches_not_placed += !placed;
    if (placed) {
        receive_placed(engine, first, count, &placement, net->now_ns);
        return count;
    }
    const struct unit_frame *frame = first;
    for (unsigned i = 0; i < count; i++, frame = frame->next) {
        size_t bytes = frame->len_bytes - RAWE_ETH_HEADER_BYTES;
        head = exactly(frame->bytes + RAWE_ETH_HEADER_BYTES, bytes);
        rawe_engine_receive_parts(engine, mac, head, bytes, NULL, 0, net->now_ns);
        free(head);
    }
    return count;
}

unsigned unit_step(struct unit_net *net)
{
    struct unit_frame *round = net->wire;
    unsigned count = 0;
    net->wire = NULL;
    net->wire_tail = &net->wire;
    unsigned received = 0; /* frames of a batch that were received with the first of them */
    while (round != NULL) {
        struct unit_frame *next = round->next;
        if (received == 0 && net->node[round->to].paused) {
            unit_wire_put(net, round);
            round = next;
            continue;
        }
        if (received == 0 && round->batch != 0) {
            received = receive_batch(net, round);
        } else if (received == 0) {
            unit_receive(net, round);
        }
        received -= received != 0;
        unit_frame_free(round);
        count++;
        round = next;
    }
    for (unsigned i = 0; i < UNIT_NODES; i++) {
        if (net->node[i].started && !net->node[i].paused) {
            rawe_engine_flush(&net->node[i].engine, net->now_ns);
        }
    }
    return count;
}

void unit_settle(struct unit_net *net)
{
    /* A connection may wait for something that only time or the test brings: it stays pending. */
    unsigned idle = 0;
    for (unsigned steps = 0; steps < STEPS_MAX; steps++) {
        unsigned before = unit_wire_count(net);
        bool moved = unit_step(net) != 0 || unit_wire_count(net) != before;
        idle = moved ? 0 : idle + 1;
        if (idle == 2) {
            return;
        }
    }
    fail_msg("the network does not come to rest");
}

void unit_run(struct unit_net *net, uint64_t duration_ns, uint64_t step_ns)
{
    uint64_t end_ns = net->now_ns + duration_ns;
    while (net->now_ns < end_ns) {
        net->now_ns = end_ns - net->now_ns > step_ns ? net->now_ns + step_ns : end_ns;
        unit_settle(net);
        for (unsigned i = 0; i < UNIT_NODES; i++) {
            if (net->node[i].started && !net->node[i].paused) {
                rawe_engine_advance(&net->node[i].engine, net->now_ns);
            }
        }
        unit_settle(net);
    }
}

struct unit_frame *unit_wire_take(struct unit_net *net)
{
    struct unit_frame *frame = net->wire;
    if (frame != NULL) {
        net->wire = frame->next;
        if (net->wire == NULL) {
            net->wire_tail = &net->wire;
        }
        frame->next = NULL;
    }
    return frame;
}

void unit_wire_put(struct unit_net *net, struct unit_frame *frame)
{
    frame->next = NULL;
    *net->wire_tail = frame;
    net->wire_tail = &frame->next;
}

unsigned unit_wire_count(const struct unit_net *net)
{
    unsigned count = 0;
    for (const struct unit_frame *frame = net->wire; frame != NULL; frame = frame->next) {
        count++;
    }
    return count;
}

void unit_wire_clear(struct unit_net *net)
{
    struct unit_frame *frame;
    while ((frame = unit_wire_take(net)) != NULL) {
        unit_frame_free(frame);
    }
}

void unit_receive(struct unit_net *net, const struct unit_frame *frame)
{
    if (net->node[frame->to].started) {
        rawe_engine_receive(&net->node[frame->to].engine, frame->bytes, frame->len_bytes,
                            net->now_ns);
    }
}

struct unit_frame *unit_frame_copy(const struct unit_frame *frame)
{
    struct unit_frame *copy = malloc(sizeof(*copy));
    assert_non_null(copy);
    *copy = *frame;
    copy->next = NULL;
    copy->bytes = malloc(frame->len_bytes != 0 ? frame->len_bytes : 1);
    assert_non_null(copy->bytes);
    memcpy(copy->bytes, frame->bytes, frame->len_bytes);
    return copy;
}

void unit_frame_free(struct unit_frame *frame)
{
    free(frame->bytes);
    free(frame);
}

void unit_frame_encode(struct unit_frame *frame)
{
    rawe_header_encode(frame->bytes + RAWE_ETH_HEADER_BYTES, &frame->header);
}

struct unit_frame *unit_forge(struct unit_net *net, unsigned from, enum rawe_lane lane,
                              struct rawe_header header, const void *payload, size_t payload_bytes)
{
    struct unit_frame *frame = calloc(1, sizeof(*frame));
    assert_non_null(frame);
    frame->len_bytes = RAWE_PAYLOAD_OFFSET + payload_bytes;
    frame->bytes = malloc(frame->len_bytes);
    assert_non_null(frame->bytes);
    node_mac(1 - from, frame->bytes);
    node_mac(from, frame->bytes + RAWE_MAC_BYTES);
    frame->bytes[12] = RAWE_ETHERTYPE_DEFAULT >> 8;
    frame->bytes[13] = RAWE_ETHERTYPE_DEFAULT & 0xFF;
    header.port = node_port(1 - from);
    header.key = node_key(1 - from);
    header.payload_bytes = (uint16_t)payload_bytes;
    const struct rawe_conn *peer = net->node[1 - from].conn[lane];
    if (peer != NULL && header.type != RAWE_FRAME_CONNECT) {
        header.connection_id = peer->handshake.local_id;
        header.acknowledgement += peer->sendwin.una; /* given relative to what is acknowledged */
        header.credit = net->node[from].engine.credit.share[lane].active;
    }
    frame->header = header;
    frame->from = from;
    frame->to = 1 - from;
    unit_frame_encode(frame);
    if (payload_bytes != 0) {
        memcpy(frame->bytes + RAWE_PAYLOAD_OFFSET, payload, payload_bytes);
    }
    return frame;
}

void unit_fill(uint8_t *data, size_t len_bytes, unsigned seed)
{
    for (size_t i = 0; i < len_bytes; i++) {
        data[i] = (uint8_t)(i * 31 + i / 251 + seed * 17 + 1);
    }
}

static void send_done(struct rawe_send *send, enum rawe_status status)
{
    struct unit_send *unit = (struct unit_send *)(void *)send;
    unit->done++;
    unit->status = status;
    assert_int_equal(unit->done, 1);
    if (unit->on_done != NULL) {
        unit->on_done(unit);
    }
}

void unit_send_message(struct rawe_conn *conn, struct unit_send *send, uint8_t tag, void *data,
                       size_t len_bytes)
{
    send->done = 0;
    send->send.done = send_done;
    send->send.kind = RAWE_FRAGMENT_MESSAGE;
    send->send.tag = tag;
    /* In two pieces whenever there are two bytes: a header and what it stands in front of. */
    size_t first_bytes = len_bytes / 3;
    send->send.piece_count = first_bytes != 0 ? 2 : 1;
    if (first_bytes != 0) {
        send->send.pieces[0] = (struct rawe_bytes){data, first_bytes};
    }
    send->send.pieces[send->send.piece_count - 1] =
        (struct rawe_bytes){(uint8_t *)data + first_bytes, len_bytes - first_bytes};
    struct unit_node *node = conn->owner;
    rawe_conn_send(conn, &send->send, node->net->now_ns);
}

void unit_send_put(struct rawe_conn *conn, struct unit_send *send, void *data, size_t len_bytes,
                   uint32_t index, uint64_t key, uint64_t offset)
{
    send->done = 0;
    send->send.done = send_done;
    send->send.kind = RAWE_FRAGMENT_PUT;
    send->send.piece_count = 1;
    send->send.pieces[0] = (struct rawe_bytes){data, len_bytes};
    send->send.handle_index = index;
    send->send.handle_key = key;
    send->send.offset = offset;
    struct unit_node *node = conn->owner;
    rawe_conn_send(conn, &send->send, node->net->now_ns);
}

enum rawe_status unit_copy_message(struct rawe_conn *conn, uint8_t tag, size_t len_bytes)
{
    uint8_t *data = malloc(len_bytes + 1);
    assert_non_null(data);
    unit_fill(data, len_bytes, tag);
    struct unit_node *node = conn->owner;
    size_t first_bytes = len_bytes / 2;
    enum rawe_status status = rawe_conn_send_copy(conn, tag, data, first_bytes, data + first_bytes,
                                                  len_bytes - first_bytes, node->net->now_ns);
    free(data);
    return status;
}

void unit_assert_message(const struct unit_node *node, unsigned index, uint8_t tag,
                         size_t len_bytes, unsigned seed)
{
    assert_true(index < node->message_count);
    const struct unit_message *message = &node->messages[index];
    assert_int_equal(message->tag, tag);
    assert_int_equal(message->len_bytes, len_bytes);
    uint8_t *expected = malloc(len_bytes + 1);
    assert_non_null(expected);
    unit_fill(expected, len_bytes, seed);
    if (len_bytes != 0) {
        assert_memory_equal(message->data, expected, len_bytes);
    }
    free(expected);
}
