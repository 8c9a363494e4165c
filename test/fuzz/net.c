/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Two processes and the wire between them: see net.h.
 */
#include "net.h"

#include <string.h>

#include "net_engine.h"
#include "net_harness.h"
#include "rawe_conn.h"

/** Turns of net_settle, in simulated time about two minutes. */
#define SETTLE_TURNS 3000u
#define SETTLE_STEP_NS (200 * NET_US)
#define SETTLE_STEP_MOST_NS (50 * NET_MS)

/** A slab beyond the limit for each size of frame, and the one that reaches it. */
#define SLACK_FRAMES (3u * 64u)
#define BUFFERS_MAX 1024u

static uint64_t now_ns(void *net)
{
    return ((struct net *)net)->now_ns;
}

void net_put(struct net *net, struct net_frame *frame)
{
    if (net->wire_count == NET_WIRE_FRAMES) {
        net_frame_free(frame); /* lost: a switch's buffer has an end, too */
        return;
    }
    net->wire[net->wire_count++] = frame;
}

struct net_frame *net_take(struct net *net, unsigned position)
{
    if (net->wire_count == 0) {
        return NULL;
    }
    position %= net->wire_count;
    struct net_frame *frame = net->wire[position];
    net->wire_count--;
    memmove(&net->wire[position], &net->wire[position + 1],
            (net->wire_count - position) * sizeof(net->wire[0]));
    return frame;
}

void *net_new(size_t len_bytes)
{
    return fuzz_new(len_bytes);
}

void net_delete(void *memory)
{
    fuzz_delete(memory);
}

/** net_link.put */
static void put_on_wire(void *context, struct net_frame *frame)
{
    struct net_node *node = context;
    size_t most_bytes = RAWE_PAYLOAD_OFFSET + node->path_bytes;
    FUZZ_CHECK(++node->net->sent_in_call < NET_FRAMES_A_CALL,
               "a call into the engine does not stop sending");
    if (net_is_batch(frame->bytes, (uint32_t)frame->len_bytes)) {
        most_bytes -= NET_BATCH_OVERHEAD_BYTES;
    }
    if (node->path_bytes != 0 && frame->len_bytes > most_bytes) {
        net_frame_free(frame);
        return;
    }
    net_put(node->net, frame);
}

static struct net_link link_of(struct net_node *node)
{
    return (struct net_link){
        .engine = &node->engine,
        .room = &node->link_room,
        .batch_number = &node->net->batch_number,
        .put = put_on_wire,
    };
}

static unsigned transmit(void *context, const struct rawe_frame *frames, unsigned count)
{
    struct net_link link = link_of(context);
    return net_link_transmit(&link, frames, count);
}

static bool transmit_batch(void *context, const struct rawe_frame *packet, uint32_t segment_bytes)
{
    struct net_node *node = context;
    struct net_link link = link_of(node);
    if (segment_bytes != 0 && node->loses_batches) {
        return true;
    }
    return net_link_transmit_batch(&link, packet, segment_bytes);
}

/** As the component does: who is known may connect, under the key he has now. */
static struct rawe_conn *accept_peer(void *context, const struct rawe_connect *from,
                                     const uint8_t source_mac[RAWE_MAC_BYTES])
{
    struct net_node *node = context;
    struct net_node *peer = &node->net->node[1 - node->index];
    (void)source_mac;
    FUZZ_CHECK(from->lane < RAWE_LANES, "asked to accept a lane that there is not");
    if (from->jobid != node->net->config.jobid || from->vpid != peer->index ||
        from->key != peer->key) {
        return NULL;
    }
    struct rawe_conn *conn = node->peer.conn[from->lane];
    if (conn != NULL && conn->peer_key != peer->key) {
        net_close(node, from->lane); /* the one of the process that died */
    }
    net_open(node, from->lane);
    return node->peer.conn[from->lane];
}

static void silent(void *context, struct rawe_conn *conn, uint64_t silent_ns)
{
    struct net_node *node = context;
    /* The responder answers in this world as long as the process is the same. */
    if (silent_ns % 2 == 0 && conn->peer_key == node->net->node[1 - node->index].key) {
        rawe_conn_alive(conn, node->net->now_ns);
    }
}

/** The path is validated anew. */
static void stalled(void *context, struct rawe_conn *conn, uint64_t stalled_ns)
{
    struct net_node *node = context;
    (void)conn;
    (void)stalled_ns;
    if (node->path_bytes != 0) {
        rawe_peer_set_payload_max(&node->peer, node->path_bytes);
    }
}

static void failed(void *context, struct rawe_conn *conn, uint64_t silent_ns)
{
    struct net_node *node = context;
    (void)silent_ns;
    node->net->unsettled[conn->lane] = true;
    if (node->net->closes_failed) {
        net_close(node, conn->lane);
    }
}

