/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Connections as the program on a node sees them: opening, closing, engine callbacks, sending.
 */
#include <stdlib.h>
#include <string.h>

#include "sim.h"

#include "net_packet.h"
#include "conn/rawe_conn.h"
#include "routes/rawe_balance.h"

/** rawe_callbacks.long_reply. First opens a channel for each of the peer object's connections. */
static bool long_reply(void *context, struct rawe_conn *conn, struct rawe_send *send)
{
    struct sim_channel *channel = conn->owner;
    struct rawe_peer *peer = conn->peer, *each = peer;

    if (channel->node->ending || !channel->node->alive) {
        return false;
    }
    do {
        if (each == peer || each->takes_part) {
            (void)sim_channel_at(sim_route_of(each), RAWE_LANE_BULK);
        }
        each = rawe_peer_next(each);
    } while (each != peer);
    return rawe_balance_reply(context, conn, send);
}

static struct sim_channel *channel_open(struct sim_node *node, struct sim_peer *via, uint8_t lane)
{
    struct sim_channel *channel = net_zeroed(sizeof(*channel));
    channel->node = node;
    channel->via = via;
    channel->peer = via->node;
    channel->peer_life = via->life;
    channel->lane = lane;
    struct sim_node *scarce = sim_memory_scarce(NULL);
    struct rawe_conn *conn = rawe_peer_open(&via->peer, lane);
    (void)sim_memory_scarce(scarce);
    if (conn == NULL) {
        abort();
    }
    conn->owner = channel;
    channel->next = node->channels;
    node->channels = channel;
    node->channel_count++;
    node->sim->channels_opened++;
    if (node->channels_most < node->channel_count) {
        node->channels_most = node->channel_count;
    }
    sim_trace(node->sim, "n%u opens lane %u to n%u as %08x", node->index, lane, via->node,
              conn->handshake.local_id);
    return channel;
}

/** Return where the route's current channel is stored; NULL if the program does not use it. */
static struct sim_channel **current_of(const struct sim_peer *via, uint8_t lane)
{
    return via->is_used ? &via->nic->node->current[via->node].lanes[via->nic->index][lane] : NULL;
}

/** Return the channel on a route to the node's running process, and send on it from now on. */
static struct sim_channel *channel_renew(struct sim_peer *via, uint8_t lane)
{
    const struct rawe_conn *conn = via->peer.conn[lane];
    struct sim_channel *channel =
        conn != NULL ? conn->owner : channel_open(via->nic->node, via, lane);
    struct sim_channel **current = current_of(via, lane);

    if (current != NULL) {
        *current = channel;
    }
    return channel;
}

struct sim_channel *sim_channel_at(struct sim_peer *via, uint8_t lane)
{
    const struct rawe_conn *conn = via->peer.conn[lane];

    if (conn != NULL) {
        return conn->owner;
    }
    struct sim_channel *channel = channel_open(via->nic->node, via, lane);
    struct sim_channel **current = current_of(via, lane);
    if (current != NULL && *current == NULL) {
        *current = channel;
    }
    return channel;
}

struct sim_channel *sim_channel_get(struct sim_node *node, uint32_t peer, unsigned nic,
                                    uint8_t lane)
{
    struct sim_channel *channel = node->current[peer].lanes[nic][lane];
    const struct sim_node *other = &node->sim->nodes[peer];

    if (node->ending) {
        return NULL;
    }
    if (channel == NULL) {
        /* Most programs learn that a host is permanently gone. */
        bool gone = (node->cut_until_ns == UINT64_MAX || other->cut_until_ns == UINT64_MAX) &&
                    sim_random_below(&node->random, 8) != 0;
        return gone ? NULL : channel_renew(sim_route_get(node, peer, nic), lane);
    }
    if (channel->peer_life != other->life && other->alive) {
        /* The program may or may not know of the restart. */
        return channel->failed || sim_random_below(&node->random, 2) == 0
                   ? channel_renew(sim_route_get(node, peer, nic), lane)
                   : channel;
    }
    return channel->failed && sim_random_below(&node->random, 4) != 0 ? NULL : channel;
}

