/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Send window: which frames of a connection are in flight, which the peer has received, which are
 * lost, and which to transmit next. It manages the order and the states of the frames. Their memory
 * belongs to a pool, from which the caller takes them and to which it returns them.
 *
 *      una              transmit_from    next       una + frames
 *   ....|SACKED SENT LOST SENT ....WAITING|............|
 *  acked                                   not used yet
 *
 * The frames are linked in sequence order, so an empty window uses no memory. A batch uses several
 * numbers but is always one entry, with one bit for the state of each frame. While nothing is lost,
 * a batch costs no more than a single frame.
 *
 * Losses are detected as in RACK (RFC 8985 section 6): a frame is lost when one sent later has
 * arrived and the reordering window has passed since. Time alone is no evidence.
 */
#ifndef RAWE_SENDWIN_H
#define RAWE_SENDWIN_H

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/rawe_output.h"
#include "base/rawe_wire.h"
#include "rawe_loss.h"

struct rawe_send;

/*
 * Frames are kept until they are acknowledged. Small buffers hold short messages, or only headers
 * (as for all batches); large ones hold copied data.
 */

/** The earliest and latest transmission of segments that have not arrived. */
struct rawe_txframe_times {
    uint64_t oldest_ns, newest_ns;
};

/**
 * A frame, or a batch: `segments` frames with consecutive numbers, each with
 * `segment_bytes` of the data (the last one may have less). Bit masks hold the state of each frame,
 * bit 0 for the first. Fields for short messages come first, to use fewer cache lines.
 */
struct rawe_txframe {
    struct rawe_txframe *next;     /**< in the window, the next frame; else in the free list */
    struct rawe_txframe *previous; /**< in the window; invalid in the oldest frame */
    struct rawe_send *send; /**< the send that it refers to; NULL: all bytes are in `buffer` */
    uint64_t number;        /**< number of its first message (rawe_order.h); 0: none */
    uint64_t to_send;       /**< segments not sent yet, or lost */
    uint64_t arrived;       /**< received by the peer */
    uint64_t sent;          /**< sent at least once */
    uint64_t resent;        /**< sent more than once */
    struct rawe_txframe_times first; /**< segments sent once */
    uint8_t *buffer;        /**< Ethernet header, frame header, fragment header, copied data */
    uint32_t sequence;      /**< of the first segment */
    uint32_t buffer_bytes;  /**< bytes used in `buffer`, from the Ethernet header on */
    uint32_t payload_bytes; /**< bytes of fragments, in `buffer` and `external` */
    uint32_t external_count;
    uint16_t segment_bytes;          /**< 0: not a batch */
    uint8_t segments;                /**< how many sequence numbers it uses */
    uint8_t sendings;                /**< transmissions of any part, saturating */
    uint8_t flags;                   /**< RAWE_FLAG_* for the header */
    uint8_t large;                   /**< which free list it belongs to */
    struct rawe_txframe_times again; /**< segments sent more than once: their latest transmission */
    struct rawe_txframe_slab *slab;  /**< the slab that contains the frame */
    struct rawe_bytes external[2];
    uint8_t
        checksum[RAWE_CHECKSUM_BYTES]; /**< after `external`; with none, at the end of `buffer` */
};

/** Return the time of the latest transmission. */
static inline uint64_t rawe_txframe_sent_ns(const struct rawe_txframe *frame)
{
    return frame->resent != 0 && frame->again.newest_ns > frame->first.newest_ns
               ? frame->again.newest_ns
               : frame->first.newest_ns;
}

/** Return the mask of all segments. */
static inline uint64_t rawe_txframe_all(const struct rawe_txframe *frame)
{
    return UINT64_MAX >> (RAWE_BATCH_FRAMES_MAX - frame->segments);
}

/** Return the mask of the segments in flight. */
static inline uint64_t rawe_txframe_in_flight(const struct rawe_txframe *frame)
{
    return frame->sent & ~(frame->arrived | frame->to_send);
}

/** Data bytes that fit after the headers in a small buffer. */
#define RAWE_TXFRAME_SMALL_BYTES 192u

