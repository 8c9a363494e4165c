/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Connections as the program on a node has them: opening, closing, the engine's callbacks, the way
 * out, and the responder that answers for a program that computes.
 */
#include <stdlib.h>
#include <string.h>

#include "sim.h"

#include "net_packet.h"
#include "rawe_conn.h"

static uint64_t clock_of(void *context)
{
    return sim_node_clock(context);
}

/** The process that runs on a node now, or was the last one to. */
static struct sim_peer *find_peer(struct sim_node *node, uint32_t index)
{
    const struct sim_node *other = &node->sim->nodes[index];
    struct sim_peer *peer = node->peers;

    while (peer != NULL && (peer->node != index || peer->life != other->life)) {
        peer = peer->next;
    }
    if (peer != NULL) {
        return peer;
    }
    struct rawe_peer_config config = {
        .port = other->port,
        .key = other->key,
        .payload_max_bytes = node->payload_max_bytes,
        .streak_ns = node->sim->plan.streak_ns,
        .now_ns = clock_of,
        .context = node,
    };
    memcpy(config.mac, other->mac, RAWE_MAC_BYTES);
    /* Half of them know the peer's MTU, half have to learn it from the peer. */
    if ((node->index + index) % 2 == 0 && other->payload_max_bytes < config.payload_max_bytes) {
        config.payload_max_bytes = other->payload_max_bytes;
    }
    peer = calloc(1, sizeof(*peer));
    if (peer == NULL) {
        abort();
    }
    peer->node = index;
    peer->life = other->life;
    rawe_peer_init(&peer->peer, &node->engine, &config);
    peer->next = node->peers;
    node->peers = peer;
    return peer;
}

void sim_channel_forget_peers(struct sim_node *node)
{
    while (node->peers != NULL) {
        struct sim_peer *peer = node->peers;
        node->peers = peer->next;
        free(peer);
    }
}

/** rawe_conn_config.long_lane; `peer` is the channel. */
static struct rawe_conn *long_lane(struct rawe_peer *peer)
{
    struct sim_channel *channel = (struct sim_channel *)(void *)peer;

    return channel->node->ending || !channel->node->alive
               ? NULL
               : sim_channel_beside(channel, RAWE_LANE_BULK)->conn;
}

static struct sim_channel *channel_open(struct sim_node *node, struct sim_peer *via, uint8_t lane)
{
    struct sim_channel *channel = calloc(1, sizeof(*channel));

    if (channel == NULL) {
        abort();
    }
    channel->node = node;
    channel->via = via;
    channel->peer = via->node;
    channel->peer_life = via->life;
    channel->lane = lane;
    channel->conn = rawe_peer_open(&via->peer, lane);
    if (channel->conn == NULL) {
        abort();
    }
    channel->conn->owner = channel;
    if (lane == RAWE_LANE_EXPRESS) { /* connections of a peer object have channels */
        channel->conn->long_lane = long_lane;
        channel->conn->peer = (struct rawe_peer *)(void *)channel;
    }
    channel->next = node->channels;
    node->channels = channel;
    node->channel_count++;
    node->sim->channels_opened++;
    if (node->channels_most < node->channel_count) {
        node->channels_most = node->channel_count;
    }
    sim_trace(node->sim, "n%u opens lane %u to n%u as %08x", node->index, lane, via->node,
              channel->conn->handshake.local_id);
    return channel;
}

/** The channel to the process that is on the node now: it is the one to send on from now on. */
static struct sim_channel *channel_renew(struct sim_node *node, uint32_t index, uint8_t lane)
{
    struct sim_peer *via = find_peer(node, index);
    const struct rawe_conn *conn = via->peer.conn[lane];
    struct sim_channel *channel = conn != NULL ? conn->owner : channel_open(node, via, lane);

    node->current[index][lane] = channel;
    return channel;
}

struct sim_channel *sim_channel_beside(struct sim_channel *channel, uint8_t lane)
{
    struct sim_node *node = channel->node;
    const struct rawe_conn *conn = channel->via->peer.conn[lane];

    if (conn != NULL) {
        return conn->owner;
    }
    struct sim_channel *beside = channel_open(node, channel->via, lane);
    if (node->current[channel->peer][lane] == NULL) {
        node->current[channel->peer][lane] = beside;
    }
    return beside;
}

struct sim_channel *sim_channel_get(struct sim_node *node, uint32_t peer, uint8_t lane)
{
    struct sim_channel *channel = node->current[peer][lane];
    const struct sim_node *other = &node->sim->nodes[peer];

