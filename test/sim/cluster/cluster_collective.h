/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Collectives, one after the other, of a rank a host. By messages:
 *
 *   bcast      along a tree, in segments that each rank passes on as they come
 *   allreduce  log2(n) rounds; in round k rank i sends to i + 2^k (dissemination: as many steps as
 *              recursive doubling, or fewer). With one byte: a barrier
 *
 * By multicast, as coll/rawe: a bcast is one group message; an allreduce is a message of each rank to
 * rank 0, and a group message back.
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

/** In a run, after one that is not counted. */
#define CLUSTER_COLLECTIVES 20u

/** The collective that is under way. */
struct cluster_collective {
    uint64_t began_ns;
    uint32_t finished; /**< ranks that have all that it gives them */
    struct sim_random random;
};

/** A rank's part in it. */
struct cluster_part {
    struct rawe_group group; /**< by multicast only */
    struct rawe_group_counters counters;
    struct rawe_group_send send;
    uint32_t came;   /**< segments or messages */
    uint32_t passed; /**< segments, or rounds begun */
    uint32_t rounds; /**< whose messages have come, a bit each */
    bool due, entered;
};

/** For a rank whose engine is running. */
void cluster_collective_init(struct cluster_rank *rank);

/** Begin `count` of them. */
void cluster_collective_begin(struct cluster *cluster, uint32_t count);
/** A rank is awake: enter what is due. */
void cluster_collective_start(struct cluster_rank *rank);
/** A multicast frame of the group's has come; `bytes` begin behind the Ethernet header. */
void cluster_collective_receive(struct cluster_rank *rank, const uint8_t *bytes, size_t len_bytes);
/** A control message of the group's has come. */
void cluster_collective_control(struct cluster_peer *from, const uint8_t *bytes, size_t len_bytes);
/** A message of the collective's has come. */
void cluster_collective_deliver(struct cluster_peer *from);

#endif
