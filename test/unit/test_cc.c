/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Tests of congestion control: CUBIC, and the parts that all algorithms share.
 */
#include "send/rawe_cc.h"
#include "unit_test.h"

#define MS 1000000ull
#define START_NS (7000 * MS)
#define MOST 1024u

static struct rawe_cc cc;
static struct rawe_rtt rtt; /**< 1 ms, with little variation */
static uint64_t now_ns;

/** Acknowledge frames while others are in flight. */
static void acked(uint32_t frames, bool limited)
{
    rawe_cc_acknowledged(&cc, &(struct rawe_ack){
                                  .now_ns = now_ns,
                                  .arrived = frames,
                                  .frame_bytes = 1448,
                                  .in_flight = 1,
                                  .limited = limited,
                              });
}

/** Report the loss of a frame that was just sent. Return true if it counts as congestion. */
static bool lose(void)
{
    now_ns += 1000;
    return rawe_cc_lost(&cc, now_ns - 1, false, &rtt, now_ns) == RAWE_CC_CONGESTION;
}

/** Start a path whose window has already grown to `window`. */
static void start(uint32_t window)
{
    now_ns = START_NS;
    rawe_rtt_init(&rtt);
    for (unsigned i = 0; i < 100; i++) {
        rawe_rtt_sample(&rtt, MS);
    }
    rawe_cc_start(&cc, &rawe_cc_cubic, MOST, 0, now_ns);
    if (window > cc.window) {
        acked(window - cc.window, true);
    }
    assert_int_equal(cc.window, window);
}

/** Acknowledge all frames in flight. */
static void round_trip(void)
{
    for (uint32_t left = cc.window; left != 0; left--) {
        acked(1, true);
    }
}

TEST(rawe_cc_types__each_has_a_name_of_its_own)
{
    assert_ptr_equal(rawe_cc_types[0], &rawe_cc_cubic);
    for (size_t i = 0; rawe_cc_types[i] != NULL; i++) {
        for (size_t j = 0; j < i; j++) {
            assert_string_not_equal(rawe_cc_types[i]->name, rawe_cc_types[j]->name);
        }
    }
}

TEST(rawe_cc_start__first_window_is_in_bytes)
{
    static const uint32_t frames[][2] = {{0, 64}, {576, 55}, {1462, 21}, {8952, 4}, {65000, 4}};
    for (unsigned i = 0; i < sizeof(frames) / sizeof(frames[0]); i++) {
        rawe_cc_start(&cc, &rawe_cc_cubic, MOST, frames[i][0], now_ns);
        assert_int_equal(cc.window, frames[i][1]);
    }
}

TEST(cubic_acknowledged__slow_start_doubles_in_a_round_trip)
{
    start(64);
    acked(64, true);
    assert_int_equal(cc.window, 128);
}

TEST(cubic_acknowledged__a_window_not_used_does_not_grow)
{
    start(64);
    for (unsigned i = 0; i < 1000; i++) {
        acked(10, false);
    }
    assert_int_equal(cc.window, 64);
}

TEST(cubic_acknowledged__after_a_loss_once_a_round_trip)
{
    start(100);
    assert_true(lose());
    assert_int_equal(cc.window, 70);
    for (unsigned i = 0; i < 69; i++) {
        acked(1, true);
    }
    assert_int_equal(cc.window, 70);
    acked(1, true);
    assert_true(cc.window > 70);
}

TEST(cubic_acknowledged__fast_to_the_plateau_slow_around_it_fast_beyond)
{
    uint32_t gained[10];
    start(400);
    assert_true(lose());
    assert_int_equal(cc.window, 280);
    for (unsigned i = 0; i < 10; i++) {
        uint32_t before = cc.window;
        round_trip();
        gained[i] = cc.window - before;
        if (i == 4) {
            assert_in_range(cc.window, 400, 402);
        }
    }
    assert_true(gained[0] > 2 * gained[3]);
    assert_true(gained[5] < 5);
    assert_true(gained[9] > 10 * gained[5]);
}

