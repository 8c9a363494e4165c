/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Congestion control of a connection: how many frames the network can hold. The algorithm is a
 * table of functions (struct rawe_cc_type). This file has the common parts: a single reduction for
 * all losses in a round trip, the pace at which the network is refilled afterwards, persistent
 * congestion, unused windows, and the delivery rate.
 */
#ifndef RAWE_CC_H
#define RAWE_CC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "rawe_loss.h"

struct rawe_cc;

/**
 * An algorithm. It must change the window only through rawe_cc_set_window. The pace after losses
 * (rawe_cc_pace) applies to all algorithms.
 */
struct rawe_cc_type {
    const char *name; /**< the value of btl_rawe_congestion */
    /** Called on a new path: set the initial window, usually cc->first, and the state. */
    void (*started)(struct rawe_cc *cc);
    /** Called for each acknowledgement. cc->rate_mbps is up to date. */
    void (*acknowledged)(struct rawe_cc *cc, const struct rawe_ack *ack);
    /** Called when frames are lost for the first time in a round trip. */
    void (*lost)(struct rawe_cc *cc);
    /** Called on persistent congestion (RFC 9002 section 7.6): no arrivals for several timeouts. */
    void (*timed_out)(struct rawe_cc *cc);
    /** Less than half the window was used for `periods` times RAWE_CC_UNUSED_NS or an RTO. */
    void (*idle)(struct rawe_cc *cc, uint64_t periods);
};

/** State of CUBIC: see rawe_cubic.c. */
struct rawe_cubic {
    uint32_t threshold;      /**< slow start ends here */
    uint32_t acked_in_round; /**< frames acknowledged in this round trip, which is one window */
    uint32_t plateau;        /**< the window at the last reduction */
    uint32_t rounds;         /**< round trips since the last reduction */
};

struct rawe_cc {
    /* for every message */
    const struct rawe_cc_type *type;
    uint32_t window;       /**< frames that may be in flight */
    uint32_t first;        /**< initial window, used again after idleness */
    uint32_t refill;       /**< frames that may be in flight while refilling after losses */
    uint32_t rate_mbps;    /**< delivery rate, averaged over the latest measurements; 0: none yet */
    uint64_t lost_ns;      /**< first loss since a frame last arrived; 0: none */
    uint64_t rate_from_ns; /**< start of the rate measurement; 0: nothing is in flight */
    /* for others */
    uint64_t rate_bytes;  /**< acknowledged since the start of the rate measurement */
    uint64_t used_ns;     /**< when half the window was last in flight */
    uint64_t recovery_ns; /**< losses of frames sent until then belong to the last reduction */
    uint32_t least;       /**< smallest window... */
    uint32_t most;        /**< ... and largest: the connection's window */
    union {
        struct rawe_cubic cubic;
    } state;
};

extern const struct rawe_cc_type rawe_cc_cubic;

/** All algorithms, the default first; ends with NULL. */
extern const struct rawe_cc_type *const rawe_cc_types[];

/** Start on a new path. The window is at most `most` frames of `frame_bytes`; 0: short frames. */
void rawe_cc_start(struct rawe_cc *cc, const struct rawe_cc_type *type, uint32_t most,
                   uint32_t frame_bytes, uint64_t now_ns);

/** Ignore losses of frames sent so far: they used another path, and say nothing about this one. */
static inline void rawe_cc_excuse(struct rawe_cc *cc, uint64_t now_ns)
{
    cc->recovery_ns = now_ns;
}

/** Return how many frames may be in flight now. */
static inline uint32_t rawe_cc_limit(const struct rawe_cc *cc)
{
    return cc->refill < cc->window ? cc->refill : cc->window;
}

/** Set the window, within its bounds. */
static inline void rawe_cc_set_window(struct rawe_cc *cc, uint32_t frames)
{
    frames = frames < cc->most ? frames : cc->most;
    cc->window = frames > cc->least ? frames : cc->least;
}

/** Return true if half the window is in flight. */
static inline bool rawe_cc_is_used(const struct rawe_cc *cc, uint32_t in_flight)
{
    return 2 * in_flight >= cc->window;
}

