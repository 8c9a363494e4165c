/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Messages: see cluster_traffic.h.
 */
#include "cluster_traffic.h"

#include <string.h>

#include "cluster.h"
#include "net_harness.h"
#include "routes/rawe_balance.h"

/** btl_eager_limit, in which ob1's header of a message is included. */
#define EAGER_BYTES_MAX (64u * 1024u - 16u)
/** ob1's messages that announce and end a transfer. */
#define CONTROL_BYTES 64u
#define PING_BYTES 1024u

/** Streams of chance that are no rank's. */
enum { CLUSTER_STREAM_BEGIN = CLUSTER_HOSTS_MAX * CLUSTER_RANKS_MAX, CLUSTER_STREAM_PERMUTE };

enum tag { TAG_EAGER = 1, TAG_RTS, TAG_FIN, TAG_PING, TAG_PONG };

/* ---- one message ---- */

static void released(struct rawe_message *message)
{
    net_delete(message);
}

static void completed(struct rawe_message *message, enum rawe_status status)
{
    (void)status; /* fails at the end of a run without end */
    if (!message->completed_early) {
        released(message);
    }
}

/** As btl_sendi does, and btl_send where that does not take it. */
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

struct get {
    struct rawe_operation operation; /* first */
    struct cluster_peer *from;
};

static void arrived(struct cluster *cluster, struct cluster_pair pair);

static void get_done(struct rawe_operation *operation, enum rawe_status status)
{
    struct get *get = (struct get *)operation;
    struct cluster_rank *rank = get->from->rank;

    if (status == RAWE_STATUS_DONE) {
        send_message(get->from, TAG_FIN, CONTROL_BYTES);
        arrived(rank->cluster, (struct cluster_pair){get->from->index, rank->index});
    }
    net_delete(get);
}

static void get_message(struct cluster_peer *from)
{
    const struct cluster *cluster = from->rank->cluster;
    const struct cluster_rank *source = &cluster->ranks[from->index];
    struct get *get = net_new(sizeof(*get));

    *get = (struct get){
        .operation = {.done = get_done,
                      .kind = RAWE_FRAGMENT_GET,
                      .handle_index = source->payload_index,
                      .handle_key = source->payload_key,
                      .len_bytes = cluster->plan.size_bytes,
                      .local = cluster->sink},
        .from = from,
    };
    if (!rawe_balance_operate(&from->peer, &get->operation)) {
        net_fail("messages are taken", "a GET of n%u from n%u", from->rank->index, from->index);
    }
}

/* ---- who sends when ---- */

/** `from` sends a message to `to` as soon as its program comes to it. */
static void make_due(struct cluster *cluster, struct cluster_pair pair, uint64_t at_ns)
{
    struct cluster_rank *rank = &cluster->ranks[pair.from];

    struct cluster_peer *peer = cluster_rank_peer(rank, pair.to);

    peer->next_due = NULL;
    *rank->due_tail = peer;
    rank->due_tail = &peer->next_due;
    cluster_rank_wake_by(rank, at_ns);
}

static void start_message(struct cluster_peer *to)
{
    const struct cluster *cluster = to->rank->cluster;
    uint32_t size_bytes = cluster->plan.size_bytes;

    to->started_ns = cluster->now_ns;
    if (size_bytes <= EAGER_BYTES_MAX) {
        send_message(to, TAG_EAGER, size_bytes);
    } else {
        send_message(to, TAG_RTS, CONTROL_BYTES);
    }
}

static void send_ping(struct cluster_rank *rank)
{
    rank->cluster->traffic.ping_ns = rank->cluster->now_ns;
    send_message(cluster_rank_peer(rank, 0), TAG_PING, PING_BYTES);
}

void cluster_traffic_start(struct cluster_rank *rank)
{
    struct cluster *cluster = rank->cluster;
    struct cluster_peer *peer = rank->due;

    rank->due = NULL;
    rank->due_tail = &rank->due;
    for (; peer != NULL; peer = peer->next_due) {
        start_message(peer);
    }
    if (rank->index == cluster->traffic.pinger) {
        cluster->traffic.pinger = UINT32_MAX;
        send_ping(rank);
    }
}

