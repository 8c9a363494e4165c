/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Tests of rawe_health (when a route goes down and comes up again) and of rawe_quality (a route's
 * loss rate, and when that rate is too high).
 */
#include "routes/rawe_health.h"
#include "unit_test.h"
#include "routes/rawe_quality.h"

#define MS 1000000ull
#define BEGIN_NS (1000 * MS)

static struct rawe_health health;
static uint64_t now_ns, pong_ns, other_pong_ns;
static unsigned asked;
static enum rawe_health_verdict last;

static void set_up(void)
{
    health = (struct rawe_health){0};
    now_ns = BEGIN_NS;
    pong_ns = other_pong_ns = 0;
    asked = 0;
    last = RAWE_HEALTH_NOTHING;
}

/** Check every 10 ms. If `answers` (`others`), this route (the others) answers PINGs after 1 ms. */
static void run(uint64_t duration_ns, bool answers, bool others)
{
    last = RAWE_HEALTH_NOTHING;
    for (uint64_t end_ns = now_ns + duration_ns; now_ns < end_ns; now_ns += 10 * MS) {
        enum rawe_health_verdict verdict =
            rawe_health_check(&health, pong_ns, other_pong_ns, now_ns);
        if (verdict == RAWE_HEALTH_ASK) {
            asked++;
            pong_ns = answers ? now_ns + MS : pong_ns;
            other_pong_ns = others ? now_ns + MS : other_pong_ns;
        } else if (verdict != RAWE_HEALTH_NOTHING) {
            last = verdict;
        }
    }
}

FIXTURE(set_up, NULL);

TEST(rawe_health_check__asks_nothing_without_doubt)
{
    run(1000 * MS, false, true);
    assert_int_equal(asked, 0);
    assert_int_equal(last, RAWE_HEALTH_NOTHING);
}

TEST(rawe_health_due_ns__says_when_the_next_question_is_due)
{
    assert_true(rawe_health_due_ns(&health) == UINT64_MAX);
    rawe_health_lose(&health, now_ns);
    assert_true(rawe_health_due_ns(&health) <= now_ns);
    for (unsigned i = 0; i < 100; i++) {
        assert_int_equal(rawe_health_check(&health, 0, 0, now_ns), RAWE_HEALTH_ASK);
        uint64_t due_ns = rawe_health_due_ns(&health);
        assert_in_range(due_ns, now_ns + 50 * MS, now_ns + 250 * MS);
        assert_int_equal(rawe_health_check(&health, 0, 0, due_ns - 1), RAWE_HEALTH_NOTHING);
        now_ns = due_ns;
    }
}

TEST(rawe_health_doubt__ends_with_an_answer)
{
    rawe_health_doubt(&health, now_ns);
    run(100 * MS, true, true);
    assert_int_equal(asked, 1);
    assert_int_equal(health.state, RAWE_HEALTH_UP);
    assert_int_equal(last, RAWE_HEALTH_NOTHING);
}

TEST(rawe_health_doubt__heeds_no_answer_of_before)
{
    pong_ns = other_pong_ns = now_ns - 1;
    rawe_health_doubt(&health, now_ns);
    run(1000 * MS, false, false);
    assert_int_equal(health.state, RAWE_HEALTH_SUSPECT);
}

TEST(rawe_health_doubt__finds_a_route_down_while_another_answers)
{
    rawe_health_doubt(&health, now_ns);
    run(40 * MS, false, true);
    assert_int_equal(last, RAWE_HEALTH_NOTHING); /* an answer may still arrive */
    run(20 * MS, false, true);
    assert_int_equal(last, RAWE_HEALTH_FAILED);
    assert_int_equal(health.state, RAWE_HEALTH_DOWN);
}

TEST(rawe_health_doubt__of_a_silent_process_is_no_failure)
{
    rawe_health_doubt(&health, now_ns);
    run(60000 * MS, false, false);
    assert_int_equal(last, RAWE_HEALTH_NOTHING);
    assert_in_range(asked, 200, 400); /* at growing intervals */
    run(20 * MS, false, true);        /* may contain no PING */
    run(300 * MS, false, true);
    assert_int_equal(last, RAWE_HEALTH_FAILED);
}

