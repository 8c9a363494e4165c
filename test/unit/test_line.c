/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Tests of core/pull/rawe_line.c on a simulated line.
 */
#include <pthread.h>
#include <stdbool.h>
#include <string.h>

#include "pull/rawe_line.h"
#include "unit_test.h"

#define MS 1000000ull
#define FRAME_BYTES 1534u

static struct rawe_line line, other; /* two processes' lines */
static struct rawe_line_host host;
static uint64_t now_ns;

static void start(uint32_t reported_mbps)
{
    now_ns = MS;
    rawe_line_init(&line, reported_mbps);
}

static void set_up(void)
{
    start(10000);
}

FIXTURE(set_up, NULL);

/** Receive frames at a rate for some time, one in `every` of them a retransmission; 0: none. */
static void deliver(uint32_t mbps, uint64_t ms, unsigned every, bool overfull)
{
    const uint64_t end_ns = now_ns + ms * MS;
    for (unsigned i = 1; now_ns < end_ns; i++) {
        now_ns += FRAME_BYTES * 8000ull / mbps;
        if (overfull) {
            rawe_line_overfull(&line, now_ns);
        }
        rawe_line_arrived(&line, FRAME_BYTES, 1, every != 0 && i % every == 0, now_ns);
    }
}

static void assert_rate(uint64_t mbps)
{
    assert_in_range(rawe_line_mbps(&line), mbps - mbps / 32, mbps + mbps / 32);
}

TEST(rawe_line_init__as_reported_or_some_rate)
{
    assert_int_equal(rawe_line_mbps(&line), 10000);
    start(25000);
    assert_int_equal(rawe_line_mbps(&line), 25000);
    start(0);
    assert_int_equal(rawe_line_mbps(&line), 10000);
}

TEST(rawe_line_arrived__a_line_that_delivers_more_is_faster)
{
    start(1000);
    deliver(900, 20, 0, false);
    assert_int_equal(rawe_line_mbps(&line), 1000);
    deliver(25000, 6, 0, false);
    assert_rate(25000);
}

/** Frames that have waited for a processor, or in a device, may arrive faster than on the line. */
TEST(rawe_line_arrived__a_burst_shows_no_rate)
{
    deliver(200, 20, 8, true);
    for (unsigned i = 0; i < 10; i++) {
        now_ns += 2 * MS;
        deliver(400, 2, 0, false);
    }
    assert_in_range(rawe_line_mbps(&line), 1, 250);
}

TEST(rawe_line_arrived__a_line_that_loses_frames_is_as_slow_as_it_delivers)
{
    deliver(200, 30, 8, true);
    assert_rate(200);
    deliver(200, 300, 0, false);
    assert_rate(200);
}

/** A low rate without losses may mean that all frames were lost, or that senders send little. */
TEST(rawe_line_arrived__without_losses_it_is_not_slow)
{
    deliver(200, 300, 0, true);
    assert_int_equal(rawe_line_mbps(&line), 10000);
    deliver(200, 300, 100, true); /* so few are lost by chance */
    assert_int_equal(rawe_line_mbps(&line), 10000);
}

/** A limit within the port's buffer overfills no port, so the losses must occur elsewhere. */
TEST(rawe_line_arrived__losses_elsewhere_do_not_make_it_slow)
{
    deliver(200, 300, 20, false);
    assert_int_equal(rawe_line_mbps(&line), 10000);
    deliver(9000, 300, 20, true);
    assert_int_equal(rawe_line_mbps(&line), 10000);
}

/** Senders send little, so the line looks slow, and some frames are lost by chance. */
TEST(rawe_line_arrived__probation_fails_if_losses_go_on)
{
    deliver(2000, 10, 20, true);
    assert_rate(2000);
    deliver(2000, 20, 20, false);
    assert_int_equal(rawe_line_mbps(&line), 10000);
    deliver(2000, 100, 20, true); /* these losses are known by now */
    assert_int_equal(rawe_line_mbps(&line), 10000);
}

/** The line needs more data in flight than the port holds, because processes answer slowly. */
TEST(rawe_line_arrived__probation_fails_if_less_arrives)
{
    deliver(4000, 5, 20, true);
    assert_rate(4000);
    deliver(2500, 8, 20, true);
    assert_int_equal(rawe_line_mbps(&line), 10000);
}

