/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Links and switch: see cluster_net.h.
 */
#include "cluster_net.h"

#include <stddef.h>

#include "net_harness.h"
#include "sim_random.h"

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

/*
 * Numbers of links: hosts to leaves, leaves to hosts, leaves to spines (by leaf, then spine), spines to
 * leaves (by spine, then leaf).
 */

static uint32_t link_to_host(const struct cluster_plan *plan, uint32_t host)
{
    return plan->hosts + host;
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

/** The spine that all frames of a connection take; those with a batch header have other ports. */
static uint32_t choose_spine(const struct cluster_plan *plan, const struct cluster_frame *frame)
{
    struct sim_random hash = sim_random_stream(
        plan->seed, (uint64_t)frame->from << 32 | (uint64_t)frame->to << 1 | frame->batch);
    return (uint32_t)sim_random_below(&hash, plan->spines);
}

/** The link that a frame takes next, at the end of link `at`. */
static uint32_t next_link(const struct cluster_plan *plan, const struct cluster_frame *frame,
                          uint32_t at)
{
    uint32_t from_leaf = frame->from / plan->leaf_hosts, to_leaf = frame->to / plan->leaf_hosts;

    if (from_leaf == to_leaf || at >= link_to_leaf(plan, 0, 0)) {
        return link_to_host(plan, frame->to);
    }
    return at < plan->hosts
               ? link_to_spine(plan, from_leaf, choose_spine(plan, frame))
               : link_to_leaf(plan, (at - link_to_spine(plan, 0, 0)) % plan->spines, to_leaf);
}

unsigned cluster_net_path(const struct cluster_plan *plan, uint32_t from, uint32_t to, bool batch,
                          uint32_t links[CLUSTER_PATH_LINKS_MAX])
{
    const struct cluster_frame frame = {.from = from, .to = to, .batch = batch};
    unsigned count = 1;

    links[0] = from;
    while (links[count - 1] != link_to_host(plan, to)) {
        links[count] = next_link(plan, &frame, links[count - 1]);
        count++;
    }
    return count;
}

void cluster_net_init(struct cluster_net *net, const struct cluster_plan *plan,
                      struct sim_events *events)
{
    uint32_t count = link_to_leaf(plan, plan->spines, 0);

    *net = (struct cluster_net){
        .plan = plan,
        .events = events,
        .links = net_new(count * sizeof(*net->links)),
        .link_count = count,
    };
    for (uint32_t i = 0; i < count; i++) {
        net->links[i] = (struct cluster_link){.tail = &net->links[i].first};
    }
}

static struct cluster_frame *link_take(struct cluster_link *link)
{
    struct cluster_frame *frame = link->first;

    if (frame != NULL) {
        link->first = frame->next;
        if (link->first == NULL) {
            link->tail = &link->first;
        }
    }
    return frame;
}

void cluster_net_free(struct cluster_net *net)
{
    struct cluster_frame *frame;

    for (uint32_t i = 0; i < net->link_count; i++) {
        while ((frame = link_take(&net->links[i])) != NULL) {
            cluster_frame_free(frame);
        }
    }
    net_delete(net->links);
}

static uint64_t waiting_bytes(const struct cluster_net *net, const struct cluster_link *link,
                              uint64_t now_ns)
{
    uint64_t now_ps = now_ns * 1000;
    return link->free_ps <= now_ps ? 0 : (link->free_ps - now_ps) * net->plan->rate_mbps / 8000000;
}

/** The first frame on a link will come to the switch at its end, unless that is a host. */
static void expect_at_switch(struct cluster_net *net, uint32_t number)
{
    bool to_host = number >= link_to_host(net->plan, 0) && number < link_to_spine(net->plan, 0, 0);

    if (!to_host) {
        sim_events_push(net->events, (struct sim_event){.at_ns = net->links[number].first->at_ns,
                                                        .kind = CLUSTER_EVENT_SWITCH,
                                                        .node = number});
    }
}

/** Transmit a frame behind those that wait. */
static void link_put(struct cluster_net *net, uint32_t number, struct cluster_frame *frame,
                     uint64_t now_ns)
{
    struct cluster_link *link = &net->links[number];
    uint32_t wire_bytes = cluster_plan_wire_bytes(frame->len_bytes, frame->batch);
    uint64_t begin_ps = link->free_ps > now_ns * 1000 ? link->free_ps : now_ns * 1000;
    bool first = link->first == NULL;

    link->free_ps = begin_ps + cluster_plan_transmit_ps(net->plan, wire_bytes);
    frame->at_ns = (link->free_ps + 999) / 1000 + net->plan->wire_ns;
    frame->next = NULL;
    *link->tail = frame;
    link->tail = &frame->next;
    if (first) {
        expect_at_switch(net, number);
    }
}

uint64_t cluster_net_waiting_bytes(const struct cluster_net *net, uint32_t host, uint64_t now_ns)
{
    return waiting_bytes(net, &net->links[host], now_ns);
}

void cluster_net_send(struct cluster_net *net, struct cluster_frame *frame, uint64_t now_ns)
{
    link_put(net, frame->from, frame, now_ns);
}

/** A frame comes to a port: the length of its queue, in bytes. */
static uint64_t queue_sample(struct cluster_net *net, const struct cluster_link *port,
                             uint64_t now_ns)
{
    struct cluster_queues *queues = &net->queues;
    uint64_t bytes = waiting_bytes(net, port, now_ns);
    uint64_t bin = bytes * CLUSTER_QUEUE_BINS / (net->plan->port_bytes + 1);

    queues->frames++;
    queues->bins[bin]++;
    return bytes;
}

uint32_t cluster_net_forward(struct cluster_net *net, uint32_t link, uint64_t now_ns)
{
    struct cluster_frame *frame = link_take(&net->links[link]);
    uint32_t port = next_link(net->plan, frame, link);
    uint64_t bytes = queue_sample(net, &net->links[port], now_ns) +
                     cluster_plan_wire_bytes(frame->len_bytes, frame->batch);

    if (net->links[link].first != NULL) {
        expect_at_switch(net, link);
    }
    if (bytes > net->plan->port_bytes) {
        net->queues.dropped++;
        cluster_frame_free(frame);
        return UINT32_MAX;
    }
    net->queues.most_bytes = bytes > net->queues.most_bytes ? bytes : net->queues.most_bytes;
    link_put(net, port, frame, now_ns);
    return port == link_to_host(net->plan, frame->to) ? frame->to : UINT32_MAX;
}

uint64_t cluster_net_arrival_ns(const struct cluster_net *net, uint32_t host)
{
    const struct cluster_link *link = &net->links[link_to_host(net->plan, host)];
    return link->first != NULL ? link->first->at_ns : UINT64_MAX;
}

struct cluster_frame *cluster_net_take(struct cluster_net *net, uint32_t host, uint64_t now_ns)
{
    return cluster_net_arrival_ns(net, host) <= now_ns
               ? link_take(&net->links[link_to_host(net->plan, host)])
               : NULL;
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
