/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Tests of the limit on what long GETs may have asked for, against a made-up port that drops what it
 * cannot buffer.
 */
#include <stdbool.h>
#include <stdint.h>

#include "unit_test.h"

#include "receive/rawe_inflow.h"

#define FIRST_BYTES 100000u
#define ROUND_NS 50000u

static struct rawe_inflow inflow;
static uint64_t now_ns;

static void set_up(void)
{
    now_ns = ROUND_NS;
    rawe_inflow_init(&inflow, FIRST_BYTES);
    inflow.limits = true;
}

static void tear_down(void)
{
}

FIXTURE(set_up, tear_down);

/** Ask for as much as the limit allows, from peers behind a port, for as many rounds. Returns the losses. */
static unsigned ask(uint64_t port_bytes, unsigned rounds)
{
    unsigned losses = 0;
    for (unsigned i = 0; i < rounds; i++) {
        const uint64_t asked_ns = now_ns;
        const uint64_t asked_bytes = inflow.limit_bytes;
        now_ns += ROUND_NS;
        rawe_inflow_arrived(&inflow, asked_bytes);
        if (asked_bytes > port_bytes) {
            losses++;
            rawe_inflow_lost(&inflow, 1500, asked_ns, now_ns);
        }
    }
    return losses;
}

/** Without a limit one frame of that many is lost, until there is one. Returns the frames. */
static unsigned lose_one_of(unsigned every)
{
    rawe_inflow_init(&inflow, 0);
    for (unsigned i = 1; i < 100000; i++) {
        now_ns += 1000;
        rawe_inflow_arrived(&inflow, 1500);
        if (i % every == 0) {
            rawe_inflow_lost(&inflow, 1500, now_ns - 100, now_ns);
        }
        if (rawe_inflow_is_limited(&inflow)) {
            return i;
        }
    }
    return 0;
}

TEST(rawe_inflow_init__no_limit_before_much_is_lost)
{
    assert_int_equal(lose_one_of(6), 0);
    assert_in_range(lose_one_of(2), 200, 1000);
    assert_in_range(inflow.limit_bytes, 64000, 128000);
}

TEST(rawe_inflow_init__never_a_limit)
{
    rawe_inflow_init(&inflow, RAWE_INFLOW_UNLIMITED);
    for (unsigned i = 1; i < 100; i++) {
        rawe_inflow_lost(&inflow, 1500, now_ns + i, now_ns + i);
    }
    assert_false(rawe_inflow_is_limited(&inflow));
}

TEST(rawe_inflow_lost__once_for_what_was_asked_for_at_the_same_time)
{
    rawe_inflow_lost(&inflow, 1500, now_ns, now_ns + 10);
    const uint64_t limit_bytes = inflow.limit_bytes;
    assert_in_range(limit_bytes, FIRST_BYTES / 2, FIRST_BYTES - 1);
    rawe_inflow_lost(&inflow, 1500, now_ns + 5, now_ns + 20);
    assert_int_equal(inflow.limit_bytes, limit_bytes);
    rawe_inflow_lost(&inflow, 1500, now_ns + 15, now_ns + 20);
    assert_true(inflow.limit_bytes < limit_bytes);
}

TEST(rawe_inflow_lost__something_is_always_asked_for)
{
    (void)ask(0, 100);
    assert_in_range(inflow.limit_bytes, 16384, 65536);
}

TEST(rawe_inflow_arrived__stays_near_what_the_port_holds)
{
    const uint64_t ports[] = {60000, 100000, 1000000};
    for (unsigned i = 0; i < sizeof(ports) / sizeof(ports[0]); i++) {
        set_up();
        (void)ask(ports[i], 500);
        /* From then on few rounds lose something, and half of the port is used at least. */
        assert_true(ask(ports[i], 500) <= 15);
        assert_in_range(inflow.limit_bytes, ports[i] / 2, ports[i] + ports[i] / 16);
    }
}

TEST(rawe_inflow_arrived__not_when_it_does_not_limit)
{
    inflow.limits = false;
    rawe_inflow_arrived(&inflow, 1000000);
    assert_int_equal(inflow.limit_bytes, FIRST_BYTES);
}

TEST(rawe_inflow_arrived__grows_until_there_is_none)
{
    (void)ask(UINT64_MAX, 2000);
    assert_false(rawe_inflow_is_limited(&inflow));
}
