/* SPDX-License-Identifier: BSD-3-Clause */
#include "rawe_sendqueue.h"

#include <assert.h>

/** After this many bytes of messages have overtaken long replies, a long reply is sent. */
#define PASS_BYTES (64u << 10)

/** If messages are waiting, a long reply is cut after this many bytes. */
#define TURN_BYTES (32u << 10)

_Static_assert(RAWE_REASSEMBLY_MESSAGES <= 64, "messages_done has a bit for each of them");

void rawe_sendqueue_init(struct rawe_sendqueue *queue, uint32_t first_number)
{
    *queue = (struct rawe_sendqueue){.tail = &queue->first};
    rawe_sendqueue_renumber(queue, first_number);
}

void rawe_sendqueue_renumber(struct rawe_sendqueue *queue, uint32_t first_number)
{
    queue->message_number = queue->messages_open = first_number;
    queue->messages_done = 0;
    queue->awaited = false;
}

static uint64_t least(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/** Add to the queued bytes of a send. To subtract, pass the negative number modulo 2^64. */
static void add_bytes(struct rawe_sendqueue *queue, const struct rawe_send *send, uint64_t bytes)
{
    queue->bytes += bytes;
    queue->movable_bytes += send->split != NULL ? bytes : 0;
}

/** Prepare a send that is not in any frame, and count it. */
static void prepare_send(struct rawe_sendqueue *queue, struct rawe_send *send)
{
    send->queue = queue;
    send->framed_bytes = 0;
    send->frames = 0;
    send->fragmented = send->to_report = false;
    send->total_bytes = 0;
    for (unsigned i = 0; i < send->piece_count; i++) {
        send->total_bytes += send->pieces[i].len_bytes;
    }
    assert(send->total_bytes != 0);
    add_bytes(queue, send, send->total_bytes);
    queue->count++;
}

static bool is_long_reply(const struct rawe_send *send)
{
    return send->kind == RAWE_FRAGMENT_REPLY && send->split != NULL;
}

static void insert(struct rawe_sendqueue *queue, struct rawe_send **link, struct rawe_send *send)
{
    send->next = *link;
    *link = send;
    if (send->next == NULL) {
        queue->tail = &send->next;
    }
}

/** Return the place after all sends except long replies, and after a partly framed send. */
static struct rawe_send **behind_last(struct rawe_sendqueue *queue)
{
    struct rawe_send *first = queue->first;

    if (queue->last != NULL) {
        return &queue->last->next;
    }
    return first != NULL && first->framed_bytes != 0 ? &first->next : &queue->first;
}

void rawe_sendqueue_push(struct rawe_sendqueue *queue, struct rawe_send *send)
{
    struct rawe_send **link = is_long_reply(send) ? queue->tail : behind_last(queue);

    prepare_send(queue, send);
    if (*link != NULL) {
        if (queue->passed_bytes >= PASS_BYTES) {
            queue->passed_bytes -= least(queue->passed_bytes, (*link)->total_bytes);
            link = &(*link)->next;
        }
        queue->passed_bytes += *link != NULL ? send->total_bytes : 0;
    }
    insert(queue, link, send);
    queue->last = is_long_reply(send) ? queue->last : send;
}

void rawe_sendqueue_push_first(struct rawe_sendqueue *queue, struct rawe_send *send)
{
    prepare_send(queue, send);
    insert(queue, &queue->first, send);
    if (queue->last == NULL && !is_long_reply(send)) {
        queue->last = send;
    }
}

struct rawe_send *rawe_sendqueue_pop(struct rawe_sendqueue *queue)
{
    struct rawe_send *send = queue->first;
    queue->first = send->next;
    queue->last = queue->last == send ? NULL : queue->last;
    queue->count--;
    add_bytes(queue, send, send->framed_bytes - send->total_bytes);
    if (queue->first == NULL) {
        queue->tail = &queue->first;
    }
    return send;
}

/** Return how many bytes of a send stay in its queue if all except `keep_bytes` may move. */
static uint64_t stays_bytes(const struct rawe_send *send, uint64_t keep_bytes, uint64_t grain_bytes)
{
    uint64_t left_bytes = send->total_bytes - send->framed_bytes;
    if (keep_bytes < grain_bytes) {
        /* A partly framed send must keep some bytes with which to complete. */
        keep_bytes = send->framed_bytes != 0 ? grain_bytes : 0;
    }
    return keep_bytes == 0 || keep_bytes + grain_bytes <= left_bytes ? keep_bytes : left_bytes;
}

/** Cut a send after `stay_bytes` more. Returns the rest as a new send; NULL: out of memory. */
static struct rawe_send *cut_send(struct rawe_sendqueue *queue, struct rawe_send *send,
                                  uint64_t stay_bytes)
{
    struct rawe_send *rest = send->split(send);
    if (rest == NULL) {
        return NULL;
    }
    uint64_t at_bytes = send->framed_bytes + stay_bytes;
    uint64_t rest_bytes = send->total_bytes - at_bytes;
    *rest = *send;
    rest->internal = true;
    rest->pieces[0].base = (uint8_t *)send->pieces[0].base + at_bytes;
    rest->pieces[0].len_bytes = rest_bytes;
    rest->offset += at_bytes;
    send->pieces[0].len_bytes = send->total_bytes = at_bytes;
    add_bytes(queue, send, 0 - rest_bytes);
    return rest;
}

uint64_t rawe_sendqueue_move(struct rawe_sendqueue *to, struct rawe_sendqueue *from, uint64_t bytes,
                             uint64_t grain_bytes)
{
    uint64_t keep_bytes = from->movable_bytes > bytes ? from->movable_bytes - bytes : 0;
    uint64_t had_bytes = from->bytes;
    struct rawe_send **link = &from->first;
    from->last = NULL;
    while (*link != NULL) {
        struct rawe_send *send = *link, *goes = NULL;
        uint64_t left_bytes = send->total_bytes - send->framed_bytes;
        if (send->split != NULL && keep_bytes < left_bytes) {
            uint64_t stay_bytes = stays_bytes(send, keep_bytes, grain_bytes);
            if (stay_bytes == 0) {
                goes = send;
                *link = send->next;
                add_bytes(from, send, 0 - left_bytes);
                from->count--;
            } else if (stay_bytes < left_bytes) {
                goes = cut_send(from, send, stay_bytes);
            }
            keep_bytes = 0;
        } else if (send->split != NULL) {
            keep_bytes -= left_bytes;
        }
        if (goes != send) {
            from->last = is_long_reply(send) ? from->last : send;
            link = &send->next;
        }
        if (goes != NULL) {
            rawe_sendqueue_push(to, goes);
        }
    }
    from->tail = link;
    return had_bytes - from->bytes;
}

struct rawe_send *rawe_sendqueue_clear(struct rawe_sendqueue *queue)
{
    struct rawe_send *list = queue->first;
    queue->first = queue->last = NULL;
    queue->tail = &queue->first;
    queue->bytes = queue->movable_bytes = queue->passed_bytes = 0;
    queue->count = 0;
    return list;
}

void rawe_sendqueue_replaced(struct rawe_sendqueue *queue, struct rawe_send *send)
{
    add_bytes(queue, send, send->framed_bytes - send->total_bytes);
    queue->count--;
    prepare_send(queue, send);
}

/** Cut the first send, a long reply, and queue the rest if its turn is over; else false. */
static bool end_turn(struct rawe_sendqueue *queue, struct rawe_send *send)
{
    if (send->framed_bytes < TURN_BYTES || queue->last == NULL) {
        return false;
    }
    struct rawe_send *rest = cut_send(queue, send, 0);
    if (rest == NULL) {
        return false; /* out of memory: messages must wait */
    }
    prepare_send(queue, rest);
    insert(queue, behind_last(queue), rest);
    return true;
}

bool rawe_sendqueue_framed(struct rawe_sendqueue *queue, uint64_t bytes)
{
    struct rawe_send *send = queue->first;
    send->framed_bytes += bytes;
    add_bytes(queue, send, 0 - bytes);
    if (is_long_reply(send)) {
        queue->passed_bytes -= least(queue->passed_bytes, bytes);
    }
    if (send->framed_bytes != send->total_bytes &&
        !(is_long_reply(send) && end_turn(queue, send))) {
        return false;
    }
    (void)rawe_sendqueue_pop(queue);
    return true;
}

void rawe_sendqueue_report(struct rawe_sendqueue *queue, struct rawe_send *send)
{
    send->to_report = true;
    rawe_sends_append(&queue->reports, send);
}

struct rawe_send *rawe_sendqueue_next_report(struct rawe_sendqueue *queue)
{
    struct rawe_send *send = queue->reports.first;
    if (send != NULL) {
        queue->reports.first = send->next;
        send->to_report = false;
    }
    return send;
}

/** Remove the report of a send that completes before it was reported as transmitted. */
static void drop_report(struct rawe_sendqueue *queue, struct rawe_send *send)
{
    struct rawe_send **link = &queue->reports.first;
    while (*link != send) {
        link = &(*link)->next;
    }
    *link = send->next;
    if (*link == NULL) {
        queue->reports.end = link;
    }
    send->to_report = false;
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
    if (send->to_report) {
        drop_report(queue, send);
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
