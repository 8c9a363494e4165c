/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Sends messages and PUTs through the peer object, as the component does, and reports completions
 * to the program. The ledger (test/net) checks that these completions are allowed.
 */
#include <stdlib.h>

#include "sim.h"

#include "conn/rawe_conn.h"

static struct sim_node *source_of(const struct sim_message *message)
{
    return &message->sim->nodes[message->net.from.index];
}

/** net_ledger.ended: report the completion of a send to the program. */
static void ended(struct net_message *net, enum rawe_status status, bool early)
{
    struct sim_message *message = (struct sim_message *)(void *)net;
    struct sim *sim = message->sim;
    struct sim_node *node = source_of(message);

    if (status == RAWE_STATUS_DONE && net->put && !net->excused) {
        sim_transfer_placed(sim, message);
    }
    if (net->orphaned) {
        return;
    }
    if (node->in_thread) {
        net_fail("programs outside MPI are left alone", "n%u: message %u is reported", node->index,
                 net->number);
    }
    sim->activity_ns = sim->now_ns;
    node->app.open_sends--;
    sim_trace(sim, "n%u: message %u is %s", node->index, net->number,
              status != RAWE_STATUS_DONE ? "given up"
              : early                    ? "complete early"
                                         : "complete");
    sim_app_completed(sim, message, status);
    if (early && message->queued && !net->orphaned) {
        sim_app_completed_early(sim, node);
    }
    sim_node_nest(sim, node);
}

void sim_submit_init(struct sim *sim)
{
    sim->ledger.lying = sim->plan.lying;
    sim->ledger.absent = sim->plan.thread_ns != 0 || sim->plan.nest_every != 0;
    sim->ledger.ended = ended;
}

struct sim_message *sim_message_new(struct sim *sim, enum sim_message_kind kind, uint32_t source,
                                    uint32_t destination, struct sim_transfer *transfer,
                                    uint32_t len_bytes)
{
    struct sim_message *message = net_zeroed(sizeof(*message));
    message->sim = sim;
    message->kind = kind;
    message->transfer = transfer;
    message->net.from.index = source;
    message->net.to.index = destination;
    message->net.put = kind == SIM_MESSAGE_PUT;
    message->net.whole_excused = transfer != NULL ? &transfer->lossy : NULL;
    message->net.len_bytes = len_bytes;
    net_ledger_add(&sim->ledger, &message->net, sim->options.seed);
    message->net.out.send.tag = (uint8_t)(message->net.content_seed >> 40);
    return message;
}

/** Enter a message in the ledger, in up to two pieces, and excuse its loss if it may be lost. */
static void submit_first(struct sim *sim, struct sim_message *message, struct sim_channel *channel)
{
    struct net_message *net = &message->net;
    const struct sim_node *to = &sim->nodes[net->to.index];
    bool whole = net->put || (net->content_seed >> 32) % 2 == 0;
    bool early = !net->put && (net->content_seed >> 33) % 4 != 0;
    uint32_t first_bytes =
        whole ? net->len_bytes : (uint32_t)(net->content_seed % (net->len_bytes + 1ull));

    net->from = sim_node_process(channel->node);
    net->to.life = channel->peer_life;
    if (net->put) {
        net->content_seed = message->transfer->content_seed;
        net->content_offset = message->transfer_offset;
    }
    net_ledger_submit(&sim->ledger, net, first_bytes, early);
    channel->node->app.open_sends++;
    /* Late frames of excused messages may still cause events when all others are settled. */
    if (!to->alive || to->life != channel->peer_life || channel->failed || sim->finishing ||
        sim_depart_finalizing(to)) {
        net_ledger_excuse(net);
    }
}

