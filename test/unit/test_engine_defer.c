/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Tests of deferral: messages and completions while no callback may be called, their later
 * delivery, and lack of memory. The receiver is node 1.
 */
#include "unit_alloc.h"
#include "unit_pair.h"

#include <string.h>

#include "conn/rawe_conn.h"
#include "conn/rawe_conn_connect.h"
#include "conn/rawe_conn_tx.h"
#include "conn/rawe_conn_receive.h"

/** Content of messages: unit_fill with seed 7. */
static uint8_t data[300000];

static void run(uint64_t duration_ns)
{
    unit_run(&net, duration_ns, 50 * UNIT_US);
}

/** Open the lane and let node 1 defer; the harness checks that none of its callbacks is called. */
static void connect_and_defer(void)
{
    unit_connect(&net, RAWE_LANE_BULK);
    unit_fill(data, sizeof(data), 7);
    rawe_engine_defer_begin(engine(1));
}

/** Send messages with tags from 0 on. Only messages longer than a frame keep their order. */
static void send_messages(struct unit_send *sends, unsigned count, size_t len_bytes)
{
    memset(sends, 0, count * sizeof(*sends));
    unit_send_messages(end(0), sends, count, data, len_bytes);
}

FIXTURE(unit_set_up_wide, unit_tear_down);

static void set_up(void)
{
    unit_lane = RAWE_LANE_BULK;
    unit_init(&net);
    net.config.window_frames = 256;
    net.config.receive_frames = 1024;
    net.config.deferred_max_bytes = 200000;
    unit_start(&net);
}

static uint8_t bound_data[65536];
static struct unit_send many_sends[6000];

/** Send `count` ordered messages of `len_bytes` bytes to node 1, whose callbacks are deferred. */
static void send_in_order(unsigned count, size_t len_bytes)
{
    unit_connect(&net, RAWE_LANE_BULK);
    unit_fill(bound_data, sizeof(bound_data), 7);
    rawe_engine_defer_begin(engine(1));
    memset(many_sends, 0, sizeof(many_sends));
    for (unsigned i = 0; i < count; i++) {
        many_sends[i].send.ordered = true;
        unit_send_message(end(0), &many_sends[i], (uint8_t)i, bound_data, len_bytes);
    }
    unit_run(&net, 500 * UNIT_MS, UNIT_MS);
}

/** Stop deferring, and assert that everything is delivered once and in order. */
static void come_back(unsigned count, size_t len_bytes)
{
    for (unsigned i = 0; i < 100 && net.node[1].message_count != count; i++) {
        rawe_engine_defer_end(engine(1));
        rawe_engine_deliver_deferred(engine(1));
        unit_run(&net, 100 * UNIT_MS, UNIT_MS);
    }
    assert_int_equal(engine(1)->deferral->bytes, 0);
    assert_int_equal(net.node[1].message_count, count);
    for (unsigned i = 0; i < count; i++) {
        unit_assert_message(&net.node[1], i, (uint8_t)i, len_bytes, 7);
        assert_int_equal(many_sends[i].status, RAWE_STATUS_DONE);
    }
}

static const struct unit_fixture with_bounds = {set_up, unit_tear_down};

/** Return the number of frames that node 0 has sent, including retransmissions. */
static uint64_t sendings(void)
{
    return counters(0)->frames_sent + counters(0)->frames_resent;
}

/** Send 1.6 MB to a receiver that buffers only 200 kB and computes for 4 s, twice. */
static void overrun(unsigned batch_frames)
{
    if (batch_frames != 0) {
        unit_use_batches(&net, batch_frames);
    }
    send_in_order(400, 4000);
    for (unsigned i = 0; i < 2; i++) {
        uint64_t before = sendings(), probes = counters(0)->probes_sent;
        unit_run(&net, 4 * UNIT_S + 5 * UNIT_MS, UNIT_MS); /* no PROBE is due at the end */
        assert_int_equal(end(0)->tx.peer_credit, 0);
        assert_true(sendings() - before <= net.config.window_frames);
        assert_true(counters(0)->probes_sent - probes <= 4000 / 50);
        rawe_engine_defer_end(engine(1));
        rawe_engine_deliver_deferred(engine(1));
        rawe_engine_flush(engine(1), net.now_ns);
        rawe_engine_defer_begin(engine(1));
        /* Node 1 advertises its new credit without being probed. */
        probes = counters(0)->probes_sent;
        before = counters(1)->frames_received;
        unit_run(&net, 200 * UNIT_US, 50 * UNIT_US);
        assert_true(counters(1)->frames_received > before);
        assert_int_equal(counters(0)->probes_sent, probes);
    }
    assert_int_equal(counters(0)->congestion_events, 0);
    assert_true(counters(0)->losses_refused > 0);
    assert_true(sendings() <= 400 * 3 + 4 * net.config.window_frames);
    rawe_engine_defer_end(engine(1));
    come_back(400, 4000);
    assert_int_equal(counters(0)->congestion_events, 0);
}

