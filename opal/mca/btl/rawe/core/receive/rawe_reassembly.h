/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Reassembly: messages that came in fragments are put together here, and handed out in the order of
 * their numbers. The sender has at most RAWE_REASSEMBLY_MESSAGES of them under way, and each
 * fragment is given in once (the acknowledgement tracker sees to that), so counting bytes tells
 * when one is whole. What is whole while the owner of the engines cannot be called is deferred.
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
    unsigned limit;     /**< more only by rawe_buffer_take_urgent */
};

void rawe_buffer_pool_init(struct rawe_buffer_pool *pool, size_t buffer_bytes, unsigned limit);
/** Free the unused buffers; those in use must have been given back. */
void rawe_buffer_pool_free(struct rawe_buffer_pool *pool);
/** A buffer, or NULL at the limit or without memory. */
void *rawe_buffer_take(struct rawe_buffer_pool *pool);
/** The same beyond the limit: for the one message that all others wait for. */
void *rawe_buffer_take_urgent(struct rawe_buffer_pool *pool);
void rawe_buffer_give(struct rawe_buffer_pool *pool, void *buffer);

/** A message under way, in a buffer of a pool for as much and the longest message. */
struct rawe_partial {
    struct rawe_partial *next; /**< the one with the next higher number */
    uint32_t number;
    uint32_t total_bytes;
    uint32_t received_bytes;
    uint8_t tag;
    uint8_t kind; /**< RAWE_FRAGMENT_PART or RAWE_FRAGMENT_BUNDLE */
    _Alignas(16) uint8_t content[];
};

/** All zero: nothing is under way, and message 0 is the first. */
struct rawe_reassembly {
    struct rawe_partial *first; /**< list of those under way; NULL: none */
    uint32_t next; /**< number of the message to be delivered next: they are, in order */
};

enum rawe_reassembly_result {
    RAWE_REASSEMBLY_TAKEN,     /**< is the message whole? See rawe_reassembly_ready */
    RAWE_REASSEMBLY_REFUSED,   /**< contradicts earlier fragments or the limits: a hostile frame */
    RAWE_REASSEMBLY_NO_BUFFER, /**< not taken for lack of memory: let the sender send it again */
};

/** Add a fragment (a decoded one, hence consistent in itself). */
enum rawe_reassembly_result rawe_reassembly_add(struct rawe_reassembly *reassembly,
                                                struct rawe_buffer_pool *pool,
                                                const struct rawe_fragment *fragment);

/** The next message in order, when it is whole; NULL: it is not. */
const struct rawe_partial *rawe_reassembly_ready(const struct rawe_reassembly *reassembly);

/** Take the next message in order, if whole, or NULL. The caller gives the buffer back. */
struct rawe_partial *rawe_reassembly_take(struct rawe_reassembly *reassembly);

/** Where to receive the data of a fragment, which is then given to rawe_reassembly_add; or NULL. */
uint8_t *rawe_reassembly_place(struct rawe_reassembly *reassembly, struct rawe_buffer_pool *pool,
                               const struct rawe_fragment *fragment);

/** Give all buffers back. Messages are numbered from `first` on. */
void rawe_reassembly_clear(struct rawe_reassembly *reassembly, struct rawe_buffer_pool *pool,
                           uint32_t first);

/** A frame that comes in slices, one at a time. A slice out of order loses the frame. */
struct rawe_sliced;

/** Give up what has come of a frame. */
void rawe_sliced_free(struct rawe_sliced **sliced);

enum rawe_slice_result {
    RAWE_SLICE_ADDED,     /**< more slices are missing */
    RAWE_SLICE_WHOLE,     /**< the frame is complete */
    RAWE_SLICE_REFUSED,   /**< out of order, or of another frame */
    RAWE_SLICE_INVALID,   /**< no slice at all */
    RAWE_SLICE_NO_MEMORY, /**< the sender repeats it */
};

/**
 * Add a slice, whose header and payload are untrusted, to `*sliced`, which is NULL or allocated
 * here; free() releases it. With RAWE_SLICE_WHOLE, `payload` and its length in `header` become those
 * of the frame, which lies in `*memory`; the caller frees that.
 */
enum rawe_slice_result rawe_sliced_add(struct rawe_sliced **sliced, uint32_t payload_max_bytes,
                                       struct rawe_header *header, const uint8_t **payload,
                                       void **memory);

/*
 * Deferral: what came and completed while the owner could not be called. There is one for all
 * engines of a process, as messages that came by several interfaces must be delivered in the order
 * in which they were taken: their senders have been told that they have arrived, and sent more.
 */

