/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Congestion control of a connection: how many frames the network may hold. The algorithm is a
 * table of functions (struct rawe_cc_type). What all algorithms have in common is here: one
 * reduction for the losses of a round trip, the pace at which the network is filled again afterwards,
 * persistent congestion, a window that was not used, and the delivery rate.
 */
#ifndef RAWE_CC_H
#define RAWE_CC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "rawe_loss.h"

struct rawe_cc;

/** An algorithm. It changes the window by rawe_cc_set_window alone. */
struct rawe_cc_type {
    const char *name; /**< as btl_rawe_congestion has it */
    /** The path is new: set the first window, which is cc->first, and the algorithm's state. */
    void (*started)(struct rawe_cc *cc);
    /** An acknowledgement came. The delivery rate is in cc->rate_mbps. */
    void (*acknowledged)(struct rawe_cc *cc, const struct rawe_ack *ack);
    /** Frames were lost, for the first time in this round trip. */
    void (*lost)(struct rawe_cc *cc);
    /** Persistent congestion (RFC 9002 section 7.6): nothing has arrived for several timeouts. */
    void (*timed_out)(struct rawe_cc *cc);
    /** Less than half of the window was used, for `periods` times RAWE_CC_UNUSED_NS or an RTO. */
    void (*idle)(struct rawe_cc *cc, uint64_t periods);
};

/** State of CUBIC: see rawe_cubic.c. */
struct rawe_cubic {
    uint32_t threshold;      /**< slow start ends here */
    uint32_t acked_in_round; /**< frames acknowledged in this round trip, a window's worth */
    uint32_t plateau;        /**< the window at the last reduction */
    uint32_t rounds;         /**< round trips since */
};

/** No delay is known. */
#define RAWE_CC_UNKNOWN_NS UINT32_MAX

/** State of rawe_delay.c, which uses CUBIC's, too. */
struct rawe_delay {
    struct rawe_cubic cubic; /**< first: CUBIC's functions find it as cc->state.cubic */
    uint32_t draining;       /**< frames to be acknowledged that left before the window shrank */
    uint32_t round_left;     /**< frames to be acknowledged until the round trip is over */
    uint32_t round_ns;       /**< shortest delay in it */
    uint32_t queue_most_ns;  /**< for how long queues may last in it */
    uint32_t shortest_ns;    /**< shortest delay of this period... */
    uint32_t before_ns;      /**< ... and of the one before */
    uint64_t period_end_ns;  /**< when the next period begins */
};

struct rawe_cc {
    const struct rawe_cc_type *type;
    uint32_t window;       /**< frames that may be in flight */
    uint32_t least;        /**< the window is never smaller... */
    uint32_t most;         /**< ... nor larger: the connection's window */
    uint32_t first;        /**< to start with, and again after idleness */
    uint32_t link_mbps;    /**< rate of our interface's link; 0: not known */
    uint32_t ahead_ns;     /**< least time that our link was busy in advance; see rawe_cc_queued */
    uint32_t rate_mbps;    /**< delivery rate, a mean of the latest measurements; 0: none yet */
    uint32_t refill;       /**< frames that may be in flight for now, after losses */
    uint64_t used_ns;      /**< when half of the window was last in flight */
    uint64_t recovery_ns;  /**< losses of frames sent until then belong to the last reduction */
    uint64_t lost_ns;      /**< of the first loss since something arrived; 0: none */
    uint64_t rate_from_ns; /**< begin of a measurement of the rate; 0: nothing is in flight */
    uint64_t rate_bytes;   /**< acknowledged since */
    union {
        struct rawe_cubic cubic;
        struct rawe_delay delay;
    } state;
};

extern const struct rawe_cc_type rawe_cc_cubic, rawe_cc_delay;

/** The window is about right: go on from here as CUBIC does near its plateau. */
void rawe_cubic_resume(struct rawe_cc *cc);

/** All algorithms, the default first, up to NULL. */
extern const struct rawe_cc_type *const rawe_cc_types[];

/**
 * Begin on a new path, with a window of `most` frames and frames of `frame_bytes`; 0: they are short.
 * `link_mbps` is the rate of our link; 0: not known.
 */
void rawe_cc_start(struct rawe_cc *cc, const struct rawe_cc_type *type, uint32_t most,
                   uint32_t frame_bytes, uint32_t link_mbps, uint64_t now_ns);

/** Go on after a pause with a rate measured before, after rawe_cc_start. */
static inline void rawe_cc_resume(struct rawe_cc *cc, uint32_t rate_mbps)
{
    cc->rate_mbps = rate_mbps;
    cc->used_ns = 0;
}

