/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The one part of a link that its users' compilers must see: the test for a waiting frame, which
 * an idle progress loop makes millions of times a second.
 */
#ifndef RAWE_LINK_INLINE_H
#define RAWE_LINK_INLINE_H

/** First member of struct rawe_link. */
struct rawe_link_head {
    /** Status word of the ring slot that the next frame comes into; its owner changes it. */
    const uint32_t *next_status;
};

/** Bit of the status word: the slot is ours to read (TP_STATUS_USER). */
#define RAWE_LINK_STATUS_USER 1u

static inline bool rawe_link_pending(const struct rawe_link *link)
{
    const struct rawe_link_head *head = (const struct rawe_link_head *)(const void *)link;

    return (__atomic_load_n(head->next_status, __ATOMIC_ACQUIRE) & RAWE_LINK_STATUS_USER) != 0;
}

#endif
