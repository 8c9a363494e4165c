/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Tests of rawe_quality: what a route loses, and when that is too much.
 */
#include "routes/rawe_quality.h"
#include "unit_test.h"

#define MS 1000000ull
#define BEGIN_NS (1000 * MS)

static struct rawe_quality quality;
static uint32_t arrived, lost;
static uint64_t now_ns;

static void set_up(void)
{
    arrived = UINT32_MAX - 50; /* they wrap */
    lost = UINT32_MAX - 5;
    now_ns = BEGIN_NS;
    rawe_quality_begin(&quality, arrived, lost, now_ns);
}

/** Frames go by the route in this time. */
static bool carry(uint32_t more_arrived, uint32_t more_lost, uint64_t time_ns)
{
    arrived += more_arrived;
    lost += more_lost;
    now_ns += time_ns;
    return rawe_quality_measure(&quality, arrived, lost, now_ns);
}

FIXTURE(set_up, NULL);

TEST(rawe_quality_measure__needs_time_and_frames)
{
    assert_false(carry(70, 30, 99 * MS));
    assert_true(carry(0, 0, MS));
    assert_int_equal(quality.permille, 300);
    assert_false(carry(30, 9, 300 * MS));
    assert_true(carry(10, 1, 300 * MS));
    assert_int_equal(quality.permille, 200);
}

/** Losses of long ago, and few frames, say nothing. */
TEST(rawe_quality_measure__few_frames_are_forgotten)
{
    assert_false(carry(5, 5, 4999 * MS));
    assert_true(carry(0, 0, MS));
    assert_int_equal(quality.permille, 0);
    assert_false(carry(39, 0, 200 * MS));
    assert_true(carry(1, 0, MS));
    assert_int_equal(quality.permille, 0);
}

TEST(rawe_quality_permille__as_far_as_is_known)
{
    assert_int_equal(rawe_quality_permille(&quality, arrived, lost), 0);
    assert_false(carry(6, 2, MS));
    assert_int_equal(rawe_quality_permille(&quality, arrived, lost), 250);
    assert_true(carry(94, 0, 200 * MS)); /* 2 of 102 */
    assert_int_equal(rawe_quality_permille(&quality, arrived + 1, lost + 1), 19);
}

TEST(rawe_quality_judge__two_times_in_a_row_and_only_if_others_are_better)
{
    quality.permille = 300;
    assert_false(rawe_quality_judge(&quality, 0));
    assert_true(rawe_quality_judge(&quality, 75));
    assert_false(rawe_quality_judge(&quality, 76)); /* congestion, or the network is so */
    assert_false(rawe_quality_judge(&quality, 75));
    quality.permille = 99;
    assert_false(rawe_quality_judge(&quality, 0));
    quality.permille = 100;
    assert_false(rawe_quality_judge(&quality, 0));
    assert_true(rawe_quality_judge(&quality, 25));
}

TEST(rawe_quality_note_ping__counts_where_there_are_few_frames)
{
    assert_true(rawe_quality_wants_ping(&quality, arrived, lost));
    for (unsigned i = 0; i < 42; i++) {
        quality.asked_ns = now_ns;
        rawe_quality_note_ping(&quality, i % 3 != 2);
        assert_int_equal(quality.asked_ns, 0);
    }
    assert_false(rawe_quality_wants_ping(&quality, arrived, lost));
    assert_true(carry(0, 0, 100 * MS));
    assert_int_equal(quality.permille, 333);
    assert_true(rawe_quality_wants_ping(&quality, arrived, lost));
    assert_false(rawe_quality_wants_ping(&quality, arrived + 36, lost + 4));
}

/** A dead route is not poor. */
TEST(rawe_quality_is_poor__only_if_something_arrives)
{
    assert_false(rawe_quality_is_poor(&quality, arrived, lost + 3));
    assert_true(rawe_quality_is_poor(&quality, arrived + 1, lost + 3));
    assert_false(rawe_quality_is_poor(&quality, arrived + 100, lost + 3));
    quality.since_ns = 0;
    assert_false(rawe_quality_is_poor(&quality, arrived + 1, lost + 3));
}