/** Losses of frames sent until now, by another path, are no congestion of this one. */
static inline void rawe_cc_excuse(struct rawe_cc *cc, uint64_t now_ns)
{
    cc->recovery_ns = now_ns;
}

/** Frames that may be in flight now. */
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

/** Is half of the window in flight? */
static inline bool rawe_cc_is_used(const struct rawe_cc *cc, uint32_t in_flight)
{
    return 2 * in_flight >= cc->window;
}

/** A batch leaves when our link, by its rate, is free: after `ahead_ns`. */
static inline void rawe_cc_queued(struct rawe_cc *cc, uint32_t ahead_ns)
{
    cc->ahead_ns = ahead_ns < cc->ahead_ns ? ahead_ns : cc->ahead_ns;
}

/** The least of that since it was asked for last. */
static inline uint32_t rawe_cc_take_queued(struct rawe_cc *cc)
{
    uint32_t ahead_ns = cc->ahead_ns;
    cc->ahead_ns = RAWE_CC_UNKNOWN_NS;
    return ahead_ns;
}

/** Frames have been transmitted. */
static inline void rawe_cc_sent(struct rawe_cc *cc, uint32_t in_flight, uint64_t now_ns)
{
    if (rawe_cc_is_used(cc, in_flight)) {
        cc->used_ns = now_ns;
    }
}

/**
 * A window that was not used says nothing of the network after that time (or a retransmission
 * timeout, where that is longer). A receiver forgets its senders as fast: see rawe_credit.c.
 */
#define RAWE_CC_UNUSED_NS 10000000ull

/** The slow path of the next function. */
void rawe_cc_forget(struct rawe_cc *cc, const struct rawe_rtt *rtt, uint64_t now_ns);

/** Frames are about to be transmitted, perhaps after a pause: forget a window not used. */
static inline void rawe_cc_validate(struct rawe_cc *cc, const struct rawe_rtt *rtt,
                                    uint32_t in_flight, uint64_t now_ns)
{
    if (cc->window > cc->first && !rawe_cc_is_used(cc, in_flight) &&
        now_ns >= cc->used_ns + RAWE_CC_UNUSED_NS) {
        rawe_cc_forget(cc, rtt, now_ns);
    }
}

/** Begin with one frame, as the peer is to say first how many may follow. */
static inline void rawe_cc_announce(struct rawe_cc *cc, uint64_t now_ns)
{
    cc->refill = 1;
    cc->used_ns = now_ns;
}

/** Was little of the window in flight for that time? */
static inline bool rawe_cc_paused(const struct rawe_cc *cc, uint64_t now_ns)
{
    return now_ns >= cc->used_ns + RAWE_CC_UNUSED_NS;
}

/** The slow path of the next function. */
void rawe_cc_measure_rate(struct rawe_cc *cc, const struct rawe_ack *ack);

/** An acknowledgement came. Losses that follow from it are reported afterwards. */
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

/** What the loss of a frame means. */
enum rawe_cc_loss {
    RAWE_CC_KNOWN,      /**< it belongs to the last congestion event */
    RAWE_CC_CONGESTION, /**< a congestion event: the window was reduced */
    RAWE_CC_PERSISTENT, /**< persistent congestion: the least window */
};

/**
 * A frame was found lost that was last sent at `sent_ns`, `again`: not for the first time. What
 * was sent since the last congestion event makes another one, retransmissions included (RFC 9002
 * section 7.3.2, RFC 5681 section 4.3).
 */
enum rawe_cc_loss rawe_cc_lost(struct rawe_cc *cc, uint64_t sent_ns, bool again,
                               const struct rawe_rtt *rtt, uint64_t now_ns);

/** The slow path of the next function. */
void rawe_cc_refill(struct rawe_cc *cc, uint32_t in_flight, uint32_t arrived_frames);

/**
 * Losses were reported, or an acknowledgement of `arrived_frames` after some came: what is left in
 * flight is `in_flight`. Until the window is full again, it is filled as in slow start, not at once
 * (RFC 6937: PRR with slow start reduction bound).
 */
static inline void rawe_cc_pace(struct rawe_cc *cc, uint32_t in_flight, uint32_t arrived_frames)
{
    if (__builtin_expect(cc->refill != UINT32_MAX, 0)) {
        rawe_cc_refill(cc, in_flight, arrived_frames);
    }
}

/** Largest delivery rate that is told apart. */
#define RAWE_CC_RATE_MOST_MBPS (1u << 20)

#endif
