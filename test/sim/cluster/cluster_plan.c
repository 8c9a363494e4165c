/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Bytes and times in an idle network, and the lengths of messages: see cluster.h.
 */
#include "cluster.h"

#include "base/rawe_wire.h"
#include "net_packet.h"

/** Length of the shortest frame, without its check sequence. */
#define ETHERNET_LEAST_BYTES 60u
/** Length of frame check sequence, preamble and gap between frames. */
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

    /* A switch forwards a frame only after receiving all of it. */
    uint64_t links = cluster_plan_leaf_count(plan) > 1 ? 4 : 2;

    return cluster_plan_transmit_ps(plan, links * bytes) / 1000 + 2 * links * plan->wire_ns +
           2 * plan->host_ns;
}

/* ---- workloads ---- */

/*
 * The mean lengths, 2928 and 127797 bytes, match HomaModule's distributions (util/dist.cc).
 */
static const struct cluster_workload_size w3[] = {
    {20, 120503},  {71, 132919},   {115, 116442},  {192, 128037}, {297, 130464},  {406, 130464},
    {702, 111981}, {3363, 95985},  {14054, 22961}, {56503, 5738}, {127800, 2533}, {285471, 1130},
    {558097, 581}, {1671242, 194}, {5629415, 61},  {13429775, 8},
};
static const struct cluster_workload_size w4[] = {
    {266, 111850},   {355, 111150},   {489, 118980},   {568, 117120},   {684, 112260},
    {1350, 110780},  {31365, 111540}, {77193, 110560}, {235085, 60240}, {999840, 15060},
    {1915795, 7460}, {3225010, 5200}, {5468746, 3900}, {7974605, 2600}, {10000000, 1300},
};

unsigned cluster_workload_sizes(enum cluster_pattern pattern,
                                const struct cluster_workload_size **sizes)
{
    *sizes = pattern == CLUSTER_W3 ? w3 : w4;
    return pattern == CLUSTER_W3 ? sizeof(w3) / sizeof(*w3) : sizeof(w4) / sizeof(*w4);
}

unsigned cluster_workload_draw(enum cluster_pattern pattern, struct sim_random *random)
{
    const struct cluster_workload_size *sizes;
    unsigned last = cluster_workload_sizes(pattern, &sizes) - 1;
    uint64_t left = sim_random_below(random, 1000000);
    unsigned i = 0;

    while (i < last && left >= sizes[i].ppm) {
        left -= sizes[i++].ppm;
    }
    return i;
}

double cluster_workload_interval_ns(const struct cluster_plan *plan)
{
    const struct cluster_workload_size *sizes;
    double wire_bytes = 0;

    for (unsigned i = cluster_workload_sizes(plan->pattern, &sizes); i-- > 0;) {
        wire_bytes += sizes[i].ppm / 1e6 * (double)cluster_plan_message_bytes(plan, sizes[i].bytes);
    }
    return wire_bytes * 8000 / (double)plan->rate_mbps * 100 / plan->load_percent * plan->ranks;
}
