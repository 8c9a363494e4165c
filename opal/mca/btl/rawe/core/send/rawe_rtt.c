/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Round-trip time estimate: see rawe_rtt.h.
 */
#include "rawe_rtt.h"

void rawe_rtt_init(struct rawe_rtt *rtt)
{
    rtt->smoothed_ns = 0;
    rtt->variation_ns = 0;
    rtt->minimum_ns = UINT64_MAX;
}

void rawe_rtt_sample(struct rawe_rtt *rtt, uint64_t sample_ns)
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
    if (rtt->smoothed_ns == 0) {
        rtt->smoothed_ns = 1;
    }
}

uint64_t rawe_rtt_overdue(const struct rawe_rtt *rtt, uint64_t least_ns, uint64_t most_ns)
{
    if (rtt->smoothed_ns == 0) {
        return most_ns;
    }
    uint64_t overdue = rtt->smoothed_ns + 4 * rtt->variation_ns;
    return overdue < least_ns ? least_ns : overdue > most_ns ? most_ns : overdue;
}
