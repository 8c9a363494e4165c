/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Send queue: the sends of a connection that are not yet fully in frames, and the numbers of its
 * fragmented messages in progress. Long replies queue behind everything else, because megabytes of
 * replies would delay a message by milliseconds; the other sends stay in order. After 64 KiB have
 * overtaken replies, messages let a reply pass, and replies are cut when messages are waiting, so
 * neither waits for long. Only the first send can be partly in frames.
 */
#ifndef RAWE_SENDQUEUE_H
#define RAWE_SENDQUEUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/rawe_output.h"
#include "base/rawe_wire.h"

struct rawe_sendqueue {
    struct rawe_send *first, **tail;
    struct rawe_send *last;    /**< last send before the long replies, which follow it */
    uint64_t passed_bytes;     /**< bytes that overtook long replies, minus those framed since */
    uint64_t bytes;            /**< queued, not in frames yet */
    uint64_t movable_bytes;    /**< queued bytes that may move to another connection */
    uint64_t messages_done;    /**< bitmap of completed messages from messages_open on */
    uint32_t count;            /**< sends in the queue */
    uint32_t message_number;   /**< of the next fragmented message */
    uint32_t messages_open;    /**< oldest incomplete fragmented message */
    bool awaited;              /**< a caller awaits a frame that requested no acknowledgement */
    struct rawe_sends reports; /**< transmitted, but not yet reported as transmitted */
};

/** Initialize an empty queue. Fragmented messages are numbered from `first_number` on. */
void rawe_sendqueue_init(struct rawe_sendqueue *queue, uint32_t first_number);

/** Restart the message numbers for a connection that is starting again. Queued sends stay. */
void rawe_sendqueue_renumber(struct rawe_sendqueue *queue, uint32_t first_number);

/** Queue a send that is not in any frame. Computes its total_bytes. */
void rawe_sendqueue_push(struct rawe_sendqueue *queue, struct rawe_send *send);

/** Queue a send in front of all other sends. Computes its total_bytes. */
void rawe_sendqueue_push_first(struct rawe_sendqueue *queue, struct rawe_send *send);

/** Remove and return the first send. The queue must not be empty. */
struct rawe_send *rawe_sendqueue_pop(struct rawe_sendqueue *queue);

/** Move about `bytes`, in parts of at least `grain_bytes`. Returns how many bytes were moved. */
uint64_t rawe_sendqueue_move(struct rawe_sendqueue *to, struct rawe_sendqueue *from, uint64_t bytes,
                             uint64_t grain_bytes);

/** Remove all sends and return them as a list. */
struct rawe_send *rawe_sendqueue_clear(struct rawe_sendqueue *queue);

/** Update the counts for a queued send, not yet in any frame, whose pieces have changed. */
void rawe_sendqueue_replaced(struct rawe_sendqueue *queue, struct rawe_send *send);

/** Note that the next `bytes` of the first send are framed. True: all are, and it is dequeued. */
bool rawe_sendqueue_framed(struct rawe_sendqueue *queue, uint64_t bytes);

/** Return true if another message may be fragmented, because the receiver has room for it. */
static inline bool rawe_sendqueue_may_number(const struct rawe_sendqueue *queue)
{
    return queue->message_number - queue->messages_open < RAWE_REASSEMBLY_MESSAGES;
}

/** Turn a send into a fragmented message with the next number. See rawe_sendqueue_may_number. */
static inline void rawe_sendqueue_number(struct rawe_sendqueue *queue, struct rawe_send *send)
{
    send->fragmented = true;
    send->message_number = queue->message_number++;
}

/** Note that a frame of `send` has left the window. True: it was the last; `send` is complete. */
bool rawe_sendqueue_released(struct rawe_sendqueue *queue, struct rawe_send *send);

/** List a fully transmitted send for rawe_sendqueue_next_report, unless it completes earlier. */
void rawe_sendqueue_report(struct rawe_sendqueue *queue, struct rawe_send *send);

/** Remove and return the next send to be reported as transmitted; NULL: none. */
struct rawe_send *rawe_sendqueue_next_report(struct rawe_sendqueue *queue);

/**
 * Note a complete frame; `awaited`: a caller awaits its send. Returns true if the frame should
 * request an acknowledgement, because this or an earlier frame is awaited and the queue is empty.
 */
static inline bool rawe_sendqueue_asks(struct rawe_sendqueue *queue, bool awaited)
{
    awaited = queue->awaited || awaited;
    queue->awaited = awaited && queue->first != NULL;
    return awaited && queue->first == NULL;
}

/** Map an address in a send's pieces into `copy`, which holds all of them. NULL: not in a piece. */
uint8_t *rawe_send_rebase(const struct rawe_send *send, const void *from, uint8_t *copy);

#endif
