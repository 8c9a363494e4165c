/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Frames on their way: held until their time has come, in the order of their times.
 */
#ifndef WIRE_QUEUE_H
#define WIRE_QUEUE_H

#include "wire_frame.h"

#include <stdbool.h>

#define WIRE_NEVER UINT64_MAX

struct wire_held {
    uint64_t release_ns;
    uint64_t serial;         /* decides between equal times: first come, first served */
    unsigned port;           /* what its owner wants to know when it comes out */
    bool is_inbound;         /* towards the port's host; else from it into the switch */
    struct wire_frame frame; /* its bytes follow the struct */
};

struct wire_queue {
    struct wire_held **heap; /* the least first; the children of i are 2i + 1 and 2i + 2 */
    size_t count, room;
    size_t bytes;
    uint64_t serial;
};

/** Keeps a copy; false when there is no memory, or too much is held already. */
bool wire_queue_put(struct wire_queue *queue, const struct wire_frame *frame, uint64_t release_ns,
                    unsigned port, bool is_inbound);

/** When the next frame is due; WIRE_NEVER when there is none. */
uint64_t wire_queue_next_ns(const struct wire_queue *queue);

/** Takes the next frame out, if it is due; else NULL. The caller frees it. */
struct wire_held *wire_queue_take(struct wire_queue *queue, uint64_t now_ns);

#endif
