/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Tests of the round-trip time estimate against RFC 6298 section 2.
 */
#include <stddef.h>
#include <stdint.h>

#include "send/rawe_rtt.h"
#include "unit_test.h"

TEST(rawe_rtt_init__has_no_sample)
{
    struct rawe_rtt rtt;
    rawe_rtt_init(&rtt);
    assert_true(rtt.smoothed_ns == 0);
    assert_true(rtt.minimum_ns == UINT64_MAX);
}

TEST(rawe_rtt_sample__the_first_one_counts_wholly)
{
    struct rawe_rtt rtt;
    rawe_rtt_init(&rtt);
    rawe_rtt_sample(&rtt, 8000);
    assert_true(rtt.smoothed_ns == 8000);
    assert_true(rtt.variation_ns == 4000);
    assert_true(rtt.minimum_ns == 8000);
}

TEST(rawe_rtt_sample__gains_of_an_eighth_and_a_quarter)
{
    struct rawe_rtt rtt;
    rawe_rtt_init(&rtt);
    rawe_rtt_sample(&rtt, 8000);
    rawe_rtt_sample(&rtt, 16000);
    assert_true(rtt.variation_ns == 4000 * 3 / 4 + 8000 / 4);
    assert_true(rtt.smoothed_ns == 8000 * 7 / 8 + 16000 / 8);
    assert_true(rtt.minimum_ns == 8000);
    rawe_rtt_sample(&rtt, 1000); /* below the mean: the deviation is taken without its sign */
    assert_true(rtt.variation_ns == 5000 * 3 / 4 + 8000 / 4);
    assert_true(rtt.smoothed_ns == 9000 * 7 / 8 + 1000 / 8);
    assert_true(rtt.minimum_ns == 1000);
}

TEST(rawe_rtt_sample__settles_on_a_steady_value)
{
    struct rawe_rtt rtt;
    rawe_rtt_init(&rtt);
    rawe_rtt_sample(&rtt, 1000000000);
    for (unsigned i = 0; i < 300; i++) {
        rawe_rtt_sample(&rtt, 20000);
    }
    assert_in_range(rtt.smoothed_ns, 19990, 20010);
    assert_in_range(rtt.variation_ns, 0, 20);
}

TEST(rawe_rtt_sample__zero_is_a_sample_too)
{
    struct rawe_rtt rtt;
    rawe_rtt_init(&rtt);
    for (unsigned i = 0; i < 100; i++) {
        rawe_rtt_sample(&rtt, 0);
        assert_true(rtt.smoothed_ns > 0); /* 0 would mean: none */
    }
    assert_true(rtt.minimum_ns == 1);
}

TEST(rawe_rtt_overdue__without_a_sample_the_upper_bound)
{
    struct rawe_rtt rtt;
    rawe_rtt_init(&rtt);
    assert_true(rawe_rtt_overdue(&rtt, 10, 5000) == 5000);
}

TEST(rawe_rtt_overdue__mean_and_four_deviations_within_bounds)
{
    struct rawe_rtt rtt;
    rawe_rtt_init(&rtt);
    rawe_rtt_sample(&rtt, 1000);
    assert_true(rawe_rtt_overdue(&rtt, 0, UINT64_MAX) == 1000 + 4 * 500);
    assert_true(rawe_rtt_overdue(&rtt, 3001, 10000) == 3001);
    assert_true(rawe_rtt_overdue(&rtt, 10, 2999) == 2999);
}