static void start_node(struct net *net, unsigned index)
{
    struct net_node *node = &net->node[index];
    node->net = net;
    node->index = index;
    node->link_room = UINT32_MAX;
    node->key = 0xABCD0000u + ++net->keys;
    struct rawe_engine_config config = net->config;
    net_identify(&config, index);
    config.key = node->key;
    const struct rawe_callbacks callbacks = {
        .deliver = net_delivered,
        .accept = accept_peer,
        .silent = silent,
        .stalled = stalled,
        .failed = failed,
    };
    net_engine_start(&node->engine, &node->handles, &config, &callbacks, transmit, node,
                     net->now_ns);
    node->ending = false;
    struct rawe_peer_config peer = net_peer_config(1 - index);
    peer.payload_max_bytes = net->config.payload_max_bytes;
    peer.owner = node;
    peer.streak_ns = net->streak_ns;
    peer.now_ns = now_ns;
    peer.context = net;
    rawe_peer_init(&node->peer, &node->engine, &peer);
    if (net->use_batches) {
        /* without memory: without batches */
        (void)net_engine_use_batches(&node->engine, net->batch_bytes, transmit_batch);
    }
}

void net_start(struct net *net, struct fuzz_input *head)
{
    static const uint32_t payloads[] = {256, 520, 1464, 4056};
    unsigned bits = (unsigned)fuzz_take(head, 1);
    unsigned sizes = (unsigned)fuzz_take(head, 1);
    memset(net, 0, sizeof(*net));
    net->now_ns = 5 * NET_S;
    net->use_batches = (bits & 1) != 0;
    net->batch_bytes = (sizes & 64) != 0 ? 3000 : RAWE_BATCH_BYTES_MAX;
    net->replies = (bits & 2) != 0;
    net->closes_failed = (bits & 4) != 0;
    net->streak_ns = (sizes & 32) != 0 ? NET_MS : 0;
    net->config = (struct rawe_engine_config){
        .ethertype = RAWE_ETHERTYPE_DEFAULT,
        .jobid = 77,
        .checksum = (bits & 8) != 0,
        .payload_max_bytes = payloads[sizes % 4],
        .message_max_bytes = (bits & 16) != 0 ? 65536 : 4096,
        .window_frames = 16u << (sizes / 4 % 4) * 2,
        .receive_frames = (bits & 32) != 0 ? 1024 : 24,
        .copy_max_bytes = 200 + 10 * (uint32_t)fuzz_take(head, 1),
        .frames_limit = (bits & 64) != 0 ? 4096 : 64,
        .deferred_max_bytes = (bits & 64) != 0 ? 1u << 20 : 10000,
        .ack_delay_ns = 50 * NET_US,
        .liveness.probe_least_ns = 500 * NET_US,
        .liveness.probe_most_ns = 100 * NET_MS,
        .reorder_ns = 100 * NET_US,
        .coalesce_from_frames = (sizes & 16) != 0 ? 2 : 0,
        .liveness.peer_timeout_ns = (bits & 128) != 0 ? 5 * NET_S : 0,
    };
    for (unsigned i = 0; i < NET_NODES; i++) {
        start_node(net, i);
    }
}

struct rawe_peer *net_peer(struct net_node *node)
{
    node->peer.config.key = node->net->node[1 - node->index].key;
    return &node->peer;
}

void net_open(struct net_node *node, enum rawe_lane lane)
{
    if (!node->ending) {
        (void)rawe_peer_conn(net_peer(node), lane); /* NULL without memory */
    }
}

void net_close(struct net_node *node, enum rawe_lane lane)
{
    struct rawe_conn *conn = node->peer.conn[lane];
    if (conn != NULL) {
        node->net->unsettled[lane] = true;
        node->peer.conn[lane] = NULL;
        rawe_conn_close(conn, node->net->now_ns);
    }
}

static void stop_node(struct net_node *node)
{
    node->ending = true;
    net_come_back(node);
    for (unsigned lane = 0; lane < RAWE_LANES; lane++) {
        net_close(node, lane);
    }
    net_engine_stop(&node->engine);
}

void net_stop(struct net *net)
{
    fuzz_allocations_left = UINT32_MAX;
    for (unsigned i = 0; i < NET_NODES; i++) {
        stop_node(&net->node[i]);
    }
    while (net->wire_count != 0) {
        net_frame_free(net->wire[--net->wire_count]);
    }
    for (unsigned id = 0; id < net->entry_count; id++) {
        net_ledger_close_region(net, id);
    }
    net_ledger_check_none(net);
}

void net_restart(struct net_node *node)
{
    node->link_room = 0; /* it dies without a CLOSE */
    stop_node(node);
    net_ledger_died(node);
    node->net->unsettled[0] = node->net->unsettled[1] = true;
    start_node(node->net, node->index);
}

