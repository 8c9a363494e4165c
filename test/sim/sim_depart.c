/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Nodes that leave as ranks do in MPI_Finalize. Each node first sends messages that no node waits
 * for. Once all nodes have done so (the fence), each sends a farewell to its next neighbor at a
 * random time, waits for the farewell from its previous neighbor, and finalizes. Whatever the
 * network does, no peer may be given up, no awaited message lost, and all nodes must leave.
 */
#include "sim.h"

#include "conn/rawe_conn_end.h"

/** Number of messages from each node that no other node waits for. */
#define UNMATCHED_MOST 16u

/** Interval at which a finalizing node checks whether its connections may be closed. */
#define ASK_NS 1000000u

/** Maximum time to finalize after faults have ended: this for frames, ... */
#define DEPART_NS 4000000000ull

/** ... plus this many probe intervals, for repeated PROBEs. */
#define DEPART_INTERVALS 4u

enum departing {
    STAYS,      /**< has not begun to leave */
    READY,      /**< at the fence */
    WAITS,      /**< has sent its farewell */
    FINALIZING, /**< gets no more completions */
};

/**
 * Return true if this end is open but the other end is not: that end was closed, and perhaps
 * reopened but not connected because it has nothing to send.
 */
static bool is_half_closed(const struct sim_channel *channel)
{
    const struct sim_channel *back = channel->node->sim->nodes[channel->peer].channels;

    while (back != NULL && (back->peer != channel->node->index || back->lane != channel->lane ||
                            back->via->nic->index != channel->via->far ||
                            back->via->far != channel->via->nic->index)) {
        back = back->next;
    }
    return sim_conn(channel)->handshake.state == RAWE_CONN_OPEN &&
           (back == NULL || sim_conn(back)->handshake.state != RAWE_CONN_OPEN);
}

bool sim_depart_possible(const struct sim *sim)
{
    for (unsigned i = 0; i < sim->plan.nodes; i++) {
        for (const struct sim_channel *channel = sim->nodes[i].channels; channel != NULL;
             channel = channel->next) {
            if (is_half_closed(channel)) {
                return false;
            }
        }
    }
    return sim->plan.depart_ns != 0;
}

void sim_depart_begin(struct sim *sim)
{
    struct sim_random random = sim_random_stream(sim->options.seed, 31);
    uint64_t begin_ns = sim_trouble_plugged_ns(sim);

    sim_trace(sim, "all is settled: nodes leave");
    sim->departing = true;
    sim->calm = false;
    sim->activity_ns = begin_ns;
    sim->faults_end_ns = begin_ns + sim->plan.depart_faults_ns;
    sim_trouble_plan_pulls(sim, sim_random_stream(sim->options.seed, 33), begin_ns);
    for (unsigned i = 0; i < sim->plan.nodes; i++) {
        struct sim_node *node = &sim->nodes[i];
        node->pauses_left += 2;
        node->depart_ns = begin_ns + sim_random_below(&random, sim->plan.depart_ns);
        sim_node_wake(node, node->depart_ns);
    }
}

bool sim_depart_finalizing(const struct sim_node *node)
{
    return node->departing == FINALIZING;
}

bool sim_depart_over(const struct sim *sim)
{
    unsigned alive = 0;

    for (unsigned i = 0; i < sim->plan.nodes; i++) {
        alive += sim->nodes[i].alive;
    }
    return alive == 0;
}

void sim_depart_farewell(struct sim *sim, struct sim_node *node)
{
    sim_trace(sim, "n%u has the farewell it waits for", node->index);
    node->farewell = true;
}

static void send_unmatched(struct sim *sim, struct sim_node *node)
{
    unsigned count = (unsigned)sim_random_below(&node->app.random, UNMATCHED_MOST);

    while (count-- != 0) {
        uint32_t peer = (uint32_t)sim_random_below(&node->app.random, sim->plan.nodes - 1u);
        uint64_t len_bytes = sim_random_scaled(&node->app.random, 1, sim->plan.message_max_bytes);
        peer += peer >= node->index;
        sim_submit(sim, sim_message_new(sim, SIM_MESSAGE_PLAIN, node->index, peer, NULL,
                                        (uint32_t)len_bytes));
    }
}

/** Return true if the node's messages from before the fence are sent on open connections. */
static bool is_at_fence(const struct sim_node *node)
{
    bool ready = node->departing == READY && node->app.retry == NULL;

    for (const struct sim_channel *channel = node->channels; channel != NULL && ready;
         channel = channel->next) {
        ready = sim_conn(channel)->handshake.state != RAWE_CONN_CONNECTING;
    }
    return ready;
}

