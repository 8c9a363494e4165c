/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Tests of an engine that defers: what goes on meanwhile.
 */
#include "unit_defer.h"

#include <stdlib.h>
#include <string.h>

#include "conn/rawe_conn.h"

FIXTURE(unit_set_up_wide, unit_tear_down);

/* rawe_engine_defer_begin */

TEST(rawe_engine_defer_begin__messages_are_acknowledged_and_kept)
{
    struct unit_send sends[20];
    connect_and_defer();
    send_messages(sends, 20, 1200); /* alone in their frames, not copied: done when acknowledged */
    run(2 * UNIT_MS);
    for (unsigned i = 0; i < 20; i++) {
        assert_int_equal(sends[i].done, 1);
        assert_int_equal(sends[i].status, RAWE_STATUS_DONE);
    }
    assert_true(rawe_conn_drained(end(0)));
    assert_int_equal(net.node[1].message_count, 0);
    assert_int_equal(engine(1)->counters.messages_received, 0);
    assert_true(rawe_engine_has_deferred(engine(1)));
    assert_true(engine(1)->deferral.bytes >= 20 * 1200);
    resume(1);
    assert_delivered_in_order(20, 1200);
    rawe_engine_deliver_deferred(engine(1));
    assert_delivered_in_order(20, 1200); /* once */
    assert_int_equal(engine(0)->counters.frames_resent, 0);
}

TEST(rawe_engine_defer_begin__frames_with_several_messages)
{
    unit_start_with((struct unit_options){.coalesce_from_frames = 1});
    connect_and_defer();
    for (uint8_t tag = 0; tag < 40; tag++) {
        assert_int_equal(unit_copy_message(end(0), tag, tag), RAWE_STATUS_DONE);
    }
    run(UNIT_MS);
    assert_true(rawe_conn_drained(end(0)));
    assert_true(engine(0)->counters.messages_coalesced > 0);
    resume(1);
    assert_int_equal(net.node[1].message_count, 40);
    for (uint8_t tag = 0; tag < 40; tag++) {
        unit_assert_message(&net.node[1], tag, tag, tag, tag);
    }
}

TEST(rawe_engine_defer_begin__more_fragmented_messages_than_a_window_of_them)
{
    static struct unit_send sends[200];
    connect_and_defer();
    send_messages(sends, 200, 5000);
    run(20 * UNIT_MS);
    for (unsigned i = 0; i < 200; i++) {
        assert_int_equal(sends[i].done, 1);
    }
    assert_int_equal(net.node[1].message_count, 0);
    assert_in_range(engine(1)->deferral.bytes, 200 * 5000, 200 * 5100);
    resume(1);
    assert_delivered_in_order(200, 5000);
    send_messages(sends, 10, 5000); /* as if nothing had been */
    run(5 * UNIT_MS);
    assert_int_equal(net.node[1].message_count, 210);
}

TEST(rawe_engine_defer_begin__in_the_middle_of_a_message)
{
    struct unit_send sends[3];
    unit_connect(&net, RAWE_LANE_BULK);
    unit_fill(data, sizeof(data), 7);
    send_messages(sends, 3, 20000);
    for (unsigned i = 0; i < 20; i++) { /* one message and a part of the next */
        struct net_frame *frame = unit_wire_take(&net);
        assert_non_null(frame);
        unit_receive(&net, frame);
        net_frame_free(frame);
    }
    assert_int_equal(net.node[1].message_count, 1);
    rawe_engine_defer_begin(engine(1));
    run(5 * UNIT_MS);
    assert_int_equal(net.node[1].message_count, 1);
    assert_in_range(engine(1)->deferral.bytes, 40000, 40100);
    resume(1);
    assert_delivered_in_order(3, 20000);
}

TEST(rawe_engine_defer_begin__returns_in_the_middle_of_a_message)
{
    struct unit_send sends[3];
    connect_and_defer();
    send_messages(sends, 3, 20000);
    for (unsigned i = 0; i < 20; i++) {
        struct net_frame *frame = unit_wire_take(&net);
        assert_non_null(frame);
        unit_receive(&net, frame);
        net_frame_free(frame);
    }
    resume(1);
    assert_int_equal(net.node[1].message_count, 1);
    run(5 * UNIT_MS);
    assert_delivered_in_order(3, 20000);
}