struct rawe_txframe_pool {
    struct rawe_txframe *free[2]; /**< small, large */
    size_t large_bytes;
    unsigned taken;   /**< allocated frames in use */
    unsigned calm;    /**< consecutive checks that found few frames in use */
    uint64_t trim_ns; /**< time of the next check */
    struct rawe_txframe_slab *slabs;
    unsigned slab_count[2]; /**< small, large */
    unsigned allocated;     /**< frames */
    unsigned limit;
};

/** Initialize a pool. At most `copy_max_bytes` of payload are copied into a frame. */
void rawe_txframe_pool_init(struct rawe_txframe_pool *pool, uint32_t copy_max_bytes,
                            unsigned limit);
/** Free a pool. Every frame must have been returned to it. */
void rawe_txframe_pool_free(struct rawe_txframe_pool *pool);

/** Slow path of rawe_txframe_pool_trim. */
__attribute__((cold)) void rawe_txframe_pool_check(struct rawe_txframe_pool *pool, uint64_t now_ns);

/** Free most of the memory that a burst used, a few seconds later. Call this continually. */
static inline void rawe_txframe_pool_trim(struct rawe_txframe_pool *pool, uint64_t now_ns)
{
    if (__builtin_expect(now_ns >= pool->trim_ns, 0)) {
        rawe_txframe_pool_check(pool, now_ns);
    }
}

/** Refill a free list. False at the limit or out of memory. Each size gets at least one slab. */
__attribute__((cold)) bool rawe_txframe_pool_grow(struct rawe_txframe_pool *pool, bool large);

/** Take a frame whose buffer holds `payload_bytes` after the headers, or NULL. Set its `number`. */
static inline struct rawe_txframe *rawe_txframe_take(struct rawe_txframe_pool *pool,
                                                     size_t payload_bytes)
{
    bool large = payload_bytes > RAWE_TXFRAME_SMALL_BYTES;
    if (pool->free[large] == NULL && !rawe_txframe_pool_grow(pool, large)) {
        return NULL;
    }
    struct rawe_txframe *frame = pool->free[large];
    pool->free[large] = frame->next;
    pool->taken++;
    frame->send = NULL;
    frame->payload_bytes = 0; /* in memory order: fewer stores */
    frame->external_count = 0;
    frame->segment_bytes = 0;
    frame->segments = 1;
    frame->sendings = 0;
    frame->flags = 0;
    return frame;
}

static inline void rawe_txframe_give(struct rawe_txframe_pool *pool, struct rawe_txframe *frame)
{
    frame->next = pool->free[frame->large];
    pool->free[frame->large] = frame;
    pool->taken--;
}

struct rawe_sendwin {
    struct rawe_txframe *oldest;  /**< NULL: empty window */
    struct rawe_txframe *newest;  /**< not valid in an empty window */
    struct rawe_txframe *cursor;  /**< frame with number transmit_from, if in the window */
    uint32_t una;                 /**< oldest unacknowledged sequence number */
    uint32_t next;                /**< next sequence number */
    uint32_t in_flight;           /**< frames SENT */
    uint32_t to_transmit;         /**< frames WAITING or LOST */
    uint32_t transmit_from;       /**< no WAITING or LOST frame precedes this number */
    uint32_t sacked;              /**< frames SACKED */
    uint32_t newest_delivered;    /**< sequence number of the newest frame known to have arrived */
    uint16_t frames;              /**< limit on sequence numbers in use */
    bool evidence_is_probe;       /**< newest_delivered was a tail-loss probe, not a frame */
    uint64_t newest_delivered_ns; /**< when that frame was sent */
    uint64_t evidence_ns;         /**< when we learned of its arrival */
    uint64_t loss_deadline_ns;    /**< when to detect losses again; 0: never */
    struct rawe_txframe *held;    /**< the held-back frame, which has no number yet; or NULL */
};

/** Initialize an empty window of `frames` numbers. */
void rawe_sendwin_init(struct rawe_sendwin *window, uint32_t frames, uint32_t first_sequence);

