/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * How messages and PUTs are sent, by the peer object as the component does it, and when they are
 * complete: then the program uses their memory for something else.
 */
#include <stdlib.h>

#include "sim.h"

#include "rawe_conn_bundle.h"

static bool is_alive(const struct sim_message *message)
{
    const struct sim_node *node = &message->sim->nodes[message->source];
    return node->alive && message->source_life == node->life;
}

/** May it be complete before it has been delivered, because the engine has copied it? */
static bool can_be_copied(const struct sim_message *message)
{
    const struct rawe_conn *conn = message->channel->conn;
    if (conn->engine->batches.output.transmit != NULL && conn->lane == RAWE_LANE_BULK &&
        conn->engine->config.coalesce_from_frames != 0 &&
        message->net.len_bytes <= RAWE_CONN_BUNDLED_BYTES_MAX) {
        return true;
    }
    return !message->net.out.send.ordered &&
           message->net.len_bytes <= conn->engine->config.copy_max_bytes &&
           message->net.len_bytes <= rawe_conn_frame_message_bytes(conn);
}

bool sim_submit_may_be_deferred(const struct sim_message *message)
{
    const struct sim *sim = message->sim;
    return sim->plan.lying || sim->nodes[message->destination].engine.deferral.bytes != 0 ||
           sim->nodes[message->destination].engine.deferral.fragments_wait;
}

/**
 * Does "done" mean that it has been delivered? Also where connections were closed meanwhile; but a
 * process that has died, or that keeps messages for its program, may have had it and lost it.
 */
static bool must_be_delivered(const struct sim_message *message)
{
    const struct sim *sim = message->sim;
    const struct sim_node *to = &sim->nodes[message->destination];
    return !message->lossy ||
           (!sim->plan.lying && sim->plan.thread_ns == 0 && to->alive &&
            to->life == message->destination_life && message->kind != SIM_MESSAGE_PUT);
}

static void check_delivered(const struct sim_message *message)
{
    if (!message->delivered && !can_be_copied(message) && !sim_submit_may_be_deferred(message)) {
        sim_violation(message->sim, "complete means delivered",
                      "n%u: message %u to n%u is complete, but not delivered", message->source,
                      message->net.number, message->destination);
    }
}

/** net_message.ended: the program is told that it is complete. */
static void ended(struct net_message *net, enum rawe_status status, bool early)
{
    struct sim_message *message = (struct sim_message *)(void *)net;
    struct sim *sim = message->sim;
    struct sim_node *node = &sim->nodes[message->source];
    bool done = status == RAWE_STATUS_DONE && !early;

    if (done && message->kind == SIM_MESSAGE_PUT && !message->lossy) {
        sim_transfer_placed(sim, message);
    } else if (done && message->kind != SIM_MESSAGE_PUT && must_be_delivered(message)) {
        check_delivered(message);
    }
    if (!is_alive(message)) {
        return; /* the process has died */
    }
    sim->ledger.held += early;
    sim->activity_ns = sim->now_ns;
    sim->ledger.open_sends--;
    node->app.open_sends--;
    sim_trace(sim, "n%u: message %u is %s", message->source, net->number,
              status != RAWE_STATUS_DONE ? "given up"
              : early                    ? "complete early"
                                         : "complete");
    if (status != RAWE_STATUS_DONE && !message->lossy && !sim->plan.lying) {
        sim_violation(sim, "sends to the living succeed", "n%u: message %u to n%u failed",
                      message->source, net->number, message->destination);
    }
    sim_app_completed(sim, message, status);
    if (early && message->queued && is_alive(message)) {
        sim_app_completed_early(sim, node);
    }
}

/** net_message.released */
static void released(struct net_message *net)
{
    struct sim_message *message = (struct sim_message *)(void *)net;

    if (!message->lossy) {
        check_delivered(message);
    }
    message->sim->ledger.held -= is_alive(message);
}

/** Lay the message out in two pieces, either of which may be empty. */
static void lay_out(struct sim_message *message)
{
    struct net_message *net = &message->net;
    bool is_put = message->kind == SIM_MESSAGE_PUT;
    bool whole = is_put || (net->content_seed >> 32) % 2 == 0;
    bool early = !is_put && (net->content_seed >> 33) % 4 != 0;
    uint32_t first_bytes =
        whole ? net->len_bytes : (uint32_t)(net->content_seed % (net->len_bytes + 1ull));

    if (is_put) {
        net->content_seed = message->transfer->content_seed;
        net->content_offset = message->transfer_offset;
    }
    net->ended = ended;
    net->released = released;
    net->out.send.tag = message->tag;
    net_message_lay_out(net, first_bytes, !is_put && net->len_bytes >= SIM_NUMBERED_BYTES, early);
}

