/* SPDX-License-Identifier: BSD-3-Clause */
#include "rawe_loss.h"

void rawe_rtt_init(struct rawe_rtt *rtt)
{
    rtt->smoothed_ns = 0;
    rtt->variation_ns = 0;
    rtt->minimum_ns = UINT64_MAX;
}

__attribute__((hot)) void rawe_rtt_sample(struct rawe_rtt *rtt, uint64_t sample_ns)
{
    if (sample_ns == 0) {
        sample_ns = 1;
    }
    if (sample_ns < rtt->minimum_ns) {
        rtt->minimum_ns = sample_ns;
    }
    if (rtt->smoothed_ns == 0) {
        rtt->smoothed_ns = sample_ns;
        rtt->variation_ns = sample_ns / 2;
        return;
    }
    uint64_t deviation =
        sample_ns > rtt->smoothed_ns ? sample_ns - rtt->smoothed_ns : rtt->smoothed_ns - sample_ns;
    rtt->variation_ns += deviation / 4 - rtt->variation_ns / 4;
    rtt->smoothed_ns += sample_ns / 8 - rtt->smoothed_ns / 8;
}

uint64_t rawe_rtt_overdue(const struct rawe_rtt *rtt, uint64_t least_ns, uint64_t most_ns)
{
    if (rtt->smoothed_ns == 0) {
        return most_ns;
    }
    uint64_t overdue = rtt->smoothed_ns + 4 * rtt->variation_ns;
    return overdue < least_ns ? least_ns : overdue > most_ns ? most_ns : overdue;
}

/** Number of loss recoveries that keep a wider window (RFC 8985: reo_wnd_persist). */
#define PERSIST_RECOVERIES 16u

/** RFC 8985 stops at the smoothed RTT, which is less than the queueing delay of a LAG's link. */
#define STEPS_MAX 20u

/** Limit on the window: a stopped peer causes minute-long round trips, but losses cannot wait. */
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
    if (reorder->in_round && reorder->round_end - 1 - una < next - una) {
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
    if (rtt->minimum_ns != UINT64_MAX && rtt->minimum_ns / 4 > step_ns) {
        step_ns = rtt->minimum_ns / 4;
    }
    uint64_t steps_ns = (reorder->steps - 1) * step_ns;
    return least_ns + (steps_ns < STEPS_MOST_NS ? steps_ns : STEPS_MOST_NS);
}
