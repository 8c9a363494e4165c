/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Guarded memory, the end of a failed check, and the number of accepted inputs.
 */
#include "fuzz.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define ADDRESS_SANITIZER 1
#endif
#elif defined(__SANITIZE_ADDRESS__)
#define ADDRESS_SANITIZER 1
#endif
#ifdef ADDRESS_SANITIZER
#include <sanitizer/asan_interface.h>
#else
#define ASAN_POISON_MEMORY_REGION(at, bytes) ((void)(at), (void)(bytes))
#define ASAN_UNPOISON_MEMORY_REGION(at, bytes) ((void)(at), (void)(bytes))
#endif

/** On each side; a multiple of 8, the granularity of the sanitizer's shadow memory. */
#define GUARD_BYTES 64u
#define GUARD_BYTE 0xA5u

unsigned fuzz_accepted;

void fuzz_fail(const char *file, int line, const char *condition, const char *text)
{
    fprintf(stderr, "%s:%d: %s: '%s' does not hold\n", file, line, text, condition);
    abort();
}

void *fuzz_new(size_t len_bytes)
{
    void *memory = calloc(1, len_bytes != 0 ? len_bytes : 1);
    FUZZ_CHECK(memory != NULL, "this machine has no memory left for the fuzzer itself");
    return memory;
}

void fuzz_delete(void *memory)
{
    free(memory);
}

uint8_t *fuzz_copy(const void *bytes, size_t len_bytes)
{
    /* With length 0 as well: a pointer to no memory at all. */
    uint8_t *copy = malloc(len_bytes);
    FUZZ_CHECK(copy != NULL || len_bytes == 0, "this machine has no memory left for the fuzzer");
    if (len_bytes != 0) {
        memcpy(copy, bytes, len_bytes);
    }
    return copy;
}

uint8_t *fuzz_guarded_new(size_t len_bytes)
{
    uint8_t *memory = fuzz_new(len_bytes + 2 * GUARD_BYTES);
    memset(memory, GUARD_BYTE, GUARD_BYTES);
    memset(memory + GUARD_BYTES + len_bytes, GUARD_BYTE, GUARD_BYTES);
    ASAN_POISON_MEMORY_REGION(memory, GUARD_BYTES);
    ASAN_POISON_MEMORY_REGION(memory + GUARD_BYTES + len_bytes, GUARD_BYTES);
    return memory + GUARD_BYTES;
}

void fuzz_guarded_delete(uint8_t *memory, size_t len_bytes)
{
    uint8_t *front = memory - GUARD_BYTES;
    ASAN_UNPOISON_MEMORY_REGION(front, 2 * GUARD_BYTES + len_bytes);
    for (size_t i = 0; i < GUARD_BYTES; i++) {
        FUZZ_CHECK(front[i] == GUARD_BYTE, "written in front of memory that peers may write");
        FUZZ_CHECK(memory[len_bytes + i] == GUARD_BYTE,
                   "written behind memory that peers may write");
    }
    free(front);
}
