/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Two processes and the wire between them: see pair.h.
 */
#include "pair.h"

#include <string.h>

#include "net_engine.h"
#include "net_harness.h"
#include "conn/rawe_conn.h"

/** Turns of pair_settle, in simulated time about two minutes. */
#define SETTLE_TURNS 3000u
#define SETTLE_STEP_NS (200 * PAIR_US)
/** An answer takes two steps. A node whose probes are further than 100 ms apart did not run. */
#define SETTLE_STEP_MOST_NS (25 * PAIR_MS)

/** A slab beyond the limit for each size of frame, and the one that reaches it. */
#define SLACK_FRAMES (3u * 64u)
#define BUFFERS_MAX 1024u

static uint64_t now_ns(void *pair)
{
    return ((struct pair *)pair)->now_ns;
}

void pair_put(struct pair *pair, struct net_frame *frame)
{
    if (pair->wire_count == PAIR_WIRE_FRAMES) {
        net_frame_free(frame); /* lost: a switch's buffer has an end, too */
        return;
    }
    pair->wire[pair->wire_count++] = frame;
}

struct net_frame *pair_take(struct pair *pair, unsigned position)
{
    if (pair->wire_count == 0) {
        return NULL;
    }
    position %= pair->wire_count;
    struct net_frame *frame = pair->wire[position];
    pair->wire_count--;
    memmove(&pair->wire[position], &pair->wire[position + 1],
            (pair->wire_count - position) * sizeof(pair->wire[0]));
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
    struct pair_node *node = context;
    size_t most_bytes = RAWE_PAYLOAD_OFFSET + node->path_bytes;
    FUZZ_CHECK(++node->pair->sent_in_call < PAIR_FRAMES_A_CALL,
               "a call into the engine does not stop sending");
    if (net_is_batch(frame->bytes, (uint32_t)frame->len_bytes)) {
        most_bytes -= NET_BATCH_OVERHEAD_BYTES;
    }
    if (node->path_bytes != 0 && frame->len_bytes > most_bytes) {
        net_frame_free(frame);
        return;
    }
    pair_put(node->pair, frame);
}

static bool transmit_batch(void *context, const struct rawe_frame *packet, uint32_t segment_bytes)
{
    const struct pair_node *node = context;
    return (segment_bytes != 0 && node->loses_batches) ||
           net_link_transmit_batch(context, packet, segment_bytes);
}

/** As the component does: a known process may connect, under the key it has now. */
static struct rawe_conn *accept_peer(void *context, const struct rawe_connect *from,
                                     const uint8_t source_mac[RAWE_MAC_BYTES])
{
    struct pair_node *node = context;
    struct pair_node *peer = &node->pair->node[1 - node->index];
    FUZZ_CHECK(from->lane < RAWE_LANES, "asked to accept a lane that there is not");
    if (from->jobid != node->pair->config.jobid || from->vpid != peer->index ||
        from->key != peer->key) {
        return NULL;
    }
    struct rawe_conn *conn = node->peer.conn[from->lane];
    if (conn != NULL && conn->peer_key != peer->key) {
        pair_close(node, from->lane); /* the one of the process that died */
    }
    pair_open(node, from->lane);
    return node->peer.conn[from->lane];
}

static void silent(void *context, struct rawe_conn *conn, uint64_t silent_ns)
{
    struct pair_node *node = context;
    /* The responder answers in this world as long as the process is the same. */
    if (silent_ns % 2 == 0 && conn->peer_key == node->pair->node[1 - node->index].key) {
        rawe_liveness_alive(&conn->liveness, node->pair->now_ns);
    }
}

/** The path is validated again. */
static void stalled(void *context, struct rawe_conn *conn, uint64_t stalled_ns)
{
    struct pair_node *node = context;
    if (node->path_bytes != 0) {
        rawe_peer_set_payload_max(&node->peer, node->path_bytes);
    }
}

static void failed(void *context, struct rawe_conn *conn, uint64_t silent_ns)
{
    struct pair_node *node = context;
    pair_messages_closed(node, conn);
    if (node->pair->closes_failed) {
        pair_close(node, conn->lane);
    }
}

