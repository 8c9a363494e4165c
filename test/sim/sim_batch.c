/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Batches: frames of the bulk lane that leave as one packet, and what paths and receivers make of
 * them. A received batch goes straight into place where the engine says so, as the kernel would do
 * it.
 */
#include <stdlib.h>

#include "sim.h"

#include "net_engine.h"
#include "net_receive.h"

static struct net_batch batch_of(const struct sim_packet *packet)
{
    return (struct net_batch){packet->bytes, packet->len_bytes, packet->segment_bytes};
}

/** Sends all frames as one packet, or none. */
static unsigned transmit(void *context, const struct rawe_frame *frames, unsigned count)
{
    struct sim_node *node = context;
    struct sim *sim = node->sim;

    if (node->muted) {
        return count;
    }
    if (sim_net_full(sim, node)) {
        sim_trace(sim, "n%u has no room on its send path", node->index);
        return 0;
    }
    struct sim_packet *packet =
        sim_packet_take(sim, net_batch_measure(&node->engine, frames, count));
    struct net_batch batch = net_batch_linearize(&node->engine, frames, count, packet->bytes);
    sim_channel_address(node, packet);
    for (unsigned i = 0; i < count; i++) {
        struct rawe_header header;
        (void)net_batch_header(&batch, i, &header);
        packet->sequenced += header.type == RAWE_FRAME_BULK;
        sim_check_frame(node, &header, packet);
    }
    packet->batch = true;
    packet->segment_bytes = batch.segment_bytes;
    node->local_ns += sim->plan.transmit_cost_ns;
    sim_net_send(sim, node, packet, node->local_ns);
    return count;
}

uint32_t sim_batch_payload_bytes(const struct sim_node *node)
{
    bool sends = node->sim->plan.batches && node->sends_batches;
    return sends ? (node->payload_max_bytes - NET_BATCH_OVERHEAD_BYTES) & ~7u
                 : node->payload_max_bytes;
}

void sim_batch_enable(struct sim_node *node)
{
    const struct sim_plan *plan = &node->sim->plan;
    struct rawe_batches batches = {
        .frames_max = plan->batch_frames_max,
        .bytes_max = plan->batch_bytes_max,
        .fill_max_bytes = plan->batch_fill_bytes,
    };

    if (plan->batches &&
        !net_engine_use_batches(&node->engine, &batches, node->sends_batches ? transmit : NULL)) {
        abort();
    }
}

/** Frame `index` of a batch as a packet of its own. */
static struct sim_packet *cut(struct sim *sim, const struct sim_packet *packet, uint32_t index)
{
    struct net_batch batch = batch_of(packet);
    struct sim_packet *frame = sim_packet_take(sim, net_batch_frame_bytes(&batch, index));

    net_batch_cut(&batch, index, frame->bytes);
    frame->source = packet->source;
    frame->destination = packet->destination;
    frame->batch = true;
    frame->segment_bytes = frame->len_bytes - RAWE_ETH_HEADER_BYTES;
    frame->sequenced = packet->sequenced != 0;
    frame->stream_id = packet->stream_id;
    frame->order = packet->order == 0 ? 0 : packet->order + index;
    return frame;
}

void sim_batch_at_switch(struct sim *sim, struct sim_packet *packet)
{
    struct net_batch batch = batch_of(packet);

    switch (sim->nodes[packet->destination].batch_path) {
    case SIM_BATCH_BLOCKED:
        sim_packet_lose(sim, packet, "batches do not pass");
        return;
    case SIM_BATCH_CUT:
        for (uint32_t i = 0, count = net_batch_frames(&batch); i < count; i++) {
            sim_net_at_switch(sim, cut(sim, packet, i));
        }
        sim_packet_give(sim, packet);
        return;
    default:
        sim_net_at_switch(sim, packet);
        return;
    }
}

static uint64_t engine_time(void *node)
{
    return sim_node_engine_time(node);
}

static bool singly(void *node)
{
    return sim_random_below(&((struct sim_node *)node)->random, 4) == 0;
}

void sim_batch_receive(struct sim_node *node, const struct sim_packet *packet)
{
    const struct net_batch batch = batch_of(packet);
    const struct net_receiver receiver = {
        .engine = &node->engine,
        .now_ns = engine_time,
        .singly = singly,
        .context = node,
    };

    net_receive_batch(&receiver, &batch);
}
