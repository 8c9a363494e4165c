/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Links and switch: see cluster_net.h.
 */
#include "cluster_net.h"

#include <stddef.h>

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

static struct cluster_link *links_new(uint32_t count)
{
    struct cluster_link *links = net_new(count * sizeof(*links));

    for (uint32_t i = 0; i < count; i++) {
        links[i] = (struct cluster_link){.tail = &links[i].first};
    }
    return links;
}

void cluster_net_init(struct cluster_net *net, const struct cluster_plan *plan,
                      struct sim_events *events)
{
    *net = (struct cluster_net){
        .plan = plan,
        .events = events,
        .up = links_new(plan->hosts),
        .down = links_new(plan->hosts),
    };
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

static void links_free(struct cluster_link *links, uint32_t count)
{
    struct cluster_frame *frame;

    for (uint32_t i = 0; i < count; i++) {
        while ((frame = link_take(&links[i])) != NULL) {
            cluster_frame_free(frame);
        }
    }
    net_delete(links);
}

void cluster_net_free(struct cluster_net *net)
{
    links_free(net->up, net->plan->hosts);
    links_free(net->down, net->plan->hosts);
}

static uint64_t waiting_bytes(const struct cluster_net *net, const struct cluster_link *link,
                              uint64_t now_ns)
{
    uint64_t now_ps = now_ns * 1000;
    return link->free_ps <= now_ps ? 0 : (link->free_ps - now_ps) * net->plan->rate_mbps / 8000000;
}

/** Transmit a frame behind those that wait. */
static void link_put(const struct cluster_net *net, struct cluster_link *link,
                     struct cluster_frame *frame, uint32_t wire_bytes, uint64_t now_ns)
{
    uint64_t begin_ps = link->free_ps > now_ns * 1000 ? link->free_ps : now_ns * 1000;

    link->free_ps = begin_ps + cluster_plan_transmit_ps(net->plan, wire_bytes);
    frame->at_ns = (link->free_ps + 999) / 1000 + net->plan->wire_ns;
    frame->next = NULL;
    *link->tail = frame;
    link->tail = &frame->next;
}

/** The first frame on a host's link will come to the switch. */
static void expect_at_switch(struct cluster_net *net, uint32_t from)
{
    sim_events_push(net->events, (struct sim_event){.at_ns = net->up[from].first->at_ns,
                                                    .kind = CLUSTER_EVENT_SWITCH,
                                                    .node = from});
}

uint64_t cluster_net_waiting_bytes(const struct cluster_net *net, uint32_t host, uint64_t now_ns)
{
    return waiting_bytes(net, &net->up[host], now_ns);
}

void cluster_net_send(struct cluster_net *net, struct cluster_frame *frame, uint64_t now_ns)
{
    struct cluster_link *link = &net->up[frame->from];
    bool first = link->first == NULL;

    link_put(net, link, frame, cluster_plan_wire_bytes(frame->len_bytes, frame->batch), now_ns);
    if (first) {
        expect_at_switch(net, frame->from);
    }
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

uint32_t cluster_net_forward(struct cluster_net *net, uint32_t from, uint64_t now_ns)
{
    struct cluster_frame *frame = link_take(&net->up[from]);
    struct cluster_link *port = &net->down[frame->to];
    uint32_t wire_bytes = cluster_plan_wire_bytes(frame->len_bytes, frame->batch);
    uint64_t bytes = queue_sample(net, port, now_ns) + wire_bytes;

    if (net->up[from].first != NULL) {
        expect_at_switch(net, from);
    }
    if (bytes > net->plan->port_bytes) {
        net->queues.dropped++;
        cluster_frame_free(frame);
        return UINT32_MAX;
    }
    net->queues.most_bytes = bytes > net->queues.most_bytes ? bytes : net->queues.most_bytes;
    link_put(net, port, frame, wire_bytes, now_ns);
    return frame->to;
}

uint64_t cluster_net_arrival_ns(const struct cluster_net *net, uint32_t host)
{
    return net->down[host].first != NULL ? net->down[host].first->at_ns : UINT64_MAX;
}

struct cluster_frame *cluster_net_take(struct cluster_net *net, uint32_t host, uint64_t now_ns)
{
    return cluster_net_arrival_ns(net, host) <= now_ns ? link_take(&net->down[host]) : NULL;
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
