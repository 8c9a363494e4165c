/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Batches: frames of the bulk lane that leave as one packet, and what paths and receivers make of
 * them. A received batch goes straight into place where the engine says so, as the kernel would do
 * it.
 */
#include <stdlib.h>
#include <string.h>

#include "sim.h"

/** What the envelope takes from each frame. */
#define OVERHEAD_BYTES 28u

/** The part of a packet that is looked at before it is received. */
#define PEEK_BYTES 64u

/** Sends all frames as one packet, or none. */
static unsigned transmit(void *context, const struct rawe_frame *frames, unsigned count)
{
    struct sim_node *node = context;
    struct sim *sim = node->sim;
    uint32_t total_bytes;

    if (node->muted) {
        return count;
    }
    if (sim_net_full(sim, node)) {
        sim_trace(sim, "n%u has no room on its way out", node->index);
        return 0;
    }
    uint32_t segment_bytes = frames[0].len_bytes - RAWE_ETH_HEADER_BYTES;
    total_bytes = (count - 1) * segment_bytes + frames[count - 1].len_bytes - RAWE_ETH_HEADER_BYTES;
    if (count > sim->plan.batch_frames_max || total_bytes > sim->plan.batch_bytes_max ||
        segment_bytes + OVERHEAD_BYTES > node->payload_max_bytes + RAWE_HEADER_BYTES) {
        sim_violation(sim, "batches keep to their limits",
                      "n%u sends %u frames, %u bytes, first %u", node->index, count, total_bytes,
                      segment_bytes);
    }
    struct sim_packet *packet = sim_packet_take(sim, RAWE_ETH_HEADER_BYTES + total_bytes);
    uint8_t *out = packet->bytes + RAWE_ETH_HEADER_BYTES;
    memcpy(packet->bytes, frames[0].pieces[0].base, RAWE_ETH_HEADER_BYTES);
    sim_channel_address(node, packet);
    for (unsigned i = 0; i < count; i++) {
        struct rawe_header header;
        uint32_t len_bytes = frames[i].len_bytes - RAWE_ETH_HEADER_BYTES;
        uint32_t fill_bytes = i + 1 < count ? segment_bytes - len_bytes : 0;
        if (len_bytes > segment_bytes || (fill_bytes != 0 && sim->plan.coalesce_from_frames == 0)) {
            sim_violation(sim, "batches keep to their limits",
                          "n%u sends a batch of %u frames, number %u is %u bytes, the first %u",
                          node->index, count, i, len_bytes, segment_bytes);
        }
        sim_channel_linearize(node, &frames[i], RAWE_ETH_HEADER_BYTES, out, &header);
        packet->sequenced += header.type == RAWE_FRAME_BULK;
        sim_check_frame(node, &header, packet);
        memset(out + len_bytes, 0, fill_bytes);
        out += len_bytes + fill_bytes;
    }
    packet->batch = true;
    packet->segment_bytes = segment_bytes;
    node->local_ns += sim->plan.transmit_cost_ns;
    sim_net_send(sim, node, packet, node->local_ns);
    return count;
}

uint32_t sim_batch_payload_bytes(const struct sim_node *node)
{
    bool sends = node->sim->plan.batches && node->sends_batches;
    return sends ? (node->payload_max_bytes - OVERHEAD_BYTES) & ~7u : node->payload_max_bytes;
}

void sim_batch_enable(struct sim_node *node)
{
    const struct sim_plan *plan = &node->sim->plan;
    struct rawe_batches batches = {
        .output = {.transmit = node->sends_batches ? transmit : NULL, .context = node},
        .frames_max = plan->batch_frames_max,
        .bytes_max = plan->batch_bytes_max,
        .fill_max_bytes = plan->batch_fill_bytes,
        .overhead_bytes = OVERHEAD_BYTES,
        .receive_frames = plan->receive_frames,
    };

    if (plan->batches && !rawe_engine_use_batches(&node->engine, &batches)) {
        abort();
    }
}

static uint32_t segments(const struct sim_packet *packet)
{
    uint32_t total_bytes = packet->len_bytes - RAWE_ETH_HEADER_BYTES;
    return (total_bytes + packet->segment_bytes - 1) / packet->segment_bytes;
}

/** Frame `index` of a batch as a packet of its own. */
static struct sim_packet *cut(struct sim *sim, const struct sim_packet *batch, uint32_t index)
{
    uint32_t at = RAWE_ETH_HEADER_BYTES + index * batch->segment_bytes;
    uint32_t left = batch->len_bytes - at;
    uint32_t len_bytes = left < batch->segment_bytes ? left : batch->segment_bytes;
    struct sim_packet *packet = sim_packet_take(sim, RAWE_ETH_HEADER_BYTES + len_bytes);

