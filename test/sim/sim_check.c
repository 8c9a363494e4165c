/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Invariants of connections, engines and the whole run. test/net/net_ledger.c has the invariants of
 * single messages, and sim_transfer.c those of memory.
 */
#include <string.h>

#include "sim.h"

#include "conn/rawe_conn.h"

#define SECOND 1000000000ull

/** Maximum delay with which a timer runs. */
#define TICK_NS (1ull << RAWE_TIMER_TICK_SHIFT)

/** Maximum time without any event after all faults have ended. */
#define STALL_NS (10 * SECOND)

static void check_sequenced(struct sim_node *node, const struct rawe_header *header,
                            struct sim_packet *packet)
{
    struct sim *sim = node->sim;
    struct sim_channel *channel = sim_evidence_channel(node, header);

    if (channel == NULL) {
        net_fail("frames belong to connections", "n%u sends a frame for unknown id %08x",
                 node->index, header->connection_id);
    }
    sim_evidence_sent(channel, header, packet);
    uint32_t in_window = header->sequence - sim_conn(channel)->tx.window.una;
    if (in_window >= sim->plan.window_frames) {
        net_fail("window is bounded", "n%u sends frame %u to n%u, oldest open one is %u",
                 node->index, header->sequence, channel->peer, sim_conn(channel)->tx.window.una);
    }
    bool again = rawe_sequence_before(header->sequence, channel->next_sequence);
    if (sim->plan.lying) {
        /* If a forged ACK acknowledges unsent frames, the sender skips those frames. */
        again = (header->flags & RAWE_FLAG_RESENT) != 0;
        channel->next_sequence = again ? channel->next_sequence : header->sequence;
    } else if (again != ((header->flags & RAWE_FLAG_RESENT) != 0) ||
               (!again && header->sequence != channel->next_sequence)) {
        net_fail("sequence numbers", "n%u sends frame %u to n%u%s, next new one is %u", node->index,
                 header->sequence, channel->peer, header->flags & RAWE_FLAG_RESENT ? " again" : "",
                 channel->next_sequence);
    }
    channel->next_sequence += !again;
    node->frames_new += !again;
    node->frames_again += again;
}

void sim_check_frame(struct sim_node *node, const struct rawe_header *header,
                     struct sim_packet *packet)
{
    sim_evidence_credit(node, header, packet->destination);
    sim_watch_sent(node, header);
    if (packet->sequenced != 0) {
        check_sequenced(node, header, packet);
        return;
    }
    if (header->type == RAWE_FRAME_ACK) {
        bool answers = (header->flags & RAWE_FLAG_PROBE_ANSWER) != 0;
        node->control[answers ? SIM_CONTROL_ANSWER : SIM_CONTROL_ACK]++;
    }
    if (header->type == RAWE_FRAME_PROBE) {
        node->control[SIM_CONTROL_PROBE]++;
        sim_evidence_asked(node, header, packet);
    }
}

/**
 * Check each frame of the window: states match the counts, and the cursor skips no waiting frame.
 */
