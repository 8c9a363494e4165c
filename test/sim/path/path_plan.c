/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The plan of a seed: the processes to find, and the network.
 */
#include <stdlib.h>

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

/** Plan a process, and append the paths to it. */
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
    process->stall_from_ns = process->starts_ns + sim_random_below(random, 10 * NS_PER_MS);
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
}

void plan_free(struct plan *plan)
{
    free(plan->process);
    free(plan->truth);
    free(plan->path);
}
