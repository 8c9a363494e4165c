/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Reassembly: puts fragmented messages together and delivers them in the order of their numbers.
 * The sender has at most RAWE_REASSEMBLY_MESSAGES in progress, and each fragment is added once (the
 * receive window ensures that), so a byte count shows when a message is complete. Complete messages
 * are deferred while the owner of the engines cannot be called.
 */
#ifndef RAWE_REASSEMBLY_H
#define RAWE_REASSEMBLY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/rawe_output.h"
#include "base/rawe_wire.h"

/** Buffers of one size, kept for reuse; shared by all connections of an engine. */
struct rawe_buffer_pool {
    void *free; /**< list, linked through the buffers' first bytes */
    size_t buffer_bytes;
    unsigned allocated; /**< buffers in existence */
    unsigned limit;     /**< only rawe_buffer_take_urgent exceeds it */
};

void rawe_buffer_pool_init(struct rawe_buffer_pool *pool, size_t buffer_bytes, unsigned limit);
/** Free the unused buffers. All buffers must have been returned. */
void rawe_buffer_pool_free(struct rawe_buffer_pool *pool);
/** Take a buffer. NULL at the limit or when out of memory. */
void *rawe_buffer_take(struct rawe_buffer_pool *pool);
/** Take a buffer, even beyond the limit, for the message that all others are waiting for. */
void *rawe_buffer_take_urgent(struct rawe_buffer_pool *pool);
void rawe_buffer_give(struct rawe_buffer_pool *pool, void *buffer);

/** A message in progress, in a buffer for the longest message. */
struct rawe_partial {
    struct rawe_partial *next; /**< with the next higher number */
    uint32_t number;
    uint32_t total_bytes;
    uint32_t received_bytes;
    uint8_t tag;
    uint8_t kind; /**< RAWE_FRAGMENT_PART or RAWE_FRAGMENT_BUNDLE */
    _Alignas(16) uint8_t content[];
};

/** Initially all zero: nothing is in progress, and message 0 is the first. */
struct rawe_reassembly {
    struct rawe_partial *first; /**< messages in progress; NULL: none */
    uint32_t next;              /**< number of the next message to be delivered */
};

enum rawe_reassembly_result {
    RAWE_REASSEMBLY_TAKEN,     /**< the message may be complete: see rawe_reassembly_ready */
    RAWE_REASSEMBLY_REFUSED,   /**< contradicts earlier fragments or the limits: a hostile frame */
    RAWE_REASSEMBLY_NO_BUFFER, /**< no memory: let the sender resend the fragment */
};

/** Add a fragment. Decoding has checked that it is consistent in itself. */
enum rawe_reassembly_result rawe_reassembly_add(struct rawe_reassembly *reassembly,
                                                struct rawe_buffer_pool *pool,
                                                const struct rawe_fragment *fragment);

/** Return the next message in order, or NULL if it is incomplete. */
const struct rawe_partial *rawe_reassembly_ready(const struct rawe_reassembly *reassembly);

/** Take the next message in order; NULL: it is incomplete. The caller returns its buffer. */
struct rawe_partial *rawe_reassembly_take(struct rawe_reassembly *reassembly);

/** Return where to receive the data of a fragment before rawe_reassembly_add; NULL: anywhere. */
uint8_t *rawe_reassembly_place(struct rawe_reassembly *reassembly, struct rawe_buffer_pool *pool,
                               const struct rawe_fragment *fragment);

/** Return all buffers to the pool. Further messages are numbered from `first` on. */
void rawe_reassembly_clear(struct rawe_reassembly *reassembly, struct rawe_buffer_pool *pool,
                           uint32_t first);

/** A frame received in slices, one frame at a time. A slice out of order discards the frame. */
struct rawe_sliced;

/** Discard an incomplete frame. */
void rawe_sliced_free(struct rawe_sliced **sliced);

enum rawe_slice_result {
    RAWE_SLICE_ADDED,     /**< more slices are missing */
    RAWE_SLICE_WHOLE,     /**< the frame is complete */
    RAWE_SLICE_REFUSED,   /**< out of order, or part of another frame */
    RAWE_SLICE_INVALID,   /**< not a slice at all */
    RAWE_SLICE_NO_MEMORY, /**< the sender will resend the slice */
};

/**
 * Add a slice, whose header and payload are untrusted, to `*sliced`, which is NULL or was allocated
 * here; rawe_sliced_free frees it. With RAWE_SLICE_WHOLE, `payload` and its length in `header`
 * become the frame's. The frame is in `*memory`, which the caller frees.
 */
enum rawe_slice_result rawe_sliced_add(struct rawe_sliced **sliced, uint32_t payload_max_bytes,
                                       struct rawe_header *header, const uint8_t **payload,
                                       void **memory);

