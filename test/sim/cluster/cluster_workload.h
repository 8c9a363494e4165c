/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Workloads W3 (applications of a Google data center) and W4 (Hadoop at Facebook) of the Homa paper
 * (Montazeri et al., SIGCOMM 2018): how long messages are.
 */
#ifndef CLUSTER_WORKLOAD_H
#define CLUSTER_WORKLOAD_H

#include "cluster_plan.h"
#include "sim_random.h"

/** Messages of about a ninth of all, or with about a ninth of all bytes; `bytes` is their mean. */
struct cluster_workload_size {
    uint32_t bytes;
    uint32_t ppm; /**< messages of a million */
};

#define CLUSTER_WORKLOAD_SIZES_MAX 16u

/** W3 or W4, shortest first; returns how many sizes there are. */
unsigned cluster_workload_sizes(enum cluster_pattern pattern,
                                const struct cluster_workload_size **sizes);
/** Draw the number of a size. */
unsigned cluster_workload_draw(enum cluster_pattern pattern, struct sim_random *random);
/** Between two messages of a rank, on average: ranks of a host have the load of a link together. */
double cluster_workload_interval_ns(const struct cluster_plan *plan);

#endif
