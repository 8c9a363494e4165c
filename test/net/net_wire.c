/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Frames one by one: see net_wire.h.
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

/** The frame's bytes and header are known. */
static void put(const struct net_link *link, struct net_frame *frame)
{
    frame->from = link->engine->config.vpid;
    frame->to = net_index_of(frame->bytes);
    *link->room -= *link->room != UINT_MAX;
    link->put(link->engine->context, frame);
}

unsigned net_link_transmit(const struct net_link *link, const struct rawe_frame *frames,
                           unsigned count)
{
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

unsigned net_link_transmit_batch(const struct net_link *link, const struct rawe_frame *frames,
                                 unsigned count)
{
    uint32_t len_bytes = net_batch_measure(link->engine, frames, count);

    if (*link->room < count) {
        return 0;
    }
    uint8_t *bytes = net_new(len_bytes);
    struct net_batch batch = net_batch_linearize(link->engine, frames, count, bytes);
    unsigned number = ++*link->batch_number;
    for (uint32_t i = 0; i < net_batch_frames(&batch); i++) {
        struct net_frame *frame = net_frame_new(net_batch_frame_bytes(&batch, i));
        (void)net_batch_header(&batch, i, &frame->header);
        net_batch_cut(&batch, i, frame->bytes);
        frame->batch = number;
        put(link, frame);
    }
    net_delete(bytes);
    return count;
}

bool net_frames_receive(const struct net_receiver *receiver, struct net_frame *const *frames,
                        unsigned count)
{
    struct net_batch batch = {
        .segment_bytes = (uint32_t)(frames[0]->len_bytes - RAWE_ETH_HEADER_BYTES),
    };
    uint8_t *bytes = net_new(count * frames[0]->len_bytes);

    batch.bytes = bytes;
    for (unsigned i = 0; i < count; i++) {
        if (frames[i]->len_bytes > frames[0]->len_bytes) {
            net_fail("batches keep to their limits", "frame %u is longer than the first", i);
        }
        batch.len_bytes = net_batch_join(bytes, batch.len_bytes, frames[i]->bytes,
                                         (uint32_t)frames[i]->len_bytes);
    }
    bool placed = net_receive_batch(receiver, &batch);
    net_delete(bytes);
    return placed;
}
