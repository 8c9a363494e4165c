/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Defaults of a harness's functions: see net_harness.h.
 */
#include "net_harness.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

__attribute__((weak)) void net_fail(const char *invariant, const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    fprintf(stderr, "violates \"%s\": ", invariant);
    vfprintf(stderr, format, arguments);
    fputc('\n', stderr);
    va_end(arguments);
    abort();
}

__attribute__((weak)) void *net_new(size_t len_bytes)
{
    void *memory = malloc(len_bytes != 0 ? len_bytes : 1);

    if (memory == NULL) {
        net_fail("this machine has memory left", "%zu bytes are asked for", len_bytes);
    }
    return memory;
}

void *net_zeroed(size_t len_bytes)
{
    return memset(net_new(len_bytes), 0, len_bytes);
}

__attribute__((weak)) void net_delete(void *memory)
{
    free(memory);
}
