/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Tests of the counters' names and descriptions, and of the histogram.
 */
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/rawe_counters.h"
#include "unit_test.h"

TEST(rawe_counter_descriptions__one_for_each_field_in_order)
{
    size_t count = 0;
    while (rawe_counter_descriptions[count].name != NULL) {
        count++;
    }
    assert_int_equal(count, sizeof(struct rawe_counters) / sizeof(uint64_t));
    static const struct {
        size_t offset;
        const char *name;
    } some[] = {
        {offsetof(struct rawe_counters, messages_sent), "messages_sent"},
        {offsetof(struct rawe_counters, frames_resent), "frames_resent"},
        {offsetof(struct rawe_counters, dropped_key), "dropped_key"},
        {offsetof(struct rawe_counters, peers_lost), "peers_lost"},
    };
    for (size_t i = 0; i < sizeof(some) / sizeof(some[0]); i++) {
        assert_string_equal(rawe_counter_descriptions[some[i].offset / sizeof(uint64_t)].name,
                            some[i].name);
    }
}

TEST(rawe_counter_descriptions__are_distinct_and_say_something)
{
    for (size_t i = 0; rawe_counter_descriptions[i].name != NULL; i++) {
        assert_true(strlen(rawe_counter_descriptions[i].text) > 10);
        for (size_t j = 0; j < i; j++) {
            assert_string_not_equal(rawe_counter_descriptions[i].name,
                                    rawe_counter_descriptions[j].name);
            assert_string_not_equal(rawe_counter_descriptions[i].text,
                                    rawe_counter_descriptions[j].text);
        }
    }
}

/* rawe_histogram_bucket */

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
