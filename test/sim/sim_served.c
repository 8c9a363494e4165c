/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * No peer starves: however much other peers send, each connection with data to send makes progress
 * within a bound, and so do the GETs from each peer. That a run finishes does not prove this,
 * because a run continues while any node makes progress.
 *
 * The bound follows from the delays of the model. The longest are the turns of other peers (grants,
 * GETs), whose processes may not be running, and requests for credit, which are at most 100 ms
 * apart: together SERVED_NS. A frame may wait in the two queues on its path, and its answer in the
 * two on the way back. If ports and rings overflow, requests may also be lost: the bound allows for
 * a few. When faults end, the next request is sent within the longest interval between requests.
 */
#include "sim.h"

#include "conn/rawe_conn.h"

#define SERVED_NS 250000000ull

/** Slightly longer than it takes to give up batches that are lost (rawe_conn_batch.c). */
#define BATCHES_NS 600000000ull

/** A peer whose address has changed is found within this time. */
#define ADDRESS_NS 2000000000ull

/** A sender learns within this time that the path's MTU has shrunk. */
#define SHRINK_NS 2000000000ull

/** Number of consecutive requests that may be lost. */
#define QUESTIONS 4u

/** Return the time after which faults no longer excuse delays; UINT64_MAX: never in this run. */
static uint64_t calm_from_ns(const struct sim *sim)
{
    const struct sim_incidents *incidents = &sim->incidents;
    uint64_t calm_ns = (sim->plan.faults & ~SIM_BIT(STEADY)) != 0 ? sim->faults_end_ns : 0;

    if (sim->plan.lying || incidents->deaths != 0 || incidents->isolated != 0 ||
        incidents->closed != 0 || sim->departing || sim->finishing) {
        return UINT64_MAX;
    }
    calm_ns = sim->disturbed_ns > calm_ns ? sim->disturbed_ns : calm_ns;
    return sim_lossy_until_ns(sim) > calm_ns ? sim_lossy_until_ns(sim) : calm_ns;
}

/** Return the time until a link has sent the data queued for it now. */
static uint64_t passed_ns(const struct sim *sim, const struct sim_link *link)
{
    uint64_t free_ns =
        link->wire_free_ns > link->port_free_ns ? link->wire_free_ns : link->port_free_ns;
    return free_ns > sim->now_ns ? free_ns - sim->now_ns : 0;
}

/** Return the maximum round-trip time to the peer, given the queues' current lengths. */
static uint64_t queues_ns(const struct sim_channel *channel)
{
    const struct sim *sim = channel->node->sim;
    const struct sim_nic *far = &sim->nodes[channel->peer].nics[channel->via->far];

    return 2 * (passed_ns(sim, channel->via->nic->link) + passed_ns(sim, far->link)) +
           4 * sim->plan.delay_ns;
}

static uint64_t frames_arrived(const struct rawe_conn *conn)
{
    return conn->tx.window.una + conn->tx.window.sacked;
}

/**
 * Return a value that changes with each frame that the peer acknowledges. If the first message must
 * not overtake earlier ones on other connections to the process, the frames of those connections
 * count as well: if they are slow, the limit itself rises rarely (seed 70062485 of `steady`).
 */
static uint64_t progress_of(const struct rawe_conn *conn)
{
    const struct rawe_send *first = conn->tx.queue.first;
    const struct rawe_order *order = conn->tx.ordered.order;
    uint64_t frames = frames_arrived(conn);

    if (order != NULL && first != NULL && !rawe_order_allows(order, first->number)) {
        for (const struct rawe_link *link = order->members.next; link != &order->members;
             link = link->next) {
            frames += frames_arrived(RAWE_OWNER(link, struct rawe_conn, tx.ordered.link));
        }
    }
    return frames << 32 ^ (uint64_t)conn->handshake.local_id << 2 ^ conn->handshake.state;
}

/** Return when a wait begins: now or, if faults excuse delays, when they are over. */
static uint64_t served_from_ns(const struct sim *sim, uint64_t before_ns, uint64_t calm_ns)
{
    bool delayed = sim->now_ns < calm_ns || before_ns < calm_ns;
    uint64_t from_ns = calm_ns > sim->now_ns ? calm_ns : sim->now_ns;
    return delayed ? from_ns + sim->plan.probe_most_ns : from_ns;
}

