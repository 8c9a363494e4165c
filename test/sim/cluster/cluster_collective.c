/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Collectives: see cluster.h.
 */
#include "cluster.h"

#include <string.h>

#include "net_harness.h"

/** Number of messages into which a tree divides a bcast. */
#define SEGMENT_BYTES (64u * 1024u)

/** Window of btl_rawe_multicast.c with batches and MTU 1500. */
#define WINDOW_FRAMES 256u

/** Start the next collective, which each rank enters after a random delay. */
static void begin(struct cluster *cluster)
{
    struct cluster_collective *collective = &cluster->collective;

    collective->began_ns = cluster->now_ns;
    collective->finished = 0;
    for (uint32_t i = 0; i < cluster->plan.hosts; i++) {
        struct cluster_part *part = &cluster->ranks[i].part;
        part->came = part->passed = part->rounds = 0;
        part->due = true;
        cluster_rank_wake_by(&cluster->ranks[i],
                             cluster->now_ns +
                                 sim_random_below(&collective->random, cluster->plan.host_ns + 1));
    }
}

/** Record that a rank has finished; the last one starts the next collective. */
static void finish(struct cluster_rank *rank)
{
    struct cluster *cluster = rank->cluster;
    struct cluster_collective *collective = &cluster->collective;
    struct cluster_traffic *traffic = &cluster->traffic;

    rank->part.entered = false;
    if (++collective->finished == cluster->plan.hosts) {
        cluster_samples_add(&traffic->times_ns, cluster->now_ns - collective->began_ns);
        if (++traffic->delivered != traffic->begun) {
            begin(cluster);
        }
    }
}

/* ---- by messages ---- */

static void send_to(struct cluster_rank *rank, uint32_t to, uint32_t len_bytes)
{
    cluster_traffic_put(cluster_rank_peer(rank, to), len_bytes);
}

static void send_segment(struct cluster_rank *rank, uint32_t to, uint32_t segment)
{
    uint32_t left_bytes = rank->cluster->plan.size_bytes - segment * SEGMENT_BYTES;

    if (to < rank->cluster->plan.hosts) {
        send_to(rank, to, left_bytes < SEGMENT_BYTES ? left_bytes : SEGMENT_BYTES);
    }
}

/**
 * Send a segment to the rank's children; in a binomial tree, first to those with most descendants.
 */
static void pass_segment(struct cluster_rank *rank, uint32_t segment)
{
    const struct cluster_plan *plan = &rank->cluster->plan;
    uint32_t self = rank->index, bit = 1;

    if (plan->fan_out != 0) {
        for (uint32_t i = 1; i <= plan->fan_out; i++) {
            send_segment(rank, plan->fan_out * self + i, segment);
        }
        return;
    }
    while (bit < plan->hosts && (self & bit) == 0) {
        bit *= 2;
    }
    while ((bit /= 2) != 0) {
        send_segment(rank, self | bit, segment);
    }
}

static void bcast_by_messages(struct cluster_rank *rank)
{
    struct cluster_part *part = &rank->part;
    const uint32_t count = (rank->cluster->plan.size_bytes + SEGMENT_BYTES - 1) / SEGMENT_BYTES;

    part->came = rank->index == 0 ? count : part->came;
    while (part->passed < part->came) {
        pass_segment(rank, part->passed++);
    }
    if (part->came == count) {
        finish(rank);
    }
}

static void allreduce_by_messages(struct cluster_rank *rank)
{
    const struct cluster_plan *plan = &rank->cluster->plan;
    struct cluster_part *part = &rank->part;

    for (;;) {
        const uint32_t distance = 1u << part->passed;
        if (part->passed != 0 && (part->rounds & distance / 2) == 0) {
            return;
        }
        if (distance >= plan->hosts) {
            finish(rank);
            return;
        }
        part->passed++;
        send_to(rank, (rank->index + distance) % plan->hosts, plan->size_bytes);
    }
}

/* ---- by multicast ---- */

static void sent(struct rawe_group_send *send)
{
    (void)send;
}

static void multicast_message(struct cluster_rank *rank)
{
    struct cluster *cluster = rank->cluster;

    rank->part.send = (struct rawe_group_send){
        .done = sent, .data = cluster->payload, .len_bytes = cluster->plan.size_bytes};
    if (!rawe_group_send(&rank->part.group, &rank->part.send, cluster->now_ns)) {
        net_fail("messages are taken", "n%u multicasts", rank->index);
    }
    finish(rank);
}