static void check_window(const struct sim_channel *channel)
{
    const struct rawe_conn *conn = sim_conn(channel);
    const struct rawe_sendwin *window = &conn->tx.window;
    const struct rawe_txframe *frame = window->oldest;
    uint32_t in_flight = 0, sacked = 0, to_transmit = 0;

    for (uint32_t sequence = window->una; sequence != window->next; sequence++) {
        if (frame != NULL && sequence - frame->sequence == frame->segments) {
            frame = frame->next;
        }
        if (frame == NULL || sequence - frame->sequence >= frame->segments ||
            (frame->to_send & frame->arrived) != 0 || (frame->resent & ~frame->sent) != 0) {
            net_fail("window is consistent", "n%u to n%u: number %u is wrong", channel->node->index,
                     channel->peer, sequence);
        }
        uint64_t segment = 1ull << (sequence - frame->sequence);
        bool waits = (frame->to_send & segment) != 0;
        bool arrived = (frame->arrived & segment) != 0;
        to_transmit += waits;
        sacked += arrived;
        in_flight += !waits && !arrived;
        /* A batch is represented by its first frame. */
        if (waits && rawe_sequence_before(sequence, window->transmit_from) &&
            rawe_sequence_before(frame->sequence, window->transmit_from)) {
            net_fail("window is consistent",
                     "n%u to n%u: frame %u has to be sent, but looking begins at %u",
                     channel->node->index, channel->peer, sequence, window->transmit_from);
        }
    }
    if (frame != NULL && (frame != window->newest || frame->next != NULL)) {
        net_fail("window is consistent", "n%u to n%u: frames behind the newest one",
                 channel->node->index, channel->peer);
    }
    if (in_flight != window->in_flight || sacked != window->sacked ||
        to_transmit != window->to_transmit) {
        net_fail("window is consistent", "n%u to n%u: counts of frames are wrong",
                 channel->node->index, channel->peer);
    }
}

static void check_channel(struct sim *sim, struct sim_channel *channel)
{
    const struct sim_node *node = channel->node;
    const struct rawe_conn *conn = sim_conn(channel);
    uint32_t window = conn->tx.window.next - conn->tx.window.una;

    if (window > sim->plan.window_frames || window != conn->tx.window.in_flight +
                                                          conn->tx.window.sacked +
                                                          conn->tx.window.to_transmit) {
        net_fail("window is consistent",
                 "n%u to n%u: %u frames in the window, %u in flight, %u SACKed, %u to transmit",
                 node->index, channel->peer, window, conn->tx.window.in_flight,
                 conn->tx.window.sacked, conn->tx.window.to_transmit);
    }
    uint32_t credit = channel->credit_most;
    if (conn->tx.window.in_flight > credit && !sim->plan.lying) {
        net_fail("credit is kept to",
                 "n%u has %u frames in flight to n%u, which never allowed more than %u",
                 node->index, conn->tx.window.in_flight, channel->peer, credit);
    }
    uint32_t under_way = conn->tx.queue.message_number - conn->tx.queue.messages_open;
    if (under_way > RAWE_REASSEMBLY_MESSAGES) {
        net_fail("messages under way are bounded",
                 "n%u has %u fragmented messages under way to n%u", node->index, under_way,
                 channel->peer);
    }
    if (window != 0 && sim->event_count % 16 == 0) {
        check_window(channel);
    }
    if (conn->handshake.state == RAWE_CONN_OPEN && conn->tx.window.in_flight != 0 &&
        (conn->path.liveness.probe_deadline_ns == 0 || !rawe_timer_armed(&conn->timer) ||
         conn->timer.deadline_ns > conn->path.liveness.probe_deadline_ns)) {
        net_fail("timers are armed", "n%u to n%u: frames in flight and no timer for them",
                 node->index, channel->peer);
    }
    const struct rawe_order *order = conn->tx.ordered.order;
    bool ordered = order->waits && conn->tx.queue.first != NULL &&
                   !rawe_order_allows(order, conn->tx.queue.first->number);
    if (order->waits && rawe_list_empty(&order->members)) {
        net_fail("timers are armed", "n%u to n%u: waits for connections that do not exist",
                 node->index, channel->peer);
    }
    bool waits = (conn->tx.queue.first != NULL && !ordered) || conn->tx.window.to_transmit != 0;
    if (conn->handshake.state == RAWE_CONN_OPEN && waits && !rawe_list_has(&conn->pending) &&
        !sim->plan.lying && !rawe_timer_armed(&conn->timer)) {
        net_fail("timers are armed", "n%u to n%u: something to send, and nothing to wait for",
                 node->index, channel->peer);
    }
    const struct rawe_engine *engine = conn->engine;
    uint64_t clock_ns = sim_node_clock(node);
    uint64_t most_ns =
        engine->config.liveness.peer_timeout_ns + 2 * engine->config.liveness.probe_most_ns;
    bool up_to_date = !sim_node_waiting(node) && !rawe_timer_wheel_due(&engine->timers, clock_ns);
    uint64_t late_ns = 2 * TICK_NS + sim->plan.clock_step_ns;
    /* A peer is given up not while the program is absent, but at the next probe after that. */
    bool long_back =
        sim->now_ns >= node->pause_until_ns + 2 * engine->config.liveness.probe_most_ns;
    /* The timer may still be set although the answer has arrived in the meantime. */
    uint64_t idle_most_ns = sim->plan.idle_ns + engine->config.liveness.probe_most_ns + late_ns;
    uint64_t asked_ns = rawe_route_asked_ns(conn->path.preferred);
    asked_ns = conn->path.liveness.asked_ns > asked_ns ? conn->path.liveness.asked_ns : asked_ns;
    const uint64_t progress_ns = rawe_operation_progress_ns(
        &engine->operations, conn->path.preferred->key, conn->path.preferred->port, &(bool){false});
    channel->progress_ns = progress_ns > channel->progress_ns ? progress_ns : channel->progress_ns;
    asked_ns = channel->progress_ns > asked_ns ? channel->progress_ns : asked_ns;
    if (up_to_date && long_back && sim->plan.idle_ns != 0 && sim->plan.jump_ppm == 0 &&
        conn->handshake.state == RAWE_CONN_OPEN && conn->path.liveness.probe_deadline_ns == 0 &&
        clock_ns > asked_ns + idle_most_ns) {
        net_fail("idle peers are asked", "n%u has not asked n%u on any lane for %llu us",
                 node->index, channel->peer, (unsigned long long)(clock_ns - asked_ns) / 1000);
    }
    if (conn->handshake.state == RAWE_CONN_FAILED || conn->path.liveness.silent_since_ns == 0 ||
        !up_to_date) {
        return;
    }
    if (clock_ns > conn->path.liveness.asked_ns + engine->config.liveness.probe_most_ns + late_ns) {
        net_fail("silence is asked about",
                 "n%u has not asked n%u on lane %u for %llu us, although it is silent", node->index,
                 channel->peer, channel->lane,
                 (unsigned long long)(clock_ns - conn->path.liveness.asked_ns) / 1000);
    }
    if (clock_ns > conn->path.liveness.silent_since_ns + most_ns && long_back) {
        net_fail("the dead are found out", "n%u has not heard n%u for %llu ms", node->index,
                 channel->peer,
                 (unsigned long long)(clock_ns - conn->path.liveness.silent_since_ns) / 1000000);
    }
}

