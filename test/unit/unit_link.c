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

/** net_link.put */
static void put_on_wire(void *context, struct net_frame *frame)
{
    struct unit_node *node = context;
    struct unit_net *net = node->net;
    const struct rawe_peer_config to = net_peer_config(frame->to);
    assert_memory_equal(frame->bytes, to.mac, RAWE_MAC_BYTES);
    assert_int_equal(frame->header.port, to.port);
    assert_int_equal(frame->header.key, to.key);
    node->sent[frame->header.type]++;
    if ((frame->batch != 0 && net->batches_vanish) ||
        (net->filter != NULL && !net->filter(net, frame))) {
        net_frame_free(frame);
        return;
    }
    unit_wire_put(net, frame);
}

static struct net_link link_of(struct unit_node *node)
{
    return (struct net_link){
        .engine = &node->engine,
        .room = &node->link_room,
        .batch_number = &node->net->batch_number,
        .put = put_on_wire,
    };
}

unsigned unit_transmit(void *context, const struct rawe_frame *frames, unsigned count)
{
    struct net_link link = link_of(context);
    return net_link_transmit(&link, frames, count);
}

bool unit_transmit_batch(void *context, const struct rawe_frame *packet, uint32_t segment_bytes)
{
    struct net_link link = link_of(context);
    return net_link_transmit_batch(&link, packet, segment_bytes);
}
