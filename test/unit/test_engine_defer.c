/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Tests of deferring: what is received while no callback may be called.
 */
#include "unit_defer.h"
#include "unit_pair.h"

#include <stdlib.h>
#include <string.h>

#include "conn/rawe_conn.h"
#include "conn/rawe_conn_control.h"

FIXTURE(unit_set_up_wide, unit_tear_down);

/* rawe_engine_defer_begin */

TEST(rawe_engine_defer_begin__more_fragmented_messages_than_a_window_of_them)
{
    static struct unit_send sends[200];
    connect_and_defer();
    send_messages(sends, 200, 5000);
    run(20 * UNIT_MS);
    unit_assert_sent(sends, 200, RAWE_STATUS_DONE);
    assert_int_equal(net.node[1].message_count, 0);
    assert_in_range(engine(1)->deferral->bytes, 200 * 5000, 200 * 5100);
    resume(1);
    assert_delivered_in_order(200, 5000);
    send_messages(sends, 10, 5000); /* as if nothing had been */
    run(5 * UNIT_MS);
    assert_int_equal(net.node[1].message_count, 210);
}

TEST(rawe_engine_defer_begin__completions_are_kept_and_what_is_queued_goes_on)
{
    static const struct {
        unsigned count;
        size_t len_bytes;
        uint64_t duration_ns;
    } cases[] = {{10, 3000, 5 * UNIT_MS},
                 {100, 20000, 100 * UNIT_MS}}; /* much more than a window */
    static struct unit_send sends[100];
    for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        unit_set_up_wide();
        unit_connect(&net, RAWE_LANE_BULK);
        unit_fill(data, sizeof(data), 7);
        send_messages(sends, cases[i].count, cases[i].len_bytes);
        assert_true(i == 0 || end(0)->queue.bytes > 0);
        rawe_engine_defer_begin(engine(0));
        run(cases[i].duration_ns);
        assert_true(rawe_conn_drained(end(0)));
        assert_int_equal(end(0)->queue.bytes, 0);
        assert_true(rawe_engine_has_deferred(engine(0)));
        for (unsigned k = 0; k < cases[i].count; k++) {
            assert_int_equal(sends[k].done, 0);
        }
        resume(0);
        unit_assert_sent(sends, cases[i].count, RAWE_STATUS_DONE);
        assert_delivered_in_order(cases[i].count, cases[i].len_bytes);
    }
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
        unit_assert_sent(&sends[i], 1, i < 2 ? RAWE_STATUS_DONE : RAWE_STATUS_FAILED);
    }
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
    unit_fix_window(end(1), 1); /* an answer has to wait for the one before to be acknowledged */
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

static void set_up(void)
{
    unit_init(&net);
    net.config.window_frames = 256;
    net.config.receive_frames = 1024;
    net.config.deferred_max_bytes = 200000;
    unit_start(&net);
}

static uint8_t bound_data[65536];
static struct unit_send many_sends[6000];

/** Send `count` messages of `len_bytes` in order to node 1, whose owner is away. */
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

/** The owner is back, for good: everything is delivered, once and in order. */
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

TEST_WITH(with_bounds, rawe_engine_defer_fragmented__counts_what_is_allocated)
{
    send_in_order(6000, 1);
    /* Each takes the memory of its entry at least. */
    assert_in_range(engine(1)->deferral->bytes, 150000, net.config.deferred_max_bytes + 1000);
    /* All that node 1 holds for its owner, in use or not. */
    size_t message_bytes = net.config.message_max_bytes;
    assert_true(engine(1)->deferral->bytes +
                    engine(1)->reassembly_buffers.allocated * message_bytes <
                net.config.deferred_max_bytes + (RAWE_REASSEMBLY_MESSAGES + 1) * message_bytes);
    come_back(6000, 1);
}

TEST_WITH(with_bounds, rawe_engine_defer_fragmented__long_messages_stay_within_the_limit)
{
    send_in_order(50, 40000);
    assert_in_range(engine(1)->deferral->bytes, 3 * net.config.message_max_bytes,
                    net.config.deferred_max_bytes + 2 * net.config.message_max_bytes);
    assert_true(engine(1)->counters.no_buffer > 0);
    come_back(50, 40000);
}

TEST_WITH(with_bounds, rawe_engine_defer__messages_in_one_frame_stay_within_the_limit)
{
    unit_connect(&net, RAWE_LANE_BULK);
    rawe_engine_defer_begin(engine(1));
    unsigned count = 0;
    for (unsigned i = 0; i < 1000; i++) {
        count += unit_copy_message(end(0), (uint8_t)i, 500) == RAWE_STATUS_DONE;
        unit_run(&net, 200 * UNIT_US, 200 * UNIT_US);
    }
    assert_in_range(engine(1)->deferral->bytes, 150000, net.config.deferred_max_bytes + 1000);
    rawe_engine_defer_end(engine(1));
    rawe_engine_deliver_deferred(engine(1));
    unit_run(&net, 500 * UNIT_MS, UNIT_MS);
    assert_int_equal(net.node[1].message_count, count);
}

