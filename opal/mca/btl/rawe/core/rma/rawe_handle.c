/* SPDX-License-Identifier: BSD-3-Clause */
#include "rawe_handle.h"

#include <stdlib.h>
#include <string.h>

#define FIRST_SIZE 64u

void rawe_handle_table_init(struct rawe_handle_table *table, uint64_t seed)
{
    memset(table, 0, sizeof(*table));
    table->random = seed;
}

void rawe_handle_table_free(struct rawe_handle_table *table)
{
    free(table->entries);
    memset(table, 0, sizeof(*table));
}

/** splitmix64 (Steele, Lea, Flood 2014). */
static uint64_t next_random(struct rawe_handle_table *table)
{
    uint64_t z = table->random += 0x9E3779B97F4A7C15ull;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
    return z ^ (z >> 31);
}

static bool grow_handles(struct rawe_handle_table *table)
{
    uint32_t size = table->size == 0 ? FIRST_SIZE : table->size * 2;
    if (size < table->size) {
        return false;
    }
    struct rawe_handle_entry *entries = realloc(table->entries, size * sizeof(*entries));
    if (entries == NULL) {
        return false;
    }
    for (uint32_t i = table->size; i < size; i++) {
        entries[i] = (struct rawe_handle_entry){.next_free = i + 1};
    }
    table->entries = entries;
    table->size = size;
    return true;
}

/** Return the entry of a registered handle, or NULL. */
static struct rawe_handle_entry *find_handle(const struct rawe_handle_table *table, uint32_t index,
                                             uint64_t key)
{
    struct rawe_handle_entry *entry = index < table->size ? &table->entries[index] : NULL;
    return entry != NULL && entry->next_free == RAWE_HANDLE_USED && entry->key == key ? entry
                                                                                      : NULL;
}

bool rawe_handle_register(struct rawe_handle_table *table, void *base, uint64_t len_bytes,
                          uint32_t *index, uint64_t *key, unsigned access)
{
    if (table->first_free == table->size && !grow_handles(table)) {
        return false;
    }
    struct rawe_handle_entry *entry = &table->entries[table->first_free];
    *index = table->first_free;
    table->first_free = entry->next_free;
    entry->next_free = RAWE_HANDLE_USED;
    entry->base = base;
    entry->len_bytes = len_bytes;
    entry->access = access;
    uint64_t generation = (entry->key >> 32) + 1;
    entry->key = generation << 32 | (uint32_t)next_random(table);
    *key = entry->key;
    table->in_use++;
    table->readable += (access & RAWE_ACCESS_READ) != 0;
    return true;
}

bool rawe_handle_deregister(struct rawe_handle_table *table, uint32_t index, uint64_t key)
{
    struct rawe_handle_entry *entry = find_handle(table, index, key);
    if (entry == NULL) {
        return false;
    }
    entry->next_free = table->first_free;
    table->first_free = index;
    table->in_use--;
    table->readable -= (entry->access & RAWE_ACCESS_READ) != 0;
    return true;
}

uint8_t *rawe_handle_resolve(const struct rawe_handle_table *table, uint32_t index, uint64_t key,
                             uint64_t offset, uint64_t len_bytes, unsigned access)
{
    const struct rawe_handle_entry *entry = find_handle(table, index, key);
    if (entry == NULL || offset > entry->len_bytes || len_bytes > entry->len_bytes - offset ||
        (entry->access & access) == 0) {
        return NULL;
    }
    return (uint8_t *)((uintptr_t)entry->base + offset);
}

enum rawe_refusal rawe_handle_refusal(const struct rawe_handle_table *table, uint32_t index,
                                      uint64_t key, unsigned access)
{
    const struct rawe_handle_entry *entry = find_handle(table, index, key);
    return entry == NULL                   ? RAWE_REFUSAL_UNKNOWN
           : (entry->access & access) == 0 ? RAWE_REFUSAL_ACCESS
                                           : RAWE_REFUSAL_BOUNDS;
}

/* ---- atomic operations on registered memory ---- */

/* clang-format off */
#define APPLY(type)                                                                              \
    static bool apply_##type(type *at, const struct rawe_request *request, void *before)         \
    {                                                                                            \
        type operand = (type)request->operand, old = (type)request->compare;                     \
        switch (request->atomic) {                                                               \
        case RAWE_ATOMIC_ADD:                                                                    \
            old = __atomic_fetch_add(at, operand, __ATOMIC_SEQ_CST);                             \
            break;                                                                               \
        case RAWE_ATOMIC_AND:                                                                    \
            old = __atomic_fetch_and(at, operand, __ATOMIC_SEQ_CST);                             \
            break;                                                                               \
        case RAWE_ATOMIC_OR:                                                                     \
            old = __atomic_fetch_or(at, operand, __ATOMIC_SEQ_CST);                              \
            break;                                                                               \
        case RAWE_ATOMIC_XOR:                                                                    \
            old = __atomic_fetch_xor(at, operand, __ATOMIC_SEQ_CST);                             \
            break;                                                                               \
        case RAWE_ATOMIC_SWAP:                                                                   \
            old = __atomic_exchange_n(at, operand, __ATOMIC_SEQ_CST);                            \
            break;                                                                               \
        case RAWE_ATOMIC_COMPARE_SWAP:                                                           \
            (void)__atomic_compare_exchange_n(at, &old, operand, false, __ATOMIC_SEQ_CST,        \
                                              __ATOMIC_SEQ_CST);                                 \
            break;                                                                               \
        default:                                                                                 \
            return false;                                                                        \
        }                                                                                        \
        memcpy(before, &old, sizeof(old));                                                       \
        return true;                                                                             \
    }
/* clang-format on */
APPLY(uint32_t)
APPLY(uint64_t)

enum rawe_refusal rawe_access_word(void *word, const struct rawe_request *request, void *before)
{
    bool narrow = request->word_bytes == sizeof(uint32_t);

    if (!narrow && request->word_bytes != sizeof(uint64_t)) {
        return RAWE_REFUSAL_OPERATION;
    }
    if ((uintptr_t)word % request->word_bytes != 0) {
        return RAWE_REFUSAL_ALIGNMENT;
    }
    bool known =
        narrow ? apply_uint32_t(word, request, before) : apply_uint64_t(word, request, before);
    return known ? RAWE_REFUSAL_NONE : RAWE_REFUSAL_OPERATION;
}

enum rawe_refusal rawe_access_atomic(const struct rawe_handle_table *table, uint32_t index,
                                     uint64_t key, uint64_t offset,
                                     const struct rawe_request *request, void *before)
{
    void *word =
        rawe_handle_resolve(table, index, key, offset, request->word_bytes, RAWE_ACCESS_ATOMIC);

    return word != NULL ? rawe_access_word(word, request, before)
                        : rawe_handle_refusal(table, index, key, RAWE_ACCESS_ATOMIC);
}
