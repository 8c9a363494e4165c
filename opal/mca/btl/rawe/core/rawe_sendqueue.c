/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Send queue: see rawe_sendqueue.h.
 */
#include "rawe_sendqueue.h"

#include <assert.h>

_Static_assert(RAWE_REASSEMBLY_MESSAGES <= 64, "messages_done has a bit for each of them");

void rawe_sendqueue_init(struct rawe_sendqueue *queue, uint32_t first_number)
{
    queue->first = NULL;
    queue->tail = &queue->first;
    queue->bytes = 0;
    queue->count = 0;
    rawe_sendqueue_renumber(queue, first_number);
}

void rawe_sendqueue_renumber(struct rawe_sendqueue *queue, uint32_t first_number)
{
    queue->message_number = queue->messages_open = first_number;
    queue->messages_done = 0;
}

/** Nothing of it is in frames. */
static void prepare(struct rawe_sendqueue *queue, struct rawe_send *send)
{
    send->framed_bytes = 0;
    send->frames = 0;
    send->fragmented = send->to_report = false;
    send->total_bytes = 0;
    for (unsigned i = 0; i < send->piece_count; i++) {
        send->total_bytes += send->pieces[i].len_bytes;
    }
    assert(send->total_bytes != 0);
    queue->bytes += send->total_bytes;
    queue->count++;
}

void rawe_sendqueue_push(struct rawe_sendqueue *queue, struct rawe_send *send)
{
    prepare(queue, send);
    send->next = NULL;
    *queue->tail = send;
    queue->tail = &send->next;
}

void rawe_sendqueue_push_first(struct rawe_sendqueue *queue, struct rawe_send *send)
{
    prepare(queue, send);
    send->next = queue->first;
    queue->first = send;
    if (send->next == NULL) {
        queue->tail = &send->next;
    }
}

struct rawe_send *rawe_sendqueue_pop(struct rawe_sendqueue *queue)
{
    struct rawe_send *send = queue->first;
    queue->first = send->next;
    queue->count--;
    queue->bytes -= send->total_bytes - send->framed_bytes;
    if (queue->first == NULL) {
        queue->tail = &queue->first;
    }
    return send;
}

struct rawe_send *rawe_sendqueue_clear(struct rawe_sendqueue *queue)
{
    struct rawe_send *list = queue->first;
    queue->first = NULL;
    queue->tail = &queue->first;
    queue->bytes = 0;
    queue->count = 0;
    return list;
}

void rawe_sendqueue_replaced(struct rawe_sendqueue *queue, struct rawe_send *send)
{
    queue->bytes -= send->total_bytes - send->framed_bytes;
    queue->count--;
    prepare(queue, send);
}

bool rawe_sendqueue_framed(struct rawe_sendqueue *queue, uint64_t bytes)
{
    struct rawe_send *send = queue->first;
    send->framed_bytes += bytes;
    queue->bytes -= bytes;
    if (send->framed_bytes != send->total_bytes) {
        return false;
    }
    (void)rawe_sendqueue_pop(queue);
    return true;
}

bool rawe_sendqueue_released(struct rawe_sendqueue *queue, struct rawe_send *send)
{
    if (--send->frames != 0 || send->framed_bytes != send->total_bytes) {
        return false;
    }
    if (send->fragmented) {
        queue->messages_done |= 1ull << (send->message_number - queue->messages_open);
        while (queue->messages_done & 1) {
            queue->messages_done >>= 1;
            queue->messages_open++;
        }
    }
    return true;
}

uint8_t *rawe_send_rebase(const struct rawe_send *send, const void *from, uint8_t *copy)
{
    for (unsigned i = 0; i < send->piece_count; i++) {
        const struct rawe_bytes *piece = &send->pieces[i];
        size_t at = (size_t)((uintptr_t)from - (uintptr_t)piece->base);
        if (at < piece->len_bytes) {
            return copy + at;
        }
        copy += piece->len_bytes;
    }
    return NULL;
}
