/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * A run: see cluster_run.h.
 */
#include "cluster_run.h"

#include <string.h>

#include "cluster.h"
#include "cluster_memory.h"
#include "net_harness.h"

#define MS_NS 1000000ull
/** Time begins there: an incarnation is not 0. */
#define BEGIN_NS (1000 * MS_NS)
/** How long connections have rested when they count as idle. */
#define REST_NS (100 * MS_NS)
/** Endless flows have found their rates after that. */
#define SETTLING_NS (20 * MS_NS)
/** Over which the fairness of flows is looked at. */
#define FAIRNESS_NS (10 * MS_NS)
/** A run that takes longer is given up: that many times the ideal, and some probes. */
#define TIMES_IDEAL_MAX 1000u
#define SLACK_NS (20000 * MS_NS)

/** Let things happen until `end_ns`, or until all messages have arrived. */
static void advance(struct cluster *cluster, uint64_t end_ns, bool until_done)
{
    struct sim_event event;

    while (!(until_done && cluster_traffic_done(cluster))) {
        if (cluster->events.count == 0 || cluster->events.heap[0].at_ns > end_ns) {
            cluster->now_ns = end_ns;
            return;
        }
        (void)sim_events_pop(&cluster->events, &event);
        cluster->now_ns = event.at_ns;
        if (event.kind == CLUSTER_EVENT_WAKE) {
            cluster_rank_wake(&cluster->ranks[event.node], event.value);
        } else {
            uint32_t to = cluster_net_forward(&cluster->net, event.node, cluster->now_ns);
            if (to != UINT32_MAX) {
                cluster_rank_expect(&cluster->ranks[to]);
            }
        }
    }
}

static void start(struct cluster *cluster, const struct cluster_plan *plan)
{
    *cluster = (struct cluster){.plan = *plan, .now_ns = BEGIN_NS};
    cluster->payload = net_new(CLUSTER_MESSAGE_BYTES_MAX);
    cluster->sink = net_new(CLUSTER_MESSAGE_BYTES_MAX);
    memset(cluster->payload, 0, CLUSTER_MESSAGE_BYTES_MAX);
    cluster_net_init(&cluster->net, &cluster->plan, &cluster->events);
    cluster->ranks = net_new(cluster_plan_ranks(plan) * sizeof(*cluster->ranks));
    for (uint32_t i = 0; i < cluster_plan_ranks(plan); i++) {
        cluster_rank_init(&cluster->ranks[i], cluster, i);
    }
    cluster_traffic_init(cluster);
}

/** Close all connections; returns what memory core had for each peer of a process. */
static double finish(struct cluster *cluster)
{
    size_t before = cluster_memory_bytes();
    uint32_t ranks = cluster_plan_ranks(&cluster->plan), peers = 0;

    cluster->ending = true;
    for (uint32_t i = 0; i < ranks; i++) {
        cluster_rank_close(&cluster->ranks[i]);
    }
    size_t closed_bytes = before - cluster_memory_bytes();
    for (uint32_t i = 0; i < ranks; i++) {
        peers += cluster->ranks[i].peer_count;
        cluster_rank_free(&cluster->ranks[i]);
    }
    cluster_net_free(&cluster->net);
    cluster_traffic_free(cluster);
    sim_events_free(&cluster->events);
    net_delete(cluster->ranks);
    net_delete(cluster->payload);
    net_delete(cluster->sink);
    return (double)closed_bytes / peers + (double)sizeof(struct rawe_peer);
}

/** The counters of all engines, added up. */
static struct rawe_counters count(const struct cluster *cluster)
{
    struct rawe_counters sum = {0};

    for (uint32_t i = 0; i < cluster_plan_ranks(&cluster->plan); i++) {
        const struct rawe_counters *counters = &cluster->ranks[i].engine.counters;
#define X(name, text) sum.name += counters->name;
        RAWE_COUNTER_LIST(X)
#undef X
    }
    return sum;
}

static struct rawe_counters counted_since(const struct cluster *cluster,
                                          const struct rawe_counters *before)
{
    struct rawe_counters now = count(cluster);

#define X(name, text) now.name -= before->name;
    RAWE_COUNTER_LIST(X)
#undef X
    return now;
}

