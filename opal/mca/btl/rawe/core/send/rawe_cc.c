/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Congestion window: see rawe_cc.h.
 */
#include "rawe_cc.h"

#include "base/rawe_wire.h"

/** No estimate of the round trip keeps an unused window for longer. */
#define UNUSED_MOST_NS 1000000000ull

/** Round trips after a reduction at which the curve is beyond any window. */
#define ROUNDS_MOST 64u

/** The window `rounds` round trips after a reduction: 0.7 of the plateau at first. */
static int64_t cubic(uint32_t plateau, uint32_t rounds)
{
    const int64_t back = RAWE_CC_ROUNDS_BACK;
    int64_t since = (int64_t)rounds - back; /* the plateau; before it: negative */
    return plateau + (int64_t)plateau * 3 * since * since * since / (10 * back * back * back);
}

void rawe_cc_init(struct rawe_cc *cc, uint32_t first, uint32_t most)
{
    cc->window = first < most ? first : most;
    cc->first = cc->window;
    cc->threshold = most;
    cc->most = most;
    cc->acked_in_round = 0;
    cc->plateau = 0;
    cc->rounds = 0;
    cc->recover_sequence = 0;
    cc->reduced = false;
}

/** A round trip more since the last reduction. */
static void end_round(struct rawe_cc *cc)
{
    if (cc->rounds < ROUNDS_MOST) {
        cc->rounds++;
    }
    int64_t target = cubic(cc->plateau, cc->rounds);
    if (target > cc->most) {
        target = cc->most;
    }
    uint32_t half_more = cc->window + cc->window / 2;
    cc->window++;
    if (target > cc->window) {
        cc->window = target < half_more ? (uint32_t)target : half_more;
    }
}

void rawe_cc_grow(struct rawe_cc *cc, uint32_t frames)
{
    if (cc->window < cc->threshold) {
        cc->window += frames;
    } else {
        cc->acked_in_round += frames;
        if (cc->acked_in_round >= cc->window) {
            cc->acked_in_round -= cc->window;
            end_round(cc);
        }
    }
    if (cc->window > cc->most) {
        cc->window = cc->most;
    }
}

void rawe_cc_unused(struct rawe_cc *cc, uint64_t periods)
{
    /* Slow start leads back to near where it was. */
    uint32_t threshold = cc->window / 4 * 3;
    if (cc->threshold < threshold) {
        cc->threshold = threshold;
    }
    for (; periods != 0 && cc->window > cc->first; periods--) {
        cc->window = cc->window / 2 > cc->first ? cc->window / 2 : cc->first;
        cc->acked_in_round = 0;
    }
}

void rawe_cc_forget(struct rawe_cc *cc, const struct rawe_rtt *rtt, uint64_t now_ns)
{
    uint64_t period_ns = rawe_rtt_overdue(rtt, RAWE_CC_UNUSED_NS, UNUSED_MOST_NS);
    uint64_t periods = (now_ns - cc->used_ns) / period_ns;
    rawe_cc_unused(cc, periods);
    cc->used_ns += periods * period_ns;
}

bool rawe_cc_lost(struct rawe_cc *cc, uint32_t sequence, uint32_t next)
{
    if (cc->reduced && rawe_sequence_shortly_before(sequence, cc->recover_sequence)) {
        return false;
    }
    cc->recover_sequence = next;
    cc->reduced = true;
    cc->plateau = cc->window;
    cc->window = cc->window * 7 / 10;
    if (cc->window < RAWE_CC_LEAST_FRAMES) {
        cc->window = RAWE_CC_LEAST_FRAMES;
    }
    cc->threshold = cc->window;
    cc->acked_in_round = 0;
    cc->rounds = 0;
    return true;
}
