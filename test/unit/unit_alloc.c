/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Allocations that fail on a test's request: see unit_alloc.h.
 */
#include "unit_alloc.h"

#include <stdbool.h>
#include <stddef.h>

int unit_allocations_left = -1;

void *__real_malloc(size_t bytes);
void *__real_calloc(size_t count, size_t bytes);
void *__real_realloc(void *memory, size_t bytes);
void *__wrap_malloc(size_t bytes);
void *__wrap_calloc(size_t count, size_t bytes);
void *__wrap_realloc(void *memory, size_t bytes);

static bool allowed(void)
{
    if (unit_allocations_left == 0) {
        return false;
    }
    unit_allocations_left -= unit_allocations_left > 0;
    return true;
}

void *__wrap_malloc(size_t bytes)
{
    return allowed() ? __real_malloc(bytes) : NULL;
}

void *__wrap_calloc(size_t count, size_t bytes)
{
    return allowed() ? __real_calloc(count, bytes) : NULL;
}

void *__wrap_realloc(void *memory, size_t bytes)
{
    return allowed() ? __real_realloc(memory, bytes) : NULL;
}
