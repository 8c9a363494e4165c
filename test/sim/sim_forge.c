/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Forged frames. A frame from an unknown peer must change nothing. A replayed frame has the effect
 * of a late frame. An attacker who knows the keys may confuse its victims, but can neither reach
 * memory that peers may not access nor exceed resource limits.
 */
#include <string.h>

#include "sim.h"

#include "net_forge.h"
#include "net_engine.h"

/** Number of forged frames in a run: enough to hit every state, few enough to keep runs short. */
#define FORGED_MOST 400u

static uint64_t gap_ns(const struct sim_plan *plan, enum sim_forgery kind)
{
    return kind == SIM_FORGERY_UNKNOWN_PEER ? plan->forge_gap_ns
           : kind == SIM_FORGERY_REPLAY     ? plan->replay_gap_ns
                                            : plan->hostile_gap_ns;
}

static void plan_next(struct sim *sim, enum sim_forgery kind)
{
    uint64_t most_ns = gap_ns(&sim->plan, kind);

    if (most_ns != 0 && sim->incidents.forged < FORGED_MOST) {
        uint64_t wait_ns = sim_random_scaled(&sim->net.forge, 1, most_ns);
        sim_plan_event(sim, SIM_EVENT_FORGE, sim->now_ns + wait_ns, 0, kind);
    }
}

void sim_forge_plan(struct sim *sim)
{
    for (unsigned kind = SIM_FORGERY_UNKNOWN_PEER; kind <= SIM_FORGERY_HOSTILE; kind++) {
        plan_next(sim, (enum sim_forgery)kind);
    }
}

void sim_forge_listen(struct sim *sim, const struct sim_packet *packet)
{
    const struct sim_plan *plan = &sim->plan;
    struct sim_random *random = &sim->net.forge;

    if ((plan->forge_gap_ns | plan->replay_gap_ns | plan->hostile_gap_ns) == 0 ||
        sim_random_below(random, 8) != 0) {
        return;
    }
    struct sim_packet **slot = &sim->net.heard[sim_random_below(random, SIM_HEARD)];
    if (*slot != NULL) {
        sim_packet_give(sim, *slot);
    }
    *slot = sim_packet_copy(sim, packet);
}

void sim_forge_free(struct sim *sim)
{
    for (unsigned i = 0; i < SIM_HEARD; i++) {
        if (sim->net.heard[i] != NULL) {
            sim_packet_give(sim, sim->net.heard[i]);
            sim->net.heard[i] = NULL;
        }
    }
}

/** Return a copy of a recorded frame, or NULL. */
static struct sim_packet *recall(struct sim *sim)
{
    const struct sim_packet *heard = sim->net.heard[sim_random_below(&sim->net.forge, SIM_HEARD)];
    return heard == NULL ? NULL : sim_packet_copy(sim, heard);
}

/* ---- unknown peers ---- */

static struct sim_packet *make_noise(struct sim *sim)
{
    struct sim_random *random = &sim->net.forge;
    uint32_t len_bytes = (uint32_t)sim_random_below(random, 200);
    struct sim_packet *packet = sim_packet_take(sim, len_bytes);

    packet->batch = sim_random_below(random, 2) == 0;
    net_forge_noise(packet->bytes, len_bytes, packet->batch, sim_random_next(random));
    return packet;
}

/** Make a packet whose sender does not know the node's key: noise, or a frame for others. */
static struct sim_packet *make_strange(struct sim *sim, const struct sim_nic *nic)
{
    struct sim_random *random = &sim->net.forge;
    struct sim_packet *packet = sim_random_below(random, 4) == 0 ? NULL : recall(sim);

    if (packet == NULL) {
        packet = make_noise(sim);
    }
    net_forge_strange(packet->bytes, packet->len_bytes, &nic->engine,
                      (unsigned)sim_random_below(random, 48));
    packet->destination = nic->node->index;
    packet->destination_nic = nic->index;
    return packet;
}

static uint64_t mix(uint64_t digest, const void *data, size_t len_bytes)
{
    const uint8_t *bytes = data;

    for (size_t i = 0; i + 8 <= len_bytes; i += 8) {
        uint64_t word;
        memcpy(&word, bytes + i, 8);
        digest = (digest ^ word) * 0x9E3779B97F4A7C15ull;
        digest ^= digest >> 29;
    }
    return digest;
}

/**
 * Return a digest of the state of a node's engines and connections, without the counters of frames
 * dropped as invalid and the time of the last call.
 */