struct sum {
    struct rawe_counters counters;
    uint64_t dropped;
    uint64_t dropped_strange; /**< those dropped for reasons that apply to unknown peers */
};

static void add_counters(struct sum *sum, const struct rawe_counters *counters)
{
#define X(name, text)                     \
    sum->counters.name += counters->name; \
    sum->dropped += strncmp(#name, "dropped_", 8) == 0 ? counters->name : 0;
    RAWE_COUNTER_LIST(X)
#undef X
    sum->dropped_strange += counters->dropped_short + counters->dropped_version +
                            counters->dropped_type + counters->dropped_length +
                            counters->dropped_key;
}

/**
 * Check memory limits, with these exceptions: one slab of each size is always allowed, and the last
 * slab may exceed the limit; each connection may get one buffer above the limit, for the message
 * that blocks all later ones; deferred data may exceed its limit by one message, and by those that
 * one connection had in reassembly.
 */
static void check_memory(const struct sim_nic *nic)
{
    const struct sim_node *node = nic->node;
    const struct rawe_engine *engine = &nic->engine;
    const struct rawe_buffer_pool *buffers = &engine->reassembly_buffers;
    size_t deferred_most = node->sim->plan.deferred_most_bytes + engine->config.payload_max_bytes +
                           100 + (RAWE_REASSEMBLY_MESSAGES + 1) * (buffers->buffer_bytes + 100);
    size_t buffers_most =
        buffers->limit + node->channels_most + deferred_most / buffers->buffer_bytes;

    if (engine->frames.allocated > engine->config.frames_limit + 3 * 64 ||
        buffers->allocated > buffers_most || engine->deferral->bytes > deferred_most) {
        net_fail("memory is bounded",
                 "n%u has %u frames, %u reassembly buffers, %zu bytes kept for its program",
                 node->index, engine->frames.allocated, buffers->allocated,
                 engine->deferral->bytes);
    }
}

void sim_check_node(struct sim_node *node)
{
    struct sim *sim = node->sim;
    struct sum sum = {.dropped = 0};
    const struct rawe_counters *counters = &sum.counters;

    for (struct sim_channel *channel = node->channels; channel != NULL; channel = channel->next) {
        check_channel(sim, channel);
    }
    sim_watch_node(node);
    sim_route_check_node(node);
    sim_lossy_check_node(node);
    sim_served_check_node(node);
    for (unsigned i = 0; i < node->nic_count; i++) {
        check_memory(&node->nics[i]);
        add_counters(&sum, &node->nics[i].engine.counters);
    }
    if (counters->frames_sent != node->frames_new ||
        counters->frames_resent != node->frames_again) {
        net_fail("counters add up",
                 "n%u counts %llu frames sent and %llu resent, there were %llu and %llu",
                 node->index, (unsigned long long)counters->frames_sent,
                 (unsigned long long)counters->frames_resent, (unsigned long long)node->frames_new,
                 (unsigned long long)node->frames_again);
    }
    if (counters->acks_sent > counters->frames_received + counters->duplicates +
                                  counters->probes_received + counters->credit_updates) {
        net_fail("no acknowledgement without reason",
                 "n%u sent %llu acknowledgements for %llu frames, %llu duplicates, %llu probes",
                 node->index, (unsigned long long)counters->acks_sent,
                 (unsigned long long)counters->frames_received,
                 (unsigned long long)counters->duplicates,
                 (unsigned long long)counters->probes_received);
    }
}

void sim_check_failed(struct sim_channel *channel, uint64_t silent_ns)
{
    const struct sim_node *node = channel->node;
    struct sim *sim = node->sim;
    const struct sim_node *peer = &sim->nodes[channel->peer];

    sim_trace(sim, "n%u gives n%u up on lane %u", node->index, channel->peer, channel->lane);
    sim->activity_ns = sim->now_ns;
    if (channel->failed) {
        net_fail("death is told once", "n%u gives n%u up again", node->index, channel->peer);
    }
    if (sim->departing) {
        net_fail("leaving gives no peer up", "n%u gives n%u up on lane %u", node->index,
                 channel->peer, channel->lane);
    }
    bool may_be = peer->isolated || node->isolated || sim->plan.lying;
    if (peer->alive && peer->life == channel->peer_life && !may_be) {
        net_fail("the living are not given up",
                 "n%u gives n%u up on lane %u after %llu ms of silence, connection state %u",
                 node->index, channel->peer, channel->lane, (unsigned long long)silent_ns / 1000000,
                 sim_conn(channel)->handshake.state);
    }
    if (silent_ns < sim->plan.peer_timeout_ns) {
        net_fail("death is not told early", "n%u gives n%u up after %llu ms", node->index,
                 channel->peer, (unsigned long long)silent_ns / 1000000);
    }
}

void sim_check_given_up(struct sim_channel *channel)
{
    const struct sim_node *node = channel->node;
    struct sim *sim = node->sim;
    const struct sim_node *peer = &sim->nodes[channel->peer];
    const struct sim_channel *back = sim_channel_far_end(channel);

    sim_trace(sim, "n%u hears that n%u has given it up on lane %u", node->index, channel->peer,
              channel->lane);
    sim->activity_ns = sim->now_ns;
    if (channel->failed) {
        net_fail("death is told once", "n%u hears again that n%u has given it up", node->index,
                 channel->peer);
    }
    /* A forged CLOSE is believed if the peer is computing or cut off, and so answers no probe. */
    bool may_be =
        sim->net.given_up_forged_ns != 0 && sim->now_ns - sim->net.given_up_forged_ns >= SECOND;
    if (!may_be && peer->alive && peer->life == channel->peer_life && back != NULL &&
        !back->failed &&
        sim_conn(back)->handshake.peer_id == sim_conn(channel)->handshake.local_id) {
        net_fail("the living are not given up", "n%u hears that n%u has given it up on lane %u",
                 node->index, channel->peer, channel->lane);
    }
}

static bool node_quiet(const struct sim_node *node)
{
    if (!node->alive) {
        return true;
    }
    if (!sim_app_idle(node) || sim_node_waiting(node) || sim_node_pending(node) ||
        node->deferral.pending) {
        return false;
    }
    for (const struct sim_channel *channel = node->channels; channel != NULL;
         channel = channel->next) {
        if (sim_conn(channel)->handshake.state == RAWE_CONN_CONNECTING ||
            !rawe_conn_drained(sim_conn(channel))) {
            return false;
        }
    }
    return true;
}

bool sim_check_quiet(struct sim *sim)
{
    if (!net_ledger_is_quiet(&sim->ledger) || sim->accesses_open != 0 || sim->unborn != 0) {
        return false;
    }
    for (unsigned i = 0; i < sim->plan.nodes; i++) {
        if (!node_quiet(&sim->nodes[i])) {
            return false;
        }
    }
    return true;
}

void sim_check_stalled(struct sim *sim)
{
    uint64_t calm_ns = sim->activity_ns;
    uint64_t longest_ns = STALL_NS + 8 * sim->plan.probe_most_ns;

    calm_ns = sim->disturbed_ns > calm_ns ? sim->disturbed_ns : calm_ns;
    calm_ns = sim->faults_end_ns > calm_ns ? sim->faults_end_ns : calm_ns;
    if (sim->incidents.deaths != 0 || sim->incidents.isolated != 0) {
        longest_ns += sim->plan.peer_timeout_ns + 4 * sim->plan.probe_most_ns;
    }
    if (sim->now_ns > calm_ns + longest_ns) {
        net_fail("everything finishes",
                 "%u sends and %u accesses are open and %u messages undelivered, nothing has "
                 "moved for %llu ms",
                 sim->ledger.open, sim->accesses_open, sim->ledger.undelivered,
                 (unsigned long long)(sim->now_ns - calm_ns) / 1000000);
    }
}

/** Maximum probes per connection before its round-trip time is known. */
#define FIRST_PROBES 16u

/** Check counters of a run in which nothing was lost, duplicated, late or closed. */
static void check_undisturbed(struct sim *sim, const struct sum *sum, unsigned connections)
{
    const struct rawe_counters *counters = &sum->counters;
    /* A part of a GET is refused; those that come over other routes are no longer expected. */
    const uint64_t revoked = counters->dropped_handle + counters->dropped_reply;
    const uint64_t expected = (sim->incidents.revoked != 0 ? revoked : 0) +
                              (sim->incidents.forged != 0 ? sum->dropped_strange : 0);

    /* Answers queued behind data on a slow link may arrive too late. */
    if (counters->migrations != 0 && sim->disturbed_ns == 0 && sim->plan.slowness_most == 1) {
        net_fail("no migration without a fault", "%llu migrations",
                 (unsigned long long)counters->migrations);
    }
    if (counters->migrations != 0) {
        return; /* nor do a suspended host's answers arrive on all routes at once */
    }
    if (sum->dropped != expected || counters->duplicates != 0 || counters->peers_lost != 0) {
        net_fail("nothing is dropped without a fault", "%llu frames dropped, %llu duplicates",
                 (unsigned long long)sum->dropped, (unsigned long long)counters->duplicates);
    }
    if (counters->frames_received != counters->frames_sent ||
        counters->messages_received != counters->messages_sent) {
        net_fail("counters add up", "%llu of %llu frames, %llu of %llu messages received",
                 (unsigned long long)counters->frames_received,
                 (unsigned long long)counters->frames_sent,
                 (unsigned long long)counters->messages_received,
                 (unsigned long long)counters->messages_sent);
    }
    sim->calm = sim->disturbed_ns == 0;
    uint64_t idle_probes = sim->plan.idle_ns != 0 ? 1 + sim->now_ns / sim->plan.idle_ns : 0;
    if (sim->calm && counters->probes_sent >
                         counters->frames_sent + (FIRST_PROBES + idle_probes) * connections) {
        net_fail("no storm of probes", "%llu probes for %llu frames on %u connections",
                 (unsigned long long)counters->probes_sent,
                 (unsigned long long)counters->frames_sent, connections);
    }
}

/** Maximum number of acknowledgements, probes and answers per data frame and per lost frame, ... */
#define CONTROL_PER_FRAME_MOST 1u

/**
 * ... and if the ring holds fewer frames per connection: when a peer starts sending, the shares of
 * all other peers change, and each is sent an update.
 */
#define CONTROL_PER_FRAME_SCARCE 2u
#define SCARCE_FRAMES 32u

/**
 * ... and per connection: a probe each time the interval doubles. If frames pass only in one
 * direction, each probe from one side restarts the intervals of the other.
 */
#define CONTROL_PER_CONNECTION_MOST 128u

/**
 * ... and per probe interval of a silent peer: PROBE, PING and their answers. Twice as many,
 * because a peer whose deferral is full still repeats its CONNECT, which restarts our intervals
 * each time, ...
 */
#define CONTROL_PER_INTERVAL_MOST 4u

/**
 * ... and per interval of an idle peer: PROBE, its answer, and credit updates of both sides, ...
 */
#define CONTROL_PER_IDLE_MOST 4u

/** ... and per migration of one end: confirmations and answers. */
#define CONTROL_PER_MIGRATION_MOST 32u

/**
 * Check that the number of control frames stays in proportion to data and to time spent in silence,
 * whatever the faults. `migrated`: number of migrations of living nodes' connections.
 */
static void check_control(struct sim *sim, uint64_t migrated)
{
    uint64_t frames = sim->retired.frames + sim->retired.resent;
    uint64_t control = sim_control_sum(sim->retired.control);
    uint64_t migrations = sim->retired.migrations + migrated;

    for (unsigned i = 0; i < sim->plan.nodes; i++) {
        const struct sim_node *node = &sim->nodes[i];
        if (node->alive) {
            frames += node->frames_new + node->frames_again;
            control += sim_control_sum(node->control);
        }
    }
    uint64_t interval_ns = sim->plan.peer_timeout_ns / 4; /* no engine waits longer */
    if (interval_ns > sim->plan.probe_most_ns) {
        interval_ns = sim->plan.probe_most_ns;
    }
    uint64_t intervals = 1 + sim->now_ns / interval_ns;
    uint64_t idle_intervals = sim->plan.idle_ns != 0 ? 1 + sim->now_ns / sim->plan.idle_ns : 0;
    uint32_t sharing = RAWE_LANES * sim->plan.nics * (sim->plan.nodes - 1);
    bool scarce = sim->plan.receive_frames < SCARCE_FRAMES * sharing;
    uint64_t allowed = (scarce ? CONTROL_PER_FRAME_SCARCE : CONTROL_PER_FRAME_MOST) *
                           (frames + sim->incidents.duplicated + sim->incidents.lost) +
                       CONTROL_PER_MIGRATION_MOST * migrations +
                       sim->channels_opened *
                           (CONTROL_PER_CONNECTION_MOST + CONTROL_PER_INTERVAL_MOST * intervals +
                            CONTROL_PER_IDLE_MOST * idle_intervals);
    if (control > allowed) {
        net_fail("no storm of control frames",
                 "%llu control frames for %llu data frames on %llu connections",
                 (unsigned long long)control, (unsigned long long)frames,
                 (unsigned long long)sim->channels_opened);
    }
}

/**
 * When all nodes are quiet, check that an interface without pending operations publishes no
 * outstanding data.
 */
static void check_asked(const struct sim_nic *nic)
{
    const struct rawe_budget_share *share = nic->engine.pull.gets.share;

    if (share != NULL && nic->engine.operations.in_use == 0 && share->asked_bytes != 0) {
        net_fail("what is asked for comes, or is forgotten",
                 "n%u seems to wait for %llu bytes on interface %u", nic->node->index,
                 (unsigned long long)share->asked_bytes, nic->index);
    }
}

/**
 * In runs without lost or late frames, check that the estimated rate of a line is at least the
 * reported rate, and not too high.
 */
static void check_line(const struct sim_nic *nic)
{
    const struct sim_plan *plan = &nic->node->sim->plan;
    const struct rawe_line *line = &nic->engine.pull.line;
    uint64_t mbps = rawe_line_mbps(line);
    /* A merged packet counts as having arrived with its first frame. */
    uint64_t most_mbps = 2 * 8000000 / plan->ps_per_byte / nic->link->slowness;

    if (mbps < line->reported_mbps || (plan->arrivals_known && plan->clock_step_ns == 1 &&
                                       mbps > line->reported_mbps && mbps > most_mbps)) {
        net_fail("lines have their rate", "n%u takes interface %u's for %llu Mb/s",
                 nic->node->index, nic->index, (unsigned long long)mbps);
    }
}

static void check_lines(const struct sim *sim)
{
    for (unsigned i = 0; i < sim->plan.nodes; i++) {
        const struct sim_node *node = &sim->nodes[i];
        for (unsigned nic = 0; node->alive && nic < node->nic_count; nic++) {
            check_line(&node->nics[nic]);
        }
    }
}

void sim_check_counters(struct sim *sim)
{
    const struct sim_incidents *incidents = &sim->incidents;
    struct sum sum = {.dropped = 0};
    unsigned connections = 0;

    for (unsigned i = 0; i < sim->plan.nodes; i++) {
        const struct sim_node *node = &sim->nodes[i];
        for (unsigned nic = 0; node->alive && nic < node->nic_count; nic++) {
            add_counters(&sum, &node->nics[nic].engine.counters);
            check_asked(&node->nics[nic]);
        }
        connections += node->alive ? node->channels_most : 0;
    }
    check_control(sim, sum.counters.migrations);
    sim_access_check(sim);
    /*
     * Without late or duplicate frames, lost frames are the only evidence. Slices and batches arrive
     * in different rings, and may overtake each other.
     */
    bool in_order = incidents->overtaken == 0 && incidents->duplicated == 0 &&
                    incidents->closed == 0 && incidents->deaths == 0 && incidents->isolated == 0 &&
                    incidents->pulled == 0 && incidents->readdressed == 0 &&
                    incidents->no_memory == 0 && sum.counters.no_buffer == 0 &&
                    !(sim->net.shrink.on && sim->plan.batches);
    bool at_home = sum.counters.migrations == 0;
    if (in_order && at_home && sum.counters.frames_resent > incidents->lost_sequenced) {
        net_fail("no resend without evidence", "%llu frames resent, %llu lost",
                 (unsigned long long)sum.counters.frames_resent,
                 (unsigned long long)incidents->lost_sequenced);
    }
    if (in_order && incidents->lost == 0 && incidents->corrupted == 0) {
        check_undisturbed(sim, &sum, connections);
        check_lines(sim);
    }
    for (const struct sim_transfer *transfer = sim->transfers; transfer != NULL;
         transfer = transfer->next) {
        if (transfer->registered && !transfer->lossy) {
            net_fail("everything finishes", "transfer %u from n%u to n%u has no end",
                     transfer->number, transfer->source, transfer->target);
        }
    }
}