static bool deliver(void *context, const struct rawe_group_part *part)
{
    struct cluster_rank *rank = context;

    if (!rank->part.entered) {
        return false;
    }
    if (part->at_bytes + part->len_bytes == part->total_bytes) {
        finish(rank);
    }
    return true;
}

static bool multicast(void *context, const struct rawe_bytes *bytes)
{
    struct cluster_rank *rank = context;
    uint32_t len_bytes = RAWE_ETH_HEADER_BYTES + (uint32_t)bytes->len_bytes;
    struct cluster_frame *frame = cluster_frame_new(rank->index, CLUSTER_ALL, len_bytes, len_bytes);

    memcpy(frame->bytes + RAWE_ETH_HEADER_BYTES, bytes->base, bytes->len_bytes);
    frame->group = true;
    cluster_net_send(&rank->cluster->net, frame, cluster_rank_spend(rank));
    return true;
}

static bool send_control(void *context, uint32_t to, const uint8_t *bytes, size_t len_bytes)
{
    struct rawe_peer *peer = &cluster_rank_peer(context, to)->peer;

    if (!rawe_peer_send_control(peer, 0, bytes, len_bytes)) {
        net_fail("control messages are taken", "n%u sends one", to);
    }
    return true;
}

void cluster_collective_receive(struct cluster_rank *rank, const uint8_t *bytes, size_t len_bytes)
{
    struct rawe_group_header header;
    const uint8_t *payload = rawe_group_read(&header, bytes, len_bytes, &rank->part.counters);

    if (payload != NULL) {
        rawe_group_receive(&rank->part.group, &header, payload, rank->cluster->now_ns);
    }
}

void cluster_collective_control(struct cluster_peer *from, const uint8_t *bytes, size_t len_bytes)
{
    rawe_group_receive_control(&from->rank->part.group, from->index, bytes, len_bytes,
                               from->rank->cluster->now_ns);
}

void cluster_collective_init(struct cluster_rank *rank)
{
    const struct cluster_plan *plan = &rank->cluster->plan;
    const struct rawe_group_config config = {
        .id = plan->seed,
        .members = plan->hosts,
        .self = rank->index,
        .payload_bytes = plan->mtu_bytes - RAWE_GROUP_HEADER_BYTES - RAWE_CHECKSUM_BYTES,
        .window_frames = WINDOW_FRAMES,
        .deliver = deliver,
        .context = rank,
        .output = {.multicast = multicast, .control = send_control, .context = rank},
        .counters = &rank->part.counters,
    };

    rawe_group_init(&rank->part.group, &config);
}

/* ---- both ---- */

/** Take all steps of a rank's collective that are possible now. */
static void proceed(struct cluster_rank *rank)
{
    const struct cluster_plan *plan = &rank->cluster->plan;
    struct cluster_part *part = &rank->part;

    if (!part->entered) {
        return;
    }
    if (!plan->multicast) {
        (plan->pattern == CLUSTER_BCAST ? bcast_by_messages : allreduce_by_messages)(rank);
    } else if (rank->index != 0) {
        if (plan->pattern == CLUSTER_ALLREDUCE && part->passed == 0) {
            part->passed = 1;
            send_to(rank, 0, plan->size_bytes);
        }
    } else if (plan->pattern == CLUSTER_BCAST || part->came == plan->hosts - 1) {
        multicast_message(rank);
    }
}

void cluster_collective_deliver(struct cluster_peer *from)
{
    struct cluster_rank *rank = from->rank;
    const uint32_t hosts = rank->cluster->plan.hosts;
    const uint32_t distance = (rank->index + hosts - from->index) % hosts;

    rank->part.came++;
    rank->part.rounds |= distance; /* in an allreduce by messages, a power of two */
    proceed(rank);
}

void cluster_collective_begin(struct cluster *cluster, uint32_t count)
{
    cluster->traffic.begun += count;
    begin(cluster);
}

void cluster_collective_start(struct cluster_rank *rank)
{
    if (rank->part.due) {
        rank->part.due = false;
        rank->part.entered = true;
        proceed(rank);
    }
}
