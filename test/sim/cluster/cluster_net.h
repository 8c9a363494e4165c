/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The network: a link from each host to one switch and one back, and a queue at each of the switch's
 * ports that drops what it has no room for. All links have the same rate and delay.
 *
 *   host --- up: NIC's queue, wire ---> switch --- down: port's queue, wire ---> host
 *
 * A link transmits frames one after the other, in order. So when a frame leaves its queue is known when
 * it enters, and the queue's length is the time until the link is free. One event is needed for each
 * frame, when it comes to the switch; hosts take what has arrived when they wake.
 */
#ifndef CLUSTER_NET_H
#define CLUSTER_NET_H

#include <stdbool.h>
#include <stdint.h>

#include "cluster_plan.h"
#include "sim_event.h"

/** A frame under way. */
struct cluster_frame {
    struct cluster_frame *next;
    uint64_t at_ns; /**< when it comes to the end of the link that it is on */
    uint32_t from, to;
    uint32_t len_bytes; /**< Ethernet header included, as core counts */
    bool batch;         /**< it has a batch header */
    const uint8_t
        *data;       /**< behind the batch header: in `bytes`, or in memory that does not change */
    uint8_t bytes[]; /**< the frame; where `data` is elsewhere, its headers */
};

/** `bytes_count` is the room in `bytes`. */
struct cluster_frame *cluster_frame_new(uint32_t from, uint32_t to, uint32_t len_bytes,
                                        uint32_t bytes_count);
void cluster_frame_free(struct cluster_frame *frame);

struct cluster_link {
    struct cluster_frame *first, **tail;
    uint64_t free_ps; /**< when all that was put on it has been transmitted */
};

/** Lengths of the ports' queues, as the frames see that come to them: bins of equal width. */
#define CLUSTER_QUEUE_BINS 4096u

struct cluster_queues {
    uint64_t frames, dropped;
    uint64_t most_bytes;
    uint64_t bins[CLUSTER_QUEUE_BINS];
};

struct cluster_net {
    const struct cluster_plan *plan;
    struct sim_events *events;
    struct cluster_link *up, *down; /**< by host */
    struct cluster_queues queues;
};

/** A frame has come to the switch, on the link of host `node`: see cluster_net_forward. */
#define CLUSTER_EVENT_SWITCH 0u

void cluster_net_init(struct cluster_net *net, const struct cluster_plan *plan,
                      struct sim_events *events);
/** Drops what is under way. */
void cluster_net_free(struct cluster_net *net);

/** Bytes that wait in a host's NIC. */
uint64_t cluster_net_waiting_bytes(const struct cluster_net *net, uint32_t host, uint64_t now_ns);
/** A host sends a frame, which is taken over. */
void cluster_net_send(struct cluster_net *net, struct cluster_frame *frame, uint64_t now_ns);
/**
 * CLUSTER_EVENT_SWITCH: the first frame on the link of host `from` goes to the port of its
 * destination, which is returned; or it is dropped, which UINT32_MAX says.
 */
uint32_t cluster_net_forward(struct cluster_net *net, uint32_t from, uint64_t now_ns);
/** When the next frame arrives at a host, or has arrived; UINT64_MAX: none is under way. */
uint64_t cluster_net_arrival_ns(const struct cluster_net *net, uint32_t host);
/** The next frame, which the caller frees, where it has arrived; or NULL. */
struct cluster_frame *cluster_net_take(struct cluster_net *net, uint32_t host, uint64_t now_ns);

/** The length that 99.9 % of the frames at most have found, in bytes. */
uint64_t cluster_queues_p999_bytes(const struct cluster_queues *queues,
                                   const struct cluster_plan *plan);

#endif
