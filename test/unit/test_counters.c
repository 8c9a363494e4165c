/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Tests of the counters' names and descriptions, and of the histogram.
 */
#include <string.h>

#include "base/rawe_counters.h"
#include "unit_test.h"

static const struct {
    const char *name, *text;
} counters[] = {
#define X(name, text) {#name, text},
    RAWE_COUNTER_LIST(X)
#undef X
};

TEST(rawe_counter_list__is_distinct_and_says_something)
{
    for (size_t i = 0; i < sizeof(counters) / sizeof(counters[0]); i++) {
        assert_true(strlen(counters[i].text) > 10);
        for (size_t j = 0; j < i; j++) {
            assert_string_not_equal(counters[i].name, counters[j].name);
            assert_string_not_equal(counters[i].text, counters[j].text);
        }
    }
}

TEST(rawe_histogram_bucket__is_a_power_of_two_wide)
{
    assert_int_equal(rawe_histogram_bucket(0), 0);
    assert_int_equal(rawe_histogram_bucket(1023), 0);
    assert_int_equal(rawe_histogram_bucket(1024), 1);
    assert_int_equal(rawe_histogram_bucket(2047), 1);
    assert_int_equal(rawe_histogram_bucket(2048), 2);
    assert_int_equal(rawe_histogram_bucket((1ull << 30) - 1), RAWE_HISTOGRAM_BUCKETS - 2);
    assert_int_equal(rawe_histogram_bucket(1ull << 30), RAWE_HISTOGRAM_BUCKETS - 1);
    assert_int_equal(rawe_histogram_bucket(UINT64_MAX), RAWE_HISTOGRAM_BUCKETS - 1);
}

TEST(rawe_histogram_add__counts_in_the_bucket)
{
    struct rawe_histogram histogram = {{0}};
    rawe_histogram_add(&histogram, 5000);
    rawe_histogram_add(&histogram, 8000);
    rawe_histogram_add(&histogram, 8192);
    assert_int_equal(histogram.count[3], 2);
    assert_int_equal(histogram.count[4], 1);
}

TEST(rawe_histogram_limit_ns__is_where_the_next_bucket_begins)
{
    for (unsigned i = 0; i + 1 < RAWE_HISTOGRAM_BUCKETS; i++) {
        assert_int_equal(rawe_histogram_bucket(rawe_histogram_limit_ns(i) - 1), i);
        assert_int_equal(rawe_histogram_bucket(rawe_histogram_limit_ns(i)), i + 1);
    }
    assert_true(rawe_histogram_limit_ns(RAWE_HISTOGRAM_BUCKETS - 1) == UINT64_MAX);
}
