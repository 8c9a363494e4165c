/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Handle table: the memory that peers may access. A peer names memory by index, key and offset. The
 * key carries a generation, so that a deregistered handle never matches again.
 */
#ifndef RAWE_HANDLE_H
#define RAWE_HANDLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/rawe_wire.h"

/** Access rights of peers to registered memory: bits. */
#define RAWE_ACCESS_READ 1u   /**< GET */
#define RAWE_ACCESS_WRITE 2u  /**< PUT */
#define RAWE_ACCESS_ATOMIC 4u /**< ATOMIC */

#define RAWE_HANDLE_USED UINT32_MAX

struct rawe_handle_entry {
    uint8_t *base; /**< may be NULL: MPI_BOTTOM */
    uint64_t len_bytes;
    uint64_t key;       /**< generation << 32 | random */
    uint32_t next_free; /**< RAWE_HANDLE_USED: in use */
    unsigned access;    /**< RAWE_ACCESS_* */
};

struct rawe_handle_table {
    struct rawe_handle_entry *entries;
    uint32_t size;
    uint32_t first_free; /**< index of a free entry; `size`: none */
    uint32_t in_use;
    uint32_t readable; /**< number of handles that peers may GET from */
    uint64_t random;   /**< state of the key generator */
};

/** Initialize an empty table. Other hosts should not be able to guess `seed`. */
void rawe_handle_table_init(struct rawe_handle_table *table, uint64_t seed);
void rawe_handle_table_free(struct rawe_handle_table *table);

/** Grant peers `access` (RAWE_ACCESS_*) to `len_bytes` at `base`. False when out of memory. */
bool rawe_handle_register(struct rawe_handle_table *table, void *base, uint64_t len_bytes,
                          uint32_t *index, uint64_t *key, unsigned access);

/** Revoke a handle: later frames that name it are refused. Returns false if unknown. */
bool rawe_handle_deregister(struct rawe_handle_table *table, uint32_t index, uint64_t key);

/** Return the address of a range. NULL: index, key, bounds or `access` (RAWE_ACCESS_*) is wrong. */
uint8_t *rawe_handle_resolve(const struct rawe_handle_table *table, uint32_t index, uint64_t key,
                             uint64_t offset, uint64_t len_bytes, unsigned access);

/** Return why rawe_handle_resolve returned NULL. */
enum rawe_refusal rawe_handle_refusal(const struct rawe_handle_table *table, uint32_t index,
                                      uint64_t key, unsigned access);

/* These use the processor's atomics, so other threads and processes also see them as atomic. */

/** Execute a request on a word; `before` receives its old value. A refusal has no effect. */
enum rawe_refusal rawe_access_word(void *word, const struct rawe_request *request, void *before);

/** Execute a request on the word at `offset` of a handle; `before` receives its old value. */
enum rawe_refusal rawe_access_atomic(const struct rawe_handle_table *table, uint32_t index,
                                     uint64_t key, uint64_t offset,
                                     const struct rawe_request *request, void *before);

#endif
