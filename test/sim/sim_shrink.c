/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * A path whose MTU shrinks while connections use it, for example because it now leads through a tunnel.
 * Longer frames are lost from then on, and so are PINGs of that length. Senders must notice, send
 * shorter frames, and resend lost frames in slices.
 */
#include "sim.h"

#include "net_packet.h"

/** Time that path discovery takes, and pause between two (btl_rawe_endpoint.c). */
#define VALIDATION_NS 1000000000ull

void sim_shrink_plan(struct sim *sim)
{
    struct sim_shrink *shrink = &sim->net.shrink;
    struct sim_random random = sim_random_stream(sim->options.seed, 55);

    shrink->node = (uint32_t)sim_random_below(&random, sim->plan.nodes);
    shrink->nic = (unsigned)sim_random_below(&random, sim->plan.nics);
    if (sim->plan.shrink_from_ns != 0) {
        sim_plan_event(sim, SIM_EVENT_SHRINK, sim->plan.shrink_from_ns, 0, 0);
    }
}

void sim_shrink_begin(struct sim *sim)
{
    struct sim_shrink *shrink = &sim->net.shrink;

    if (!sim_faults_on(sim) || sim->departing || !sim_incident(sim)) {
        return;
    }
    shrink->nic %= sim->nodes[shrink->node].nic_count;
    shrink->on = true;
    sim_disturb(sim, sim->now_ns);
    sim_trace(sim, "%s n%u-%u carries payloads of at most %u bytes",
              sim->plan.shrink == SIM_SHRINK_ALL ? "the network, not only" : "the path of",
              shrink->node, shrink->nic, sim->plan.shrink_bytes);
}

/** Return true if frames from one interface to another are limited. */
static bool limits(const struct sim *sim, uint32_t from, unsigned from_nic, uint32_t to,
                   unsigned to_nic)
{
    const struct sim_shrink *shrink = &sim->net.shrink;
    bool out = from == shrink->node && from_nic == shrink->nic;
    bool in = to == shrink->node && to_nic == shrink->nic;

    return shrink->on &&
           (sim->plan.shrink == SIM_SHRINK_ALL || (out && sim->plan.shrink != SIM_SHRINK_IN) ||
            (in && sim->plan.shrink != SIM_SHRINK_OUT));
}

bool sim_shrink_takes(const struct sim *sim, const struct sim_packet *packet)
{
    const uint32_t most_bytes = RAWE_PAYLOAD_OFFSET + sim->plan.shrink_bytes;
    uint32_t frame_bytes = packet->segment_bytes != 0 ? NET_BATCH_HEAD_BYTES + packet->segment_bytes
                                                      : packet->len_bytes;

    frame_bytes += packet->batch ? NET_BATCH_OVERHEAD_BYTES : 0;
    return limits(sim, packet->source, packet->source_nic, packet->destination,
                  packet->destination_nic) &&
           frame_bytes > most_bytes + (packet->batch ? 0 : RAWE_CHECKSUM_BYTES);
}

/** Return true if a PING of the full size, or its answer, is lost. */
static bool is_limited(const struct sim_peer *route)
{
    const struct sim *sim = route->nic->node->sim;
    uint32_t node = route->nic->node->index;

    return limits(sim, node, route->nic->index, route->node, route->far) ||
           limits(sim, route->node, route->far, node, route->nic->index);
}

uint32_t sim_shrink_payload_bytes(const struct sim_peer *route, uint32_t payload_bytes)
{
    uint32_t shrink_bytes = route->nic->node->sim->plan.shrink_bytes;

    return is_limited(route) && shrink_bytes < payload_bytes ? shrink_bytes : payload_bytes;
}

void sim_shrink_validate(struct sim_peer *route)
{
    struct sim_node *node = route->nic->node;
    uint64_t now_ns = sim_node_clock(node);
    uint32_t before = route->peer.route.payload_max_bytes;
    uint32_t passes = sim_shrink_payload_bytes(route, before);

    if (route->validated_ns == 0 || passes == before) {
        route->validated_ns = now_ns; /* path discovery begins */
    } else if (now_ns - route->validated_ns >= VALIDATION_NS) {
        route->validated_ns = now_ns;
        sim_trace(node->sim, "n%u: route %u-%u to n%u carries %u bytes", node->index,
                  route->nic->index, route->far, route->node, passes);
        rawe_peer_set_payload_max(&route->peer, passes);
    }
}