void sim_channel_close(struct sim_channel *channel)
{
    struct sim_node *node = channel->node;
    struct sim_channel **link = &node->channels;

    sim_trace(node->sim, "n%u closes lane %u to n%u, %08x", node->index, channel->lane,
              channel->peer, sim_conn(channel)->handshake.local_id);
    if (!node->ending && node->alive) {
        node->sim->incidents.closed++;
        sim_submit_closed(channel);
    }
    while (*link != channel) {
        link = &(*link)->next;
    }
    *link = channel->next;
    node->channel_count--;
    struct sim_channel **current = current_of(channel->via, channel->lane);
    if (current != NULL && *current == channel) {
        *current = NULL;
    }
    struct rawe_conn *conn = sim_conn(channel);
    channel->via->peer.conn[channel->lane] = NULL;
    rawe_conn_close(conn, sim_node_clock(node));
    free(channel->sendings);
    free(channel->early);
    free(channel);
}

const struct sim_channel *sim_channel_far_end(const struct sim_channel *channel)
{
    const struct sim_node *node = channel->node;
    const struct sim_node *peer = &node->sim->nodes[channel->peer];
    const struct sim_peer *via = channel->via;
    const struct sim_channel *back = peer->channels;

    if (node->sim->plan.nics == 1) {
        return peer->current[node->index].lanes[0][channel->lane];
    }
    while (back != NULL && (back->peer != node->index || back->lane != channel->lane ||
                            back->peer_life != node->life || back->via->nic->index != via->far ||
                            back->via->far != via->nic->index)) {
        back = back->next;
    }
    return back;
}

bool sim_channel_settled(struct sim_channel *channel)
{
    const struct sim_node *node = channel->node;

    if (channel->unsettled) {
        const struct sim_channel *back = sim_channel_far_end(channel);
        channel->unsettled =
            back == NULL || back->failed || back->peer_life != node->life ||
            sim_conn(channel)->handshake.state != RAWE_CONN_OPEN ||
            sim_conn(channel)->handshake.peer_id != sim_conn(back)->handshake.local_id;
    }
    return !channel->unsettled;
}

static void deliver(void *context, struct rawe_conn *conn, uint8_t tag, const uint8_t *data,
                    size_t len_bytes)
{
    const struct sim_nic *nic = context;
    struct sim_node *node = nic->node;
    struct sim_channel *channel = conn->owner;

    if (node->in_thread) {
        net_fail("programs outside MPI are left alone", "n%u gets a message from n%u", node->index,
                 channel->peer);
    }
    struct sim_message *message = sim_submit_delivered(channel, tag, data, len_bytes);
    if (message != NULL) {
        sim_app_delivered(node->sim, channel, message);
    }
}

/** Return true if an interface of the node has or had this address. */
static bool has_address(const struct sim_node *node, const uint8_t mac[RAWE_MAC_BYTES])
{
    unsigned i = 0;

    while (i < node->nic_count && !sim_address_same(node->nics[i].mac, mac)) {
        i++;
    }
    return i < node->nic_count;
}

static struct rawe_conn *accept_peer(void *context, const struct rawe_connect *from,
                                     const uint8_t source_mac[RAWE_MAC_BYTES])
{
    struct sim_nic *nic = context;
    struct sim_node *node = nic->node;
    struct sim *sim = node->sim;

    if (node->ending || from->vpid >= sim->plan.nodes || from->vpid == node->index ||
        !has_address(&sim->nodes[from->vpid], source_mac)) {
        return NULL;
    }
    for (struct sim_channel *channel = node->channels; channel != NULL; channel = channel->next) {
        const struct sim_peer *via = channel->via;
        if (channel->peer == from->vpid && channel->lane == from->lane &&
            via->nic->index == sim_route_meant(nic, from) && via->peer.route.key == from->key) {
            return sim_conn(channel);
        }
    }
    struct sim_peer *via = sim_route_called(nic, from, source_mac);
    return via == NULL ? NULL : sim_conn(channel_renew(via, from->lane));
}

