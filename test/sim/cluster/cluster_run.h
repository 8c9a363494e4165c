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
    bool complete;          /**< all messages have arrived; endless: always */
    uint64_t completion_ns; /**< from the start of the first message to the end of the last; average
                             * of a collective */
    /**
     * The minimum completion time: the wire bytes of all messages on the busiest link, divided by
     * its rate, plus a round trip. Endless: for one message of each pair.
     */
    uint64_t ideal_ns;
    struct cluster_quantiles message_ns;
    struct cluster_quantiles slowdown[CLUSTER_CLASSES]; /**< W3, W4: in thousandths */
    uint64_t queue_most_bytes, queue_p999_bytes;        /**< of all ports */
    uint64_t dropped_frames;                            /**< by ports */
    struct rawe_counters counters;                      /**< of all engines, without the warm-up */
    double utilization; /**< endless: data delivered / data at max-min fair rates, or data begun */
    double fair_part;   /**< ... without data that exceeds those rates */
    double jain_index;  /**< ... mean over 10 ms of Jain's index of rates / fair rates */
    struct cluster_quantiles ping_ns; /**< half round trips */
    uint64_t ping_unloaded_ns;        /**< their median in an idle network */
};

/** Run a plan, which determines the result. Ends the program if out of memory. */
struct cluster_result cluster_run(const struct cluster_plan *plan);

#endif
