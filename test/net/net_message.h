/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * A message or PUT that a harness sends through a peer object: its bytes, generated from a seed,
 * its memory, which is overwritten as soon as the sender owns it again, and the order in which it
 * may be completed and released.
 */
#ifndef NET_MESSAGE_H
#define NET_MESSAGE_H

#include "routes/rawe_peer.h"

struct net_ledger;

/** A process; `life` counts its incarnations: a process that dies has a successor. */
struct net_process {
    uint32_t index, life;
};

struct net_message {
    struct rawe_message out;         /**< must be first: passed to the peer object */
    struct rawe_operation operation; /**< passed to the peer object for a PUT */
    struct rawe_peer *peer;          /**< peer object that sends it; NULL: none yet */
    uint32_t number;                 /**< number in the ledger */
    uint32_t len_bytes;
    uint64_t content_seed;
    uint64_t content_offset; /**< content offset of its first byte */
    bool completed;
    bool held; /**< completed early: its own memory is still in use */
    /** Called when it is complete; `early`: `released` will follow. */
    void (*ended)(struct net_message *message, enum rawe_status status, bool early);
    void (*released)(struct net_message *message);
    uint8_t *own; /**< the first piece; room for the whole message if it may complete early */
    size_t own_bytes;
    uint8_t *second; /**< the second piece, or NULL */
    /* State of the ledger; see net_ledger.h. */
    struct net_ledger *ledger;
    struct net_process from, to;
    const struct rawe_engine *receiver; /**< NULL: `to` has died */
    bool *whole_excused;                /**< flag of the whole message it is part of; or NULL */
    uint64_t
        turn; /**< its turn among messages to the process (send/rawe_order.h); 0: not sent yet */
    uint32_t overtaken_most; /**< it must overtake fewer messages than this */
    uint8_t lane;
    bool put;
    bool submitted, delivered;
    bool may_overtake; /**< on its lane, because it is unordered and may fit a frame */
    bool excused;      /**< may be lost */
    bool orphaned;     /**< its sender died before it was complete and released */
};

void net_content_fill(uint8_t *out, uint64_t seed, uint64_t offset, size_t len_bytes);
/** Return the offset of the first byte that differs, or len_bytes. */
size_t net_content_compare(const uint8_t *data, uint64_t seed, uint64_t offset, size_t len_bytes);
/** Return the seed of message `number` of a run. */
uint64_t net_content_seed(uint64_t seed, uint64_t number);

/**
 * Lay the message out in memory: a first piece of `first_bytes`, and the rest elsewhere.
 * `numbered`: it begins with its number. `early`: it may be complete before it is acknowledged.
 */
void net_message_lay_out(struct net_message *message, uint32_t first_bytes, bool numbered,
                         bool early);
/** Send a message as btl_sendi does. Returns false if the peer object cannot copy it now. */
bool net_message_copy(struct net_message *message, struct rawe_peer *peer);
/** Send a message as btl_send does; pass the result to net_message_conclude. */
enum rawe_peer_result net_message_send(struct net_message *message, struct rawe_peer *peer);
/** Handle the result of net_message_send: call `ended` if the message is complete. */
void net_message_conclude(struct net_message *message, enum rawe_peer_result result);
/** Send a one-piece message as the data of PUT `operation`. Returns false if out of memory. */
bool net_message_put(struct net_message *message, struct rawe_peer *peer, bool spreads);
/** Free the memory of a message that will not be sent, or whose sender has died. */
void net_message_drop(struct net_message *message);

#endif