static void fail(struct sim_channel *channel)
{
    struct sim_node *node = channel->node;

    channel->failed = true;
    if (node->sim->nodes[channel->peer].life == channel->peer_life) {
        sim_submit_closed(channel); /* a live peer learns of the close later */
    }
    /* A failed connection may be closed at once, or later. */
    if (sim_random_below(&node->random, 2) == 0) {
        sim_channel_close(channel);
    }
}

static void failed(void *context, struct rawe_conn *conn, uint64_t silent_ns)
{
    struct sim_channel *channel = conn->owner;

    sim_check_failed(channel, silent_ns);
    fail(channel);
}

static void given_up(void *context, struct rawe_conn *conn)
{
    sim_check_given_up(conn->owner);
    fail(conn->owner);
}

/**
 * rawe_callbacks.lost, which would end a program that is about to finalize. Data may be lost if a
 * peer closes its connection, but not if the peer finalizes.
 */
static void lost(void *context, struct rawe_conn *conn)
{
    const struct sim_nic *nic = context;
    const struct sim_node *node = nic->node;
    const struct sim_channel *channel = conn->owner;
    const struct sim_node *peer = &node->sim->nodes[channel->peer];

    if (node->sim->departing && (!peer->alive || sim_depart_finalizing(peer))) {
        net_fail("nothing is lost by leaving", "n%u: n%u has left, lane %u has lost data",
                 node->index, channel->peer, channel->lane);
    }
}

const struct rawe_callbacks sim_channel_callbacks = {.deliver = deliver,
                                                     .accept = accept_peer,
                                                     .unknown_source = sim_route_unknown_source,
                                                     .lossy = sim_route_lossy,
                                                     .silent = sim_route_silent,
                                                     .stalled = sim_route_stalled,
                                                     .failed = failed,
                                                     .given_up = given_up,
                                                     .lost = lost,
                                                     .long_reply = long_reply};

void sim_channel_address(struct sim_nic *nic, struct sim_packet *packet)
{
    const struct sim_node *node = nic->node;
    const struct sim *sim = node->sim;

    packet->destination_nic = packet->bytes[3];
    packet->destination = (uint32_t)packet->bytes[4] << 8 | packet->bytes[5];
    if (packet->destination >= sim->plan.nodes || packet->destination == node->index ||
        packet->destination_nic >= sim->nodes[packet->destination].nic_count ||
        !sim_address_same(packet->bytes,
                          sim->nodes[packet->destination].nics[packet->destination_nic].mac)) {
        net_fail("frames are addressed", "n%u sends a frame to a foreign address", node->index);
    }
    sim_address_check(nic, packet);
}

/** Return a frame as a packet. */
static struct sim_packet *make_packet(struct sim_nic *nic, const struct rawe_frame *frame)
{
    struct sim_node *node = nic->node;
    struct rawe_header header;
    struct sim_packet *packet = sim_packet_take(node->sim, frame->len_bytes);

    net_frame_linearize(&nic->engine, frame, packet->bytes, &header);
    sim_channel_address(nic, packet);
    packet->sequenced = sim_packet_sequenced(packet, &header);
    sim_check_frame(node, &header, packet);
    if (node->sim->plan.padding && packet->len_bytes < SIM_PADDED_BYTES) {
        memset(packet->bytes + packet->len_bytes, 0, SIM_PADDED_BYTES - packet->len_bytes);
        packet->len_bytes = SIM_PADDED_BYTES;
    }
    return packet;
}

unsigned sim_channel_transmit(void *context, const struct rawe_frame *frames, unsigned count)
{
    struct sim_nic *nic = context;
    struct sim_node *node = nic->node;

    if (node->muted) {
        return count;
    }
    for (unsigned i = 0; i < count; i++) {
        if (sim_net_full(node->sim, nic)) {
            sim_trace(node->sim, "n%u has no room on its send path", node->index);
            return i;
        }
        struct sim_packet *packet = make_packet(nic, &frames[i]);
        node->local_ns += node->sim->plan.transmit_cost_ns;
        sim_net_send(node->sim, nic, packet, node->local_ns);
    }
    return count;
}
