/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * What unit tests, simulator, fuzzers and benchmarks may each define for the network in memory that
 * they share: how a violation ends the program, and where memory comes from. Without that, it is
 * printed and aborts, and memory is malloc's.
 */
#ifndef NET_HARNESS_H
#define NET_HARNESS_H

#include <stddef.h>

/** An invariant does not hold: reports it in the manner of the harness. */
_Noreturn void net_fail(const char *invariant, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/** Memory of exactly that many bytes, so that a sanitizer sees reads beyond. Never NULL. */
void *net_new(size_t len_bytes);
/** The same, all zeros. */
void *net_zeroed(size_t len_bytes);
void net_delete(void *memory);

#endif
