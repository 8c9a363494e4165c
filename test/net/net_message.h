/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * A message or PUT that a harness sends through a peer object: its bytes, made from a seed, its
 * memory, which is spoilt as soon as the sender has it back, and the order in which it may become
 * complete and be released.
 */
#ifndef NET_MESSAGE_H
#define NET_MESSAGE_H

#include "routes/rawe_peer.h"

struct net_ledger;

/** A process, and which of those that have been it: one that dies has a successor. */
struct net_process {
    uint32_t index, life;
};

struct net_message {
    struct rawe_message out;         /**< first: what the peer object gets */
    struct rawe_operation operation; /**< the same of a PUT */
    struct rawe_peer *peer;          /**< it was handed to; NULL: not yet */
    uint32_t number;                 /**< in the ledger */
    uint32_t len_bytes;
    uint64_t content_seed;
    uint64_t content_offset; /**< of its first byte */
    bool completed;
    bool held; /**< completed early: its own memory is still in use */
    /** Complete for its sender; `early`: `released` will follow. */
    void (*ended)(struct net_message *message, enum rawe_status status, bool early);
    void (*released)(struct net_message *message);
    uint8_t *own; /**< the first piece; with room for all if it may complete early */
    size_t own_bytes;
    uint8_t *second; /**< the second piece, or NULL */
    /* What the ledger has to know, and what it keeps of it; see net_ledger.h. */
    struct net_ledger *ledger;
    struct net_process from, to;
    const struct rawe_engine *receiver; /**< NULL: `to` has died */
    bool *whole_excused;                /**< of what it is a part of; or NULL */
    uint64_t turn;           /**< of those to the process, by send/rawe_order.h; 0: not sent yet */
    uint32_t overtaken_most; /**< that many may not be overtaken */
    uint8_t lane;
    bool put;
    bool submitted, delivered;
    bool
        may_overtake; /**< others on its lane: one frame may carry it, and it is sent in no order */
    bool excused;     /**< may be lost */
    bool orphaned;    /**< its sender has died before it was complete and released */
};

void net_content_fill(uint8_t *out, uint64_t seed, uint64_t offset, size_t len_bytes);
/** Offset of the first byte that differs, or len_bytes. */
size_t net_content_compare(const uint8_t *data, uint64_t seed, uint64_t offset, size_t len_bytes);
/** A seed for each message of a run. */
uint64_t net_content_seed(uint64_t seed, uint64_t number);

/**
 * Lay the message out in memory: a first piece of `first_bytes`, the rest elsewhere. It begins with
 * its number where `numbered`. `early`: it may be complete before it has been acknowledged.
 */
void net_message_lay_out(struct net_message *message, uint32_t first_bytes, bool numbered,
                         bool early);
/** As btl_sendi does it. False: the peer object does not copy it now. */
bool net_message_copy(struct net_message *message, struct rawe_peer *peer);
/** As btl_send does it; net_message_conclude has to follow. */
enum rawe_peer_result net_message_send(struct net_message *message, struct rawe_peer *peer);
/** The result of net_message_send: calls `ended` if the message is complete. */
void net_message_conclude(struct net_message *message, enum rawe_peer_result result);
/** Send it, laid out in one piece, as PUT data to where `operation` says. False without memory. */
bool net_message_put(struct net_message *message, struct rawe_peer *peer, bool spreads);
/** It will not be sent, or its sender does not live any more: take the memory back. */
void net_message_drop(struct net_message *message);

#endif
