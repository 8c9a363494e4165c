/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Connections over time: changes since the node's last progress, and how long an acknowledgement
 * has been due.
 */
#include "sim.h"

/** Maximum delay of timers, plus the time from receiving a frame to setting its deadline. */
#define LATE_NS (3ull << RAWE_TIMER_TICK_SHIFT)

/** Return the channel's watch, after resetting it if the connection was reopened. */
static struct sim_watch *watch_of(struct sim_channel *channel)
{
    struct sim_watch *watch = &channel->watch;
    const struct rawe_conn *conn = sim_conn(channel);

    if (watch->local_id != conn->handshake.local_id) {
        uint32_t first = channel->node->sim->plan.first_sequence;
        *watch = (struct sim_watch){.local_id = conn->handshake.local_id, .acked = first};
    }
    return watch;
}

/** Return true if all received frames are acknowledged. */
static bool all_acked(const struct sim_watch *watch, const struct rawe_recvwin *recvwin)
{
    return watch->acked == recvwin->next && watch->acked_beyond == recvwin->beyond;
}

void sim_watch_sent(struct sim_node *node, const struct rawe_header *header)
{
    struct sim_channel *channel = sim_evidence_channel(node, header);

    if (channel == NULL || header->type == RAWE_FRAME_CONNECT || header->type == RAWE_FRAME_CLOSE) {
        return;
    }
    struct sim_watch *watch = watch_of(channel);
    const struct rawe_recvwin *recvwin = &sim_conn(channel)->rx.window;
    if (header->type == RAWE_FRAME_ACK || recvwin->beyond == 0) { /* only ACK has a SACK block */
        watch->acked = header->acknowledgement;
        watch->acked_beyond = recvwin->beyond;
    }
    if (all_acked(watch, recvwin)) {
        watch->owed_since_ns = 0;
    }
}

/**
 * Check that the congestion window is reduced at most once per round trip. A progress call that
 * handles many frames may last several minimum round trips. An unused window may first have been
 * reset to its initial value.
 */
static void check_congestion(struct sim *sim, const struct sim_channel *channel,
                             struct sim_watch *watch)
{
    const struct rawe_cc *cc = &sim_conn(channel)->tx.cc;
    uint32_t window = cc->window;
    bool unused = sim_conn(channel)->engine->now_ns >= watch->cc_used_ns + RAWE_CC_UNUSED_NS;
    uint32_t before = unused && watch->cc_window > cc->first ? cc->first : watch->cc_window;
    uint32_t least = before;
    uint64_t left =
        1 + (channel->node->local_ns - sim->now_ns) / sim_conn(channel)->tx.rtt.minimum_ns;

    for (; left != 0 && least > cc->least; left--) {
        least = least * 7 / 10;
    }
    uint64_t persistent = sim_conn(channel)->engine->counters.congestion_persistent;
    least = least < cc->least || persistent != watch->cc_persistent ? cc->least : least;
    watch->cc_persistent = persistent;
    /* With forged acknowledgements, one round trip can look like several. */
    if ((window < least && !sim->plan.lying) || window > sim->plan.window_frames) {
        net_fail("congestion window is bounded", "n%u to n%u: from %u to %u frames, of %u",
                 channel->node->index, channel->peer, watch->cc_window, window,
                 sim->plan.window_frames);
    }
    watch->cc_window = window;
    watch->cc_used_ns = cc->used_ns;
}

/** Check that received frames and gaps are acknowledged within the allowed delay. */
static void check_owed(struct sim *sim, const struct sim_channel *channel, struct sim_watch *watch)
{
    const struct sim_node *node = channel->node;
    const struct rawe_engine *engine = sim_conn(channel)->engine;
    const struct rawe_recvwin *recvwin = &sim_conn(channel)->rx.window;
    uint64_t clock_ns = sim_node_clock(node);

    if (sim_conn(channel)->handshake.state != RAWE_CONN_OPEN || all_acked(watch, recvwin)) {
        watch->owed_since_ns = 0;
        return;
    }
    if (watch->owed_since_ns == 0) {
        watch->owed_since_ns = clock_ns;
    }
    bool up_to_date = !sim_node_waiting(node) && !rawe_timer_wheel_due(&engine->timers, clock_ns) &&
                      !rawe_engine_pending(engine);
    uint64_t most_ns = sim->plan.ack_delay_ns + LATE_NS + sim->plan.clock_step_ns;
    if (up_to_date && clock_ns > watch->owed_since_ns + most_ns) {
        net_fail("acknowledgements are in time",
                 "n%u owes n%u one on lane %u for %llu us, of %llu us allowed", node->index,
                 channel->peer, channel->lane,
                 (unsigned long long)(clock_ns - watch->owed_since_ns) / 1000,
                 (unsigned long long)sim->plan.ack_delay_ns / 1000);
    }
}

