/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Tests of the delivery rate.
 */
#include <stddef.h>
#include <stdint.h>

#include "send/rawe_rate.h"
#include "unit_test.h"

#define MS 1000000ull
#define START_NS (7000 * MS)

/** Acknowledgements of `bytes` each millisecond, the first one at `from_ns`. */
static uint64_t feed(struct rawe_rate *rate, uint64_t from_ns, unsigned count, uint64_t bytes)
{
    for (unsigned i = 0; i < count; i++) {
        rawe_rate_acked(rate, bytes, false, from_ns + i * MS);
    }
    return from_ns + count * MS;
}

TEST(rawe_rate_acked__measures_between_acknowledgements)
{
    struct rawe_rate rate = {0};
    /* How long the first ones were on their way does not count. */
    rawe_rate_acked(&rate, 10000000, false, START_NS);
    assert_int_equal(rate.mbps, 0);
    rawe_rate_acked(&rate, 100000, false, START_NS + MS);
    assert_int_equal(rate.mbps, 0);
    rawe_rate_acked(&rate, 150000, false, START_NS + 2 * MS);
    assert_int_equal(rate.mbps, 1000); /* 250 kB in 2 ms */
}

TEST(rawe_rate_acked__waits_for_enough_bytes)
{
    struct rawe_rate rate = {0};
    feed(&rate, START_NS, 8, 9000);
    assert_int_equal(rate.mbps, 0);
    feed(&rate, START_NS + 8 * MS, 1, 9000);
    assert_int_equal(rate.mbps, 72);
}

TEST(rawe_rate_acked__is_a_mean_of_late_measurements)
{
    struct rawe_rate rate = {0};
    uint64_t at_ns = feed(&rate, START_NS, 3, 125000);
    assert_int_equal(rate.mbps, 1000);
    at_ns = feed(&rate, at_ns, 2, 62500);
    assert_int_equal(rate.mbps, 875);
    feed(&rate, at_ns, 100, 62500);
    assert_in_range(rate.mbps, 500, 505);
}

TEST(rawe_rate_acked__does_not_count_pauses)
{
    struct rawe_rate rate = {0};
    uint64_t at_ns = feed(&rate, START_NS, 3, 125000);
    rawe_rate_acked(&rate, 125000, true, at_ns);
    feed(&rate, at_ns + 500 * MS, 3, 125000);
    assert_int_equal(rate.mbps, 1000);
}

TEST(rawe_rate_acked__a_time_before_the_last_one_is_no_long_time)
{
    struct rawe_rate rate = {0};
    uint64_t at_ns = feed(&rate, START_NS, 3, 125000);
    rawe_rate_acked(&rate, 125000, false, at_ns - 1 * MS - 1);
    assert_int_equal(rate.mbps, 1000);
}

TEST(rawe_rate_acked__has_bounds)
{
    struct rawe_rate rate = {0};
    feed(&rate, START_NS, 3, 1ull << 40);
    assert_int_equal(rate.mbps, RAWE_RATE_MOST_MBPS);
    rate = (struct rawe_rate){0};
    rawe_rate_acked(&rate, 1, false, START_NS);
    rawe_rate_acked(&rate, 70000, false, START_NS + 3600000 * MS);
    assert_int_equal(rate.mbps, 1);
}
