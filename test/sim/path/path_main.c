/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * rawe-sim-path: path discovery simulated, a run a seed.
 */
#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "path_sim.h"

static void usage(FILE *out)
{
    fprintf(out, "usage: rawe-sim-path [--seeds FIRST:COUNT] [--trace] [--failures N]\n"
                 "Runs path discovery for each seed and checks its results (doc/simulator.md).\n");
}

/** The parts of a run that decide what may be expected of it. */
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

int main(int argc, char **argv)
{
    static const struct option options[] = {
        {"seeds", required_argument, NULL, 's'}, {"failures", required_argument, NULL, 'f'},
        {"trace", no_argument, NULL, 't'},       {"no-shrink", no_argument, NULL, 'n'},
        {"help", no_argument, NULL, 'h'},        {NULL, 0, NULL, 0},
    };
    uint64_t first = 1, count = 1, pings = 0, failures = 0, failures_max = 10;
    bool trace = false;

    for (int option; (option = getopt_long(argc, argv, "h", options, NULL)) != -1;) {
        switch (option) {
        case 's':
            if (sscanf(optarg, "%" SCNu64 ":%" SCNu64, &first, &count) < 1) {
                usage(stderr);
                return 2;
            }
            break;
        case 'f':
            failures_max = strtoull(optarg, NULL, 10);
            break;
        case 't':
            trace = true;
            break;
        case 'n':
            break; /* for test/sim/planted: there is nothing to shrink */
        default:
            usage(option == 'h' ? stdout : stderr);
            return option == 'h' ? 0 : 2;
        }
    }
    for (uint64_t seed = first; seed < first + count && failures < failures_max; seed++) {
        struct plan plan;
        struct outcome outcome;
        char text[200];
        plan_make(&plan, seed);
        plan_run(&plan, &outcome, trace);
        pings += outcome.pings;
        if (plan_check(&plan, &outcome, text)) {
            failures++;
            printf("FAILED seed %" PRIu64 ": %s\n", seed, text);
            describe(&plan, &outcome);
        } else if (count == 1) {
            describe(&plan, &outcome);
        }
        plan_free(&plan);
    }
    printf("%" PRIu64 " runs, %" PRIu64 " PINGs, %" PRIu64 " failures\n", count, pings, failures);
    return failures == 0 ? 0 : 1;
}
