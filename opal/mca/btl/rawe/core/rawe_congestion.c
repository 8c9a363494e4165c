/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Congestion window: see rawe_congestion.h.
 */
#include "rawe_congestion.h"

#include "rawe_acktr.h"

/** The window so many round trips after a reduction: 0.7 of the plateau at first. */
static int64_t cubic(uint32_t plateau, uint32_t rounds)
{
    const int64_t back = RAWE_CONGESTION_ROUNDS_BACK;
    int64_t away = (int64_t)rounds - back;
    return plateau + (int64_t)plateau * 3 * away * away * away / (10 * back * back * back);
}

void rawe_congestion_init(struct rawe_congestion *congestion, uint32_t first, uint32_t most)
{
    congestion->window = first < most ? first : most;
    congestion->threshold = most;
    congestion->most = most;
    congestion->credit = 0;
    congestion->plateau = 0;
    congestion->rounds = 0;
    congestion->recover_sequence = 0;
    congestion->reduced = false;
}

/** A round trip more since the last reduction. */
static void grow(struct rawe_congestion *congestion)
{
    congestion->rounds++;
    int64_t target = cubic(congestion->plateau, congestion->rounds);
    if (target > congestion->most) {
        target = congestion->most;
    }
    uint32_t half_more = congestion->window + congestion->window / 2;
    congestion->window++;
    if (target > congestion->window) {
        congestion->window = target < half_more ? (uint32_t)target : half_more;
    }
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
            grow(congestion);
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
    congestion->plateau = congestion->window;
    congestion->window = congestion->window * 7 / 10;
    if (congestion->window < RAWE_CONGESTION_LEAST_FRAMES) {
        congestion->window = RAWE_CONGESTION_LEAST_FRAMES;
    }
    congestion->threshold = congestion->window;
    congestion->credit = 0;
    congestion->rounds = 0;
    return true;
}