/** Record that a message is sent on this channel. */
static void note_channel(struct sim *sim, struct sim_message *message, struct sim_channel *channel)
{
    struct net_message *net = &message->net;
    const struct sim_node *to = &sim->nodes[net->to.index];

    net->lane = channel->lane;
    bool takes = to->alive && to->life == channel->peer_life && !sim_depart_finalizing(to);
    net->receiver = takes ? &to->nics[channel->via->far].engine : NULL;
    if (!sim_channel_settled(channel) || channel->failed || net->to.life != channel->peer_life) {
        net->to.life = channel->peer_life;
        net_ledger_excuse(net);
    }
}

/** Send a message as btl_sendi does. Returns true if it needs no further attempt. */
static bool submit_copy(struct sim_node *node, struct sim_message *message,
                        struct sim_channel *channel)
{
    if (net_message_copy(&message->net, &channel->via->peer)) {
        return true;
    }
    if (message->net.len_bytes == 0) { /* the engine queues no empty messages */
        message->next_retry = node->app.retry;
        node->app.retry = message;
        return true;
    }
    return false;
}

/** Send a message as btl_send does. */
static void submit_in_place(struct sim *sim, struct sim_message *message,
                            struct sim_channel *channel)
{
    const struct rawe_peer *peer = &channel->via->peer;

    message->net.out.send.queue = NULL;
    enum rawe_peer_result result = net_message_send(&message->net, &channel->via->peer);
    const struct rawe_conn *express = peer->conn[RAWE_LANE_EXPRESS];
    const struct rawe_conn *bulk = peer->conn[RAWE_LANE_BULK];
    bool fits = express != NULL && message->net.len_bytes <= rawe_conn_frame_message_bytes(express);

    /* The message is in a streak, or the connection just moved to a path with shorter frames. */
    if (channel->lane == RAWE_LANE_EXPRESS && bulk != NULL &&
        message->net.out.send.queue == &bulk->tx.queue &&
        (!fits || message->net.out.send.ordered)) {
        note_channel(sim, message, sim_channel_beside(channel, RAWE_LANE_BULK));
    }
    message->queued = result == RAWE_PEER_QUEUED;
    net_message_conclude(&message->net, result);
    if (result == RAWE_PEER_NO_MEMORY) {
        abort();
    }
}

/** Open the channels of all routes to the process: a PUT uses all, and fails with any of them. */
static void note_all_routes(struct sim *sim, struct sim_message *message,
                            struct sim_channel *channel)
{
    struct rawe_peer *peer = &channel->via->peer;

    for (struct rawe_peer *other = rawe_peer_next(peer); other != peer;
         other = rawe_peer_next(other)) {
        if (other->takes_part) {
            note_channel(sim, message, sim_channel_at(sim_route_of(other), RAWE_LANE_BULK));
        }
    }
    note_channel(sim, message, channel);
}

static void submit_put(struct sim *sim, struct sim_message *message, struct sim_channel *channel)
{
    struct rawe_operation *operation = &message->net.operation;

    note_all_routes(sim, message, channel);
    operation->handle_index = message->transfer->handle_index;
    operation->handle_key = message->transfer->handle_key;
    operation->offset = message->transfer_offset;
    if (!net_message_put(&message->net, &channel->via->peer, true)) {
        abort();
    }
}

