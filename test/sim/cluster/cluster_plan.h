/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Parameters of a run: the hosts, the network, and the messages.
 */
#ifndef CLUSTER_PLAN_H
#define CLUSTER_PLAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "send/rawe_cc.h"

#define CLUSTER_HOSTS_MAX 1000u
#define CLUSTER_RANKS_MAX 16u
/** Longest message, about that of the workloads. */
#define CLUSTER_MESSAGE_BYTES_MAX (16u << 20)

/** Streams of random numbers that belong to no rank. */
enum {
    CLUSTER_STREAM_BEGIN = CLUSTER_HOSTS_MAX * CLUSTER_RANKS_MAX,
    CLUSTER_STREAM_SPRAY,
    CLUSTER_STREAM_PERMUTE, /**< one per rank of a host */
};

enum cluster_pattern {
    CLUSTER_INCAST,      /**< each rank sends a message to its counterpart on host 0 */
    CLUSTER_OUTCAST,     /**< each rank of host 0 sends a message to its counterpart on each host */
    CLUSTER_ALL_TO_ALL,  /**< each rank sends a message to every rank of other hosts */
    CLUSTER_PERMUTATION, /**< each rank sends one message to another host, and receives one */
    CLUSTER_W3,          /**< messages to random ranks: cluster_workload.h */
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
    uint32_t ranks;        /**< processes per host, 1 to CLUSTER_RANKS_MAX */
    uint32_t leaf_hosts;   /**< per leaf switch; if at least `hosts`, there is one switch */
    uint32_t spines;       /**< that join several leaves; at least 1 */
    uint32_t size_bytes;   /**< of a message; 1 to CLUSTER_MESSAGE_BYTES_MAX */
    uint32_t mtu_bytes;    /**< of all links */
    uint64_t rate_mbps;    /**< of all links */
    uint64_t claim_mbps;   /**< reported by the hosts' interfaces; 0: none */
    uint64_t port_bytes;   /**< maximum queue of each switch port */
    uint64_t shared_bytes; /**< buffer shared by the ports of a switch; 0: none */
    uint64_t wire_ns;      /**< delay of a link */
    uint64_t host_ns;      /**< average time from a frame's arrival to its receipt by the process */
    uint64_t
        duration_ns;  /**< for how long endless messages are measured; 0: one message per pair */
    uint64_t busy_ns; /**< how long receiving programs compute at a time; 0: never */
    uint32_t load_percent; /**< W3, W4: of the hosts' links */
    bool sprays;           /**< each frame takes a spine at random */
    bool merges;           /**< the receiver merges frames of a batch */
    bool idle;             /**< all pairs have exchanged a message and are now idle */
    uint64_t inflow_bytes; /**< btl_rawe_inflow_bytes */
    const struct rawe_cc_type *congestion; /**< btl_rawe_congestion; NULL: the default */
    bool express_first; /**< the hosts' queueing disciplines send short frames first */
    uint32_t fan_out;   /**< of a bcast's tree; 0: binomial */
    bool multicast;     /**< collectives use multicast */
    uint32_t loss_ppm;  /**< random loss of frames before the last link to a host */
    uint64_t frame_ns;  /**< cost to a rank of sending or receiving a frame or a batch */
    bool pings;         /**< endless: the last host only exchanges short messages */
};

/** Return the maximum frame payload of the links, as core counts it. */
uint32_t cluster_plan_payload_bytes(const struct cluster_plan *plan);

/**
 * Return the bytes that a frame of `len_bytes` (with its Ethernet header) occupies on a link,
 * including the IPv4 header of a batch, padding, frame check sequence, preamble and gap.
 */
uint32_t cluster_plan_wire_bytes(uint32_t len_bytes, bool batch);

/** Return the time to transmit `bytes`, in picoseconds. */
static inline uint64_t cluster_plan_transmit_ps(const struct cluster_plan *plan, uint64_t bytes)
{
    return bytes * 8000000 / plan->rate_mbps;
}

/** Return the number of leaf switches; 1: the only switch. */
static inline uint32_t cluster_plan_leaf_count(const struct cluster_plan *plan)
{
    return (plan->hosts + plan->leaf_hosts - 1) / plan->leaf_hosts;
}

/** Return the time for a full frame and its acknowledgement in an empty network. */
uint64_t cluster_plan_round_trip_ns(const struct cluster_plan *plan);

/** Return true if a message is longer than a frame. */
bool cluster_plan_in_batches(const struct cluster_plan *plan, uint32_t size_bytes);

/** Return the bytes that a message of `size_bytes` occupies on a link. */
uint64_t cluster_plan_message_bytes(const struct cluster_plan *plan, uint32_t size_bytes);

static inline bool cluster_plan_is_workload(const struct cluster_plan *plan)
{
    return plan->pattern == CLUSTER_W3 || plan->pattern == CLUSTER_W4;
}

static inline bool cluster_plan_is_collective(const struct cluster_plan *plan)
{
    return plan->pattern == CLUSTER_BCAST || plan->pattern == CLUSTER_ALLREDUCE;
}

/** Return the number of ranks of all hosts. Those of host 0 come first. */
static inline uint32_t cluster_plan_ranks(const struct cluster_plan *plan)
{
    return plan->hosts * plan->ranks;
}

/** Return the number of ranks that send traffic: the last host's do not if it pings. */
static inline uint32_t cluster_plan_senders(const struct cluster_plan *plan)
{
    return cluster_plan_ranks(plan) - (plan->pings ? plan->ranks : 0);
}

#endif
