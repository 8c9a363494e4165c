/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Functions of the in-memory network that unit tests, simulator, fuzzers and benchmarks may
 * replace: how a violation ends the program, and where memory comes from. The defaults print the
 * violation and abort, and use malloc.
 */
#ifndef NET_HARNESS_H
#define NET_HARNESS_H

#include <stddef.h>

/** Report a violated invariant and end the program, each harness in its own way. */
_Noreturn void net_fail(const char *invariant, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/** Allocate exactly `len_bytes`, so that a sanitizer sees reads beyond. Never returns NULL. */
void *net_new(size_t len_bytes);
/** Allocate exactly `len_bytes` of zeros. Never returns NULL. */
void *net_zeroed(size_t len_bytes);
void net_delete(void *memory);

#endif
