/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The link of a node: see unit_link.h.
 */
#include "unit_link.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "net_engine.h"
#include "net_harness.h"
#include "net_packet.h"
#include "unit_wire.h"

void net_fail(const char *invariant, const char *format, ...)
{
    char what[256];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(what, sizeof(what), format, arguments);
    va_end(arguments);
    fail_msg("violates \"%s\": %s", invariant, what);
    abort(); /* not reached, but the compiler does not know */
}

void *net_new(size_t len_bytes)
{
    void *memory = malloc(len_bytes != 0 ? len_bytes : 1);
    assert_non_null(memory);
    return memory;
}

void net_delete(void *memory)
{
    free(memory);
}

/** A frame of that length from the node; its bytes are still to be written. */
static struct unit_frame *new_frame(const struct unit_node *node, size_t len_bytes, unsigned batch)
{
    struct unit_frame *frame = net_new(sizeof(*frame));
    *frame = (struct unit_frame){
        .from = node->index,
        .to = 1 - node->index,
        .batch = batch,
        .len_bytes = len_bytes,
        .bytes = net_new(len_bytes),
    };
    return frame;
}

static void put_on_wire(struct unit_node *node, struct unit_frame *frame)
{
    struct unit_net *net = node->net;
    const struct rawe_peer_config to = net_peer_config(frame->to);
    assert_memory_equal(frame->bytes, to.mac, RAWE_MAC_BYTES);
    assert_int_equal(frame->header.port, to.port);
    assert_int_equal(frame->header.key, to.key);
    node->link_room -= node->link_room != UINT32_MAX;
    node->sent[frame->header.type]++;
    if ((frame->batch != 0 && net->batches_vanish) ||
        (net->filter != NULL && !net->filter(net, frame))) {
        unit_frame_free(frame);
        return;
    }
    unit_wire_put(net, frame);
}

unsigned unit_transmit(void *context, const struct rawe_frame *frames, unsigned count)
{
    struct unit_node *node = context;
    unsigned taken = 0;
    for (; taken < count && node->link_room != 0; taken++) {
        struct unit_frame *frame = new_frame(node, frames[taken].len_bytes, 0);
        net_frame_linearize(&node->engine, &frames[taken], frame->bytes, &frame->header);
        put_on_wire(node, frame);
    }
    return taken;
}

unsigned unit_transmit_batch(void *context, const struct rawe_frame *frames, unsigned count)
{
    struct unit_node *node = context;
    uint32_t len_bytes = net_batch_measure(&node->engine, frames, count);
    if (node->link_room < count) {
        return 0;
    }
    uint8_t *bytes = net_new(len_bytes);
    struct net_batch batch = net_batch_linearize(&node->engine, frames, count, bytes);
    node->net->batch_number++;
    for (uint32_t i = 0; i < net_batch_frames(&batch); i++) {
        struct unit_frame *frame =
            new_frame(node, net_batch_frame_bytes(&batch, i), node->net->batch_number);
        assert_true(net_batch_header(&batch, i, &frame->header));
        net_batch_cut(&batch, i, frame->bytes);
        put_on_wire(node, frame);
    }
    net_delete(bytes);
    return count;
}
