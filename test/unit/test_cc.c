/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Tests of the congestion window.
 */
#include <stddef.h>
#include <stdint.h>

#include "send/rawe_cc.h"
#include "unit_test.h"

TEST(rawe_cc_init__first_window_within_the_largest)
{
    struct rawe_cc cc;
    rawe_cc_init(&cc, 64, 1024);
    assert_int_equal(cc.window, 64);
    rawe_cc_init(&cc, 64, 16);
    assert_int_equal(cc.window, 16);
}

TEST(rawe_cc_acked__slow_start_doubles_in_a_round_trip)
{
    struct rawe_cc cc;
    rawe_cc_init(&cc, 64, 1024);
    rawe_cc_acked(&cc, 64, true);
    assert_int_equal(cc.window, 128);
}

TEST(rawe_cc_acked__never_beyond_the_largest)
{
    struct rawe_cc cc;
    rawe_cc_init(&cc, 64, 100);
    rawe_cc_acked(&cc, 64, true);
    assert_int_equal(cc.window, 100);
    rawe_cc_acked(&cc, 1000, true);
    assert_int_equal(cc.window, 100);
}

TEST(rawe_cc_acked__a_window_not_used_does_not_grow)
{
    struct rawe_cc cc;
    rawe_cc_init(&cc, 64, 1024);
    for (unsigned i = 0; i < 1000; i++) {
        rawe_cc_acked(&cc, 10, false);
    }
    assert_int_equal(cc.window, 64);
}

/** Acknowledge a window's worth, frame by frame. */
static void round_trip(struct rawe_cc *cc)
{
    for (uint32_t i = cc->window; i > 0; i--) {
        rawe_cc_acked(cc, 1, true);
    }
}

TEST(rawe_cc_acked__after_a_loss_once_a_round_trip)
{
    struct rawe_cc cc;
    rawe_cc_init(&cc, 100, 1024);
    assert_true(rawe_cc_lost(&cc, 0, 100));
    assert_int_equal(cc.window, 70);
    for (unsigned i = 0; i < 69; i++) {
        rawe_cc_acked(&cc, 1, true);
    }
    assert_int_equal(cc.window, 70);
    rawe_cc_acked(&cc, 1, true);
    assert_true(cc.window > 70);
}

TEST(rawe_cc_acked__fast_to_the_plateau_slow_around_it_fast_beyond)
{
    struct rawe_cc cc;
    uint32_t gained[8];
    rawe_cc_init(&cc, 400, 1024);
    assert_true(rawe_cc_lost(&cc, 0, 400));
    assert_int_equal(cc.window, 280);
    for (unsigned i = 0; i < 8; i++) {
        uint32_t before = cc.window;
        round_trip(&cc);
        gained[i] = cc.window - before;
        if (i + 1 == RAWE_CC_ROUNDS_BACK) {
            assert_in_range(cc.window, 400, 402);
        }
    }
    assert_in_range(gained[4], 1, 2);
    assert_true(gained[0] > 10 * gained[4] && gained[7] > 10 * gained[4]);
    assert_true(gained[1] > gained[3] && gained[7] > gained[6] && gained[6] > gained[5]);
}

TEST(rawe_cc_acked__each_round_trip_gains_and_none_more_than_half)
{
    for (uint32_t first = 4; first <= 1024; first += 17) {
        struct rawe_cc cc;
        rawe_cc_init(&cc, first, 1024);
        assert_true(rawe_cc_lost(&cc, 0, first));
        while (cc.window < 1024) {
            uint32_t before = cc.window;
            round_trip(&cc);
            assert_in_range(cc.window, before + 1, before + before / 2);
        }
        assert_in_range(cc.rounds, 1, 60);
    }
}

TEST(rawe_cc_lost__once_for_all_frames_of_a_flight)
{
    struct rawe_cc cc;
    rawe_cc_init(&cc, 100, 1024);
    assert_true(rawe_cc_lost(&cc, 10, 100));
    for (uint32_t sequence = 11; sequence < 100; sequence++) {
        assert_false(rawe_cc_lost(&cc, sequence, 150));
    }
    assert_int_equal(cc.window, 70);
    assert_true(rawe_cc_lost(&cc, 100, 150)); /* sent after the reduction */
    assert_int_equal(cc.window, 49);
}

