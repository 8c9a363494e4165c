/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The network: hosts on one switch, or on leaf switches that spines join. Each port has a queue that
 * drops what it has no room for. All links have the same rate and delay.
 *
 *   host ---> leaf ---> host                    on the same leaf
 *   host ---> leaf ---> spine ---> leaf ---> host    the spine by a hash of the connection (ECMP),
 *                                                    or at random
 *
 * A link transmits frames one after the other, in order. So when a frame leaves its queue is known when
 * it enters, and the queue's length is the time until the link is free. One event is needed for each
 * switch that a frame comes to; hosts take what has arrived when they wake.
 */
#ifndef CLUSTER_NET_H
#define CLUSTER_NET_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "cluster_plan.h"
#include "sim_event.h"
#include "sim_random.h"

/** In place of a rank: all, or none. */
#define CLUSTER_ALL UINT32_MAX
#define CLUSTER_NONE (UINT32_MAX - 1)

/** A frame under way. */
struct cluster_frame {
    STAILQ_ENTRY(cluster_frame) next;
    uint64_t at_ns;     /**< when it comes to the end of the link that it is on */
    uint32_t from, to;  /**< ranks; to CLUSTER_ALL: a multicast, of hosts with one each */
    uint32_t len_bytes; /**< Ethernet header included, as core counts */
    uint32_t spine;     /**< that it takes if it has to */
    bool batch;         /**< it has a batch header */
    bool group;         /**< it is group delivery's */
    const uint8_t
        *data;       /**< behind the batch header: in `bytes`, or in memory that does not change */
    uint8_t bytes[]; /**< the frame; where `data` is elsewhere, its headers */
};

/** `bytes_count` is the room in `bytes`. */
struct cluster_frame *cluster_frame_new(uint32_t from, uint32_t to, uint32_t len_bytes,
                                        uint32_t bytes_count);
void cluster_frame_free(struct cluster_frame *frame);

STAILQ_HEAD(cluster_fifo, cluster_frame);

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
    uint32_t link_count;          /**< numbers of links: hosts' NICs first, then ports */
    uint64_t *free_ps;            /**< when all that was put on a link has been transmitted */
    struct cluster_fifo *waiting; /**< frames on a link, or in the queue in front, to a switch */
    uint64_t *shared_bytes; /**< that a switch has of its shared buffer in use; leaves first */
    struct cluster_fifo *arriving; /**< frames that are on their last link, by rank */
    uint32_t (*nic_bytes)[2];      /**< what the NIC still has of a rank: frames, and of batches */
    struct sim_random random;      /**< spines */
    struct cluster_queues queues;
};

/** A frame has come to the switch at the end of link `node`: see cluster_net_forward. */
#define CLUSTER_EVENT_SWITCH 0u
/** `value` bytes of the shared buffer have left switch `node`. */
#define CLUSTER_EVENT_LEFT 2u

void cluster_net_init(struct cluster_net *net, const struct cluster_plan *plan,
                      struct sim_events *events);
/** Drops what is under way. */
void cluster_net_free(struct cluster_net *net);

#define CLUSTER_PATH_LINKS_MAX 4u

/** What a link carries, where that is 1. Spraying makes one wide link of those to and from spines. */
double cluster_net_capacity(const struct cluster_plan *plan, uint32_t link);
/** The links that frames of a connection take, those with a batch header or others; returns how many. */
unsigned cluster_net_path(const struct cluster_plan *plan, uint32_t from, uint32_t to, bool batch,
                          uint32_t links[CLUSTER_PATH_LINKS_MAX]);

/** A rank sends a frame, which is taken over; not before the last one that it has sent. */
void cluster_net_send(struct cluster_net *net, struct cluster_frame *frame, uint64_t now_ns);
/**
 * CLUSTER_EVENT_SWITCH: the first frame on a link goes to the next port, a multicast to all others,
 * where they have room. Returns for which ranks one is on its last link, or may be (CLUSTER_ALL).
 */
uint32_t cluster_net_forward(struct cluster_net *net, uint32_t link, uint64_t now_ns);
/** When the next frame arrives for a rank, or has arrived; UINT64_MAX: none is under way. */
uint64_t cluster_net_arrival_ns(const struct cluster_net *net, uint32_t rank);
/** The next frame, which the caller frees, where it has arrived; or NULL. */
struct cluster_frame *cluster_net_take(struct cluster_net *net, uint32_t rank, uint64_t now_ns);

/** The length that 99.9 % of the frames at most have found, in bytes. */
uint64_t cluster_queues_p999_bytes(const struct cluster_queues *queues,
                                   const struct cluster_plan *plan);

#endif