/** Frames that node 0 has sent, and how often in all. */
static uint64_t sendings(void)
{
    return counters(0)->frames_sent + counters(0)->frames_resent;
}

/** The receiver computes for 4 s, twice, while more comes than it keeps: 1.6 MB, of which 200 kB. */
static void overrun(unsigned batch_frames)
{
    if (batch_frames != 0) {
        unit_use_batches(&net, batch_frames);
    }
    send_in_order(400, 4000);
    for (unsigned i = 0; i < 2; i++) {
        uint64_t before = sendings(), probes = counters(0)->probes_sent;
        unit_run(&net, 4 * UNIT_S + 5 * UNIT_MS, UNIT_MS); /* no question is due then */
        assert_int_equal(end(0)->peer_credit, 0);
        assert_true(sendings() - before <= net.config.window_frames);
        assert_true(counters(0)->probes_sent - probes <= 4000 / 50);
        rawe_engine_defer_end(engine(1));
        rawe_engine_deliver_deferred(engine(1));
        rawe_engine_flush(engine(1), net.now_ns);
        rawe_engine_defer_begin(engine(1));
        /* It is told of the room: it need not ask. */
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

TEST_WITH(with_bounds, rawe_engine_defer__without_room_the_sender_waits)
{
    overrun(0);
}

TEST_WITH(with_bounds, rawe_engine_defer__without_room_batches_stay_valid)
{
    overrun(16);
    assert_int_equal(end(0)->batch, RAWE_BATCH_VALID);
    assert_int_equal(counters(0)->validations_failed, 0);
}

static struct unit_send sending;

/** While node 0 defers, node 1 does not answer it: it computes, and only its responder would. */
static void wait_deferring(void)
{
    sending = (struct unit_send){0};
    unit_connect(&net, RAWE_LANE_BULK);
    unit_send_message(end(0), &sending, 1, data, 3000);
    rawe_engine_defer_begin(engine(0));
    net.node[1].paused = true;
    unit_run(&net, 3 * net.config.liveness.peer_timeout_ns, 10 * UNIT_MS);
}

static const struct unit_fixture with_silence = {unit_set_up, unit_tear_down};

TEST_WITH(with_silence, rawe_engine_defer_begin__no_peer_is_given_up)
{
    wait_deferring();
    assert_int_equal(end(0)->handshake.state, RAWE_CONN_OPEN);
    assert_int_equal(net.node[0].failed_calls, 0);
    assert_true(net.node[0].silent_calls > 10);  /* another route may be used */
    assert_true(net.node[0].silent_ns < UNIT_S); /* time does not count */
    net.node[1].paused = false;
    unit_run(&net, 5 * UNIT_MS, 50 * UNIT_US);
    resume(0);
    unit_assert_sent(&sending, 1, RAWE_STATUS_DONE);
}

TEST_WITH(with_silence, rawe_engine_defer_end__the_responder_is_asked_before_a_peer_is_given_up)
{
    wait_deferring();
    resume(0);
    unsigned before = net.node[0].silent_calls;
    for (unsigned i = 0; i < 100; i++) {
        unsigned asked = net.node[0].silent_calls;
        unit_run(&net, net.config.liveness.peer_timeout_ns / 10, 10 * UNIT_MS);
        assert_int_equal(net.node[0].failed_calls, 0);
        if (net.node[0].silent_calls != asked) {
            rawe_liveness_alive(&end(0)->liveness, net.now_ns);
        }
    }
    assert_true(net.node[0].silent_calls > before);
    net.node[1].paused = false;
    unit_run(&net, 5 * UNIT_MS, 50 * UNIT_US);
    assert_int_equal(sending.done, 1);
}

TEST_WITH(with_silence, rawe_engine_defer_end__a_dead_peer_is_given_up_then)
{
    wait_deferring();
    resume(0);
    unit_run(&net, 2 * net.config.liveness.peer_timeout_ns, 10 * UNIT_MS);
    assert_int_equal(net.node[0].failed_calls, 1);
    assert_in_range(net.node[0].silent_ns, net.config.liveness.peer_timeout_ns,
                    2 * net.config.liveness.peer_timeout_ns);
    unit_assert_sent(&sending, 1, RAWE_STATUS_FAILED);
}

TEST_WITH(with_silence, rawe_engine_defer_end__short_absences_do_not_keep_the_dead_alive)
{
    struct unit_send send = {0};
    unit_connect(&net, RAWE_LANE_BULK);
    unit_send_message(end(0), &send, 1, data, 3000);
    net.node[1].paused = true;
    for (unsigned i = 0; i < 20 && net.node[0].failed_calls == 0; i++) {
        unit_run(&net, net.config.liveness.peer_timeout_ns / 4, 5 * UNIT_MS);
        rawe_engine_defer_begin(engine(0));
        unit_run(&net, net.config.liveness.peer_timeout_ns / 20, 5 * UNIT_MS);
        resume(0);
    }
    assert_int_equal(net.node[0].failed_calls, 1);
    assert_int_equal(send.done, 1);
}

static struct unit_send unfinished[40];
static unsigned transmitted_calls;

static void assert_forgotten(unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        assert_int_equal(unfinished[i].done, 0);
    }
}

/** Messages of one frame and of many, plain and in batches, come to node 1, which finalizes. */
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
        if (kind == AFTER_DEFERRING) { /* whose end changes nothing */
            rawe_engine_defer_begin(engine(1));
            rawe_engine_defer_end(engine(1));
        }
        receive_all_kinds();
    }
}

