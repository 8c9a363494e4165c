/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * What tells late frames from lost ones: the round-trip time of a connection, and its reordering
 * window, which is how long a frame may be overtaken before it counts as lost.
 */
#ifndef RAWE_LOSS_H
#define RAWE_LOSS_H

#include <stdbool.h>
#include <stdint.h>

/** Round-trip time estimate, RFC 6298 section 2 with the gains given there. */
struct rawe_rtt {
    uint64_t smoothed_ns;  /**< 0: no sample yet */
    uint64_t variation_ns; /**< mean deviation */
    uint64_t minimum_ns;   /**< smallest sample, or time of a probe; UINT64_MAX: none */
};

void rawe_rtt_init(struct rawe_rtt *rtt);

/**
 * Expect that round trip until the first sample: the one of the handshake, so that what is lost of the
 * first frames is soon asked for. It may be that of an earlier question, and is no minimum.
 */
static inline void rawe_rtt_expect(struct rawe_rtt *rtt, uint64_t rtt_ns)
{
    if (rtt->smoothed_ns == 0) {
        rtt->smoothed_ns = rtt_ns;
        rtt->variation_ns = rtt_ns / 2; /* as with a first sample: RFC 6298 section 2.2 */
    }
}

/** Take a sample: time from sending a frame that was sent once to its acknowledgement. */
void rawe_rtt_sample(struct rawe_rtt *rtt, uint64_t sample_ns);

/** A probe was answered after that time: the shortest round trip is no longer. */
static inline void rawe_rtt_probed(struct rawe_rtt *rtt, uint64_t took_ns)
{
    took_ns = took_ns != 0 ? took_ns : 1;
    rtt->minimum_ns = took_ns < rtt->minimum_ns ? took_ns : rtt->minimum_ns;
}

/** An acknowledgement. The send window says what it has brought, and congestion control uses it. */
struct rawe_ack {
    uint64_t now_ns;
    /** The peer told all that it has: what has arrived is evidence against what is missing. */
    bool evidence;
    bool limited;            /**< the window was what held the sender back */
    uint64_t minimum_rtt_ns; /**< what comes back sooner than that answers an earlier sending */
    uint32_t frame_bytes;    /**< payload of a full frame */
    /* what it has brought */
    uint32_t arrived;   /**< frames newly known to have arrived; 0: only a probe was answered */
    uint32_t in_flight; /**< frames still in flight */
    uint64_t rtt_ns;    /**< round trip of the newest frame acknowledged in order; 0: none */
    uint32_t ahead_ns;  /**< of that, until our link was free for its batch... */
    uint32_t ahead;     /**< ... and frames of the batch ahead of it */
    uint32_t path_ns;   /**< what the network took of it; 0: not known */
};

/** Silence after which an acknowledgement is overdue, within bounds; `most_ns`: no sample. */
uint64_t rawe_rtt_overdue(const struct rawe_rtt *rtt, uint64_t least_ns, uint64_t most_ns);

/**
 * The reordering window adapts as RACK's does (RFC 8985 section 6.2 step 4): frames that were sent
 * again and had arrived all the same make it wider, losses without such duplicates narrow again.
 */
struct rawe_reorder {
    uint32_t steps;     /**< width, in steps; 1: as configured */
    uint32_t persist;   /**< recoveries without duplicates until it is narrow again */
    uint32_t round_end; /**< duplicates before this frame is acknowledged count once */
    bool in_round;      /**< round_end is valid */
    bool resent;        /**< frames were sent again since the last reported duplicate */
};

void rawe_reorder_init(struct rawe_reorder *reorder);

/** A frame was sent again. */
static inline void rawe_reorder_resent(struct rawe_reorder *reorder)
{
    reorder->resent = true;
}

/** The peer dropped a duplicate. With nothing resent, the network made it: no sign. */
void rawe_reorder_duplicate(struct rawe_reorder *reorder, uint32_t una, uint32_t next);

/** Frames were lost, for the first time in this round trip. */
void rawe_reorder_recovery(struct rawe_reorder *reorder);

/** Width, when `least_ns` is configured. */
uint64_t rawe_reorder_window_ns(const struct rawe_reorder *reorder, uint64_t least_ns,
                                const struct rawe_rtt *rtt);

#endif
