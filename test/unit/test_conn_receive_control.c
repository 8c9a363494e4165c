/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Tests of reception: control frames, CLOSE, frames out of place.
 */
#include "unit_receive.h"

#include <string.h>

#include "conn/rawe_conn_connect.h"
#include "conn/rawe_conn.h"

/* rawe_conn_receive */

static void receive_control(unsigned from, uint8_t type, uint32_t sequence, uint32_t beyond)
{
    unit_receive_forged(
        &net, from, RAWE_LANE_EXPRESS,
        (struct rawe_header){.type = type, .sequence = sequence, .acknowledgement = beyond}, NULL,
        0);
}

FIXTURE(unit_set_up, unit_tear_down);

TEST(rawe_conn_receive__acknowledges_what_was_never_sent)
{
    static const uint8_t types[] = {RAWE_FRAME_DATA, RAWE_FRAME_BULK, RAWE_FRAME_ACK,
                                    RAWE_FRAME_PROBE};
    connect_nodes();
    assert_int_equal(unit_copy_message(end(1), 1, 10), RAWE_STATUS_DONE);
    unit_wire_clear(&net);
    unsigned count = 0;
    for (unsigned i = 0; i < sizeof(types); i++) {
        uint8_t payload[64];
        size_t len_bytes = put_fragment(
            payload, (struct rawe_fragment){.kind = RAWE_FRAGMENT_MESSAGE, .data_bytes = 20}, 1);
        for (uint32_t beyond = 2; beyond < 0x7FFFFFFF; beyond *= 3) {
            unit_receive_forged(&net, 0, RAWE_LANE_EXPRESS,
                                (struct rawe_header){.type = types[i],
                                                     .sequence = end(1)->recvwin.acktr->next,
                                                     .acknowledgement = beyond},
                                payload, len_bytes);
            assert_int_equal(counters(1)->dropped_ack, ++count);
        }
    }
    assert_int_equal(end(1)->handshake.state, RAWE_CONN_OPEN);
    assert_int_equal(net.node[1].message_count, 0);
    assert_int_equal(counters(1)->frames_received, 0);
    assert_int_equal(counters(1)->probes_received, 0);
    assert_false(rawe_conn_drained(end(1)));
    assert_false(rawe_engine_pending(&net.node[1].engine));
}

TEST(rawe_conn_receive__a_probe_is_answered_at_the_end_of_the_round)
{
    connect_nodes();
    receive_control(0, RAWE_FRAME_PROBE, 41, 0);
    receive_control(0, RAWE_FRAME_PROBE, 42, 0);
    assert_int_equal(unit_wire_count(&net), 0);
    rawe_engine_flush(&net.node[1].engine, net.now_ns);
    assert_int_equal(unit_wire_count(&net), 1);
    assert_int_equal(net.wire->header.type, RAWE_FRAME_ACK);
    assert_int_equal(net.wire->header.flags, RAWE_FLAG_PROBE_ANSWER);
    assert_int_equal(net.wire->header.sequence, 42);
    assert_int_equal(counters(1)->probes_received, 2);
    unit_wire_clear(&net);
    rawe_engine_flush(&net.node[1].engine, net.now_ns);
    assert_int_equal(unit_wire_count(&net), 0);
}

TEST(rawe_conn_receive__ping_and_pong_are_not_for_a_connection)
{
    connect_nodes();
    receive_control(0, RAWE_FRAME_PING, 0, 0);
    receive_control(0, RAWE_FRAME_PONG, 0, 0);
    assert_int_equal(counters(1)->dropped_type, 2);
}

TEST(rawe_conn_receive__on_a_connection_that_is_not_open)
{
    static const uint8_t types[] = {RAWE_FRAME_DATA, RAWE_FRAME_BULK, RAWE_FRAME_ACK,
                                    RAWE_FRAME_PROBE, RAWE_FRAME_CLOSE};
    unsigned dropped = 0;
    unit_open(&net, 0, RAWE_LANE_EXPRESS);
    unit_open(&net, 1, RAWE_LANE_EXPRESS);
    for (unsigned i = 0; i < sizeof(types); i++) {
        receive_control(0, types[i], 0, 0);
        assert_int_equal(counters(1)->dropped_connection, ++dropped);
        assert_int_equal(end(1)->handshake.state, RAWE_CONN_IDLE);
    }
    rawe_conn_connect(end(0), net.now_ns);
    unit_settle(&net);
    unit_close(&net, 0, RAWE_LANE_EXPRESS);
    unit_settle(&net);
    assert_int_equal(end(1)->handshake.state, RAWE_CONN_PEER_CLOSED);
    for (unsigned i = 0; i < sizeof(types); i++) {
        receive_control(0, types[i], 0, 0);
        assert_int_equal(counters(1)->dropped_connection, ++dropped);
        assert_int_equal(end(1)->handshake.state, RAWE_CONN_PEER_CLOSED);
    }
    assert_int_equal(unit_wire_count(&net), 0);
    assert_int_equal(net.node[1].message_count, 0);
}

