/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Single frames: see net_wire.h.
 */
#include "net_wire.h"

#include <limits.h>
#include <string.h>

#include "net_engine.h"
#include "net_harness.h"

struct net_frame *net_frame_new(size_t len_bytes)
{
    struct net_frame *frame = net_new(sizeof(*frame));

    *frame = (struct net_frame){.len_bytes = len_bytes, .bytes = net_new(len_bytes)};
    return frame;
}

struct net_frame *net_frame_copy(const struct net_frame *frame)
{
    struct net_frame *copy = net_frame_new(frame->len_bytes);
    uint8_t *bytes = copy->bytes;

    *copy = *frame;
    copy->next = NULL;
    copy->bytes = bytes;
    memcpy(bytes, frame->bytes, frame->len_bytes);
    return copy;
}

void net_frame_free(struct net_frame *frame)
{
    if (frame != NULL) {
        net_delete(frame->bytes);
        net_delete(frame);
    }
}

/** Put a frame on the link. Its bytes and header must be set. */
static void put(const struct net_link *link, struct net_frame *frame)
{
    frame->from = link->engine->config.vpid;
    frame->to = net_index_of(frame->bytes);
    *link->room -= *link->room != UINT_MAX;
    link->put(link->engine->context, frame);
}

unsigned net_link_transmit(void *context, const struct rawe_frame *frames, unsigned count)
{
    const struct net_link *link = context;
    unsigned taken = 0;

    if (count == 0) {
        net_fail("frames add up", "a transmission of no frame");
    }
    for (; taken < count && *link->room != 0; taken++) {
        struct net_frame *frame = net_frame_new(frames[taken].len_bytes);
        net_frame_linearize(link->engine, &frames[taken], frame->bytes, &frame->header);
        put(link, frame);
    }
    return taken;
}

bool net_link_transmit_batch(void *context, const struct rawe_frame *packet, uint32_t segment_bytes)
{
    const struct net_link *link = context;
    uint8_t *bytes = net_new(packet->len_bytes);
    struct net_batch batch = net_batch_linearize(link->engine, packet, segment_bytes, bytes);
    uint32_t count = net_batch_frames(&batch);
    bool room = *link->room >= count;

    *link->batch_number += room;
    for (uint32_t i = 0; room && i < count; i++) {
        struct net_frame *frame = net_frame_new(net_batch_frame_bytes(&batch, i));
        net_batch_cut(&batch, i, frame->bytes);
        (void)net_batch_header(frame->bytes, (uint32_t)frame->len_bytes, &frame->header);
        frame->batch = *link->batch_number;
        put(link, frame);
    }
    net_delete(bytes);
    return room;
}

void net_queue_put(struct net_queue *queue, struct net_frame *frame)
{
    struct net_frame **end = queue->first != NULL ? queue->end : &queue->first;

    frame->next = NULL;
    *end = frame;
    queue->end = &frame->next;
}

struct net_frame *net_queue_take(struct net_queue *queue)
{
    struct net_frame *frame = queue->first;

    if (frame != NULL) {
        queue->first = frame->next;
        frame->next = NULL;
    }
    return frame;
}

void net_queue_clear(struct net_queue *queue)
{
    while (queue->first != NULL) {
        net_frame_free(net_queue_take(queue));
    }
}

unsigned net_queue_count(const struct net_queue *queue)
{
    unsigned count = 0;

    for (const struct net_frame *frame = queue->first; frame != NULL; frame = frame->next) {
        count++;
    }
    return count;
}

unsigned net_frames_receive(struct rawe_engine *engine, struct net_frame *const *frames,
                            unsigned count, uint64_t now_ns, bool *placed)
{
    uint32_t first_bytes = (uint32_t)frames[0]->len_bytes;
    uint32_t len_bytes = first_bytes;
    unsigned merged = 1;

    while (merged < count &&
           net_batch_joins(frames[0]->bytes, len_bytes, first_bytes, frames[merged]->bytes,
                           (uint32_t)frames[merged]->len_bytes)) {
        len_bytes += (uint32_t)frames[merged]->len_bytes - NET_BATCH_HEAD_BYTES;
        merged++;
    }
    uint8_t *packet = net_new(len_bytes);
    uint32_t at_bytes = first_bytes;
    memcpy(packet, frames[0]->bytes, first_bytes);
    for (unsigned i = 1; i < merged; i++) {
        at_bytes =
            net_batch_join(packet, at_bytes, frames[i]->bytes, (uint32_t)frames[i]->len_bytes);
    }
    *placed = net_receive(engine, packet, len_bytes, now_ns);
    net_delete(packet);
    return merged;
}
