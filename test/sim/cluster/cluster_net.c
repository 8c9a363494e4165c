/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Links and switches: see cluster.h.
 */
#include "cluster.h"

#include <string.h>

#include "net_harness.h"

struct cluster_frame *cluster_frame_new(uint32_t from, uint32_t to, uint32_t len_bytes,
                                        uint32_t bytes_count)
{
    struct cluster_frame *frame = net_new(offsetof(struct cluster_frame, bytes) + bytes_count);

    *frame = (struct cluster_frame){.from = from, .to = to, .len_bytes = len_bytes};
    return frame;
}

void cluster_frame_free(struct cluster_frame *frame)
{
    net_delete(frame);
}

static uint32_t wire_bytes(const struct cluster_frame *frame)
{
    return cluster_plan_wire_bytes(frame->len_bytes, frame->batch);
}

/*
 * Numbers of links: hosts to leaves, leaves to hosts, leaves to spines (by leaf, then spine),
 * spines to leaves (by spine, then leaf).
 */

static uint32_t link_to_host(const struct cluster_plan *plan, uint32_t rank)
{
    return plan->hosts + rank / plan->ranks;
}

static uint32_t link_to_spine(const struct cluster_plan *plan, uint32_t leaf, uint32_t spine)
{
    return 2 * plan->hosts + leaf * plan->spines + spine;
}

static uint32_t link_to_leaf(const struct cluster_plan *plan, uint32_t spine, uint32_t leaf)
{
    uint32_t leaf_count = cluster_plan_leaf_count(plan);
    return 2 * plan->hosts + leaf_count * plan->spines + spine * leaf_count + leaf;
}

/** Return the spine for a connection's frames; frames with a batch header hash differently. */
static uint32_t hash_spine(const struct cluster_plan *plan, uint32_t from, uint32_t to, bool batch)
{
    struct sim_random hash =
        sim_random_stream(plan->seed, (uint64_t)from << 32 | (uint64_t)to << 1 | batch);
    return (uint32_t)sim_random_below(&hash, plan->spines);
}

/** Return the link that a frame takes after link `at`. */
static uint32_t next_link(const struct cluster_plan *plan, const struct cluster_frame *frame,
                          uint32_t at)
{
    uint32_t leaf_ranks = plan->leaf_hosts * plan->ranks;
    uint32_t from_leaf = frame->from / leaf_ranks, to_leaf = frame->to / leaf_ranks;

    if (from_leaf == to_leaf || at >= link_to_leaf(plan, 0, 0)) {
        return link_to_host(plan, frame->to);
    }
    return at < plan->hosts
               ? link_to_spine(plan, from_leaf, frame->spine)
               : link_to_leaf(plan, (at - link_to_spine(plan, 0, 0)) % plan->spines, to_leaf);
}

/** Return the switch to which a port belongs. */
static uint32_t switch_of(const struct cluster_plan *plan, uint32_t port)
{
    if (port < link_to_spine(plan, 0, 0)) {
        return (port - plan->hosts) / plan->leaf_hosts;
    }
    uint32_t leaf_count = cluster_plan_leaf_count(plan);
    return port < link_to_leaf(plan, 0, 0)
               ? (port - link_to_spine(plan, 0, 0)) / plan->spines
               : leaf_count + (port - link_to_leaf(plan, 0, 0)) / leaf_count;
}

double cluster_net_capacity(const struct cluster_plan *plan, uint32_t link)
{
    return plan->sprays && link >= link_to_spine(plan, 0, 0) ? plan->spines : 1;
}

unsigned cluster_net_path(const struct cluster_plan *plan, uint32_t from, uint32_t to, bool batch,
                          uint32_t links[CLUSTER_PATH_LINKS_MAX])
{
    const struct cluster_frame frame = {
        .from = from,
        .to = to,
        .spine = plan->sprays ? 0 : hash_spine(plan, from, to, batch),
    };
    unsigned count = 1;

    links[0] = from / plan->ranks;
    while (links[count - 1] != link_to_host(plan, to)) {
        links[count] = next_link(plan, &frame, links[count - 1]);
        count++;
    }
    return count;
}

