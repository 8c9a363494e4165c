/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * rawe-sim-group: a simulator of group delivery that performs one run per seed. The run's plan,
 * derived from the seed, contains members, network, messages and faults.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "driver/driver.h"
#include "group_sim.h"
#include "sim_random.h"

enum { ORDERS_MAX = 40, BURST_MAX = 400 };

/** Maximum delay of a member's start, time without multicast, and suspension or refusal. */
#define LATE_NS (5 * NS_PER_S)
#define DEAF_NS (20 * NS_PER_S)
#define ABSENT_NS (40 * NS_PER_S)

static uint32_t some(struct sim_random *random, uint32_t one_in, uint32_t most_ppm)
{
    return sim_random_below(random, one_in) == 0
               ? (uint32_t)sim_random_scaled(random, 100, most_ppm)
               : 0;
}

static void plan_network(struct plan *plan, struct sim_random *random)
{
    plan->delay_ns = sim_random_scaled(random, 2 * NS_PER_US, 80 * NS_PER_US);
    if (plan->quiet) {
        return;
    }
    plan->jitter_ns =
        sim_random_below(random, 3) == 0 ? sim_random_scaled(random, NS_PER_US, 5 * NS_PER_MS) : 0;
    plan->loss_ppm = some(random, 2, 100000);
    plan->shared_ppm = some(random, 4, 100000);
    plan->burst_ppm = some(random, 4, 5000);
    plan->duplicate_ppm = some(random, 4, 100000);
    plan->corrupt_ppm = plan->segment_bytes == 0 ? some(random, 2, 50000) : 0;
    plan->full_ppm = some(random, 4, 100000);
    plan->refuse_ppm = some(random, 4, 200000);
    plan->forge_ppm = some(random, 3, 50000);
    plan->late_ppm = some(random, 3, 100000);
    plan->late_ns = sim_random_scaled(random, NS_PER_US, 300 * NS_PER_MS);
    plan->asks = sim_random_below(random, 4) == 0 ? (uint32_t)sim_random_below(random, 20) : 0;
    plan->dies = sim_random_below(random, 16) == 0;
}

static void plan_orders(struct plan *plan, struct sim_random *random)
{
    const uint32_t roots =
        plan->members > 12 ? 1 + (uint32_t)sim_random_below(random, 3) : plan->members;
    const bool one_root = sim_random_below(random, 3) == 0;
    const bool burst = plan->members <= 100 && sim_random_below(random, 3) == 0;
    const uint64_t pause_max_ns = sim_random_scaled(random, 1, 200 * NS_PER_MS);
    uint64_t at_ns = BEGIN_NS;
    /* Total number of frames of all messages. */
    uint64_t left_frames = plan->members > 100 ? 300 : 3000;
    plan->orders = 1 + (uint32_t)sim_random_below(random, burst ? BURST_MAX : ORDERS_MAX);
    for (uint32_t i = 0; i < plan->orders; i++) {
        struct order *order = &plan->order[i];
        const uint64_t long_bytes =
            (uint64_t)plan->payload_bytes *
            (sim_random_below(random, 4) == 0 ? 3ull * plan->window_frames : 2ull);
        const uint64_t most_bytes =
            burst && sim_random_below(random, 10) != 0 ? plan->payload_bytes : long_bytes;
        at_ns += sim_random_below(random, burst ? 40 : 2) == 0
                     ? sim_random_below(random, pause_max_ns)
                     : 0;
        order->at_ns = at_ns;
        order->may_wait = sim_random_below(random, 10) != 0;
        order->root = one_root ? 0 : (uint32_t)sim_random_below(random, roots);
        order->len_bytes = sim_random_below(random, 10) == 0
                               ? 0
                               : (uint32_t)sim_random_scaled(random, 1, most_bytes);
        order->batches =
            plan->segment_bytes != 0 && order->len_bytes != 0 && sim_random_below(random, 4) != 0;
        const uint64_t frames = order->len_bytes / plan->payload_bytes + 1;
        if (frames > left_frames) {
            order->len_bytes = 1;
        } else {
            left_frames -= frames;
        }
    }
}

