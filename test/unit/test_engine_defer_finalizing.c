/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Tests of an engine whose owner never comes back. The harness checks that none of its callbacks but
 * `accept` and `silent` is called.
 */
#include "unit_defer.h"

#include <string.h>

#include "conn/rawe_conn.h"
#include "conn/rawe_conn_control.h"
#include "conn/rawe_conn_life.h"

static struct unit_send sends[40];
static unsigned transmitted_calls;

static void assert_forgotten(unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        assert_int_equal(sends[i].done, 0);
    }
}

/** Messages of one frame and of many, plain and in batches, come to node 1, which finalizes. */
static void receive_all_kinds(void)
{
    unit_fill(data, sizeof(data), 7);
    for (unsigned i = 0; i < 10; i++) {
        assert_int_equal(unit_copy_message(end(0), (uint8_t)i, 100), RAWE_STATUS_DONE);
    }
    send_messages(sends, 10, 1200);
    send_messages(sends + 10, 10, 30000);
    run(20 * UNIT_MS);
    for (unsigned i = 0; i < 20; i++) {
        assert_int_equal(sends[i].status, RAWE_STATUS_DONE);
        assert_int_equal(sends[i].done, 1);
    }
    assert_true(rawe_conn_drained(end(0)));
    assert_int_equal(net.node[1].message_count, 0);
    assert_int_equal(engine(1)->deferral.bytes, 0);
}

FIXTURE(unit_set_up_wide, unit_tear_down);

TEST(rawe_engine_finalizing__messages_are_acknowledged_and_dropped)
{
    unit_connect(&net, RAWE_LANE_BULK);
    rawe_engine_finalizing(engine(1));
    receive_all_kinds();
}

TEST(rawe_engine_finalizing__batches_are_dropped_too)
{
    unit_use_batches(&net, 16);
    unit_connect(&net, RAWE_LANE_BULK);
    rawe_engine_finalizing(engine(1));
    receive_all_kinds();
}

TEST(rawe_engine_finalizing__more_messages_than_are_kept)
{
    unit_connect(&net, RAWE_LANE_BULK);
    rawe_engine_finalizing(engine(1));
    for (unsigned i = 0; i < 10; i++) {
        send_messages(sends, 40, 60000);
        run(100 * UNIT_MS);
        assert_true(rawe_conn_drained(end(0)));
    }
    assert_true(400u * 60000u > net.config.deferred_max_bytes);
    assert_int_equal(net.node[1].message_count, 0);
}

TEST(rawe_engine_finalizing__in_the_middle_of_a_message)
{
    unit_connect(&net, RAWE_LANE_BULK);
    send_messages(sends, 1, 30000);
    for (unsigned i = 0; i < 10; i++) {
        struct net_frame *frame = unit_wire_take(&net);
        assert_non_null(frame);
        unit_receive(&net, frame);
        net_frame_free(frame);
    }
    rawe_engine_finalizing(engine(1));
    run(50 * UNIT_MS);
    assert_int_equal(sends[0].done, 1);
    assert_int_equal(net.node[1].message_count, 0);
}

TEST(rawe_engine_finalizing__what_was_deferred_is_dropped)
{
    struct unit_send answer = {.done = 0};
    struct unit_send bundle = {.send = {.done = unit_send_done, .kind = RAWE_FRAGMENT_BUNDLE}};
    connect_and_defer();
    rawe_conn_complete(engine(1), &bundle.send, RAWE_STATUS_DONE);
    send_messages(sends, 10, 1200);
    send_messages(sends + 10, 10, 30000);
    unit_send_message(end(1), &answer, 1, data, 1200);
    run(20 * UNIT_MS);
    assert_true(rawe_engine_has_deferred(engine(1)));
    rawe_engine_finalizing(engine(1));
    assert_int_equal(bundle.done, 1); /* memory of the engine's own */
    assert_false(rawe_engine_has_deferred(engine(1)));
    assert_int_equal(engine(1)->deferral.bytes, 0);
    rawe_engine_defer_end(engine(1));
    rawe_engine_deliver_deferred(engine(1));
    run(20 * UNIT_MS);
    assert_int_equal(net.node[1].message_count, 0);
    assert_int_equal(answer.done, 0);
}

