/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Send window: which frames of a connection are on their way, which of them the peer has, which are
 * lost, and which is to be transmitted next. It owns the order and the states of the frames; their
 * memory belongs to the pool that the caller takes them from and gives them back to.
 *
 *      una              transmit_from    next       una + frames
 *   ....|SACKED SENT LOST SENT ....WAITING|............|
 *  acked                                   not used yet
 *
 * Loss is found as in RACK (RFC 8985 section 6): a frame is lost when one that was sent later has
 * arrived, and the reordering window has passed since. Time alone is no evidence.
 */
#ifndef RAWE_SENDWIN_H
#define RAWE_SENDWIN_H

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "rawe_txframe.h"

struct rawe_sendwin {
    struct rawe_txframe **slots;  /**< `mask` + 1 of them, by sequence; NULL until allocated */
    uint32_t mask;                /**< frames in the window, a power of two, less one */
    uint32_t una;                 /**< oldest sequence number not acknowledged */
    uint32_t next;                /**< next sequence number */
    uint32_t in_flight;           /**< frames SENT */
    uint32_t to_transmit;         /**< frames WAITING or LOST */
    uint32_t transmit_from;       /**< no WAITING or LOST frame is before this one */
    uint32_t sacked;              /**< frames SACKED */
    uint32_t newest_delivered;    /**< sequence number of the newest frame known to have arrived */
    uint64_t newest_delivered_ns; /**< when that frame was sent */
    uint64_t evidence_ns;         /**< when we learned of it */
    bool evidence_is_probe;       /**< it was not a frame but a tail-loss probe */
};

/** `frames` is a power of two. Nothing is allocated yet. */
void rawe_sendwin_init(struct rawe_sendwin *window, uint32_t frames, uint32_t first_sequence);

/** Begin anew at `first_sequence`. The window must be empty; its memory stays. */
void rawe_sendwin_reset(struct rawe_sendwin *window, uint32_t first_sequence);

/** Allocate the slots unless they are there. False without memory. */
bool rawe_sendwin_allocate(struct rawe_sendwin *window);

/** Free the slots. The window must be empty. */
void rawe_sendwin_free(struct rawe_sendwin *window);

/** The frame with a sequence number from una up to, not including, next. */
static inline struct rawe_txframe *rawe_sendwin_at(const struct rawe_sendwin *window,
                                                   uint32_t sequence)
{
    return window->slots[sequence & window->mask];
}

/** Everything that entered has been acknowledged. */
static inline bool rawe_sendwin_empty(const struct rawe_sendwin *window)
{
    return window->una == window->next;
}

/** Sequence numbers in use. */
static inline uint32_t rawe_sendwin_used(const struct rawe_sendwin *window)
{
    return window->next - window->una;
}

/** Give a frame the next sequence number; it is WAITING until rawe_sendwin_sent. */
static inline void rawe_sendwin_enter(struct rawe_sendwin *window, struct rawe_txframe *frame)
{
    assert(rawe_sendwin_used(window) <= window->mask);
    if (window->to_transmit == 0) {
        window->transmit_from = window->next;
    }
    frame->sequence = window->next++;
    frame->state = RAWE_TXFRAME_WAITING;
    window->slots[frame->sequence & window->mask] = frame;
    window->to_transmit++;
}

/** The link has taken a WAITING or LOST frame at `sent_ns`. */
static inline void rawe_sendwin_sent(struct rawe_sendwin *window, struct rawe_txframe *frame,
                                     uint64_t sent_ns)
{
    if (frame->sendings < UINT8_MAX) {
        frame->sendings++;
    }
    frame->sent_ns = sent_ns;
    frame->state = RAWE_TXFRAME_SENT;
    window->to_transmit--;
    window->in_flight++;
}

/** The oldest frame from transmit_from on that has to be transmitted; NULL: none. */
struct rawe_txframe *rawe_sendwin_next(struct rawe_sendwin *window);

/** The frames from `sequence` on, handed out by rawe_sendwin_next, were not taken after all. */
static inline void rawe_sendwin_rewind(struct rawe_sendwin *window, uint32_t sequence)
{
    window->transmit_from = sequence;
}

/** Remove the oldest frame, whatever its state, and return it. The window must not be empty. */
static inline struct rawe_txframe *rawe_sendwin_remove(struct rawe_sendwin *window)
{
    struct rawe_txframe **slot = &window->slots[window->una & window->mask];
    struct rawe_txframe *frame = *slot;
    *slot = NULL;
    window->una++;
    switch (frame->state) {
    case RAWE_TXFRAME_SENT:
        window->in_flight--;
        break;
    case RAWE_TXFRAME_SACKED:
        window->sacked--;
        break;
    default:
        window->to_transmit--;
        break;
    }
    return frame;
}

/** What an acknowledgement says, for rawe_sendwin_acknowledge and rawe_sendwin_sack. */
struct rawe_sendwin_ack {
    /**
     * The peer has said at the same time what else it has: then what has arrived is evidence
     * against what was sent before and is missing.
     */
    bool evidence;
    uint64_t minimum_rtt_ns; /**< what comes back sooner than that answers an earlier sending */
    uint64_t now_ns;
    /* results */
    uint32_t arrived; /**< frames newly known to have arrived, counted on */
    uint64_t rtt_ns;  /**< round trip of the newest frame acknowledged in order; 0: none */
};

/**
 * The oldest frame is acknowledged: remove and return it, and note in `ack` what follows. Sent more
 * than once, it gives no round trip (Karn's rule).
 */
struct rawe_txframe *rawe_sendwin_acknowledge(struct rawe_sendwin *window,
                                              struct rawe_sendwin_ack *ack);

/**
 * Mark the frames of a SACK bitmap (rawe_wire.h) behind `acknowledgement`, which must not be before
 * una (nor behind next), as SACKED. It stops at
 * the first bit for a frame that was never sent. Untrusted.
 */
void rawe_sendwin_sack(struct rawe_sendwin *window, uint32_t acknowledgement, const uint8_t *bitmap,
                       size_t bitmap_bytes, struct rawe_sendwin_ack *ack);

/** A tail-loss probe sent at `sent_ns`, behind all that was in flight then, was answered. */
void rawe_sendwin_probe_answered(struct rawe_sendwin *window, uint64_t sent_ns, uint64_t now_ns);

/** Called for each frame that is found lost, after its state has changed. */
typedef void rawe_sendwin_lost_fn(void *context, const struct rawe_txframe *frame);

/**
 * Find frames lost by the evidence there is. Returns true when some are undecided because the
 * reordering window has not passed yet: call again `reorder_ns` later.
 */
bool rawe_sendwin_detect_losses(struct rawe_sendwin *window, uint64_t reorder_ns, uint64_t now_ns,
                                rawe_sendwin_lost_fn *lost, void *context);

#endif