static void start_node(struct pair *pair, unsigned index)
{
    struct pair_node *node = &pair->node[index];
    node->pair = pair;
    node->index = index;
    node->link_room = UINT32_MAX;
    node->key = 0xABCD0000u + ++pair->keys;
    struct rawe_engine_config config = pair->config;
    net_identify(&config, index);
    config.key = node->key;
    const struct rawe_callbacks callbacks = {
        .deliver = pair_delivered,
        .accept = accept_peer,
        .silent = silent,
        .stalled = stalled,
        .failed = failed,
    };
    node->link = (struct net_link){
        .engine = &node->engine,
        .room = &node->link_room,
        .batch_number = &pair->batch_number,
        .put = put_on_wire,
    };
    net_engine_start(&node->engine, &node->handles, &config, &callbacks, net_link_transmit, node,
                     pair->now_ns);
    node->ending = false;
    struct rawe_peer_config peer = net_peer_config(1 - index);
    peer.payload_max_bytes = pair->config.payload_max_bytes;
    peer.owner = node;
    node->engine.config.streak_ns = pair->streak_ns;
    node->engine.config.clock_ns = now_ns;
    node->engine.config.clock_context = pair;
    rawe_peer_init(&node->peer, &node->engine, &peer);
    if (pair->use_batches) {
        /* without memory: without batches */
        (void)net_engine_use_batches(&node->engine, pair->batch_bytes, transmit_batch);
    }
}

void pair_start(struct pair *pair, struct fuzz_input *head)
{
    static const uint32_t payloads[] = {256, 520, 1464, 4056};
    unsigned bits = (unsigned)fuzz_take(head, 1);
    unsigned sizes = (unsigned)fuzz_take(head, 1);
    memset(pair, 0, sizeof(*pair));
    pair->now_ns = 5 * PAIR_S;
    pair->use_batches = (bits & 1) != 0;
    pair->batch_bytes = (sizes & 64) != 0 ? 3000 : RAWE_BATCH_BYTES_MAX;
    pair->replies = (bits & 2) != 0;
    pair->closes_failed = (bits & 4) != 0;
    pair->streak_ns = (sizes & 32) != 0 ? PAIR_MS : 0;
    pair->config = (struct rawe_engine_config){
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
        .ack_delay_ns = 50 * PAIR_US,
        .liveness.probe_least_ns = 500 * PAIR_US,
        .liveness.probe_most_ns = 100 * PAIR_MS,
        .reorder_ns = 100 * PAIR_US,
        .coalesce_from_frames = (sizes & 16) != 0 ? 2 : 0,
        .liveness.peer_timeout_ns = (bits & 128) != 0 ? 5 * PAIR_S : 0,
    };
    pair_messages_start(pair);
    for (unsigned i = 0; i < PAIR_NODES; i++) {
        start_node(pair, i);
    }
}

struct rawe_peer *pair_peer(struct pair_node *node)
{
    node->peer.route.key = node->pair->node[1 - node->index].key;
    return &node->peer;
}

void pair_open(struct pair_node *node, enum rawe_lane lane)
{
    if (!node->ending) {
        (void)rawe_peer_conn(pair_peer(node), lane); /* NULL without memory */
    }
}

void pair_close(struct pair_node *node, enum rawe_lane lane)
{
    struct rawe_conn *conn = node->peer.conn[lane];
    if (conn != NULL) {
        pair_messages_closed(node, conn);
        if (lane == RAWE_LANE_BULK) {
            node->next_in_order = 0;
        }
        node->peer.conn[lane] = NULL;
        rawe_conn_close(conn, node->pair->now_ns);
    }
}

static void stop_node(struct pair_node *node)
{
    node->ending = true;
    pair_come_back(node);
    for (unsigned lane = 0; lane < RAWE_LANES; lane++) {
        pair_close(node, lane);
    }
    net_engine_stop(&node->engine);
}

void pair_stop(struct pair *pair)
{
    fuzz_allocations_left = UINT32_MAX;
    for (unsigned i = 0; i < PAIR_NODES; i++) {
        stop_node(&pair->node[i]);
    }
    while (pair->wire_count != 0) {
        net_frame_free(pair->wire[--pair->wire_count]);
    }
    pair_messages_stop(pair);
}

void pair_restart(struct pair_node *node)
{
    node->link_room = 0; /* it dies without a CLOSE */
    stop_node(node);
    pair_messages_died(node);
    start_node(node->pair, node->index);
}

unsigned pair_deliver(struct pair *pair, unsigned position, bool whole)
{
    if (pair->wire_count == 0) {
        return 0;
    }
    position %= pair->wire_count;
    struct pair_node *receiver = &pair->node[1 - pair->wire[position]->from];
    if (!receiver->engine.deferral.active) {
        pair_come_back(receiver); /* what was kept comes first; this may send, behind all others */
    }
    /* What the engine sends meanwhile goes behind all others: these stay where they are. */
    bool placed;
    const unsigned count =
        net_frames_receive(&receiver->engine, &pair->wire[position],
                           whole ? pair->wire_count - position : 1, pair->now_ns, &placed);
    for (unsigned i = 0; i < count; i++) {
        net_frame_free(pair_take(pair, position));
    }
    return count;
}