TEST(rawe_cc_lost__once_across_the_wrap)
{
    struct rawe_cc cc;
    rawe_cc_init(&cc, 100, 1024);
    assert_true(rawe_cc_lost(&cc, UINT32_MAX - 20, 10));
    assert_false(rawe_cc_lost(&cc, UINT32_MAX, 10));
    assert_false(rawe_cc_lost(&cc, 9, 20));
    assert_true(rawe_cc_lost(&cc, 10, 20));
}

TEST(rawe_cc_lost__a_reduction_long_ago_excuses_nothing)
{
    struct rawe_cc cc;
    rawe_cc_init(&cc, 1000, 1024);
    assert_true(rawe_cc_lost(&cc, 0, 100));
    /* Two thousand million frames later, where "before" has turned round. */
    uint32_t later = 100 + 0x80000010u;
    assert_true(rawe_cc_lost(&cc, later, later + 50));
    assert_int_equal(cc.window, 490);
}

TEST(rawe_cc_lost__never_below_the_least)
{
    struct rawe_cc cc;
    rawe_cc_init(&cc, 64, 1024);
    for (uint32_t i = 0; i < 50; i++) {
        assert_true(rawe_cc_lost(&cc, i, i + 1));
        assert_true(cc.window >= RAWE_CC_LEAST_FRAMES);
    }
    assert_int_equal(cc.window, RAWE_CC_LEAST_FRAMES);
    for (unsigned i = 0; i < 1000; i++) {
        rawe_cc_acked(&cc, 4, true);
    }
    assert_true(cc.window > RAWE_CC_LEAST_FRAMES); /* and it recovers */
}

TEST(rawe_cc_acked__fast_however_long_after_a_reduction)
{
    struct rawe_cc cc;
    static const uint32_t plateaus[] = {RAWE_CC_LEAST_FRAMES, 1024};
    for (unsigned i = 0; i < 2; i++) {
        rawe_cc_init(&cc, 64, 1024);
        cc.window = plateaus[i];
        assert_true(rawe_cc_lost(&cc, 0, 1));
        for (unsigned rounds = 0; rounds < 200000; rounds++) {
            cc.window = 720; /* it was not made use of */
            rawe_cc_acked(&cc, 720, true);
            assert_true(rounds < 60 || cc.window == 1024);
        }
    }
}

TEST(rawe_cc_unused__halves_down_to_the_first_window)
{
    struct rawe_cc cc;
    rawe_cc_init(&cc, 64, 1024);
    rawe_cc_acked(&cc, 900, true);
    assert_int_equal(cc.window, 964);
    rawe_cc_unused(&cc, 0);
    assert_int_equal(cc.window, 964);
    rawe_cc_unused(&cc, 1);
    assert_int_equal(cc.window, 482);
    rawe_cc_unused(&cc, 2);
    assert_int_equal(cc.window, 120);
    rawe_cc_unused(&cc, UINT64_MAX);
    assert_int_equal(cc.window, 64);
}

TEST(rawe_cc_unused__a_smaller_window_stays)
{
    struct rawe_cc cc;
    rawe_cc_init(&cc, 64, 1024);
    assert_true(rawe_cc_lost(&cc, 0, 64));
    assert_int_equal(cc.window, 44);
    rawe_cc_unused(&cc, 10);
    assert_int_equal(cc.window, 44);
}

TEST(rawe_cc_unused__slow_start_leads_back)
{
    struct rawe_cc cc;
    rawe_cc_init(&cc, 800, 1024);
    cc.first = 64;
    assert_true(rawe_cc_lost(&cc, 0, 800));
    assert_int_equal(cc.window, 560);
    cc.threshold = 100; /* as after losses at a smaller window */
    rawe_cc_unused(&cc, 10);
    assert_int_equal(cc.window, 64);
    rawe_cc_acked(&cc, 64, true);
    assert_int_equal(cc.window, 128);
    rawe_cc_acked(&cc, 128, true);
    assert_int_equal(cc.window, 256);
    rawe_cc_acked(&cc, 256, true);
    assert_true(cc.threshold == 420 && cc.window >= 420);
}
