/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Many runs: worker processes try seeds, and shrink a failing one to a minimal run that still
 * fails.
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

/** Run a campaign. Returns the exit code: 0 if no seed failed. */
int sim_campaign_run(const struct sim_campaign *campaign);

/** Write the command that repeats a run. */
void sim_campaign_command(const struct sim_options *options, char *out, size_t out_bytes);

#endif
