/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Tests of the counters' names and descriptions.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "rawe_counters.h"

static void rawe_counter_descriptions__one_for_each_field_in_order(void **state)
{
    (void)state;
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

static void rawe_counter_descriptions__are_distinct_and_say_something(void **state)
{
    (void)state;
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rawe_counter_descriptions__one_for_each_field_in_order),
        cmocka_unit_test(rawe_counter_descriptions__are_distinct_and_say_something),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
