/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Frames that nobody should believe. An unknown peer's change nothing at all; a replayed one is as
 * good as a late one; who knows the keys may confuse its victims, but reach no memory that is not
 * theirs to reach, nor use up what is bounded.
 */
#include <stdlib.h>
#include <string.h>

#include "net_packet.h"
#include "sim.h"

#include "net_packet.h"
#include "net_receive.h"

/** Forged frames in a run: enough to meet every state, few enough to keep runs short. */
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
        sim_events_push(&sim->events, (struct sim_event){.at_ns = sim->now_ns + wait_ns,
                                                         .kind = SIM_EVENT_FORGE,
                                                         .value = kind});
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

/** A copy of a frame heard before, or NULL. */
static struct sim_packet *recall(struct sim *sim)
{
    const struct sim_packet *heard = sim->net.heard[sim_random_below(&sim->net.forge, SIM_HEARD)];
    return heard == NULL ? NULL : sim_packet_copy(sim, heard);
}

static void fill_random(struct sim_random *random, uint8_t *out, size_t len_bytes)
{
    for (size_t i = 0; i < len_bytes; i++) {
        out[i] = (uint8_t)sim_random_next(random);
    }
}

/* ---- unknown peers ---- */

/** Give a packet another key or another port than the node's. */
static void spoil_key(struct sim_random *random, const struct sim_node *node,
                      struct sim_packet *packet)
{
    bool batch = net_is_batch(packet->bytes, packet->len_bytes);
    bool key_wrong = sim_random_below(random, 2) == 0;
    uint32_t key = node->key ^ (key_wrong ? 1u << sim_random_below(random, 32) : 0);
    uint16_t port = (uint16_t)(node->port ^ (key_wrong ? 0 : 1u << sim_random_below(random, 16)));
    uint8_t *header = packet->bytes + RAWE_ETH_HEADER_BYTES;
    uint8_t *key_at = header + (batch ? RAWE_BATCH_OFFSET_KEY : RAWE_OFFSET_KEY);
    uint8_t *port_at = header + (batch ? RAWE_BATCH_OFFSET_PORT : RAWE_OFFSET_PORT);

    for (unsigned i = 0; i < 4; i++) {
        key_at[i] = (uint8_t)(key >> (24 - 8 * i));
    }
    port_at[0] = (uint8_t)(port >> 8);
    port_at[1] = (uint8_t)port;
}

static struct sim_packet *make_noise(struct sim *sim)
{
    struct sim_random *random = &sim->net.forge;
    uint32_t len_bytes = (uint32_t)sim_random_below(random, 200);
    struct sim_packet *packet = sim_packet_take(sim, len_bytes);
    uint8_t version_type = (uint8_t)(RAWE_WIRE_VERSION << 4 | sim_random_below(random, 10));

    packet->batch = sim_random_below(random, 2) == 0;
    fill_random(random, packet->bytes, len_bytes);
    if (packet->batch && len_bytes >= NET_BATCH_HEAD_BYTES) {
        packet->bytes[12] = 0x08;
        packet->bytes[13] = 0x00;
        packet->bytes[RAWE_ETH_HEADER_BYTES + RAWE_BATCH_OFFSET_VERSION_TYPE] = version_type;
    } else if (len_bytes > RAWE_ETH_HEADER_BYTES) {
        packet->bytes[RAWE_ETH_HEADER_BYTES] = version_type;
    }
    return packet;
}

/** What one can send who does not know the node's key: noise, or frames for somebody else. */
static struct sim_packet *make_strange(struct sim *sim, const struct sim_node *node)
{
    struct sim_random *random = &sim->net.forge;
    struct sim_packet *packet = sim_random_below(random, 4) == 0 ? NULL : recall(sim);

