/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Atomic operations on registered memory. They are those of the processor: atomic also with respect
 * to the program, to other threads, and to other processes that share the memory.
 */
#ifndef RAWE_ACCESS_H
#define RAWE_ACCESS_H

#include "rawe_handle.h"

/**
 * Execute what a request says on a word of request->word_bytes. `before` gets its old value. On
 * refusal nothing has been done.
 */
enum rawe_refusal rawe_access_word(void *word, const struct rawe_request *request, void *before);

/** The same on the word at `offset` of a handle. */
enum rawe_refusal rawe_access_atomic(const struct rawe_handle_table *table, uint32_t index,
                                     uint64_t key, uint64_t offset,
                                     const struct rawe_request *request, void *before);

#endif
