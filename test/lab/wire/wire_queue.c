/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * A binary heap of held frames. A real cable holds what its length allows; this one has a bound, so
 * that long delays at full speed do not eat the machine's memory.
 */
#include "wire.h"

#include <stdlib.h>
#include <string.h>

#define BYTES_MAX ((size_t)512 << 20)

static bool is_before(const struct wire_held *a, const struct wire_held *b)
{
    return a->release_ns != b->release_ns ? a->release_ns < b->release_ns : a->serial < b->serial;
}

static bool make_room(struct wire_queue *queue)
{
    size_t room = queue->room != 0 ? queue->room * 2 : 1024;
    struct wire_held **heap;

    if (queue->count < queue->room) {
        return true;
    }
    heap = realloc(queue->heap, room * sizeof(struct wire_held *));
    if (heap == NULL) {
        return false;
    }
    queue->heap = heap;
    queue->room = room;
    return true;
}

bool wire_queue_put(struct wire_queue *queue, const struct wire_frame *frame, uint64_t release_ns,
                    unsigned port, bool is_inbound)
{
    struct wire_held *held;
    size_t at;

    if (queue->bytes + frame->len_bytes > BYTES_MAX || !make_room(queue)) {
        return false;
    }
    held = malloc(sizeof *held + frame->len_bytes);
    if (held == NULL) {
        return false;
    }
    *held = (struct wire_held){release_ns, queue->serial++, port, is_inbound, *frame};
    held->frame.bytes = (uint8_t *)(held + 1);
    memcpy(held->frame.bytes, frame->bytes, frame->len_bytes);
    queue->bytes += frame->len_bytes;

    for (at = queue->count++; at > 0 && is_before(held, queue->heap[(at - 1) / 2]);
         at = (at - 1) / 2) {
        queue->heap[at] = queue->heap[(at - 1) / 2];
    }
    queue->heap[at] = held;
    return true;
}

uint64_t wire_queue_next_ns(const struct wire_queue *queue)
{
    return queue->count > 0 ? queue->heap[0]->release_ns : WIRE_NEVER;
}

struct wire_held *wire_queue_take(struct wire_queue *queue, uint64_t now_ns)
{
    struct wire_held *first, *last;
    size_t at = 0;

    if (wire_queue_next_ns(queue) > now_ns || queue->count == 0) {
        return NULL;
    }
    first = queue->heap[0];
    last = queue->heap[--queue->count];
    for (;;) {
        size_t child = 2 * at + 1;

        if (child + 1 < queue->count && is_before(queue->heap[child + 1], queue->heap[child])) {
            child++;
        }
        if (child >= queue->count || !is_before(queue->heap[child], last)) {
            break;
        }
        queue->heap[at] = queue->heap[child];
        at = child;
    }
    if (queue->count > 0) {
        queue->heap[at] = last;
    }
    queue->bytes -= first->frame.len_bytes;
    return first;
}