    packet->source = batch->source;
    packet->destination = batch->destination;
    packet->batch = true;
    packet->segment_bytes = len_bytes;
    packet->sequenced = batch->sequenced != 0;
    packet->stream_id = batch->stream_id;
    packet->order = batch->order == 0 ? 0 : batch->order + index;
    memcpy(packet->bytes, batch->bytes, RAWE_ETH_HEADER_BYTES);
    memcpy(packet->bytes + RAWE_ETH_HEADER_BYTES, batch->bytes + at, len_bytes);
    return packet;
}

void sim_batch_at_switch(struct sim *sim, struct sim_packet *packet)
{
    switch (sim->nodes[packet->destination].batch_path) {
    case SIM_BATCH_BLOCKED:
        sim_packet_lose(sim, packet, "batches do not pass");
        return;
    case SIM_BATCH_CUT:
        for (uint32_t i = 0, count = segments(packet); i < count; i++) {
            sim_net_at_switch(sim, cut(sim, packet, i));
        }
        sim_packet_give(sim, packet);
        return;
    default:
        sim_net_at_switch(sim, packet);
        return;
    }
}

/** Put the headers of each frame at `heads`, its data where the engine wants it. */
static void scatter(const struct sim_packet *packet, const struct rawe_placement *placement,
                    uint8_t *heads)
{
    const uint8_t *in = packet->bytes + RAWE_ETH_HEADER_BYTES;
    uint32_t total_bytes = packet->len_bytes - RAWE_ETH_HEADER_BYTES;
    uint8_t *data = placement->base;

    for (uint32_t at = 0; at < total_bytes; at += packet->segment_bytes) {
        uint32_t left = total_bytes - at;
        uint32_t len_bytes = left < packet->segment_bytes ? left : packet->segment_bytes;
        memcpy(heads, in + at, placement->head_bytes);
        memcpy(data, in + at + placement->head_bytes, len_bytes - placement->head_bytes);
        heads += placement->head_bytes;
        data += placement->data_bytes;
    }
}

/** Receive into place, then tell the engine of each frame, or of runs of them. */
static void receive_in_place(struct sim_node *node, const struct sim_packet *packet,
                             const struct rawe_placement *placement)
{
    const uint8_t *source_mac = packet->bytes + RAWE_MAC_BYTES;
    uint32_t total_bytes = packet->len_bytes - RAWE_ETH_HEADER_BYTES;
    uint32_t full = total_bytes / packet->segment_bytes;
    uint32_t count = segments(packet);
    uint8_t *heads = malloc((size_t)count * placement->head_bytes);
    bool runs = sim_random_below(&node->random, 4) != 0;

    if (heads == NULL) {
        abort();
    }
    scatter(packet, placement, heads);
    for (uint32_t i = 0; i < count;) {
        uint32_t left = total_bytes - i * packet->segment_bytes;
        uint32_t len_bytes = left < packet->segment_bytes ? left : packet->segment_bytes;
        rawe_engine_receive_parts(&node->engine, source_mac, heads + i * placement->head_bytes,
                                  placement->head_bytes,
                                  placement->base + (size_t)i * placement->data_bytes,
                                  len_bytes - placement->head_bytes, sim_node_engine_time(node));
        i++;
        if (runs && i < full) {
            i += rawe_engine_receive_predicted(
                &node->engine, source_mac, heads + i * placement->head_bytes, placement->head_bytes,
                placement, placement->base + (size_t)i * placement->data_bytes, full - i,
                sim_node_engine_time(node));
        }
    }
    free(heads);
}

void sim_batch_receive(struct sim_node *node, struct sim_packet *packet)
{
    const uint8_t *source_mac = packet->bytes + RAWE_MAC_BYTES;
    const uint8_t *in = packet->bytes + RAWE_ETH_HEADER_BYTES;
    struct rawe_placement placement;

    if (packet->len_bytes <= RAWE_ETH_HEADER_BYTES) {
        return; /* cut short by a fault */
    }
    uint32_t total_bytes = packet->len_bytes - RAWE_ETH_HEADER_BYTES;
    uint32_t head_bytes = total_bytes < PEEK_BYTES ? total_bytes : PEEK_BYTES;
    if (rawe_engine_plan(&node->engine, source_mac, in, head_bytes, packet->segment_bytes,
                         total_bytes, &placement)) {
        receive_in_place(node, packet, &placement);
        return;
    }
    for (uint32_t at = 0; at < total_bytes; at += packet->segment_bytes) {
        uint32_t left = total_bytes - at;
        uint32_t len_bytes = left < packet->segment_bytes ? left : packet->segment_bytes;
        rawe_engine_receive_parts(&node->engine, source_mac, in + at, len_bytes, NULL, 0,
                                  sim_node_engine_time(node));
    }
}