/** Restart at `first_sequence`. The window must be empty. */
void rawe_sendwin_reset(struct rawe_sendwin *window, uint32_t first_sequence);

/** Return true if all frames that entered the window have been acknowledged. */
static inline bool rawe_sendwin_empty(const struct rawe_sendwin *window)
{
    return window->una == window->next;
}

/** Return how many sequence numbers are in use. */
static inline uint32_t rawe_sendwin_used(const struct rawe_sendwin *window)
{
    return window->next - window->una;
}

/** Return how many numbers are free. One is reserved for the held-back frame. */
static inline uint32_t rawe_sendwin_free_numbers(const struct rawe_sendwin *window)
{
    return window->frames - rawe_sendwin_used(window) - (window->held != NULL ? 1 : 0);
}

/** Hold back a frame so that messages can join it. No other frame may be held back. */
static inline void rawe_sendwin_hold(struct rawe_sendwin *window, struct rawe_txframe *frame)
{
    assert(window->held == NULL);
    window->held = frame;
}

/** Remove and return the held-back frame; NULL: none. */
static inline struct rawe_txframe *rawe_sendwin_take_held(struct rawe_sendwin *window)
{
    struct rawe_txframe *frame = window->held;
    window->held = NULL;
    return frame;
}

/** Plan to detect losses at `deadline_ns`, unless planned earlier; 0: cancel. */
static inline void rawe_sendwin_plan_search(struct rawe_sendwin *window, uint64_t deadline_ns)
{
    if (window->loss_deadline_ns == 0 || deadline_ns == 0) {
        window->loss_deadline_ns = deadline_ns;
    }
}

/** Return the number of set bits. */
static inline uint32_t rawe_sendwin_count(uint64_t bits)
{
    return bits <= 1 ? (uint32_t)bits : (uint32_t)__builtin_popcountll(bits);
}

/** Give a frame the next sequence numbers. It is WAITING until rawe_sendwin_sent. */
static inline void rawe_sendwin_enter(struct rawe_sendwin *window, struct rawe_txframe *frame)
{
    assert(rawe_sendwin_free_numbers(window) >= frame->segments);
    if (window->to_transmit == 0 || window->transmit_from == window->next) {
        window->transmit_from = window->next;
        window->cursor = frame;
    }
    frame->next = NULL;
    frame->previous = window->newest;
    if (window->oldest == NULL) {
        window->oldest = frame;
    } else {
        window->newest->next = frame;
    }
    window->newest = frame;
    frame->sequence = window->next;
    frame->to_send = rawe_txframe_all(frame);
    frame->arrived = frame->sent = frame->resent = 0;
    window->to_transmit += frame->segments;
    window->next += frame->segments;
}

/** Remove the frame that entered last. No part of it may have been sent. */
static inline void rawe_sendwin_retract(struct rawe_sendwin *window,
                                        const struct rawe_txframe *frame)
{
    assert(frame->sent == 0 && window->newest == frame);
    window->newest = frame->previous;
    if (window->oldest == frame) {
        window->oldest = NULL;
    } else {
        window->newest->next = NULL;
    }
    window->next = frame->sequence;
    window->to_transmit -= frame->segments;
}

/** Update a partly sent frame when more `segments` of it are sent. */
void rawe_sendwin_note_again(struct rawe_txframe *frame, uint64_t segments, uint64_t sent_ns);

/** At `sent_ns`, the link accepted segments of a frame that were WAITING or LOST. */
static inline void rawe_sendwin_sent(struct rawe_sendwin *window, struct rawe_txframe *frame,
                                     uint64_t segments, uint64_t sent_ns)
{
    uint32_t count = rawe_sendwin_count(segments);
    if (__builtin_expect(frame->sent == 0, 1)) {
        frame->sendings = 1;
        frame->first.oldest_ns = frame->first.newest_ns = sent_ns;
    } else {
        rawe_sendwin_note_again(frame, segments, sent_ns);
    }
    frame->sent |= segments;
    frame->to_send &= ~segments;
    window->to_transmit -= count;
    window->in_flight += count;
}

