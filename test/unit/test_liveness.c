/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Tests of a peer's liveness: when it is probed, and when it is given up.
 */
#include <string.h>

#include "conn/rawe_liveness.h"
#include "unit_alloc.h"
#include "unit_test.h"

#define US 1000ull
#define MS 1000000ull
#define S 1000000000ull
#define NOW (100 * S)

static struct rawe_liveness liveness;
static struct rawe_rtt rtt;
static struct rawe_liveness_limits limits;

static void set_up(void)
{
    memset(&liveness, 0, sizeof(liveness));
    rawe_liveness_init(&liveness, &rtt, &limits);
    rawe_rtt_init(&rtt);
    limits = (struct rawe_liveness_limits){
        .probe_least_ns = 500 * US, .probe_most_ns = 100 * MS, .peer_timeout_ns = 5 * S};
}

static void tear_down(void)
{
    unit_allocations_left = -1;
    rawe_liveness_reset(&liveness);
    assert_null(liveness.probes);
}

static uint64_t interval_ns(void)
{
    return rawe_liveness_interval_ns(&liveness);
}

/** Return the verdict for a probe due at `now_ns`; it must report a silence of `silent_ns`. */
static enum rawe_liveness_verdict expire(uint64_t now_ns, bool deferring, uint64_t silent_ns)
{
    uint64_t silence_ns = UINT64_MAX;
    liveness.probe_deadline_ns = now_ns;
    enum rawe_liveness_verdict verdict =
        rawe_liveness_expire(&liveness, deferring, now_ns, &silence_ns);
    assert_true(silence_ns == silent_ns);
    assert_true(liveness.probe_deadline_ns == 0);
    return verdict;
}

static bool asked(uint64_t now_ns)
{
    return rawe_liveness_asked(&liveness, now_ns);
}

/** Let the peer be silent from NOW on, and probe it every 100 ms from then until `until_ns`. */
static void silent_until(uint64_t until_ns)
{
    assert_int_equal(expire(NOW, false, 0), RAWE_LIVENESS_ASK);
    liveness.probes_unanswered = 30;
    for (uint64_t now_ns = NOW; now_ns < until_ns; now_ns += 100 * MS) {
        if (now_ns != NOW) {
            assert_int_equal(expire(now_ns, false, now_ns - NOW), RAWE_LIVENESS_ASK);
        }
        (void)asked(now_ns);
    }
}

FIXTURE(set_up, tear_down);

TEST(rawe_liveness_interval_ns__1_ms_without_a_round_trip)
{
    assert_true(interval_ns() == RAWE_LIVENESS_FIRST_INTERVAL_NS);
    assert_true(interval_ns() == MS);
    limits.probe_most_ns = 300 * US;
    assert_true(interval_ns() == 300 * US);
}

TEST(rawe_liveness_interval_ns__smoothed_and_four_variations_in_limits)
{
    rtt.smoothed_ns = 400 * US;
    rtt.variation_ns = 100 * US;
    assert_true(interval_ns() == 800 * US);
    rtt.smoothed_ns = 99 * US;
    assert_true(interval_ns() == limits.probe_least_ns);
    rtt.smoothed_ns = 600 * S; /* the peer has computed for ten minutes */
    assert_true(interval_ns() == 10 * MS);
    limits.probe_most_ns = 7 * MS;
    assert_true(interval_ns() == 7 * MS);
}

TEST(rawe_liveness_interval_ns__does_not_overflow)
{
    static const uint32_t unanswered[] = {16, 17, 31, 44, 63, 64, 65, 1000, UINT32_MAX};
    limits.probe_most_ns = UINT64_MAX / 2;
    for (unsigned i = 0; i < sizeof(unanswered) / sizeof(unanswered[0]); i++) {
        liveness.probes_unanswered = unanswered[i];
        assert_true(interval_ns() == MS << 16);
    }
    limits.probe_most_ns = 100 * MS;
    assert_true(interval_ns() == 100 * MS);
}

TEST(rawe_liveness_heard__ends_the_silence)
{
    silent_until(NOW + S);
    rawe_liveness_heard(&liveness);
    assert_true(interval_ns() == MS);
    assert_true(liveness.silent_since_ns == 0);
    assert_int_equal(expire(NOW + 60 * S, false, 0), RAWE_LIVENESS_ASK);
}