unsigned net_deliver(struct net *net, unsigned position, bool whole)
{
    if (net->wire_count == 0) {
        return 0;
    }
    position %= net->wire_count;
    struct net_node *receiver = &net->node[1 - net->wire[position]->from];
    if (!receiver->engine.deferral.active) {
        net_come_back(receiver); /* what was kept comes first; this may send, behind all others */
    }
    /* What the engine sends meanwhile goes behind all others: these stay where they are. */
    bool placed;
    const unsigned count =
        net_frames_receive(&receiver->engine, &net->wire[position],
                           whole ? net->wire_count - position : 1, net->now_ns, &placed);
    for (unsigned i = 0; i < count; i++) {
        net_frame_free(net_take(net, position));
    }
    return count;
}

void net_come_back(struct net_node *node)
{
    rawe_engine_defer_end(&node->engine);
    if (rawe_engine_has_deferred(&node->engine)) {
        rawe_engine_deliver_deferred(&node->engine);
    }
}

void net_progress(struct net_node *node)
{
    rawe_engine_flush(&node->engine, node->net->now_ns);
    rawe_engine_advance(&node->engine, node->net->now_ns);
    rawe_engine_flush(&node->engine, node->net->now_ns);
}

static bool at_rest(const struct net *net)
{
    if (net->wire_count != 0) {
        return false;
    }
    for (unsigned i = 0; i < NET_NODES; i++) {
        for (unsigned lane = 0; lane < RAWE_LANES; lane++) {
            const struct rawe_conn *conn = net->node[i].peer.conn[lane];
            if (conn != NULL && !rawe_conn_drained(conn) && !net->unsettled[lane]) {
                return false;
            }
        }
    }
    return true;
}

void net_settle(struct net *net)
{
    uint64_t step_ns = SETTLE_STEP_NS;
    unsigned turns = net->tainted ? 60 : SETTLE_TURNS;
    fuzz_allocations_left = UINT32_MAX;
    for (unsigned i = 0; i < NET_NODES; i++) {
        net->node[i].link_room = UINT32_MAX;
        net->node[i].loses_batches = false;
        net_come_back(&net->node[i]);
    }
    for (unsigned turn = 0; turn < turns; turn++) {
        /* Only what lies there now: answers to it are the next turn's. */
        for (unsigned left = net->wire_count; left != 0 && net->wire_count != 0;) {
            net->sent_in_call = 0;
            unsigned count = net_deliver(net, 0, true);
            left -= count < left ? count : left;
        }
        for (unsigned i = 0; i < NET_NODES; i++) {
            net->sent_in_call = 0;
            net_progress(&net->node[i]);
        }
        net_check(net);
        if (at_rest(net)) {
            break;
        }
        net->now_ns += step_ns;
        step_ns = turn % 16 == 15 && step_ns < SETTLE_STEP_MOST_NS ? step_ns * 2 : step_ns;
    }
    if (!net->tainted) {
        FUZZ_CHECK(at_rest(net), "the network is sound, but not everything comes to its end");
        net_ledger_check_all(net);
    }
}

/** The window's counts are those of its frames' states. */
static void check_window(const struct rawe_sendwin *window)
{
    uint32_t in_flight = 0;
    uint32_t to_transmit = 0;
    uint32_t sacked = 0;
    for (uint32_t sequence = window->una; sequence != window->next;) {
        const struct rawe_txframe *frame = rawe_sendwin_at(window, sequence);
        FUZZ_CHECK(sequence - frame->sequence < frame->segments, "a number is another frame's");
        uint64_t open = rawe_txframe_all(frame) & UINT64_MAX << (sequence - frame->sequence);
        FUZZ_CHECK((frame->to_send & (frame->arrived | ~open)) == 0,
                   "what has arrived is to be sent");
        in_flight += rawe_sendwin_count(rawe_txframe_in_flight(frame) & open);
        to_transmit += rawe_sendwin_count(frame->to_send);
        sacked += rawe_sendwin_count(frame->arrived & open);
        sequence = frame->sequence + frame->segments;
    }
    FUZZ_CHECK(in_flight == window->in_flight && to_transmit == window->to_transmit &&
                   sacked == window->sacked,
               "a window has counted wrongly");
}

void net_check(struct net *net)
{
    net->sent_in_call = 0;
    for (unsigned i = 0; i < NET_NODES; i++) {
        const struct rawe_engine *engine = &net->node[i].engine;
        FUZZ_CHECK(engine->table.used <= RAWE_LANES, "more connections than were opened");
        FUZZ_CHECK(engine->timers.armed <= RAWE_LANES, "more timers than connections");
        FUZZ_CHECK(engine->frames.allocated <= engine->config.frames_limit + SLACK_FRAMES,
                   "more frames than the limit allows");
        FUZZ_CHECK(engine->reassembly_buffers.allocated <= BUFFERS_MAX + RAWE_LANES,
                   "more reassembly buffers than the limit allows");
        for (unsigned lane = 0; lane < RAWE_LANES; lane++) {
            if (net->node[i].peer.conn[lane] != NULL) {
                check_window(&net->node[i].peer.conn[lane]->sendwin);
            }
        }
    }
}
