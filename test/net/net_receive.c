/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Receiving batches: see net_receive.h.
 */
#include "net_receive.h"

#include <string.h>

#include "net_harness.h"

#include "rawe_engine.h"

/** The part of a packet that is looked at before it is received. */
#define PEEK_BYTES 64u

static uint8_t *copy(const uint8_t *bytes, uint32_t len_bytes)
{
    uint8_t *memory = net_new(len_bytes);

    memcpy(memory, bytes, len_bytes);
    return memory;
}

static bool plan(struct rawe_engine *engine, const struct net_batch *batch,
                 struct rawe_placement *placement)
{
    uint32_t total_bytes = batch->len_bytes - RAWE_ETH_HEADER_BYTES;
    uint32_t head_bytes = total_bytes < PEEK_BYTES ? total_bytes : PEEK_BYTES;
    uint8_t *head = copy(batch->bytes + RAWE_ETH_HEADER_BYTES, head_bytes);
    bool placed = rawe_engine_plan(engine, batch->bytes + RAWE_MAC_BYTES, head, head_bytes,
                                   batch->segment_bytes, total_bytes, placement);

    net_delete(head);
    return placed;
}

/** Put the headers of each frame at `heads`, its data where the engine wants it. */
static void scatter(const struct net_batch *batch, const struct rawe_placement *placement,
                    uint8_t *heads)
{
    const uint8_t *in = batch->bytes + RAWE_ETH_HEADER_BYTES;

    for (uint32_t i = 0; i < net_batch_frames(batch); i++, in += batch->segment_bytes) {
        uint32_t len_bytes = net_batch_frame_bytes(batch, i) - RAWE_ETH_HEADER_BYTES;
        memcpy(heads + (size_t)i * placement->head_bytes, in, placement->head_bytes);
        memcpy(placement->base + (size_t)i * placement->data_bytes, in + placement->head_bytes,
               len_bytes - placement->head_bytes);
    }
}

/** Receive into place, then tell the engine of each frame, or of runs of them. */
static void receive_in_place(const struct net_receiver *receiver, const struct net_batch *batch,
                             const struct rawe_placement *placement)
{
    const uint8_t *source_mac = batch->bytes + RAWE_MAC_BYTES;
    uint32_t stride = placement->head_bytes;
    uint32_t count = net_batch_frames(batch);
    uint32_t full = (batch->len_bytes - RAWE_ETH_HEADER_BYTES) / batch->segment_bytes;
    uint8_t *heads = net_new((size_t)count * stride);
    bool singly = receiver->singly != NULL && receiver->singly(receiver->context);

    scatter(batch, placement, heads);
    for (uint32_t i = 0; i < count;) {
        uint8_t *data = placement->base + (size_t)i * placement->data_bytes;
        uint32_t len_bytes = net_batch_frame_bytes(batch, i) - RAWE_ETH_HEADER_BYTES;
        rawe_engine_receive_parts(receiver->engine, source_mac, heads + (size_t)i * stride, stride,
                                  data, len_bytes - stride, receiver->now_ns(receiver->context));
        i++;
        if (!singly && i < full) {
            i += rawe_engine_receive_predicted(
                receiver->engine, source_mac, heads + (size_t)i * stride, stride, placement,
                data + placement->data_bytes, full - i, receiver->now_ns(receiver->context));
        }
    }
    net_delete(heads);
}

bool net_receive_batch(const struct net_receiver *receiver, const struct net_batch *batch)
{
    struct rawe_placement placement;
    uint32_t count = net_batch_frames(batch);

    if (count == 0) {
        return false; /* cut short by a fault */
    }
    if (plan(receiver->engine, batch, &placement)) {
        receive_in_place(receiver, batch, &placement);
        return true;
    }
    for (uint32_t i = 0; i < count; i++) {
        uint32_t len_bytes = net_batch_frame_bytes(batch, i) - RAWE_ETH_HEADER_BYTES;
        uint8_t *frame = copy(
            batch->bytes + RAWE_ETH_HEADER_BYTES + (size_t)i * batch->segment_bytes, len_bytes);
        rawe_engine_receive_parts(receiver->engine, batch->bytes + RAWE_MAC_BYTES, frame, len_bytes,
                                  NULL, 0, receiver->now_ns(receiver->context));
        net_delete(frame);
    }
    return false;
}
