/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * A run from beginning to end.
 */
#ifndef CLUSTER_RUN_H
#define CLUSTER_RUN_H

#include <stdbool.h>
#include <stdint.h>

#include "base/rawe_counters.h"
#include "cluster_plan.h"

struct cluster_result {
    bool complete;          /**< all messages have arrived; STREAMS: always */
    uint64_t completion_ns; /**< from the start of the first message to the end of the last */
    /**
     * The least time that it can take: the wire bytes of the messages on the busiest link by its rate,
     * and a round trip. STREAMS: of one message of each sender.
     */
    uint64_t ideal_ns;
    uint64_t message_p50_ns, message_p99_ns, message_p999_ns;
    uint64_t queue_most_bytes, queue_p999_bytes; /**< of all ports */
    uint64_t dropped_frames;                     /**< by ports */
    struct rawe_counters counters;               /**< of all engines, without the time before */
    double peer_bytes;  /**< memory of core's for each peer of a process, at the end */
    double utilization; /**< STREAMS: data by time, as a part of what fits the port */
    double jain_index;  /**< STREAMS: mean of Jain's index over 10 ms */
    uint64_t ping_p50_ns, ping_p99_ns; /**< half round trips */
};

/** The same plan has always the same result. Ends the program without memory. */
struct cluster_result cluster_run(const struct cluster_plan *plan);

#endif