TEST(rawe_engine_defer_begin__put_data_is_placed)
{
    static uint8_t memory[100000];
    struct unit_send send = {0};
    uint32_t index;
    uint64_t key;
    connect_and_defer();
    memset(memory, 0, sizeof(memory));
    assert_true(rawe_handle_register(engine(1)->config.handles, memory, sizeof(memory), &index,
                                     &key, RAWE_ACCESS_WRITE));
    unit_send_put(end(0), &send, data, sizeof(memory), index, key, 0);
    run(10 * UNIT_MS);
    assert_int_equal(send.done, 1);
    assert_int_equal(send.status, RAWE_STATUS_DONE);
    assert_memory_equal(memory, data, sizeof(memory));
    assert_false(rawe_engine_has_deferred(engine(1)));
}

TEST(rawe_engine_defer_begin__batches)
{
    static struct unit_send sends[40];
    unit_start_with(
        (struct unit_options){.coalesce_from_frames = 2, .window_frames = 256, .batch_frames = 16});
    connect_and_defer();
    send_messages(sends, 40, 5000);
    run(10 * UNIT_MS);
    assert_int_equal(sends[39].done, 1);
    assert_true(net.batches_placed > 0);
    resume(1);
    assert_delivered_in_order(40, 5000);
}

TEST(rawe_engine_defer_begin__lost_frames_and_duplicates)
{
    static struct unit_send sends[30];
    connect_and_defer();
    send_messages(sends, 30, 5000);
    unsigned count = unit_wire_count(&net);
    for (unsigned i = 0; i < count; i++) { /* every third is lost, every fifth comes twice */
        struct net_frame *frame = unit_wire_take(&net);
        if (i % 3 != 0) {
            unit_wire_put(&net, frame);
        }
        if (i % 5 == 0) {
            unit_wire_put(&net, net_frame_copy(frame));
        }
        if (i % 3 == 0) {
            net_frame_free(frame);
        }
    }
    run(50 * UNIT_MS);
    assert_true(rawe_conn_drained(end(0)));
    assert_true(engine(0)->counters.frames_resent > 0);
    assert_true(engine(1)->counters.duplicates > 0);
    resume(1);
    assert_delivered_in_order(30, 5000);
}

TEST(rawe_engine_defer_begin__completions_are_kept)
{
    struct unit_send sends[10];
    unit_connect(&net, RAWE_LANE_BULK);
    unit_fill(data, sizeof(data), 7);
    send_messages(sends, 10, 3000);
    rawe_engine_defer_begin(engine(0));
    run(5 * UNIT_MS);
    assert_true(rawe_conn_drained(end(0)));
    assert_true(rawe_engine_has_deferred(engine(0)));
    for (unsigned i = 0; i < 10; i++) {
        assert_int_equal(sends[i].done, 0);
    }
    resume(0);
    for (unsigned i = 0; i < 10; i++) {
        assert_int_equal(sends[i].done, 1);
        assert_int_equal(sends[i].status, RAWE_STATUS_DONE);
    }
    assert_delivered_in_order(10, 3000);
}

TEST(rawe_engine_defer_begin__what_is_queued_goes_on)
{
    static struct unit_send sends[100];
    unit_connect(&net, RAWE_LANE_BULK);
    unit_fill(data, sizeof(data), 7);
    send_messages(sends, 100, 20000); /* much more than a window */
    assert_true(end(0)->queue.bytes > 0);
    rawe_engine_defer_begin(engine(0));
    run(100 * UNIT_MS);
    assert_true(rawe_conn_drained(end(0)));
    assert_int_equal(end(0)->queue.bytes, 0);
    resume(0);
    for (unsigned i = 0; i < 100; i++) {
        assert_int_equal(sends[i].done, 1);
    }
    assert_delivered_in_order(100, 20000);
}

TEST(rawe_engine_defer_begin__failed_ones_are_kept_too)
{
    struct unit_send sends[4];
    unit_connect(&net, RAWE_LANE_BULK);
    unit_fill(data, sizeof(data), 7);
    send_messages(sends, 2, 3000);
    rawe_engine_defer_begin(engine(0));
    run(5 * UNIT_MS);
    rawe_engine_defer_end(engine(0));
    send_messages(sends + 2, 2, 3000);
    rawe_engine_defer_begin(engine(0));
    unit_close(&net, 0, RAWE_LANE_BULK); /* two of them acknowledged, two not */
    assert_int_equal(sends[2].done + sends[3].done, 0);
    resume(0);
    for (unsigned i = 0; i < 4; i++) {
        assert_int_equal(sends[i].done, 1);
        assert_int_equal(sends[i].status, i < 2 ? RAWE_STATUS_DONE : RAWE_STATUS_FAILED);
    }
}

/** Drop the first data frame of node 1. */
static bool drop_own(struct unit_net *of, const struct net_frame *frame)
{
    return frame->from != 1 || frame->header.type != RAWE_FRAME_BULK || of->filter_count++ != 0;
}