/** Let all nodes pass the fence if `last`, which is reaching it, is the last node to do so. */
static void try_fence(struct sim *sim, const struct sim_node *last)
{
    struct sim_random random = sim_random_stream(sim->options.seed, 32);

    for (unsigned i = 0; i < sim->plan.nodes; i++) {
        if (!is_at_fence(&sim->nodes[i])) {
            return;
        }
    }
    sim_trace(sim, "all are at the fence");
    sim->fence_passed = true;
    for (unsigned i = 0; i < sim->plan.nodes; i++) {
        struct sim_node *node = &sim->nodes[i];
        node->depart_ns = sim->now_ns + sim_random_scaled(&random, 1000, sim->plan.depart_ns);
        if (node != last) { /* `last` is still in its progress call */
            sim_node_wake(node, node->depart_ns);
        }
    }
}

static void send_farewell(struct sim *sim, struct sim_node *node)
{
    uint64_t len_bytes = sim_random_scaled(&node->app.random, 8, sim->plan.message_max_bytes);

    sim_submit(sim,
               sim_message_new(sim, SIM_MESSAGE_FAREWELL, node->index,
                               (node->index + 1) % sim->plan.nodes, NULL, (uint32_t)len_bytes));
}

static void finalize(struct sim *sim, struct sim_node *node)
{
    sim_trace(sim, "n%u finalizes", node->index);
    sim->activity_ns = sim->now_ns;
    net_ledger_finalizes(&sim->ledger, sim_node_process(node));
    node->finalized_ns = sim->now_ns;
    node->app.open_sends = 0;
    for (unsigned i = 0; i < node->nic_count; i++) {
        rawe_engine_finalizing(&node->nics[i].engine);
    }
}

/** Return true if all connections of a node may be closed. */
static bool may_depart(struct sim_node *node)
{
    bool all = true;

    for (struct sim_channel *channel = node->channels; channel != NULL; channel = channel->next) {
        enum rawe_finalized finalized =
            rawe_conn_finalized(sim_conn(channel), RAWE_NEEDS_ALL, sim_nic_time(channel->via->nic));
        if (finalized == RAWE_FINALIZED_LOST) {
            net_fail("nothing is lost by leaving", "n%u leaves, and n%u does not have all",
                     node->index, channel->peer);
        }
        all = all && finalized == RAWE_FINALIZED_DONE;
    }
    return all;
}

/** Check that a node is not finalizing for longer than its peers need to answer or leave. */
static void check_patience(const struct sim *sim, const struct sim_node *node)
{
    uint64_t least_ns = DEPART_NS + DEPART_INTERVALS * sim->plan.probe_most_ns;
    uint64_t since_ns = node->finalized_ns;

    since_ns = since_ns < sim->faults_end_ns ? sim->faults_end_ns : since_ns;
    since_ns = since_ns < sim->disturbed_ns ? sim->disturbed_ns : since_ns;
    if (sim->now_ns > since_ns + least_ns) {
        net_fail("who finalizes leaves", "n%u has finalized for %llu ms", node->index,
                 (unsigned long long)(sim->now_ns - node->finalized_ns) / 1000000);
    }
}

bool sim_depart_step(struct sim *sim, struct sim_node *node)
{
    sim_app_resubmit(sim, node);
    if (node->departing == STAYS && node->local_ns >= node->depart_ns) {
        send_unmatched(sim, node);
        node->departing = READY;
    }
    if (!sim->fence_passed) {
        try_fence(sim, node);
    } else if (node->departing == READY && node->local_ns >= node->depart_ns) {
        send_farewell(sim, node);
        node->departing = WAITS;
    }
    if (node->departing == WAITS && node->farewell && node->app.retry == NULL) {
        finalize(sim, node);
        node->departing = FINALIZING;
    }
    if (node->departing == FINALIZING && may_depart(node)) {
        sim_trace(sim, "n%u leaves", node->index);
        sim->activity_ns = sim->now_ns;
        net_ledger_check_departed(&sim->ledger, sim_node_process(node));
        return true;
    }
    if (node->departing == FINALIZING) {
        check_patience(sim, node);
    }
    return false;
}

uint64_t sim_depart_wake_ns(const struct sim_node *node)
{
    if (node->departing == FINALIZING) {
        return node->local_ns + ASK_NS;
    }
    return node->depart_ns > node->local_ns ? node->depart_ns : UINT64_MAX;
}