/** Return the first frame from transmit_from on with something to transmit; NULL: none. */
struct rawe_txframe *rawe_sendwin_next(struct rawe_sendwin *window);

/** Hand out `frame` and its successors again, because the link did not accept them. */
static inline void rawe_sendwin_rewind(struct rawe_sendwin *window, struct rawe_txframe *frame)
{
    window->transmit_from = frame->sequence;
    window->cursor = frame;
}

/** Note that all frames have been handed out. */
static inline void rawe_sendwin_hand_out_all(struct rawe_sendwin *window)
{
    window->transmit_from = window->next;
}

/** Remove and return the oldest frame, whatever its state. The window must not be empty. */
struct rawe_txframe *rawe_sendwin_remove(struct rawe_sendwin *window);

/** Slow path of rawe_sendwin_acknowledge: the oldest frame is a batch, or was retransmitted. */
struct rawe_txframe *rawe_sendwin_acknowledge_some(struct rawe_sendwin *window,
                                                   uint32_t acknowledgement, struct rawe_ack *ack);

/** Note that the peer has a frame sent at `sent_ns`. Returns true if it is the newest so far. */
bool rawe_sendwin_delivered(struct rawe_sendwin *window, uint64_t sent_ns, uint32_t sequence,
                            uint64_t now_ns);

/**
 * Acknowledge the oldest frame. All frames before `acknowledgement`, which is after una and not
 * after next, have arrived. If the whole oldest frame has arrived, it is removed and returned, and
 * the caller continues with the next one; otherwise returns NULL, and una is `acknowledgement`.
 * Retransmitted frames yield no round trip (Karn's rule).
 */
static inline struct rawe_txframe *rawe_sendwin_acknowledge(struct rawe_sendwin *window,
                                                            uint32_t acknowledgement,
                                                            struct rawe_ack *ack)
{
    struct rawe_txframe *frame = window->oldest;
    /* Nearly always: a single frame, in flight, sent once. */
    if (__builtin_expect(frame->segments != 1 || frame->sent == 0 ||
                             (frame->to_send | frame->arrived | frame->resent) != 0,
                         0)) {
        return rawe_sendwin_acknowledge_some(window, acknowledgement, ack);
    }
    uint64_t sent_ns = frame->first.oldest_ns;
    ack->rtt_ns = ack->now_ns > sent_ns ? ack->now_ns - sent_ns : 1;
    ack->arrived++;
    if (ack->evidence) {
        (void)rawe_sendwin_delivered(window, sent_ns, frame->sequence, ack->now_ns);
    }
    window->oldest = frame->next;
    window->una++;
    window->in_flight--;
    return frame;
}

/** Mark the frames in an untrusted SACK bitmap. Stops at a frame that was never sent. */
void rawe_sendwin_sack(struct rawe_sendwin *window, uint32_t acknowledgement, const uint8_t *bitmap,
                       size_t bitmap_bytes, struct rawe_ack *ack);

/** Note the answer to a tail-loss probe, sent at `sent_ns` after all frames then in flight. */
__attribute__((cold)) void rawe_sendwin_probe_answered(struct rawe_sendwin *window,
                                                       uint64_t sent_ns, uint64_t now_ns);

/** Called for each segment that is found lost, after the frame's state has changed. */
typedef void rawe_sendwin_lost_fn(void *context, const struct rawe_txframe *frame,
                                  uint32_t sequence);

/** Find lost frames. True: some may be lost, so call again `reorder_ns` later. */
bool rawe_sendwin_detect_losses(struct rawe_sendwin *window, uint64_t reorder_ns, uint64_t now_ns,
                                rawe_sendwin_lost_fn *lost, void *context);

/** Let frames refer to `copy`, which holds the pieces of a send back to back. */
void rawe_sendwin_rebase(const struct rawe_sendwin *window, struct rawe_send *send, uint8_t *copy);

/** Turn the frames of a reply whose data is gone into refusals when they are resent. */
void rawe_sendwin_revoke(const struct rawe_sendwin *window, const struct rawe_send *send,
                         enum rawe_refusal reason);

#endif
