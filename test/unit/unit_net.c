/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Two engines wired together in memory: see unit_net.h.
 */
#include "unit_net.h"

#include <stdlib.h>
#include <string.h>
#include <stdio.h>

#include "net_engine.h"
#include "conn/rawe_conn_connect.h"
#include "conn/rawe_conn_tx.h"
#include "conn/rawe_conn_end.h"
#include "conn/rawe_conn_path.h"
#include "conn/rawe_conn.h"
#include "net_harness.h"
#include "net_message.h"
#include "conn/rawe_conn_send.h"

/* A node's link: accepts frames while it has room. */

void net_fail(const char *invariant, const char *format, ...)
{
    char what[256];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(what, sizeof(what), format, arguments);
    va_end(arguments);
    fail_msg("violates \"%s\": %s", invariant, what);
    abort(); /* not reached, but the compiler does not know */
}

/** net_link.put */
static void put_on_wire(void *context, struct net_frame *frame)
{
    struct unit_node *node = context;
    struct unit_net *net = node->net;
    const struct rawe_peer_config to = net_peer_config(frame->to);
    assert_memory_equal(frame->bytes, to.mac, RAWE_MAC_BYTES);
    assert_int_equal(frame->header.port, to.port);
    assert_int_equal(frame->header.key, to.key);
    node->sent[frame->header.type]++;
    if ((frame->batch != 0 && net->batches_vanish) ||
        (net->filter != NULL && !net->filter(net, frame))) {
        net_frame_free(frame);
        return;
    }
    net_queue_put(&net->queue, frame);
}

/* Nodes. */

/** unit_net.engine_at */
static struct rawe_engine *node_engine(struct unit_net *net, unsigned node)
{
    return net->node[node].started ? &net->node[node].engine : NULL;
}

void unit_init(struct unit_net *net)
{
    memset(net, 0, sizeof(*net));
    net->now_ns = 5 * UNIT_S;
    net->engine_count = UNIT_NODES;
    net->engine_at = node_engine;
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

static void deliver(void *context, struct rawe_conn *conn, uint8_t tag, const uint8_t *data,
                    size_t len_bytes)
{
    struct unit_node *node = context;
    assert_false(node->engine.deferral->active);
    unit_note_message(node, tag, data, len_bytes);
    if (node->on_deliver != NULL) {
        node->on_deliver(node, conn, tag);
    }
}

static struct rawe_conn *accept_conn(void *context, const struct rawe_connect *from,
                                     const uint8_t source_mac[RAWE_MAC_BYTES])
{
    struct unit_node *node = context;
    assert_true(from->lane < RAWE_LANES);
    if (node->refuses || from->jobid != node->net->config.jobid || from->vpid != 1 - node->index) {
        return NULL;
    }
    struct rawe_conn *conn = node->conn[from->lane] != NULL
                                 ? node->conn[from->lane]
                                 : unit_open(node->net, node->index, from->lane);
    if (node->has_given_up && conn->handshake.state != RAWE_CONN_FAILED) {
        rawe_conn_fail(conn, RAWE_FAILURE_RENOUNCED, 0);
    }
    return conn;
}

static void failed(void *context, struct rawe_conn *conn, uint64_t silent_ns)
{
    struct unit_node *node = context;
    assert_false(node->engine.deferral->active);
    node->failed_calls++;
    if (node->on_failed != NULL) {
        node->on_failed(node, conn);
    }
}

static void given_up(void *context, struct rawe_conn *conn)
{
    struct unit_node *node = context;
    assert_false(node->engine.deferral->active);
    node->given_up_calls++;
}

static void lost(void *context, struct rawe_conn *conn)
{
    struct unit_node *node = context;
    assert_false(node->engine.deferral->active);
    node->lost_calls++;
}

static uint64_t clock_of(void *context)
{
    const struct unit_net *net = context;
    return net->now_ns;
}

static void start_node(struct unit_net *net, unsigned index)
{
    struct unit_node *node = &net->node[index];
    node->net = net;
    node->index = index;
    node->started = true;
    struct rawe_engine_config config = net->config;
    net_identify(&config, index);
    config.clock_ns = clock_of;
    config.clock_context = net;
    struct rawe_callbacks callbacks = {
        .deliver = deliver,
        .accept = accept_conn,
        .failed = failed,
        .given_up = given_up,
        .lost = lost,
    };
    node->link = (struct net_link){
        .engine = &node->engine,
        .room = &node->link_room,
        .batch_number = &net->batch_number,
        .put = put_on_wire,
    };
    net_engine_start(&node->engine, &node->handles, &config, &callbacks, net_link_transmit, node,
                     net->now_ns);
}

void unit_start(struct unit_net *net)
{
    for (unsigned i = 0; i < UNIT_NODES; i++) {
        net->node[i].link_room = UINT32_MAX;
        start_node(net, i);
    }
}

static void stop_node(struct unit_node *node)
{
    for (unsigned lane = 0; lane < RAWE_LANES; lane++) {
        if (node->conn[lane] != NULL) {
            unit_close(node->net, node->index, lane);
        }
    }
    assert_null(node->engine.deferral->first);
    assert_null(node->engine.deferral->completed[0].first);
    assert_null(node->engine.deferral->completed[1].first);
    assert_int_equal(node->engine.deferral->bytes, 0);
    net_engine_stop(&node->engine);
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
        unit_forget_messages(node);
    }
    net_queue_clear(&net->queue);
}