TEST(cubic_acknowledged__each_round_trip_gains_and_none_more_than_half)
{
    for (uint32_t window = 64; window < MOST; window += 100) {
        start(window);
        assert_true(lose());
        while (cc.window < MOST) {
            uint32_t before = cc.window;
            round_trip();
            assert_in_range(cc.window, before + 1, before + before / 2);
        }
    }
}

TEST(cubic_acknowledged__fast_however_long_after_a_reduction)
{
    static const uint32_t windows[] = {720, 1024};
    for (unsigned i = 0; i < 2; i++) {
        start(windows[i]);
        assert_true(lose());
        for (unsigned rounds = 0; rounds < 200; rounds++) {
            round_trip();
            assert_true(rounds < 60 || cc.window == MOST);
        }
    }
}

TEST(rawe_cc_lost__again_for_what_was_sent_again)
{
    start(100);
    assert_true(lose());
    assert_false(rawe_cc_lost(&cc, now_ns, false, &rtt, now_ns + MS)); /* may predate the loss */
    assert_true(rawe_cc_lost(&cc, now_ns, true, &rtt, now_ns + MS));
    assert_int_equal(cc.window, 49);
}

TEST(rawe_cc_lost__not_for_what_took_another_path)
{
    start(100);
    rawe_cc_excuse(&cc, now_ns);
    assert_false(rawe_cc_lost(&cc, now_ns, false, &rtt, now_ns + MS));
    assert_int_equal(cc.window, 100);
    assert_true(lose());
}

TEST(rawe_cc_lost__never_below_the_least)
{
    start(64);
    for (unsigned i = 0; i < 100; i++) {
        assert_true(lose());
        assert_true(cc.window >= cc.least);
    }
    assert_int_equal(cc.window, cc.least);
    for (unsigned i = 0; i < 10; i++) {
        round_trip();
    }
    assert_true(cc.window > cc.least); /* the window recovers */
}

/** RFC 9002 section 7.6: all frames sent over a period of three timeouts are lost. */
TEST(rawe_cc_lost__persistent_congestion)
{
    start(500);
    assert_true(lose());
    for (unsigned i = 0; i < 2; i++) {
        now_ns += MS;
        assert_true(lose());
        assert_true(cc.window > 100);
    }
    now_ns += 3 * MS;
    assert_int_equal(rawe_cc_lost(&cc, now_ns, true, &rtt, now_ns + MS), RAWE_CC_PERSISTENT);
    assert_int_equal(cc.window, cc.least);
    for (unsigned i = 0; i < 5; i++) {
        acked(cc.window, true);
    }
    assert_int_equal(cc.window, cc.least << 5); /* slow start */
}

TEST(rawe_cc_lost__no_persistent_congestion_where_something_arrives)
{
    start(1000);
    for (unsigned i = 0; i < 6; i++) {
        assert_true(lose());
        now_ns += MS;
        acked(1, false);
    }
    assert_true(cc.window > 100);
}

/** Proportional rate reduction (RFC 6937). */
TEST(rawe_cc_pace__all_lost_is_not_sent_again_at_once)
{
    start(100);
    assert_true(lose());
    uint32_t in_flight = 0, turns = 0;
    for (; in_flight < cc.window; turns++) {
        rawe_cc_pace(&cc, 0, in_flight); /* all frames in flight are acknowledged */
        assert_true(rawe_cc_limit(&cc) <= 2 * in_flight + 10);
        assert_true(rawe_cc_limit(&cc) > in_flight);
        in_flight = rawe_cc_limit(&cc);
    }
    assert_in_range(turns, 3, 4);
    rawe_cc_pace(&cc, 0, 0);
    assert_int_equal(rawe_cc_limit(&cc), cc.window);
}

TEST(rawe_cc_pace__few_losses_change_nothing)
{
    start(100);
    assert_true(lose());
    rawe_cc_pace(&cc, 95, 0);
    assert_int_equal(rawe_cc_limit(&cc), cc.window);
}

/** Send nothing for `periods` times RAWE_CC_UNUSED_NS. */
static void pause_for(uint64_t periods)
{
    now_ns += periods * RAWE_CC_UNUSED_NS;
    rawe_cc_validate(&cc, &rtt, 0, now_ns);
}

