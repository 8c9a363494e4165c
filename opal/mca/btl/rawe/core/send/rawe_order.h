/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Message order across all connections to a process. Open MPI's ob1 numbers messages with 16 bits
 * and sorts early ones, so none may overtake 32768 others. Each connection keeps its messages in
 * order, or nearly so, but could run arbitrarily far ahead of another whose interface is slower,
 * stalls, or has lost a frame. So messages to a process are numbered when submitted, and a message
 * is sent only when all that precede it by RAWE_ORDER_MOST or more have been acknowledged. The
 * numbers are not transmitted; the receiver delivers acknowledged messages in the order of arrival
 * (receive/rawe_reassembly.h).
 *
 * The limit is recomputed once it is reached, and then with each acknowledgement. The hot path only
 * compares and counts.
 */
#ifndef RAWE_ORDER_H
#define RAWE_ORDER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/rawe_list.h"

/** A message overtakes fewer than this many others to the same process. */
#define RAWE_ORDER_MOST 8192u

/** Number of steps in RAWE_ORDER_MOST: raising the limit and waking connections takes time. */
#define RAWE_ORDER_STEPS 8u

/** The messages to a process. Numbers start at 1; 0: no message. */
struct rawe_order {
    uint64_t next;            /**< number of the next message */
    uint64_t limit;           /**< messages before this one may be sent */
    uint32_t most;            /**< RAWE_ORDER_MOST; less in tests */
    bool waits;               /**< a message is waiting for acknowledgements to raise the limit */
    struct rawe_link members; /**< connections to the process */
};

/** A connection's membership in an order. */
struct rawe_order_member {
    struct rawe_link link;
    struct rawe_order *order;
};

static inline void rawe_order_init(struct rawe_order *order, uint32_t most)
{
    *order = (struct rawe_order){.next = 1, .limit = 1 + (uint64_t)most, .most = most};
    rawe_list_init(&order->members);
}

static inline void rawe_order_add(struct rawe_order *order, struct rawe_order_member *member)
{
    member->order = order;
    rawe_list_append(&order->members, &member->link);
}

static inline void rawe_order_remove(struct rawe_order_member *member)
{
    rawe_list_remove(&member->link);
}

/** Merge two orders into `to`; one of them may be new. Neither number decreases. */
static inline void rawe_order_merge(struct rawe_order *to, struct rawe_order *from)
{
    struct rawe_link *all = &from->members;
    for (struct rawe_link *link = all->next; link != all; link = link->next) {
        RAWE_OWNER(link, struct rawe_order_member, link)->order = to;
    }
    to->next = to->next > from->next ? to->next : from->next;
    to->limit = to->limit > from->limit ? to->limit : from->limit;
    to->waits = to->waits || from->waits;
    rawe_list_append_all(&to->members, all);
}

/** Return true if earlier messages allow this one to be sent. */
static inline bool rawe_order_allows(const struct rawe_order *order, uint64_t number)
{
    return __builtin_expect(number < order->limit, 1);
}

/** Return true if the limit would rise by a step; `oldest` is the first unacknowledged message. */
static inline bool rawe_order_rises(const struct rawe_order *order, uint64_t oldest)
{
    return oldest + order->most >= order->limit + order->most / RAWE_ORDER_STEPS + 1;
}

/** Raise the limit; `oldest` is the first unacknowledged message. True: by a step or more. */
static inline bool rawe_order_raise(struct rawe_order *order, uint64_t oldest)
{
    if (!rawe_order_rises(order, oldest)) {
        return false;
    }
    order->limit = oldest + order->most;
    return true;
}

#endif
