/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Counting malloc: see cluster_memory.h.
 */
#include "cluster_memory.h"

#include <malloc.h>

void *__real_malloc(size_t len_bytes);
void *__real_calloc(size_t count, size_t each_bytes);
void *__real_realloc(void *memory, size_t len_bytes);
void __real_free(void *memory);

void *__wrap_malloc(size_t len_bytes);
void *__wrap_calloc(size_t count, size_t each_bytes);
void *__wrap_realloc(void *memory, size_t len_bytes);
void __wrap_free(void *memory);

static size_t in_use_bytes;

size_t cluster_memory_bytes(void)
{
    return in_use_bytes;
}

void *__wrap_malloc(size_t len_bytes)
{
    void *memory = __real_malloc(len_bytes);

    in_use_bytes += malloc_usable_size(memory);
    return memory;
}

void *__wrap_calloc(size_t count, size_t each_bytes)
{
    void *memory = __real_calloc(count, each_bytes);

    in_use_bytes += malloc_usable_size(memory);
    return memory;
}

void *__wrap_realloc(void *memory, size_t len_bytes)
{
    size_t before_bytes = malloc_usable_size(memory);
    void *enlarged = __real_realloc(memory, len_bytes);

    if (enlarged != NULL) {
        in_use_bytes += malloc_usable_size(enlarged) - before_bytes;
    }
    return enlarged;
}

void __wrap_free(void *memory)
{
    in_use_bytes -= malloc_usable_size(memory);
    __real_free(memory);
}
