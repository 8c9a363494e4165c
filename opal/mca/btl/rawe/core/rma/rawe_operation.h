/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Operations on a peer's registered memory: PUT, GET and ATOMIC. Those that bring something back are
 * in a table: the request names its operation by index and key, the REPLY brings both back with the
 * data. A PUT is complete when its data has been acknowledged.
 */
#ifndef RAWE_OPERATION_H
#define RAWE_OPERATION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/rawe_list.h"
#include "base/rawe_output.h"
#include "base/rawe_wire.h"

/** Operations under way at most. Each may take a peer's memory until its reply is sent. */
#define RAWE_OPERATIONS_MAX 1024u

/** Longer replies may take the bulk lane, others the request's connection. Fits any frame. */
#define RAWE_OPERATION_SHORT_BYTES 64u

struct rawe_operation;
struct rawe_peer;

/** Something that an operation sends; or its place in a list of what is complete. */
struct rawe_operation_part {
    struct rawe_send send; /**< first: cast back from it */
    struct rawe_operation *operation;
};

/** The caller owns it until `done`. */
struct rawe_operation {
    /** Complete. FAILED: `refusal` says why, RAWE_REFUSAL_NONE: the connection has failed. */
    void (*done)(struct rawe_operation *operation, enum rawe_status status);
    uint32_t handle_index;
    uint64_t handle_key;
    uint64_t offset;    /**< in the handle */
    uint64_t len_bytes; /**< PUT, GET: not 0; ATOMIC: of the word, 4 or 8 */
    uint8_t *local;     /**< `len_bytes`: the data of a PUT; else where the result goes */
    uint8_t kind;       /**< RAWE_FRAGMENT_PUT, _GET or _ATOMIC */
    bool spreads;   /**< PUT: in parts over all routes to the process; else a short one is copied */
    uint8_t atomic; /**< ATOMIC: enum rawe_atomic */
    uint64_t operand, compare;
    /* the engine's */
    struct rawe_peer *peer;       /**< it goes to; NULL: not begun by a peer object */
    struct rawe_link link;        /**< in the engine's list of those that wait, or the table's */
    struct rawe_operation *whole; /**< it is a piece of that one */
    struct rawe_inflow *inflow;   /**< the limit it shares with others; NULL: none */
    uint64_t asked_bytes;         /**< of a GET in pieces: from the beginning on */
    struct rawe_operation_table *table; /**< NULL: it is not in one */
    enum rawe_refusal refusal;
    enum rawe_status status;
    unsigned parts;       /**< what is sent, and the reply, as far as they are not finished */
    uint32_t index;       /**< in the table */
    uint64_t key;         /**< never used before */
    uint64_t left_bytes;  /**< of the result */
    uint64_t progress_ns; /**< when it began, or some of the result came last */
    uint32_t peer_key;    /**< of the interface that its connection belongs to */
    uint16_t peer_port;
    struct rawe_operation_part request;    /**< or the data of a PUT */
    struct rawe_operation_part completion; /**< of the reply */
    uint8_t request_bytes[RAWE_REQUEST_BYTES];
};

struct rawe_operation_table {
    struct rawe_operation *entries[RAWE_OPERATIONS_MAX]; /**< by index; NULL: free */
    struct rawe_link under_way;                          /**< all of them */
    uint32_t in_use;                                     /**< how many they are */
    uint32_t next;     /**< where to look for a free entry first */
    uint64_t last_key; /**< given to the newest operation */
};

/** The operation that has this link. */
static inline struct rawe_operation *rawe_operation_of(struct rawe_link *link)
{
    return RAWE_OWNER(link, struct rawe_operation, link);
}

/** Empty; keys are given from behind `last_key` on. */
void rawe_operation_table_init(struct rawe_operation_table *table, uint64_t last_key);

/** Enter an operation, and give it index and key. False at the limit. */
bool rawe_operation_enter(struct rawe_operation_table *table, struct rawe_operation *operation);

/** Take it out of its table: nothing more will come. */
void rawe_operation_remove(struct rawe_operation *operation);

/** The operation under way to that peer that a REPLY names; NULL: none. */
struct rawe_operation *rawe_operation_find(const struct rawe_operation_table *table, uint32_t index,
                                           uint64_t key, uint32_t peer_key, uint16_t peer_port);

/** When operations to that peer last made progress; 0: none is under way. `began`: one began. */
uint64_t rawe_operation_progress_ns(const struct rawe_operation_table *table, uint32_t peer_key,
                                    uint16_t peer_port, bool *began);

/** Where `len_bytes` at `offset` of its result go, or NULL when they are more than was asked for. */
uint8_t *rawe_operation_place(const struct rawe_operation *operation, uint64_t offset,
                              uint64_t len_bytes);

/**
 * The connection to a peer for this lane has ended. Take out the operations that may not be answered
 * any more: on the express lane those whose requests are not in a queue any more, on the bulk lane
 * those of them whose reply may come there. Appends their completions.
 */
void rawe_operation_abandon(struct rawe_operation_table *table, uint32_t peer_key,
                            uint16_t peer_port, uint8_t lane, struct rawe_sends *completions);

#endif