/** Note that frames have been transmitted. */
static inline void rawe_cc_sent(struct rawe_cc *cc, uint32_t in_flight, uint64_t now_ns)
{
    if (rawe_cc_is_used(cc, in_flight)) {
        cc->used_ns = now_ns;
    }
}

/**
 * After this time, or a retransmission timeout if longer, an unused window reveals nothing about
 * the network. A receiver forgets its senders equally fast; see rawe_credit.c.
 */
#define RAWE_CC_UNUSED_NS 10000000ull

/** Slow path of rawe_cc_validate. */
__attribute__((cold)) void rawe_cc_forget(struct rawe_cc *cc, const struct rawe_rtt *rtt,
                                          uint64_t now_ns);

/** Before frames are transmitted, forget the window if it was unused for too long. */
static inline void rawe_cc_validate(struct rawe_cc *cc, const struct rawe_rtt *rtt,
                                    uint32_t in_flight, uint64_t now_ns)
{
    if (cc->window > cc->first && !rawe_cc_is_used(cc, in_flight) &&
        now_ns >= cc->used_ns + RAWE_CC_UNUSED_NS) {
        rawe_cc_forget(cc, rtt, now_ns);
    }
}

/** Start with a single frame: the peer must first report how many may follow. */
static inline void rawe_cc_announce(struct rawe_cc *cc, uint64_t now_ns)
{
    cc->refill = 1;
    cc->used_ns = now_ns;
}

/** Return true if little of the window was in flight for RAWE_CC_UNUSED_NS. */
static inline bool rawe_cc_paused(const struct rawe_cc *cc, uint64_t now_ns)
{
    return now_ns >= cc->used_ns + RAWE_CC_UNUSED_NS;
}

/** Slow path of rawe_cc_acknowledged. */
void rawe_cc_measure_rate(struct rawe_cc *cc, const struct rawe_ack *ack);

/** Process an acknowledgement. Losses that it reveals are reported afterwards. */
static inline void rawe_cc_acknowledged(struct rawe_cc *cc, const struct rawe_ack *ack)
{
    if (ack->arrived != 0 && (ack->in_flight != 0 || cc->rate_from_ns != 0)) {
        rawe_cc_measure_rate(cc, ack);
    }
    if (ack->arrived != 0) {
        cc->lost_ns = 0;
    }
    cc->type->acknowledged(cc, ack);
}

/** The meaning of a frame's loss. */
enum rawe_cc_loss {
    RAWE_CC_KNOWN,      /**< part of the last congestion event */
    RAWE_CC_CONGESTION, /**< a new congestion event: the window was reduced */
    RAWE_CC_PERSISTENT, /**< persistent congestion: the window is now the smallest */
};

/**
 * Report the loss of a frame last sent at `sent_ns`; `again`: it was a retransmission. The loss of
 * a frame sent after the last congestion event is a new event, even of a retransmission (RFC 9002
 * section 7.3.2, RFC 5681 section 4.3).
 */
enum rawe_cc_loss rawe_cc_lost(struct rawe_cc *cc, uint64_t sent_ns, bool again,
                               const struct rawe_rtt *rtt, uint64_t now_ns);

/** Slow path of rawe_cc_pace. */
void rawe_cc_refill(struct rawe_cc *cc, uint32_t in_flight, uint32_t arrived_frames);

/**
 * Pace the sender after losses were reported, or after a later acknowledgement of `arrived_frames`;
 * `in_flight` frames remain. Until the window is full again, it is filled as in slow start, not at
 * once (RFC 6937: PRR with slow start reduction bound).
 */
static inline void rawe_cc_pace(struct rawe_cc *cc, uint32_t in_flight, uint32_t arrived_frames)
{
    if (__builtin_expect(cc->refill != UINT32_MAX, 0)) {
        rawe_cc_refill(cc, in_flight, arrived_frames);
    }
}

/** Maximum recorded delivery rate. */
#define RAWE_CC_RATE_MOST_MBPS (1u << 20)

#endif
