/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The ledger of a network in memory: every message and PUT, what has become of it, and whether
 * what happens to it is allowed. What is sent arrives once, as it was sent, at the process and on
 * the lane it was sent to, and in order where order is kept; it is complete when it has arrived,
 * or has been copied; and what has to arrive does, unless it is excused: an end of it was closed
 * or has died.
 */
#ifndef NET_LEDGER_H
#define NET_LEDGER_H

#include "net_message.h"

/** Messages from this length on begin with their number; shorter ones are found by content. */
#define NET_NUMBERED_BYTES 4u

struct net_ledger {
    struct net_message **messages; /**< by number */
    uint32_t count, room;
    uint32_t first_unsettled; /**< all before this one are settled */
    uint32_t open;            /**< sends of living processes that are not complete */
    uint32_t held;            /**< complete for living processes, their memory still in use */
    uint32_t undelivered;     /**< messages that must arrive */
    uint64_t deliveries;
    bool lying;  /**< frames are forged: anything may be acknowledged and delivered */
    bool absent; /**< programs are outside MPI at times: what was deferred for them may be lost */
    /** Complete for its sender; `early`: its memory is still in use. */
    void (*ended)(struct net_message *message, enum rawe_status status, bool early);
};

/** A connection, as the process at its receiving end has it. */
struct net_route {
    struct net_process from, to;
    unsigned lane;
    uint32_t *next_in_order; /**< messages before this one may not arrive on it any more */
};

/** Enter a message with a length into the ledger: it gets a number and content. */
void net_ledger_add(struct net_ledger *ledger, struct net_message *message, uint64_t seed);
/**
 * It is about to be sent: from, to, lane and `put` are known, and it is laid out in memory, with a
 * first piece of `first_bytes`. See net_message_lay_out.
 */
void net_ledger_submit(struct net_ledger *ledger, struct net_message *message, uint32_t first_bytes,
                       bool early);
/** It was not taken, and will not be sent. */
void net_ledger_withdraw(struct net_message *message);
/** From now on it may be lost, but still not arrive twice. */
void net_ledger_excuse(struct net_message *message);
/**
 * Find the message that is delivered, and note it. NULL: a lie, where lies are to be expected.
 */
struct net_message *net_ledger_deliver(struct net_ledger *ledger, const struct net_route *route,
                                       uint8_t tag, const uint8_t *data, size_t len_bytes);
/**
 * The process at the end of a route closes it: what is under way, from it through its peer object
 * or to it, may be lost. `drained`: all it had sent was acknowledged, so all of that has arrived.
 */
void net_ledger_closed(struct net_ledger *ledger, const struct net_route *route,
                       const struct rawe_peer *peer, bool drained);
/** A process is about to die: what is under way from or to it may be lost. */
void net_ledger_died(struct net_ledger *ledger, struct net_process process);
/**
 * A process is about to finalize: what is under way to it may be lost, and it will not be told what
 * becomes of what it has sent. That must arrive, unless its receiver finalizes, too.
 */
void net_ledger_finalizes(struct net_ledger *ledger, struct net_process process);
/** A process that finalizes leaves: all that it has sent and that must arrive has. */
void net_ledger_check_departed(const struct net_ledger *ledger, struct net_process process);
/** Has its receiver perhaps deferred it for a program outside MPI? Or were frames forged? */
bool net_ledger_may_be_deferred(const struct net_message *message);
/** Nothing is open, nothing held, and all that must arrive has. */
bool net_ledger_is_quiet(const struct net_ledger *ledger);
/** Take all memory back. `give` gets each message, or is NULL. */
void net_ledger_free(struct net_ledger *ledger, void (*give)(struct net_message *message));

#endif