static uint64_t allowed_ns(const struct sim *sim)
{
    bool drops = (sim->plan.faults & (SIM_BIT(SWITCH) | SIM_BIT(RING) | SIM_BIT(MEMORY))) != 0;
    bool fades = sim->plan.batches && (sim->plan.faults & SIM_BIT(STEADY)) == 0;
    bool moves = sim->plan.readdressings != 0;
    bool shrinks = sim->net.shrink.on;
    return SERVED_NS + (fades ? BATCHES_NS : 0) + (moves ? ADDRESS_NS : 0) +
           (shrinks ? SHRINK_NS + QUESTIONS * sim->plan.probe_most_ns : 0) +
           sim->plan.clock_step_ns + sim->plan.poll_ns +
           (drops ? QUESTIONS * sim->plan.probe_most_ns : 0);
}

static void check_channel(struct sim_channel *channel, uint64_t calm_ns)
{
    const struct sim *sim = channel->node->sim;
    const struct rawe_conn *conn = sim_conn(channel);
    uint64_t progress = progress_of(conn);

    if (rawe_conn_drained(conn)) {
        channel->served_ns = UINT64_MAX; /* nothing to send */
        return;
    }
    if (channel->served_ns == UINT64_MAX || progress != channel->served ||
        channel->served_ns < calm_ns) {
        channel->served = progress;
        channel->served_ns = served_from_ns(sim, channel->served_ns, calm_ns) + queues_ns(channel);
        return;
    }
    if (!channel->failed && sim->now_ns > channel->served_ns + allowed_ns(sim)) {
        net_fail("no peer starves", "n%u gets nothing through to n%u on lane %u for %llu ms",
                 channel->node->index, channel->peer, channel->lane,
                 (unsigned long long)(sim->now_ns - channel->served_ns) / 1000000);
    }
}

/** Rounds in which the GETs of each other peer may transfer a piece first. */
#define ROUNDS 8u
#define PIECE_BYTES 65536u

/** Check that GETs from each peer make progress. */
static void check_reads(struct sim_node *node, uint64_t calm_ns)
{
    struct sim *sim = node->sim;
    uint64_t progress[SIM_NODES_MAX] = {0};
    uint64_t piece_ns =
        (uint64_t)PIECE_BYTES * sim->plan.ps_per_byte / 1000 * sim->plan.slowness_most;
    uint64_t turns_ns = (uint64_t)ROUNDS * sim->plan.nodes * piece_ns;

    sim_access_progress(node, progress);
    for (uint32_t i = 0; i < sim->plan.nodes; i++) {
        struct sim_current *current = &node->current[i];
        if (progress[i] == 0 || progress[i] != current->read || current->read_ns < calm_ns) {
            current->read = progress[i];
            current->read_ns = served_from_ns(sim, current->read_ns, calm_ns);
        } else if (sim->now_ns > current->read_ns + 2 * allowed_ns(sim) + turns_ns) {
            net_fail("no peer starves", "n%u gets nothing of what it reads from n%u for %llu ms",
                     node->index, i,
                     (unsigned long long)(sim->now_ns - current->read_ns) / 1000000);
        }
    }
}

/** One in this many events checks GETs, because that visits all GETs of the run. */
#define READS_RARELY 64u

void sim_served_check_node(struct sim_node *node)
{
    uint64_t calm_ns = calm_from_ns(node->sim);

    /* In other runs, each frame of a piece may take a round trip. */
    bool steady = node->sim->plan.faults == SIM_BIT(STEADY);

    if (steady && calm_ns != UINT64_MAX && node->sim->accesses_open != 0 &&
        node->sim->event_count % READS_RARELY == 0) {
        check_reads(node, calm_ns);
    }
    for (struct sim_channel *channel = node->channels; calm_ns != UINT64_MAX && channel != NULL;
         channel = channel->next) {
        check_channel(channel, calm_ns);
    }
}