TEST(rawe_cc_validate__halves_down_to_the_first_window)
{
    start(964);
    pause_for(0);
    assert_int_equal(cc.window, 964);
    pause_for(1);
    assert_int_equal(cc.window, 482);
    pause_for(2);
    assert_int_equal(cc.window, 120);
    pause_for(1000000);
    assert_int_equal(cc.window, 64);
}

TEST(rawe_cc_validate__a_smaller_window_stays)
{
    start(64);
    assert_true(lose());
    assert_int_equal(cc.window, 44);
    pause_for(10);
    assert_int_equal(cc.window, 44);
}

TEST(rawe_cc_validate__slow_start_leads_back)
{
    start(200);
    assert_true(lose()); /* slow start would now end at 140 */
    while (cc.window < 800) {
        round_trip();
    }
    uint32_t most = cc.window / 4 * 3;
    pause_for(10);
    assert_int_equal(cc.window, 64);
    while (cc.window < most) {
        uint32_t before = cc.window;
        acked(before, true);
        assert_int_equal(cc.window, 2 * before);
    }
    uint32_t window = cc.window;
    acked(1, true);
    assert_int_equal(cc.window, window);
}

/** Acknowledge `bytes` bytes, with `in_flight` frames still in flight. */
static void arrived(uint64_t at_ns, uint32_t bytes, uint32_t in_flight)
{
    rawe_cc_acknowledged(
        &cc, &(struct rawe_ack){
                 .now_ns = at_ns, .arrived = 1, .frame_bytes = bytes, .in_flight = in_flight});
}

/** Acknowledge `bytes` bytes every millisecond from `from_ns` on. Return the time of the next. */
static uint64_t feed(uint64_t from_ns, unsigned count, uint32_t bytes)
{
    for (unsigned i = 0; i < count; i++) {
        arrived(from_ns + i * MS, bytes, 1);
    }
    return from_ns + count * MS;
}

TEST(rawe_cc_measure_rate__between_acknowledgements)
{
    start(64);
    /* The transit time of the first bytes does not count. */
    arrived(START_NS, 10000000, 1);
    assert_int_equal(cc.rate_mbps, 0);
    arrived(START_NS + MS, 100000, 1);
    assert_int_equal(cc.rate_mbps, 0);
    arrived(START_NS + 2 * MS, 150000, 1);
    assert_int_equal(cc.rate_mbps, 1000); /* 250 kB in 2 ms */
}

TEST(rawe_cc_measure_rate__waits_for_enough_bytes)
{
    start(64);
    feed(START_NS, 8, 9000);
    assert_int_equal(cc.rate_mbps, 0);
    feed(START_NS + 8 * MS, 1, 9000);
    assert_int_equal(cc.rate_mbps, 72);
}

TEST(rawe_cc_measure_rate__is_a_mean_of_late_measurements)
{
    start(64);
    uint64_t at_ns = feed(START_NS, 3, 125000);
    assert_int_equal(cc.rate_mbps, 1000);
    at_ns = feed(at_ns, 2, 62500);
    assert_int_equal(cc.rate_mbps, 875);
    feed(at_ns, 100, 62500);
    assert_in_range(cc.rate_mbps, 500, 505);
}

TEST(rawe_cc_measure_rate__does_not_count_pauses)
{
    start(64);
    uint64_t at_ns = feed(START_NS, 3, 125000);
    arrived(at_ns, 125000, 0);
    feed(at_ns + 500 * MS, 3, 125000);
    assert_int_equal(cc.rate_mbps, 1000);
}

TEST(rawe_cc_measure_rate__a_time_before_the_last_one_is_no_long_time)
{
    start(64);
    uint64_t at_ns = feed(START_NS, 3, 125000);
    arrived(at_ns - 1 * MS - 1, 125000, 1);
    assert_int_equal(cc.rate_mbps, 1000);
}

TEST(rawe_cc_measure_rate__has_bounds)
{
    start(64);
    feed(START_NS, 3, UINT32_MAX);
    assert_int_equal(cc.rate_mbps, RAWE_CC_RATE_MOST_MBPS); /* 34 Tb/s measured */
    start(64);
    arrived(START_NS, 1, 1);
    arrived(START_NS + 3600000 * MS, 70000, 1);
    assert_int_equal(cc.rate_mbps, 1);
}
