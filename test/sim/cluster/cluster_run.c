/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * A run, and the limits that links impose on its flows: see cluster.h.
 */
#include "cluster.h"

#include "net_harness.h"

#define MS_NS 1000000ull
/** Start of virtual time; not 0, because an incarnation must not be 0. */
#define BEGIN_NS (1000 * MS_NS)
/** A connection not used for this long is idle. */
#define IDLE_NS (100 * MS_NS)
/** Time that endless flows are given to find their rates. */
#define SETTLING_NS (20 * MS_NS)
/** Number of messages of each size for a median. */
#define UNLOADED_MESSAGES 15u
/** Interval over which the fairness of flows is measured. */
#define FAIRNESS_NS (10 * MS_NS)
/** Limit of a run: this multiple of the ideal time, plus time for some probes. */
#define TIMES_IDEAL_MAX 1000u
#define SLACK_NS (20000 * MS_NS)

/** Handle events until `end_ns` or, if `until_done`, until all messages have arrived. */
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
        } else if (event.kind == CLUSTER_EVENT_LEFT) {
            cluster->net.shared_bytes[event.node] -= event.value;
        } else {
            uint32_t to = cluster_net_forward(&cluster->net, event.node, cluster->now_ns);
            uint32_t all = to == CLUSTER_ALL ? cluster_plan_ranks(&cluster->plan) : 0;
            if (to < CLUSTER_NONE) {
                cluster_rank_expect(&cluster->ranks[to]);
            }
            for (uint32_t i = 0; i < all; i++) {
                cluster_rank_expect(&cluster->ranks[i]);
            }
        }
    }
}

static void start(struct cluster *cluster, const struct cluster_plan *plan)
{
    *cluster = (struct cluster){.plan = *plan, .now_ns = BEGIN_NS};
    cluster->collective.random = sim_random_stream(plan->seed, CLUSTER_STREAM_BEGIN);
    cluster->payload = net_zeroed(CLUSTER_MESSAGE_BYTES_MAX);
    cluster->sink = net_new(CLUSTER_MESSAGE_BYTES_MAX);
    cluster_net_init(&cluster->net, &cluster->plan, &cluster->events);
    cluster->ranks = net_new(cluster_plan_ranks(plan) * sizeof(*cluster->ranks));
    cluster->hosts = net_zeroed(plan->hosts * sizeof(*cluster->hosts));
    for (uint32_t i = 0; i < cluster_plan_ranks(plan); i++) {
        cluster_rank_init(&cluster->ranks[i], cluster, i);
    }
    cluster_traffic_init(cluster);
}

/** Close all connections, and free everything. */
static void finish(struct cluster *cluster)
{
    uint32_t ranks = cluster_plan_ranks(&cluster->plan);

    cluster->ending = true;
    for (uint32_t i = 0; i < ranks; i++) {
        cluster_rank_close(&cluster->ranks[i]);
    }
    for (uint32_t i = 0; i < ranks; i++) {
        cluster_rank_free(&cluster->ranks[i]);
    }
    cluster_net_free(&cluster->net);
    cluster_traffic_free(cluster);
    sim_events_free(&cluster->events);
    net_delete(cluster->ranks);
    net_delete(cluster->hosts);
    net_delete(cluster->payload);
    net_delete(cluster->sink);
}

/** Return the sums of all engines' counters. */
static struct rawe_counters count(const struct cluster *cluster)
{
    struct rawe_counters sum = {0};