void pair_come_back(struct pair_node *node)
{
    rawe_engine_defer_end(&node->engine);
    if (rawe_engine_has_deferred(&node->engine)) {
        rawe_engine_deliver_deferred(&node->engine);
    }
}

void pair_progress(struct pair_node *node)
{
    rawe_engine_flush(&node->engine, node->pair->now_ns);
    rawe_engine_advance(&node->engine, node->pair->now_ns);
    rawe_engine_flush(&node->engine, node->pair->now_ns);
}

static bool at_rest(const struct pair *pair)
{
    if (pair->wire_count != 0) {
        return false;
    }
    for (unsigned i = 0; i < PAIR_NODES; i++) {
        for (unsigned lane = 0; lane < RAWE_LANES; lane++) {
            const struct rawe_conn *conn = pair->node[i].peer.conn[lane];
            if (conn != NULL && !rawe_conn_drained(conn) && !pair->unsettled[lane]) {
                return false;
            }
        }
    }
    return true;
}

void pair_settle(struct pair *pair)
{
    uint64_t step_ns = SETTLE_STEP_NS;
    unsigned turns = pair->ledger.lying ? 60 : SETTLE_TURNS;
    fuzz_allocations_left = UINT32_MAX;
    for (unsigned i = 0; i < PAIR_NODES; i++) {
        pair->node[i].link_room = UINT32_MAX;
        pair->node[i].loses_batches = false;
        pair_come_back(&pair->node[i]);
    }
    for (unsigned turn = 0; turn < turns; turn++) {
        /* Only what lies there now: answers to it are the next turn's. */
        for (unsigned left = pair->wire_count; left != 0 && pair->wire_count != 0;) {
            pair->sent_in_call = 0;
            unsigned count = pair_deliver(pair, 0, true);
            left -= count < left ? count : left;
        }
        for (unsigned i = 0; i < PAIR_NODES; i++) {
            pair->sent_in_call = 0;
            pair_progress(&pair->node[i]);
        }
        pair_check(pair);
        if (at_rest(pair)) {
            break;
        }
        pair->now_ns += step_ns;
        step_ns = turn % 16 == 15 && step_ns < SETTLE_STEP_MOST_NS ? step_ns * 2 : step_ns;
    }
    if (!pair->ledger.lying) {
        FUZZ_CHECK(at_rest(pair), "the network is sound, but not everything comes to its end");
        net_ledger_check_arrived(&pair->ledger);
    }
}

/** The window's counts are those of its frames' states. */
static void check_window(const struct rawe_sendwin *window)
{
    uint32_t in_flight = 0;
    uint32_t to_transmit = 0;
    uint32_t sacked = 0;
    uint32_t sequence = window->una;
    for (const struct rawe_txframe *frame = window->oldest; frame != NULL; frame = frame->next) {
        FUZZ_CHECK(sequence - frame->sequence < frame->segments, "a number is another frame's");
        uint64_t open = rawe_txframe_all(frame) & UINT64_MAX << (sequence - frame->sequence);
        FUZZ_CHECK((frame->to_send & (frame->arrived | ~open)) == 0,
                   "what has arrived is to be sent");
        in_flight += rawe_sendwin_count(rawe_txframe_in_flight(frame) & open);
        to_transmit += rawe_sendwin_count(frame->to_send);
        sacked += rawe_sendwin_count(frame->arrived & open);
        sequence = frame->sequence + frame->segments;
    }
    FUZZ_CHECK(sequence == window->next && in_flight == window->in_flight &&
                   to_transmit == window->to_transmit && sacked == window->sacked,
               "a window has counted wrongly");
}

void pair_check(struct pair *pair)
{
    pair->sent_in_call = 0;
    for (unsigned i = 0; i < PAIR_NODES; i++) {
        const struct rawe_engine *engine = &pair->node[i].engine;
        FUZZ_CHECK(engine->connections <= RAWE_LANES, "more connections than were opened");
        FUZZ_CHECK(engine->timers.armed <= RAWE_LANES + 1, "more timers than connections");
        FUZZ_CHECK(engine->frames.allocated <= engine->config.frames_limit + SLACK_FRAMES,
                   "more frames than the limit allows");
        FUZZ_CHECK(engine->reassembly_buffers.allocated <= BUFFERS_MAX + RAWE_LANES,
                   "more reassembly buffers than the limit allows");
        for (unsigned lane = 0; lane < RAWE_LANES; lane++) {
            if (pair->node[i].peer.conn[lane] != NULL) {
                check_window(&pair->node[i].peer.conn[lane]->sendwin);
            }
        }
    }
}
