/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Delivery rate: see rawe_rate.h.
 */
#include "rawe_rate.h"

/**
 * Acknowledgements come in lumps, a quarter of the window each, and so does what a shaper lets pass:
 * a measurement takes that time and that many bytes, at least.
 */
#define LEAST_NS 2000000ull
#define LEAST_BYTES 65536u

/** A measurement counts for that part of the mean. */
#define PART 4u

void rawe_rate_acked(struct rawe_rate *rate, uint64_t bytes, bool idle, uint64_t now_ns)
{
    /* When the first ones left is not known: they begin a measurement, and do not count. */
    rate->bytes = rate->since_ns == 0 ? 0 : rate->bytes + bytes;
    rate->since_ns = rate->since_ns == 0 ? now_ns : rate->since_ns;
    uint64_t took_ns = now_ns > rate->since_ns ? now_ns - rate->since_ns : 0;
    if (took_ns >= LEAST_NS && rate->bytes >= LEAST_BYTES) {
        uint64_t mbps = rate->bytes * 8000 / took_ns;
        mbps = mbps < RAWE_RATE_MOST_MBPS ? mbps : RAWE_RATE_MOST_MBPS;
        mbps = rate->mbps == 0 ? mbps : (rate->mbps * (PART - 1) + mbps) / PART;
        rate->mbps = mbps != 0 ? (uint32_t)mbps : 1;
        rate->bytes = 0;
        rate->since_ns = now_ns;
    }
    if (idle) {
        rate->since_ns = 0;
    }
}
