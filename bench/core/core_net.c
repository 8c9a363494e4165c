/* SPDX-License-Identifier: BSD-3-Clause */
/* A hub and its peers in memory: see core_net.h. */
#include "core_net.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "net_engine.h"
#include "net_packet.h"
#include "conn/rawe_conn_connect.h"
#include "conn/rawe_conn.h"

#define MESSAGE_BYTES_MAX 65536u

/* Frames in the hub's ring: enough for the credit of a thousand peers. */
#define RECEIVE_FRAMES 65536u

_Noreturn void core_net_fail(const char *what)
{
    fprintf(stderr, "core benchmark: %s\n", what);
    exit(1);
}

static void *get_memory(size_t count, size_t bytes)
{
    void *memory = calloc(count, bytes);
    if (memory == NULL) {
        core_net_fail("no memory; choose fewer peers");
    }
    return memory;
}

static void put_on_wire(struct core_node *node, const struct rawe_frame *frame)
{
    struct core_queue *queue = node->index == 0 ? &node->net->to_peers : &node->net->to_hub;
    struct rawe_header header;
    if (queue->count == CORE_NET_QUEUE_FRAMES) {
        core_net_fail("the wire in memory is full: more frames in a turn than it was made for");
    }
    struct core_frame *copy = &queue->frames[queue->count++];
    copy->len_bytes = frame->len_bytes;
    net_frame_linearize(&node->engine, frame, copy->bytes, &header);
    copy->node = net_index_of(copy->bytes);
}

unsigned core_net_transmit(void *context, const struct rawe_frame *frames, unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        put_on_wire(context, &frames[i]);
    }
    return count;
}

static void deliver(void *context, struct rawe_conn *conn, uint8_t tag, const uint8_t *data,
                    size_t len_bytes)
{
    struct core_node *node = context;
    node->delivered++;
    if (node->answers) {
        core_net_send(&node->hub, len_bytes);
    }
}

static uint64_t now_ns(void *net)
{
    return ((struct core_net *)net)->now_ns;
}

static void init_peer(struct rawe_peer *peer, struct core_node *node, uint32_t to)
{
    struct rawe_peer_config config = net_peer_config(to);
    config.payload_max_bytes = net_component_config().payload_max_bytes;
    config.owner = node;
    rawe_peer_init(peer, &node->engine, &config);
}

static struct rawe_conn *open_conn(struct rawe_peer *peer, unsigned lane)
{
    struct rawe_conn *conn = rawe_peer_conn(peer, lane);
    if (conn == NULL) {
        core_net_fail("no memory for a connection; choose fewer peers");
    }
    return conn;
}

/* Find a connection by the number of its peer. */
static struct rawe_conn *accept_conn(void *context, const struct rawe_connect *from,
                                     const uint8_t source_mac[RAWE_MAC_BYTES])
{
    struct core_node *node = context;
    return open_conn(node->index == 0 ? &node->net->peer[from->vpid] : &node->hub, from->lane);
}

static void start_node(struct core_net *net, uint32_t index)
{
    struct core_node *node = &net->nodes[index];
    node->net = net;
    node->index = index;
    struct rawe_engine_config config = net_component_config();
    config.receive_frames = RECEIVE_FRAMES;
    config.clock_ns = now_ns;
    config.clock_context = net;
    net_identify(&config, index);
    static const struct rawe_callbacks callbacks = {.deliver = deliver, .accept = accept_conn};
    net_engine_start(&node->engine, &node->handles, &config, &callbacks, core_net_transmit, node,
                     net->now_ns);
    init_peer(&node->hub, node, 0);
    init_peer(&net->peer[index], &net->nodes[0], index);
}

void core_net_init(struct core_net *net, uint32_t peers)
{
    *net = (struct core_net){.now_ns = 1000000000, .peers = peers};
    net->nodes = get_memory(peers + 1, sizeof(*net->nodes));
    net->peer = get_memory(peers + 1, sizeof(*net->peer));
    net->to_hub.frames = get_memory(CORE_NET_QUEUE_FRAMES, sizeof(struct core_frame));
    net->to_peers.frames = get_memory(CORE_NET_QUEUE_FRAMES, sizeof(struct core_frame));
    for (uint32_t i = 0; i <= peers; i++) {
        start_node(net, i);
    }
}

struct rawe_conn *core_net_open(struct core_net *net, uint32_t peer)
{
    return open_conn(&net->peer[peer], RAWE_LANE_EXPRESS);
}

void core_net_connect(struct core_net *net, uint32_t peer)
{
    struct rawe_conn *conn = core_net_open(net, peer);
    rawe_conn_connect(conn, net->now_ns);
    core_net_settle(net);
    if (conn->handshake.state != RAWE_CONN_OPEN) {
        core_net_fail("a connection did not open");
    }
}

void core_net_finish_turn(struct core_node *node)
{
    uint64_t now_ns = node->net->now_ns;
    if (rawe_timer_wheel_due(&node->engine.timers, now_ns)) {
        rawe_engine_advance(&node->engine, now_ns);
    }
    if (rawe_engine_pending(&node->engine)) {
        rawe_engine_flush(&node->engine, now_ns);
    }
}

void core_net_run_peers(struct core_net *net)
{
    /* Only the hub sends to peers, so the queue does not grow during this loop. */
    for (uint32_t i = 0; i < net->to_peers.count; i++) {
        struct core_frame *frame = &net->to_peers.frames[i];
        struct core_node *node = &net->nodes[frame->node];
        rawe_engine_receive(&node->engine, frame->bytes, frame->len_bytes, net->now_ns);
        if (i + 1 == net->to_peers.count || frame[1].node != frame->node) {
            core_net_finish_turn(node);
        }
    }
    net->to_peers.count = 0;
}

void core_net_run_hub(struct core_net *net)
{
    struct core_node *hub = &net->nodes[0];
    for (uint32_t i = 0; i < net->to_hub.count; i++) {
        struct core_frame *frame = &net->to_hub.frames[i];
        rawe_engine_receive(&hub->engine, frame->bytes, frame->len_bytes, net->now_ns);
    }
    net->to_hub.count = 0;
    core_net_finish_turn(hub);
}

void core_net_settle(struct core_net *net)
{
    do {
        core_net_run_peers(net);
        core_net_run_hub(net);
    } while (net->to_peers.count != 0 || net->to_hub.count != 0);
}

void core_net_send(struct rawe_peer *peer, size_t len_bytes)
{
    static uint8_t message[MESSAGE_BYTES_MAX];
    static const uint8_t header[16]; /* the PML's header */
    if (rawe_peer_send_copy(peer, 1, header, sizeof(header), message, len_bytes) !=
        RAWE_STATUS_DONE) {
        core_net_fail("a message was not taken: the window is full, or the connection is not open");
    }
}
