/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * A run: PINGs are sent, PONGs arrive via the responder's ring, and time jumps from event to event.
 */
#include <inttypes.h>
#include <stdio.h>

#include "path_sim.h"
#include "sim_event.h"
#include "sim_random.h"

/** Time that a responder needs per frame: it sustains 20000 frames per second. */
#define SERVICE_NS (50 * NS_PER_US)

#define PACE_NS (2 * NS_PER_MS)

struct run {
    struct plan *plan;
    struct outcome *outcome;
    struct sim_random random;
    /**
     * Frames to the searching process: an answer to a PING of `value` bytes; 0: a peer's own PING.
     */
    struct sim_events arrivals;
    uint64_t served_ns;    /**< the responder is busy until then */
    uint64_t window_ns;    /**< start of the current 2 ms window */
    unsigned window_pings; /**< PINGs sent in that window */
};

/** Return when the process answers a frame that arrives at `at_ns`; UINT64_MAX: never. */
static uint64_t answers_at(const struct process *process, uint64_t at_ns)
{
    if (at_ns < process->starts_ns) {
        return UINT64_MAX;
    }
    const uint64_t stall_end_ns = process->stall_from_ns + process->stall_ns;
    return at_ns >= process->stall_from_ns && at_ns < stall_end_ns ? stall_end_ns : at_ns;
}

static void send_ping(struct run *run, const struct rawe_path_ping *ping, uint64_t now_ns)
{
    const struct plan *plan = run->plan;
    struct truth *truth = &plan->truth[ping->path];
    const uint32_t full_bytes = plan->path[ping->path].mtu_bytes;

    run->outcome->pings++;
    if (ping->mtu_bytes == RAWE_PATH_MTU_SMALLEST_BYTES) {
        truth->asked++;
    } else {
        truth->sized++;
        truth->between += ping->mtu_bytes < full_bytes;
    }
    if (now_ns - run->window_ns >= PACE_NS) {
        run->window_ns = now_ns;
        run->window_pings = 0;
    }
    if (++run->window_pings > run->outcome->window_pings) {
        run->outcome->window_pings = run->window_pings;
    }
    if (!truth->leads) {
        return;
    }
    const uint64_t there_ns =
        now_ns + truth->round_trip_ns / 2 + sim_random_below(&run->random, plan->jitter_ns);
    const uint64_t answer_ns = answers_at(&plan->process[truth->process], there_ns);
    if (answer_ns == UINT64_MAX) {
        return;
    }
    /* The peer is searching for us at the same time. */
    sim_events_push(&run->arrivals, (struct sim_event){.at_ns = there_ns, .node = ping->path});
    const unsigned copies = 1 + sim_random_chance(&run->random, plan->duplicate_ppm);
    for (unsigned i = 0; i < copies; i++) {
        if (ping->mtu_bytes <= truth->there_bytes && ping->mtu_bytes <= truth->back_bytes &&
            !sim_random_chance(&run->random, plan->loss_ppm) &&
            !sim_random_chance(&run->random, plan->loss_ppm)) {
            const uint64_t back_ns = answer_ns + truth->round_trip_ns / 2 +
                                     sim_random_below(&run->random, plan->jitter_ns);
            sim_events_push(
                &run->arrivals,
                (struct sim_event){.at_ns = back_ns, .node = ping->path, .value = ping->mtu_bytes});
        }
    }
}

/** Add a frame to our responder's ring. Returns false if the ring is full. */
static bool ring_takes(struct run *run, uint64_t now_ns)
{
    const uint64_t busy_ns = run->served_ns > now_ns ? run->served_ns - now_ns : 0;

    if (busy_ns / SERVICE_NS >= run->plan->ring_frames) {
        return false;
    }
    run->served_ns = now_ns + busy_ns + SERVICE_NS;
    return true;
}

static void receive(struct run *run, struct rawe_path_search *search, uint64_t now_ns)
{
    struct sim_event arrival;

    while (run->arrivals.count != 0 && run->arrivals.heap[0].at_ns <= now_ns &&
           sim_events_pop(&run->arrivals, &arrival)) {
        if (!ring_takes(run, now_ns)) {
            run->outcome->ring_drops++;
        } else if (arrival.value != 0) {
            rawe_path_search_answered(search, arrival.node, (uint32_t)arrival.value);
        }
    }
}

void plan_run(struct plan *plan, struct outcome *outcome, bool trace)
{
    struct run run = {.plan = plan, .outcome = outcome, .random = sim_random_stream(plan->seed, 1)};
    struct rawe_path_search search;
    struct rawe_path_ping ping;
    uint64_t now_ns = NS_PER_S; /* not 0, which means "never" in places */
    const uint64_t begin_ns = now_ns;

    *outcome = (struct outcome){.pings = 0};
    for (unsigned i = 0; i < plan->processes; i++) {
        plan->process[i].starts_ns += begin_ns;
        plan->process[i].stall_from_ns += begin_ns;
    }
    rawe_path_search_begin(&search, plan->path, plan->paths, plan->burst_pings, now_ns,
                           plan->timeout_ns);
    while (rawe_path_search_advance(&search, now_ns)) {
        while (rawe_path_search_next(&search, &ping)) {
            if (trace) {
                printf("%12" PRIu64 " us  PING path %u MTU %" PRIu32 "\n",
                       (now_ns - begin_ns) / 1000, ping.path, ping.mtu_bytes);
            }
            send_ping(&run, &ping, now_ns);
        }
        uint64_t next_ns = search.wake_ns;
        if (next_ns <= now_ns) {
            outcome->spins = true;
            break;
        }
        if (run.arrivals.count != 0 && run.arrivals.heap[0].at_ns < next_ns) {
            next_ns = run.arrivals.heap[0].at_ns;
        }
        now_ns = next_ns > now_ns ? next_ns : now_ns;
        receive(&run, &search, now_ns);
    }
    outcome->end_ns = now_ns - begin_ns;
    sim_events_free(&run.arrivals);
}
