/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The network: hosts on one switch, or on leaf switches joined by spines. Each port has a queue
 * that drops frames when full. All links have the same rate and delay.
 *
 *   host ---> leaf ---> host                    on the same leaf
 *   host ---> leaf ---> spine ---> leaf ---> host    the spine by a hash of the connection (ECMP),
 *                                                    or at random
 *
 * A link transmits frames one after the other, in order. So the time at which a frame leaves a
 * queue is known when it enters, and the queue's length is the time until the link is free. A frame
 * needs one event per switch; hosts receive frames when they wake.
 */
#ifndef CLUSTER_NET_H
#define CLUSTER_NET_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "cluster_plan.h"
#include "sim_event.h"
#include "sim_random.h"

/** Instead of a rank: all, or none. */
#define CLUSTER_ALL UINT32_MAX
#define CLUSTER_NONE (UINT32_MAX - 1)

/** A frame in flight. */
struct cluster_frame {
    STAILQ_ENTRY(cluster_frame) next;
    uint64_t at_ns;     /**< arrival at the end of its current link */
    uint32_t from, to;  /**< ranks; to CLUSTER_ALL: multicast, among hosts with one rank each */
    uint32_t len_bytes; /**< with Ethernet header, as core counts it */
    uint32_t spine;     /**< used if the path needs one */
    bool batch;         /**< it has a batch header */
    bool group;         /**< it belongs to group delivery */
    const uint8_t
        *data;       /**< after the batch header: in `bytes`, or in memory that does not change */
    uint8_t bytes[]; /**< the frame; only its headers if `data` is elsewhere */
};

/** Allocate a frame with `bytes_count` bytes of room in `bytes`. */
struct cluster_frame *cluster_frame_new(uint32_t from, uint32_t to, uint32_t len_bytes,
                                        uint32_t bytes_count);
void cluster_frame_free(struct cluster_frame *frame);

STAILQ_HEAD(cluster_fifo, cluster_frame);

/** Lengths of the ports' queues, as seen by arriving frames, in bins of equal width. */
#define CLUSTER_QUEUE_BINS 4096u

struct cluster_queues {
    uint64_t frames, dropped;
    uint64_t most_bytes;
    uint64_t bins[CLUSTER_QUEUE_BINS];
};

struct cluster_net {
    const struct cluster_plan *plan;
    struct sim_events *events;
    uint32_t link_count;           /**< numbers of links: hosts' NICs first, then ports */
    uint64_t *free_ps;             /**< when a link will have transmitted its whole queue */
    struct cluster_fifo *waiting;  /**< frames to a switch, on a link or in the queue before it */
    uint64_t *shared_bytes;        /**< used part of a switch's shared buffer; leaves first */
    struct cluster_fifo *arriving; /**< frames on their last link, by rank */
    uint32_t (*nic_bytes)[2];      /**< a rank's bytes in the NIC's queue: of frames, of batches */
    struct sim_random random;      /**< spines */
    struct cluster_queues queues;
};

/** A frame reaches the switch at the end of link `node`: see cluster_net_forward. */
#define CLUSTER_EVENT_SWITCH 0u
/** `value` bytes have left the shared buffer of switch `node`. */
#define CLUSTER_EVENT_LEFT 2u

void cluster_net_init(struct cluster_net *net, const struct cluster_plan *plan,
                      struct sim_events *events);
/** Free the network and all frames in flight. */
void cluster_net_free(struct cluster_net *net);

#define CLUSTER_PATH_LINKS_MAX 4u

/**
 * Return a link's relative capacity; with spraying, the links of all spines count as one wide link.
 */
double cluster_net_capacity(const struct cluster_plan *plan, uint32_t link);
/**
 * Write the links used by frames of a connection (with batch header or not). Returns their number.
 */
unsigned cluster_net_path(const struct cluster_plan *plan, uint32_t from, uint32_t to, bool batch,
                          uint32_t links[CLUSTER_PATH_LINKS_MAX]);

/** Send a frame of a rank, taking ownership. Times of a rank's calls must not decrease. */
void cluster_net_send(struct cluster_net *net, struct cluster_frame *frame, uint64_t now_ns);
/**
 * Handle CLUSTER_EVENT_SWITCH: forward the first frame of a link to the next port, or a multicast
 * to all others, where there is room. Returns the rank, or CLUSTER_ALL, for which a frame may now
 * be on its last link.
 */
uint32_t cluster_net_forward(struct cluster_net *net, uint32_t link, uint64_t now_ns);
/**
 * Return when the next frame for a rank arrives, or has arrived; UINT64_MAX if none is in flight.
 */
uint64_t cluster_net_arrival_ns(const struct cluster_net *net, uint32_t rank);
/** Take the next frame if it has arrived, or NULL. The caller frees it. */
struct cluster_frame *cluster_net_take(struct cluster_net *net, uint32_t rank, uint64_t now_ns);

/** Return the queue length, in bytes, that 99.9 % of the frames did not exceed. */
uint64_t cluster_queues_p999_bytes(const struct cluster_queues *queues,
                                   const struct cluster_plan *plan);

#endif
