/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Send queue: what a connection sends that is not wholly in frames yet, and the numbers of the
 * fragmented messages under way. Long replies wait behind the rest, which is in order: megabytes of
 * them would hold up a message for milliseconds. A message lets a reply pass when 64 KiB have passed
 * replies, and replies are cut where messages wait, so neither waits for long. Only the first send
 * can be half in frames.
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
    struct rawe_send *last;  /**< of those that are no long replies, which are behind it */
    uint64_t passed_bytes;   /**< that passed long replies, less what of these has come to frames */
    uint64_t bytes;          /**< of what is queued, not in frames yet */
    uint64_t movable_bytes;  /**< ... that may go by another connection */
    uint64_t messages_done;  /**< bitmap of completed messages from messages_open on */
    uint32_t count;          /**< sends in the queue */
    uint32_t message_number; /**< of the next fragmented message */
    uint32_t messages_open;  /**< oldest fragmented message that is not complete */
    bool awaited; /**< something in frames is waited for; its acknowledgement not asked for yet */
    struct rawe_sends reports; /**< transmitted, to be reported as such */
};

/** Empty; fragmented messages are numbered from `first_number` on. */
void rawe_sendqueue_init(struct rawe_sendqueue *queue, uint32_t first_number);

/** A new life of the connection: numbers restart, what is queued stays queued. */
void rawe_sendqueue_renumber(struct rawe_sendqueue *queue, uint32_t first_number);

/** Queue a send, none of which is in frames; computes its total_bytes. */
void rawe_sendqueue_push(struct rawe_sendqueue *queue, struct rawe_send *send);

/** The same in front of all others. */
void rawe_sendqueue_push_first(struct rawe_sendqueue *queue, struct rawe_send *send);

/** Take the first send off the queue and return it. The queue must not be empty. */
struct rawe_send *rawe_sendqueue_pop(struct rawe_sendqueue *queue);

/** Move about `bytes`, in parts of `grain_bytes` or more. Returns how much. */
uint64_t rawe_sendqueue_move(struct rawe_sendqueue *to, struct rawe_sendqueue *from, uint64_t bytes,
                             uint64_t grain_bytes);

/** Take all sends off; returns them as a list. */
struct rawe_send *rawe_sendqueue_clear(struct rawe_sendqueue *queue);

/** A send of the queue, to which no frame refers, has other pieces now, none of it in frames. */
void rawe_sendqueue_replaced(struct rawe_sendqueue *queue, struct rawe_send *send);

/** The next `bytes` of the first send are in a frame. True: it is complete, and off the queue. */
bool rawe_sendqueue_framed(struct rawe_sendqueue *queue, uint64_t bytes);

/** May another message be fragmented? Not while the receiver has no place for one more. */
static inline bool rawe_sendqueue_may_number(const struct rawe_sendqueue *queue)
{
    return queue->message_number - queue->messages_open < RAWE_REASSEMBLY_MESSAGES;
}

/** Make a send, allowed by the above, a fragmented message with the next number. */
static inline void rawe_sendqueue_number(struct rawe_sendqueue *queue, struct rawe_send *send)
{
    send->fragmented = true;
    send->message_number = queue->message_number++;
}

/** A frame of `send` has left the window. True: it was the last, the send is complete. */
bool rawe_sendqueue_released(struct rawe_sendqueue *queue, struct rawe_send *send);

/** A send is wholly transmitted: rawe_sendqueue_next_report returns it, unless it is done before. */
void rawe_sendqueue_report(struct rawe_sendqueue *queue, struct rawe_send *send);

/** Take the next send off the list of those; NULL: there is none. */
struct rawe_send *rawe_sendqueue_next_report(struct rawe_sendqueue *queue);

/**
 * A frame has taken what it can; `awaited`: of a send that is waited for. True: ask for an
 * acknowledgement, as this or an earlier frame is waited for, and the queue is empty.
 */
static inline bool rawe_sendqueue_asks(struct rawe_sendqueue *queue, bool awaited)
{
    awaited = queue->awaited || awaited;
    queue->awaited = awaited && queue->first != NULL;
    return awaited && queue->first == NULL;
}

/** Where bytes of its pieces are in `copy`, which has all of them. NULL: they are not its. */
uint8_t *rawe_send_rebase(const struct rawe_send *send, const void *from, uint8_t *copy);

#endif
