/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The program on a node: bursts of messages, requests with replies, and transfers like those of an
 * MPI library (offer, grant, PUT, finish), some of them started by the engine's callbacks.
 */
#include "sim.h"

/** Maximum interval between attempts to send a message that the engine rejects. */
#define RETRY_MOST_NS 10000000u

void sim_app_init(struct sim *sim, struct sim_node *node)
{
    struct sim_app *app = &node->app;
    unsigned each = sim->plan.operations / sim->plan.nodes;
    unsigned rest = sim->plan.operations % sim->plan.nodes;

    app->operations_left = each + (node->index < rest);
    app->next_ns = sim->now_ns + sim_random_below(&app->random, sim->plan.gap_ns + 1);
    app->closes_left = 4;
}

bool sim_app_idle(const struct sim_node *node)
{
    return node->app.operations_left == 0 && node->app.retry == NULL;
}

static uint32_t choose_peer(const struct sim_plan *plan, struct sim_node *node)
{
    uint32_t index = node->index;
    uint32_t other = (uint32_t)sim_random_below(&node->app.random, plan->nodes - 1u);
    uint32_t pair = index ^ 1u;

    other += other >= index;
    switch (plan->pattern) {
    case SIM_PATTERN_INCAST:
        return index == 0 ? other : 0;
    case SIM_PATTERN_RING:
        return (index + 1) % plan->nodes;
    case SIM_PATTERN_PAIRS:
        return pair < plan->nodes ? pair : other;
    default:
        return other;
    }
}

static uint32_t choose_length(struct sim *sim, struct sim_node *node)
{
    uint64_t longest = sim->plan.message_max_bytes;
    uint64_t style = sim_random_below(&node->app.random, 20);
    uint64_t small = sim_random_below(&node->app.random, 9);
    uint64_t edge = node->nics[0].payload_max_bytes - RAWE_FRAGMENT_MESSAGE_BYTES - 4 + small;
    uint64_t scaled = sim_random_scaled(&node->app.random, 1, longest);
    uint64_t whole = (small + 1) * (sim_batch_part_bytes(node));

    uint64_t chosen = style == 0 ? small : style == 1 ? edge : style == 2 ? whole : scaled;
    return (uint32_t)(chosen < longest ? chosen : longest);
}

static void begin_transfer(struct sim *sim, struct sim_node *node, uint32_t peer)
{
    struct sim_transfer *transfer = net_zeroed(sizeof(*transfer));
    transfer->number = sim->transfer_count++;
    transfer->source = node->index;
    transfer->source_life = node->life;
    transfer->target = peer;
    transfer->len_bytes =
        (uint32_t)sim_random_scaled(&node->app.random, 1, sim->plan.transfer_max_bytes);
    transfer->content_seed = sim_random_next(&node->app.random);
    transfer->next = sim->transfers;
    sim->transfers = transfer;
    sim_submit(sim, sim_message_new(sim, SIM_MESSAGE_OFFER, node->index, peer, transfer, 64));
}

static void begin_operation(struct sim *sim, struct sim_node *node)
{
    struct sim_app *app = &node->app;
    uint32_t peer = choose_peer(&sim->plan, node);
    uint64_t percent = sim_random_below(&app->random, 100);
    uint32_t len_bytes = choose_length(sim, node);

    app->operations_left--;
    sim_access_begin(node, peer);
    if (percent < sim->plan.transfer_percent) {
        begin_transfer(sim, node, peer);
        return;
    }
    bool request = percent < sim->plan.transfer_percent + sim->plan.request_percent;
    /* A message with an argument must be long enough to carry its number. */
    struct sim_message *message =
        sim_message_new(sim, request ? SIM_MESSAGE_REQUEST : SIM_MESSAGE_PLAIN, node->index, peer,
                        NULL, request && len_bytes < 8 ? 8 : len_bytes);
    message->argument = request ? choose_length(sim, node) : 0;
    sim_submit(sim, message);
}

/** Send a peer many messages of one length, which may nearly fill a frame. */
static void begin_streak(struct sim *sim, struct sim_node *node)
{
    struct sim_app *app = &node->app;
    uint32_t peer = choose_peer(&sim->plan, node);
    uint32_t most_bytes = sim_batch_part_bytes(node);
    uint32_t longest =
        most_bytes < sim->plan.message_max_bytes ? most_bytes : sim->plan.message_max_bytes;
    uint32_t len_bytes = (uint32_t)sim_random_between(&app->random, longest / 3, longest);
    uint64_t left = sim_random_between(&app->random, 16, 128);

    app->operations_left--;
    while (left-- != 0 && app->open_sends < sim->plan.sends_most) {
        sim_submit(sim,
                   sim_message_new(sim, SIM_MESSAGE_PLAIN, node->index, peer, NULL, len_bytes));
    }
}

void sim_app_resubmit(struct sim *sim, struct sim_node *node)
{
    struct sim_app *app = &node->app;
    struct sim_message *retry = app->retry;

    if (retry == NULL || node->local_ns < app->retry_ns) {
        return;
    }
    app->retry = NULL;
    while (retry != NULL) {
        struct sim_message *next = retry->next_retry;
        sim_submit(sim, retry);
        retry = next;
    }
    if (app->retry == NULL) {
        app->retry_wait_ns = 0;
    } else if (app->retry_wait_ns < RETRY_MOST_NS) {
        app->retry_wait_ns = app->retry_wait_ns * 2 + 1000;
    }
    app->retry_ns = node->local_ns + app->retry_wait_ns;
}