/** Check that the host's other processes see the engine's grants, except data in its ring. */
static void check_published(struct sim *sim, const struct sim_nic *nic)
{
    const struct rawe_grants *grants = &nic->engine.pull.grants;
    const struct rawe_budget_host *host = &nic->node->host->pull[nic->index].grants;
    const unsigned process = nic->node->index % sim->plan.processes;
    const uint64_t published = atomic_load(&host->shares[process].asked_bytes);
    const uint64_t granted = (uint64_t)grants->frames * grants->frame_bytes;

    if (sim->plan.processes > 1 && !sim->plan.arrivals_known && published != granted) {
        net_fail("grants are published", "n%u has granted %llu bytes, its host sees %llu",
                 nic->node->index, (unsigned long long)granted, (unsigned long long)published);
    }
}

/**
 * Check that the credit of all peers together fits the ring. A peer that was given up has none. The
 * check is skipped while the engine still counts a sender whose connection was closed.
 */
static void check_shares(struct sim *sim, const struct sim_nic *nic)
{
    const struct sim_node *node = nic->node;
    const struct rawe_credit *credit = &nic->engine.pull.credit;
    uint32_t promised = 0;
    uint32_t active = 0;
    uint32_t granted = 0;
    uint32_t open = 0;

    for (const struct sim_channel *channel = node->channels; channel != NULL;
         channel = channel->next) {
        const struct rawe_conn *conn = sim_conn(channel);
        if (conn->path.into != &nic->engine) {
            continue;
        }
        granted += rawe_list_has(&conn->rx.grant.link) ? conn->rx.grant.frames : 0;
        if (conn->handshake.state != RAWE_CONN_FAILED &&
            conn->handshake.state != RAWE_CONN_PEER_CLOSED) {
            open++;
            promised += rawe_credit_of(credit, channel->lane, &conn->rx.credit);
            active += rawe_credit_is_active(credit, &conn->rx.credit);
        }
    }
    uint32_t counted = 0;
    for (unsigned lane = 0; lane < RAWE_LANES; lane++) {
        counted += credit->senders_before[lane] + credit->joined[lane];
        open -= credit->open[lane];
    }
    if (open != 0) {
        net_fail("credit is shared", "n%u shares it out among %d connections too few", node->index,
                 (int)open);
    }
    if (promised > sim->plan.receive_frames && active == counted) {
        net_fail("credit is shared",
                 "n%u lets its peers have %u frames in flight, its ring holds %u", node->index,
                 promised, sim->plan.receive_frames);
    }
    if (granted != nic->engine.pull.grants.frames) {
        net_fail("grants are counted", "n%u has granted %u frames, and counts %u", node->index,
                 granted, nic->engine.pull.grants.frames);
    }
    check_published(sim, nic);
}

/** Return how often the node's connections have moved to a path without a known window. */
static uint64_t migrations_of(const struct sim_node *node)
{
    uint64_t migrations = 0;

    for (unsigned i = 0; i < node->nic_count; i++) {
        const struct rawe_counters *counters = &node->nics[i].engine.counters;
        migrations += counters->migrations;
    }
    return migrations;
}

void sim_watch_node(struct sim_node *node)
{
    struct sim *sim = node->sim;
    uint64_t migrations = migrations_of(node);

    for (struct sim_channel *channel = node->channels; channel != NULL; channel = channel->next) {
        struct sim_watch *watch = watch_of(channel);
        const struct rawe_cc *cc = &sim_conn(channel)->tx.cc;
        if (watch->migrations != migrations || watch->cc_first != cc->first) {
            watch->migrations = migrations; /* another path has a new window, */
            watch->cc_first = cc->first;    /* and with another frame length */
            watch->cc_window = cc->window;
        }
        check_congestion(sim, channel, watch);
        if (!sim->plan.lying) {
            check_owed(sim, channel, watch);
        }
    }
    for (unsigned i = 0; i < node->nic_count; i++) {
        check_shares(sim, &node->nics[i]);
    }
}
