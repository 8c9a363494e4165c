/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Faults of hosts: computing programs, suspended hosts, clocks that jump, hosts that are cut off,
 * pulled cables, and memory shortage.
 */
#include <stdlib.h>

#include "sim.h"

#define SECOND 1000000000ull

/** Let the program compute, or be preempted; its responder still answers PINGs. */
static void pause_node(struct sim *sim, struct sim_node *node)
{
    uint64_t length_ns = sim_random_scaled(&node->pause, 1000, sim->plan.pause_most_ns);

    if (sim->departing) {
        length_ns %= sim->plan.peer_timeout_ns / 8; /* nodes wait for this node at the fence */
    }
    node->pauses_left--;
    node->pause_until_ns = node->local_ns + length_ns;
    sim_disturb(sim, node->pause_until_ns);
    if (sim->plan.thread_ns != 0) {
        node->thread_backoff = 1;
        sim_plan_event(sim, SIM_EVENT_THREAD, node->local_ns + sim->plan.thread_ns, node->index,
                       node->life);
    }
    /* The program receives deferred messages when it returns. */
    sim_node_wake(node, node->pause_until_ns);
    sim_trace(sim, "n%u computes for %llu us", node->index, (unsigned long long)length_ns / 1000);
}

/** Return an absence long enough for peers to give up a host. */
static uint64_t long_absence_ns(struct sim *sim, struct sim_random *random)
{
    const struct sim_plan *plan = &sim->plan;
    uint64_t least_ns = plan->peer_timeout_ns * 3 / 2 + 4 * plan->probe_most_ns;
    return sim_random_between(random, least_ns, 2 * least_ns);
}

/** From now on, allow a host and its peers to give each other up. */
static void isolate(struct sim *sim, struct sim_node *node)
{
    node->isolated = true;
    sim->incidents.isolated++;
}

/** Suspend the host, including its responder. */
static void freeze_node(struct sim *sim, struct sim_node *node)
{
    bool too_long = sim_random_below(&node->trouble, 3) == 0;
    uint64_t short_ns = sim_random_scaled(&node->trouble, 1000, sim->plan.peer_timeout_ns / 8);
    uint64_t long_ns = long_absence_ns(sim, &node->trouble);

    node->freezes_left--;
    node->frozen_until_ns = node->local_ns + (too_long ? long_ns : short_ns);
    if (node->pause_until_ns < node->frozen_until_ns) {
        node->pause_until_ns = node->frozen_until_ns;
    }
    sim_disturb(sim, node->frozen_until_ns);
    if (too_long) {
        isolate(sim, node);
    }
    sim_trace(sim, "n%u stands still for %llu us", node->index,
              (unsigned long long)(too_long ? long_ns : short_ns) / 1000);
}

static void maybe_jump(struct sim *sim, struct sim_node *node)
{
    if (node->jumps_left != 0 && sim_strikes(sim, &node->trouble, sim->plan.jump_ppm)) {
        uint64_t length_ns = sim_random_scaled(&node->trouble, 1000, sim->plan.jump_most_ns);
        node->jumps_left--;
        node->host->clock_offset_ns += length_ns;
        for (unsigned i = 0; i < sim->plan.nodes; i++) {
            struct sim_node *other = &sim->nodes[i];
            if (other != node && other->host == node->host && other->alive) {
                sim_node_wake(other, sim->now_ns); /* the node's timers expire earlier */
            }
        }
        sim_disturb(sim, node->local_ns);
        sim_trace(sim, "n%u: its clock jumps by %llu us", node->index,
                  (unsigned long long)length_ns / 1000);
    }
}

/** Maybe step the host's CLOCK_REALTIME, which timers do not use. */
static void maybe_step(struct sim *sim, struct sim_node *node)
{
    if (node->steps_left != 0 && sim_strikes(sim, &node->steps, sim->plan.step_ppm)) {
        uint64_t length_ns = sim_random_scaled(&node->steps, 1000, sim->plan.step_most_ns);
        bool back = sim_random_below(&node->steps, 2) == 0;
        node->steps_left--;
        node->host->step_ns += back ? 0 - length_ns : length_ns;
        sim_trace(sim, "n%u: arrivals are told %llu us %s", node->index,
                  (unsigned long long)length_ns / 1000, back ? "earlier" : "later");
    }
}

void sim_trouble_between(struct sim *sim, struct sim_node *node)
{
    const struct sim_plan *plan = &sim->plan;

    if (!sim_faults_on(sim)) {
        return;
    }
    maybe_jump(sim, node);
    maybe_step(sim, node);
    if (node->pauses_left != 0 && sim_strikes(sim, &node->pause, plan->pause_ppm)) {
        pause_node(sim, node);
    }
    if (node->freezes_left != 0 && sim_strikes(sim, &node->trouble, plan->freeze_ppm)) {
        freeze_node(sim, node);
    }
}

