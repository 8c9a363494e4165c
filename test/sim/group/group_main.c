/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * rawe-sim-group: group delivery simulated, a run a seed.
 */
#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "group_sim.h"

static void usage(FILE *out)
{
    fprintf(out, "usage: rawe-sim-group [--seeds FIRST:COUNT] [--trace] [--failures N]\n"
                 "Runs group delivery for each seed and checks it (doc/simulator.md).\n");
}

static void describe(const struct plan *plan, const struct outcome *outcome)
{
    printf("  %u members, window %u, payload %u, stored %u, %u messages%s%s, delay %" PRIu64
           " ns, jitter %" PRIu64 " ns\n",
           plan->members, plan->window_frames, plan->payload_bytes, plan->stored_max, plan->orders,
           plan->quiet ? ", quiet" : "", plan->checksum ? ", checksums" : "", plan->delay_ns,
           plan->jitter_ns);
    printf("  ppm: loss %u, shared %u, burst %u, duplicate %u, corrupt %u, full %u, refuse %u, "
           "forge %u\n",
           plan->loss_ppm, plan->shared_ppm, plan->burst_ppm, plan->duplicate_ppm,
           plan->corrupt_ppm, plan->full_ppm, plan->refuse_ppm, plan->forge_ppm);
    printf("  %" PRIu64 " frames, %" PRIu64 " missed, %" PRIu64 " repairs, %" PRIu64
           " NACKs, %" PRIu64 " control frames, %u given up, %" PRIu64 " us\n",
           outcome->frames, outcome->missed, outcome->repairs, outcome->nacks, outcome->control,
           outcome->failures, outcome->end_ns / NS_PER_US);
}

int main(int argc, char **argv)
{
    static const struct option options[] = {
        {"seeds", required_argument, NULL, 's'}, {"failures", required_argument, NULL, 'f'},
        {"trace", no_argument, NULL, 't'},       {"no-shrink", no_argument, NULL, 'n'},
        {"help", no_argument, NULL, 'h'},        {NULL, 0, NULL, 0},
    };
    uint64_t first = 1, count = 1, frames = 0, repairs = 0, failures = 0, failures_max = 10;
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
        plan_make(&plan, seed);
        plan_run(&plan, &outcome, trace);
        frames += outcome.frames;
        repairs += outcome.repairs;
        if (outcome.violation[0] != 0) {
            failures++;
            printf("FAILED seed %" PRIu64 ": %s\n", seed, outcome.violation);
            describe(&plan, &outcome);
        } else if (count == 1) {
            describe(&plan, &outcome);
        }
        plan_free(&plan);
    }
    printf("%" PRIu64 " runs, %" PRIu64 " frames, %" PRIu64 " repairs, %" PRIu64 " failures\n",
           count, frames, repairs, failures);
    return failures == 0 ? 0 : 1;
}
