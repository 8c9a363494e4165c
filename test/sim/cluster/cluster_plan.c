/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Bytes and times of an unloaded network: see cluster_plan.h.
 */
#include "cluster_plan.h"

#include "base/rawe_wire.h"
#include "net_packet.h"

/** Shortest frame, without its check sequence. */
#define ETHERNET_LEAST_BYTES 60u
/** Frame check sequence, preamble, gap between frames. */
#define ETHERNET_AROUND_BYTES (4u + 8u + 12u)

const char *const cluster_pattern_names[CLUSTER_PATTERNS] = {
    [CLUSTER_INCAST] = "incast",
    [CLUSTER_OUTCAST] = "outcast",
    [CLUSTER_ALL_TO_ALL] = "all-to-all",
    [CLUSTER_PERMUTATION] = "permutation",
    [CLUSTER_W3] = "w3",
    [CLUSTER_W4] = "w4",
    [CLUSTER_BCAST] = "bcast",
    [CLUSTER_ALLREDUCE] = "allreduce",
};

uint32_t cluster_plan_payload_bytes(const struct cluster_plan *plan)
{
    return (plan->mtu_bytes - RAWE_FRAME_OVERHEAD_BYTES) & ~(uint32_t)7;
}

uint32_t cluster_plan_wire_bytes(uint32_t len_bytes, bool batch)
{
    uint32_t bytes = len_bytes + (batch ? NET_BATCH_OVERHEAD_BYTES : 0);

    return (bytes < ETHERNET_LEAST_BYTES ? ETHERNET_LEAST_BYTES : bytes) + ETHERNET_AROUND_BYTES;
}

bool cluster_plan_in_batches(const struct cluster_plan *plan, uint32_t size_bytes)
{
    return size_bytes > cluster_plan_payload_bytes(plan) - RAWE_FRAGMENT_MESSAGE_BYTES;
}

uint64_t cluster_plan_message_bytes(const struct cluster_plan *plan, uint32_t size_bytes)
{
    uint32_t payload_bytes = cluster_plan_payload_bytes(plan);
    uint32_t segment_bytes =
        payload_bytes + RAWE_HEADER_BYTES - RAWE_BATCH_HEADER_BYTES - NET_BATCH_OVERHEAD_BYTES;
    uint32_t full = size_bytes / segment_bytes, rest = size_bytes % segment_bytes;

    if (!cluster_plan_in_batches(plan, size_bytes)) {
        return cluster_plan_wire_bytes(RAWE_PAYLOAD_OFFSET + RAWE_FRAGMENT_MESSAGE_BYTES +
                                           size_bytes + RAWE_CHECKSUM_BYTES,
                                       false);
    }
    return (uint64_t)full * cluster_plan_wire_bytes(NET_BATCH_HEAD_BYTES + segment_bytes, true) +
           (rest != 0 ? cluster_plan_wire_bytes(NET_BATCH_HEAD_BYTES + rest, true) : 0);
}

uint64_t cluster_plan_round_trip_ns(const struct cluster_plan *plan)
{
    uint64_t bytes = cluster_plan_wire_bytes(RAWE_ETH_HEADER_BYTES + plan->mtu_bytes, false) +
                     cluster_plan_wire_bytes(0, false);

    /* A switch forwards a frame when it has all of it. */
    uint64_t links = cluster_plan_leaf_count(plan) > 1 ? 4 : 2;

    return cluster_plan_transmit_ps(plan, links * bytes) / 1000 + 2 * links * plan->wire_ns +
           2 * plan->host_ns;
}
