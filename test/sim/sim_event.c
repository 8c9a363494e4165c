/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The event queue: a binary heap by time, then by order of insertion, which makes runs repeatable.
 */
#include "sim_event.h"

#include <stdlib.h>

static bool before(const struct sim_event *a, const struct sim_event *b)
{
    return a->at_ns < b->at_ns || (a->at_ns == b->at_ns && a->order < b->order);
}

void sim_events_push(struct sim_events *events, struct sim_event event)
{
    if (events->count == events->room) {
        events->room = events->room == 0 ? 256 : events->room * 2;
        events->heap = realloc(events->heap, events->room * sizeof(*events->heap));
        if (events->heap == NULL) {
            abort();
        }
    }
    event.order = events->order++;
    size_t at = events->count++;
    while (at != 0 && before(&event, &events->heap[(at - 1) / 2])) {
        events->heap[at] = events->heap[(at - 1) / 2];
        at = (at - 1) / 2;
    }
    events->heap[at] = event;
}

bool sim_events_pop(struct sim_events *events, struct sim_event *event)
{
    if (events->count == 0) {
        return false;
    }
    *event = events->heap[0];
    struct sim_event last = events->heap[--events->count];
    size_t at = 0;
    for (;;) {
        size_t child = 2 * at + 1;
        if (child >= events->count) {
            break;
        }
        if (child + 1 < events->count && before(&events->heap[child + 1], &events->heap[child])) {
            child++;
        }
        if (!before(&events->heap[child], &last)) {
            break;
        }
        events->heap[at] = events->heap[child];
        at = child;
    }
    events->heap[at] = last;
    return true;
}

void sim_events_free(struct sim_events *events)
{
    free(events->heap);
}
