/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * What a run is: the hosts, the network, and what the programs send.
 */
#ifndef CLUSTER_PLAN_H
#define CLUSTER_PLAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "send/rawe_cc.h"

#define CLUSTER_HOSTS_MAX 1000u
#define CLUSTER_RANKS_MAX 16u
/** Longest message: as that of the workloads, more or less. */
#define CLUSTER_MESSAGE_BYTES_MAX (16u << 20)

/** Streams of chance that are no rank's. */
enum {
    CLUSTER_STREAM_BEGIN = CLUSTER_HOSTS_MAX * CLUSTER_RANKS_MAX,
    CLUSTER_STREAM_SPRAY,
    CLUSTER_STREAM_PERMUTE, /**< one for each number of a rank on its host */
};

enum cluster_pattern {
    CLUSTER_INCAST,      /**< each rank sends a message to its like on host 0 */
    CLUSTER_OUTCAST,     /**< each of host 0 sends a message to its like on each host */
    CLUSTER_ALL_TO_ALL,  /**< each rank sends a message to each one of other hosts */
    CLUSTER_PERMUTATION, /**< each rank sends one message to another host, and receives one */
    CLUSTER_W3,          /**< messages to others at random: cluster_workload.h */
    CLUSTER_W4,
    CLUSTER_BCAST, /**< collectives: cluster_collective.h */
    CLUSTER_ALLREDUCE,
    CLUSTER_PATTERNS
};

extern const char *const cluster_pattern_names[CLUSTER_PATTERNS];

struct cluster_plan {
    uint64_t seed;
    enum cluster_pattern pattern;
    uint32_t hosts;        /**< 2 to CLUSTER_HOSTS_MAX */
    uint32_t ranks;        /**< processes of each, 1 to CLUSTER_RANKS_MAX */
    uint32_t leaf_hosts;   /**< on each leaf switch; at least `hosts`: there is one switch */
    uint32_t spines;       /**< that join the leaves, if there are several; at least 1 */
    uint32_t size_bytes;   /**< of a message; 1 to CLUSTER_MESSAGE_BYTES_MAX */
    uint32_t mtu_bytes;    /**< of all links */
    uint64_t rate_mbps;    /**< of all links */
    uint64_t claim_mbps;   /**< that the hosts' interfaces report; 0: none */
    uint64_t port_bytes;   /**< that each port of a switch buffers, at most */
    uint64_t shared_bytes; /**< that the ports of a switch share; 0: they do not */
    uint64_t wire_ns;      /**< delay of a link */
    uint64_t host_ns; /**< between a frame's arrival and its receipt by the process, on average */
    uint64_t duration_ns;  /**< messages without end are measured for that long; 0: one a pair */
    uint64_t busy_ns;      /**< for how long programs that receive compute at a time; 0: never */
    uint32_t load_percent; /**< W3, W4: of the hosts' links */
    bool sprays;           /**< each frame takes a spine at random */
    bool merges;           /**< the receiver merges frames of a batch */
    bool idle;             /**< all pairs have exchanged a message before, and rest */
    uint64_t inflow_bytes; /**< btl_rawe_inflow_bytes */
    const struct rawe_cc_type *congestion; /**< btl_rawe_congestion; NULL: the default */
    bool express_first; /**< the hosts' queueing disciplines send short frames first */
    uint32_t fan_out;   /**< of a bcast's tree; 0: it is binomial */
    bool multicast;     /**< collectives go by multicast */
    uint32_t loss_ppm;  /**< of the frames that come to the last link to a host, by chance */
    uint64_t frame_ns;  /**< that a rank takes to send or receive a frame or a batch */
    bool pings; /**< without end: all that the last host does is to exchange short messages */
};

/** Frame payload that the links carry, as core counts it. */
uint32_t cluster_plan_payload_bytes(const struct cluster_plan *plan);

/**
 * What a frame of `len_bytes`, counted from its Ethernet header on, takes of a link: IPv4 header of a
 * batch, padding, frame check sequence, preamble and gap included.
 */
uint32_t cluster_plan_wire_bytes(uint32_t len_bytes, bool batch);

/** Time to transmit that many bytes, in picoseconds. */
static inline uint64_t cluster_plan_transmit_ps(const struct cluster_plan *plan, uint64_t bytes)
{
    return bytes * 8000000 / plan->rate_mbps;
}

/** Leaf switches; 1: the only switch. */
static inline uint32_t cluster_plan_leaf_count(const struct cluster_plan *plan)
{
    return (plan->hosts + plan->leaf_hosts - 1) / plan->leaf_hosts;
}

/** What a full frame and its acknowledgement take together when the network is empty. */
uint64_t cluster_plan_round_trip_ns(const struct cluster_plan *plan);

/** Is a message longer than a frame? */
bool cluster_plan_in_batches(const struct cluster_plan *plan, uint32_t size_bytes);

/** What a message of that size takes of a link. */
uint64_t cluster_plan_message_bytes(const struct cluster_plan *plan, uint32_t size_bytes);

static inline bool cluster_plan_is_workload(const struct cluster_plan *plan)
{
    return plan->pattern == CLUSTER_W3 || plan->pattern == CLUSTER_W4;
}

static inline bool cluster_plan_is_collective(const struct cluster_plan *plan)
{
    return plan->pattern == CLUSTER_BCAST || plan->pattern == CLUSTER_ALLREDUCE;
}

/** Ranks of all hosts. Those of host 0 are the first ones. */
static inline uint32_t cluster_plan_ranks(const struct cluster_plan *plan)
{
    return plan->hosts * plan->ranks;
}

/** All but the last host's, if that pings: its first rank does. */
static inline uint32_t cluster_plan_senders(const struct cluster_plan *plan)
{
    return cluster_plan_ranks(plan) - (plan->pings ? plan->ranks : 0);
}

#endif