TEST_WITH(with_bounds, rawe_engine_defer__without_room_batches_stay_valid)
{
    overrun(16);
    assert_int_equal(end(0)->path.batch, RAWE_BATCH_VALID);
    assert_int_equal(counters(0)->validations_failed, 0);
}

static unsigned lost;

/** Lose the first frame of data, so that all messages wait for the first one. */
static bool lose_first(struct unit_net *unused, const struct net_frame *frame)
{
    return (frame->header.type != RAWE_FRAME_DATA && frame->header.type != RAWE_FRAME_BULK) ||
           lost++ != 0;
}

/** A message that the full deferral left in reassembly counts as missing if memory is exhausted. */
TEST_WITH(with_bounds, rawe_conn_reset__keeps_what_was_acknowledged_or_says_so)
{
    for (unsigned lacks_memory = 0; lacks_memory < 2; lacks_memory++) {
        unit_tear_down();
        set_up();
        lost = 0;
        net.filter = lose_first;
        engine(1)->deferral->limit_bytes = 10000;
        send_in_order(10, 9000);
        assert_non_null(rawe_reassembly_ready(&end(1)->rx.reassembly));
        unit_allocations_left = lacks_memory ? 0 : -1;
        rawe_conn_reset(end(1));
        unit_allocations_left = -1;
        assert_null(rawe_reassembly_ready(&end(1)->rx.reassembly));
        assert_int_equal(counters(1)->dropped_fragment, lacks_memory);
    }
}

static struct unit_send unfinished[40];
static unsigned transmitted_calls;

static void assert_forgotten(unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        assert_int_equal(unfinished[i].done, 0);
    }
}

/** Send one-frame and longer messages to node 1, which is finalizing. */
static void receive_all_kinds(void)
{
    unit_fill(data, sizeof(data), 7);
    unit_send_copies(end(0), 10, 100);
    send_messages(unfinished, 10, 1200);
    send_messages(unfinished + 10, 10, 30000);
    run(20 * UNIT_MS);
    unit_assert_sent(unfinished, 20, RAWE_STATUS_DONE);
    assert_true(rawe_conn_drained(end(0)));
    assert_int_equal(net.node[1].message_count, 0);
    assert_int_equal(engine(1)->deferral->bytes, 0);
}

TEST(rawe_engine_finalizing__messages_are_acknowledged_and_dropped)
{
    enum { PLAIN, BATCHES, AFTER_DEFERRING, KINDS };
    for (unsigned kind = 0; kind < KINDS; kind++) {
        unit_start_with(
            (struct unit_options){.window_frames = 256, .batch_frames = kind == BATCHES ? 16 : 0});
        unit_connect(&net, RAWE_LANE_BULK);
        rawe_engine_finalizing(engine(1));
        if (kind == AFTER_DEFERRING) { /* ending deferral changes nothing */
            rawe_engine_defer_begin(engine(1));
            rawe_engine_defer_end(engine(1));
        }
        receive_all_kinds();
    }
}

TEST(rawe_engine_finalizing__what_was_deferred_is_dropped)
{
    struct unit_send answer = {.done = 0};
    struct unit_send bundle = {.send = {.done = unit_send_done, .internal = true}};
    connect_and_defer();
    rawe_conn_complete(engine(1), &bundle.send, RAWE_STATUS_DONE);
    send_messages(unfinished, 10, 1200);
    send_messages(unfinished + 10, 10, 30000);
    unit_send_message(end(1), &answer, 1, data, 1200);
    run(20 * UNIT_MS);
    assert_true(rawe_engine_has_deferred(engine(1)));
    rawe_engine_finalizing(engine(1));
    assert_int_equal(bundle.done, 1); /* internal sends still complete */
    assert_false(rawe_engine_has_deferred(engine(1)));
    assert_int_equal(engine(1)->deferral->bytes, 0);
    rawe_engine_defer_end(engine(1));
    rawe_engine_deliver_deferred(engine(1));
    run(20 * UNIT_MS);
    assert_int_equal(net.node[1].message_count, 0);
    assert_int_equal(answer.done, 0);
}

static void count_transmitted(struct rawe_send *send, struct rawe_conn *conn)
{
    transmitted_calls++;
}

TEST(rawe_engine_finalizing__transmitted_sends_are_not_reported)
{
    unit_connect(&net, RAWE_LANE_BULK);
    transmitted_calls = 0;
    memset(unfinished, 0, sizeof(unfinished));
    end(0)->tx.peer_credit = 2;
    unfinished[0].send.transmitted = count_transmitted;
    unit_send_message(end(0), &unfinished[0], 0, data, 30000);
    rawe_engine_finalizing(engine(0));
    run(50 * UNIT_MS);
    assert_int_equal(net.node[1].message_count, 1);
    assert_int_equal(transmitted_calls, 0);
    send_messages(unfinished + 1, 2, 30000);
    unit_close(&net, 0, RAWE_LANE_BULK); /* does not report the sends, either */
    assert_forgotten(3);
}

/* rawe_engine_deliver_deferred */
