/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Congestion window of a connection, in frames: slow start, a reduction by 0.7 at most once a round
 * trip when frames were lost, and a cubic way back (RFC 9438): fast to near the window at which
 * frames were lost, slow around it, fast beyond. CUBIC's time is counted in round trips here, not
 * in seconds: they take microseconds; and the way back takes RAWE_CC_ROUNDS_BACK of them
 * whatever the window. Frames lost at random, as on a bad cable, then leave the window nearly full,
 * where additive increase would need a hundred round trips for each loss.
 */
#ifndef RAWE_CC_H
#define RAWE_CC_H

#include <stdbool.h>
#include <stdint.h>

#define RAWE_CC_LEAST_FRAMES 4u

/** Round trips from a reduction back to the window before it. */
#define RAWE_CC_ROUNDS_BACK 5

struct rawe_cc {
    uint32_t window;           /**< frames that may be in flight */
    uint32_t threshold;        /**< slow start ends here */
    uint32_t most;             /**< the connection's window */
    uint32_t acked_in_round;   /**< frames acknowledged in this round trip, a window's worth */
    uint32_t plateau;          /**< the window at the last reduction */
    uint32_t rounds;           /**< round trips since */
    uint32_t recover_sequence; /**< losses of frames before this one belong to the last reduction */
    bool reduced;              /**< recover_sequence is valid */
};

void rawe_cc_init(struct rawe_cc *cc, uint32_t first, uint32_t most);

/** `frames` were acknowledged while the window was (`limited`) what held the sender back. */
void rawe_cc_acked(struct rawe_cc *cc, uint32_t frames, bool limited);

/**
 * Frame `sequence` was found lost; `next` is the next sequence number to be sent. Returns true when
 * the window was reduced, false when this loss belongs to the last reduction.
 */
bool rawe_cc_lost(struct rawe_cc *cc, uint32_t sequence, uint32_t next);

#endif
