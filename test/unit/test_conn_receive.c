/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Tests of reception: which frames are taken, what is delivered.
 */
#include "unit_receive.h"

#include <string.h>

FIXTURE(unit_set_up, unit_tear_down);

TEST(receive_data__a_duplicate_is_acknowledged_and_not_delivered)
{
    connect_nodes();
    receive_message(0, 0, 1);
    receive_message(2, 0, 2);
    rawe_engine_flush(&net.node[1].engine, net.now_ns);
    uint64_t acks = counters(1)->acks_sent;
    receive_message(0u - 1, 0, 1); /* behind the acknowledgement */
    rawe_engine_flush(&net.node[1].engine, net.now_ns);
    assert_int_equal(counters(1)->acks_sent, acks + 1);
    receive_message(2, 0, 2); /* beyond the hole */
    rawe_engine_flush(&net.node[1].engine, net.now_ns);
    assert_int_equal(counters(1)->acks_sent, acks + 2);
    assert_int_equal(counters(1)->duplicates, 2);
    assert_int_equal(counters(1)->frames_received, 2);
    assert_int_equal(net.node[1].message_count, 2);
    unit_wire_clear(&net);
}

TEST(receive_data__outside_the_window)
{
    connect_nodes();
    receive_message(RAWE_WINDOW_FRAMES_MAX, RAWE_FLAG_ACK_NOW, 1);
    receive_message(0x70000000, RAWE_FLAG_ACK_NOW, 1);
    assert_int_equal(counters(1)->dropped_outside, 2);
    assert_int_equal(counters(1)->frames_received, 0);
    assert_int_equal(net.node[1].message_count, 0);
    assert_false(rawe_engine_pending(&net.node[1].engine));
    receive_message(RAWE_WINDOW_FRAMES_MAX - 1, 0, 1);
    assert_int_equal(net.node[1].message_count, 1);
}

/* Messages */

TEST(rawe_conn_deliver_messages__several_in_a_frame)
{
    uint8_t payload[256];
    size_t at = 0;
    connect_nodes();
    static const uint16_t lengths[] = {5, 0, 8, 31, 1};
    for (uint8_t i = 0; i < 5; i++) {
        at += put_fragment(payload + at,
                           (struct rawe_fragment){
                               .kind = RAWE_FRAGMENT_MESSAGE, .tag = i, .data_bytes = lengths[i]},
                           i);
    }
    receive_data(0, 0, payload, at - 7); /* without the padding of the last */
    assert_int_equal(net.node[1].message_count, 5);
    for (uint8_t i = 0; i < 5; i++) {
        unit_assert_message(&net.node[1], i, i, lengths[i], i);
    }
    assert_int_equal(counters(1)->frames_received, 1);
    assert_int_equal(counters(1)->messages_received, 5);
    assert_int_equal(counters(1)->bytes_received, 45);
}

TEST(rawe_conn_deliver_messages__what_is_before_a_malformed_fragment_counts)
{
    connect_nodes();
    /* What may stand behind a good message: cut off, too long, unknown, of the wrong kind. */
    static const uint8_t tails[][24] = {
        {1, 1, 0, 0, 0, 0, 0},          /* 7 bytes: shorter than a fragment header */
        {1, 1, 0xFF, 0xFF, 0, 0, 0, 0}, /* longer than the frame */
        {1, 1, 0, 1, 0, 0, 0, 0},       /* one byte longer than the frame */
        {0, 1, 0, 0, 0, 0, 0, 0},       /* no such kind */
        {99, 1, 0, 0, 0, 0, 0, 0},
        {2, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0},
        {3, 0, 0, 0, 0, 0, 0, 0}, /* a PUT cut off */
        {3, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0},
    };
    static const size_t tail_bytes[] = {7, 8, 8, 8, 8, 16, 8, 24};
    for (unsigned i = 0; i < sizeof(tails) / sizeof(tails[0]); i++) {
        uint8_t payload[64];
        size_t at = put_fragment(
            payload,
            (struct rawe_fragment){.kind = RAWE_FRAGMENT_MESSAGE, .tag = 7, .data_bytes = 12}, i);
        memcpy(payload + at, tails[i], tail_bytes[i]);
        uint32_t next = end(1)->recvwin.acktr->next;
        receive_data(0, 0, payload, at + tail_bytes[i]);
        assert_int_equal(net.node[1].message_count, i + 1);
        unit_assert_message(&net.node[1], i, 7, 12, i);
        assert_int_equal(counters(1)->dropped_length, i + 1);
        assert_int_equal(end(1)->recvwin.acktr->next,
                         next + 1); /* sent again it would be no better */
    }
}