TEST(rawe_line_arrived__probation_does_not_hide_a_faster_line)
{
    deliver(2000, 10, 20, true);
    deliver(20000, 20, 20, true);
    assert_rate(20000);
}

TEST(rawe_line_arrived__higher_rates_are_tried)
{
    deliver(200, 30, 8, true);
    deliver(200, 1200, 0, false);
    assert_rate(200);
    deliver(200, 400, 0, false); /* 32 MiB have arrived */
    assert_rate(225);
    deliver(200, 100, 20, true); /* the tried rate was too high */
    assert_rate(200);
    deliver(200, 120000, 0, false);
    assert_int_equal(rawe_line_mbps(&line), 10000);
}

/** A pause without deliveries does not count in the measured rate. */
TEST(rawe_line_arrived__pauses_do_not_make_it_slow)
{
    deliver(200, 30, 8, true);
    for (unsigned i = 0; i < 20; i++) {
        now_ns += 100 * MS;
        deliver(200, 20, 20, true);
    }
    assert_rate(200);
}

TEST(rawe_line_arrived__what_waited_since_a_window_before_is_not_counted)
{
    deliver(200, 30, 8, true);
    for (unsigned i = 0; i < 100; i++) {
        rawe_line_arrived(&line, FRAME_BYTES, 100, 0, now_ns - 10 * MS);
        deliver(200, 1, 0, false);
    }
    assert_rate(200);
}

TEST(rawe_line_join__processes_learn_together)
{
    memset(&host, 0, sizeof(host));
    rawe_line_init(&other, 10000);
    rawe_line_join(&line, &host);
    rawe_line_join(&other, &host);
    for (unsigned i = 1; i < 2000; i++) {
        now_ns += 60000;
        rawe_line_overfull(&other, now_ns);
        rawe_line_arrived(i % 2 == 0 ? &line : &other, 1500, 1, i % 8 == 0 && i < 1000, now_ns);
    }
    assert_rate(200);
    assert_int_equal(rawe_line_mbps(&other), rawe_line_mbps(&line));
}

static void *arrive(void *context)
{
    for (unsigned i = 0; i < 100000; i++) {
        rawe_line_arrived(context, 1000, 1, 0, now_ns);
    }
    return NULL;
}

TEST(rawe_line_join__arrivals_of_several_processes_are_added)
{
    pthread_t thread;
    memset(&host, 0, sizeof(host));
    host.begin_ns = now_ns;
    rawe_line_init(&other, 10000);
    rawe_line_join(&line, &host);
    rawe_line_join(&other, &host);
    assert_int_equal(pthread_create(&thread, NULL, arrive, &other), 0);
    arrive(&line);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(host.arrived, (200000ull << 40) + 200000000);
}

/** A peer on the same machine delivers faster than the NIC. */
TEST(rawe_line_arrived__a_rate_above_the_reported_one_is_corrected)
{
    deliver(19000, 10, 0, false);
    assert_rate(19000);
    deliver(9800, 1000, 20, true);
    assert_in_range(rawe_line_mbps(&line), 9500, 11000);
}

TEST(rawe_line_arrived__a_window_that_begins_in_the_future_is_dropped)
{
    memset(&host, 0, sizeof(host));
    host.begin_ns = UINT64_MAX - 5;
    rawe_line_join(&line, &host);
    deliver(200, 60, 8, true);
    assert_rate(200);
}

/** Another process may have written any value to the shared page. */
TEST(rawe_line_mbps__what_is_shared_may_be_wrong)
{
    memset(&host, 0xff, sizeof(host));
    rawe_line_join(&line, &host);
    assert_int_equal(rawe_line_mbps(&line), RAWE_LINE_MBPS_MAX);
    deliver(200, 100, 8, true);
    assert_in_range(rawe_line_mbps(&line), 1, RAWE_LINE_MBPS_MAX);
    memset(&host, 0, sizeof(host));
    host.arrived = UINT64_MAX;
    deliver(200, 100, 8, true);
    assert_in_range(rawe_line_mbps(&line), 1, RAWE_LINE_MBPS_MAX);
}