    if (node->ending) {
        return NULL;
    }
    if (channel == NULL) {
        /* Most programs have heard of it when a host is gone for good. */
        bool gone = (node->cut_until_ns == UINT64_MAX || other->cut_until_ns == UINT64_MAX) &&
                    sim_random_below(&node->random, 8) != 0;
        return gone ? NULL : channel_renew(node, peer, lane);
    }
    if (channel->peer_life != other->life && other->alive) {
        /* The program may or may not have heard of the restart. */
        return channel->failed || sim_random_below(&node->random, 2) == 0
                   ? channel_renew(node, peer, lane)
                   : channel;
    }
    return channel->failed && sim_random_below(&node->random, 4) != 0 ? NULL : channel;
}

void sim_channel_close(struct sim_channel *channel)
{
    struct sim_node *node = channel->node;
    struct sim_channel **link = &node->channels;

    sim_trace(node->sim, "n%u closes lane %u to n%u, %08x", node->index, channel->lane,
              channel->peer, channel->conn->handshake.local_id);
    if (!node->ending && node->alive) {
        node->sim->incidents.closed++;
        sim_submit_closed(channel);
    }
    while (*link != channel) {
        link = &(*link)->next;
    }
    *link = channel->next;
    node->channel_count--;
    if (node->current[channel->peer][channel->lane] == channel) {
        node->current[channel->peer][channel->lane] = NULL;
    }
    channel->via->peer.conn[channel->lane] = NULL;
    rawe_conn_close(channel->conn, sim_node_clock(node));
    free(channel->sendings);
    free(channel->early);
    free(channel);
}

bool sim_channel_settled(struct sim_channel *channel)
{
    const struct sim_node *node = channel->node;
    const struct sim_node *peer = &node->sim->nodes[channel->peer];

    if (channel->unsettled) {
        const struct sim_channel *back = peer->current[node->index][channel->lane];
        channel->unsettled = back == NULL || back->failed || back->peer_life != node->life ||
                             channel->conn->handshake.state != RAWE_CONN_OPEN ||
                             channel->conn->handshake.peer_id != back->conn->handshake.local_id;
    }
    return !channel->unsettled;
}

static void deliver(void *context, struct rawe_conn *conn, uint8_t tag, const uint8_t *data,
                    size_t len_bytes)
{
    struct sim_node *node = context;
    struct sim_channel *channel = conn->owner;
    struct sim_message *message = sim_submit_delivered(channel, tag, data, len_bytes);

    if (message != NULL) {
        sim_app_delivered(node->sim, channel, message);
    }
}

static struct rawe_conn *accept_peer(void *context, const struct rawe_connect *from,
                                     const uint8_t source_mac[RAWE_MAC_BYTES])
{
    struct sim_node *node = context;
    struct sim *sim = node->sim;

    if (node->ending || from->vpid >= sim->plan.nodes || from->vpid == node->index ||
        memcmp(sim->nodes[from->vpid].mac, source_mac, RAWE_MAC_BYTES) != 0) {
        return NULL;
    }
    for (struct sim_channel *channel = node->channels; channel != NULL; channel = channel->next) {
        if (channel->peer == from->vpid && channel->lane == from->lane &&
            channel->conn->peer_key == from->key) {
            return channel->conn;
        }
    }
    if (sim->nodes[from->vpid].key != from->key || sim_depart_finalizing(node)) {
        return NULL; /* of a process that is no more, or one that it does not know */
    }
    return channel_renew(node, from->vpid, from->lane)->conn;
}

/** Write a PING or PONG from the node to `to` and send it at `at_ns`. */
static void send_ping(struct sim_node *node, uint8_t type, uint32_t to, uint16_t port, uint32_t key,
                      const struct rawe_ping *ping, uint64_t at_ns)
{
    struct sim_packet *packet = sim_packet_take(node->sim, RAWE_PAYLOAD_OFFSET + RAWE_PING_BYTES);
    const bool serviced = type == RAWE_FRAME_PONG && node->sim->now_ns >= node->pause_until_ns;
    struct rawe_header header = {.type = type,
                                 .flags = serviced ? RAWE_FLAG_SERVICED : 0,
                                 .port = port,
                                 .key = key,
                                 .payload_bytes = RAWE_PING_BYTES};

    net_frame_address(packet->bytes, node->sim->nodes[to].mac, node->mac);
    rawe_header_encode(packet->bytes + RAWE_ETH_HEADER_BYTES, &header);
    rawe_ping_encode(packet->bytes + RAWE_PAYLOAD_OFFSET, ping);
    packet->destination = to;
    node->control++;
    sim_net_send(node->sim, node, packet, at_ns);
}

static uint64_t token_of(const struct sim_channel *channel)
{
    return (uint64_t)channel->peer << 32 | (uint64_t)channel->peer_life << 1 | channel->lane;
}