    if (packet == NULL) {
        packet = make_noise(sim);
    }
    if (packet->len_bytes >= RAWE_PAYLOAD_OFFSET) {
        spoil_key(random, node, packet);
    }
    packet->destination = node->index;
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

/** Of all state of the engine but its counters of dropped frames, and the time it was last told. */
static uint64_t state_of(const struct sim_node *node)
{
    struct rawe_engine engine;
    uint64_t digest;

    memcpy(&engine, &node->engine, sizeof(engine));
    engine.now_ns = 0;
    engine.counters.dropped_short = engine.counters.dropped_version = 0;
    engine.counters.dropped_type = engine.counters.dropped_length = 0;
    engine.counters.dropped_key = 0;
    digest = mix(0, &engine, sizeof(engine));
    for (const struct sim_channel *channel = node->channels; channel != NULL;
         channel = channel->next) {
        digest = mix(digest, channel->conn, sizeof(*channel->conn));
        if (channel->conn->recvwin.acktr != NULL) {
            digest =
                mix(digest, channel->conn->recvwin.acktr, sizeof(*channel->conn->recvwin.acktr));
        }
    }
    return digest;
}

void sim_forge_receive(struct sim *sim, struct sim_node *node)
{
    char text[160];
    struct sim_packet *packet;

    while ((packet = sim_queue_take(&node->stray)) != NULL) {
        uint64_t before = state_of(node);
        (void)net_receive(&node->engine, packet->bytes, packet->len_bytes,
                          sim_node_engine_time(node));
        if (state_of(node) != before) {
            sim_violation(sim, "unknown peers change nothing",
                          "n%u believes a frame without its key: %s", node->index,
                          sim_trace_frame(packet, text, sizeof(text)));
        }
        sim_packet_give(sim, packet);
    }
}

/* ---- who knows all keys ---- */

/** A number that is near something that matters, or any at all. */
static uint64_t near(struct sim_random *random, uint64_t number)
{
    uint64_t style = sim_random_below(random, 16);
    uint64_t any = sim_random_next(random) >> sim_random_below(random, 64);
    if (style > 12) {
        return number + sim_random_below(random, 3) - 1;
    }
    return style == 0 ? any : style < 11 ? number : number + sim_random_below(random, 17) - 8;
}

static size_t make_fragment(struct sim_node *node, const struct sim_channel *victim, uint8_t *out,
                            size_t room_bytes)
{
    struct sim_random *random = &node->sim->net.forge;
    const struct rawe_reassembly *reassembly = victim->conn->reassembly;
    const struct sim_transfer none = {.len_bytes = 4096};
    const struct sim_transfer *target = node->regions == NULL ? &none : node->regions;
    struct rawe_fragment fragment = {
        .kind =
            (uint8_t)sim_random_between(random, RAWE_FRAGMENT_MESSAGE, RAWE_FRAGMENT_VALIDATION),
        .tag = (uint8_t)sim_random_next(random),
        .total_bytes = (uint32_t)near(random, node->sim->plan.message_max_bytes),
    };
    size_t header_bytes = rawe_fragment_header_bytes(fragment.kind);
    size_t data_bytes = sim_random_below(random, room_bytes - header_bytes + 1);

    fragment.data_bytes = (uint16_t)near(random, data_bytes);
    if (fragment.kind == RAWE_FRAGMENT_PUT) {
        uint64_t end = target->len_bytes > data_bytes ? target->len_bytes - data_bytes : 0;
        fragment.id = (uint32_t)near(random, target->handle_index);
        fragment.key = near(random, target->handle_key);
        fragment.offset = near(random, sim_random_below(random, 2) == 0 ? end : 0);
    } else if (fragment.kind == RAWE_FRAGMENT_PART) {
        fragment.id = (uint32_t)near(random, reassembly == NULL ? 0 : reassembly->next);
        fragment.offset = near(random, fragment.total_bytes - data_bytes);
    }
    rawe_fragment_encode(out, &fragment);
    fill_random(random, out + header_bytes, data_bytes);
    return header_bytes + data_bytes;
}

static size_t make_identity(struct sim_node *node, uint8_t *out)
{
    struct sim_random *random = &node->sim->net.forge;
    uint32_t vpid = (uint32_t)sim_random_below(random, node->sim->plan.nodes);
    const struct sim_node *peer = &node->sim->nodes[vpid];
    struct rawe_connect connect = {
        .jobid = 7,
        .vpid = (uint32_t)near(random, vpid),
        .connection_id = (uint32_t)sim_random_next(random),
        .key = (uint32_t)near(random, peer->key),
        .port = (uint16_t)near(random, peer->port),
        .lane = (uint8_t)sim_random_below(random, 4),
        .payload_max_bytes = (uint32_t)near(random, peer->payload_max_bytes),
        .incarnation = near(random, peer->engine.incarnation),
    };

    rawe_connect_encode(out, &connect);
    return RAWE_CONNECT_BYTES;
}

static size_t make_payload(struct sim_node *node, const struct sim_channel *victim, uint8_t type,
                           uint8_t *out, size_t room_bytes)
{
    struct sim_random *random = &node->sim->net.forge;
    size_t len_bytes = sim_random_below(random, room_bytes + 1);

    if (sim_random_below(random, 8) != 0) {
        switch (type) {
        case RAWE_FRAME_DATA:
        case RAWE_FRAME_BULK:
            return make_fragment(node, victim, out, room_bytes);
        case RAWE_FRAME_PROBE:
        case RAWE_FRAME_CONNECT:
            return make_identity(node, out);
        default:
            break;
        }
    }
    fill_random(random, out, len_bytes);
    return len_bytes;
}

/** Mostly data: a connection that was talked to death is no longer to be attacked. */
static uint8_t choose_type(struct sim_random *random)
{
    static const uint8_t often[] = {RAWE_FRAME_DATA, RAWE_FRAME_BULK, RAWE_FRAME_ACK};
    uint64_t style = sim_random_below(random, 16);

    return style == 0 ? (uint8_t)sim_random_between(random, 1, RAWE_FRAME_TYPE_END - 1)
                      : often[style % sizeof(often)];
}

/** A frame to the node that looks as if the victim's peer had sent it. */
static struct sim_packet *make_hostile(struct sim *sim, struct sim_node *node,
                                       const struct sim_channel *victim)
{
    struct sim_random *random = &sim->net.forge;
    const struct rawe_conn *conn = victim->conn;
    uint32_t room_bytes = node->payload_max_bytes < 512 ? node->payload_max_bytes : 512;
    struct sim_packet *packet =
        sim_packet_take(sim, RAWE_PAYLOAD_OFFSET + room_bytes + RAWE_CHECKSUM_BYTES);
    struct rawe_header header = {
        .type = choose_type(random),
        .flags = (uint8_t)(sim_random_next(random) & RAWE_FLAGS_KNOWN & ~RAWE_FLAG_CHECKSUM),
        .connection_id = (uint32_t)near(random, conn->handshake.local_id),
        .sequence =
            (uint32_t)near(random, conn->recvwin.acktr == NULL ? 0 : conn->recvwin.acktr->next),
        .acknowledgement = (uint32_t)near(random, conn->sendwin.una),
        .credit = (uint16_t)sim_random_next(random),
    };

    header.payload_bytes = (uint16_t)make_payload(node, victim, header.type,
                                                  packet->bytes + RAWE_PAYLOAD_OFFSET, room_bytes);
    packet->len_bytes = net_frame_forge(packet->bytes, &node->engine, conn->eth_header, &header);
    packet->source = victim->peer;
    packet->destination = node->index;
    return packet;
}

/** A packet of a batch that goes on like the frame given. */
static struct sim_packet *make_hostile_batch(struct sim *sim, struct sim_packet *one)
{
    struct sim_random *random = &sim->net.forge;
    struct rawe_batch batch = {0};
    const uint8_t *frame = one->bytes + RAWE_ETH_HEADER_BYTES;
    const uint8_t *payload = frame + RAWE_HEADER_BYTES;
    uint32_t payload_bytes = one->len_bytes - RAWE_PAYLOAD_OFFSET;