    for (uint32_t i = 0; i < cluster_plan_ranks(&cluster->plan); i++) {
        const struct rawe_counters *counters = &cluster->ranks[i].engine.counters;
#define X(name, text) sum.name += counters->name;
        RAWE_COUNTER_LIST(X)
#undef X
        const struct rawe_group_counters *group = &cluster->ranks[i].part.counters;
        if (cluster->plan.multicast && counters->frames_sent > counters->messages_sent) {
            /* Count frames with the group's control messages, and repairs. */
            sum.acks_sent += counters->frames_sent - counters->messages_sent;
            sum.frames_sent -= counters->frames_sent - counters->messages_sent;
        }
        sum.frames_sent += group->frames_sent;
        sum.frames_resent += group->repairs_sent;
        sum.duplicates += group->duplicates;
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

/* ---- fair rates, by progressive filling ---- */

/** A link: its flows that have no rate yet, and the capacity not used by flows that have one. */
struct share {
    double left;
    uint32_t flows;
};

static unsigned path_of(const struct cluster *cluster, uint32_t pair,
                        uint32_t path[CLUSTER_PATH_LINKS_MAX])
{
    const struct cluster_plan *plan = &cluster->plan;
    struct cluster_pair of = cluster->traffic.pairs[pair];

    const bool batch = cluster_plan_in_batches(plan, plan->size_bytes);
    return cluster_net_path(plan, of.from, of.to, batch, path);
}

/** Return all links with their flows. The caller frees them. */
static struct share *shares_new(const struct cluster *cluster)
{
    struct share *shares = net_new(cluster->net.link_count * sizeof(*shares));
    uint32_t path[CLUSTER_PATH_LINKS_MAX];

    for (uint32_t i = 0; i < cluster->net.link_count; i++) {
        shares[i] = (struct share){.left = cluster_net_capacity(&cluster->plan, i)};
    }
    for (uint32_t i = 0; i < cluster->traffic.pair_count; i++) {
        for (unsigned j = path_of(cluster, i, path); j-- > 0;) {
            shares[path[j]].flows++;
        }
    }
    return shares;
}

/** Return the number of messages on the busiest link if each pair sends one. */
static double busiest_messages(const struct cluster *cluster)
{
    struct share *shares = shares_new(cluster);
    double most = 0;

    for (uint32_t i = 0; i < cluster->net.link_count; i++) {
        double messages = shares[i].flows / shares[i].left;
        most = messages > most ? messages : most;
    }
    net_delete(shares);
    return most;
}

/** Return the link with the least capacity per flow, or UINT32_MAX if all flows have a rate. */
static uint32_t narrowest(const struct share *shares, uint32_t count)
{
    uint32_t least = UINT32_MAX;

    for (uint32_t i = 0; i < count; i++) {
        if (shares[i].flows != 0 &&
            (least == UINT32_MAX ||
             shares[i].left * shares[least].flows < shares[least].left * shares[i].flows)) {
            least = i;
        }
    }
    return least;
}

/** Write each pair's max-min fair rate: a fraction of a link's rate. */
static void fair_rates(const struct cluster *cluster, double *rates)
{
    struct share *shares = shares_new(cluster);
    uint32_t path[CLUSTER_PATH_LINKS_MAX], link;

    for (uint32_t i = 0; i < cluster->traffic.pair_count; i++) {
        rates[i] = 0;
    }
    /* Progressive filling (Bertsekas and Gallager, Data Networks, section 6.5). */
    while ((link = narrowest(shares, cluster->net.link_count)) != UINT32_MAX) {
        double rate = shares[link].left / shares[link].flows;
        for (uint32_t i = 0; i < cluster->traffic.pair_count; i++) {
            unsigned links = path_of(cluster, i, path), at = 0;
            while (at < links && path[at] != link) {
                at++;
            }
            for (unsigned j = 0; at < links && rates[i] == 0 && j < links; j++) {
                shares[path[j]].left -= rate;
                shares[path[j]].flows--;
            }
            rates[i] = at < links && rates[i] == 0 ? rate : rates[i];
        }
    }
    net_delete(shares);
}

/* ---- endless flows ---- */

/** Endless flows, one per pair; arrays are indexed by pair. */
struct flows {
    double *fair_bytes; /**< in FAIRNESS_NS at its max-min fair rate */
    double *bytes;      /**< received */
    double jain_index;  /**< sum of the indexes of all intervals */
};

static void flows_init(struct flows *flows, struct cluster *cluster)
{
    const struct cluster_plan *plan = &cluster->plan;
    uint32_t count = cluster->traffic.pair_count;
    uint64_t wire_bytes = cluster_plan_message_bytes(plan, plan->size_bytes);
    double fits_bytes = (double)FAIRNESS_NS * 1000 /
                        (double)cluster_plan_transmit_ps(plan, wire_bytes) * plan->size_bytes;

    *flows = (struct flows){.fair_bytes = net_new(count * sizeof(double)),
                            .bytes = net_new(count * sizeof(double))};
    fair_rates(cluster, flows->fair_bytes);
    for (uint32_t i = 0; i < count; i++) {
        struct cluster_pair pair = cluster->traffic.pairs[i];
        cluster_rank_peer(&cluster->ranks[pair.to], pair.from)->received_bytes = 0;
        flows->fair_bytes[i] *= fits_bytes;
        flows->bytes[i] = 0;
    }
}

/** For an interval of FAIRNESS_NS, compute Jain's index of the flows' rates / fair rates. */
static void flows_sample(struct flows *flows, struct cluster *cluster)
{
    double sum = 0, squares = 0;

    for (uint32_t i = 0; i < cluster->traffic.pair_count; i++) {
        struct cluster_pair pair = cluster->traffic.pairs[i];
        struct cluster_peer *peer = cluster_rank_peer(&cluster->ranks[pair.to], pair.from);
        double part = (double)peer->received_bytes / flows->fair_bytes[i];
        flows->bytes[i] += (double)peer->received_bytes;
        peer->received_bytes = 0;
        sum += part;
        squares += part * part;
    }
    flows->jain_index += squares == 0 ? 0 : sum * sum / (cluster->traffic.pair_count * squares);
}

/** Write the results of all `slices` intervals. */
static void flows_finish(struct flows *flows, const struct cluster *cluster, double slices,
                         struct cluster_result *result)
{
    double fair = 0, got = 0, of_fair = 0;

    for (uint32_t i = 0; i < cluster->traffic.pair_count; i++) {
        double fair_bytes = flows->fair_bytes[i] * slices;
        fair += fair_bytes;
        got += flows->bytes[i];
        of_fair += flows->bytes[i] < fair_bytes ? flows->bytes[i] : fair_bytes;
    }
    result->utilization = got / fair;
    result->fair_part = of_fair / fair;
    result->jain_index = flows->jain_index / slices;
    net_delete(flows->fair_bytes);
    net_delete(flows->bytes);
}

/** Run endless messages for the planned duration. */
static void stream(struct cluster *cluster, const struct rawe_counters *before,
                   struct cluster_result *result)
{
    uint64_t slices = cluster->plan.duration_ns / FAIRNESS_NS;
    struct flows flows;

    flows_init(&flows, cluster);
    for (uint64_t i = 0; i < slices; i++) {
        advance(cluster, cluster->now_ns + FAIRNESS_NS, false);
        flows_sample(&flows, cluster);
    }
    flows_finish(&flows, cluster, (double)slices, result);
    if (cluster_plan_is_workload(&cluster->plan)) {
        uint64_t bytes = counted_since(cluster, before).bytes_received;
        result->utilization = (double)bytes / (double)cluster->traffic.begun_bytes;
    }
    result->complete = true;
}

/** Measure the median times of messages and pings in an idle network. */
static void measure_unloaded(struct cluster *cluster, struct cluster_result *result)
{
    const struct cluster_plan *plan = &cluster->plan;
    struct cluster_traffic *traffic = &cluster->traffic;
    const struct cluster_workload_size *sizes;
    unsigned count =
        cluster_plan_is_workload(plan) ? cluster_workload_sizes(plan->pattern, &sizes) : 0;

    for (unsigned i = 0; i < count; i++) {
        cluster_traffic_reset(cluster);
        for (unsigned j = 0; j < UNLOADED_MESSAGES; j++) {
            const struct cluster_pair pair = {0, cluster_plan_senders(plan) - 1};
            cluster_traffic_send(cluster, pair, sizes[i].bytes);
            advance(cluster, cluster->now_ns + SLACK_NS, true);
        }
        traffic->unloaded_ns[i] = cluster_samples_quantile(&traffic->times_ns, 500);
    }
    if (plan->pings) {
        cluster_traffic_ping(cluster);
        advance(cluster, cluster->now_ns + SETTLING_NS, false);
        result->ping_unloaded_ns = cluster_samples_quantile(&traffic->ping_half_ns, 500);
    }
}

static struct cluster_quantiles quantiles(struct cluster_samples *samples)
{
    return (struct cluster_quantiles){
        .p50 = cluster_samples_quantile(samples, 500),
        .p99 = cluster_samples_quantile(samples, 990),
        .p999 = cluster_samples_quantile(samples, 999),
    };
}

/** Write the counters since `before` and the times since `began_ns`. */
static void evaluate(struct cluster *cluster, const struct rawe_counters *before, uint64_t began_ns,
                     struct cluster_result *result)
{
    const struct cluster_queues *queues = &cluster->net.queues;

    result->completion_ns = cluster->now_ns - began_ns;
    result->message_ns = quantiles(&cluster->traffic.times_ns);
    result->ping_ns = quantiles(&cluster->traffic.ping_half_ns);
    for (unsigned i = 0; i < CLUSTER_CLASSES; i++) {
        result->slowdown[i] = quantiles(&cluster->traffic.slowdowns[i]);
    }
    result->queue_most_bytes = queues->most_bytes;
    result->queue_p999_bytes = cluster_queues_p999_bytes(queues, &cluster->plan);
    result->dropped_frames = queues->dropped;
    result->counters = counted_since(cluster, before);
}

struct cluster_result cluster_run(const struct cluster_plan *plan)
{
    struct cluster cluster;
    struct cluster_result result = {0};
    bool endless = plan->duration_ns != 0, collective = cluster_plan_is_collective(plan);

    start(&cluster, plan);
    double busiest_bytes =
        busiest_messages(&cluster) * (double)cluster_plan_message_bytes(plan, plan->size_bytes);
    result.ideal_ns = cluster_plan_transmit_ps(plan, (uint64_t)busiest_bytes) / 1000 +
                      cluster_plan_round_trip_ns(plan);
    uint64_t most_ns = TIMES_IDEAL_MAX * result.ideal_ns + SLACK_NS;
    if (plan->idle || collective) {
        cluster_traffic_warm(&cluster);
        advance(&cluster, cluster.now_ns + most_ns, true);
        advance(&cluster, cluster.now_ns + IDLE_NS, false);
    }
    measure_unloaded(&cluster, &result);
    cluster_traffic_begin(&cluster);
    if (endless) {
        advance(&cluster, cluster.now_ns + SETTLING_NS, false);
    }
    cluster.net.queues = (struct cluster_queues){0};
    cluster_traffic_reset(&cluster);
    struct rawe_counters before = count(&cluster);
    uint64_t began_ns = cluster.now_ns;
    if (endless) {
        stream(&cluster, &before, &result);
    } else {
        advance(&cluster, cluster.now_ns + most_ns, true);
        result.complete = cluster_traffic_done(&cluster);
    }
    evaluate(&cluster, &before, began_ns, &result);
    result.completion_ns /= collective ? CLUSTER_COLLECTIVES : 1;
    if (!endless) {
        advance(&cluster, cluster.now_ns + IDLE_NS, false); /* until all frames are acknowledged */
    }
    finish(&cluster);
    return result;
}
