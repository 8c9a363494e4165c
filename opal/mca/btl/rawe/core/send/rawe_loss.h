/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Telling late frames from lost ones: the round-trip time of a connection, and its reordering
 * window, which is how late a frame may be after newer ones before it counts as lost.
 */
#ifndef RAWE_LOSS_H
#define RAWE_LOSS_H

#include <stdbool.h>
#include <stdint.h>

/** Round-trip time estimate with the gains of RFC 6298, section 2. */
struct rawe_rtt {
    uint64_t smoothed_ns;  /**< 0: no sample yet */
    uint64_t variation_ns; /**< mean deviation */
    uint64_t minimum_ns;   /**< shortest sample or probe round trip; UINT64_MAX: none */
};

void rawe_rtt_init(struct rawe_rtt *rtt);

/**
 * Expect the handshake's round trip until the first sample, so that losses among the first frames
 * are noticed soon. It may include an earlier CONNECT, so it does not count as a minimum.
 */
static inline void rawe_rtt_expect(struct rawe_rtt *rtt, uint64_t rtt_ns)
{
    if (rtt->smoothed_ns == 0) {
        rtt->smoothed_ns = rtt_ns;
        rtt->variation_ns = rtt_ns / 2; /* as with a first sample: RFC 6298 section 2.2 */
    }
}

/** Add a sample: the time from sending a frame, sent only once, to its acknowledgement. */
void rawe_rtt_sample(struct rawe_rtt *rtt, uint64_t sample_ns);

/** Note that a probe was answered after `took_ns`: the shortest round trip is at most that. */
static inline void rawe_rtt_probed(struct rawe_rtt *rtt, uint64_t took_ns)
{
    took_ns = took_ns != 0 ? took_ns : 1;
    rtt->minimum_ns = took_ns < rtt->minimum_ns ? took_ns : rtt->minimum_ns;
}

/** An acknowledgement. The send window fills in the results, which congestion control uses. */
struct rawe_ack {
    uint64_t now_ns;
    /** The peer reported everything it has: an arrival is evidence that missing frames are lost. */
    bool evidence;
    bool limited;            /**< the window limited the sender */
    uint64_t minimum_rtt_ns; /**< a faster answer belongs to an earlier transmission */
    uint32_t frame_bytes;    /**< payload of a full frame */
    /* results */
    uint32_t arrived;   /**< frames newly known to have arrived; 0: only a probe was answered */
    uint32_t in_flight; /**< frames still in flight */
    uint64_t rtt_ns;    /**< round trip of the newest frame acknowledged in order; 0: none */
};

/** Return the time after which an acknowledgement is overdue; without a sample, `most_ns`. */
uint64_t rawe_rtt_overdue(const struct rawe_rtt *rtt, uint64_t least_ns, uint64_t most_ns);

/**
 * The reordering window adapts like RACK's (RFC 8985 section 6.2 step 4). It widens when resent
 * frames turn out to have already arrived, and narrows after losses without such duplicates.
 */
struct rawe_reorder {
    uint32_t steps;     /**< width, in steps; 1: as configured */
    uint32_t persist;   /**< recoveries without duplicates until the window narrows */
    uint32_t round_end; /**< duplicates count once until this frame is acknowledged */
    bool in_round;      /**< round_end is valid */
    bool resent;        /**< frames were resent since the last reported duplicate */
};

void rawe_reorder_init(struct rawe_reorder *reorder);

/** Note that a frame was resent. */
static inline void rawe_reorder_resent(struct rawe_reorder *reorder)
{
    reorder->resent = true;
}

/** The peer dropped a duplicate. Ignore it if nothing was resent: the network duplicated it. */
void rawe_reorder_duplicate(struct rawe_reorder *reorder, uint32_t una, uint32_t next);

/** Note the first loss of frames in this round trip. */
void rawe_reorder_recovery(struct rawe_reorder *reorder);

/** Return the width in ns, at least the configured `least_ns`. */
uint64_t rawe_reorder_window_ns(const struct rawe_reorder *reorder, uint64_t least_ns,
                                const struct rawe_rtt *rtt);

#endif
