/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Lengths of messages: see cluster_workload.h.
 */
#include "cluster_workload.h"

/* Means are those of the distributions that HomaModule has (util/dist.cc): 2928 and 127797 bytes. */
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
