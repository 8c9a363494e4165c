/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * CUBIC (RFC 9438): slow start, a reduction to 0.7 when frames are lost, and cubic growth, which is
 * fast at first, slow around the window at the loss, and fast beyond it. Time is counted in round
 * trips, not in seconds, because a round trip takes microseconds. Whatever its size, the window
 * recovers in ROUNDS_BACK round trips. So it stays nearly full in spite of random losses, such as
 * those of a bad cable. Additive increase would need a hundred round trips for each loss.
 */
#include "rawe_cc.h"

/** Round trips from a reduction back to the window before it. */
#define ROUNDS_BACK 5

/** After this many round trips, the curve exceeds any window. */
#define ROUNDS_MOST 64u

static void cubic_started(struct rawe_cc *cc)
{
    rawe_cc_set_window(cc, cc->first);
    cc->state.cubic = (struct rawe_cubic){.threshold = cc->most};
}

/** Return the window `rounds` round trips after a reduction: at first 0.7 of the plateau. */
static int64_t cubic_curve(uint32_t plateau, uint32_t rounds)
{
    const int64_t back = ROUNDS_BACK;
    int64_t since = (int64_t)rounds - back; /* negative before the plateau */
    return plateau + (int64_t)plateau * 3 * since * since * since / (10 * back * back * back);
}

/** Grow the window after another round trip. */
static void end_growth_round(struct rawe_cc *cc)
{
    struct rawe_cubic *cubic = &cc->state.cubic;
    if (cubic->rounds < ROUNDS_MOST) {
        cubic->rounds++;
    }
    int64_t target = cubic_curve(cubic->plateau, cubic->rounds);
    uint32_t half_more = cc->window + cc->window / 2;
    target = target < half_more ? target : half_more;
    rawe_cc_set_window(cc, target > cc->window ? (uint32_t)target : cc->window + 1);
}

__attribute__((hot)) static void cubic_acknowledged(struct rawe_cc *cc, const struct rawe_ack *ack)
{
    struct rawe_cubic *cubic = &cc->state.cubic;
    if (!ack->limited || cc->window >= cc->most) {
        return;
    }
    if (cc->window < cubic->threshold) {
        rawe_cc_set_window(cc, cc->window + ack->arrived);
        return;
    }
    cubic->acked_in_round += ack->arrived;
    if (cubic->acked_in_round >= cc->window) {
        cubic->acked_in_round -= cc->window;
        end_growth_round(cc);
    }
}

static void cubic_lost(struct rawe_cc *cc)
{
    struct rawe_cubic *cubic = &cc->state.cubic;
    *cubic = (struct rawe_cubic){.plateau = cc->window};
    rawe_cc_set_window(cc, cc->window * 7 / 10);
    cubic->threshold = cc->window;
}

/** Use the smallest window. Slow start then grows it to its size after the last reduction. */
static void timed_out(struct rawe_cc *cc)
{
    rawe_cc_set_window(cc, cc->least);
}

/** Halve the window each period (RFC 7661, RFC 2861). Slow start then nearly restores it. */
static void cubic_idle(struct rawe_cc *cc, uint64_t periods)
{
    struct rawe_cubic *cubic = &cc->state.cubic;
    uint32_t threshold = cc->window / 4 * 3;
    if (cubic->threshold < threshold) {
        cubic->threshold = threshold;
    }
    for (; periods != 0 && cc->window > cc->first; periods--) {
        rawe_cc_set_window(cc, cc->window / 2 > cc->first ? cc->window / 2 : cc->first);
        cubic->acked_in_round = 0;
    }
}

const struct rawe_cc_type rawe_cc_cubic = {
    .name = "cubic",
    .started = cubic_started,
    .acknowledged = cubic_acknowledged,
    .lost = cubic_lost,
    .timed_out = timed_out,
    .idle = cubic_idle,
};