void unit_restart(struct unit_net *net, unsigned node)
{
    unsigned room = net->node[node].link_room;
    net->node[node].link_room = 0; /* the node dies without sending CLOSE */
    stop_node(&net->node[node]);
    net->node[node].link_room = room;
    start_node(net, node);
}

void unit_use_batches(struct unit_net *net, unsigned frames_max)
{
    uint32_t segment_bytes = net->config.payload_max_bytes + RAWE_HEADER_BYTES -
                             RAWE_BATCH_HEADER_BYTES - NET_BATCH_OVERHEAD_BYTES;
    uint32_t bytes_max = frames_max * segment_bytes;
    bytes_max = bytes_max < RAWE_BATCH_BYTES_MAX ? bytes_max : RAWE_BATCH_BYTES_MAX;
    for (unsigned i = 0; i < UNIT_NODES; i++) {
        net_engine_use_batches(&net->node[i].engine, bytes_max, net_link_transmit_batch);
    }
}

void unit_set_credit(struct unit_net *net, unsigned node, uint16_t frames)
{
    for (unsigned lane = 0; lane < RAWE_LANES; lane++) {
        net->node[node].engine.pull.credit.share[lane] =
            (struct rawe_credit_share){frames, frames, 1};
        net->node[node].engine.pull.credit.version++;
    }
}

struct rawe_conn *unit_open(struct unit_net *net, unsigned node, enum rawe_lane lane)
{
    assert_null(net->node[node].conn[lane]);
    struct unit_node *from = &net->node[node];
    struct rawe_conn *conn =
        net_engine_open(&from->engine, &from->route[lane], 1 - node, lane, from);
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
        assert_int_equal(conn->tx.window.next, 0);
        conn->tx.window.una = conn->tx.window.next = conn->tx.window.transmit_from =
            conn->tx.ack_requested = sequence;
        conn->rx.window.next = sequence;
    }
}

/* The wire. */

/** More steps than any test takes to settle. */
#define STEPS_MAX 100000u

/**
 * Merge the frames of a batch, beginning with `first`, and receive them as one packet. Returns the
 * number of merged frames.
 */
