/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Many runs: worker processes go through seeds, and a seed that fails is shrunk to as little as
 * still fails.
 */
#ifndef SIM_CAMPAIGN_H
#define SIM_CAMPAIGN_H

#include <stdbool.h>
#include <stdint.h>

#include "sim_plan.h"

struct sim_campaign {
    struct sim_options options; /**< restrictions for all runs; the seed is set for each */
    uint64_t first, count;      /**< seeds; count 0: until the deadline */
    unsigned deadline_s;        /**< 0: none */
    unsigned jobs;              /**< worker processes */
    unsigned failures_most;     /**< stop when this many seeds have failed */
    bool shrink;
};

/** Returns the process's exit code: 0 when no seed has failed. */
int sim_campaign_run(const struct sim_campaign *campaign);

/** The command that repeats a run. */
void sim_campaign_command(const struct sim_options *options, char *out, size_t out_bytes);

#endif