/*
 * Deferral: holds deliveries and completions while the owner cannot be called. All engines of a
 * process share one, because messages that arrive over several interfaces must be delivered in the
 * order in which they were accepted: they were acknowledged, and their senders have sent more.
 */

struct rawe_conn;

/** The messages of one frame or bundle, or a fragmented message, for the owner. */
struct rawe_deferred {
    struct rawe_deferred *next;
    struct rawe_conn *conn;
    size_t len_bytes;
    size_t allocated_bytes;        /**< memory used, including its buffer */
    struct rawe_partial *whole;    /**< a message or bundle in its buffer; NULL: in `payload` */
    struct rawe_buffer_pool *pool; /**< the pool of that buffer */
    uint8_t tag;                   /**< of a fragmented message */
    bool fragmented;               /**< true: one message; false: MESSAGE fragments */
    uint8_t payload[];
};

struct rawe_deferral {
    _Alignas(2) bool active; /**< the owner cannot be called now */
    bool pending;            /**< something must be delivered, completed or reported */
    bool fragments_wait;     /**< fragmented messages were not kept, for lack of memory */
    bool losses_wait;        /**< connections have lost data: see rawe_callbacks.lost */
    bool refused;            /**< it was full, so frames were refused: see rawe_conn_admit */
    bool discards;           /**< the owner will not return: keep nothing */
    size_t bytes;            /**< allocated for the list `first` */
    size_t limit_bytes;      /**< see rawe_deferral_full */
    struct rawe_deferred *first, **tail;
    struct rawe_sends completed[2]; /**< DONE, FAILED */
};

/** Initialize an empty deferral. */
void rawe_deferral_init(struct rawe_deferral *deferral, size_t limit_bytes);

/** Return true if messages must be kept: the owner is away, or earlier messages are waiting. */
static inline bool rawe_deferral_holds(const struct rawe_deferral *deferral)
{
    uint16_t both; /* a single comparison, because this runs for every message */
    _Static_assert(offsetof(struct rawe_deferral, pending) == 1, "the two flags are neighbours");
    memcpy(&both, deferral, sizeof(both));
    return both != 0;
}

/**
 * Return true if the deferral is full: no messages are accepted, and peers get no credit. A single
 * message may exceed the limit. No connection's messages may overtake waiting fragmented messages.
 */
static inline bool rawe_deferral_full(const struct rawe_deferral *deferral)
{
    return deferral->bytes >= deferral->limit_bytes || deferral->fragments_wait;
}

/** Return true if there is anything to report to the owner, except waiting fragmented messages. */
static inline bool rawe_deferral_has(const struct rawe_deferral *deferral)
{
    return deferral->first != NULL || deferral->losses_wait ||
           deferral->completed[0].first != NULL || deferral->completed[1].first != NULL;
}

/** Note that the owner has received part of the deferred data. */
static inline void rawe_deferral_note_reported(struct rawe_deferral *deferral)
{
    deferral->pending = deferral->fragments_wait || rawe_deferral_has(deferral);
}

/** Keep the payload of a MESSAGE frame. Returns false when out of memory. */
bool rawe_deferral_keep(struct rawe_deferral *deferral, struct rawe_conn *conn,
                        const uint8_t *payload, size_t len_bytes);

/**
 * Keep the fragmented messages that are next in order, in buffers of `pool`. If the deferral is
 * full, they are not moved, and fragments_wait is set. `all`: ignore the limit, because others must
 * not overtake these acknowledged messages, or the connection is restarting.
 */
void rawe_deferral_keep_fragmented(struct rawe_deferral *deferral, struct rawe_conn *conn,
                                   struct rawe_reassembly *reassembly,
                                   struct rawe_buffer_pool *pool, bool all);

/** Keep a list of completed sends, all with the same status. */
void rawe_deferral_keep_completed(struct rawe_deferral *deferral, struct rawe_send *list,
                                  enum rawe_status status);

/** Take the completed sends of one status; NULL: none. */
struct rawe_send *rawe_deferral_take_completed(struct rawe_deferral *deferral,
                                               enum rawe_status status);

/** Take the oldest entry, for rawe_deferral_drop; NULL: none. */
struct rawe_deferred *rawe_deferral_take(struct rawe_deferral *deferral);

/** Free an entry that was taken, and return its buffer. */
void rawe_deferral_drop(struct rawe_deferral *deferral, struct rawe_deferred *entry);

/** Discard everything, now and later: the owner will not return. Messages are still accepted. */
void rawe_deferral_discard(struct rawe_deferral *deferral);

/** Discard everything kept for a connection that is ending. */
void rawe_deferral_forget(struct rawe_deferral *deferral, const struct rawe_conn *conn);

#endif
