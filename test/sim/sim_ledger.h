/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The ledger: every message and PUT of a run, what its bytes are, and what has become of it.
 */
#ifndef SIM_LEDGER_H
#define SIM_LEDGER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "net_message.h"

struct sim;
struct sim_channel;
struct sim_message;
struct sim_node;
struct sim_transfer;

enum sim_message_kind {
    SIM_MESSAGE_PLAIN,
    SIM_MESSAGE_REQUEST, /**< wants a reply of `argument` bytes */
    SIM_MESSAGE_REPLY,
    SIM_MESSAGE_OFFER,  /**< rendezvous: there is data for you */
    SIM_MESSAGE_GRANT,  /**< put it there */
    SIM_MESSAGE_PUT,    /**< not a message: a part of the data */
    SIM_MESSAGE_FINISH, /**< it is all there */
};

struct sim_message {
    struct net_message net; /**< first: what callbacks get */
    struct sim *sim;
    uint8_t kind; /**< enum sim_message_kind */
    uint8_t tag;
    uint8_t lane;
    bool submitted;
    bool queued; /**< it is not complete when sim_submit returns */
    bool delivered;
    bool lossy; /**< an end of it was closed or died: may arrive or not, but not twice */
    uint32_t source, destination;
    uint32_t source_life, destination_life;
    uint32_t argument;
    struct sim_channel *channel; /**< it was submitted on; may be gone */
    struct sim_transfer *transfer;
    uint32_t transfer_offset; /**< PUT */
    struct sim_message *next_retry;
};

/**
 * Messages from this length on begin with their number; shorter ones are found by their content.
 */
#define SIM_NUMBERED_BYTES 4u

struct sim_ledger {
    struct sim_message **messages; /**< by number */
    uint32_t count, room;
    uint32_t first_open;  /**< all before this one are settled */
    uint32_t open_sends;  /**< of living nodes */
    uint32_t held;        /**< complete for living nodes, their memory still in use */
    uint32_t undelivered; /**< that must arrive */
    uint64_t deliveries, puts;
};

struct sim_message *sim_ledger_new(struct sim *sim, uint8_t kind, uint32_t source,
                                   uint32_t destination, uint32_t len_bytes);
/** Find the message that is delivered and note it. NULL: a lie, where lies are to be expected. */
struct sim_message *sim_ledger_deliver(struct sim_channel *channel, uint8_t tag,
                                       const uint8_t *data, size_t len_bytes);
/** What is on its way on this channel, either direction, may be lost from now on. */
void sim_ledger_closed(struct sim_channel *channel);
/** The process on the node has died. */
void sim_ledger_died(struct sim_node *node);
void sim_ledger_free(struct sim *sim);

/** From now on it may be lost, but still not arrive twice. */
void sim_ledger_excuse(struct sim *sim, struct sim_message *message);

/** Hand a message to the peer object of its source. */
void sim_submit(struct sim *sim, struct sim_message *message);
/** Has the peer's engine perhaps deferred it for a program outside MPI? Or has somebody lied? */
bool sim_submit_may_be_deferred(const struct sim_message *message);

#endif
