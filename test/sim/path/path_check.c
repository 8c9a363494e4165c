/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Checks of a run: the search's results are true, and the search obeyed its rules.
 */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

#include "path_sim.h"

/** Maximum time that a path's rounds with larger frames may take. */
#define SIZES_NS (950 * NS_PER_MS)

/** When the first round with several sizes begins, at the earliest. */
#define SIZES_BEGIN_NS (30 * NS_PER_MS)

#define PATIENCE_NS (500 * NS_PER_MS)
#define PATIENCE_SHORT_NS (20 * NS_PER_MS)

/** A round trip up to this is short compared with every timeout of the search. */
#define SHORT_NS (10 * NS_PER_MS)

static const uint32_t usual_mtus[] = {32000, 16000, 9198, 9000, 8996, 8950, 8192, 8000, 4074, 4000,
                                      2000,  1500,  1496, 1492, 1450, 1400, 1280, 1024, 576};

static bool wrong(char text[200], const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(text, 200, format, arguments);
    va_end(arguments);
    return true;
}

static uint32_t carries(const struct truth *truth)
{
    return truth->there_bytes < truth->back_bytes ? truth->there_bytes : truth->back_bytes;
}

/** Return the MTU that the search should find: the path's, or the largest usual one that passes. */
static uint32_t right_mtu(const struct truth *truth, const struct rawe_path *path)
{
    if (carries(truth) >= path->mtu_bytes) {
        return path->mtu_bytes;
    }
    for (unsigned i = 0; i < sizeof usual_mtus / sizeof usual_mtus[0]; i++) {
        if (usual_mtus[i] < path->mtu_bytes && usual_mtus[i] <= carries(truth)) {
            return usual_mtus[i];
        }
    }
    return 0;
}

static uint64_t round_trip_ns(const struct plan *plan, const struct truth *truth)
{
    return truth->round_trip_ns + 2 * plan->jitter_ns;
}

/** Check that a path is not overrated and that its search took no more PINGs than allowed. */
static bool check_path(const struct plan *plan, const struct outcome *outcome, unsigned index,
                       char text[200])
{
    const struct truth *truth = &plan->truth[index];
    const struct rawe_path *path = &plan->path[index];
    const unsigned asked_max = 16 + (unsigned)(outcome->end_ns / (100 * NS_PER_MS));
    /* Rounds are repeated if a larger size passes late. */
    const bool late = plan->stalls || plan->loss_ppm != 0 || round_trip_ns(plan, truth) >= SHORT_NS;
    const unsigned rounds = late ? 10 + 9 : 10;
    const unsigned sized_max = 4 + rounds * 20 + (unsigned)(outcome->end_ns / (100 * NS_PER_MS));

    if (path->reachable && !truth->leads) {
        return wrong(text, "path %u leads nowhere and is called reachable", index);
    }
    if (path->mtu_passed_bytes > carries(truth)) {
        return wrong(text, "path %u carries %u and is said to carry %u", index, carries(truth),
                     path->mtu_passed_bytes);
    }
    if (truth->asked > asked_max || truth->sized > sized_max) {
        return wrong(text, "path %u cost %u small and %u larger PINGs", index, truth->asked,
                     truth->sized);
    }
    if (truth->between != 0 && plan->loss_ppm == 0 && !plan->stalls &&
        carries(truth) >= path->mtu_bytes && round_trip_ns(plan, truth) < SHORT_NS &&
        outcome->ring_drops == 0) {
        return wrong(text, "path %u carries the full size, %u PINGs of others were sent", index,
                     truth->between);
    }
    return false;
}

/** Return the path to a process that the search should have chosen; -1: none. */
static int best_path(const struct plan *plan, const struct process *process)
{
    for (unsigned i = process->first; i < process->first + process->paths; i++) {
        if (!plan->path[i].indirect && plan->truth[i].leads &&
            right_mtu(&plan->truth[i], &plan->path[i]) != 0) {
            return (int)i;
        }
    }
    return -1;
}

/** Return true if the search has time to explore all paths to a process. */
static bool has_time(const struct plan *plan, const struct process *process)
{
    const uint64_t begin_ns = process->starts_ns - NS_PER_S; /* runs begin at one second */
    const uint64_t absent_ns = begin_ns + process->stall_ns;
    const uint64_t silence_ns = plan->path[process->first].silence_ns;

    return absent_ns + 3 * NS_PER_S < plan->timeout_ns &&
           (silence_ns == 0 || absent_ns == 0 || absent_ns + 3 * NS_PER_S / 2 < silence_ns);
}

/** Return true if the search is certain to wait long enough for the path's answer. */
static bool is_patient(const struct plan *plan, const struct process *process, unsigned index)
{
    const struct rawe_path *path = &plan->path[index];
    const uint64_t answer_ns = round_trip_ns(plan, &plan->truth[index]) + process->stall_ns;

    if (process->paths == 1 && !path->process_known) {
        return true;
    }
    if (path->process_known && process->starts_ns > NS_PER_S) {
        return false; /* impossible: known, but not there */
    }
    if (path->deprioritized || process->paths > 1) {
        return plan->loss_ppm == 0 && answer_ns < SHORT_NS;
    }
    return answer_ns < PATIENCE_NS / 4;
}