static struct cluster_fifo *fifos_new(uint32_t count)
{
    struct cluster_fifo *queues = net_new(count * sizeof(*queues));

    for (uint32_t i = 0; i < count; i++) {
        STAILQ_INIT(&queues[i]);
    }
    return queues;
}

static struct cluster_frame *fifo_take(struct cluster_fifo *queue)
{
    struct cluster_frame *frame = STAILQ_FIRST(queue);

    if (frame != NULL) {
        STAILQ_REMOVE_HEAD(queue, next);
    }
    return frame;
}

static void fifos_free(struct cluster_fifo *queues, uint32_t count)
{
    struct cluster_frame *frame;

    for (uint32_t i = 0; i < count; i++) {
        while ((frame = fifo_take(&queues[i])) != NULL) {
            cluster_frame_free(frame);
        }
    }
    net_delete(queues);
}

void cluster_net_init(struct cluster_net *net, const struct cluster_plan *plan,
                      struct sim_events *events)
{
    uint32_t links = link_to_leaf(plan, plan->spines, 0), ranks = cluster_plan_ranks(plan);
    uint32_t switches = cluster_plan_leaf_count(plan) + plan->spines;

    *net = (struct cluster_net){
        .plan = plan,
        .events = events,
        .link_count = links,
        .waiting = fifos_new(links),
        .arriving = fifos_new(ranks),
        .free_ps = net_zeroed(links * sizeof(*net->free_ps)),
        .nic_bytes = net_zeroed(ranks * sizeof(*net->nic_bytes)),
        .shared_bytes = net_zeroed(switches * sizeof(*net->shared_bytes)),
        .random = sim_random_stream(plan->seed, CLUSTER_STREAM_SPRAY),
    };
}

void cluster_net_free(struct cluster_net *net)
{
    fifos_free(net->waiting, net->link_count);
    fifos_free(net->arriving, cluster_plan_ranks(net->plan));
    net_delete(net->free_ps);
    net_delete(net->nic_bytes);
    net_delete(net->shared_bytes);
}

/** Plan the event at which a link's first frame reaches the switch. */
static void expect_at_switch(struct cluster_net *net, uint32_t link)
{
    sim_events_push(net->events,
                    (struct sim_event){.at_ns = STAILQ_FIRST(&net->waiting[link])->at_ns,
                                       .kind = CLUSTER_EVENT_SWITCH,
                                       .node = link});
}

/** Append a frame to a link's queue. */
static void link_put(struct cluster_net *net, uint32_t link, struct cluster_frame *frame,
                     uint64_t now_ns)
{
    bool last = frame->to != CLUSTER_ALL && link == link_to_host(net->plan, frame->to);
    struct cluster_fifo *queue = last ? &net->arriving[frame->to] : &net->waiting[link];
    uint64_t *free_ps = &net->free_ps[link];
    uint64_t begin_ps = *free_ps > now_ns * 1000 ? *free_ps : now_ns * 1000;
    bool first = STAILQ_EMPTY(queue);

    *free_ps = begin_ps + cluster_plan_transmit_ps(net->plan, wire_bytes(frame));
    frame->at_ns = (*free_ps + 999) / 1000 + net->plan->wire_ns;
    STAILQ_INSERT_TAIL(queue, frame, next);
    if (first && !last) {
        expect_at_switch(net, link);
    }
}

/** Bytes that a NIC takes from the qdisc before it can send them (byte queue limits). */
#define NIC_BYTES 64000u

/**
 * Insert a short frame ahead of the batches' frames in a host's queueing discipline. Returns false
 * if no such frames are queued.
 */
