/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Order over all connections to a process. Open MPI's ob1 numbers messages with 16 bits and sorts those
 * that come early, so none may overtake 32768 others. Connections are in order each, or nearly; but
 * nothing would bound how far one of them runs ahead of another, whose interface is slower, stalls,
 * or has lost a frame. So messages to a process are numbered as they are submitted, and one is sent
 * only when all that are RAWE_ORDER_MOST or more before it have been acknowledged. Numbers stay here;
 * the receiver delivers what it has acknowledged in the order of arrival (receive/rawe_reassembly.h).
 *
 * The limit is computed again when it has been reached, and then with acknowledgements. The hot path
 * compares and counts.
 */
#ifndef RAWE_ORDER_H
#define RAWE_ORDER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/rawe_list.h"

/** No message overtakes as many others to the same process. */
#define RAWE_ORDER_MOST 8192u

/** The limit rises by a part of that at least: computing it and waking connections costs time. */
#define RAWE_ORDER_STEPS 8u

/** Of the messages to a process. Numbers begin with 1; 0: no message. */
struct rawe_order {
    uint64_t next;            /**< number of the next message */
    uint64_t limit;           /**< messages before this one may be sent */
    uint32_t most;            /**< RAWE_ORDER_MOST; less in tests */
    bool waits;               /**< a message waits: acknowledgements have to raise the limit */
    struct rawe_link members; /**< connections to the process that are awake */
};

/** Of each connection. */
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

/** One object goes on with what two have had, of which one may be new. Numbers are not less then. */
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

/** May this message be sent, as far as others are concerned? */
static inline bool rawe_order_allows(const struct rawe_order *order, uint64_t number)
{
    return __builtin_expect(number < order->limit, 1);
}

/** Would the limit rise by enough, if this were the first message that is not acknowledged? */
static inline bool rawe_order_rises(const struct rawe_order *order, uint64_t oldest)
{
    return oldest + order->most >= order->limit + order->most / RAWE_ORDER_STEPS + 1;
}

/** `oldest`: the first message that is not acknowledged. True: the limit has risen by enough. */
static inline bool rawe_order_raise(struct rawe_order *order, uint64_t oldest)
{
    if (!rawe_order_rises(order, oldest)) {
        return false;
    }
    order->limit = oldest + order->most;
    return true;
}

#endif
