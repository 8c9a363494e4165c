/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The limit on what is asked for. See rawe_inflow.h.
 */
#include "rawe_inflow.h"

/** What a small switch buffers for a port, and a round trip of 20 us holds at 25 Gb/s. */
#define FIRST_BYTES 100000u

/**
 * Without a limit: more than a quarter of what comes, and some 180 frames beyond that, is too much to
 * lose. Many senders of long messages lose 30 to 50 % at one port; where hosts send to each other at
 * random, and lose up to 6 %, a limit costs up to a third of the throughput (doc/performance.md).
 */
#define LOST_MULTIPLIER 4u
#define LOST_BYTES 262144u

/** Two pieces of the shortest kind (routes/rawe_peer.c): with less, hosts idle at any rate. */
#define LEAST_BYTES 32768u

/** By a 256th for each limit's worth that comes: some 90 round trips from a loss to the next. */
#define GROWTH_DIVISOR 256u

/** Where twice as much as at the last loss passes, that loss says nothing any more. */
#define FAST_GROWTH_DIVISOR 16u

void rawe_inflow_init(struct rawe_inflow *inflow, uint64_t first_bytes)
{
    *inflow = (struct rawe_inflow){
        .limit_bytes = first_bytes != 0 ? first_bytes : RAWE_INFLOW_UNLIMITED,
        .known_bytes = first_bytes,
        .learns = first_bytes != RAWE_INFLOW_UNLIMITED,
    };
}

void rawe_inflow_arrived(struct rawe_inflow *inflow, uint64_t bytes)
{
    if (!rawe_inflow_is_limited(inflow)) {
        inflow->excess_bytes -= bytes < inflow->excess_bytes ? bytes : inflow->excess_bytes;
    } else if (inflow->limits) {
        const bool known = inflow->limit_bytes < 2 * inflow->known_bytes;
        const uint64_t divisor = known ? GROWTH_DIVISOR : FAST_GROWTH_DIVISOR;
        inflow->limit_bytes += (bytes + divisor - 1) / divisor;
        if (inflow->limit_bytes > RAWE_INFLOW_UNLIMITED) {
            inflow->limit_bytes = RAWE_INFLOW_UNLIMITED;
        }
    }
}

/** No limit yet: is what is lost more than a limit costs? */
static bool loses_much(struct rawe_inflow *inflow, uint64_t bytes)
{
    inflow->excess_bytes += bytes * LOST_MULTIPLIER;
    return inflow->excess_bytes >= LOST_BYTES * LOST_MULTIPLIER;
}

void rawe_inflow_lost(struct rawe_inflow *inflow, uint64_t bytes, uint64_t asked_ns,
                      uint64_t now_ns)
{
    if (!inflow->learns || asked_ns <= inflow->reduced_ns) {
        return;
    }
    if (rawe_inflow_is_limited(inflow)) {
        inflow->limit_bytes = inflow->limit_bytes * 7 / 10;
        if (inflow->limit_bytes < LEAST_BYTES) {
            inflow->limit_bytes = LEAST_BYTES;
        }
    } else if (loses_much(inflow, bytes)) {
        inflow->limit_bytes = FIRST_BYTES;
        inflow->excess_bytes = 0;
    } else {
        return;
    }
    inflow->reduced_ns = now_ns;
    inflow->known_bytes = inflow->limit_bytes;
}
