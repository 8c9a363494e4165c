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
 * The limit is computed anew when it has been reached, and then with acknowledgements. The hot path
 * compares and counts.
 */
#ifndef RAWE_ORDER_H
#define RAWE_ORDER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/rawe_list.h"

/** No message overtakes as many others to the same process. */
#define RAWE_ORDER_MOST 8192u

/** The limit rises by as much at least: computing it and waking connections costs time. */
#define RAWE_ORDER_STEP (RAWE_ORDER_MOST / 8u)

/** Of the messages to a process. Numbers begin with 1; 0: no message. */
struct rawe_order {
    uint64_t next;          /**< number of the next message */
    uint64_t limit;         /**< messages before this one may be sent */
    bool waits;             /**< the limit was reached: acknowledgements have to raise it */
    struct rawe_link conns; /**< connections to the process that are awake */
};

static inline void rawe_order_init(struct rawe_order *order)
{
    *order = (struct rawe_order){.next = 1, .limit = 1 + RAWE_ORDER_MOST};
    rawe_list_init(&order->conns);
}

/** One object goes on with what two have had, of which one may be new. Numbers are not less then. */
static inline void rawe_order_merge(struct rawe_order *to, struct rawe_order *from)
{
    to->next = to->next > from->next ? to->next : from->next;
    to->limit = to->limit > from->limit ? to->limit : from->limit;
    to->waits = to->waits || from->waits;
    rawe_list_append_all(&to->conns, &from->conns);
}

/** `oldest`: the first message that is not acknowledged. False: the limit has not risen by enough. */
static inline bool rawe_order_raise(struct rawe_order *order, uint64_t oldest)
{
    if (oldest + RAWE_ORDER_MOST < order->limit + RAWE_ORDER_STEP) {
        return false;
    }
    order->limit = oldest + RAWE_ORDER_MOST;
    return true;
}

#endif
