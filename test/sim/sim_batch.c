/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Batches: frames of the bulk lane that are sent as one packet. Some paths cut batches into frames,
 * which receivers merge again as GRO does. A received batch is copied straight to the destination
 * that the engine names.
 */
#include <string.h>

#include "sim.h"

#include "net_engine.h"
#include "net_packet.h"

static struct net_batch batch_of(const struct sim_packet *packet)
{
    return (struct net_batch){packet->bytes, packet->len_bytes, packet->segment_bytes};
}

static bool transmit(void *context, const struct rawe_frame *frame, uint32_t segment_bytes)
{
    struct sim_nic *nic = context;
    struct sim_node *node = nic->node;
    struct sim *sim = node->sim;
    struct rawe_header header;

    if (node->muted) {
        return true;
    }
    if (sim_net_full(sim, nic)) {
        sim_trace(sim, "n%u has no room on its send path", node->index);
        return false;
    }
    struct sim_packet *packet = sim_packet_take(sim, frame->len_bytes);
    struct net_batch batch = net_batch_linearize(&nic->engine, frame, segment_bytes, packet->bytes);
    sim_channel_address(nic, packet);
    (void)net_batch_header(packet->bytes, packet->len_bytes, &header);
    if (header.type == RAWE_FRAME_BULK) {
        packet->sequenced = net_batch_frames(&batch);
    }
    for (uint32_t i = 0; i < net_batch_frames(&batch); i++, header.sequence++) {
        sim_check_frame(node, &header, packet);
    }
    packet->batch = true;
    packet->segment_bytes = segment_bytes;
    node->local_ns += sim->plan.transmit_cost_ns;
    sim_net_send(sim, nic, packet, node->local_ns);
    return true;
}

uint32_t sim_batch_part_bytes(const struct sim_node *node)
{
    const struct sim_nic *nic = &node->nics[0];
    bool sends = node->sim->plan.batches && nic->sends_batches;
    return sends ? nic->payload_max_bytes + RAWE_HEADER_BYTES - RAWE_BATCH_HEADER_BYTES -
                       NET_BATCH_OVERHEAD_BYTES
                 : nic->payload_max_bytes - RAWE_FRAGMENT_PART_BYTES;
}

void sim_batch_enable(struct sim_nic *nic)
{
    const struct sim_plan *plan = &nic->node->sim->plan;

    if (plan->batches) {
        net_engine_use_batches(&nic->engine, plan->batch_bytes_max,
                               nic->sends_batches ? transmit : NULL);
    }
}

/** Return frame `index` of a batch as a separate packet. */
static struct sim_packet *cut(struct sim *sim, const struct sim_packet *packet, uint32_t index)
{
    struct net_batch batch = batch_of(packet);
    struct sim_packet *frame = sim_packet_take(sim, net_batch_frame_bytes(&batch, index));

    net_batch_cut(&batch, index, frame->bytes);
    frame->source = packet->source;
    frame->source_nic = packet->source_nic;
    frame->destination = packet->destination;
    frame->destination_nic = packet->destination_nic;
    frame->batch = true;
    frame->sequenced = packet->sequenced != 0;
    frame->stream_id = packet->stream_id;
    frame->order = packet->order == 0 ? 0 : packet->order + index;
    return frame;
}

void sim_batch_at_switch(struct sim *sim, struct sim_packet *packet)
{
    struct net_batch batch = batch_of(packet);
    const struct sim_nic *to = &sim->nodes[packet->destination].nics[packet->destination_nic];
    enum sim_batch_path path = to->batch_path;
    bool faded = path == SIM_BATCH_FADING && sim->now_ns > to->batches_until_ns &&
                 (packet->segment_bytes != 0 || !to->single_frames_stay);

    if (path == SIM_BATCH_BLOCKED || faded) {
        sim_packet_lose(sim, packet, "batches do not pass");
    } else if ((path == SIM_BATCH_CUT || sim->plan.corrupt_ppm != 0) &&
               packet->segment_bytes != 0 && net_is_batch(packet->bytes, packet->len_bytes)) {
        for (uint32_t i = 0, count = net_batch_frames(&batch); i < count; i++) {
            sim_net_at_switch(sim, cut(sim, packet, i));
        }
        sim_packet_give(sim, packet);
    } else {
        sim_net_at_switch(sim, packet);
    }
}

/** Return true if GRO merges the next packet into this one. GRO never merges damaged packets. */
static bool joins(const struct sim_packet *packet, uint32_t first_bytes,
                  const struct sim_packet *next)
{
    return next != NULL && packet->damaged_bytes == 0 && next->damaged_bytes == 0 &&
           net_batch_joins(packet->bytes, packet->len_bytes, first_bytes, next->bytes,
                           next->len_bytes);
}

bool sim_batch_intact(const struct sim_packet *packet)
{
    return packet->damaged_bytes == 0 || (packet->len_bytes == packet->damaged_bytes &&
                                          net_batch_sum_right(packet->bytes, packet->len_bytes));
}

struct sim_packet *sim_batch_take(struct sim_nic *nic)
{
    struct sim_node *node = nic->node;
    struct sim *sim = node->sim;
    struct sim_packet *packet = sim_queue_take(&nic->bulk);
    uint32_t first_bytes = packet != NULL ? packet->len_bytes : 0;
    char text[160];

    if (packet == NULL) {
        return NULL;
    }
    node->local_ns += sim->plan.receive_cost_ns;
    sim_trace(sim, "n%u takes %s", node->index, sim_trace_frame(packet, text, sizeof(text)));
    sim_evidence_arrived(node, packet);
    while (joins(packet, first_bytes, nic->bulk.first) && sim_random_below(&node->random, 8) != 0) {
        struct sim_packet *next = sim_queue_take(&nic->bulk);
        struct sim_packet *merged =
            sim_packet_take(sim, packet->len_bytes + next->len_bytes - NET_BATCH_HEAD_BYTES);
        sim_trace(sim, "merged with %s", sim_trace_frame(next, text, sizeof(text)));
        sim_evidence_arrived(node, next);
        merged->arrived_ns = packet->arrived_ns; /* as in GRO, the first frame's time */
        merged->step_ns = packet->step_ns;
        memcpy(merged->bytes, packet->bytes, packet->len_bytes);
        (void)net_batch_join(merged->bytes, packet->len_bytes, next->bytes, next->len_bytes);
        sim_packet_give(sim, packet);
        sim_packet_give(sim, next);
        packet = merged;
    }
    return packet;
}
