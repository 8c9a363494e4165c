/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Two engines wired together in memory: see unit_net.h.
 */
#include "unit_net.h"

#include <stdlib.h>
#include <string.h>

#include "net_engine.h"
#include "unit_link.h"
#include "unit_wire.h"

#include "conn/rawe_conn_connect.h"
#include "conn/rawe_conn.h"

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
    assert_true(!node->engine.deferral.active || node->engine.finalizing);
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
    node->lost_calls++;
}

static void start_node(struct unit_net *net, unsigned index)
{
    struct unit_node *node = &net->node[index];
    node->net = net;
    node->index = index;
    node->started = true;
    struct rawe_engine_config config = net->config;
    net_identify(&config, index);
    struct rawe_callbacks callbacks = {
        .deliver = deliver,
        .accept = accept_conn,
        .silent = silent,
        .failed = failed,
        .lost = lost,
    };
    net_engine_start(&node->engine, &node->handles, &config, &callbacks, unit_transmit, node,
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
    assert_null(node->engine.deferral.first);
    assert_null(node->engine.deferral.completed[0]);
    assert_null(node->engine.deferral.completed[1]);
    assert_int_equal(node->engine.deferral.bytes, 0);
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
    uint32_t segment_bytes = net->config.payload_max_bytes + RAWE_HEADER_BYTES -
                             RAWE_BATCH_HEADER_BYTES - NET_BATCH_OVERHEAD_BYTES;
    uint32_t bytes_max = frames_max * segment_bytes;
    bytes_max = bytes_max < RAWE_BATCH_BYTES_MAX ? bytes_max : RAWE_BATCH_BYTES_MAX;
    for (unsigned i = 0; i < UNIT_NODES; i++) {
        assert_true(net_engine_use_batches(&net->node[i].engine, bytes_max, unit_transmit_batch));
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
    assert_null(net->node[node].conn[lane]);
    struct rawe_conn *conn = net_engine_open(&net->node[node].engine, 1 - node, lane,
                                             net->config.payload_max_bytes, &net->node[node]);
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
