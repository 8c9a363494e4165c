/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Tests of an engine that defers: delivering what was deferred, and deferring without memory.
 */
#include "unit_alloc.h"
#include "unit_defer.h"

#include <string.h>

#include "conn/rawe_conn_receive.h"
#include "conn/rawe_conn.h"

static void set_up(void)
{
    unit_allocations_left = -1;
    unit_start_with((struct unit_options){.window_frames = 256});
}

static void tear_down(void)
{
    unit_allocations_left = -1;
    unit_stop(&net);
}

static struct rawe_conn *other;

/** Sends, flushes and defers again: what was kept must still come once, in order. */
static void deliver_and_go_on(struct unit_node *node, struct rawe_conn *conn, uint8_t tag)
{
    unit_send_copy(conn, tag, 10);
    rawe_engine_flush(&node->engine, net.now_ns);
    if (tag % 4 == 1) {
        rawe_engine_deliver_deferred(&node->engine);
    }
    if (other != NULL) {
        other = NULL;
        unit_close(&net, 1, RAWE_LANE_EXPRESS);
    }
}

FIXTURE(set_up, tear_down);

TEST(rawe_engine_deliver_deferred__from_inside_a_callback)
{
    struct unit_send sends[12];
    connect_and_defer();
    send_messages(sends, 12, 3000);
    run(5 * UNIT_MS);
    net.node[1].on_deliver = deliver_and_go_on;
    rawe_engine_defer_end(engine(1));
    rawe_engine_deliver_deferred(engine(1));
    assert_int_equal(engine(1)->deferral->bytes, 0);
    run(UNIT_MS);
    assert_delivered_in_order(12, 3000);
    assert_int_equal(net.node[0].message_count, 12);
}

static struct net_frame *last;

/** The owner waits in its callback; what comes meanwhile is delivered behind what came before. */
static void receive_last(struct unit_node *node, struct rawe_conn *conn, uint8_t tag)
{
    assert_int_equal(tag, 0);
    node->on_deliver = NULL;
    rawe_engine_defer_begin(&node->engine);
    unit_receive(&net, last);
    rawe_engine_defer_end(&node->engine);
    assert_int_equal(node->message_count, 1);
}

TEST(rawe_conn_deliver_fragmented__some_deferred_inside_a_callback)
{
    static struct unit_send sends[4];
    struct net_frame *frames[8];
    connect_and_defer();
    rawe_engine_defer_end(engine(1));
    send_messages(sends, 4, 2000);
    for (unsigned i = 0; i < 8; i++) {
        frames[i] = net_queue_take(&net.queue);
        assert_non_null(frames[i]);
    }
    for (unsigned i = 1; i < 7; i++) {
        unit_receive(&net, frames[i]);
    }
    last = frames[7];
    net.node[1].on_deliver = receive_last;
    unit_receive(&net, frames[0]);
    assert_false(rawe_engine_has_deferred(engine(1)));
    assert_delivered_in_order(4, 2000);
    for (unsigned i = 0; i < 8; i++) {
        net_frame_free(frames[i]);
    }
    finish();
}

TEST(rawe_engine_defer_begin__without_memory_it_is_not_taken)
{
    connect_and_defer();
    unit_send_copy(end(0), 7, 100);
    struct net_frame *frame = net_queue_take(&net.queue);
    unit_allocations_left = 0;
    unit_receive(&net, frame);
    unit_allocations_left = -1;
    assert_int_equal(engine(1)->counters.no_buffer, 1);
    assert_int_equal(engine(1)->counters.frames_received, 0);
    assert_int_equal(engine(1)->deferral->bytes, 0);
    net_frame_free(frame);
    run(5 * UNIT_MS); /* it is sent again */
    assert_true(rawe_conn_drained(end(0)));
    resume(1);
    unit_assert_last(&net.node[1], 1, 7, 100, 7);
}

/** There is memory for buffers of messages from now on, even when none is left for keeping them. */
static void have_buffers(void)
{
    void *buffers[80];
    for (unsigned i = 0; i < 80; i++) {
        buffers[i] = rawe_buffer_take(&engine(1)->reassembly_buffers);
        assert_non_null(buffers[i]);
    }
    for (unsigned i = 0; i < 80; i++) {
        rawe_buffer_give(&engine(1)->reassembly_buffers, buffers[i]);
    }
}

