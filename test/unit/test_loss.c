/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Tests of the RTT estimate against RFC 6298 section 2, and of the reordering window on paths where
 * some frames take longer than others.
 */
#include "unit_pair.h"

#include <string.h>

#include "conn/rawe_conn.h"

static struct rawe_rtt rtt;

TEST(rawe_rtt_sample__gains_of_an_eighth_and_a_quarter)
{
    rawe_rtt_sample(&rtt, 8000);
    rawe_rtt_sample(&rtt, 16000);
    assert_true(rtt.variation_ns == 4000 * 3 / 4 + 8000 / 4);
    assert_true(rtt.smoothed_ns == 8000 * 7 / 8 + 16000 / 8);
    assert_true(rtt.minimum_ns == 8000);
    rawe_rtt_sample(&rtt, 1000); /* below the mean: the deviation is absolute */
    assert_true(rtt.variation_ns == 5000 * 3 / 4 + 8000 / 4);
    assert_true(rtt.smoothed_ns == 9000 * 7 / 8 + 1000 / 8);
    assert_true(rtt.minimum_ns == 1000);
}

TEST(rawe_rtt_sample__settles_on_a_steady_value)
{
    rawe_rtt_sample(&rtt, 1000000000);
    for (unsigned i = 0; i < 300; i++) {
        rawe_rtt_sample(&rtt, 20000);
    }
    assert_in_range(rtt.smoothed_ns, 19990, 20010);
    assert_in_range(rtt.variation_ns, 0, 20);
}

TEST(rawe_rtt_sample__zero_is_a_sample_too)
{
    for (unsigned i = 0; i < 100; i++) {
        rawe_rtt_sample(&rtt, 0);
        assert_true(rtt.smoothed_ns > 0); /* 0 would mean no estimate */
    }
    assert_true(rtt.minimum_ns == 1);
}

TEST(rawe_rtt_overdue__without_a_sample_the_upper_bound)
{
    assert_true(rawe_rtt_overdue(&rtt, 10, 5000) == 5000);
}

TEST(rawe_rtt_overdue__mean_and_four_deviations_within_bounds)
{
    rawe_rtt_sample(&rtt, 1000);
    assert_true(rawe_rtt_overdue(&rtt, 0, UINT64_MAX) == 1000 + 4 * 500);
    assert_true(rawe_rtt_overdue(&rtt, 3001, 10000) == 3001);
    assert_true(rawe_rtt_overdue(&rtt, 10, 2999) == 2999);
}

static struct unit_send send_;
static uint8_t data[200000], target[200000];
static struct unit_memory known;

/** Frames that take the longer path. */
static struct {
    struct net_frame *frame;
    uint64_t due_ns;
} late[4096];
static unsigned late_count;
static uint64_t late_ns;    /**< extra delay of the longer path */
static unsigned late_every; /**< one data frame in this many is late; 0: none */
static unsigned seen;
static bool lose_one; /**< lose the next data frame */

static void set_up(void)
{
    unit_lane = RAWE_LANE_BULK;
    unit_start_with((struct unit_options){.window_frames = 256});
    unit_connect(&net, RAWE_LANE_BULK);
    known = unit_register_memory(&net, 1, target, sizeof(target), RAWE_ACCESS_WRITE);
    rawe_rtt_init(&rtt);
    late_count = seen = 0;
    late_ns = 400 * UNIT_US;
    late_every = 8;
    lose_one = false;
    memset(&send_, 0, sizeof(send_));
    send_.done = 1;
}

static void tear_down(void)
{
    for (unsigned i = 0; i < late_count; i++) {
        net_frame_free(late[i].frame);
    }
    unit_tear_down();
}

/** Carry the frames on the wire over the short or the long path for 20 us. */
static void step(void)
{
    unsigned count = net_queue_count(&net.queue);
    for (unsigned i = 0; i < count; i++) {
        struct net_frame *frame = net_queue_take(&net.queue);
        bool is_data = frame->header.type == RAWE_FRAME_BULK;
        if (is_data && lose_one) {
            lose_one = false;
            net_frame_free(frame);
        } else if (is_data && late_every != 0 && seen++ % late_every == 0) {
            assert_true(late_count < 4096);
            late[late_count].frame = frame;
            late[late_count++].due_ns = net.now_ns + late_ns;
        } else {
            net_queue_put(&net.queue, frame);
        }
    }
    unsigned remaining = 0;
    for (unsigned i = 0; i < late_count; i++) {
        if (late[i].due_ns <= net.now_ns) {
            net_queue_put(&net.queue, late[i].frame);
        } else {
            late[remaining++] = late[i];
        }
    }
    late_count = remaining;
    unit_step(&net);
    net.now_ns += 20 * UNIT_US;
    for (unsigned i = 0; i < UNIT_NODES; i++) {
        rawe_engine_advance(&net.node[i].engine, net.now_ns);
        rawe_engine_flush(&net.node[i].engine, net.now_ns);
    }
}

