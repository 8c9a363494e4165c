/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * A hub and many spokes: see unit_star.h.
 */
#include "unit_star.h"

#include <stdlib.h>
#include <string.h>

#include "net_engine.h"
#include "conn/rawe_conn_connect.h"
#include "conn/rawe_conn_send.h"
#include "conn/rawe_conn.h"

static bool is_data(const struct net_frame *frame)
{
    return frame->header.type == RAWE_FRAME_DATA || frame->header.type == RAWE_FRAME_BULK;
}

static void put(void *context, struct net_frame *frame)
{
    struct star_node *from = context;
    struct star_node *to = &from->star->node[frame->to];
    if (to->ring_frames == to->ring_room) {
        to->ring_drops++;
        net_frame_free(frame);
        return;
    }
    to->data_frames += is_data(frame);
    if (to->data_frames > to->data_most) {
        to->data_most = to->data_frames;
    }
    *to->ring_tail = frame;
    to->ring_tail = &frame->next;
    to->ring_frames++;
}

static unsigned transmit(void *context, const struct rawe_frame *frames, unsigned count)
{
    struct star_node *node = context;
    struct net_link link = {.engine = &node->engine, .room = &node->link_room, .put = put};
    node->transmit_calls++;
    return net_link_transmit(&link, frames, count);
}

static void deliver(void *context, struct rawe_conn *conn, uint8_t tag, const uint8_t *data,
                    size_t len_bytes)
{
    struct star_node *node = context;
    node->messages++;
}

static struct rawe_conn *open_conn(struct star_node *from, unsigned to)
{
    struct rawe_conn *conn = net_engine_open(&from->engine, to, from->star->lane,
                                             from->star->config.payload_max_bytes, NULL);
    assert_non_null(conn);
    return conn;
}

static struct rawe_conn *accept_conn(void *context, const struct rawe_connect *from,
                                     const uint8_t source_mac[RAWE_MAC_BYTES])
{
    struct star_node *node = context;
    struct star *star = node->star;
    return node == star_hub(star) ? star->down[from->vpid] : star->up[node->index];
}

void star_init(struct star *star, unsigned spokes, enum rawe_lane lane)
{
    struct unit_net defaults;
    unit_init(&defaults);
    memset(star, 0, sizeof(*star));
    star->spokes = spokes;
    star->lane = lane;
    star->now_ns = defaults.now_ns;
    star->config = defaults.config;
}

void star_start(struct star *star)
{
    for (unsigned i = 0; i <= star->spokes; i++) {
        struct star_node *node = &star->node[i];
        struct rawe_engine_config config = star->config;
        node->star = star;
        node->index = i;
        node->ring_tail = &node->ring;
        node->ring_room = node->link_room = UINT32_MAX;
        net_identify(&config, i);
        const struct rawe_callbacks callbacks = {.deliver = deliver, .accept = accept_conn};
        net_engine_start(&node->engine, &node->handles, &config, &callbacks, transmit, node,
                         star->now_ns);
    }
    for (unsigned i = 0; i < star->spokes; i++) {
        star->up[i] = open_conn(&star->node[i], star->spokes);
        star->down[i] = open_conn(star_hub(star), i);
    }
}

void star_connect(struct star *star)
{
    for (unsigned i = 0; i < star->spokes; i++) {
        rawe_conn_connect(star->up[i], star->now_ns);
    }
    star_run(star, UNIT_MS, UNIT_MS / 4);
    for (unsigned i = 0; i < star->spokes; i++) {
        assert_int_equal(star->up[i]->handshake.state, RAWE_CONN_OPEN);
        assert_int_equal(star->down[i]->handshake.state, RAWE_CONN_OPEN);
    }
}

struct star_node *star_hub(struct star *star)
{
    return &star->node[star->spokes];
}

void star_receive(struct star_node *node, unsigned budget)
{
    uint64_t now_ns = node->star->now_ns;
    while (node->ring != NULL && budget-- != 0) {
        struct net_frame *frame = node->ring;
        node->ring = frame->next;
        if (node->ring == NULL) {
            node->ring_tail = &node->ring;
        }
        node->ring_frames--;
        node->data_frames -= is_data(frame);
        rawe_engine_receive(&node->engine, frame->bytes, frame->len_bytes, now_ns);
        net_frame_free(frame);
    }
    rawe_engine_flush(&node->engine, now_ns);
}

void star_send(struct star *star, struct rawe_conn *conn, struct unit_send *send, void *data,
               size_t len_bytes)
{
    *send = (struct unit_send){.send = {.done = unit_send_done,
                                        .kind = RAWE_FRAGMENT_MESSAGE,
                                        .pieces = {{data, len_bytes}},
                                        .piece_count = 1}};
    rawe_conn_send(conn, &send->send, star->now_ns);
}

enum rawe_status star_copy(struct star *star, struct rawe_conn *conn, size_t len_bytes)
{
    static const uint8_t zeros[1024];
    assert_true(len_bytes <= sizeof(zeros));
    return rawe_conn_send_copy(conn, 1, zeros, len_bytes, NULL, 0, star->now_ns);
}

void star_run(struct star *star, uint64_t duration_ns, uint64_t step_ns)
{
    for (uint64_t end_ns = star->now_ns + duration_ns; star->now_ns < end_ns;) {
        star->now_ns += step_ns;
        for (unsigned i = 0; i <= star->spokes; i++) {
            star_receive(&star->node[i], UINT32_MAX);
            rawe_engine_advance(&star->node[i].engine, star->now_ns);
            rawe_engine_flush(&star->node[i].engine, star->now_ns);
        }
    }
}

void star_stop(struct star *star)
{
    for (unsigned i = 0; i < star->spokes; i++) {
        rawe_conn_close(star->up[i], star->now_ns);
        rawe_conn_close(star->down[i], star->now_ns);
    }
    for (unsigned i = 0; i <= star->spokes; i++) {
        struct star_node *node = &star->node[i];
        while (node->ring != NULL) {
            struct net_frame *frame = node->ring;
            node->ring = frame->next;
            net_frame_free(frame);
        }
        net_engine_stop(&node->engine);
    }
}
