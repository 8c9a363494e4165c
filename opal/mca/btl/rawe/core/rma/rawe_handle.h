/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Handle table: memory that peers may access. A peer names memory by index, key and offset; the key
 * carries a generation, so that a handle that was given back never fits again.
 */
#ifndef RAWE_HANDLE_H
#define RAWE_HANDLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/rawe_wire.h"

/** What peers may do with registered memory: bits. */
#define RAWE_ACCESS_READ 1u   /**< GET */
#define RAWE_ACCESS_WRITE 2u  /**< PUT */
#define RAWE_ACCESS_ATOMIC 4u /**< ATOMIC */

#define RAWE_HANDLE_USED UINT32_MAX

struct rawe_handle_entry {
    uint8_t *base; /**< may be NULL: MPI_BOTTOM */
    uint64_t len_bytes;
    uint64_t key;       /**< generation << 32 | random */
    uint32_t next_free; /**< RAWE_HANDLE_USED: it is not free */
    unsigned access;    /**< RAWE_ACCESS_* */
};

struct rawe_handle_table {
    struct rawe_handle_entry *entries;
    uint32_t size;
    uint32_t first_free; /**< index of a free entry, or `size` when there is none */
    uint32_t in_use;
    uint32_t readable; /**< of those, that peers may GET from */
    uint64_t random;   /**< state of the key generator */
};

/** `seed` should not be guessable by other hosts. */
void rawe_handle_table_init(struct rawe_handle_table *table, uint64_t seed);
void rawe_handle_table_free(struct rawe_handle_table *table);

/** Give peers `access` (RAWE_ACCESS_*) to `len_bytes` at `base`. False without memory. */
bool rawe_handle_register(struct rawe_handle_table *table, void *base, uint64_t len_bytes,
                          uint32_t *index, uint64_t *key, unsigned access);

/** Take it back: from now on every frame that names it is refused. False when unknown. */
bool rawe_handle_deregister(struct rawe_handle_table *table, uint32_t index, uint64_t key);

/** Where they lie; NULL: index, key, bounds or `access` (one RAWE_ACCESS_*) do not fit. */
uint8_t *rawe_handle_resolve(const struct rawe_handle_table *table, uint32_t index, uint64_t key,
                             uint64_t offset, uint64_t len_bytes, unsigned access);

/** Why rawe_handle_resolve has returned NULL. */
enum rawe_refusal rawe_handle_refusal(const struct rawe_handle_table *table, uint32_t index,
                                      uint64_t key, unsigned access);

/* Atomic operations are the processor's, also towards other threads and processes. */

/** Execute a request on a word; `before` gets its old value. Refused: nothing was done. */
enum rawe_refusal rawe_access_word(void *word, const struct rawe_request *request, void *before);

/** The same on the word at `offset` of a handle. */
enum rawe_refusal rawe_access_atomic(const struct rawe_handle_table *table, uint32_t index,
                                     uint64_t key, uint64_t offset,
                                     const struct rawe_request *request, void *before);

#endif
