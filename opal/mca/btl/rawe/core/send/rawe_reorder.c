/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Reordering window: see rawe_reorder.h.
 */
#include "rawe_reorder.h"

#include "base/rawe_wire.h"

/** Loss recoveries for which a wider window stays (RFC 8985: reo_wnd_persist). */
#define PERSIST_RECOVERIES 16u

/**
 * Widest window, in steps. RFC 8985 stops at the smoothed round-trip time; within one switch that
 * is shorter than the queue of one leg of a LAG.
 */
#define STEPS_MAX 20u

/**
 * The steps together are no wider: a peer that was stopped leaves round trips of minutes, and a loss
 * must not wait for them.
 */
#define STEPS_MOST_NS 10000000ull

void rawe_reorder_init(struct rawe_reorder *reorder)
{
    *reorder = (struct rawe_reorder){.steps = 1};
}

void rawe_reorder_duplicate(struct rawe_reorder *reorder, uint32_t una, uint32_t next)
{
    if (!reorder->resent) {
        return;
    }
    reorder->resent = false;
    reorder->persist = PERSIST_RECOVERIES;
    if (reorder->in_round && rawe_sequence_shortly_before(una, reorder->round_end)) {
        return;
    }
    reorder->in_round = true;
    reorder->round_end = next;
    if (reorder->steps < STEPS_MAX) {
        reorder->steps++;
    }
}

void rawe_reorder_recovery(struct rawe_reorder *reorder)
{
    if (reorder->persist != 0 && --reorder->persist == 0) {
        reorder->steps = 1;
    }
}

uint64_t rawe_reorder_window_ns(const struct rawe_reorder *reorder, uint64_t least_ns,
                                const struct rawe_rtt *rtt)
{
    uint64_t step_ns = least_ns;
    if (rtt->smoothed_ns != 0 && rtt->minimum_ns / 4 > step_ns) {
        step_ns = rtt->minimum_ns / 4;
    }
    uint64_t steps_ns = (reorder->steps - 1) * step_ns;
    return least_ns + (steps_ns < STEPS_MOST_NS ? steps_ns : STEPS_MOST_NS);
}