static void submit(struct sim *sim, struct sim_message *message)
{
    struct net_message *net = &message->net;
    struct sim_node *node = source_of(message);
    uint64_t bits = net->content_seed >> 48;
    /* Empty messages have no order: they are copied. */
    bool ordered = net->len_bytes != 0 && !net->put && bits / 4 % 8 == 0;
    unsigned nic = ordered ? sim_channel_in_order(node, net->to.index)
                           : (unsigned)(bits / 64 % node->nic_count);
    struct sim_channel *channel =
        sim_channel_get(node, net->to.index, nic, net->put ? RAWE_LANE_BULK : RAWE_LANE_EXPRESS);

    sim->activity_ns = sim->now_ns;
    if (channel == NULL) { /* the peer is lost */
        node->app.open_sends -= net->submitted;
        net_ledger_withdraw(net);
        return;
    }
    net->out.send.ordered = ordered;
    /* If the lanes use different paths, a message may fit a frame of only one of them. */
    net->may_overtake = sim_route_count(channel->via) != 1 && !ordered &&
                        net->len_bytes <= channel->via->nic->payload_max_bytes;
    bool fits = net->len_bytes <= rawe_conn_frame_message_bytes(sim_conn(channel));
    if (!net->put && (net->out.send.ordered || !fits)) {
        channel = sim_channel_beside(channel, RAWE_LANE_BULK);
    }
    if (!net->submitted) {
        submit_first(sim, message, channel);
    }
    note_channel(sim, message, channel);
    /* Open the other lane, too; the peer object might open it for a streak without a channel. */
    if (sim_channel_beside(channel, channel->lane ^ 1u)->failed) {
        net_ledger_excuse(net);
    }
    sim_trace(sim, "n%u: message %u, kind %u, %u bytes, to n%u on lane %u", node->index,
              net->number, message->kind, net->len_bytes, net->to.index, net->lane);
    if (net->put) {
        submit_put(sim, message, channel);
        return;
    }
    bool copy = net->len_bytes == 0 || bits / 32 % 2 == 0;
    if (copy && channel->lane == RAWE_LANE_EXPRESS && submit_copy(node, message, channel)) {
        return;
    }
    submit_in_place(sim, message, channel);
}

void sim_submit(struct sim *sim, struct sim_message *message)
{
    struct sim_node *scarce = sim_memory_scarce(NULL); /* else the program would give up */

    submit(sim, message);
    (void)sim_memory_scarce(scarce);
}

/** Return the ledger's route for messages that arrive on a channel. */
static struct net_route route_of(struct sim_channel *channel)
{
    return (struct net_route){
        .from = {channel->peer, channel->peer_life},
        .to = sim_node_process(channel->node),
        .lane = channel->lane,
        .next_in_order = &channel->next_in_order,
    };
}

struct sim_message *sim_submit_delivered(struct sim_channel *channel, uint8_t tag,
                                         const uint8_t *data, size_t len_bytes)
{
    struct sim *sim = channel->node->sim;
    const struct net_route route = route_of(channel);
    struct net_message *net = net_ledger_deliver(&sim->ledger, &route, tag, data, len_bytes);

    if (net != NULL) {
        sim_trace(sim, "n%u: message %u is delivered", channel->node->index, net->number);
        sim->activity_ns = sim->now_ns;
    }
    return (struct sim_message *)(void *)net;
}

/** Excuse incomplete PUTs to the peer, whose parts may be in flight on the channel. */
static void excuse_parts(const struct sim_channel *channel)
{
    struct net_ledger *ledger = &channel->node->sim->ledger;

    for (uint32_t i = ledger->first_unsettled; i < ledger->count; i++) {
        struct net_message *message = ledger->messages[i];
        if (message->put && message->submitted && !message->completed &&
            message->from.index == channel->node->index && message->to.index == channel->peer) {
            net_ledger_excuse(message);
        }
    }
}

void sim_submit_closed(struct sim_channel *channel)
{
    struct sim_node *node = channel->node;
    const struct sim_node *peer = &node->sim->nodes[channel->peer];
    const struct net_route route = route_of(channel);

    sim_access_closed(node->sim, node->index, channel->peer);
    if (channel->lane == RAWE_LANE_BULK && sim_route_count(channel->via) != 1) {
        excuse_parts(channel);
    }
    net_ledger_closed(&node->sim->ledger, &route, &channel->via->peer,
                      !channel->failed && rawe_conn_drained(sim_conn(channel)));
    for (struct sim_channel *back = peer->channels; back != NULL; back = back->next) {
        if (back->peer == node->index && back->lane == channel->lane) {
            back->unsettled = true;
        }
    }
}

static void give(struct net_message *message)
{
    free(message);
}

void sim_submit_free(struct sim *sim)
{
    net_ledger_free(&sim->ledger, give);
}
