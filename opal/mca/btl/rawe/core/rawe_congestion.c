/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Congestion window: see rawe_congestion.h.
 */
#include "rawe_congestion.h"

#include "rawe_acktr.h"

void rawe_congestion_init(struct rawe_congestion *congestion, uint32_t first, uint32_t most)
{
    congestion->window = first < most ? first : most;
    congestion->threshold = most;
    congestion->most = most;
    congestion->credit = 0;
    congestion->recover_sequence = 0;
    congestion->reduced = false;
}

void rawe_congestion_acked(struct rawe_congestion *congestion, uint32_t frames, bool limited)
{
    if (!limited || congestion->window >= congestion->most) {
        return;
    }
    if (congestion->window < congestion->threshold) {
        congestion->window += frames;
    } else {
        congestion->credit += frames;
        if (congestion->credit >= congestion->window) {
            congestion->credit -= congestion->window;
            congestion->window++;
        }
    }
    if (congestion->window > congestion->most) {
        congestion->window = congestion->most;
    }
}

bool rawe_congestion_lost(struct rawe_congestion *congestion, uint32_t sequence, uint32_t next)
{
    /* Counted backwards: a reduction of 2^31 frames ago must not look like one to come. */
    if (congestion->reduced &&
        congestion->recover_sequence - 1 - sequence < RAWE_WINDOW_FRAMES_MAX) {
        return false;
    }
    congestion->recover_sequence = next;
    congestion->reduced = true;
    congestion->window = congestion->window * 7 / 10;
    if (congestion->window < RAWE_CONGESTION_LEAST_FRAMES) {
        congestion->window = RAWE_CONGESTION_LEAST_FRAMES;
    }
    congestion->threshold = congestion->window;
    congestion->credit = 0;
    return true;
}
