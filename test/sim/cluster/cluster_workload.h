/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Workloads W3 (applications of a Google data center) and W4 (Hadoop at Facebook) of the Homa paper
 * (Montazeri et al., SIGCOMM 2018): the lengths of messages.
 */
#ifndef CLUSTER_WORKLOAD_H
#define CLUSTER_WORKLOAD_H

#include "cluster_plan.h"
#include "sim_random.h"

/** About a ninth of all messages, or of all bytes; `bytes` is the mean length. */
struct cluster_workload_size {
    uint32_t bytes;
    uint32_t ppm; /**< messages per million */
};

#define CLUSTER_WORKLOAD_SIZES_MAX 16u

/** Set `sizes` to those of W3 or W4, shortest first. Returns their number. */
unsigned cluster_workload_sizes(enum cluster_pattern pattern,
                                const struct cluster_workload_size **sizes);
/** Draw the index of a size. */
unsigned cluster_workload_draw(enum cluster_pattern pattern, struct sim_random *random);
/** Return a rank's average interval between messages; the ranks of a host share a link's load. */
double cluster_workload_interval_ns(const struct cluster_plan *plan);

#endif