static bool check_process(const struct plan *plan, const struct process *process, char text[200])
{
    const int best = best_path(plan, process);

    if (best < 0 || !has_time(plan, process) || !is_patient(plan, process, (unsigned)best) ||
        plan->processes > 400) {
        return false;
    }
    const struct rawe_path *path = &plan->path[best];
    const uint32_t right = right_mtu(&plan->truth[best], path);
    /* The host may stop after a smaller size has passed and the right one was lost. */
    const bool unlucky = plan->loss_ppm != 0 && process->stall_ns > SIZES_NS / 2 &&
                         process->stall_from_ns > process->starts_ns + SIZES_BEGIN_NS &&
                         path->mtu_passed_bytes != 0 && path->mtu_passed_bytes < right;
    if (path->mtu_passed_bytes != right && !unlucky) {
        return wrong(text, "path %d should have been found to carry %u, not %u", best, right,
                     path->mtu_passed_bytes);
    }
    return false;
}

/** Check that each reachable process is reached, whatever processes precede it in the list. */
static bool check_crowd(const struct plan *plan, char text[200])
{
    for (unsigned i = 0; i < plan->processes && plan->timeout_ns >= 10 * NS_PER_S; i++) {
        const struct process *process = &plan->process[i];
        const int best = best_path(plan, process);
        if (best >= 0 && process->paths == 1 && !plan->late && !plan->stalls &&
            !plan->path[best].process_known && plan->path[best].mtu_passed_bytes == 0) {
            return wrong(text, "path %d of %u was not found", best, plan->paths);
        }
    }
    return false;
}

/** Return how long the search may take if no frame is lost, late or slow; UINT64_MAX: no limit. */
static uint64_t allowed_ns(const struct plan *plan, const struct outcome *outcome)
{
    uint64_t most_ns = 0;

    for (unsigned i = 0; i < plan->processes; i++) {
        const struct process *process = &plan->process[i];
        const struct rawe_path *head = &plan->path[process->first];
        const int best = best_path(plan, process);
        bool there = head->process_known;
        bool sizes = false; /* a path does not carry full-sized frames */
        bool dead = false;
        for (unsigned p = process->first; p < process->first + process->paths; p++) {
            const struct truth *truth = &plan->truth[p];
            there = there || truth->leads;
            if (!plan->path[p].indirect) {
                sizes = sizes || (truth->leads && carries(truth) < plan->path[p].mtu_bytes);
                if (truth->leads && right_mtu(truth, &plan->path[p]) == 0) {
                    return UINT64_MAX; /* its responder may start late: until the timeout */
                }
                dead = dead || !truth->leads;
            }
            if (round_trip_ns(plan, truth) > SHORT_NS) {
                return UINT64_MAX;
            }
        }
        if (!there && head->silence_ns == 0) {
            return UINT64_MAX; /* it may still start: until the timeout */
        }
        uint64_t needs_ns = !there ? head->silence_ns : sizes ? SIZES_NS : 0;
        if (there && dead) {
            needs_ns +=
                head->deprioritized || (best >= 0 && !sizes) ? PATIENCE_SHORT_NS : PATIENCE_NS;
        }
        most_ns = needs_ns > most_ns ? needs_ns : most_ns;
    }
    /* Add round trips, and delays by the pace. */
    return most_ns + 3 * SHORT_NS + outcome->pings / plan->burst_pings * 2 * NS_PER_MS;
}

bool plan_check(const struct plan *plan, const struct outcome *outcome, char text[200])
{
    if (outcome->spins) {
        return wrong(text, "the search wants to be woken at once");
    }
    if (outcome->end_ns > plan->timeout_ns) {
        return wrong(text, "took %" PRIu64 " us", outcome->end_ns / 1000);
    }
    if (outcome->window_pings > 2 * plan->burst_pings) {
        return wrong(text, "%u PINGs in 2 ms", outcome->window_pings);
    }
    /* With thousands of processes, answers from far and near may coincide by chance. */
    if (outcome->ring_drops > outcome->pings / 1000 && !plan->stalls && plan->duplicate_ppm == 0) {
        return wrong(text, "%" PRIu64 " answers found our own ring full", outcome->ring_drops);
    }
    for (unsigned i = 0; i < plan->paths; i++) {
        if (check_path(plan, outcome, i, text)) {
            return true;
        }
    }
    for (unsigned i = 0; i < plan->processes; i++) {
        if (check_process(plan, &plan->process[i], text)) {
            return true;
        }
    }
    if (check_crowd(plan, text)) {
        return true;
    }
    if (plan->loss_ppm == 0 && !plan->late && !plan->stalls &&
        outcome->end_ns > allowed_ns(plan, outcome)) {
        return wrong(text, "took %" PRIu64 " us where %" PRIu64 " would do", outcome->end_ns / 1000,
                     allowed_ns(plan, outcome) / 1000);
    }
    return false;
}