static unsigned receive_batch(struct unit_net *net, struct net_frame *first)
{
    struct net_frame *frames[RAWE_BATCH_FRAMES_MAX];
    unsigned count = 0;
    bool placed;
    for (struct net_frame *frame = first;
         frame != NULL && frame->batch == first->batch && frame->to == first->to;
         frame = frame->next) {
        assert_true(count < RAWE_BATCH_FRAMES_MAX);
        frames[count++] = frame;
    }
    count = net_frames_receive(net->engine_at(net, first->to), frames, count, net->now_ns, &placed);
    net->batches_placed += placed;
    return count;
}

static bool is_paused(const struct unit_net *net, unsigned end)
{
    return end < UNIT_NODES && net->node[end].paused;
}

/** Call a function for each engine that is not paused. */
static void for_running(struct unit_net *net, void (*each)(struct rawe_engine *engine, uint64_t ns))
{
    for (unsigned end = 0; end < net->engine_count; end++) {
        struct rawe_engine *engine = net->engine_at(net, end);
        if (engine != NULL && !is_paused(net, end)) {
            each(engine, net->now_ns);
        }
    }
}

unsigned unit_step(struct unit_net *net)
{
    struct net_frame *round = net->wire;
    unsigned count = 0;
    for (struct net_frame *frame = round; net->on_frame != NULL && frame != NULL;
         frame = frame->next) {
        net->on_frame(frame);
    }
    net->wire = NULL;
    unsigned received = 0; /* frames already received in an earlier frame's packet */
    while (round != NULL) {
        struct net_frame *next = round->next;
        if (received == 0 && is_paused(net, round->to)) {
            net_queue_put(&net->queue, round);
            round = next;
            continue;
        }
        if (received == 0 && round->batch != 0) {
            received = receive_batch(net, round);
        } else if (received == 0) {
            unit_receive(net, round);
        }
        received -= received != 0;
        net_frame_free(round);
        count++;
        round = next;
    }
    for_running(net, rawe_engine_flush);
    return count;
}

void unit_settle(struct unit_net *net)
{
    /* A connection that waits for time to pass, or for the test, stays pending. */
    unsigned idle = 0;
    for (unsigned steps = 0; steps < STEPS_MAX; steps++) {
        unsigned before = net_queue_count(&net->queue);
        bool progressed = unit_step(net) != 0 || net_queue_count(&net->queue) != before;
        idle = progressed ? 0 : idle + 1;
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
        for_running(net, rawe_engine_advance);
        unit_settle(net);
    }
}

void unit_receive(struct unit_net *net, const struct net_frame *frame)
{
    struct rawe_engine *engine = net->engine_at(net, frame->to);
    if (engine != NULL) {
        if (rawe_engine_has_deferred(engine) && !engine->deferral->active) {
            rawe_engine_deliver_deferred(engine); /* like the component */
        }
        (void)net_receive(engine, frame->bytes, (uint32_t)frame->len_bytes, net->now_ns);
    }
}

void unit_hand_over(struct unit_net *net, struct net_frame *frame)
{
    unit_receive(net, frame);
    net_frame_free(frame);
}

void unit_receive_next(struct unit_net *net)
{
    assert_non_null(net->wire);
    unit_hand_over(net, net_queue_take(&net->queue));
}

void unit_receive_all(struct unit_net *net)
{
    while (net->wire != NULL) {
        unit_receive_next(net);
    }
}

void unit_frame_encode(struct net_frame *frame)
{
    assert_false(net_is_batch(frame->bytes, (uint32_t)frame->len_bytes));
    const size_t covered_bytes = RAWE_PAYLOAD_OFFSET + (size_t)frame->header.payload_bytes;
    if (covered_bytes + RAWE_CHECKSUM_BYTES <= frame->len_bytes) {
        (void)rawe_frame_seal(frame->bytes, &frame->header);
    } else { /* no valid frame has this length */
        rawe_header_encode(frame->bytes + RAWE_ETH_HEADER_BYTES, &frame->header);
    }
}

