/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Frames that were sent, or wait to be, and are kept until they are acknowledged. Two sizes of
 * buffer: one for frames that carry a whole small message or only refer to memory of the sender
 * (all batches do), one for frames into which data is copied.
 */
#ifndef RAWE_TXFRAME_H
#define RAWE_TXFRAME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/rawe_output.h"
#include "base/rawe_wire.h"

struct rawe_send;

/** When segments that have not arrived were sent: not before and not after these times. */
struct rawe_txframe_times {
    uint64_t oldest_ns, newest_ns;
};

/**
 * A frame, or a batch of them: `segments` frames with consecutive numbers, each of which carries
 * `segment_bytes` of the data, the last one may carry less. What happens to each is in bit masks,
 * bit 0 for the first.
 */
struct rawe_txframe {
    struct rawe_txframe *next;      /**< free list */
    struct rawe_txframe_slab *slab; /**< memory that it is part of */
    struct rawe_send *send; /**< whose bytes it refers to; NULL when all bytes are in `buffer` */
    uint64_t to_send;       /**< not sent yet, or lost: to be transmitted */
    uint64_t arrived;       /**< the peer has them */
    uint64_t sent;          /**< sent at least once */
    uint64_t resent;        /**< sent more than once */
    struct rawe_txframe_times first; /**< of segments that were sent once */
    struct rawe_txframe_times again; /**< of those that were sent more often: the newest sending */
    uint32_t sequence;               /**< of the first segment */
    uint32_t buffer_bytes;           /**< used in `buffer`, from the Ethernet header on */
    uint32_t payload_bytes;          /**< fragments, here and in `external` */
    uint16_t segment_bytes;          /**< 0: it is no batch */
    uint8_t segments;                /**< numbers it takes in the window */
    uint8_t sendings;                /**< how often something of it was sent, saturating */
    uint8_t flags;                   /**< RAWE_FLAG_* for the header */
    uint8_t large;                   /**< which pool it belongs to */
    uint32_t external_count;
    struct rawe_bytes external[2];
    uint8_t checksum[RAWE_CHECKSUM_BYTES]; /**< behind the payload, if the engine says so */
    uint8_t *buffer; /**< Ethernet header, frame header, fragment header, copied data */
};

/** Time of the newest sending. */
static inline uint64_t rawe_txframe_sent_ns(const struct rawe_txframe *frame)
{
    return frame->resent != 0 && frame->again.newest_ns > frame->first.newest_ns
               ? frame->again.newest_ns
               : frame->first.newest_ns;
}

/** All its segments, as a mask. */
static inline uint64_t rawe_txframe_all(const struct rawe_txframe *frame)
{
    return UINT64_MAX >> (RAWE_BATCH_FRAMES_MAX - frame->segments);
}

/** Its segments that are on their way, as a mask. */
static inline uint64_t rawe_txframe_in_flight(const struct rawe_txframe *frame)
{
    return frame->sent & ~(frame->arrived | frame->to_send);
}

/**
 * Where `len_bytes` of the data it refers to lie, from `at_bytes` on, all of which is there: writes
 * the pieces, two at most, and returns how many.
 */
static inline unsigned rawe_txframe_range(const struct rawe_txframe *frame, size_t at_bytes,
                                          size_t len_bytes, struct rawe_bytes *pieces)
{
    unsigned count = 0;
    for (uint32_t i = 0; i < frame->external_count && len_bytes != 0; i++) {
        const struct rawe_bytes *piece = &frame->external[i];
        if (at_bytes >= piece->len_bytes) {
            at_bytes -= piece->len_bytes;
            continue;
        }
        size_t part = piece->len_bytes - at_bytes;
        part = part < len_bytes ? part : len_bytes;
        pieces[count++] = (struct rawe_bytes){(uint8_t *)piece->base + at_bytes, part};
        len_bytes -= part;
        at_bytes = 0;
    }
    return count;
}

/** Data bytes that fit behind the headers in a small buffer. */
#define RAWE_TXFRAME_SMALL_BYTES 192u

struct rawe_txframe_pool {
    struct rawe_txframe *free[2]; /**< small, large */
    struct rawe_txframe_slab *slabs;
    unsigned slab_count[2]; /**< small, large */
    size_t large_bytes;
    unsigned allocated; /**< frames */
    unsigned taken;     /**< of these: in use */
    unsigned limit;
    unsigned calm;    /**< looks in a row at which few of the frames were in use */
    uint64_t trim_ns; /**< time of the next look */
};

/** `copy_max_bytes`: most payload bytes that are copied into a frame. */
void rawe_txframe_pool_init(struct rawe_txframe_pool *pool, uint32_t copy_max_bytes,
                            unsigned limit);
/** Every frame must have been given back. */
void rawe_txframe_pool_free(struct rawe_txframe_pool *pool);

/** The slow path of the next function. */
void rawe_txframe_pool_check(struct rawe_txframe_pool *pool, uint64_t now_ns);

/** Called all the time: some seconds after a burst, free most of what it took. */
static inline void rawe_txframe_pool_trim(struct rawe_txframe_pool *pool, uint64_t now_ns)
{
    if (__builtin_expect(now_ns >= pool->trim_ns, 0)) {
        rawe_txframe_pool_check(pool, now_ns);
    }
}

/**
 * Refill the list of one size; false at the limit or without memory. The first slab of each size is
 * allocated beyond the limit: one size must not starve because the other has taken all.
 */
bool rawe_txframe_pool_grow(struct rawe_txframe_pool *pool, bool large);

/** A frame whose buffer holds `payload_bytes` behind the headers, or NULL. */
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
    frame->external_count = 0;
    frame->segments = 1;
    frame->segment_bytes = 0;
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

#endif
