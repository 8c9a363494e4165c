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

struct cluster;
struct cluster_rank;
struct cluster_peer;

/** Ranks. */
struct cluster_pair {
    uint32_t from, to;
};

struct cluster_traffic {
    struct cluster_pair *pairs; /**< who sends to whom */
    uint32_t pair_count;
    uint32_t started;   /**< pairs; by cluster_traffic_warm one after the other */
    uint32_t delivered; /**< messages */
    bool warming;
    uint32_t pinger;                     /**< this rank has yet to begin; UINT32_MAX: none */
    uint64_t ping_ns;                    /**< when the last ping was sent */
    struct cluster_samples times_ns;     /**< of messages */
    struct cluster_samples ping_half_ns; /**< half round trips of pings */
};

void cluster_traffic_init(struct cluster *cluster);
void cluster_traffic_free(struct cluster *cluster);

/** Start a message of the first pair; when it has arrived, one of the next; and so on. */
void cluster_traffic_warm(struct cluster *cluster);
/** Start all of the plan. */
void cluster_traffic_begin(struct cluster *cluster);
/** All messages begun have arrived, and no other will begin. */
bool cluster_traffic_done(const struct cluster *cluster);

/** How many messages the busiest link carries, of one of each pair. */
uint32_t cluster_traffic_busiest(const struct cluster *cluster);

/** A rank is awake: start what is due. */
void cluster_traffic_start(struct cluster_rank *rank);
/** A message has come from a peer. */
void cluster_traffic_deliver(struct cluster_peer *from, uint8_t tag);

#endif