/** Ask the peer's responder, as the component does, and pass on what it said before. */
static void silent(void *context, struct rawe_conn *conn, uint64_t silent_ns)
{
    struct sim_node *node = context;
    struct sim_channel *channel = conn->owner;
    struct rawe_ping ping = {.key = node->key, .port = node->port, .token = token_of(channel)};

    sim_trace(node->sim, "n%u has not heard n%u on lane %u for %llu us", node->index, channel->peer,
              channel->lane, (unsigned long long)silent_ns / 1000);
    send_ping(node, RAWE_FRAME_PING, channel->peer, conn->peer_port, conn->peer_key, &ping,
              node->local_ns);
    rawe_conn_alive(conn, channel->pong_ns);
}

void sim_responder_receive(struct sim *sim, struct sim_node *node, const struct rawe_header *header,
                           const struct sim_packet *packet)
{
    struct rawe_ping ping;

    if (header->key != node->key || header->port != node->port ||
        rawe_ping_decode(&ping, packet->bytes + RAWE_PAYLOAD_OFFSET, header->payload_bytes) !=
            RAWE_DECODE_OK) {
        return;
    }
    if (header->type == RAWE_FRAME_PING) {
        send_ping(node, RAWE_FRAME_PONG, packet->source, ping.port, ping.key, &ping, sim->now_ns);
        return;
    }
    if ((header->flags & RAWE_FLAG_SERVICED) != 0) {
        return; /* the process does not compute: its silence counts */
    }
    for (struct sim_channel *channel = node->channels; channel != NULL; channel = channel->next) {
        if (token_of(channel) == ping.token) {
            channel->pong_ns = sim_node_clock_at(node, sim->now_ns);
        }
    }
}

static void failed(void *context, struct rawe_conn *conn, uint64_t silent_ns)
{
    struct sim_node *node = context;
    struct sim *sim = node->sim;
    struct sim_channel *channel = conn->owner;

    sim_check_failed(channel, silent_ns);
    channel->failed = true;
    if (sim->nodes[channel->peer].life == channel->peer_life) {
        sim_submit_closed(channel); /* the peer, if it lives, learns of it later */
    }
    /* A failed connection may be closed at once, or later. */
    if (sim_random_below(&node->random, 2) == 0) {
        sim_channel_close(channel);
    }
}

/** A program that is about to finalize would be ended by that. Who closes may lose something. */
static void lost(void *context, struct rawe_conn *conn)
{
    const struct sim_node *node = context;
    const struct sim_channel *channel = conn->owner;
    const struct sim_node *peer = &node->sim->nodes[channel->peer];

    if (node->sim->departing && (!peer->alive || sim_depart_finalizing(peer))) {
        net_fail("nothing is lost by leaving", "n%u: n%u has left, lane %u has lost data",
                 node->index, channel->peer, channel->lane);
    }
}

const struct rawe_callbacks sim_channel_callbacks = {.deliver = deliver,
                                                     .accept = accept_peer,
                                                     .silent = silent,
                                                     .stalled = silent,
                                                     .failed = failed,
                                                     .lost = lost};

void sim_channel_address(struct sim_node *node, struct sim_packet *packet)
{
    struct sim *sim = node->sim;

    packet->destination = (uint32_t)packet->bytes[4] << 8 | packet->bytes[5];
    if (packet->destination >= sim->plan.nodes || packet->destination == node->index ||
        memcmp(packet->bytes, sim->nodes[packet->destination].mac, RAWE_MAC_BYTES) != 0) {
        net_fail("frames are addressed", "n%u sends a frame to a foreign address", node->index);
    }
}

/** One frame as a packet. */
static struct sim_packet *make_packet(struct sim_node *node, const struct rawe_frame *frame)
{
    struct rawe_header header;
    struct sim_packet *packet = sim_packet_take(node->sim, frame->len_bytes);

    net_frame_linearize(&node->engine, frame, packet->bytes, &header);
    sim_channel_address(node, packet);
    packet->sequenced = header.type == RAWE_FRAME_DATA || header.type == RAWE_FRAME_BULK;
    sim_check_frame(node, &header, packet);
    if (node->sim->plan.padding && packet->len_bytes < 60) {
        memset(packet->bytes + packet->len_bytes, 0, 60 - packet->len_bytes);
        packet->len_bytes = 60;
    }
    return packet;
}

unsigned sim_channel_transmit(void *context, const struct rawe_frame *frames, unsigned count)
{
    struct sim_node *node = context;

    if (node->muted) {
        return count;
    }
    for (unsigned i = 0; i < count; i++) {
        if (sim_net_full(node->sim, node)) {
            sim_trace(node->sim, "n%u has no room on its send path", node->index);
            return i;
        }
        struct sim_packet *packet = make_packet(node, &frames[i]);
        node->local_ns += node->sim->plan.transmit_cost_ns;
        sim_net_send(node->sim, node, packet, node->local_ns);
    }
    return count;
}
