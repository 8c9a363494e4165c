/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Tests of the window that yields to delay. The path's own delay is 10 us. On a link of 25 Gb/s
 * queues may last for 20 us, and for a window of 100 frames 6 us longer.
 */
#include <stddef.h>
#include <stdint.h>

#include "send/rawe_cc.h"
#include "unit_test.h"

#define US 1000u
#define SECOND 1000000000ull
#define MOST 1024u
#define FRAME_BYTES 1416u
#define PATH_NS (10 * US)

static struct rawe_cc cc;
static struct rawe_rtt rtt;
static uint64_t now_ns;

static void acked(uint32_t frames, uint32_t path_ns)
{
    rawe_cc_acknowledged(&cc, &(struct rawe_ack){
                                  .now_ns = now_ns,
                                  .arrived = frames,
                                  .in_flight = 1,
                                  .limited = true,
                                  .frame_bytes = FRAME_BYTES,
                                  .path_ns = path_ns,
                              });
}

/** All that is in flight is acknowledged by two frames, which tell these delays; 0: none. */
static void round_trip(uint32_t first_ns, uint32_t second_ns)
{
    uint32_t frames = cc.state.delay.round_left;
    acked(frames / 2, first_ns);
    acked(frames - frames / 2, second_ns);
}

/** A path whose own delay is known, with a window that has grown to some frames. */
static void start_window(uint32_t link_mbps, uint32_t frames)
{
    now_ns = 7 * SECOND;
    rawe_rtt_init(&rtt);
    rawe_cc_start(&cc, &rawe_cc_delay, MOST, FRAME_BYTES, link_mbps, now_ns);
    rawe_cc_set_window(&cc, frames);
    rawe_cubic_resume(&cc);
    round_trip(PATH_NS, PATH_NS);
    rawe_cc_set_window(&cc, frames);
    round_trip(PATH_NS, PATH_NS);
    rawe_cc_set_window(&cc, frames);
}

TEST(rawe_cc_delay__grows_as_cubic_while_queues_are_short)
{
    rawe_cc_start(&cc, &rawe_cc_delay, MOST, FRAME_BYTES, 25000, 0);
    uint32_t first = cc.window;
    acked(first, PATH_NS);
    assert_int_equal(cc.window, 2 * first);
    acked(10, PATH_NS + 15 * US);
    assert_int_equal(cc.window, 2 * first + 10);
    acked(10, 0); /* nothing is known of the delay */
    assert_int_equal(cc.window, 2 * first + 20);
}

/** What a round trip with two delays makes of a window. */
TEST(rawe_cc_delay__yields_by_the_part_that_is_too_long)
{
    static const struct {
        uint32_t link_mbps, window, first_ns, second_ns, left;
    } cases[] = {
        {25000, 100, PATH_NS + 26 * US, PATH_NS + 26 * US, 101},  /* not too long: it grows */
        {25000, 100, PATH_NS + 200 * US, PATH_NS + 26 * US, 100}, /* the shortest counts */
        {25000, 100, PATH_NS + 200 * US, 0, 50},                  /* half at most */
        {25000, 100, PATH_NS + 46 * US, PATH_NS + 46 * US, 71},   /* 0.8 x 20 of 56 us */
        {25000, 16, PATH_NS + 35 * US, PATH_NS + 35 * US, 17},    /* a small one bears 35 us... */
        {25000, 16, PATH_NS + 55 * US, PATH_NS + 55 * US, 12},    /* ... and no more */
        {1000, 100, PATH_NS + 480 * US, PATH_NS + 480 * US, 101}, /* a slow link, 384 us and more */
        {1000, 100, PATH_NS + 700 * US, PATH_NS + 700 * US, 77},  /* ... */
        {0, 100, PATH_NS + 60 * US, PATH_NS + 60 * US, 101},   /* an unknown one, 50 us and more */
        {0, 100, PATH_NS + 90 * US, PATH_NS + 90 * US, 79},    /* ... */
        {25000, 2, PATH_NS + 900 * US, PATH_NS + 900 * US, 2}, /* two frames may always wait */
        {25000, 3, PATH_NS + 900 * US, PATH_NS + 900 * US, 2},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        start_window(cases[i].link_mbps, cases[i].window);
        round_trip(cases[i].first_ns, cases[i].second_ns);
        assert_int_equal(cc.window, cases[i].left);
    }
}

TEST(rawe_cc_delay__ends_slow_start)
{
    rawe_cc_start(&cc, &rawe_cc_delay, MOST, FRAME_BYTES, 25000, 0);
    round_trip(PATH_NS, PATH_NS);
    round_trip(PATH_NS, PATH_NS);
    uint32_t window = cc.window;
    round_trip(PATH_NS + 90 * US, PATH_NS + 90 * US);
    assert_true(cc.window < window);
    window = cc.window;
    acked(1, 0); /* what was in flight then */
    round_trip(PATH_NS, PATH_NS);
    assert_int_equal(cc.window, window + 1);
}

TEST(rawe_cc_delay__yields_where_the_link_is_busy_in_advance)
{
    static const struct {
        uint32_t first_ns, second_ns, left;
    } cases[] = {
        {200 * US, 40 * US, 101}, /* it has waited for only two batches once */
        {200 * US, 50 * US, 86},  /* 0.8 x 9.04 of 50 us */
        {50 * US, 0, 101},        /* it was free once */
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        start_window(25000, 100);
        rawe_cc_queued(&cc, cases[i].first_ns);
        rawe_cc_queued(&cc, cases[i].second_ns);
        round_trip(PATH_NS, PATH_NS);
        assert_int_equal(cc.window, cases[i].left);
    }
}

/** The network has found another way, which is longer. */
TEST(rawe_cc_delay__learns_that_a_path_is_longer)
{
    start_window(25000, 100);
    for (unsigned i = 0; i < 3; i++) {
        round_trip(PATH_NS + 500 * US, PATH_NS + 500 * US);
        now_ns += 11 * SECOND;
    }
    uint32_t window = cc.window;
    assert_true(window < 100);
    round_trip(PATH_NS + 500 * US, PATH_NS + 500 * US);
    round_trip(PATH_NS + 500 * US, PATH_NS + 500 * US);
    assert_true(cc.window > window);
}

/** Its shortest delay is from before these periods, in which the path was longer. */
TEST(rawe_cc_delay__a_round_trip_that_takes_longer_than_both_periods)
{
    start_window(25000, 100);
    acked(1, PATH_NS);
    for (unsigned i = 0; i < 3; i++) {
        now_ns += 11 * SECOND;
        acked(1, PATH_NS + 5 * US);
    }
    acked(cc.state.delay.round_left, PATH_NS + 5 * US);
    assert_int_equal(cc.window, 101);
}

TEST(rawe_cc_delay__takes_losses_as_cubic)
{
    start_window(25000, 100);
    now_ns += 1000;
    assert_int_equal(rawe_cc_lost(&cc, now_ns - 1, false, &rtt, now_ns), RAWE_CC_CONGESTION);
    assert_int_equal(cc.window, 70);
    for (unsigned i = 0; i < 6; i++) {
        round_trip(PATH_NS, PATH_NS);
    }
    assert_in_range(cc.window, 99, 102);
}
