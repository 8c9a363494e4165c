/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Frames that were sent, or wait to be, and are kept until they are acknowledged. Two sizes of
 * buffer: one for frames that carry a whole small message or only refer to memory of the sender,
 * one for frames into which data is copied.
 */
#ifndef RAWE_TXFRAME_H
#define RAWE_TXFRAME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "rawe_output.h"
#include "rawe_wire.h"

struct rawe_send;

enum rawe_txframe_state {
    RAWE_TXFRAME_WAITING, /**< in the window, not sent yet: the link was full */
    RAWE_TXFRAME_SENT,    /**< in flight */
    RAWE_TXFRAME_SACKED,  /**< the peer has it, an earlier one is missing */
    RAWE_TXFRAME_LOST,    /**< evidence of loss; to be sent again */
};

struct rawe_txframe {
    struct rawe_txframe *next; /**< free list */
    struct rawe_send *send;    /**< whose bytes it refers to; NULL when all bytes are in `buffer` */
    uint64_t sent_ns;          /**< time of the newest sending */
    uint32_t sequence;
    uint32_t buffer_bytes;  /**< used in `buffer`, from the Ethernet header on */
    uint32_t payload_bytes; /**< fragments, here and in `external` */
    uint8_t state;          /**< enum rawe_txframe_state */
    uint8_t sendings;       /**< how often it was sent, saturating */
    uint8_t flags;          /**< RAWE_FLAG_* for the header */
    uint8_t large;          /**< which pool it belongs to */
    uint32_t external_count;
    struct rawe_bytes external[2];
    uint8_t checksum[RAWE_CHECKSUM_BYTES]; /**< behind the payload, if the engine says so */
    uint8_t *buffer; /**< Ethernet header, frame header, fragment header, copied data */
};

/** Data bytes that fit behind the headers in a small buffer. */
#define RAWE_TXFRAME_SMALL_BYTES 192u

struct rawe_txframe_pool {
    struct rawe_txframe *free[2]; /**< small, large */
    void *slabs;                  /**< list of allocated slabs, linked through their first bytes */
    size_t large_bytes;
    unsigned allocated;
    unsigned limit;
    bool has_slab[2]; /**< small, large: there is a first slab, which the limit does not forbid */
};

/** `copy_max_bytes`: most payload bytes that are copied into a frame. */
void rawe_txframe_pool_init(struct rawe_txframe_pool *pool, uint32_t copy_max_bytes,
                            unsigned limit);
/** Every frame must have been given back. */
void rawe_txframe_pool_free(struct rawe_txframe_pool *pool);

/**
 * Refill the list of one size; false at the limit or without memory. The first slab of each size is
 * had beyond the limit: one size must not starve because the other has taken all.
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
    frame->send = NULL;
    frame->external_count = 0;
    frame->sendings = 0;
    frame->flags = 0;
    return frame;
}

static inline void rawe_txframe_give(struct rawe_txframe_pool *pool, struct rawe_txframe *frame)
{
    frame->next = pool->free[frame->large];
    pool->free[frame->large] = frame;
}

#endif
