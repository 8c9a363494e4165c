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

/** The pool is looked at once a second; after that many calm looks it gives memory back. */
#define TRIM_INTERVAL_NS 1000000000ull
#define CALM_ROUNDS 3u

/** It is calm when fewer than one in that many frames are in use; a pool of one window stays. */
#define CALM_PART 4u
#define TRIM_LEAST_FRAMES 1024u

/** Frames allocated together; they follow it. */
struct rawe_txframe_slab {
    struct rawe_txframe_slab *next;
    unsigned free_frames; /**< counted by rawe_txframe_pool_check alone */
    bool large;
};

void rawe_txframe_pool_init(struct rawe_txframe_pool *pool, uint32_t copy_max_bytes, unsigned limit)
{
    *pool = (struct rawe_txframe_pool){.large_bytes = copy_max_bytes, .limit = limit};
}

void rawe_txframe_pool_free(struct rawe_txframe_pool *pool)
{
    while (pool->slabs != NULL) {
        struct rawe_txframe_slab *slab = pool->slabs;
        pool->slabs = slab->next;
        free(slab);
    }
    rawe_txframe_pool_init(pool, (uint32_t)pool->large_bytes, pool->limit);
}

/** Take the frames of slabs that are wholly free off a list. */
static void drop_free(struct rawe_txframe **list)
{
    for (const struct rawe_txframe *frame = *list; frame != NULL; frame = frame->next) {
        frame->slab->free_frames++;
    }
    while (*list != NULL) {
        if ((*list)->slab->free_frames == SLAB_FRAMES) {
            *list = (*list)->next;
        } else {
            list = &(*list)->next;
        }
    }
}

void rawe_txframe_pool_check(struct rawe_txframe_pool *pool, uint64_t now_ns)
{
    pool->trim_ns = now_ns + TRIM_INTERVAL_NS;
    bool calm = pool->allocated > TRIM_LEAST_FRAMES && pool->taken < pool->allocated / CALM_PART;
    pool->calm = calm ? pool->calm + 1 : 0;
    if (pool->calm < CALM_ROUNDS) {
        return;
    }
    pool->calm = 0;
    drop_free(&pool->free[0]);
    drop_free(&pool->free[1]);
    for (struct rawe_txframe_slab **link = &pool->slabs; *link != NULL;) {
        struct rawe_txframe_slab *slab = *link;
        if (slab->free_frames == SLAB_FRAMES) {
            *link = slab->next;
            pool->slab_count[slab->large]--;
            pool->allocated -= SLAB_FRAMES;
            free(slab);
        } else {
            slab->free_frames = 0;
            link = &slab->next;
        }
    }
}

bool rawe_txframe_pool_grow(struct rawe_txframe_pool *pool, bool large)
{
    if (pool->allocated >= pool->limit && pool->slab_count[large] != 0) {
        return false;
    }
    size_t payload_bytes = large ? pool->large_bytes : RAWE_TXFRAME_SMALL_BYTES;
    size_t head_bytes = (sizeof(struct rawe_txframe) + CACHE_LINE - 1) & ~(size_t)(CACHE_LINE - 1);
    size_t stride = head_bytes + BUFFER_SHIFT + RAWE_PAYLOAD_OFFSET + payload_bytes;
    stride = (stride + CACHE_LINE - 1) & ~(size_t)(CACHE_LINE - 1);
    /* An odd number of lines spreads the headers over the sets of the cache. */
    stride |= CACHE_LINE;
    uint8_t *memory = aligned_alloc(CACHE_LINE, CACHE_LINE + SLAB_FRAMES * stride);
    if (memory == NULL) {
        return false;
    }
    struct rawe_txframe_slab *slab = (struct rawe_txframe_slab *)(void *)memory;
    *slab = (struct rawe_txframe_slab){.next = pool->slabs, .large = large};
    pool->slabs = slab;
    for (unsigned i = 0; i < SLAB_FRAMES; i++) {
        uint8_t *place = memory + CACHE_LINE + i * stride;
        struct rawe_txframe *frame = (struct rawe_txframe *)(void *)place;
        frame->buffer = place + head_bytes + BUFFER_SHIFT;
        frame->large = large;
        frame->slab = slab;
        frame->next = pool->free[large];
        pool->free[large] = frame;
    }
    pool->slab_count[large]++;
    pool->allocated += SLAB_FRAMES;
    pool->calm = 0;
    return true;
}