static void plan_fates(struct plan *plan, struct sim_random *random)
{
    const bool late = !plan->quiet && sim_random_below(random, 4) == 0;
    const bool pauses = !plan->quiet && sim_random_below(random, 4) == 0;
    const bool refuses = !plan->quiet && sim_random_below(random, 4) == 0;
    const uint32_t dies = (uint32_t)sim_random_below(random, plan->members);
    const bool all_deaf = sim_random_below(random, 4) == 0;
    plan->deaf = !plan->quiet && sim_random_below(random, 4) == 0;
    for (uint32_t i = 0; i < plan->members; i++) {
        struct fate *fate = &plan->fate[i];
        const bool chosen = sim_random_below(random, plan->members < 4 ? 2 : 4) == 0;
        fate->starts_ns = BEGIN_NS;
        if (late && chosen) {
            fate->starts_ns = BEGIN_NS + sim_random_scaled(random, NS_PER_US, LATE_NS);
        }
        if (pauses && chosen) {
            fate->pause_from_ns = BEGIN_NS + sim_random_below(random, 100 * NS_PER_MS);
            fate->pause_until_ns =
                fate->pause_from_ns + sim_random_scaled(random, NS_PER_US, ABSENT_NS);
        }
        if (refuses && chosen) {
            fate->refuses_until_ns = BEGIN_NS + sim_random_scaled(random, NS_PER_US, ABSENT_NS);
        }
        if (plan->deaf && (chosen || all_deaf)) {
            fate->deaf_from_ns = sim_random_below(random, 2) == 0
                                     ? BEGIN_NS
                                     : BEGIN_NS + sim_random_below(random, 100 * NS_PER_MS);
            fate->deaf_until_ns =
                sim_random_below(random, 2) == 0
                    ? NEVER
                    : fate->deaf_from_ns + sim_random_scaled(random, NS_PER_US, DEAF_NS);
        }
        if (plan->dies && i == dies) {
            fate->dies_ns = BEGIN_NS + sim_random_below(random, 200 * NS_PER_MS);
        }
    }
}

void plan_make(struct plan *plan, uint64_t seed)
{
    struct sim_random random = sim_random_stream(seed, 0);
    const uint32_t size = (uint32_t)sim_random_below(&random, 1000);

    *plan = (struct plan){.seed = seed, .quiet = sim_random_below(&random, 8) == 0};
    plan->members = size == 0   ? (uint32_t)sim_random_between(&random, 100, 1000)
                    : size < 30 ? (uint32_t)sim_random_between(&random, 13, 100)
                                : (uint32_t)sim_random_between(&random, 2, 12);
    plan->id = sim_random_next(&random);
    if (sim_random_below(&random, 2) == 0) {
        plan->id |= 0xFFFFFF80u; /* so that sequence numbers wrap */
    }
    plan->payload_bytes = (uint32_t)sim_random_scaled(&random, 128, 1500);
    plan->window_frames = 1u << sim_random_between(&random, 1, 8);
    plan->share_from = (uint32_t)sim_random_below(&random, 6);
    plan->unfenced = sim_random_below(&random, 2) == 0;
    if (sim_random_below(&random, 3) == 0) {
        plan->segment_bytes =
            (uint32_t)sim_random_between(&random, plan->payload_bytes / 2, plan->payload_bytes);
        plan->batch_bytes = (uint32_t)sim_random_scaled(&random, 1, UINT16_MAX);
    }
    plan->fate = calloc(plan->members, sizeof *plan->fate);
    plan->order = calloc(BURST_MAX, sizeof *plan->order);
    if (plan->fate == NULL || plan->order == NULL) {
        abort();
    }
    plan_network(plan, &random);
    plan_orders(plan, &random);
    plan_fates(plan, &random);
    plan->poor_ppm = plan->quiet || plan->dies ? 0 : some(&random, 6, 1000000);
}

void plan_free(struct plan *plan)
{
    free(plan->fate);
    free(plan->order);
}

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
           "forge %u, late %u, poor %u\n",
           plan->loss_ppm, plan->shared_ppm, plan->burst_ppm, plan->duplicate_ppm,
           plan->corrupt_ppm, plan->full_ppm, plan->refuse_ppm, plan->forge_ppm, plan->late_ppm,
           plan->poor_ppm);
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