TEST(rawe_health_doubt__changes_nothing_of_what_is_known)
{
    rawe_health_lose(&health, now_ns);
    rawe_health_doubt(&health, now_ns);
    assert_int_equal(health.state, RAWE_HEALTH_DOWN);
}

TEST(rawe_health_lose__asks_until_it_answers_several_times)
{
    rawe_health_lose(&health, now_ns);
    run(30000 * MS, false, true);
    assert_int_equal(last, RAWE_HEALTH_NOTHING);
    assert_in_range(asked, 100, 400);
    /* A single answer is not enough. */
    pong_ns = now_ns;
    run(10 * MS, false, true);
    assert_int_equal(health.state, RAWE_HEALTH_DOWN);
    run(1200 * MS, true, true);
    assert_int_equal(last, RAWE_HEALTH_RECOVERED);
    assert_int_equal(health.state, RAWE_HEALTH_UP);
}

TEST(rawe_health_lose__answers_have_to_be_in_a_row)
{
    rawe_health_lose(&health, now_ns);
    for (unsigned i = 0; i < 50; i++) {
        unsigned before = asked;
        while (asked == before) {
            run(10 * MS, i % 3 != 0, true);
        }
    }
    assert_int_equal(health.state, RAWE_HEALTH_DOWN);
}

TEST(rawe_health_lose__again_asks_at_once)
{
    rawe_health_lose(&health, now_ns);
    run(10000 * MS, false, true);
    rawe_health_lose(&health, now_ns); /* the carrier is back */
    asked = 0;
    run(200 * MS, true, true);
    assert_int_equal(last, RAWE_HEALTH_RECOVERED);
    assert_int_equal(asked, 3);
}

TEST(rawe_health_lose__time_in_which_we_did_not_run_makes_no_question_rarer)
{
    for (unsigned i = 0; i < 2; i++) {
        set_up();
        rawe_health_lose(&health, now_ns);
        run(i * 100 * MS, false, true);
        now_ns += 60000 * MS;
        run(210 * MS, true, true);
        assert_int_equal(last, RAWE_HEALTH_RECOVERED);
    }
}

/** Let the route fail and then answer again. Return the time until it is used again. */
static uint64_t recovery_ns(void)
{
    rawe_health_doubt(&health, now_ns);
    run(100 * MS, false, true);
    assert_int_equal(last, RAWE_HEALTH_FAILED);
    uint64_t begin_ns = now_ns;
    while (last != RAWE_HEALTH_RECOVERED) {
        run(10 * MS, true, true);
    }
    return now_ns - begin_ns;
}

TEST(rawe_health_check__one_that_fails_again_soon_answers_for_longer)
{
    uint64_t first_ns = recovery_ns();
    uint64_t second_ns = recovery_ns();
    uint64_t third_ns = recovery_ns();
    assert_true(second_ns > first_ns && third_ns > second_ns);
    for (unsigned i = 0; i < 20; i++) {
        assert_true(recovery_ns() < 5000 * MS); /* the time stops growing */
    }
    now_ns += 60000 * MS;
    assert_true(recovery_ns() == first_ns);
}

/** A lossy route still answers some PINGs, so it must answer many in a row, and more each time. */
TEST(rawe_health_avoid__asks_for_longer_than_of_a_dead_route)
{
    rawe_health_avoid(&health, now_ns);
    run(1000 * MS, true, true);
    assert_int_equal(last, RAWE_HEALTH_NOTHING);
    run(1000 * MS, true, true);
    assert_int_equal(last, RAWE_HEALTH_RECOVERED);
    unsigned asked_first = asked;
    assert_int_equal(asked_first, 24);
    rawe_health_avoid(&health, now_ns);
    run(20000 * MS, true, true);
    assert_int_equal(last, RAWE_HEALTH_RECOVERED);
    assert_int_equal(asked, asked_first + 48);
}

TEST(rawe_health_avoid__an_answer_that_is_missing_has_it_begin_again)
{
    rawe_health_avoid(&health, now_ns);
    run(900 * MS, true, true);
    run(100 * MS, false, true);
    run(1000 * MS, true, true);
    assert_int_equal(last, RAWE_HEALTH_NOTHING);
    run(6000 * MS, true, true);
    assert_int_equal(last, RAWE_HEALTH_RECOVERED);
}

