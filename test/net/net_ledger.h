/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The ledger of an in-memory network: the state of every message and PUT, and checks that each
 * event is allowed. Data must arrive exactly once, unchanged, at the process and on the lane it was
 * sent to, and in order if the messages are ordered. A send may complete only once its data has
 * arrived or was copied. Delivery is excused only if one end was closed or has died.
 */
#ifndef NET_LEDGER_H
#define NET_LEDGER_H

#include "net_message.h"

/** Messages from this length on begin with their number; shorter messages are found by content. */
#define NET_NUMBERED_BYTES 4u

struct net_ledger {
    struct net_message **messages; /**< by number */
    uint32_t count, room;
    uint32_t first_unsettled; /**< all before this one are settled */
    uint32_t open;            /**< incomplete sends of living processes */
    uint32_t held;        /**< completed sends of living processes whose memory is still in use */
    uint32_t undelivered; /**< messages that must arrive */
    uint64_t deliveries;
    bool lying;  /**< frames are forged: anything may be acknowledged and delivered */
    bool absent; /**< programs leave MPI at times, so deferred messages may be lost */
    /** Called when a send is complete; `early`: its memory is still in use. */
    void (*ended)(struct net_message *message, enum rawe_status status, bool early);
};

/** A connection, as seen by its receiving process. */
struct net_route {
    struct net_process from, to;
    unsigned lane;
    uint32_t *next_in_order; /**< messages before this number may no longer arrive */
};

/** Enter a message of known length; the ledger gives it a number and content. */
void net_ledger_add(struct net_ledger *ledger, struct net_message *message, uint64_t seed);
/**
 * Record that a message is about to be sent. Its from, to, lane and `put` must be set; it is laid
 * out in memory with a first piece of `first_bytes`. See net_message_lay_out.
 */
void net_ledger_submit(struct net_ledger *ledger, struct net_message *message, uint32_t first_bytes,
                       bool early);
/** Withdraw a message that was refused and will not be sent. */
void net_ledger_withdraw(struct net_message *message);
/** Excuse the loss of a message, which still may not arrive twice. */
void net_ledger_excuse(struct net_message *message);
/** Find the message being delivered, and record its delivery. Returns NULL for a forged message. */
struct net_message *net_ledger_deliver(struct net_ledger *ledger, const struct net_route *route,
                                       uint8_t tag, const uint8_t *data, size_t len_bytes);
/**
 * Excuse the loss of messages in flight in both directions of a route that its receiver closes.
 * `drained`: everything the receiver sent was acknowledged, so it must have arrived.
 */
void net_ledger_closed(struct net_ledger *ledger, const struct net_route *route,
                       const struct rawe_peer *peer, bool drained);
/** Excuse the loss of messages in flight from or to a process that is about to die. */
void net_ledger_died(struct net_ledger *ledger, struct net_process process);
/**
 * Record that a process is about to finalize. Messages to it may be lost, and it gets no
 * completions for its own messages, which must still arrive unless the receiver finalizes as well.
 */
void net_ledger_finalizes(struct net_ledger *ledger, struct net_process process);
/** Check that all required messages of a finalizing process have arrived before it leaves. */
void net_ledger_check_departed(const struct net_ledger *ledger, struct net_process process);
/** Return true if the receiver may have deferred the message, or if frames were forged. */
bool net_ledger_may_be_deferred(const struct net_message *message);
/** Return true if no send is open or held and all required messages have arrived. */
bool net_ledger_is_quiet(const struct net_ledger *ledger);
/** Free all memory, after passing each message to `give` (unless NULL). */
void net_ledger_free(struct net_ledger *ledger, void (*give)(struct net_message *message));

#endif
