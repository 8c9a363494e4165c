/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The test for waiting batches, which an idle progress loop makes millions of times a second.
 */
#ifndef RAWE_BULK_INLINE_H
#define RAWE_BULK_INLINE_H

/** First member of struct rawe_bulk. */
struct rawe_bulk_head {
    const uint32_t *next_status; /**< as in struct rawe_link_head */
};

static inline bool rawe_bulk_pending(const struct rawe_bulk *bulk)
{
    const struct rawe_bulk_head *head = (const struct rawe_bulk_head *)(const void *)bulk;

    return (__atomic_load_n(head->next_status, __ATOMIC_ACQUIRE) & RAWE_LINK_STATUS_USER) != 0;
}

#endif
