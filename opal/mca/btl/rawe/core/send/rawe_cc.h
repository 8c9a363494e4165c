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

#include "rawe_rtt.h"

#define RAWE_CC_LEAST_FRAMES 4u

/** Round trips from a reduction back to the window before it. */
#define RAWE_CC_ROUNDS_BACK 5

struct rawe_cc {
    uint32_t window;           /**< frames that may be in flight */
    uint32_t threshold;        /**< slow start ends here */
    uint32_t first;            /**< to start with, and again after idleness */
    uint32_t most;             /**< the connection's window */
    uint32_t acked_in_round;   /**< frames acknowledged in this round trip, a window's worth */
    uint32_t plateau;          /**< the window at the last reduction */
    uint32_t rounds;           /**< round trips since */
    uint32_t recover_sequence; /**< losses of frames before this one belong to the last reduction */
    uint64_t used_ns;          /**< when half of the window was last in flight */
    bool reduced;              /**< recover_sequence is valid */
};

void rawe_cc_init(struct rawe_cc *cc, uint32_t first, uint32_t most);

/** The slow path of the next function. */
void rawe_cc_grow(struct rawe_cc *cc, uint32_t frames);

/** `frames` were acknowledged while the window was (`limited`) what held the sender back. */
static inline void rawe_cc_acked(struct rawe_cc *cc, uint32_t frames, bool limited)
{
    if (limited && cc->window < cc->most) {
        rawe_cc_grow(cc, frames);
    }
}

/**
 * The window has not been made use of for `periods` times the time after which it is not known to
 * be right any more: halve it each time, down to the first one (RFC 7661, RFC 2861).
 */
void rawe_cc_unused(struct rawe_cc *cc, uint64_t periods);

/** Is half of the window in flight? */
static inline bool rawe_cc_is_used(const struct rawe_cc *cc, uint32_t in_flight)
{
    return 2 * in_flight >= cc->window;
}

/** Frames have been transmitted. */
static inline void rawe_cc_transmitted(struct rawe_cc *cc, uint32_t in_flight, uint64_t now_ns)
{
    if (rawe_cc_is_used(cc, in_flight)) {
        cc->used_ns = now_ns;
    }
}

/**
 * A window that is not made use of says nothing of the network after that time (or a retransmission
 * timeout, where that is longer). A receiver forgets its senders as fast: see rawe_credit.c.
 */
#define RAWE_CC_UNUSED_NS 10000000ull

/** The slow path of the next function. */
void rawe_cc_forget(struct rawe_cc *cc, const struct rawe_rtt *rtt, uint64_t now_ns);

/** Frames are about to be transmitted, perhaps after a pause: forget a window not made use of. */
static inline void rawe_cc_validate(struct rawe_cc *cc, const struct rawe_rtt *rtt,
                                    uint32_t in_flight, uint64_t now_ns)
{
    if (cc->window > cc->first && !rawe_cc_is_used(cc, in_flight) &&
        now_ns >= cc->used_ns + RAWE_CC_UNUSED_NS) {
        rawe_cc_forget(cc, rtt, now_ns);
    }
}

/**
 * Frame `sequence` was found lost; `next` is the next sequence number to be sent. Returns true when
 * the window was reduced, false when this loss belongs to the last reduction.
 */
bool rawe_cc_lost(struct rawe_cc *cc, uint32_t sequence, uint32_t next);

#endif
