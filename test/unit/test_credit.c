/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Tests of core/rawe_credit.c.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "rawe_cc.h"
#include "rawe_credit.h"

#define WINDOW 128u
#define MS 1000000ull

static void rawe_credit_init__alone_at_most_a_window(void **state)
{
    (void)state;
    struct rawe_credit credit;
    rawe_credit_init(&credit, 256, WINDOW, 1);
    assert_int_equal(credit.frames[RAWE_LANE_EXPRESS], WINDOW); /* 3/4 of 256 would be more */
    rawe_credit_init(&credit, 64, WINDOW, 1);
    assert_int_equal(credit.frames[RAWE_LANE_EXPRESS], 48);
    assert_int_equal(credit.frames[RAWE_LANE_BULK], 48);
}

static void rawe_credit_use_bulk__the_smaller_of_ring_and_queue(void **state)
{
    (void)state;
    struct rawe_credit credit;
    rawe_credit_init(&credit, 64, WINDOW, 1);
    rawe_credit_use_bulk(&credit, 32);
    assert_int_equal(credit.frames[RAWE_LANE_EXPRESS], 48);
    assert_int_equal(credit.frames[RAWE_LANE_BULK], 24);
    rawe_credit_use_bulk(&credit, 1000);
    assert_int_equal(credit.frames[RAWE_LANE_BULK], 48);
}

static void rawe_credit_count__senders_together_never_exceed_the_ring(void **state)
{
    (void)state;
    struct rawe_credit credit;
    rawe_credit_init(&credit, 256, WINDOW, 1);
    for (unsigned senders = 1; senders < 2000; senders++) {
        uint32_t epoch = 0;
        rawe_credit_count(&credit, &epoch);
        unsigned frames = credit.frames[RAWE_LANE_EXPRESS];
        assert_true(frames >= RAWE_CC_LEAST_FRAMES);
        assert_true(frames == RAWE_CC_LEAST_FRAMES || frames * senders <= 256 * 3 / 4);
    }
}

static void rawe_credit_count__a_sender_counts_once_an_epoch(void **state)
{
    (void)state;
    struct rawe_credit credit;
    uint32_t epoch = 0;
    rawe_credit_init(&credit, 64, WINDOW, 1);
    rawe_credit_count(&credit, &epoch);
    rawe_credit_count(&credit, &epoch);
    assert_int_equal(credit.senders_now, 1);
    assert_int_equal(credit.frames[RAWE_LANE_EXPRESS], 48);
}

static void rawe_credit_advance__who_sent_in_the_epoch_before_still_counts(void **state)
{
    (void)state;
    struct rawe_credit credit;
    uint32_t epochs[2] = {0, 0};
    rawe_credit_init(&credit, 64, WINDOW, 1);
    rawe_credit_count(&credit, &epochs[0]);
    rawe_credit_count(&credit, &epochs[1]);
    assert_int_equal(credit.frames[RAWE_LANE_EXPRESS], 24);
    rawe_credit_advance(&credit, 1 + 9 * MS);
    assert_int_equal(credit.frames[RAWE_LANE_EXPRESS], 24);
    rawe_credit_advance(&credit, 1 + 10 * MS);
    assert_int_equal(credit.frames[RAWE_LANE_EXPRESS], 24);
    rawe_credit_count(&credit, &epochs[0]);
    assert_int_equal(credit.senders_now, 1); /* counted again in the new epoch */
    rawe_credit_advance(&credit, 1 + 20 * MS);
    assert_int_equal(credit.frames[RAWE_LANE_EXPRESS], 48);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rawe_credit_init__alone_at_most_a_window),
        cmocka_unit_test(rawe_credit_use_bulk__the_smaller_of_ring_and_queue),
        cmocka_unit_test(rawe_credit_count__senders_together_never_exceed_the_ring),
        cmocka_unit_test(rawe_credit_count__a_sender_counts_once_an_epoch),
        cmocka_unit_test(rawe_credit_advance__who_sent_in_the_epoch_before_still_counts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
