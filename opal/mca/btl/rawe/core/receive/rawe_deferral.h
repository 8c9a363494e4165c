/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Deferral: messages that came and sends that completed while the owner of an engine could not be
 * called, kept in order until it can.
 */
#ifndef RAWE_DEFERRAL_H
#define RAWE_DEFERRAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "rawe_reassembly.h"
#include "send/rawe_sendqueue.h"

struct rawe_conn;

/** The messages of one frame or bundle, or a fragmented message, for the owner. */
struct rawe_deferred {
    struct rawe_deferred *next;
    struct rawe_conn *conn;
    size_t len_bytes;
    size_t allocated_bytes; /**< memory it takes, its buffer included */
    uint8_t *buffer;        /**< of what fills one; NULL: all is in `payload` */
    uint8_t tag;            /**< of a fragmented message */
    bool fragmented;        /**< one message; otherwise MESSAGE fragments */
    uint8_t payload[];
};

struct rawe_deferral {
    bool active;         /**< the owner cannot be called now */
    bool pending;        /**< there is something to be delivered or completed */
    bool fragments_wait; /**< fragmented messages stayed where they were for lack of memory */
    bool refused;        /**< frames were not taken as it is full: see rawe_conn_admit */
    bool discards;       /**< the owner never comes back: nothing is kept */
    size_t bytes;        /**< allocated for `first` and what follows it */
    size_t limit_bytes;  /**< see rawe_deferral_full */
    struct rawe_deferred *first, **tail;
    struct rawe_send *completed[2], **completed_tail[2]; /**< DONE, FAILED */
};

/**
 * No more messages are kept: frames with messages are not taken, and their senders get no credit.
 * The limit may be exceeded by one message.
 */
static inline bool rawe_deferral_full(const struct rawe_deferral *deferral)
{
    return deferral->bytes >= deferral->limit_bytes;
}

/** Keep the payload of a MESSAGE frame. False without memory. */
bool rawe_deferral_keep(struct rawe_deferral *deferral, struct rawe_conn *conn,
                        const uint8_t *payload, size_t len_bytes);

/**
 * Keep the fragmented messages of a connection whose turn it is; the buffers of short ones go back
 * to `pool`. Without memory, or when it is full, they stay where they are, and fragments_wait is
 * set.
 */
void rawe_deferral_keep_fragmented(struct rawe_deferral *deferral, struct rawe_buffer_pool *pool,
                                   struct rawe_conn *conn, struct rawe_reassembly *reassembly);

/**
 * The same whatever the limit: the connection restarts, and the peer believes that the messages
 * have arrived. What there is no memory for is left.
 */
void rawe_deferral_rescue_fragmented(struct rawe_deferral *deferral, struct rawe_buffer_pool *pool,
                                     struct rawe_conn *conn, struct rawe_reassembly *reassembly);

/** Keep a list of completed sends, all with the same status. */
void rawe_deferral_keep_completed(struct rawe_deferral *deferral, struct rawe_send *list,
                                  enum rawe_status status);

/** Take out the completed sends of one status; NULL: none. */
struct rawe_send *rawe_deferral_take_completed(struct rawe_deferral *deferral,
                                               enum rawe_status status);

/** Take out the oldest entry, to be given to rawe_deferral_drop; NULL: none. */
struct rawe_deferred *rawe_deferral_take(struct rawe_deferral *deferral);

/** Free an entry that was taken out, and give its buffer back to the pool. */
void rawe_deferral_drop(struct rawe_deferral *deferral, struct rawe_buffer_pool *pool,
                        struct rawe_deferred *entry);

/**
 * The owner never comes back: drop what is kept, and from now on what would be. Messages are taken
 * all the same, so that peers have them acknowledged. No completed sends are kept at that time.
 */
void rawe_deferral_discard(struct rawe_deferral *deferral, struct rawe_buffer_pool *pool);

/** Drop what is kept for a connection that ends. */
void rawe_deferral_forget(struct rawe_deferral *deferral, struct rawe_buffer_pool *pool,
                          const struct rawe_conn *conn);

#endif