/**
 * More comes than is kept: the rest is sent again until the owner is back. Meanwhile what was lost
 * on the way from here is repaired.
 */
static void overflow_deferral(unsigned count, size_t len_bytes)
{
    struct unit_send *sends = malloc(count * sizeof(*sends));
    struct unit_send own = {0};
    assert_non_null(sends);
    unit_connect(&net, RAWE_LANE_BULK);
    unit_fill(data, sizeof(data), 7);
    rawe_engine_defer_begin(engine(1));
    send_messages(sends, count, len_bytes);
    for (unsigned i = 0; i < 2000 && engine(1)->counters.no_buffer == 0; i++) {
        run(UNIT_MS);
    }
    assert_true(engine(1)->counters.no_buffer > 0);
    net.filter = drop_own;
    unit_send_message(end(1), &own, 1, data, 1200);
    run(200 * UNIT_MS);
    assert_true(rawe_conn_drained(end(1)));
    assert_false(rawe_conn_drained(end(0)));
    assert_true(engine(1)->deferral.bytes >= net.config.deferred_max_bytes);
    assert_true(engine(1)->deferral.bytes < net.config.deferred_max_bytes + 65536);
    assert_int_equal(net.node[1].failed_calls + net.node[0].failed_calls, 0);
    resume(1);
    for (unsigned i = 0; i < 2000 && !rawe_conn_drained(end(0)); i++) {
        run(UNIT_MS);
    }
    assert_delivered_in_order(count, len_bytes);
    assert_int_equal(own.done, 1);
    assert_int_equal(net.node[0].message_count, 1);
    free(sends);
}

TEST(rawe_engine_defer_begin__more_fragmented_messages_than_are_kept)
{
    overflow_deferral(160, 60000);
}

TEST(rawe_engine_defer_begin__more_messages_than_are_kept)
{
    unsigned count = net.config.deferred_max_bytes / 1200 + 50;
    struct unit_send *sends = malloc(count * sizeof(*sends));
    assert_non_null(sends);
    connect_and_defer();
    send_messages(sends, count, 1200);
    for (unsigned i = 0; i < 2000 && engine(1)->counters.no_buffer == 0; i++) {
        run(UNIT_MS);
    }
    assert_true(engine(1)->counters.no_buffer > 0);
    assert_true(engine(1)->deferral.bytes < net.config.deferred_max_bytes + 2000);
    resume(1);
    for (unsigned i = 0; i < 2000 && !rawe_conn_drained(end(0)); i++) {
        run(UNIT_MS);
    }
    assert_int_equal(net.node[1].message_count, count);
    free(sends);
}

/* rawe_engine_complete_deferred */

static struct unit_send answers[4];
static unsigned answer_count;

/** Send an answer from inside the callback and wait for it, as osc/pt2pt does. */
static void answer_and_wait(struct unit_node *node, struct rawe_conn *conn, uint8_t tag)
{
    struct unit_send *answer = &answers[answer_count++];
    unsigned before = node->message_count;
    assert_int_equal(node->index, 1);
    memset(answer, 0, sizeof(*answer));
    unit_send_message(conn, answer, tag, data, 1200);
    for (unsigned i = 0; i < 100 && answer->done == 0; i++) {
        rawe_engine_defer_begin(&node->engine);
        unit_settle(&net);
        net.now_ns += 50 * UNIT_US;
        rawe_engine_advance(&node->engine, net.now_ns);
        rawe_engine_defer_end(&node->engine);
        rawe_engine_complete_deferred(&node->engine);
    }
    assert_int_equal(answer->done, 1);
    assert_int_equal(node->message_count, before); /* nothing is delivered inside */
}

TEST(rawe_engine_complete_deferred__a_callback_waits_for_its_send)
{
    struct unit_send sends[4];
    answer_count = 0;
    unit_connect(&net, RAWE_LANE_BULK);
    unit_fill(data, sizeof(data), 7);
    end(1)->cc.window = 1; /* an answer has to wait for the one before to be acknowledged */
    net.node[1].on_deliver = answer_and_wait;
    send_messages(sends, 2, 1200);
    send_messages(sends + 2, 2, 5000);
    for (unsigned i = 0; i < 100 && net.node[1].message_count < 4; i++) {
        run(UNIT_MS);
        rawe_engine_deliver_deferred(engine(1));
    }
    assert_int_equal(answer_count, 4);
    assert_int_equal(net.node[1].message_count, 4);
    unit_assert_message(&net.node[1], 2, 0, 5000, 7);
    unit_assert_message(&net.node[1], 3, 1, 5000, 7);
    assert_int_equal(net.node[0].message_count, 4);
    net.node[1].on_deliver = NULL;
}