/** Repeat a PUT for `duration_ns`. Returns the number of retransmitted frames. */
static uint64_t resent_in(uint64_t duration_ns)
{
    uint64_t before = net.node[0].engine.counters.frames_resent;
    uint64_t end_ns = net.now_ns + duration_ns;
    while (net.now_ns < end_ns) {
        if (send_.done != 0) {
            unit_send_put(end(0), &send_, data, sizeof(data), known.index, known.key, 0);
        }
        step();
    }
    return net.node[0].engine.counters.frames_resent - before;
}

static void finish_late(void)
{
    for (unsigned i = 0; i < 100000 && !rawe_conn_drained(end(0)); i++) {
        step();
    }
    assert_true(rawe_conn_drained(end(0)));
    assert_int_equal(send_.status, RAWE_STATUS_DONE);
}

FIXTURE(set_up, tear_down);

TEST(rawe_conn_detect_losses__two_ways_of_different_length)
{
    assert_true(resent_in(100 * UNIT_MS) > 0); /* the sender has to learn the delay */
    assert_int_equal(resent_in(500 * UNIT_MS), 0);
    finish_late();
}

TEST(rawe_conn_detect_losses__losses_are_still_found)
{
    (void)resent_in(100 * UNIT_MS);
    lose_one = true;
    assert_in_range(resent_in(20 * UNIT_MS), 1, 2);
    finish_late();
}

TEST(rawe_conn_detect_losses__narrow_again_after_losses_without_duplicates)
{
    (void)resent_in(100 * UNIT_MS);
    assert_true(end(0)->tx.reorder.steps > 1);
    late_every = 0;
    for (unsigned i = 0; i < 20; i++) {
        lose_one = true;
        (void)resent_in(20 * UNIT_MS);
    }
    assert_int_equal(end(0)->tx.reorder.steps, 1);
    finish_late();
}

TEST(rawe_conn_detect_losses__the_window_is_bounded)
{
    late_ns = 50 * UNIT_MS;
    (void)resent_in(UNIT_S);
    (void)resent_in(UNIT_S);
    assert_true(
        rawe_reorder_window_ns(&end(0)->tx.reorder, net.config.reorder_ns, &end(0)->tx.rtt) <=
        20 * net.config.reorder_ns + end(0)->tx.rtt.smoothed_ns);
    finish_late();
}

TEST(rawe_reorder_duplicate__after_half_of_all_numbers)
{
    struct rawe_reorder reorder;
    rawe_reorder_init(&reorder);
    for (unsigned i = 1; i <= 2; i++) { /* both duplicates in one round */
        rawe_reorder_resent(&reorder);
        rawe_reorder_duplicate(&reorder, 10 * i, 100);
        assert_int_equal(reorder.steps, 2);
    }
    rawe_reorder_resent(&reorder);
    rawe_reorder_duplicate(&reorder, 0x80000100, 0x80000200);
    assert_int_equal(reorder.steps, 3);
}

TEST(rawe_reorder_window_ns__a_pause_is_no_round_trip)
{
    struct rawe_reorder reorder;
    rawe_reorder_init(&reorder);
    rawe_rtt_sample(&rtt, 60 * UNIT_S); /* the first sample, from a stopped peer */
    reorder.steps = 20;
    assert_in_range(rawe_reorder_window_ns(&reorder, 50 * UNIT_US, &rtt), 1 * UNIT_MS,
                    11 * UNIT_MS);
    /* A longer configured window is kept. */
    assert_true(rawe_reorder_window_ns(&reorder, 50 * UNIT_MS, &rtt) >= 50 * UNIT_MS);
}

TEST(rawe_reorder_window_ns__what_is_expected_is_no_round_trip)
{
    struct rawe_reorder reorder;
    rawe_reorder_init(&reorder);
    rawe_rtt_expect(&rtt, 80 * UNIT_US);
    reorder.steps = 3;
    assert_int_equal(rawe_reorder_window_ns(&reorder, 50 * UNIT_US, &rtt), 150 * UNIT_US);
}

TEST(rawe_conn_receive__duplicates_of_the_network_widen_nothing)
{
    late_every = 0;
    for (unsigned i = 0; i < 100; i++) {
        unit_send_put(end(0), &send_, data, 5000, known.index, known.key, 0);
        net_queue_put(&net.queue, net_frame_copy(net.wire));
        for (unsigned k = 0; k < 20; k++) {
            step();
        }
    }
    assert_int_equal(net.node[1].engine.counters.duplicates, 100);
    assert_int_equal(end(0)->tx.reorder.steps, 1);
    finish_late();
}
