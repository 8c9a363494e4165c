/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Reassembly of segmented messages: see rawe_reassembly.h.
 */
#include "rawe_reassembly.h"

#include <stdlib.h>
#include <string.h>

void rawe_buffer_pool_init(struct rawe_buffer_pool *pool, size_t buffer_bytes, unsigned limit)
{
    pool->free = NULL;
    pool->buffer_bytes = buffer_bytes < sizeof(void *) ? sizeof(void *) : buffer_bytes;
    pool->allocated = 0;
    pool->limit = limit;
}

void rawe_buffer_pool_free(struct rawe_buffer_pool *pool)
{
    while (pool->free != NULL) {
        void *buffer = pool->free;
        memcpy(&pool->free, buffer, sizeof(void *));
        free(buffer);
        pool->allocated--;
    }
}

void *rawe_buffer_take(struct rawe_buffer_pool *pool)
{
    void *buffer = pool->free;
    if (buffer != NULL) {
        memcpy(&pool->free, buffer, sizeof(void *));
        return buffer;
    }
    if (pool->allocated >= pool->limit) {
        return NULL;
    }
    buffer = malloc(pool->buffer_bytes);
    if (buffer != NULL) {
        pool->allocated++;
    }
    return buffer;
}

void rawe_buffer_give(struct rawe_buffer_pool *pool, void *buffer)
{
    memcpy(buffer, &pool->free, sizeof(void *));
    pool->free = buffer;
}

enum rawe_reassembly_result rawe_reassembly_add(struct rawe_reassembly *reassembly,
                                                struct rawe_buffer_pool *pool,
                                                const struct rawe_chunk *chunk,
                                                struct rawe_partial *whole)
{
    struct rawe_partial *partial =
        &reassembly->partial[chunk->id & (RAWE_REASSEMBLY_MESSAGES - 1)];
    if (chunk->data_bytes == 0 || chunk->total_bytes > pool->buffer_bytes) {
        return RAWE_REASSEMBLY_REFUSED;
    }
    if (partial->buffer == NULL) {
        partial->buffer = rawe_buffer_take(pool);
        if (partial->buffer == NULL) {
            return RAWE_REASSEMBLY_NO_BUFFER;
        }
        partial->number = chunk->id;
        partial->total_bytes = chunk->total_bytes;
        partial->received_bytes = 0;
        partial->tag = chunk->tag;
    } else if (partial->number != chunk->id || partial->total_bytes != chunk->total_bytes ||
               partial->tag != chunk->tag ||
               chunk->data_bytes > partial->total_bytes - partial->received_bytes) {
        return RAWE_REASSEMBLY_REFUSED;
    }
    memcpy(partial->buffer + chunk->offset, chunk->data, chunk->data_bytes);
    partial->received_bytes += chunk->data_bytes;
    if (partial->received_bytes < partial->total_bytes) {
        return RAWE_REASSEMBLY_MORE;
    }
    *whole = *partial;
    partial->buffer = NULL;
    return RAWE_REASSEMBLY_WHOLE;
}

void rawe_reassembly_clear(struct rawe_reassembly *reassembly, struct rawe_buffer_pool *pool)
{
    for (unsigned i = 0; i < RAWE_REASSEMBLY_MESSAGES; i++) {
        if (reassembly->partial[i].buffer != NULL) {
            rawe_buffer_give(pool, reassembly->partial[i].buffer);
            reassembly->partial[i].buffer = NULL;
        }
    }
}