TEST(rawe_engine_finalizing__sends_go_on_and_are_not_reported)
{
    unit_connect(&net, RAWE_LANE_BULK);
    unit_fill(data, sizeof(data), 7);
    send_messages(sends, 20, 30000); /* more than the window holds */
    rawe_engine_finalizing(engine(0));
    net.filter = drop_all;
    unit_settle(&net);
    net.filter = NULL;
    run(200 * UNIT_MS);
    assert_delivered_in_order(20, 30000);
    assert_true(rawe_conn_drained(end(0)));
    assert_forgotten(20);
}

static void count_transmitted(struct rawe_send *send, struct rawe_conn *conn)
{
    transmitted_calls++;
}

TEST(rawe_engine_finalizing__transmitted_sends_are_not_reported)
{
    unit_connect(&net, RAWE_LANE_BULK);
    transmitted_calls = 0;
    memset(sends, 0, sizeof(sends));
    end(0)->peer_credit = 2;
    sends[0].send.transmitted = count_transmitted;
    unit_send_message(end(0), &sends[0], 0, data, 30000);
    rawe_engine_finalizing(engine(0));
    run(50 * UNIT_MS);
    assert_int_equal(net.node[1].message_count, 1);
    assert_int_equal(transmitted_calls, 0);
    assert_forgotten(1);
}

TEST(rawe_engine_finalizing__closing_reports_nothing)
{
    unit_connect(&net, RAWE_LANE_BULK);
    send_messages(sends, 3, 30000);
    rawe_engine_finalizing(engine(0));
    unit_close(&net, 0, RAWE_LANE_BULK);
    assert_forgotten(3);
}

TEST(rawe_engine_finalizing__nobody_is_given_up)
{
    unit_connect(&net, RAWE_LANE_BULK);
    send_messages(sends, 3, 30000);
    rawe_engine_finalizing(engine(0));
    net.filter = drop_all;
    unit_run(&net, 3 * net.config.liveness.peer_timeout_ns, 100 * UNIT_MS);
    assert_true(net.node[0].silent_calls > 10);
    assert_true(net.node[0].silent_ns < UNIT_S); /* time does not count */
    assert_int_equal(net.node[0].failed_calls, 0);
    assert_forgotten(3);
}

TEST(rawe_engine_finalizing__deferring_does_not_end)
{
    unit_connect(&net, RAWE_LANE_BULK);
    rawe_engine_finalizing(engine(1));
    rawe_engine_defer_begin(engine(1));
    rawe_engine_defer_end(engine(1));
    receive_all_kinds();
}

TEST(rawe_engine_finalizing__bundles_are_given_back)
{
    unit_start_with((struct unit_options){.coalesce_from_frames = 4, .window_frames = 256});
    unit_use_batches(&net, 16);
    unit_connect(&net, RAWE_LANE_BULK);
    unit_fill(data, sizeof(data), 7);
    memset(sends, 0, sizeof(sends));
    for (unsigned i = 0; i < 40; i++) {
        sends[i].send.ordered = true;
        unit_send_message(end(0), &sends[i], (uint8_t)i, data, 300);
    }
    run(20 * UNIT_MS);
    assert_int_equal(end(0)->batch, RAWE_BATCH_VALID);
    memset(sends, 0, sizeof(sends));
    end(0)->peer_credit = 0;
    for (unsigned i = 0; i < 40; i++) {
        sends[i].send.ordered = true;
        unit_send_message(end(0), &sends[i], (uint8_t)i, data, 300);
    }
    end(0)->peer_credit = 100;
    net.filter = drop_all;
    rawe_conn_make_pending(end(0));
    rawe_engine_flush(engine(0), net.now_ns);
    assert_true(engine(0)->bundles.allocated > 0);
    net.filter = NULL;
    rawe_engine_finalizing(engine(0));
    run(200 * UNIT_MS);
    assert_true(rawe_conn_drained(end(0)));
}
