/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Messages and their times: see cluster.h.
 */
#include "cluster.h"

#include <math.h>
#include <stdlib.h>

#include "net_harness.h"
#include "routes/rawe_balance.h"

/* ---- samples ---- */

void cluster_samples_add(struct cluster_samples *samples, uint64_t value)
{
    if (samples->count == samples->room) {
        samples->room = samples->room == 0 ? 256 : 2 * samples->room;
        samples->values = realloc(samples->values, samples->room * sizeof(*samples->values));
        if (samples->values == NULL) {
            abort();
        }
    }
    samples->values[samples->count++] = value;
}

static int compare(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

uint64_t cluster_samples_quantile(struct cluster_samples *samples, unsigned per_mille)
{
    if (samples->count == 0) {
        return 0;
    }
    qsort(samples->values, samples->count, sizeof(*samples->values), compare);
    size_t rank = (samples->count * per_mille + 999) / 1000;
    return samples->values[rank == 0 ? 0 : rank - 1];
}

void cluster_samples_free(struct cluster_samples *samples)
{
    free(samples->values);
    *samples = (struct cluster_samples){0};
}

/** Maximum eager message: btl_eager_limit without ob1's header. */
#define EAGER_BYTES_MAX (64u * 1024u + 64u - 16u)
/** Length of the messages with which ob1 announces and ends a transfer. */
#define CONTROL_BYTES 64u
#define PING_BYTES 1024u
/** Number of endless messages that each pair has in flight. */
#define ENDLESS_MESSAGES 2u

enum tag { TAG_EAGER = 1, TAG_RTS, TAG_FIN, TAG_PING, TAG_PONG, TAG_STEP };

/* ---- one message ---- */

static void released(struct rawe_message *message)
{
    net_delete(message);
}

static void completed(struct rawe_message *message, enum rawe_status status)
{
    (void)status; /* messages fail at the end of an endless run */
    if (!message->completed_early) {
        released(message);
    }
}

/** Send a message as btl_sendi does or, if the engine cannot copy it, as btl_send does. */
static void send_message(struct cluster_peer *to, enum tag tag, uint32_t len_bytes)
{
    uint8_t *payload = to->rank->cluster->payload;
    struct rawe_message *message;
    enum rawe_peer_result result;

    if (rawe_peer_send_copy(&to->peer, (uint8_t)tag, payload, len_bytes, NULL, 0) ==
        RAWE_STATUS_DONE) {
        return;
    }
    message = net_new(sizeof(*message));
    *message = (struct rawe_message){
        .send = {.tag = (uint8_t)tag, .pieces[0] = {payload, len_bytes}, .piece_count = 1},
        .complete = completed,
        .release = released,
        .own = payload,
    };
    result = rawe_peer_send(&to->peer, message);
    if (result == RAWE_PEER_COMPLETE && !message->completed_early) {
        released(message);
    } else if (result != RAWE_PEER_COMPLETE && result != RAWE_PEER_QUEUED) {
        net_fail("messages are taken", "n%u to n%u", to->rank->index, to->index);
    }
}

void cluster_traffic_put(struct cluster_peer *to, uint32_t len_bytes)
{
    send_message(to, TAG_STEP, len_bytes);
}

/* ---- from start to arrival ---- */

/** Remove a message that has arrived from the sender's list, and count it. */
static void arrived(struct cluster_peer *from, struct cluster_message *message);

/** Return the sender's peer object for us, which lists its messages to us. */
static struct cluster_peer *sender_of(const struct cluster_peer *from)
{
    const struct cluster_rank *rank = from->rank;
    return cluster_rank_peer(&rank->cluster->ranks[from->index], rank->index);
}

/** Find the oldest message not yet announced, or the oldest eager message of this size. */
static struct cluster_message *find_message(const struct cluster_peer *from, bool announced,
                                            uint32_t size_bytes)
{
    struct cluster_message *message = sender_of(from)->messages;

    while (announced ? message->announced || message->size_bytes <= EAGER_BYTES_MAX
                     : message->size_bytes != size_bytes) {
        message = message->next;
    }
    return message;
}

struct get {
    struct rawe_operation operation; /* first */
    struct cluster_peer *from;
    struct cluster_message *message;
};

static void get_done(struct rawe_operation *operation, enum rawe_status status)
{
    struct get *get = (struct get *)operation;

    if (status == RAWE_STATUS_DONE) {
        send_message(get->from, TAG_FIN, CONTROL_BYTES);
        arrived(get->from, get->message);
    }
    net_delete(get);
}

static void get_message(struct cluster_peer *from)
{
    const struct cluster *cluster = from->rank->cluster;
    const struct cluster_rank *source = &cluster->ranks[from->index];
    struct get *get = net_new(sizeof(*get));
    struct cluster_message *message = find_message(from, true, 0);

    message->announced = true;
    *get = (struct get){
        .operation = {.done = get_done,
                      .kind = RAWE_FRAGMENT_GET,
                      .handle_index = source->payload_index,
                      .handle_key = source->payload_key,
                      .len_bytes = message->size_bytes,
                      .local = cluster->sink},
        .from = from,
        .message = message,
    };
    if (!rawe_balance_operate(&from->peer, &get->operation)) {
        net_fail("messages are taken", "a GET of n%u from n%u", from->rank->index, from->index);
    }
}

static void start_message(struct cluster_peer *to, uint32_t size_bytes, uint64_t began_ns)
{
    struct cluster_traffic *traffic = &to->rank->cluster->traffic;
    struct cluster_message *message = net_new(sizeof(*message));

    *message = (struct cluster_message){.began_ns = began_ns, .size_bytes = size_bytes};
    *to->messages_tail = message;
    to->messages_tail = &message->next;
    traffic->begun_bytes += size_bytes;
    if (size_bytes <= EAGER_BYTES_MAX) {
        send_message(to, TAG_EAGER, size_bytes);
    } else {
        send_message(to, TAG_RTS, CONTROL_BYTES);
    }
}

/* ---- starts ---- */

/** Let pair.from send a message to pair.to when it next wakes, at `at_ns` at the latest. */
static void make_due(struct cluster *cluster, struct cluster_pair pair, uint64_t at_ns)
{
    struct cluster_rank *rank = &cluster->ranks[pair.from];
    struct cluster_peer *peer = cluster_rank_peer(rank, pair.to);

    cluster->traffic.begun++;
    if (peer->due++ == 0) {
        peer->next_due = NULL;
        *rank->due_tail = peer;
        rank->due_tail = &peer->next_due;
    }
    cluster_rank_wake_by(rank, at_ns);
}

/** Send a ping to host 0, or with W3 and W4, to each of the other hosts in turn. */
static void send_ping(struct cluster_rank *rank)
{
    struct cluster_traffic *traffic = &rank->cluster->traffic;
    uint32_t to = cluster_plan_is_workload(&rank->cluster->plan)
                      ? traffic->pings++ % cluster_plan_senders(&rank->cluster->plan)
                      : 0;

    traffic->ping_ns = rank->cluster->now_ns;
    send_message(cluster_rank_peer(rank, to), TAG_PING, PING_BYTES);
}

/** W3, W4: start a message to a random rank on another host. */
static void start_random(struct cluster_rank *rank)
{
    const struct cluster_plan *plan = &rank->cluster->plan;
    uint32_t senders = cluster_plan_senders(plan);
    const struct cluster_workload_size *sizes;
    uint32_t next_host = plan->ranks - rank->index % plan->ranks;
    uint32_t to =
        rank->index + next_host + (uint32_t)sim_random_below(&rank->random, senders - plan->ranks);
    unsigned size = cluster_workload_draw(plan->pattern, &rank->random);
    double part = (double)sim_random_between(&rank->random, 1, 1u << 30) / (1u << 30);

    (void)cluster_workload_sizes(plan->pattern, &sizes);
    start_message(cluster_rank_peer(rank, to % senders), sizes[size].bytes, rank->next_ns);
    rank->next_ns += (uint64_t)(-log(part) * cluster_workload_interval_ns(plan));
}

void cluster_traffic_start(struct cluster_rank *rank)
{
    struct cluster *cluster = rank->cluster;
    struct cluster_peer *peer = rank->due;

    rank->due = NULL;
    rank->due_tail = &rank->due;
    for (; peer != NULL; peer = peer->next_due) {
        for (; peer->due != 0; peer->due--) {
            start_message(peer, cluster->traffic.size_bytes, cluster->now_ns);
        }
    }
    while (rank->next_ns <= cluster->now_ns) {
        start_random(rank);
    }
    if (rank->index == cluster->traffic.pinger) {
        cluster->traffic.pinger = UINT32_MAX;
        send_ping(rank);
    }
}

/** W3, W4: record a message's slowdown. */
static void sample_slowdown(struct cluster_traffic *traffic, const struct cluster_plan *plan,
                            uint32_t size_bytes, uint64_t time_ns)
{
    const struct cluster_workload_size *sizes;
    enum cluster_class class = size_bytes > EAGER_BYTES_MAX   ? CLUSTER_LONG
                               : size_bytes > plan->mtu_bytes ? CLUSTER_EAGER
                                                              : CLUSTER_SHORT;
    unsigned i = 0;

    (void)cluster_workload_sizes(plan->pattern, &sizes);
    while (sizes[i].bytes != size_bytes) {
        i++;
    }
    if (traffic->unloaded_ns[i] != 0) {
        cluster_samples_add(&traffic->slowdowns[class], 1000 * time_ns / traffic->unloaded_ns[i]);
    }
}

static void arrived(struct cluster_peer *from, struct cluster_message *message)
{
    struct cluster *cluster = from->rank->cluster;
    struct cluster_traffic *traffic = &cluster->traffic;
    struct cluster_peer *sender = sender_of(from);
    struct cluster_message **at = &sender->messages;
    uint64_t time_ns = cluster->now_ns - message->began_ns;

    while (*at != message) {
        at = &(*at)->next;
    }
    *at = message->next;
    if (*at == NULL) {
        sender->messages_tail = at;
    }
    traffic->delivered++;
    cluster_samples_add(&traffic->times_ns, time_ns);
    if (cluster_plan_is_workload(&cluster->plan)) {
        sample_slowdown(traffic, &cluster->plan, message->size_bytes, time_ns);
    } else if (traffic->endless) {
        make_due(cluster, (struct cluster_pair){from->index, from->rank->index}, cluster->now_ns);
    } else if (traffic->started < traffic->pair_count) {
        make_due(cluster, traffic->pairs[traffic->started++], cluster->now_ns);
    }
    net_delete(message);
}

void cluster_traffic_deliver(struct cluster_peer *from, uint8_t tag, uint32_t len_bytes)
{
    struct cluster *cluster = from->rank->cluster;
    struct cluster_traffic *traffic = &cluster->traffic;

    switch ((enum tag)tag) {
    case TAG_RTS:
        get_message(from);
        break;
    case TAG_FIN:
        break;
    case TAG_EAGER:
        arrived(from, find_message(from, false, len_bytes));
        break;
    case TAG_STEP:
        cluster_collective_deliver(from);
        break;
    case TAG_PING:
        send_message(from, TAG_PONG, PING_BYTES);
        break;
    case TAG_PONG:
        cluster_samples_add(&traffic->ping_half_ns, (cluster->now_ns - traffic->ping_ns) / 2);
        send_ping(from->rank);
        break;
    }
}

void cluster_traffic_forget(struct cluster_peer *to)
{
    while (to->messages != NULL) {
        struct cluster_message *message = to->messages;
        to->messages = message->next;
        net_delete(message);
    }
}

void cluster_traffic_warm(struct cluster *cluster)
{
    if (cluster_plan_is_collective(&cluster->plan)) {
        cluster_collective_begin(cluster, 1);
        return;
    }
    cluster->traffic.started = 1;
    make_due(cluster, cluster->traffic.pairs[0], cluster->now_ns);
}

void cluster_traffic_send(struct cluster *cluster, struct cluster_pair pair, uint32_t size_bytes)
{
    cluster->traffic.size_bytes = size_bytes;
    make_due(cluster, pair, cluster->now_ns);
}

void cluster_traffic_ping(struct cluster *cluster)
{
    cluster->traffic.pinger = cluster_plan_senders(&cluster->plan);
    cluster_rank_wake_by(&cluster->ranks[cluster->traffic.pinger], cluster->now_ns);
}

void cluster_traffic_begin(struct cluster *cluster)
{
    const struct cluster_plan *plan = &cluster->plan;
    struct cluster_traffic *traffic = &cluster->traffic;
    struct sim_random random = sim_random_stream(plan->seed, CLUSTER_STREAM_BEGIN);

    if (cluster_plan_is_collective(plan)) {
        cluster_collective_begin(cluster, CLUSTER_COLLECTIVES);
        return;
    }
    traffic->started = traffic->pair_count;
    traffic->endless = plan->duration_ns != 0;
    for (uint32_t i = 0; i < traffic->pair_count; i++) {
        uint64_t late_ns = sim_random_below(&random, plan->host_ns + 1);
        cluster->ranks[traffic->pairs[i].to].receives = true;
        for (unsigned j = 0; j < (traffic->endless ? ENDLESS_MESSAGES : 1); j++) {
            make_due(cluster, traffic->pairs[i], cluster->now_ns + late_ns);
        }
    }
    for (uint32_t i = 0; cluster_plan_is_workload(plan) && i < cluster_plan_senders(plan); i++) {
        struct cluster_rank *rank = &cluster->ranks[i];
        rank->receives = true;
        rank->next_ns = cluster->now_ns +
                        sim_random_below(&random, (uint64_t)cluster_workload_interval_ns(plan));
        cluster_rank_wake_by(rank, rank->next_ns);
    }
}

bool cluster_traffic_done(const struct cluster *cluster)
{
    return cluster->traffic.delivered == cluster->traffic.begun;
}

void cluster_traffic_reset(struct cluster *cluster)
{
    struct cluster_traffic *traffic = &cluster->traffic;

    traffic->begun_bytes = 0;
    traffic->times_ns.count = traffic->ping_half_ns.count = 0;
    for (unsigned i = 0; i < CLUSTER_CLASSES; i++) {
        traffic->slowdowns[i].count = 0;
    }
}

/* ---- pairs ---- */

static void add_pair(struct cluster_traffic *traffic, uint32_t from, uint32_t to)
{
    traffic->pairs[traffic->pair_count++] = (struct cluster_pair){from, to};
}

/** Add pairs of the ranks with one number: a permutation without fixed points (Sattolo). */
static void permute(struct cluster_traffic *traffic, const struct cluster_plan *plan, uint32_t rank)
{
    struct sim_random random = sim_random_stream(plan->seed, CLUSTER_STREAM_PERMUTE + rank);
    struct cluster_pair *pairs = &traffic->pairs[traffic->pair_count];

    for (uint32_t i = 0; i < plan->hosts; i++) {
        add_pair(traffic, i * plan->ranks + rank, i * plan->ranks + rank);
    }
    for (uint32_t i = plan->hosts - 1; i > 0; i--) {
        uint32_t other = (uint32_t)sim_random_below(&random, i);
        uint32_t to = pairs[i].to;
        pairs[i].to = pairs[other].to;
        pairs[other].to = to;
    }
}

void cluster_traffic_init(struct cluster *cluster)
{
    const struct cluster_plan *plan = &cluster->plan;
    struct cluster_traffic *traffic = &cluster->traffic;
    uint32_t ranks = cluster_plan_ranks(plan);
    bool all = plan->pattern == CLUSTER_ALL_TO_ALL;

    *traffic = (struct cluster_traffic){
        .pairs = net_new((size_t)ranks * (all ? ranks : 1) * sizeof(struct cluster_pair)),
        .size_bytes = plan->size_bytes,
        .pinger = UINT32_MAX,
    };
    if (cluster_plan_is_workload(plan)) {
        return;
    }
    if (cluster_plan_is_collective(plan)) { /* ideally no link carries more than one message */
        add_pair(traffic, 0, 1);
        return;
    }
    if (plan->pattern == CLUSTER_PERMUTATION) {
        for (uint32_t i = 0; i < plan->ranks; i++) {
            permute(traffic, plan, i);
        }
        return;
    }
    for (uint32_t i = 0; i < cluster_plan_senders(plan); i++) {
        uint32_t like = i % plan->ranks; /* on host 0 */
        /* Each rank begins with its next neighbor, so that not all first send to one rank. */
        for (uint32_t j = 1; all && j < ranks; j++) {
            if (i / plan->ranks != (i + j) % ranks / plan->ranks) {
                add_pair(traffic, i, (i + j) % ranks);
            }
        }
        if (!all && i != like) {
            bool out = plan->pattern == CLUSTER_OUTCAST;
            add_pair(traffic, out ? like : i, out ? i : like);
        }
    }
}

void cluster_traffic_free(struct cluster *cluster)
{
    net_delete(cluster->traffic.pairs);
    cluster_samples_free(&cluster->traffic.times_ns);
    cluster_samples_free(&cluster->traffic.ping_half_ns);
    for (unsigned i = 0; i < CLUSTER_CLASSES; i++) {
        cluster_samples_free(&cluster->traffic.slowdowns[i]);
    }
}