struct rawe_conn;

/** The messages of one frame or bundle, or a fragmented message, for the owner. */
struct rawe_deferred {
    struct rawe_deferred *next;
    struct rawe_conn *conn;
    size_t len_bytes;
    size_t allocated_bytes;        /**< memory it takes, its buffer included */
    struct rawe_partial *whole;    /**< what fills a buffer; NULL: all is in `payload` */
    struct rawe_buffer_pool *pool; /**< that the buffer belongs to */
    uint8_t tag;                   /**< of a fragmented message */
    bool fragmented;               /**< one message; otherwise MESSAGE fragments */
    uint8_t payload[];
};

struct rawe_deferral {
    _Alignas(2) bool active; /**< the owner cannot be called now */
    bool pending;            /**< there is something to be delivered, completed or reported */
    bool fragments_wait;     /**< fragmented messages stayed where they were for lack of memory */
    bool losses_wait;        /**< connections have lost data meanwhile: see rawe_callbacks.lost */
    bool refused;            /**< frames were not taken as it is full: see rawe_conn_admit */
    bool discards;           /**< the owner never comes back: nothing is kept */
    size_t bytes;            /**< allocated for `first` and what follows it */
    size_t limit_bytes;      /**< see rawe_deferral_full */
    struct rawe_deferred *first, **tail;
    struct rawe_sends completed[2]; /**< DONE, FAILED */
};

/** Nothing is deferred. */
void rawe_deferral_init(struct rawe_deferral *deferral, size_t limit_bytes);

/** Must what comes now be kept? The owner cannot be called, or earlier messages wait for it. */
static inline bool rawe_deferral_holds(const struct rawe_deferral *deferral)
{
    uint16_t both; /* one comparison, for each message */
    _Static_assert(offsetof(struct rawe_deferral, pending) == 1, "the two flags are neighbours");
    memcpy(&both, deferral, sizeof(both));
    return both != 0;
}

/**
 * No more is kept: messages are not taken, and get no credit. One may exceed the limit. Nothing of any
 * connection may pass the fragmented messages that wait.
 */
static inline bool rawe_deferral_full(const struct rawe_deferral *deferral)
{
    return deferral->bytes >= deferral->limit_bytes || deferral->fragments_wait;
}

/** Is there anything to tell the owner? Not of the fragmented messages that wait. */
static inline bool rawe_deferral_has(const struct rawe_deferral *deferral)
{
    return deferral->first != NULL || deferral->losses_wait ||
           deferral->completed[0].first != NULL || deferral->completed[1].first != NULL;
}

/** The owner was told of some. */
static inline void rawe_deferral_note_reported(struct rawe_deferral *deferral)
{
    deferral->pending = deferral->fragments_wait || rawe_deferral_has(deferral);
}

/** Keep the payload of a MESSAGE frame. False without memory. */
bool rawe_deferral_keep(struct rawe_deferral *deferral, struct rawe_conn *conn,
                        const uint8_t *payload, size_t len_bytes);

/**
 * Keep fragmented messages whose turn it is, put together in buffers of `pool`; when full, they stay:
 * fragments_wait. `all`: without limit, as others must not pass them, or the connection restarts. The
 * peer was told that they have arrived.
 */
void rawe_deferral_keep_fragmented(struct rawe_deferral *deferral, struct rawe_conn *conn,
                                   struct rawe_reassembly *reassembly,
                                   struct rawe_buffer_pool *pool, bool all);

/** Keep a list of completed sends, all with the same status. */
void rawe_deferral_keep_completed(struct rawe_deferral *deferral, struct rawe_send *list,
                                  enum rawe_status status);

/** Take out the completed sends of one status; NULL: none. */
struct rawe_send *rawe_deferral_take_completed(struct rawe_deferral *deferral,
                                               enum rawe_status status);

/** Take out the oldest entry, to be given to rawe_deferral_drop; NULL: none. */
struct rawe_deferred *rawe_deferral_take(struct rawe_deferral *deferral);

/** Free an entry that was taken out, and give its buffer back to its pool. */
void rawe_deferral_drop(struct rawe_deferral *deferral, struct rawe_deferred *entry);

/** The owner never comes back: drop everything, now and later. Messages are still taken. */
void rawe_deferral_discard(struct rawe_deferral *deferral);

/** Drop what is kept for a connection that ends. */
void rawe_deferral_forget(struct rawe_deferral *deferral, const struct rawe_conn *conn);

#endif