struct net_frame *unit_forge(struct unit_net *net, unsigned from, enum rawe_lane lane,
                             struct rawe_header header, const void *payload, size_t payload_bytes)
{
    struct net_frame *frame =
        net_frame_new(RAWE_PAYLOAD_OFFSET + payload_bytes + RAWE_CHECKSUM_BYTES);
    const struct rawe_peer_config receiver = net_peer_config(1 - from);
    net_frame_address(frame->bytes, receiver.mac, net_peer_config(from).mac);
    header.port = receiver.port;
    header.key = receiver.key;
    header.payload_bytes = (uint16_t)payload_bytes;
    const struct rawe_conn *peer = net->node[1 - from].conn[lane];
    if (peer != NULL && header.type != RAWE_FRAME_CONNECT) {
        header.connection_id = peer->handshake.local_id;
        header.acknowledgement += peer->tx.window.una; /* given relative to una */
        header.credit = net->node[from].engine.pull.credit.share[lane].active;
    }
    frame->header = header;
    frame->from = from;
    frame->to = 1 - from;
    if (payload_bytes != 0) {
        memcpy(frame->bytes + RAWE_PAYLOAD_OFFSET, payload, payload_bytes);
    }
    unit_frame_encode(frame);
    return frame;
}

void unit_receive_forged(struct unit_net *net, unsigned from, enum rawe_lane lane,
                         struct rawe_header header, const void *payload, size_t payload_bytes)
{
    unit_hand_over(net, unit_forge(net, from, lane, header, payload, payload_bytes));
}

struct unit_memory unit_register_memory(struct unit_net *net, unsigned node, void *memory,
                                        size_t len_bytes, unsigned access)
{
    struct unit_memory known;
    assert_true(rawe_handle_register(&net->node[node].handles, memory, len_bytes, &known.index,
                                     &known.key, access));
    return known;
}

void unit_close_having_all(struct unit_net *net, unsigned node, enum rawe_lane lane)
{
    const struct rawe_conn *peer = net->node[1 - node].conn[lane];
    struct rawe_header header = {.type = RAWE_FRAME_CLOSE};
    header.acknowledgement = rawe_sendwin_used(&peer->tx.window);
    struct net_frame *close = unit_forge(net, node, lane, header, NULL, 0);
    unit_close(net, node, lane);
    net_queue_clear(&net->queue);
    unit_hand_over(net, close);
}

/* Messages. */

void unit_fill(uint8_t *data, size_t len_bytes, unsigned seed)
{
    net_content_fill(data, net_content_seed(0, seed), 0, len_bytes);
}

void unit_send_done(struct rawe_send *send, enum rawe_status status)
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
    send->send.done = unit_send_done;
    send->send.kind = RAWE_FRAGMENT_MESSAGE;
    send->send.tag = tag;
    /* In two pieces, like a header and its data, unless the message is too short. */
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
    send->send.done = unit_send_done;
    send->send.kind = RAWE_FRAGMENT_PUT;
    send->send.piece_count = 1;
    send->send.pieces[0] = (struct rawe_bytes){data, len_bytes};
    send->send.handle_index = index;
    send->send.handle_key = key;
    send->send.offset = offset;
    struct unit_node *node = conn->owner;
    rawe_conn_send(conn, &send->send, node->net->now_ns);
}

void unit_send_messages(struct rawe_conn *conn, struct unit_send *sends, unsigned count, void *data,
                        size_t len_bytes)
{
    for (unsigned i = 0; i < count; i++) {
        unit_send_message(conn, &sends[i], (uint8_t)i, data, len_bytes);
    }
}

void unit_assert_sent(const struct unit_send *sends, unsigned count, enum rawe_status status)
{
    for (unsigned i = 0; i < count; i++) {
        assert_int_equal(sends[i].done, 1);
        assert_int_equal(sends[i].status, status);
    }
}

void unit_set_payload_max(struct rawe_conn *conn, uint32_t payload_max_bytes)
{
    conn->path.route->payload_max_bytes = payload_max_bytes;
    rawe_conn_path_fit(conn);
}