static bool drop_replies_to_node_0(struct unit_net *unused, const struct net_frame *frame)
{
    return frame->to != 0 || frame->header.type != RAWE_FRAME_CONNECT ||
           (frame->header.flags & RAWE_FLAG_REPLY) == 0;
}

TEST(rawe_conn_receive__data_while_still_asking)
{
    net.filter = drop_replies_to_node_0;
    unit_open(&net, 1, RAWE_LANE_EXPRESS);
    rawe_conn_connect(end(1), net.now_ns);
    unit_settle(&net);
    assert_int_equal(end(0)->handshake.state, RAWE_CONN_CONNECTING);
    assert_int_equal(unit_copy_message(end(1), 1, 10), RAWE_STATUS_DONE);
    unit_settle(&net);
    assert_int_equal(net.node[0].message_count, 1);
    unit_run(&net, UNIT_MS / 2, 20 * UNIT_US);
    assert_int_equal(counters(0)->acks_sent, 0); /* it does not know where to */
    assert_false(rawe_conn_drained(end(1)));
    net.filter = NULL;
    unit_run(&net, 5 * UNIT_MS, 20 * UNIT_US);
    assert_int_equal(end(0)->handshake.state, RAWE_CONN_OPEN);
    assert_true(rawe_conn_drained(end(1)));
    assert_int_equal(counters(1)->frames_resent, 0);
    assert_int_equal(net.node[0].message_count, 1);
}

TEST(rawe_conn_receive__close_twice)
{
    connect_nodes();
    unit_close(&net, 0, RAWE_LANE_EXPRESS);
    struct net_frame *close = unit_wire_take(&net);
    assert_int_equal(close->header.type, RAWE_FRAME_CLOSE);
    unit_receive(&net, close);
    uint64_t dropped = counters(1)->dropped_connection;
    unit_receive(&net, close);
    net_frame_free(close);
    assert_int_equal(end(1)->handshake.state, RAWE_CONN_PEER_CLOSED);
    assert_int_equal(counters(1)->dropped_connection, dropped + 1);
}

TEST(rawe_conn_receive__close_with_sends_queued)
{
    static uint8_t data[30000];
    struct unit_send sends[3];
    memset(sends, 0, sizeof(sends));
    unit_fill(data, sizeof(data), 2);
    connect_nodes();
    end(1)->peer_credit = 4;
    for (unsigned i = 0; i < 3; i++) {
        unit_send_message(end(1), &sends[i], (uint8_t)i, data, sizeof(data));
    }
    unit_wire_clear(&net);
    unit_close(&net, 0, RAWE_LANE_EXPRESS);
    unit_run(&net, 3000 * UNIT_MS, 500 * UNIT_US);
    /* The first was under way; the two others go to the connection that node 0 opens for them. */
    for (unsigned i = 0; i < 3; i++) {
        assert_int_equal(sends[i].done, 1);
        assert_int_equal(sends[i].status, i == 0 ? RAWE_STATUS_FAILED : RAWE_STATUS_DONE);
    }
    assert_int_equal(net.node[0].message_count, 2);
    unit_assert_message(&net.node[0], 0, 1, sizeof(data), 2);
    unit_assert_message(&net.node[0], 1, 2, sizeof(data), 2);
}

static struct unit_send after_close;
static uint8_t after_close_data[3000];

static void send_after_close(struct unit_send *send)
{
    unit_send_message(send->context, &after_close, 6, after_close_data, sizeof(after_close_data));
}

TEST(rawe_conn_receive__close_and_a_done_that_sends_again)
{
    static uint8_t data[1400];
    memset(&after_close, 0, sizeof(after_close));
    unit_fill(after_close_data, sizeof(after_close_data), 8);
    connect_nodes();
    struct unit_send send = {.on_done = send_after_close, .context = end(1)};
    unit_send_message(end(1), &send, 1, data, sizeof(data));
    unit_wire_clear(&net);
    unit_close(&net, 0, RAWE_LANE_EXPRESS);
    unit_run(&net, 3000 * UNIT_MS, 500 * UNIT_US);
    assert_int_equal(send.done, 1);
    assert_int_equal(after_close.done, 1);
    assert_int_equal(net.node[0].message_count, 1);
    unit_assert_message(&net.node[0], 0, 6, sizeof(after_close_data), 8);
}
