/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * rawe-sim-path: a simulator of path discovery that performs one run per seed. The run's plan,
 * derived from the seed, contains the processes to find and the network.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "driver/driver.h"
#include "net_harness.h"
#include "path_sim.h"
#include "sim_random.h"

enum { PATHS_PER_PROCESS_MAX = 6 };

static const uint32_t interface_mtus[] = {1500, 9000, 65000, 2044, 600, 1500, 9000, 65536};

static uint32_t limit_of(struct sim_random *random, uint32_t mtu_bytes)
{
    return sim_random_below(random, 8) == 0 ? (uint32_t)sim_random_between(random, 60, mtu_bytes)
                                            : mtu_bytes;
}

static void plan_path(struct plan *plan, struct sim_random *random, unsigned index, bool leads)
{
    struct truth *truth = &plan->truth[index];
    struct rawe_path *path = &plan->path[index];

    path->mtu_bytes = interface_mtus[sim_random_below(random, 8)];
    truth->leads = leads;
    truth->there_bytes = limit_of(random, path->mtu_bytes);
    truth->back_bytes = limit_of(random, path->mtu_bytes);
    truth->round_trip_ns = sim_random_scaled(random, 10 * NS_PER_US, 8 * NS_PER_MS);
    if (sim_random_below(random, 20) == 0) {
        truth->round_trip_ns = sim_random_scaled(random, NS_PER_MS, 300 * NS_PER_MS);
    }
}

/** Plan a process, and append its paths to the plan. */
static void plan_process(struct plan *plan, struct sim_random *random, unsigned number,
                         uint32_t dead_ppm)
{
    struct process *process = &plan->process[number];
    const unsigned direct =
        1 + (unsigned)(sim_random_below(random, 3) == 0 ? sim_random_below(random, 3) : 0);
    const unsigned indirect =
        sim_random_below(random, 4) == 0 ? 1 + (unsigned)sim_random_below(random, 2) : 0;
    const bool known = sim_random_below(random, 8) == 0;
    const bool deprioritized = sim_random_below(random, 8) == 0;

    process->first = plan->paths;
    process->paths = direct + indirect;
    process->starts_ns = plan->late && sim_random_below(random, 3) == 0
                             ? sim_random_below(random, plan->timeout_ns)
                             : 0;
    process->stall_ns = plan->stalls && sim_random_below(random, 3) == 0
                            ? sim_random_scaled(random, NS_PER_MS, 4 * NS_PER_S)
                            : 0;
    process->stall_from_ns = process->starts_ns + sim_random_scaled(random, NS_PER_MS, NS_PER_S);
    for (unsigned i = 0; i < process->paths; i++) {
        const unsigned index = plan->paths++;
        plan_path(plan, random, index, !sim_random_chance(random, dead_ppm));
        plan->truth[index].process = number;
        plan->path[index].same_process = i != 0;
        plan->path[index].indirect = i >= direct;
        plan->path[index].process_known = known;
        plan->path[index].deprioritized = deprioritized;
    }
}

/** Limit the silence of some processes. */
static void plan_silence(struct plan *plan)
{
    struct sim_random random = sim_random_stream(plan->seed, 2);

    for (unsigned i = 0; i < plan->processes; i++) {
        if (sim_random_below(&random, 8) == 0) {
            plan->path[plan->process[i].first].silence_ns =
                sim_random_scaled(&random, 500 * NS_PER_MS, 2 * NS_PER_S);
        }
    }
}

void plan_make(struct plan *plan, uint64_t seed)
{
    struct sim_random random = sim_random_stream(seed, 0);
    const bool large = seed % 250 == 0;

    *plan = (struct plan){
        .seed = seed,
        .processes = large ? (unsigned)sim_random_between(&random, 100, 4000)
                           : (unsigned)sim_random_scaled(&random, 1, 30),
        .ring_frames = (unsigned)sim_random_scaled(&random, 30, 600),
        .timeout_ns = 10 * NS_PER_S,
        .jitter_ns = sim_random_scaled(&random, 1, NS_PER_MS),
        .late = sim_random_below(&random, 8) == 0,
        .stalls = sim_random_below(&random, 4) == 0,
    };
    plan->burst_pings = rawe_path_paced_pings(plan->ring_frames, 20000);
    if (sim_random_below(&random, 2) == 0) {
        plan->loss_ppm = (uint32_t)sim_random_below(&random, 100000);
        plan->duplicate_ppm = (uint32_t)sim_random_below(&random, 300000);
    }
    if (sim_random_below(&random, 10) == 0) {
        plan->timeout_ns = sim_random_scaled(&random, 10 * NS_PER_MS, 60 * NS_PER_S);
    }
    const uint32_t dead_ppm =
        sim_random_below(&random, 2) == 0 ? 0 : (uint32_t)sim_random_below(&random, 900000);
    plan->process = net_zeroed(plan->processes * sizeof *plan->process);
    plan->truth = net_zeroed(plan->processes * PATHS_PER_PROCESS_MAX * sizeof *plan->truth);
    plan->path = net_zeroed(plan->processes * PATHS_PER_PROCESS_MAX * sizeof *plan->path);
    for (unsigned i = 0; i < plan->processes; i++) {
        plan_process(plan, &random, i, dead_ppm);
    }
    plan_silence(plan);
}

void plan_free(struct plan *plan)
{
    free(plan->process);
    free(plan->truth);
    free(plan->path);
}

const char simulator_help[] =
    "usage: rawe-sim-path [options]\n"
    "Runs path discovery for each seed and checks its results (doc/simulator.md).\n";
const char *const simulator_counted[2] = {"PINGs", NULL};

/** Print the properties of a run that determine which results are correct. */
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
               " us, silence %" PRIu64 " ms -> %s, MTU %u, %u small and %u larger PINGs\n",
               i, truth->process, truth->leads ? "" : " dead,", path->indirect ? " indirect," : "",
               path->process_known ? " known," : "", path->deprioritized ? " deprioritized," : "",
               path->mtu_bytes, truth->there_bytes, truth->back_bytes, truth->round_trip_ns / 1000,
               path->silence_ns / NS_PER_MS, path->reachable ? "reachable" : "not reachable",
               path->mtu_passed_bytes, truth->asked, truth->sized);
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