/** If no other route is left, a lossy route is better than none. */
TEST(rawe_health_revive__not_of_a_dead_route)
{
    assert_false(rawe_health_revive(&health, now_ns));
    rawe_health_avoid(&health, now_ns);
    assert_true(rawe_health_revive(&health, now_ns));
    assert_int_equal(health.state, RAWE_HEALTH_UP);
    rawe_health_lose(&health, now_ns);
    assert_false(rawe_health_revive(&health, now_ns));
    assert_int_equal(health.state, RAWE_HEALTH_DOWN);
}

static struct rawe_quality quality;
static uint32_t arrived, lost;

static void set_up_quality(void)
{
    arrived = UINT32_MAX - 50; /* counts wrap */
    lost = UINT32_MAX - 5;
    now_ns = BEGIN_NS;
    rawe_quality_begin(&quality, arrived, lost, now_ns);
}

/** Let the route carry frames for `time_ns`. Returns true if that completes a measurement. */
static bool carry(uint32_t more_arrived, uint32_t more_lost, uint64_t time_ns)
{
    arrived += more_arrived;
    lost += more_lost;
    now_ns += time_ns;
    return rawe_quality_measure(&quality, arrived, lost, now_ns);
}

static const struct unit_fixture with_quality = {set_up_quality, NULL};

TEST_WITH(with_quality, rawe_quality_measure__needs_time_and_frames)
{
    assert_false(carry(70, 30, 99 * MS));
    assert_true(carry(0, 0, MS));
    assert_int_equal(quality.permille, 300);
    assert_false(carry(30, 9, 300 * MS));
    assert_true(carry(10, 1, 300 * MS));
    assert_int_equal(quality.permille, 200);
}

/** Old losses, and losses among few frames, are ignored. */
TEST_WITH(with_quality, rawe_quality_measure__few_frames_are_forgotten)
{
    assert_false(carry(5, 5, 4999 * MS));
    assert_true(carry(0, 0, MS));
    assert_int_equal(quality.permille, 0);
    assert_false(carry(39, 0, 200 * MS));
    assert_true(carry(1, 0, MS));
    assert_int_equal(quality.permille, 0);
}

TEST_WITH(with_quality, rawe_quality_permille__as_far_as_is_known)
{
    assert_int_equal(rawe_quality_permille(&quality, arrived, lost), 0);
    assert_false(carry(6, 2, MS));
    assert_int_equal(rawe_quality_permille(&quality, arrived, lost), 250);
    assert_true(carry(94, 0, 200 * MS)); /* 2 of 102 */
    assert_int_equal(rawe_quality_permille(&quality, arrived + 1, lost + 1), 19);
}

TEST_WITH(with_quality, rawe_quality_judge__two_times_in_a_row_and_only_if_others_are_better)
{
    quality.permille = 300;
    assert_false(rawe_quality_judge(&quality, 0));
    assert_true(rawe_quality_judge(&quality, 75));
    assert_false(rawe_quality_judge(&quality, 76)); /* congestion, or all routes are lossy */
    assert_false(rawe_quality_judge(&quality, 75));
    quality.permille = 99;
    assert_false(rawe_quality_judge(&quality, 0));
    quality.permille = 100;
    assert_false(rawe_quality_judge(&quality, 0));
    assert_true(rawe_quality_judge(&quality, 25));
}

TEST_WITH(with_quality, rawe_quality_note_ping__counts_where_there_are_few_frames)
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

/** A dead route does not count as poor. */
TEST_WITH(with_quality, rawe_quality_is_poor__only_if_something_arrives)
{
    assert_false(rawe_quality_is_poor(&quality, arrived, lost + 3));
    assert_true(rawe_quality_is_poor(&quality, arrived + 1, lost + 3));
    assert_false(rawe_quality_is_poor(&quality, arrived + 100, lost + 3));
    quality.since_ns = 0;
    assert_false(rawe_quality_is_poor(&quality, arrived + 1, lost + 3));
}
