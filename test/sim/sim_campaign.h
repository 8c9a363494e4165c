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

/**
 * A run takes milliseconds, one of a thousand some seconds, and ten times that under the thread
 * sanitizer; one that takes more of a processor than this hangs.
 */
#define SIM_RUN_SECONDS_MOST 120u

/** How a run has failed; in memory that the process which runs it shares. */
struct sim_failure {
    uint64_t incidents; /**< until it failed; UINT64_MAX: not known */
    char text[512];     /**< of the violation; empty: it crashed or did not end */
};

/** The command that repeats a run. */
void sim_shrink_command(const struct sim_options *options, char *out, size_t out_bytes);

/**
 * Find the least run that still fails, whatever the invariant, and print it. `incidents`: as in the
 * failure of the first run; `shared` is used for those that follow.
 */
void sim_shrink(const struct sim_options *failing, uint64_t incidents, struct sim_failure *shared);

#endif