TEST(receive_data__a_malformed_first_fragment_is_not_taken)
{
    connect_nodes();
    static const uint8_t payloads[][40] = {
        {0},                                                          /* empty frame */
        {1, 1, 0, 0, 0, 0, 0},                                        /* cut off */
        {1, 1, 0, 1, 0, 0, 0, 0},                                     /* longer than the frame */
        {0, 1, 0, 0, 0, 0, 0, 0},                                     /* no such kind */
        {2, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0},                         /* SEGMENT cut off */
        {2, 1, 0, 4, 0, 0, 0, 0, 0, 0, 0, 5, 0, 0, 0, 8, 1, 2, 3, 4}, /* beyond its message */
        {3, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0},             /* PUT cut off */
        /* SEGMENT and PUT with something behind them */
        {2, 1, 0, 8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 16, 1, 2, 3, 4, 5, 6, 7, 8, 1, 0, 0, 0, 0},
        {3, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0},
    };
    static const size_t lengths[] = {0, 7, 8, 8, 12, 20, 16, 32, 32};
    uint32_t next = end(1)->recvwin.acktr->next;
    for (unsigned i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
        receive_data(0, RAWE_FLAG_ACK_NOW, payloads[i], lengths[i]);
        assert_int_equal(counters(1)->dropped_length, i + 1);
        assert_int_equal(end(1)->recvwin.acktr->next, next);
    }
    assert_int_equal(counters(1)->frames_received, 0);
    assert_int_equal(net.node[1].engine.reassembly_buffers.allocated, 0);
    assert_int_equal(unit_wire_count(&net), 0);
    receive_message(0, 0, 1); /* the true frame of that number is still welcome */
    assert_int_equal(net.node[1].message_count, 1);
}

/* Callbacks that call back */

static unsigned replies;

static void reply_to(struct unit_node *node, struct rawe_conn *conn, uint8_t tag)
{
    replies++;
    assert_int_equal(unit_copy_message(conn, (uint8_t)(tag + 100), 30), RAWE_STATUS_DONE);
}

TEST(rawe_conn_deliver__a_callback_replies)
{
    replies = 0;
    connect_nodes();
    net.node[1].on_deliver = reply_to;
    uint8_t payload[256];
    size_t at = 0;
    for (uint8_t i = 0; i < 4; i++) {
        at += put_fragment(
            payload + at,
            (struct rawe_fragment){.kind = RAWE_FRAGMENT_MESSAGE, .tag = i, .data_bytes = 9}, i);
    }
    receive_data(0, RAWE_FLAG_ACK_NOW, payload, at);
    assert_int_equal(replies, 4);
    /* The first reply already carries the acknowledgement: no frame of its own for it. */
    assert_int_equal(net.wire->header.acknowledgement, UINT32_MAX);
    rawe_engine_flush(&net.node[1].engine, net.now_ns);
    assert_int_equal(counters(1)->acks_sent, 0);
    unit_wire_clear(&net);
}

static uint8_t ping_pong_data[5000];
static struct unit_send ping_pong_sends[2];
static unsigned ping_pongs_left;

static void volley(struct unit_node *node, struct rawe_conn *conn, uint8_t tag)
{
    if (ping_pongs_left != 0 && ping_pong_sends[node->index].done == 1) {
        ping_pongs_left--;
        unit_send_message(conn, &ping_pong_sends[node->index], tag, ping_pong_data,
                          sizeof(ping_pong_data));
    }
}

TEST(rawe_conn_deliver__ping_pong_out_of_callbacks)
{
    unit_fill(ping_pong_data, sizeof(ping_pong_data), 1);
    connect_nodes();
    memset(ping_pong_sends, 0, sizeof(ping_pong_sends));
    ping_pong_sends[1].done = 1;
    ping_pongs_left = 500;
    net.node[0].on_deliver = net.node[1].on_deliver = volley;
    unit_send_message(end(0), &ping_pong_sends[0], 1, ping_pong_data, sizeof(ping_pong_data));
    unit_run(&net, 2 * UNIT_MS, 20 * UNIT_US);
    assert_int_equal(ping_pongs_left, 0);
    assert_int_equal(net.node[0].message_count + net.node[1].message_count, 501);
    for (unsigned i = 0; i < net.node[0].message_count; i++) {
        unit_assert_message(&net.node[0], i, 1, sizeof(ping_pong_data), 1);
    }
    assert_int_equal(counters(0)->frames_resent + counters(1)->frames_resent, 0);
}
