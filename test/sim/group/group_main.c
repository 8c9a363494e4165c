/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * rawe-sim-group: a simulator of group delivery, with a run for each seed.
 */
#include <inttypes.h>
#include <stdio.h>

#include "driver/driver.h"
#include "group_sim.h"

const char simulator_help[] =
    "usage: rawe-sim-group [options]\n"
    "Runs group delivery for each seed and checks it (doc/simulator.md).\n";
const char *const simulator_counted[2] = {"frames", "repairs"};

static void describe(const struct plan *plan, const struct outcome *outcome)
{
    printf(
        "  %u members, window %u, payload %u, shared from %u, %u messages%s%s%s%s, delay %" PRIu64
        " ns, jitter %" PRIu64 " ns\n",
        plan->members, plan->window_frames, plan->payload_bytes, plan->share_from, plan->orders,
        plan->quiet ? ", quiet" : "", plan->unfenced ? ", without a fence" : "",
        plan->deaf ? ", some deaf" : "", plan->dies ? ", one dies" : "", plan->delay_ns,
        plan->jitter_ns);
    printf("  ppm: loss %u, shared %u, burst %u, duplicate %u, corrupt %u, full %u, refuse %u, "
           "forge %u, late %u\n",
           plan->loss_ppm, plan->shared_ppm, plan->burst_ppm, plan->duplicate_ppm,
           plan->corrupt_ppm, plan->full_ppm, plan->refuse_ppm, plan->forge_ppm, plan->late_ppm);
    printf("  %" PRIu64 " frames, %" PRIu64 " missed, %" PRIu64 " repairs, %" PRIu64
           " NACKs, %" PRIu64 " control frames, %" PRIu64 " us\n",
           outcome->frames, outcome->missed, outcome->repairs, outcome->nacks, outcome->control,
           outcome->end_ns / NS_PER_US);
}

bool simulator_run(uint64_t seed, bool trace, bool show, uint64_t counts[2])
{
    struct plan plan;
    struct outcome outcome;
    plan_make(&plan, seed);
    plan_run(&plan, &outcome, trace);
    counts[0] += outcome.frames;
    counts[1] += outcome.repairs;
    const bool failed = outcome.violation[0] != 0;
    if (failed) {
        printf("FAILED seed %" PRIu64 ": %s\n", seed, outcome.violation);
    }
    if (failed || show) {
        describe(&plan, &outcome);
    }
    plan_free(&plan);
    return failed;
}