void sim_trouble_within(struct sim *sim, struct sim_node *node)
{
    if (!sim_faults_on(sim)) {
        return;
    }
    if (sim->plan.pause_ppm != 0 && sim_random_below(&node->pause, 64) == 0 && sim_incident(sim)) {
        /* Preempted between receiving and the rest: short enough to happen often. */
        node->local_ns += sim_random_scaled(&node->pause, 1000, 1000000);
    }
    maybe_jump(sim, node);
    maybe_step(sim, node);
}

/** Return the time within which all hosts stop, one after the other, and later continue. */
static uint64_t apart_ns(const struct sim_plan *plan)
{
    return plan->peer_timeout_ns < 8 * SECOND ? plan->peer_timeout_ns / 8 : SECOND;
}

/** Suspend all hosts, as one incident: a host suspended alone for as long would be given up. */
static void suspend_all(struct sim *sim)
{
    struct sim_random random = sim_random_stream(sim->options.seed, 25);
    const struct sim_plan *plan = &sim->plan;

    if (!sim_faults_on(sim) || !sim_incident(sim)) {
        return;
    }
    for (unsigned i = 0; i < plan->nodes; i++) {
        uint64_t stops_ns = sim->now_ns + sim_random_below(&random, apart_ns(plan));
        uint64_t goes_on_ns =
            sim->now_ns + plan->suspended_ns + sim_random_below(&random, apart_ns(plan));
        sim_plan_event(sim, SIM_EVENT_SUSPEND, stops_ns, i, goes_on_ns);
    }
}

void sim_trouble_suspend(struct sim *sim, struct sim_node *node, uint64_t until_ns)
{
    if (until_ns == 0) {
        suspend_all(sim);
        return;
    }
    if (node->frozen_until_ns < until_ns) {
        node->frozen_until_ns = until_ns;
    }
    if (node->pause_until_ns < until_ns) {
        node->pause_until_ns = until_ns;
    }
    sim_disturb(sim, until_ns);
    sim_trace(sim, "n%u is suspended", node->index);
    if (node->alive) {
        node->wake_ns = UINT64_MAX;
        sim_node_wake(node, until_ns);
    }
}

/** Plan a fault of a random host at a random time after `from_ns`; `choice`: draw details. */
static void plan_trouble(struct sim *sim, struct sim_random *random, enum sim_event_kind kind,
                         uint64_t from_ns, bool choice)
{
    uint64_t late_ns = sim_random_scaled(random, 1000, sim->faults_end_ns - from_ns);
    uint32_t node = (uint32_t)sim_random_below(random, sim->plan.nodes);

    sim_plan_event(sim, kind, from_ns + late_ns, node, choice ? sim_random_next(random) : 0);
}

/** Return when the interface's cable is plugged in again; 0: it may stay pulled. */
static uint64_t pulled_until_ns(const struct sim *sim, const struct sim_nic *nic)
{
    return nic->index == sim->plan.pull_longest ? 0 : nic->pulled_until_ns;
}

uint64_t sim_trouble_plugged_ns(const struct sim *sim)
{
    uint64_t latest_ns = sim->now_ns;

    for (unsigned i = 0; i < sim->plan.nodes; i++) {
        for (unsigned nic = 0; nic < sim->nodes[i].nic_count; nic++) {
            uint64_t until_ns = pulled_until_ns(sim, &sim->nodes[i].nics[nic]);
            latest_ns = until_ns > latest_ns ? until_ns : latest_ns;
        }
    }
    return latest_ns;
}

void sim_trouble_plan_pulls(struct sim *sim, struct sim_random random, uint64_t from_ns)
{
    for (unsigned i = 0; i < sim->plan.pulls; i++) {
        plan_trouble(sim, &random, SIM_EVENT_PULL, from_ns, true);
    }
}

void sim_trouble_plan(struct sim *sim)
{
    struct sim_random deaths = sim_random_stream(sim->options.seed, 17);
    struct sim_random random = sim_random_stream(sim->options.seed, 20);

    for (unsigned i = 0; i < sim->plan.deaths; i++) {
        plan_trouble(sim, &deaths, SIM_EVENT_DEATH, 0, true);
    }
    sim_trouble_plan_pulls(sim, sim_random_stream(sim->options.seed, 27), 0);
    for (unsigned i = 0; i < sim->plan.severances; i++) {
        plan_trouble(sim, &random, SIM_EVENT_SEVER, 0, false);
    }
    if (sim->plan.suspended_ns != 0) {
        sim_plan_event(sim, SIM_EVENT_SUSPEND, sim_random_scaled(&random, 1000, sim->faults_end_ns),
                       0, 0);
    }
}

void sim_trouble_sever(struct sim *sim, struct sim_node *node)
{
    bool for_ever = sim_random_below(&node->trouble, 2) == 0;
    uint64_t length_ns = long_absence_ns(sim, &node->trouble);

    if (!sim_faults_on(sim) || node->isolated || !sim_incident(sim)) {
        return;
    }
    isolate(sim, node);
    if (for_ever) {
        node->cut_until_ns = UINT64_MAX;
        sim_trace(sim, "n%u is cut off forever", node->index);
        return;
    }
    node->cut_until_ns = sim->now_ns + length_ns;
    sim_disturb(sim, node->cut_until_ns);
    sim_trace(sim, "n%u is cut off for %llu ms", node->index,
              (unsigned long long)length_ns / 1000000);
}