static uint64_t state_of(const struct sim_node *node)
{
    struct rawe_engine engine;
    uint64_t digest = 0;

    for (unsigned i = 0; i < node->nic_count; i++) {
        memcpy(&engine, &node->nics[i].engine, sizeof(engine));
        engine.now_ns = 0;
        engine.counters.dropped_short = engine.counters.dropped_version = 0;
        engine.counters.dropped_type = engine.counters.dropped_length = 0;
        engine.counters.dropped_key = 0;
        digest = mix(digest, &engine, sizeof(engine));
    }
    for (const struct sim_channel *channel = node->channels; channel != NULL;
         channel = channel->next) {
        digest = mix(digest, sim_conn(channel), sizeof(*sim_conn(channel)));
        const uint64_t *taken = sim_conn(channel)->rx.window.taken;
        if (taken != NULL) {
            digest = mix(digest, taken, RAWE_WINDOW_FRAMES_MAX / 8);
        }
        const struct rawe_liveness_probes *probes = sim_conn(channel)->path.liveness.probes;
        for (unsigned i = 0; i < sim_conn(channel)->path.liveness.probes_remembered; i++) {
            digest = mix(digest, &probes->sent_ns[i], sizeof(probes->sent_ns[i]));
            digest = mix(digest, &probes->numbers[i], sizeof(probes->numbers[i]));
        }
    }
    return digest;
}

void sim_forge_receive(struct sim *sim, struct sim_nic *nic)
{
    const struct sim_node *node = nic->node;
    char text[160];
    struct sim_packet *packet;

    while ((packet = sim_queue_take(&nic->stray)) != NULL) {
        uint64_t before = state_of(node);
        (void)net_receive(&nic->engine, packet->bytes, packet->len_bytes, sim_nic_time(nic));
        if (state_of(node) != before) {
            net_fail("unknown peers change nothing", "n%u believes a frame without its key: %s",
                     node->index, sim_trace_frame(packet, text, sizeof(text)));
        }
        sim_packet_give(sim, packet);
    }
}

/* ---- attackers who know all keys ---- */

/** Return a number near `number`, or any number. */
static uint64_t near(struct sim_random *random, uint64_t number)
{
    uint64_t style = sim_random_below(random, 16);
    uint64_t any = sim_random_next(random) >> sim_random_below(random, 64);
    if (style > 12) {
        return number + sim_random_below(random, 3) - 1;
    }
    return style == 0 ? any : style < 11 ? number : number + sim_random_below(random, 17) - 8;
}

/** Choose a type, mostly data or ACK, because a forged CLOSE leaves no connection to attack. */
static uint8_t choose_type(struct sim_random *random)
{
    static const uint8_t often[] = {RAWE_FRAME_DATA, RAWE_FRAME_BULK, RAWE_FRAME_ACK};
    uint64_t style = sim_random_below(random, 16);

    return style == 0 ? (uint8_t)sim_random_between(random, 1, RAWE_FRAME_TYPE_END - 1)
                      : often[style % sizeof(often)];
}

/** Choose a forgery that the victim may believe. */
static struct net_forgery choose_forgery(struct sim *sim, const struct sim_node *node)
{
    struct sim_random *random = &sim->net.forge;
    uint32_t most_bytes = node->nics[0].payload_max_bytes;
    uint32_t room_bytes = most_bytes < 512 ? most_bytes : 512;
    uint32_t data_bytes = (uint32_t)sim_random_below(random, room_bytes);
    uint32_t kind =
        (uint32_t)sim_random_between(random, RAWE_FRAGMENT_MESSAGE, RAWE_FRAGMENT_BUNDLE);
    bool batch = sim->plan.batches && sim_random_below(random, 4) == 0;
    bool at_end = node->regions != NULL && node->regions->len_bytes > data_bytes &&
                  sim_random_below(random, 2) == 0;
    struct net_forgery forgery = {
        .what = (uint16_t)(choose_type(random) | kind << 4 | sim_random_below(random, 32) << 7),
        .numbers = (uint32_t)(near(random, 0) & 0xFFFF) | (uint32_t)near(random, 0) << 16,
        .place =
            (uint32_t)near(random, at_end ? node->regions->len_bytes - data_bytes : 0) & 0xFFFFFF,
        .lengths = data_bytes | (uint32_t)sim_random_next(random) << 11,
    };

    forgery.what =
        (uint16_t)(batch ? forgery.what | NET_FORGE_BATCH : forgery.what & ~NET_FORGE_BATCH);
    forgery.place |= (uint32_t)near(random, 0) << 24;
    for (unsigned bit = NET_FORGE_EDGE; bit <= NET_FORGE_PARTLY; bit <<= 1) {
        forgery.what |= (uint16_t)(sim_random_below(random, 4) == 0 ? bit : 0);
    }
    if (sim_random_below(random, 2) == 0) {
        forgery.deceit = (uint8_t)sim_random_below(random, NET_DECEITS);
    }
    return forgery;
}