TEST(rawe_liveness_alive__silence_counts_from_the_answer_on)
{
    rawe_liveness_alive(&liveness, NOW);
    assert_true(liveness.silent_since_ns == 0); /* there was no silence */
    silent_until(NOW + S);
    rawe_liveness_alive(&liveness, NOW + 400 * MS);
    assert_int_equal(expire(NOW + S, false, 600 * MS), RAWE_LIVENESS_ASK);
    rawe_liveness_alive(&liveness, NOW + 300 * MS); /* an older answer is ignored */
    assert_true(liveness.silent_since_ns == NOW + 400 * MS);
    assert_int_equal(liveness.probes_unanswered, 40); /* only the responder was heard */
}

TEST(rawe_liveness_ask_by__moves_forward_only)
{
    assert_true(rawe_liveness_ask_by(&liveness, NOW + MS));
    assert_false(rawe_liveness_ask_by(&liveness, NOW + MS));
    assert_false(rawe_liveness_ask_by(&liveness, NOW + 2 * MS));
    assert_true(liveness.probe_deadline_ns == NOW + MS);
    assert_true(rawe_liveness_ask_by(&liveness, NOW + MS - 1));
    assert_true(liveness.probe_deadline_ns == NOW + MS - 1);
}

TEST(rawe_liveness_expire__without_a_timeout_never)
{
    limits.peer_timeout_ns = 0;
    silent_until(NOW + 600 * S);
    assert_int_equal(expire(NOW + 600 * S, false, 600 * S), RAWE_LIVENESS_ASK);
}

TEST(rawe_liveness_expire__deferring_does_not_count)
{
    silent_until(NOW + S);
    uint64_t now_ns = NOW + S;
    for (unsigned i = 0; i < 100; i++, now_ns += 100 * MS) {
        assert_int_equal(expire(now_ns, true, 900 * MS), RAWE_LIVENESS_ASK);
        (void)asked(now_ns);
    }
    assert_int_equal(expire(now_ns, false, S), RAWE_LIVENESS_ASK); /* resumes where it stopped */
}

TEST(rawe_liveness_expire__no_peer_is_given_up_while_deferring)
{
    silent_until(NOW + 5 * S);
    limits.peer_timeout_ns = S;
    assert_int_equal(expire(NOW + 5 * S, true, 4900 * MS), RAWE_LIVENESS_ASK);
}

TEST(rawe_liveness_expire__an_answer_just_now_is_no_silence)
{
    silent_until(NOW + S);
    rawe_liveness_alive(&liveness, NOW + S);
    assert_int_equal(expire(NOW + S - 1, false, 0), RAWE_LIVENESS_ASK);
}

TEST(rawe_liveness_migrate__begins_to_probe_again)
{
    silent_until(NOW + S);
    rawe_liveness_migrate(&liveness, false, NOW + S);
    assert_int_equal(liveness.probes_unanswered, 0);
    (void)asked(NOW + S);
    assert_int_equal(expire(NOW + S + MS, false, S + MS), RAWE_LIVENESS_ASK);
}

TEST(rawe_liveness_migrate__deferring_does_not_count)
{
    silent_until(NOW + S);
    rawe_liveness_migrate(&liveness, true, NOW + S);
    (void)asked(NOW + S);
    assert_int_equal(expire(NOW + S, false, 900 * MS), RAWE_LIVENESS_ASK);
}

TEST(rawe_liveness_migrate__a_peer_that_was_heard_is_not_silent)
{
    rawe_liveness_migrate(&liveness, false, NOW);
    assert_true(liveness.silent_since_ns == 0);
}

TEST(rawe_liveness_probe_sent__numbers_go_round_without_0)
{
    liveness.probe_number = UINT32_MAX - 2;
    for (uint32_t i = 1; i <= 4; i++) {
        rawe_liveness_probe_sent(&liveness, NOW + i);
        assert_int_equal(liveness.probe_number, i < 3 ? UINT32_MAX - 2 + i : i - 2);
    }
    assert_true(rawe_liveness_probe_answered(&liveness, 0) == 0);
    assert_true(rawe_liveness_probe_answered(&liveness, UINT32_MAX) == NOW + 2);
    assert_true(rawe_liveness_probe_answered(&liveness, UINT32_MAX - 1) == 0);
    assert_true(rawe_liveness_probe_answered(&liveness, 2) == NOW + 4);
}

TEST(rawe_liveness_probe_sent__without_memory_it_is_not_remembered)
{
    unit_allocations_left = 0;
    rawe_liveness_probe_sent(&liveness, NOW);
    unit_allocations_left = 1;
    rawe_liveness_probe_sent(&liveness, NOW + MS);
    rawe_liveness_probe_sent(&liveness, NOW + 2 * MS); /* needs no more memory */
    assert_true(rawe_liveness_probe_answered(&liveness, 1) == 0);
    assert_true(rawe_liveness_probe_answered(&liveness, 2) == NOW + MS);
    assert_non_null(liveness.probes);
    assert_true(rawe_liveness_probe_answered(&liveness, 3) == NOW + 2 * MS);
    assert_null(liveness.probes);
}

