/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Operations on a peer's registered memory: PUT, GET and ATOMIC. Those with a result are kept in a
 * table: the request names its operation by index and key, and the REPLY returns both with the
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

/** Limit on operations in progress. Each may use memory at the peer until its reply is sent. */
#define RAWE_OPERATIONS_MAX 1024u

/** Longer replies may use the bulk lane; shorter ones, which fit any frame, the request's lane. */
#define RAWE_OPERATION_SHORT_BYTES 64u

struct rawe_operation;
struct rawe_peer;

/** One of an operation's sends, or its entry in a list of completions. */
struct rawe_operation_part {
    struct rawe_send send; /**< must be first, for casts */
    struct rawe_operation *operation;
};

/** An operation, which the caller owns until `done`. */
struct rawe_operation {
    /** Called on completion. FAILED: see `refusal`; RAWE_REFUSAL_NONE: the connection failed. */
    void (*done)(struct rawe_operation *operation, enum rawe_status status);
    uint32_t handle_index;
    uint64_t handle_key;
    uint64_t offset;    /**< in the handle */
    uint64_t len_bytes; /**< PUT, GET: not 0; ATOMIC: size of the word, 4 or 8 */
    uint8_t *local;     /**< `len_bytes` long: a PUT's data, otherwise memory for the result */
    uint8_t kind;       /**< RAWE_FRAGMENT_PUT, _GET or _ATOMIC */
    bool spreads;       /**< PUT: split it over all routes to the process; false: copy if short */
    uint8_t atomic;     /**< ATOMIC: enum rawe_atomic */
    uint64_t operand, compare;
    /* the engine's */
    struct rawe_peer *peer;       /**< the target; NULL: not begun by a peer object */
    struct rawe_link link;        /**< in the engine's list of waiting GETs, or in the table's */
    struct rawe_operation *whole; /**< the operation that this is a piece of */
    struct rawe_budget *budget;   /**< the limit shared with other operations; NULL: none */
    uint64_t asked_bytes;         /**< GET in pieces: how many bytes have been requested */
    struct rawe_operation_table *table; /**< NULL: not in a table */
    enum rawe_refusal refusal;
    enum rawe_status status;
    unsigned parts;       /**< unfinished sends, and the reply */
    uint32_t index;       /**< in the table */
    uint64_t key;         /**< never used before */
    uint64_t left_bytes;  /**< bytes missing from the result */
    uint64_t progress_ns; /**< when it began, or when part of the result last arrived */
    uint32_t peer_key;    /**< of the interface to which its connection belongs */
    uint16_t peer_port;
    struct rawe_operation_part request;    /**< the request, or the data of a PUT */
    struct rawe_operation_part completion; /**< when the reply is complete */
    uint8_t request_bytes[RAWE_REQUEST_BYTES];
};

struct rawe_operation_table {
    struct rawe_operation *entries[RAWE_OPERATIONS_MAX]; /**< by index; NULL: free */
    struct rawe_link under_way;                          /**< list of all operations */
    uint32_t in_use;                                     /**< length of that list */
    uint16_t of_peer[RAWE_OPERATIONS_MAX]; /**< of these on a peer, by a hash of its address */
    uint32_t next;                         /**< where to start looking for a free entry */
    uint64_t last_key;                     /**< key of the newest operation */
};

/** Return the operation that contains this link. */
static inline struct rawe_operation *rawe_operation_of(struct rawe_link *link)
{
    return RAWE_OWNER(link, struct rawe_operation, link);
}

/** GETs this long take longer than the system call that holding their requests back would save. */
#define RAWE_OPERATION_PROMPT_BYTES 32768u

/**
 * Return true if a request must not be held back. The caller of an ATOMIC waits for it, or releases
 * a lock with it, and may leave MPI next. The request of a long GET, held back while others are
 * received, would wait for a GET of the peer to be served: two long messages in opposite directions
 * would be sent one by one.
 */
static inline bool rawe_operation_is_prompt(const struct rawe_operation *operation)
{
    return operation->kind == RAWE_FRAGMENT_ATOMIC ||
           (operation->kind == RAWE_FRAGMENT_GET &&
            operation->len_bytes >= RAWE_OPERATION_PROMPT_BYTES);
}

/** Initialize an empty table. Its keys start after `last_key`. */
void rawe_operation_table_init(struct rawe_operation_table *table, uint64_t last_key);

/**
 * Return true if another operation on this peer may enter: if it has fewer than are free. So
 * operations on a stopped peer do not block those on others.
 */
bool rawe_operation_has_room(const struct rawe_operation_table *table,
                             const struct rawe_peer *peer);

/** Enter an operation and assign it an index and a key. Returns false without room. */
bool rawe_operation_enter(struct rawe_operation_table *table, struct rawe_operation *operation);

/** Remove an operation from its table, because no more data will arrive. */
void rawe_operation_remove(struct rawe_operation *operation);

/** Find the operation on this peer's memory that a REPLY names; NULL: none. */
struct rawe_operation *rawe_operation_find(const struct rawe_operation_table *table, uint32_t index,
                                           uint64_t key, uint32_t peer_key, uint16_t peer_port);

/** Return when operations on a peer last made progress; 0: none. `began`: that was a beginning. */
uint64_t rawe_operation_progress_ns(const struct rawe_operation_table *table, uint32_t peer_key,
                                    uint16_t peer_port, bool *began);

/** Return where to put `len_bytes` at `offset` of the result; NULL: more than was requested. */
uint8_t *rawe_operation_place(const struct rawe_operation *operation, uint64_t offset,
                              uint64_t len_bytes);

/**
 * Remove the operations that may never be answered, because the connection to a peer on this lane
 * has ended, and append their completions. On the express lane, these are the operations whose
 * requests are no longer queued; on the bulk lane, only those whose replies may also use that lane.
 */
void rawe_operation_abandon(struct rawe_operation_table *table, uint32_t peer_key,
                            uint16_t peer_port, uint8_t lane, struct rawe_sends *completions);

#endif
