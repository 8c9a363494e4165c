/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Messages as ob1 sends them over rawe: up to the eager limit at once; longer ones are announced (RTS),
 * moved by one GET of the receiver, and ended by its word (FIN). A receive is always posted.
 */
#ifndef CLUSTER_TRAFFIC_H
#define CLUSTER_TRAFFIC_H

#include <stdbool.h>
#include <stdint.h>

#include "cluster_plan.h"
#include "cluster_samples.h"
#include "cluster_workload.h"

struct cluster;
struct cluster_rank;
struct cluster_peer;

/** Ranks. */
struct cluster_pair {
    uint32_t from, to;
};

/** One that has not arrived: its sender's peer has a list, oldest first. */
struct cluster_message {
    struct cluster_message *next;
    uint64_t began_ns;
    uint32_t size_bytes;
    bool announced;
};

/** How long messages of W3 and W4 are: a frame at most, sent at once, or announced. */
enum cluster_class { CLUSTER_SHORT, CLUSTER_EAGER, CLUSTER_LONG, CLUSTER_CLASSES };

struct cluster_traffic {
    struct cluster_pair *pairs; /**< who sends to whom */
    uint32_t pair_count;
    uint32_t started;          /**< pairs; by cluster_traffic_warm one after the other */
    uint64_t begun, delivered; /**< messages */
    uint64_t begun_bytes;
    uint32_t size_bytes;             /**< of those that are due */
    bool endless;                    /**< each is followed by another */
    uint32_t pinger;                 /**< this rank has yet to begin; UINT32_MAX: none */
    uint32_t pings;                  /**< sent */
    uint64_t ping_ns;                /**< when the last ping was sent */
    struct cluster_samples times_ns; /**< of messages */
    uint64_t
        unloaded_ns[CLUSTER_WORKLOAD_SIZES_MAX]; /**< W3, W4: when nothing else is sent; or 0 */
    struct cluster_samples slowdowns[CLUSTER_CLASSES]; /**< of 1000: that time is 1000 */
    struct cluster_samples ping_half_ns;               /**< half round trips of pings */
};

void cluster_traffic_init(struct cluster *cluster);
void cluster_traffic_free(struct cluster *cluster);

/** Start a message of the first pair; when it has arrived, one of the next; and so on. A collective. */
void cluster_traffic_warm(struct cluster *cluster);
/** Start one. */
void cluster_traffic_send(struct cluster *cluster, struct cluster_pair pair, uint32_t size_bytes);
/** Start the pings. */
void cluster_traffic_ping(struct cluster *cluster);
/** Send a message of the collective that is under way. */
void cluster_traffic_put(struct cluster_peer *to, uint32_t len_bytes);
/** Start all of the plan. */
void cluster_traffic_begin(struct cluster *cluster);
/** All messages begun have arrived. */
bool cluster_traffic_done(const struct cluster *cluster);
/** Forget what was counted and timed. */
void cluster_traffic_reset(struct cluster *cluster);

/** A rank is awake: start what is due. */
void cluster_traffic_start(struct cluster_rank *rank);
/** A message has come from a peer. */
void cluster_traffic_deliver(struct cluster_peer *from, uint8_t tag, uint32_t len_bytes);
/** Free the list of messages to a peer. */
void cluster_traffic_forget(struct cluster_peer *to);

#endif