/** The first stays in its buffer. Nothing may pass it, so nothing more is taken. */
TEST(rawe_engine_defer_begin__without_memory_it_stays_where_it_is)
{
    static struct unit_send sends[5];
    connect_and_defer();
    send_messages(sends, 1, 2000);
    run(UNIT_MS);
    resume(1);
    have_buffers();
    rawe_engine_defer_begin(engine(1));
    for (unsigned i = 1; i < 5; i++) {
        unit_send_message(end(0), &sends[i], (uint8_t)i, data, 2000);
    }
    while (net_queue_count(&net.queue) != 0) {
        struct net_frame *frame = net_queue_take(&net.queue);
        unit_allocations_left = 0;
        unit_receive(&net, frame);
        unit_allocations_left = -1;
        net_frame_free(frame);
    }
    assert_int_equal(engine(1)->counters.no_buffer, 3 * 2); /* frames of those behind it */
    assert_null(engine(1)->deferral->first);
    assert_true(engine(1)->deferral->fragments_wait);
    assert_true(rawe_engine_has_deferred(engine(1)));
    /* What is refused meanwhile is not sent again and again. */
    run(5 * UNIT_MS);
    assert_int_equal(sends[1].done, 1);
    assert_int_equal(sends[2].done, 0);
    assert_int_equal(end(0)->peer_credit, 0);
    assert_in_range(engine(0)->counters.frames_resent, 0, 3 * 2);
    resume(1);
    run(20 * UNIT_MS);
    assert_delivered_in_order(5, 2000);
    unit_assert_sent(sends, 5, RAWE_STATUS_DONE);
}

/** The owner is back, and there is still no memory: what comes waits behind what has stayed. */
TEST(rawe_engine_deliver_deferred__still_without_memory)
{
    static struct unit_send sends[3];
    connect_and_defer();
    have_buffers();
    send_messages(sends, 3, 2000);
    for (unsigned i = 0; i < 6; i++) {
        struct net_frame *frame = net_queue_take(&net.queue);
        unit_allocations_left = 0;
        unit_receive(&net, frame);
        if (i == 3) {
            rawe_engine_defer_end(engine(1));
            rawe_engine_deliver_deferred(engine(1));
        }
        unit_allocations_left = -1;
        net_frame_free(frame);
        assert_int_equal(net.node[1].message_count, 0);
    }
    run(20 * UNIT_MS);
    assert_delivered_in_order(3, 2000);
}

TEST(rawe_engine_deliver_deferred__connection_closed_with_something_kept)
{
    struct unit_send sends[6];
    connect_and_defer();
    struct rawe_conn *express = unit_connect(&net, RAWE_LANE_EXPRESS);
    for (unsigned i = 0; i < 6; i++) { /* by turns, the last of all for the one that stays */
        unit_send_copy(express, 100, 50);
        memset(&sends[i], 0, sizeof(sends[i]));
        unit_send_message(end(0), &sends[i], (uint8_t)i, data, 3000);
        run(UNIT_MS);
    }
    assert_in_range(engine(1)->deferral->bytes, 6 * (3000 + 50 + RAWE_FRAGMENT_MESSAGE_BYTES),
                    6 * (3200 + 50 + RAWE_FRAGMENT_MESSAGE_BYTES));
    unit_close(&net, 1, RAWE_LANE_EXPRESS);
    assert_in_range(engine(1)->deferral->bytes, 6 * 3000, 6 * 3100);
    unit_send_message(end(0), &sends[0], 6, data, 3000);
    run(UNIT_MS);
    resume(1);
    assert_delivered_in_order(7, 3000);
}

TEST(rawe_engine_deliver_deferred__closed_while_others_are_delivered)
{
    struct unit_send sends[2];
    connect_and_defer();
    struct rawe_conn *express = unit_connect(&net, RAWE_LANE_EXPRESS);
    send_messages(sends, 1, 3000);
    run(UNIT_MS);
    unit_send_copy(express, 100, 50);
    run(UNIT_MS);
    other = net.node[1].conn[RAWE_LANE_EXPRESS];
    net.node[1].on_deliver = deliver_and_go_on;
    resume(1);
    assert_delivered_in_order(1, 3000);
    run(UNIT_MS);
}

TEST(rawe_engine_deliver_deferred__not_when_the_peer_closes)
{
    struct unit_send sends[5];
    connect_and_defer();
    send_messages(sends, 5, 3000);
    run(5 * UNIT_MS);
    unit_close(&net, 0, RAWE_LANE_BULK);
    run(UNIT_MS);
    assert_int_equal(end(1)->handshake.state, RAWE_CONN_PEER_CLOSED);
    resume(1);
    assert_delivered_in_order(5, 3000); /* the peer believes that they have arrived */
}

TEST(rawe_engine_deliver_deferred__what_stayed_when_the_peer_closes)
{
    static struct unit_send sends[4];
    struct net_frame *frames[8];
    connect_and_defer();
    engine(1)->deferral->limit_bytes = 1;
    send_messages(sends, 4, 2000);
    for (unsigned i = 0; i < 8; i++) {
        frames[i] = net_queue_take(&net.queue);
        assert_non_null(frames[i]);
    }
    for (unsigned i = 8; i-- > 0;) { /* all others wait for the first frame, and then for room */
        unit_receive(&net, frames[i]);
        net_frame_free(frames[i]);
    }
    assert_true(engine(1)->deferral->fragments_wait);
    run(UNIT_MS);
    unit_assert_sent(sends, 4, RAWE_STATUS_DONE);
    unit_close(&net, 0, RAWE_LANE_BULK);
    run(UNIT_MS);
    assert_int_equal(end(1)->handshake.state, RAWE_CONN_PEER_CLOSED);
    resume(1);
    assert_delivered_in_order(4, 2000);
}
