/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Tests of the limit on what long GETs may have asked for, against a made-up port that drops what it
 * cannot buffer.
 */
#include <stdbool.h>
#include <string.h>

#include "unit_test.h"

#include "receive/rawe_inflow.h"

#define FIRST_BYTES 100000u
#define ROUND_NS 50000u

static struct rawe_inflow inflow, other; /* of two processes */
static struct rawe_inflow_host host;
static uint64_t now_ns;

static void set_up(void)
{
    now_ns = ROUND_NS;
    rawe_inflow_init(&inflow, FIRST_BYTES);
    inflow.limits = true;
}

FIXTURE(set_up, NULL);

/** Ask for as much as the limit allows, from peers behind a port, for as many rounds. Returns the losses. */
static unsigned ask(uint64_t port_bytes, unsigned rounds)
{
    unsigned losses = 0;
    for (unsigned i = 0; i < rounds; i++) {
        const uint64_t asked_ns = now_ns;
        const uint64_t asked_bytes = rawe_inflow_limit_bytes(&inflow);
        now_ns += ROUND_NS;
        rawe_inflow_arrived(&inflow, asked_bytes, now_ns);
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
        rawe_inflow_arrived(&inflow, 1500, now_ns);
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
    assert_in_range(rawe_inflow_limit_bytes(&inflow), 64000, 128000);
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
    const uint64_t limit_bytes = rawe_inflow_limit_bytes(&inflow);
    assert_in_range(limit_bytes, FIRST_BYTES / 2, FIRST_BYTES - 1);
    rawe_inflow_lost(&inflow, 1500, now_ns + 5, now_ns + 20);
    assert_int_equal(rawe_inflow_limit_bytes(&inflow), limit_bytes);
    rawe_inflow_lost(&inflow, 1500, now_ns + 15, now_ns + 20);
    assert_true(rawe_inflow_limit_bytes(&inflow) < limit_bytes);
}

TEST(rawe_inflow_lost__something_is_always_asked_for)
{
    (void)ask(0, 100);
    assert_in_range(rawe_inflow_limit_bytes(&inflow), 16384, 65536);
}

TEST(rawe_inflow_arrived__stays_near_what_the_port_holds)
{
    const uint64_t ports[] = {60000, 100000, 1000000};
    for (unsigned i = 0; i < sizeof(ports) / sizeof(ports[0]); i++) {
        set_up();
        (void)ask(ports[i], 500);
        /* From then on few rounds lose something, and half of the port is used at least. */
        assert_true(ask(ports[i], 500) <= 15);
        assert_in_range(rawe_inflow_limit_bytes(&inflow), ports[i] / 2, ports[i] + ports[i] / 16);
    }
}

TEST(rawe_inflow_arrived__not_when_it_does_not_limit)
{
    inflow.limits = false;
    rawe_inflow_arrived(&inflow, 1000000, now_ns);
    assert_int_equal(rawe_inflow_limit_bytes(&inflow), FIRST_BYTES);
}

TEST(rawe_inflow_arrived__grows_until_there_is_none)
{
    (void)ask(UINT64_MAX, 2000);
    assert_false(rawe_inflow_is_limited(&inflow));
}

/** Both processes share now. */
static void join_both(uint64_t first_bytes)
{
    memset(&host, 0, sizeof(host));
    rawe_inflow_init(&inflow, first_bytes);
    rawe_inflow_init(&other, first_bytes);
    rawe_inflow_join(&inflow, &host, 0);
    rawe_inflow_join(&other, &host, RAWE_INFLOW_SHARES - 1);
}

TEST(rawe_inflow_join__what_one_learns_the_other_knows)
{
    join_both(FIRST_BYTES);
    rawe_inflow_lost(&other, 1500, now_ns, now_ns + 10);
    const uint64_t limit_bytes = rawe_inflow_limit_bytes(&inflow);
    assert_in_range(limit_bytes, FIRST_BYTES / 2, FIRST_BYTES - 1);
    /* The same loss, of what this one had asked for, and a process that comes later. */
    rawe_inflow_lost(&inflow, 1500, now_ns + 5, now_ns + 20);
    rawe_inflow_init(&other, FIRST_BYTES);
    rawe_inflow_join(&other, &host, 1);
    assert_int_equal(rawe_inflow_limit_bytes(&inflow), limit_bytes);
}

TEST(rawe_inflow_join__losses_of_both_count_until_there_is_a_limit)
{
    join_both(0);
    for (unsigned i = 0; i < 1000 && !rawe_inflow_is_limited(&inflow); i++) {
        now_ns += 1000;
        rawe_inflow_lost(i % 2 != 0 ? &inflow : &other, 1500, now_ns - 100, now_ns);
    }
    assert_true(rawe_inflow_is_limited(&inflow) && rawe_inflow_is_limited(&other));
}

TEST(rawe_inflow_others__what_may_come)
{
    join_both(FIRST_BYTES);
    rawe_inflow_asked(&inflow, 20000, now_ns); /* its own is not among them */
    rawe_inflow_asked(&other, 30000, now_ns);
    rawe_inflow_asked(&other, 10000, now_ns);
    rawe_inflow_arrived(&other, 1000, now_ns);
    struct rawe_inflow_others others = rawe_inflow_others(&inflow, now_ns);
    assert_int_equal(others.bytes, 39000);
    assert_int_equal(others.count, 1);
    rawe_inflow_publish(&other, 7000); /* counted again: the rest will not come */
    assert_int_equal(rawe_inflow_others(&inflow, now_ns).bytes, 7000);
    rawe_inflow_arrived(&other, 8000, now_ns);
    assert_int_equal(rawe_inflow_others(&inflow, now_ns).count, 0);
}

TEST(rawe_inflow_others__a_process_that_dies_is_forgotten)
{
    join_both(FIRST_BYTES);
    rawe_inflow_asked(&other, 30000, now_ns);
    now_ns += RAWE_INFLOW_IDLE_NS - 1;
    assert_int_equal(rawe_inflow_others(&inflow, now_ns).bytes, 30000);
    assert_int_equal(rawe_inflow_others(&inflow, now_ns + 1).bytes, 0);
}

TEST(rawe_inflow_others__none_where_nothing_is_shared)
{
    rawe_inflow_asked(&inflow, 30000, now_ns);
    assert_int_equal(rawe_inflow_others(&inflow, now_ns).count, 0);
}
