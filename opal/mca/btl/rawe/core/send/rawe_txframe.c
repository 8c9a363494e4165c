/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Pool of frames to send: see rawe_txframe.h.
 */
#include "rawe_txframe.h"

#include <stdlib.h>

#define SLAB_FRAMES 64u
#define CACHE_LINE 64u

/* Buffers begin 2 bytes off a cache line, so that what follows the Ethernet header is aligned. */
#define BUFFER_SHIFT 2u

void rawe_txframe_pool_init(struct rawe_txframe_pool *pool, uint32_t copy_max_bytes, unsigned limit)
{
    pool->free[0] = NULL;
    pool->free[1] = NULL;
    pool->slabs = NULL;
    pool->large_bytes = copy_max_bytes;
    pool->allocated = 0;
    pool->limit = limit;
    pool->has_slab[0] = false;
    pool->has_slab[1] = false;
}

void rawe_txframe_pool_free(struct rawe_txframe_pool *pool)
{
    while (pool->slabs != NULL) {
        void *slab = pool->slabs;
        pool->slabs = *(void **)slab;
        free(slab);
    }
    pool->free[0] = NULL;
    pool->free[1] = NULL;
    pool->has_slab[0] = false;
    pool->has_slab[1] = false;
    pool->allocated = 0;
}

bool rawe_txframe_pool_grow(struct rawe_txframe_pool *pool, bool large)
{
    if (pool->allocated >= pool->limit && pool->has_slab[large]) {
        return false;
    }
    size_t payload_bytes = large ? pool->large_bytes : RAWE_TXFRAME_SMALL_BYTES;
    size_t head_bytes = (sizeof(struct rawe_txframe) + CACHE_LINE - 1) & ~(size_t)(CACHE_LINE - 1);
    size_t stride = head_bytes + BUFFER_SHIFT + RAWE_PAYLOAD_OFFSET + payload_bytes;
    stride = (stride + CACHE_LINE - 1) & ~(size_t)(CACHE_LINE - 1);
    /* An odd number of lines spreads the headers over the sets of the cache. */
    stride |= CACHE_LINE;
    uint8_t *slab = aligned_alloc(CACHE_LINE, CACHE_LINE + SLAB_FRAMES * stride);
    if (slab == NULL) {
        return false;
    }
    *(void **)(void *)slab = pool->slabs;
    pool->slabs = slab;
    for (unsigned i = 0; i < SLAB_FRAMES; i++) {
        uint8_t *place = slab + CACHE_LINE + i * stride;
        struct rawe_txframe *frame = (struct rawe_txframe *)(void *)place;
        frame->buffer = place + head_bytes + BUFFER_SHIFT;
        frame->large = large;
        rawe_txframe_give(pool, frame);
    }
    pool->has_slab[large] = true;
    pool->allocated += SLAB_FRAMES;
    return true;
}
