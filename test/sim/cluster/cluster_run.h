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
#include "cluster_traffic.h"

struct cluster_quantiles {
    uint64_t p50, p99, p999;
};

struct cluster_result {
    bool complete;          /**< all messages have arrived; without end: always */
    uint64_t completion_ns; /**< from the start of the first message to the end of the last; of a
                             * collective, on average */
    /**
     * The least time that it can take: the wire bytes of the messages on the busiest link by its rate,
     * and a round trip. Without end: of one message of each pair.
     */
    uint64_t ideal_ns;
    struct cluster_quantiles message_ns;
    struct cluster_quantiles slowdown[CLUSTER_CLASSES]; /**< W3, W4: in thousandths */
    uint64_t queue_most_bytes, queue_p999_bytes;        /**< of all ports */
    uint64_t dropped_frames;                            /**< by ports */
    struct rawe_counters counters; /**< of all engines, without the time before */
    double utilization; /**< without end: data, by that of max-min fair rates, or that begun */
    double fair_part;   /**< ... without what exceeds those rates */
    double jain_index;  /**< ... mean of Jain's index over 10 ms of flows by their fair rates */
    struct cluster_quantiles ping_ns; /**< half round trips */
    uint64_t ping_unloaded_ns;        /**< their median when nothing else is sent */
};

/** The same plan has always the same result. Ends the program without memory. */
struct cluster_result cluster_run(const struct cluster_plan *plan);

#endif