/** A message has arrived. */
static void arrived(struct cluster *cluster, struct cluster_pair pair)
{
    struct cluster_traffic *traffic = &cluster->traffic;
    uint64_t began_ns = cluster_rank_peer(&cluster->ranks[pair.from], pair.to)->started_ns;

    traffic->delivered++;
    cluster_samples_add(&traffic->times_ns, cluster->now_ns - began_ns);
    if (!traffic->warming) {
        if (cluster->plan.pattern == CLUSTER_STREAMS) {
            make_due(cluster, pair, cluster->now_ns);
        }
    } else if (traffic->started < traffic->pair_count) {
        make_due(cluster, traffic->pairs[traffic->started++], cluster->now_ns);
    }
}

void cluster_traffic_deliver(struct cluster_peer *from, uint8_t tag)
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
        arrived(cluster, (struct cluster_pair){from->index, from->rank->index});
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

void cluster_traffic_warm(struct cluster *cluster)
{
    struct cluster_traffic *traffic = &cluster->traffic;

    traffic->warming = true;
    traffic->started = 1;
    make_due(cluster, traffic->pairs[0], cluster->now_ns);
}

void cluster_traffic_begin(struct cluster *cluster)
{
    struct cluster_traffic *traffic = &cluster->traffic;
    struct sim_random random = sim_random_stream(cluster->plan.seed, CLUSTER_STREAM_BEGIN);

    traffic->warming = false;
    traffic->started = traffic->pair_count;
    traffic->delivered = 0;
    traffic->times_ns.count = 0;
    for (uint32_t i = 0; i < traffic->pair_count; i++) {
        uint64_t late_ns = sim_random_below(&random, cluster->plan.host_ns + 1);
        make_due(cluster, traffic->pairs[i], cluster->now_ns + late_ns);
    }
    if (cluster->plan.pings) {
        traffic->pinger = cluster_plan_pinger(&cluster->plan);
        cluster_rank_wake_by(&cluster->ranks[traffic->pinger], cluster->now_ns);
    }
}

bool cluster_traffic_done(const struct cluster *cluster)
{
    const struct cluster_traffic *traffic = &cluster->traffic;
    bool endless = cluster->plan.pattern == CLUSTER_STREAMS && !traffic->warming;
    return !endless && traffic->delivered == traffic->pair_count;
}

/* ---- who sends to whom ---- */

static void add_pair(struct cluster_traffic *traffic, uint32_t from, uint32_t to)
{
    traffic->pairs[traffic->pair_count++] = (struct cluster_pair){from, to};
}

/** Ranks with the same number on their hosts: a permutation without fixed points (Sattolo). */
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
        .pinger = UINT32_MAX,
    };
    if (plan->pattern == CLUSTER_PERMUTATION) {
        for (uint32_t i = 0; i < plan->ranks; i++) {
            permute(traffic, plan, i);
        }
        return;
    }
    for (uint32_t i = 0; i < ranks && i < cluster_plan_pinger(plan); i++) {
        uint32_t like = i % plan->ranks; /* on host 0 */
        /* Each begins with its next neighbor, so that not all send to the same one first. */
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

uint32_t cluster_traffic_busiest(const struct cluster *cluster)
{
    const struct cluster_traffic *traffic = &cluster->traffic;
    uint32_t *messages = net_new(cluster->net.link_count * sizeof(*messages));
    uint32_t path[CLUSTER_PATH_LINKS_MAX], most = 0;

    memset(messages, 0, cluster->net.link_count * sizeof(*messages));
    for (uint32_t i = 0; i < traffic->pair_count; i++) {
        unsigned links =
            cluster_net_path(&cluster->plan, traffic->pairs[i].from, traffic->pairs[i].to,
                             cluster_plan_in_batches(&cluster->plan), path);
        for (unsigned j = 0; j < links; j++) {
            messages[path[j]]++;
            most = messages[path[j]] > most ? messages[path[j]] : most;
        }
    }
    net_delete(messages);
    return most;
}

void cluster_traffic_free(struct cluster *cluster)
{
    net_delete(cluster->traffic.pairs);
    cluster_samples_free(&cluster->traffic.times_ns);
    cluster_samples_free(&cluster->traffic.ping_half_ns);
}