/** Close a random connection other than `except`. */
static void close_one(struct sim *sim, struct sim_node *node, const struct sim_channel *except)
{
    struct sim_channel *channel = node->channels;
    uint64_t skip = sim_random_below(&node->app.random, 2ull * sim->plan.nodes);

    while (channel != NULL && (skip-- != 0 || channel == except)) {
        channel = channel->next;
    }
    if (channel != NULL) {
        node->app.closes_left--;
        sim_channel_close(channel);
    }
}

static bool wants_to_close(struct sim *sim, struct sim_node *node)
{
    return sim->plan.close_ppm != 0 && node->app.closes_left != 0 && sim_faults_on(sim) &&
           sim_strikes(sim, &node->app.random, sim->plan.close_ppm);
}

/**
 * Return true if the program has replaced the channel with another one or, if only the peer uses
 * the route, if the peer has restarted.
 */
static bool is_outdated(const struct sim *sim, const struct sim_channel *channel)
{
    const struct sim_current *current = &channel->node->current[channel->peer];

    return channel->via->is_used
               ? current->lanes[channel->via->nic->index][channel->lane] != channel
               : sim->nodes[channel->peer].life != channel->peer_life;
}

/** At random times, close failed and outdated connections, and occasionally a good one. */
static void tidy(struct sim *sim, struct sim_node *node)
{
    for (struct sim_channel *channel = node->channels; channel != NULL; channel = channel->next) {
        unsigned rarely = channel->failed ? 2 : 16;
        if ((channel->failed || is_outdated(sim, channel)) &&
            sim_random_below(&node->app.random, rarely) == 0) {
            sim_channel_close(channel);
            return;
        }
    }
    if (wants_to_close(sim, node)) {
        close_one(sim, node, NULL);
    }
    if (sim->plan.revoke_ppm != 0 && node->regions != NULL &&
        sim_strikes(sim, &node->app.random, sim->plan.revoke_ppm)) {
        sim_transfer_revoke(sim, node->regions);
    }
}

void sim_app_step(struct sim *sim, struct sim_node *node)
{
    struct sim_app *app = &node->app;

    if (node->ending || sim->finishing) {
        return;
    }
    tidy(sim, node);
    sim_app_resubmit(sim, node);
    if (app->operations_left == 0 || node->local_ns < app->next_ns) {
        return;
    }
    uint64_t burst = sim_random_between(&app->random, 1, sim->plan.burst_most);
    if (sim->plan.streaks && sim_random_below(&app->random, 8) == 0) {
        begin_streak(sim, node);
    }
    while (burst-- != 0 && app->operations_left != 0 && app->open_sends < sim->plan.sends_most) {
        begin_operation(sim, node);
    }
    app->next_ns = node->local_ns + sim_random_below(&app->random, sim->plan.gap_ns + 1);
}

void sim_app_completed_early(struct sim *sim, struct sim_node *node)
{
    struct sim_app *app = &node->app;

    if (!node->ending && !sim->finishing && !sim->departing && app->operations_left != 0 &&
        app->open_sends < sim->plan.sends_most && sim_random_below(&app->random, 4) == 0) {
        begin_operation(sim, node);
    }
}

static void answer(struct sim *sim, enum sim_message_kind kind, const struct sim_message *to,
                   uint32_t len_bytes)
{
    sim_submit(sim, sim_message_new(sim, kind, to->net.to.index, to->net.from.index, to->transfer,
                                    len_bytes));
}

void sim_app_delivered(struct sim *sim, struct sim_channel *channel, struct sim_message *message)
{
    struct sim_node *node = &sim->nodes[message->net.to.index];
    struct sim_transfer *transfer = message->transfer;

    switch (message->kind) {
    case SIM_MESSAGE_REQUEST:
        answer(sim, SIM_MESSAGE_REPLY, message, message->argument);
        break;
    case SIM_MESSAGE_OFFER:
        transfer->target_life = node->life;
        if (sim_transfer_grant(sim, transfer)) {
            answer(sim, SIM_MESSAGE_GRANT, message, 48);
        }
        break;
    case SIM_MESSAGE_GRANT:
        sim_transfer_put(sim, transfer);
        break;
    case SIM_MESSAGE_FINISH:
        sim_transfer_finish(sim, transfer);
        break;
    case SIM_MESSAGE_FAREWELL:
        sim_depart_farewell(sim, node);
        break;
    default:
        break;
    }
    if (!sim->departing && wants_to_close(sim, node)) {
        /* A callback may close a connection other than its own. */
        close_one(sim, node, channel);
    }
    sim_node_nest(sim, node);
}

void sim_app_completed(struct sim *sim, struct sim_message *message, enum rawe_status status)
{
    struct sim_transfer *transfer = message->transfer;

    if (message->kind != SIM_MESSAGE_PUT || --transfer->parts_open != 0 ||
        status != RAWE_STATUS_DONE) {
        return;
    }
    sim_submit(sim, sim_message_new(sim, SIM_MESSAGE_FINISH, transfer->source, transfer->target,
                                    transfer, 16));
}