/** First attempt: who will it be delivered to, and must it be? */
static void submit_first(struct sim *sim, struct sim_message *message, struct sim_channel *channel)
{
    const struct sim_node *to = &sim->nodes[message->destination];

    message->source_life = channel->node->life;
    message->destination_life = channel->peer_life;
    lay_out(message);
    message->submitted = true;
    sim->ledger.open_sends++;
    channel->node->app.open_sends++;
    if (message->kind != SIM_MESSAGE_PUT) {
        sim->ledger.undelivered++;
    }
    /* Late frames of what was excused may still set something off when all else is settled. */
    if (!to->alive || to->life != channel->peer_life || channel->failed || sim->finishing) {
        sim_ledger_excuse(sim, message);
    }
}

/** The message goes on this channel. */
static void note_channel(struct sim *sim, struct sim_message *message, struct sim_channel *channel)
{
    message->channel = channel;
    message->lane = channel->lane;
    if (!sim_channel_settled(channel) || channel->failed ||
        message->destination_life != channel->peer_life) {
        message->destination_life = channel->peer_life;
        sim_ledger_excuse(sim, message);
    }
}

/** As btl_sendi does it. True when that settles it. */
static bool submit_copy(struct sim_node *node, struct sim_message *message)
{
    if (net_message_copy(&message->net, &message->channel->via->peer)) {
        return true;
    }
    if (message->net.len_bytes == 0) { /* the engine queues no empty ones */
        message->channel = NULL;
        message->next_retry = node->app.retry;
        node->app.retry = message;
        return true;
    }
    return false;
}

/** As btl_send does it. */
static void submit_in_place(struct sim *sim, struct sim_message *message)
{
    const struct rawe_send *send = &message->net.out.send;
    bool ordered = send->ordered;
    enum rawe_peer_result result = net_message_send(&message->net, &message->channel->via->peer);

    if (send->ordered && !ordered) { /* part of a streak */
        note_channel(sim, message, sim_channel_beside(message->channel, RAWE_LANE_BULK));
    }
    message->queued = result == RAWE_PEER_QUEUED;
    net_message_conclude(&message->net, result);
    if (result == RAWE_PEER_NO_MEMORY) {
        abort();
    }
}

static void submit_put(struct sim_message *message)
{
    struct rawe_send *send = &message->net.out.send;

    send->handle_index = message->transfer->handle_index;
    send->handle_key = message->transfer->handle_key;
    send->offset = message->transfer_offset;
    if (!net_message_put(&message->net, &message->channel->via->peer)) {
        abort();
    }
}

/** The peer is known to be lost. */
static void give_up(struct sim *sim, struct sim_node *node, struct sim_message *message)
{
    sim_ledger_excuse(sim, message);
    net_message_drop(&message->net);
    if (message->submitted) {
        sim->ledger.open_sends--;
        node->app.open_sends--;
    }
}

void sim_submit(struct sim *sim, struct sim_message *message)
{
    struct sim_node *node = &sim->nodes[message->source];
    bool is_put = message->kind == SIM_MESSAGE_PUT;
    uint64_t bits = message->net.content_seed >> 48;
    struct sim_channel *channel =
        sim_channel_get(node, message->destination, is_put ? RAWE_LANE_BULK : RAWE_LANE_EXPRESS);

    sim->activity_ns = sim->now_ns;
    if (channel == NULL) {
        give_up(sim, node, message);
        return;
    }
    /* Empty messages have no order: they are copied. */
    message->net.out.send.ordered = message->net.len_bytes != 0 && !is_put && bits / 4 % 8 == 0;
    bool fits = message->net.len_bytes <= rawe_conn_frame_message_bytes(channel->conn);
    if (!is_put && (message->net.out.send.ordered || !fits)) {
        channel = sim_channel_beside(channel, RAWE_LANE_BULK);
    }
    if (!message->submitted) {
        submit_first(sim, message, channel);
    }
    note_channel(sim, message, channel);
    /* The peer object would open it, without a channel. */
    (void)sim_channel_beside(channel, channel->lane ^ 1u);
    sim_trace(sim, "n%u: message %u, kind %u, %u bytes, to n%u on lane %u", message->source,
              message->net.number, message->kind, message->net.len_bytes, message->destination,
              message->lane);
    if (is_put) {
        submit_put(message);
        return;
    }
    bool copy = message->net.len_bytes == 0 || bits / 32 % 2 == 0;
    if (copy && channel->lane == RAWE_LANE_EXPRESS && submit_copy(node, message)) {
        return;
    }
    submit_in_place(sim, message);
}
