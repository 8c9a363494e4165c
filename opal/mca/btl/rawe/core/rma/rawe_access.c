/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Atomic operations on registered memory: see rawe_access.h.
 */
#include "rawe_access.h"

#include <string.h>

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