/** Processes whose clocks differ by a few nanoseconds or more probe at well spread times. */
TEST(rawe_liveness_spread__over_half_of_the_interval)
{
    static const uint64_t apart_ns[] = {1, 7, 1000};
    for (unsigned i = 0; i < sizeof(apart_ns) / sizeof(apart_ns[0]); i++) {
        unsigned in_quarter[4] = {0};
        for (unsigned process = 0; process < 1000; process++) {
            uint64_t now_ns = 1000 * MS + process * apart_ns[i];
            rawe_liveness_ask_at(&liveness, now_ns + 8 * MS);
            rawe_liveness_spread(&liveness, now_ns);
            assert_in_range(liveness.probe_deadline_ns - now_ns, 4 * MS, 8 * MS);
            in_quarter[(liveness.probe_deadline_ns - now_ns - 4 * MS) / (MS + 1)]++;
        }
        for (unsigned j = 0; j < 4; j++) {
            assert_in_range(in_quarter[j], 200, 300);
        }
    }
}

TEST(rawe_liveness_asked__plans_the_next_question)
{
    assert_false(asked(NOW));
    assert_true(liveness.asked_ns == NOW);
    assert_true(liveness.probe_deadline_ns == NOW + 2 * MS);
    assert_false(asked(NOW + 2 * MS));
    assert_true(liveness.probe_deadline_ns == NOW + 6 * MS);
    assert_int_equal(liveness.probes_unanswered, 2);
    assert_int_equal(liveness.probe_number, 0); /* the caller sends the probe */
}

TEST(rawe_liveness_asked__doubt_begins_with_the_third)
{
    assert_false(asked(NOW));
    assert_false(asked(NOW));
    assert_true(asked(NOW));
    assert_true(asked(NOW));
    rawe_liveness_heard(&liveness);
    assert_false(asked(NOW));
}

TEST(rawe_liveness_probe_answered__probes_never_sent)
{
    assert_true(rawe_liveness_probe_answered(&liveness, 0) == 0);
    assert_true(rawe_liveness_probe_answered(&liveness, 1) == 0);
    assert_true(rawe_liveness_probe_answered(&liveness, UINT32_MAX) == 0);
    for (uint32_t i = 1; i <= 3; i++) {
        rawe_liveness_probe_sent(&liveness, NOW + i);
    }
    static const uint32_t numbers[] = {
        0, 4, 5, 8, 11, 0x80000000, 0x80000003, UINT32_MAX, UINT32_MAX - 4};
    for (unsigned i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
        assert_true(rawe_liveness_probe_answered(&liveness, numbers[i]) == 0);
    }
    for (uint32_t i = 1; i <= 3; i++) {
        assert_true(rawe_liveness_probe_answered(&liveness, i) == NOW + i);
    }
}

/** Send twenty probes. */
static void send_twenty(void)
{
    set_up();
    for (uint32_t i = 1; i <= 20; i++) {
        rawe_liveness_probe_sent(&liveness, NOW + i);
    }
}

TEST(rawe_liveness_probe_answered__the_oldest_and_the_newest)
{
    send_twenty();
    for (uint32_t number = 1; number <= 30; number++) {
        bool known = number < RAWE_LIVENESS_PROBES || number == 20;
        assert_true(rawe_liveness_probe_answered(&liveness, number) == (known ? NOW + number : 0));
    }
    send_twenty();
    assert_true(rawe_liveness_probe_answered(&liveness, 15) == 0); /* displaced by later probes */
    assert_true(rawe_liveness_probe_answered(&liveness, 1) == 0);
    assert_true(rawe_liveness_probe_answered(&liveness, 20) == NOW + 20);
}

TEST(rawe_liveness_probe_answered__again_and_again_with_many_under_way)
{
    unsigned understood = 0;
    for (uint32_t i = 1; i <= 1000; i++) {
        rawe_liveness_probe_sent(&liveness, NOW + i);
        if (i > 30) {
            uint64_t sent_ns = rawe_liveness_probe_answered(&liveness, i - 30);
            assert_true(sent_ns == 0 || sent_ns == NOW + i - 30);
            understood += sent_ns != 0;
        }
    }
    assert_true(understood > 1000 * (RAWE_LIVENESS_PROBES - 1) / 30 - 30);
}