/** Time until other routes have taken over from a cable that stays pulled. */
#define FAILOVER_NS (2 * SECOND)

/**
 * Longest pull while nodes are leaving. No two nodes may be without a route for a second, because a
 * finalizing node that is silent for that long is considered gone.
 */
#define DEPARTING_PULL_MOST_NS (SECOND / 20)

void sim_trouble_pull(struct sim *sim, struct sim_node *node, uint64_t choice)
{
    struct sim_random random = {choice};
    struct sim_nic *nic = &node->nics[sim_random_below(&random, node->nic_count)];
    bool seen = sim_random_below(&random, 2) == 0;
    bool for_ever = sim_random_below(&random, 3) == 0;
    bool lasts = sim_random_below(&random, 2) == 0;
    uint64_t short_ns = sim_random_scaled(&random, 1000, sim->plan.pull_most_ns);
    uint64_t long_ns = sim_random_scaled(&random, SECOND, 3 * sim->plan.peer_timeout_ns);

    if (!sim_faults_on(sim) || sim->now_ns < nic->pulled_until_ns || !sim_incident(sim)) {
        return;
    }
    short_ns = sim->departing ? short_ns % DEPARTING_PULL_MOST_NS : short_ns;
    /* Even if all cables with this number are pulled, any two hosts still have a route. */
    bool may_last = node->nic_count > 1 && nic->index == sim->plan.pull_longest;
    for_ever = for_ever && may_last;
    uint64_t length_ns = lasts && may_last ? long_ns : short_ns;
    sim->incidents.pulled++;
    nic->pulled_until_ns = for_ever ? UINT64_MAX : sim->now_ns + length_ns;
    /* Perhaps only one strand of a fiber is broken. */
    unsigned strand = seen ? 0 : sim_random_below(&random, 4);
    nic->pulled_in = strand != 1;
    nic->pulled_out = strand != 2;
    sim_disturb(sim, sim->now_ns + (may_last ? FAILOVER_NS : length_ns));
    sim_trace(sim, "n%u: cable %u is pulled%s%s%s%s", node->index, nic->index,
              for_ever ? " forever" : "", seen ? "" : ", and its carrier stays",
              nic->pulled_in ? "" : ", what comes passes",
              nic->pulled_out ? "" : ", what goes passes");
    if (seen) {
        sim_route_carrier(nic, false);
    }
    if (!for_ever) {
        sim_plan_event(sim, SIM_EVENT_PLUG, nic->pulled_until_ns, node->index, nic->index);
    }
}

void sim_trouble_plug(struct sim *sim, struct sim_nic *nic)
{
    sim_trace(sim, "n%u: cable %u is put back", nic->node->index, nic->index);
    sim_disturb(sim, sim->now_ns);
    if (!nic->carrier) {
        sim_route_carrier(nic, true);
    }
}

/* ---- memory shortage ---- */

/*
 * While an engine is receiving or running its timers, its allocations may fail (by the linker's
 * --wrap). The simulator's own allocations do not fail.
 */

/** Node whose engine's allocations may fail; NULL: all allocations succeed. */
static struct sim_node *scarce;

void *__real_malloc(size_t len_bytes);
void *__real_calloc(size_t count, size_t len_bytes);
void *__real_aligned_alloc(size_t alignment, size_t len_bytes);
void *__wrap_malloc(size_t len_bytes);
void *__wrap_calloc(size_t count, size_t len_bytes);
void *__wrap_aligned_alloc(size_t alignment, size_t len_bytes);

struct sim_node *sim_memory_scarce(struct sim_node *node)
{
    struct sim_node *before = scarce;

    scarce = node;
    return before;
}

static bool runs_out(void)
{
    struct sim *sim = scarce != NULL ? scarce->sim : NULL;

    if (sim == NULL || sim->plan.no_memory_ppm == 0 || !sim_faults_on(sim) ||
        !sim_strikes(sim, &scarce->memory, sim->plan.no_memory_ppm)) {
        return false;
    }
    sim->incidents.no_memory++;
    sim_trace(sim, "n%u gets no memory", scarce->index);
    return true;
}

void *__wrap_malloc(size_t len_bytes)
{
    return runs_out() ? NULL : __real_malloc(len_bytes);
}

void *__wrap_calloc(size_t count, size_t len_bytes)
{
    return runs_out() ? NULL : __real_calloc(count, len_bytes);
}

void *__wrap_aligned_alloc(size_t alignment, size_t len_bytes)
{
    return runs_out() ? NULL : __real_aligned_alloc(alignment, len_bytes);
}

void *net_new(size_t len_bytes)
{
    void *memory = __real_malloc(len_bytes != 0 ? len_bytes : 1);

    if (memory == NULL) {
        abort();
    }
    return memory;
}