/** Make a frame to the node that seems to come from the victim's peer. */
static struct sim_packet *make_hostile(struct sim *sim, const struct sim_node *node,
                                       const struct sim_channel *victim)
{
    const struct net_forgery forgery = choose_forgery(sim, node);
    struct net_memory memory = {0, 0};
    uint8_t bytes[NET_FORGED_BYTES_MAX];

    if (node->regions != NULL) {
        memory = (struct net_memory){node->regions->handle_index, node->regions->handle_key};
    }
    uint32_t len_bytes = net_forge(sim_conn(victim), &memory, &forgery, bytes);
    struct sim_packet *packet = sim_packet_take(sim, len_bytes);
    memcpy(packet->bytes, bytes, len_bytes);
    packet->batch = (forgery.what & NET_FORGE_BATCH) != 0;
    packet->source = victim->peer;
    packet->source_nic = victim->via->far;
    packet->destination = node->index;
    packet->destination_nic = victim->via->nic->index;
    return packet;
}

/** Make a copy of a recorded frame with one change, or return NULL. */
static struct sim_packet *make_changed(struct sim *sim)
{
    struct sim_random *random = &sim->net.forge;
    struct sim_packet *packet = recall(sim);
    unsigned change = (unsigned)sim_random_below(random, NET_FORGE_CHANGES);

    if (packet != NULL) {
        change += change == NET_FORGE_CUT; /* packets in queues have a minimum length */
        packet->sequenced = 0;
        packet->len_bytes =
            net_forge_change(packet->bytes, packet->len_bytes, change, (uint32_t)near(random, 0),
                             (uint32_t)sim_random_next(random));
    }
    return packet;
}

/** Choose a node, preferably one with memory to write into. */
static struct sim_node *choose_target(struct sim *sim)
{
    struct sim_node *node;

    for (unsigned tries = 0; tries < 4; tries++) {
        node = &sim->nodes[sim_random_below(&sim->net.forge, sim->plan.nodes)];
        if (node->regions != NULL) {
            break;
        }
    }
    return node;
}

static struct sim_packet *make_attack(struct sim *sim, struct sim_node *node)
{
    struct sim_random *random = &sim->net.forge;
    const struct sim_channel *victim = node->channels;
    uint64_t skip = node->channel_count == 0 ? 0 : sim_random_below(random, node->channel_count);

    while (skip-- != 0) {
        victim = victim->next;
    }
    if (victim == NULL) {
        return NULL;
    }
    return sim_random_below(random, 8) == 0 ? make_changed(sim) : make_hostile(sim, node, victim);
}

/** Record when a forged frame first says that a peer was given up. */
static void note_given_up(struct sim *sim, const struct sim_packet *packet)
{
    struct rawe_header header;

    if (sim->net.given_up_forged_ns == 0 && sim_packet_header(packet, &header) &&
        header.type == RAWE_FRAME_CLOSE && (header.flags & RAWE_FLAG_GIVEN_UP) != 0) {
        sim->net.given_up_forged_ns = sim->now_ns;
    }
}

void sim_forge(struct sim *sim, enum sim_forgery kind)
{
    struct sim_node *node = choose_target(sim);
    struct sim_nic *nic = &node->nics[0];
    struct sim_packet *packet = NULL;
    char text[160];

    if (node->nic_count != 1) {
        nic = &node->nics[sim_random_below(&sim->net.forge, node->nic_count)];
    }
    if (!sim_faults_on(sim)) {
        return;
    }
    sim->incidents.forged++;
    plan_next(sim, kind);
    if (kind == SIM_FORGERY_REPLAY) {
        packet = recall(sim);
    } else if (node->alive) {
        packet = kind == SIM_FORGERY_UNKNOWN_PEER ? make_strange(sim, nic) : make_attack(sim, node);
    }
    if (packet == NULL) {
        return;
    }
    if (!sim_incident(sim)) {
        sim_packet_give(sim, packet);
        return;
    }
    sim_trace(sim, "forged: %s", sim_trace_frame(packet, text, sizeof(text)));
    note_given_up(sim, packet);
    if (kind == SIM_FORGERY_UNKNOWN_PEER) {
        sim_queue_put(&nic->stray, packet);
        sim_node_wake(node, sim->now_ns + 1);
    } else {
        sim->incidents.duplicated++;
        sim_net_forward(sim, packet, 0);
    }
}