TEST(rawe_engine_finalizing__more_messages_than_are_kept)
{
    unit_connect(&net, RAWE_LANE_BULK);
    rawe_engine_finalizing(engine(1));
    for (unsigned i = 0; i < 10; i++) {
        send_messages(unfinished, 40, 60000);
        run(100 * UNIT_MS);
        assert_true(rawe_conn_drained(end(0)));
    }
    assert_true(400u * 60000u > net.config.deferred_max_bytes);
    assert_int_equal(net.node[1].message_count, 0);
}

TEST(rawe_engine_finalizing__in_the_middle_of_a_message)
{
    unit_connect(&net, RAWE_LANE_BULK);
    send_messages(unfinished, 1, 30000);
    for (unsigned i = 0; i < 10; i++) {
        unit_receive_next(&net);
    }
    rawe_engine_finalizing(engine(1));
    run(50 * UNIT_MS);
    assert_int_equal(unfinished[0].done, 1);
    assert_int_equal(net.node[1].message_count, 0);
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
    assert_int_equal(bundle.done, 1); /* memory of the engine's own */
    assert_false(rawe_engine_has_deferred(engine(1)));
    assert_int_equal(engine(1)->deferral->bytes, 0);
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
    send_messages(unfinished, 20, 30000); /* more than the window holds */
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
    memset(unfinished, 0, sizeof(unfinished));
    end(0)->peer_credit = 2;
    unfinished[0].send.transmitted = count_transmitted;
    unit_send_message(end(0), &unfinished[0], 0, data, 30000);
    rawe_engine_finalizing(engine(0));
    run(50 * UNIT_MS);
    assert_int_equal(net.node[1].message_count, 1);
    assert_int_equal(transmitted_calls, 0);
    assert_forgotten(1);
}

TEST(rawe_engine_finalizing__closing_reports_nothing)
{
    unit_connect(&net, RAWE_LANE_BULK);
    send_messages(unfinished, 3, 30000);
    rawe_engine_finalizing(engine(0));
    unit_close(&net, 0, RAWE_LANE_BULK);
    assert_forgotten(3);
}

TEST(rawe_engine_finalizing__no_peer_is_given_up)
{
    unit_connect(&net, RAWE_LANE_BULK);
    send_messages(unfinished, 3, 30000);
    rawe_engine_finalizing(engine(0));
    net.filter = drop_all;
    unit_run(&net, 3 * net.config.liveness.peer_timeout_ns, 100 * UNIT_MS);
    assert_true(net.node[0].silent_calls > 10);
    assert_true(net.node[0].silent_ns < UNIT_S); /* time does not count */
    assert_int_equal(net.node[0].failed_calls, 0);
    assert_forgotten(3);
}

static void send_in_bundles(void)
{
    memset(unfinished, 0, sizeof(unfinished));
    for (unsigned i = 0; i < 40; i++) {
        unfinished[i].send.ordered = true;
        unit_send_message(end(0), &unfinished[i], (uint8_t)i, data, 300);
    }
}

TEST(rawe_engine_finalizing__bundles_are_given_back)
{
    unit_start_with((struct unit_options){.coalesce_from_frames = 4, .window_frames = 256});
    unit_use_batches(&net, 16);
    unit_connect(&net, RAWE_LANE_BULK);
    unit_fill(data, sizeof(data), 7);
    send_in_bundles();
    run(20 * UNIT_MS);
    assert_int_equal(end(0)->batch, RAWE_BATCH_VALID);
    end(0)->peer_credit = 0;
    send_in_bundles();
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