enum rawe_status unit_copy_message(struct rawe_conn *conn, uint8_t tag, size_t len_bytes)
{
    uint8_t *data = malloc(len_bytes + 1);
    assert_non_null(data);
    unit_fill(data, len_bytes, tag);
    size_t first_bytes = len_bytes / 2;
    enum rawe_status status = rawe_conn_send_copy(conn, tag, data, first_bytes, data + first_bytes,
                                                  len_bytes - first_bytes);
    free(data);
    return status;
}

void unit_send_copy(struct rawe_conn *conn, uint8_t tag, size_t len_bytes)
{
    assert_int_equal(unit_copy_message(conn, tag, len_bytes), RAWE_STATUS_DONE);
}

void unit_send_copies(struct rawe_conn *conn, unsigned count, size_t len_bytes)
{
    for (unsigned i = 0; i < count; i++) {
        unit_send_copy(conn, (uint8_t)i, len_bytes);
    }
}

void unit_assert_message(const struct unit_node *node, unsigned index, uint8_t tag,
                         size_t len_bytes, unsigned seed)
{
    assert_true(index < node->message_count);
    const struct unit_message *message = &node->messages[index];
    assert_int_equal(message->tag, tag);
    assert_int_equal(message->len_bytes, len_bytes);
    assert_int_equal(net_content_compare(message->data, net_content_seed(0, seed), 0, len_bytes),
                     len_bytes);
}

void unit_note_message(struct unit_node *node, uint8_t tag, const uint8_t *data, size_t len_bytes)
{
    if ((node->message_count & (node->message_count - 1)) == 0) {
        size_t room = node->message_count == 0 ? 1 : 2 * (size_t)node->message_count;
        node->messages = realloc(node->messages, room * sizeof(*node->messages));
        assert_non_null(node->messages);
    }
    struct unit_message *message = &node->messages[node->message_count++];
    *message = (struct unit_message){tag, len_bytes, malloc(len_bytes != 0 ? len_bytes : 1)};
    assert_non_null(message->data);
    if (len_bytes != 0) {
        memcpy(message->data, data, len_bytes);
    }
}

void unit_assert_last(const struct unit_node *node, unsigned count, uint8_t tag, size_t len_bytes,
                      unsigned seed)
{
    assert_int_equal(node->message_count, count);
    unit_assert_message(node, count - 1, tag, len_bytes, seed);
}

void unit_assert_messages(const struct unit_node *node, unsigned count, size_t len_bytes,
                          unsigned seed)
{
    assert_int_equal(node->message_count, count);
    for (unsigned i = 0; i < count; i++) {
        unit_assert_message(node, i, (uint8_t)i, len_bytes, seed);
    }
}

void unit_forget_messages(struct unit_node *node)
{
    for (unsigned i = 0; i < node->message_count; i++) {
        free(node->messages[i].data);
    }
    free(node->messages);
    node->messages = NULL;
    node->message_count = 0;
}

/* ---- a congestion control with a fixed window ---- */

static uint32_t fixed_frames;

static void started(struct rawe_cc *cc)
{
    cc->first = cc->least = cc->most = fixed_frames;
    rawe_cc_set_window(cc, fixed_frames);
}

static void acknowledged(struct rawe_cc *cc, const struct rawe_ack *ack)
{
}

static void ignore(struct rawe_cc *cc)
{
}

static void idle(struct rawe_cc *cc, uint64_t periods)
{
}

static const struct rawe_cc_type fixed = {
    .name = "fixed",
    .started = started,
    .acknowledged = acknowledged,
    .lost = ignore,
    .timed_out = ignore,
    .idle = idle,
};

void unit_fix_window(struct rawe_conn *conn, uint32_t frames)
{
    fixed_frames = frames;
    rawe_cc_start(&conn->tx.cc, &fixed, frames, 0, conn->engine->now_ns);
}