static bool link_put_first(struct cluster_net *net, uint32_t link, struct cluster_frame *frame,
                           uint64_t now_ns)
{
    const struct cluster_plan *plan = net->plan;
    uint64_t taken_ns = now_ns + plan->wire_ns + cluster_plan_transmit_ps(plan, NIC_BYTES) / 1000;
    struct cluster_frame *before = NULL, *behind = STAILQ_FIRST(&net->waiting[link]);

    while (behind != NULL && (behind->at_ns <= taken_ns || !behind->batch)) {
        before = behind;
        behind = STAILQ_NEXT(behind, next);
    }
    if (behind == NULL) {
        return false;
    }
    uint64_t own_ps = cluster_plan_transmit_ps(plan, wire_bytes(frame));
    uint64_t behind_ps = cluster_plan_transmit_ps(plan, wire_bytes(behind));
    frame->at_ns = behind->at_ns - behind_ps / 1000 + own_ps / 1000;
    if (before != NULL) {
        STAILQ_INSERT_AFTER(&net->waiting[link], before, frame, next);
    } else {
        STAILQ_INSERT_HEAD(&net->waiting[link], frame, next);
    }
    net->free_ps[link] += own_ps;
    for (; behind != NULL; behind = STAILQ_NEXT(behind, next)) {
        behind->at_ns += own_ps / 1000;
    }
    return true;
}

void cluster_net_send(struct cluster_net *net, struct cluster_frame *frame, uint64_t now_ns)
{
    const struct cluster_plan *plan = net->plan;

    net->nic_bytes[frame->from][frame->batch] += wire_bytes(frame);
    if (plan->spines > 1) {
        frame->spine = plan->sprays ? (uint32_t)sim_random_below(&net->random, plan->spines)
                                    : hash_spine(plan, frame->from, frame->to, frame->batch);
    }
    uint32_t link = frame->from / plan->ranks;
    if (!plan->express_first || frame->batch || !link_put_first(net, link, frame, now_ns)) {
        link_put(net, link, frame, now_ns);
    }
}

/** Return and record the queue length in bytes that an arriving frame finds at a port. */
static uint64_t queue_sample(struct cluster_net *net, uint32_t port, uint64_t now_ns)
{
    struct cluster_queues *queues = &net->queues;
    uint64_t now_ps = now_ns * 1000, free_ps = net->free_ps[port];
    uint64_t bytes = free_ps <= now_ps ? 0 : (free_ps - now_ps) * net->plan->rate_mbps / 8000000;

    queues->frames++;
    queues->bins[bytes * CLUSTER_QUEUE_BINS / (net->plan->port_bytes + 1)]++;
    return bytes;
}

/**
 * Return true if a port has room for a queue of `bytes`. Each port has its own limit. If the switch
 * has a shared buffer, a port may use as much of it as is free (dynamic thresholds, Choudhury and
 * Hahne 1998, alpha 1).
 */
static bool has_room(const struct cluster_net *net, uint32_t port, uint64_t bytes)
{
    const struct cluster_plan *plan = net->plan;
    uint64_t used_bytes = net->shared_bytes[switch_of(plan, port)];

    return bytes <= plan->port_bytes &&
           (plan->shared_bytes == 0 || bytes + used_bytes <= plan->shared_bytes);
}

/** Charge a frame to the shared buffer until the port's link has transmitted it. */
static void share(struct cluster_net *net, uint32_t port, uint32_t bytes)
{
    uint32_t number = switch_of(net->plan, port);

    net->shared_bytes[number] += bytes;
    sim_events_push(net->events, (struct sim_event){.at_ns = (net->free_ps[port] + 999) / 1000,
                                                    .kind = CLUSTER_EVENT_LEFT,
                                                    .node = number,
                                                    .value = bytes});
}

/**
 * Put a frame into a port's queue and take ownership of it. Returns the destination rank if this is
 * the frame's last link, else CLUSTER_NONE.
 */
static uint32_t port_put(struct cluster_net *net, uint32_t port, struct cluster_frame *frame,
                         uint64_t now_ns)
{
    const struct cluster_plan *plan = net->plan;
    bool last = port < link_to_spine(plan, 0, 0);
    uint64_t bytes = queue_sample(net, port, now_ns) + wire_bytes(frame);
    uint32_t to = frame->to;

    if (!has_room(net, port, bytes) ||
        (last && plan->loss_ppm != 0 && sim_random_chance(&net->random, plan->loss_ppm))) {
        net->queues.dropped++;
        cluster_frame_free(frame);
        return CLUSTER_NONE;
    }
    net->queues.most_bytes = bytes > net->queues.most_bytes ? bytes : net->queues.most_bytes;
    link_put(net, port, frame, now_ns);
    if (plan->shared_bytes != 0) {
        share(net, port, wire_bytes(frame));
    }
    return last ? to : CLUSTER_NONE;
}

