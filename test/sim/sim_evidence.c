/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Checks retransmissions: a frame may be resent only if a later transmission has arrived and the
 * frame has not. The sender learns this from acknowledgements; the simulator sees each arrival.
 *
 * If a frame was sent twice, the sender cannot know which copy has arrived. It may assume that it
 * was the newest, but not before an answer to that copy is possible (RFC 8985 section 6.2 step 2).
 * The simulator makes the same assumption.
 */
#include <stdlib.h>

#include "sim.h"

#include "conn/rawe_conn_tx.h"

/** Return true if the connection's frames may be sent to the interface with this session key. */
static bool leads_to(const struct rawe_conn *conn, uint32_t key)
{
    const struct rawe_route *route = conn->path.preferred;

    while (route->key != key && rawe_route_next(route) != conn->path.preferred) {
        route = rawe_route_next(route);
    }
    return route->key == key;
}

struct sim_channel *sim_evidence_channel(struct sim_node *node, const struct rawe_header *header)
{
    struct sim_channel *channel = node->channels;

    while (channel != NULL && (sim_conn(channel)->handshake.peer_id != header->connection_id ||
                               !leads_to(sim_conn(channel), header->key))) {
        channel = channel->next;
    }
    return channel;
}

/** Reset the evidence of a channel that now sends to another connection of the peer. */
static void follow_stream(struct sim_channel *channel, uint32_t connection_id, uint32_t sequence)
{
    if (channel->sendings == NULL) {
        channel->sendings =
            net_zeroed(channel->node->sim->plan.window_frames * sizeof(*channel->sendings));
    } else if (channel->stream_id == connection_id) {
        return;
    }
    channel->stream_id = connection_id;
    channel->next_sequence = sequence;
    channel->arrived_order = channel->sent_order;
    channel->early_count = 0;
}

static void number_packet(struct sim_channel *channel, struct sim_packet *packet)
{
    channel->sent_order++;
    if (packet->order == 0) {
        packet->order = channel->sent_order;
        packet->stream_id = channel->stream_id;
    }
}

static struct sim_sending *sending_of(struct sim_channel *channel, uint32_t sequence)
{
    return &channel->sendings[sequence & (channel->node->sim->plan.window_frames - 1)];
}

/** Record the arrival of transmission `order`, as far as the sender can know of it. */
static void arrived(struct sim_channel *channel, uint64_t order)
{
    if (channel->arrived_order < order) {
        channel->arrived_order = order;
    }
}

/** Record a transmission that becomes evidence only later: an earlier copy has already arrived. */
static void arrived_early(struct sim_channel *channel, const struct sim_sending *sending)
{
    if (channel->early_count == channel->early_room) {
        channel->early_room = channel->early_room == 0 ? 16 : 2 * channel->early_room;
        channel->early = realloc(channel->early, channel->early_room * sizeof(*channel->early));
        if (channel->early == NULL) {
            abort();
        }
    }
    channel->early[channel->early_count++] = *sending;
}

/** Turn early transmissions into evidence once the links' delay allows an answer. */
static void believe_early(struct sim_channel *channel)
{
    const struct sim_plan *plan = &channel->node->sim->plan;
    uint64_t now_ns = sim_conn(channel)->engine->now_ns + plan->clock_step_ns;
    uint32_t waiting = 0;

    for (uint32_t i = 0; i < channel->early_count; i++) {
        const struct sim_sending *sending = &channel->early[i];
        if (now_ns >= sending->at_ns + 4 * plan->delay_ns) {
            arrived(channel, sending->order);
        } else {
            channel->early[waiting++] = *sending;
        }
    }
    channel->early_count = waiting;
}

/**
 * Return true if the peer may already have the frame: always if its process or connection has
 * ended, even if a connection of its next process has the same id.
 */
