/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Held frames. Their total size is limited, so that long delays at full speed do not exhaust the
 * machine's memory.
 */
#include "wire.h"

#include <stdlib.h>
#include <string.h>

#define BYTES_MAX ((size_t)512 << 20)

bool wire_queue_put(struct wire_queue *queue, const struct wire_frame *frame, uint64_t release_ns,
                    unsigned port, bool is_inbound)
{
    struct wire_held *held, *before = TAILQ_LAST(&queue->frames, wire_held_list);

    if (queue->bytes + frame->len_bytes > BYTES_MAX ||
        (held = malloc(sizeof *held + frame->len_bytes)) == NULL) {
        return false;
    }
    *held = (struct wire_held){.release_ns = release_ns, .port = port, .is_inbound = is_inbound};
    held->frame = (struct wire_frame){(uint8_t *)(held + 1), frame->len_bytes};
    memcpy(held->frame.bytes, frame->bytes, frame->len_bytes);
    queue->count++;
    queue->bytes += frame->len_bytes;
    /* Few frames are held longer than later ones, so search from the end. */
    while (before != NULL && before->release_ns > release_ns) {
        before = TAILQ_PREV(before, wire_held_list, entry);
    }
    if (before != NULL) {
        TAILQ_INSERT_AFTER(&queue->frames, before, held, entry);
    } else {
        TAILQ_INSERT_HEAD(&queue->frames, held, entry);
    }
    return true;
}

uint64_t wire_queue_next_ns(const struct wire_queue *queue)
{
    const struct wire_held *first = TAILQ_FIRST(&queue->frames);

    return first != NULL ? first->release_ns : WIRE_NEVER;
}

struct wire_held *wire_queue_take(struct wire_queue *queue, uint64_t now_ns)
{
    struct wire_held *first = TAILQ_FIRST(&queue->frames);

    if (first == NULL || first->release_ns > now_ns) {
        return NULL;
    }
    TAILQ_REMOVE(&queue->frames, first, entry);
    queue->count--;
    queue->bytes -= first->frame.len_bytes;
    return first;
}