    if (rawe_header_decode(&batch.header, frame, one->len_bytes - RAWE_ETH_HEADER_BYTES) !=
            RAWE_DECODE_OK ||
        payload_bytes < RAWE_FRAGMENT_BYTES_MAX) {
        return one;
    }
    rawe_fragment_reread(&batch.fragment, payload);
    uint32_t segment_bytes = payload_bytes - RAWE_FRAGMENT_BYTES_MAX + 1;
    uint32_t frames = (uint32_t)sim_random_between(random, 1, 8);
    uint32_t data_bytes = frames * segment_bytes - (uint32_t)sim_random_below(random, 2);
    batch.frames = (uint8_t)near(random, frames);
    batch.segment_bytes = (uint16_t)near(random, segment_bytes);
    batch.at_bytes = sim_random_below(random, 2) * (uint32_t)near(random, segment_bytes);
    struct sim_packet *packet = sim_packet_take(sim, NET_BATCH_HEAD_BYTES + data_bytes);
    memcpy(packet->bytes, one->bytes, RAWE_ETH_HEADER_BYTES);
    packet->bytes[12] = 0x08;
    packet->bytes[13] = 0x00;
    rawe_batch_encode(packet->bytes + RAWE_ETH_HEADER_BYTES, &batch);
    for (uint32_t i = 0; i < data_bytes; i++) {
        packet->bytes[NET_BATCH_HEAD_BYTES + i] = payload[i % payload_bytes];
    }
    packet->source = one->source;
    packet->destination = one->destination;
    packet->batch = true;
    sim_packet_give(sim, one);
    return packet;
}

/** Some node, rather one that has memory to write into. */
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
    struct sim_packet *packet = make_hostile(sim, node, victim);
    return sim->plan.batches && sim_random_below(random, 4) == 0 ? make_hostile_batch(sim, packet)
                                                                 : packet;
}

void sim_forge(struct sim *sim, enum sim_forgery kind)
{
    struct sim_node *node = choose_target(sim);
    struct sim_packet *packet = NULL;
    char text[160];

    if (!sim_faults_on(sim)) {
        return;
    }
    sim->incidents.forged++;
    plan_next(sim, kind);
    if (kind == SIM_FORGERY_REPLAY) {
        packet = recall(sim);
    } else if (node->alive) {
        packet =
            kind == SIM_FORGERY_UNKNOWN_PEER ? make_strange(sim, node) : make_attack(sim, node);
    }
    if (packet == NULL) {
        return;
    }
    if (!sim_incident(sim)) {
        sim_packet_give(sim, packet);
        return;
    }
    sim_trace(sim, "forged: %s", sim_trace_frame(packet, text, sizeof(text)));
    if (kind == SIM_FORGERY_UNKNOWN_PEER) {
        sim_queue_put(&node->stray, packet);
        sim_node_wake(node, sim->now_ns + 1);
    } else {
        sim->incidents.duplicated++;
        sim_net_forward(sim, packet, 0);
    }
}
