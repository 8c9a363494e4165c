/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Consecutive collectives with one rank per host. With messages:
 *
 *   bcast      along a tree, in segments that each rank forwards when they arrive
 *   allreduce  log2(n) rounds; in round k, rank i sends to i + 2^k (dissemination: at most as many
 *              steps as recursive doubling). With one byte it is a barrier
 *
 * With multicast, as in coll/rawe: a bcast is one group message; an allreduce is a message from
 * each rank to rank 0, and a group message back.
 */
#ifndef CLUSTER_COLLECTIVE_H
#define CLUSTER_COLLECTIVE_H

#include <stdbool.h>
#include <stdint.h>

#include "group/rawe_group.h"
#include "sim_random.h"

struct cluster;
struct cluster_rank;
struct cluster_peer;

/** Measured collectives of a run; one more warms up. */
#define CLUSTER_COLLECTIVES 20u

/** The current collective. */
struct cluster_collective {
    uint64_t began_ns;
    uint32_t finished; /**< ranks that have received all of their data */
    struct sim_random random;
};

/** A rank's part in it. */
struct cluster_part {
    struct rawe_group group; /**< only with multicast */
    struct rawe_group_counters counters;
    struct rawe_group_send send;
    uint32_t came;   /**< segments or messages received */
    uint32_t passed; /**< segments forwarded, or rounds begun */
    uint32_t rounds; /**< rounds whose message was received, one bit each */
    bool due, entered;
};

/** Initialize the part of a rank, whose engine must be running. */
void cluster_collective_init(struct cluster_rank *rank);

/** Begin `count` collectives. */
void cluster_collective_begin(struct cluster *cluster, uint32_t count);
/** Let a rank that is awake enter the collective if it is due. */
void cluster_collective_start(struct cluster_rank *rank);
/** Receive a multicast frame of the group; `bytes` begin after the Ethernet header. */
void cluster_collective_receive(struct cluster_rank *rank, const uint8_t *bytes, size_t len_bytes);
/** Receive a control message of the group. */
void cluster_collective_control(struct cluster_peer *from, const uint8_t *bytes, size_t len_bytes);
/** Receive a message of the collective. */
void cluster_collective_deliver(struct cluster_peer *from);

#endif