/** Put a copy of a multicast frame into a port's queue. */
static void copy_put(struct cluster_net *net, uint32_t port, const struct cluster_frame *frame,
                     uint64_t now_ns)
{
    bool last = port < link_to_spine(net->plan, 0, 0);
    struct cluster_frame *copy =
        cluster_frame_new(frame->from, last ? port - net->plan->hosts : CLUSTER_ALL,
                          frame->len_bytes, frame->len_bytes);

    memcpy(copy->bytes, frame->bytes, frame->len_bytes);
    copy->spine = frame->spine;
    copy->group = frame->group;
    (void)port_put(net, port, copy, now_ns);
}

/** Forward a multicast frame: a leaf sends it to its hosts and one spine, a spine to all leaves. */
static void flood(struct cluster_net *net, uint32_t link, const struct cluster_frame *frame,
                  uint64_t now_ns)
{
    const struct cluster_plan *plan = net->plan;
    uint32_t leaf_count = cluster_plan_leaf_count(plan), from_leaf = frame->from / plan->leaf_hosts;
    uint32_t leaf = from_leaf;

    if (link >= plan->hosts && link < link_to_leaf(plan, 0, 0)) {
        for (uint32_t to = 0; to < leaf_count; to++) {
            if (to != from_leaf) {
                copy_put(net, link_to_leaf(plan, frame->spine, to), frame, now_ns);
            }
        }
        return;
    }
    if (link >= plan->hosts) {
        leaf = (link - link_to_leaf(plan, 0, 0)) % leaf_count;
    } else if (leaf_count > 1) {
        copy_put(net, link_to_spine(plan, leaf, frame->spine), frame, now_ns);
    }
    for (uint32_t host = leaf * plan->leaf_hosts;
         host < plan->hosts && host < (leaf + 1) * plan->leaf_hosts; host++) {
        if (host != frame->from) {
            copy_put(net, plan->hosts + host, frame, now_ns);
        }
    }
}

uint32_t cluster_net_forward(struct cluster_net *net, uint32_t link, uint64_t now_ns)
{
    struct cluster_frame *frame = fifo_take(&net->waiting[link]);

    if (!STAILQ_EMPTY(&net->waiting[link])) {
        expect_at_switch(net, link);
    }
    if (link < net->plan->hosts) {
        net->nic_bytes[frame->from][frame->batch] -= wire_bytes(frame);
    }
    if (frame->to != CLUSTER_ALL) {
        return port_put(net, next_link(net->plan, frame, link), frame, now_ns);
    }
    flood(net, link, frame, now_ns);
    cluster_frame_free(frame);
    return CLUSTER_ALL;
}

uint64_t cluster_net_arrival_ns(const struct cluster_net *net, uint32_t rank)
{
    const struct cluster_frame *first = STAILQ_FIRST(&net->arriving[rank]);
    return first != NULL ? first->at_ns : UINT64_MAX;
}

struct cluster_frame *cluster_net_take(struct cluster_net *net, uint32_t rank, uint64_t now_ns)
{
    return cluster_net_arrival_ns(net, rank) <= now_ns ? fifo_take(&net->arriving[rank]) : NULL;
}

uint64_t cluster_queues_p999_bytes(const struct cluster_queues *queues,
                                   const struct cluster_plan *plan)
{
    uint64_t below = 0;

    for (uint64_t bin = 0; bin < CLUSTER_QUEUE_BINS; bin++) {
        below += queues->bins[bin];
        if (below * 1000 >= queues->frames * 999) {
            uint64_t bytes = (bin + 1) * plan->port_bytes / CLUSTER_QUEUE_BINS;
            return bytes < queues->most_bytes ? bytes : queues->most_bytes;
        }
    }
    return 0;
}
