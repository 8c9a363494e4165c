/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Round-trip time estimate, RFC 6298 section 2 with the gains given there.
 */
#ifndef RAWE_RTT_H
#define RAWE_RTT_H

#include <stdint.h>

struct rawe_rtt {
    uint64_t smoothed_ns;  /**< 0: no sample yet */
    uint64_t variation_ns; /**< mean deviation */
    uint64_t minimum_ns;   /**< smallest sample, or time of a probe; UINT64_MAX: none */
};

void rawe_rtt_init(struct rawe_rtt *rtt);

/** Take a sample: time from sending a frame that was sent once to its acknowledgement. */
void rawe_rtt_sample(struct rawe_rtt *rtt, uint64_t sample_ns);

/** A probe was answered after that time: the shortest round trip is no longer. */
static inline void rawe_rtt_probed(struct rawe_rtt *rtt, uint64_t took_ns)
{
    took_ns = took_ns != 0 ? took_ns : 1;
    rtt->minimum_ns = took_ns < rtt->minimum_ns ? took_ns : rtt->minimum_ns;
}

/**
 * Silence after which an acknowledgement is overdue: smoothed + 4 x variation, within the bounds
 * given; the upper bound when there is no sample.
 */
uint64_t rawe_rtt_overdue(const struct rawe_rtt *rtt, uint64_t least_ns, uint64_t most_ns);

#endif
