/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * rawe-sim-path: a simulator of path discovery, with a run for each seed.
 */
#include <inttypes.h>
#include <stdio.h>

#include "driver/driver.h"
#include "path_sim.h"

const char simulator_help[] =
    "usage: rawe-sim-path [options]\n"
    "Runs path discovery for each seed and checks its results (doc/simulator.md).\n";
const char *const simulator_counted[2] = {"PINGs", NULL};

/** Print the properties of a run that decide which results are right. */
static void describe(const struct plan *plan, const struct outcome *outcome)
{
    printf("%u processes, %u paths, ring %u, timeout %" PRIu64 " ms, loss %u ppm, jitter %" PRIu64
           " us%s%s: %" PRIu64 " PINGs, %" PRIu64 " us, %" PRIu64 " ring drops\n",
           plan->processes, plan->paths, plan->ring_frames, plan->timeout_ns / NS_PER_MS,
           plan->loss_ppm, plan->jitter_ns / 1000, plan->late ? ", late starts" : "",
           plan->stalls ? ", stalls" : "", outcome->pings, outcome->end_ns / 1000,
           outcome->ring_drops);
    for (unsigned i = 0; i < plan->paths && plan->paths <= 30; i++) {
        const struct truth *truth = &plan->truth[i];
        const struct rawe_path *path = &plan->path[i];
        printf("  path %u, process %u:%s%s%s%s MTU %u there %u back %u, round trip %" PRIu64
               " us -> %s, MTU %u, %u small and %u larger PINGs\n",
               i, truth->process, truth->leads ? "" : " dead,", path->indirect ? " indirect," : "",
               path->process_known ? " known," : "", path->deprioritized ? " deprioritized," : "",
               path->mtu_bytes, truth->there_bytes, truth->back_bytes, truth->round_trip_ns / 1000,
               path->reachable ? "reachable" : "not reachable", path->mtu_passed_bytes,
               truth->asked, truth->sized);
    }
}

bool simulator_run(uint64_t seed, bool trace, bool show, uint64_t counts[2])
{
    struct plan plan;
    struct outcome outcome;
    char text[200];
    plan_make(&plan, seed);
    plan_run(&plan, &outcome, trace);
    counts[0] += outcome.pings;
    const bool failed = plan_check(&plan, &outcome, text);
    if (failed) {
        printf("FAILED seed %" PRIu64 ": %s\n", seed, text);
    }
    if (failed || show) {
        describe(&plan, &outcome);
    }
    plan_free(&plan);
    return failed;
}