static bool has_frame(const struct sim_channel *channel, uint32_t sequence)
{
    const struct sim_node *peer = &channel->node->sim->nodes[channel->peer];
    const struct sim_channel *back = peer->channels;

    if (!peer->alive || peer->life != channel->peer_life) {
        return true;
    }
    while (back != NULL && (sim_conn(back)->handshake.local_id != channel->stream_id ||
                            back->peer != channel->node->index)) {
        back = back->next;
    }
    return back == NULL ||
           rawe_recvwin_check(&sim_conn(back)->rx.window, sequence) == RAWE_RECVWIN_DUPLICATE;
}

void sim_evidence_sent(struct sim_channel *channel, const struct rawe_header *header,
                       struct sim_packet *packet)
{
    struct sim *sim = channel->node->sim;

    follow_stream(channel, header->connection_id, header->sequence);
    struct sim_sending *sending = sending_of(channel, header->sequence);
    bool again = rawe_sequence_before(header->sequence, channel->next_sequence);
    believe_early(channel);
    if (again && !sim->plan.lying && sending->order >= channel->arrived_order) {
        net_fail("no resend without evidence",
                 "n%u sends frame %u to n%u again, and nothing that it sent later has arrived",
                 channel->node->index, header->sequence, channel->peer);
    }
    number_packet(channel, packet);
    *sending = (struct sim_sending){channel->sent_order, sim_conn(channel)->engine->now_ns};
    if (again && has_frame(channel, header->sequence)) {
        arrived_early(channel, sending);
    }
}

void sim_evidence_asked(struct sim_node *node, const struct rawe_header *header,
                        struct sim_packet *packet)
{
    struct sim_channel *channel = sim_evidence_channel(node, header);

    if (channel == NULL) {
        return;
    }
    if (channel->sendings != NULL && channel->stream_id == header->connection_id) {
        number_packet(channel, packet);
    }
    if (header->sequence == RAWE_PROBE_PLAIN) {
        return;
    }
    if (!rawe_sequence_before(channel->probe_number, header->sequence)) {
        net_fail("probes are numbered", "n%u sends probe %u to n%u on lane %u, the newest is %u",
                 node->index, header->sequence, channel->peer, channel->lane,
                 channel->probe_number);
    }
    channel->probe_number = header->sequence;
}

/** Record the arrival of a packet's sequenced frames. */
static void frames_arrived(struct sim_channel *channel, const struct sim_packet *packet)
{
    struct rawe_header header;

    if (!sim_packet_header(packet, &header)) {
        /* Some frames of a damaged batch may be accepted. */
        arrived(channel, packet->order + packet->sequenced - 1);
        return;
    }
    for (uint32_t i = 0; i < packet->sequenced; i++) {
        const struct sim_sending *newest = sending_of(channel, header.sequence + i);
        /* The frame may have left the window, and a newer frame may have taken its slot. */
        bool in_window =
            !rawe_sequence_before(header.sequence + i, sim_conn(channel)->tx.window.una);
        arrived(channel, packet->order + i);
        if (in_window && newest->order > packet->order + i) {
            arrived_early(channel, newest);
        }
    }
}

void sim_evidence_arrived(struct sim_node *node, const struct sim_packet *packet)
{
    const struct sim_node *from = &node->sim->nodes[packet->source];
    struct sim_channel *channel = from->channels;

    while (channel != NULL && (channel->peer != node->index || channel->sendings == NULL ||
                               channel->stream_id != packet->stream_id)) {
        channel = channel->next;
    }
    if (channel == NULL || packet->order == 0) {
        return;
    }
    if (packet->sequenced == 0) {
        arrived(channel, packet->order);
    } else {
        frames_arrived(channel, packet);
    }
}

void sim_evidence_credit(struct sim_node *node, const struct rawe_header *header,
                         uint32_t destination)
{
    struct sim_channel *channel = node->sim->nodes[destination].channels;

    while (channel != NULL && (sim_conn(channel)->handshake.local_id != header->connection_id ||
                               channel->peer != node->index)) {
        channel = channel->next;
    }
    if (channel != NULL && channel->credit_most < header->credit) {
        channel->credit_most = header->credit;
    }
}
