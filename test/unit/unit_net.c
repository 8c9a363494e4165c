/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Two engines wired together in memory: see unit_net.h.
 */
#include "unit_net.h"

#include <stdlib.h>
#include <string.h>

#include "unit_link.h"
#include "unit_wire.h"

#include "rawe_conn_connect.h"
#include "rawe_conn.h"

void unit_node_mac(unsigned index, uint8_t mac[RAWE_MAC_BYTES])
{
    static const uint8_t base[RAWE_MAC_BYTES] = {0x02, 0, 0, 0, 0, 0x10};
    memcpy(mac, base, RAWE_MAC_BYTES);
    mac[5] = (uint8_t)(mac[5] + index);
}

uint16_t unit_node_port(unsigned index)
{
    return (uint16_t)(500 + index);
}

uint32_t unit_node_key(unsigned index)
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
    unit_node_mac(index, config.mac);
    config.port = unit_node_port(index);
    config.key = unit_node_key(index);
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
    struct rawe_output output = {.transmit = unit_transmit, .context = node};
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
            .output = {.transmit = unit_transmit_batch, .context = &net->node[i]},
            .frames_max = frames_max,
            .bytes_max = 60000,
            .fill_max_bytes = net->fill_max_bytes,
            .overhead_bytes = NET_BATCH_OVERHEAD_BYTES,
            .receive_frames = net->config.receive_frames,
        };
        assert_true(rawe_engine_use_batches(&net->node[i].engine, &batches));
    }
}

void unit_set_credit(struct unit_net *net, unsigned node, uint16_t frames)
{
    for (unsigned lane = 0; lane < RAWE_LANES; lane++) {
        net->node[node].engine.credit.share[lane] = (struct rawe_credit_share){frames, frames, 1};
        net->node[node].engine.credit.version++;
    }
}

struct rawe_conn *unit_open(struct unit_net *net, unsigned node, enum rawe_lane lane)
{
    struct rawe_conn_config config = {
        .peer_port = unit_node_port(1 - node),
        .peer_key = unit_node_key(1 - node),
        .payload_max_bytes = net->config.payload_max_bytes,
        .lane = (uint8_t)lane,
        .owner = &net->node[node],
    };
    unit_node_mac(1 - node, config.peer_mac);
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
        conn->sendwin.una = conn->sendwin.next = conn->sendwin.transmit_from = conn->ack_requested =
            sequence;
        conn->recvwin.acktr->next = sequence;
    }
}