/** Jain's index of what has come of each flow since this was called last. */
static double fairness(struct cluster *cluster, uint64_t *total_bytes)
{
    double sum = 0, squares = 0;

    for (uint32_t i = 0; i < cluster->traffic.pair_count; i++) {
        struct cluster_pair pair = cluster->traffic.pairs[i];
        struct cluster_peer *peer = cluster_rank_peer(&cluster->ranks[pair.to], pair.from);
        double bytes = (double)peer->received_bytes;
        *total_bytes += peer->received_bytes;
        peer->received_bytes = 0;
        sum += bytes;
        squares += bytes * bytes;
    }
    return squares == 0 ? 0 : sum * sum / (cluster->traffic.pair_count * squares);
}

/** Endless flows for as long as planned, 10 ms at a time. */
static void stream(struct cluster *cluster, struct cluster_result *result)
{
    const struct cluster_plan *plan = &cluster->plan;
    uint64_t slices = plan->duration_ns / FAIRNESS_NS;
    uint64_t bytes = 0;

    (void)fairness(cluster, &bytes);
    bytes = 0;
    for (uint64_t i = 0; i < slices; i++) {
        advance(cluster, cluster->now_ns + FAIRNESS_NS, false);
        result->jain_index += fairness(cluster, &bytes) / (double)slices;
    }
    /* What the port would carry: the ideal time of one message of each is that of its wire bytes. */
    double ideal_ns = (double)(result->ideal_ns - cluster_plan_round_trip_ns(plan));
    double data_bytes = (double)plan->size_bytes * cluster->traffic.pair_count;
    result->utilization = (double)bytes / data_bytes * ideal_ns / (double)(slices * FAIRNESS_NS);
    result->complete = true;
}

/** What was counted and timed since `before` and `began_ns`. */
static void evaluate(struct cluster *cluster, const struct rawe_counters *before, uint64_t began_ns,
                     struct cluster_result *result)
{
    struct cluster_samples *times_ns = &cluster->traffic.times_ns;
    struct cluster_samples *ping_half_ns = &cluster->traffic.ping_half_ns;
    const struct cluster_queues *queues = &cluster->net.queues;

    result->completion_ns = cluster->now_ns - began_ns;
    result->message_p50_ns = cluster_samples_quantile(times_ns, 500);
    result->message_p99_ns = cluster_samples_quantile(times_ns, 990);
    result->message_p999_ns = cluster_samples_quantile(times_ns, 999);
    result->ping_p50_ns = cluster_samples_quantile(ping_half_ns, 500);
    result->ping_p99_ns = cluster_samples_quantile(ping_half_ns, 990);
    result->queue_most_bytes = queues->most_bytes;
    result->queue_p999_bytes = cluster_queues_p999_bytes(queues, &cluster->plan);
    result->dropped_frames = queues->dropped;
    result->counters = counted_since(cluster, before);
}

struct cluster_result cluster_run(const struct cluster_plan *plan)
{
    struct cluster cluster;
    struct cluster_result result = {0};

    start(&cluster, plan);
    result.ideal_ns = cluster_plan_messages_ns(plan, cluster_traffic_busiest(&cluster)) +
                      cluster_plan_round_trip_ns(plan);
    uint64_t most_ns = TIMES_IDEAL_MAX * result.ideal_ns + SLACK_NS;
    if (plan->idle) {
        cluster_traffic_warm(&cluster);
        advance(&cluster, cluster.now_ns + most_ns, true);
        advance(&cluster, cluster.now_ns + REST_NS, false);
    }
    cluster_traffic_begin(&cluster);
    if (plan->pattern == CLUSTER_STREAMS) {
        advance(&cluster, cluster.now_ns + SETTLING_NS, false);
    }
    cluster.net.queues = (struct cluster_queues){0};
    cluster.traffic.ping_half_ns.count = cluster.traffic.times_ns.count = 0;
    struct rawe_counters before = count(&cluster);
    uint64_t began_ns = cluster.now_ns;
    if (plan->pattern == CLUSTER_STREAMS) {
        stream(&cluster, &result);
    } else {
        advance(&cluster, cluster.now_ns + most_ns, true);
        result.complete = cluster_traffic_done(&cluster);
    }
    evaluate(&cluster, &before, began_ns, &result);
    if (plan->pattern != CLUSTER_STREAMS) {
        advance(&cluster, cluster.now_ns + REST_NS, false); /* until all is acknowledged */
    }
    result.peer_bytes = finish(&cluster);
    return result;
}
