/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * A node: its process, and a progress loop like the component's.
 */
#include <stdlib.h>
#include <string.h>

#include "sim.h"

/** Cost of a progress call that finds nothing to do. */
#define IDLE_PROGRESS_NS 50u

/** Initial lead of the arrival clock, which counts from 1970 and is never set back below zero. */
#define FIRST_STEP_NS (1ull << 50)

/** Maximum wait between two flushes that send nothing. */
#define IDLE_BACKOFF_MOST_NS 10000000u

uint64_t sim_node_clock_at(const struct sim_node *node, uint64_t at_ns)
{
    uint64_t clock_ns = at_ns + node->host->clock_offset_ns;
    return clock_ns - clock_ns % node->sim->plan.clock_step_ns;
}

void sim_node_start(struct sim *sim, struct sim_node *node)
{
    node->life++;
    node->alive = true;
    node->muted = false;
    node->local_ns = node->busy_until_ns = sim->now_ns;
    for (unsigned i = 0; i < node->nic_count; i++) {
        sim_nic_start(&node->nics[i]);
    }
    rawe_handle_table_init(&node->handles, sim_random_next(&node->random));
    rawe_deferral_init(&node->deferral, sim->plan.deferred_most_bytes);
    node->wake_ns = UINT64_MAX;
    node->pause_until_ns = node->frozen_until_ns = 0;
    node->frames_new = node->frames_again = 0;
    memset(node->control, 0, sizeof(node->control));
    node->channels_most = 0;
    node->thread_mode = false;
    sim_route_start(node);
    sim_access_start(node);
    sim_trace(sim, "n%u starts, life %u, key %08x", node->index, node->life, node->nics[0].key);
    sim_node_wake(node, sim->now_ns);
}

/** Choose the node's number of interfaces: the planned number or, in some runs, fewer. */
static unsigned choose_nics(const struct sim *sim, uint32_t index)
{
    struct sim_random random = sim_random_stream(sim->options.seed, 40000 + (uint64_t)index);
    unsigned fewer = (unsigned)sim_random_between(&random, 1, sim->plan.nics);
    return sim->plan.mixed_nics ? fewer : sim->plan.nics;
}

void sim_node_init(struct sim *sim, struct sim_node *node, uint32_t index)
{
    uint64_t seed = sim->options.seed;

    node->sim = sim;
    node->index = index;
    node->random = sim_random_stream(seed, 1000 + 8ull * index);
    node->pause = sim_random_stream(seed, 1001 + 8ull * index);
    node->app.random = sim_random_stream(seed, 1003 + 8ull * index);
    node->trouble = sim_random_stream(seed, 1004 + 8ull * index);
    node->memory = sim_random_stream(seed, 1007 + 8ull * index);
    node->steps = sim_random_stream(seed, 70000 + (uint64_t)index);
    node->nesting_random = sim_random_stream(seed, 80000 + (uint64_t)index);
    node->host = &sim->hosts[index / sim->plan.processes];
    node->nic_count = choose_nics(sim, index);
    for (unsigned i = 0; i < node->nic_count; i++) {
        sim_nic_init(&node->nics[i], node, i);
    }
    uint64_t clock_offset_ns = sim_random_scaled(&node->random, 1u << 30, 1ull << 54);
    if (index % sim->plan.processes == 0) {
        node->host->clock_offset_ns = clock_offset_ns;
        node->host->step_ns = FIRST_STEP_NS;
    }
    node->pauses_left = sim->plan.pauses_most;
    node->freezes_left = node->jumps_left = 2;
    node->steps_left = 4;
    for (unsigned i = 0; i < node->nic_count; i++) {
        sim_nic_wire(&node->nics[i]);
    }
    node->end_ns = UINT64_MAX;
    node->current = net_zeroed(sim->plan.nodes * sizeof(*node->current));
    sim_node_start(sim, node);
}

void sim_node_free(struct sim_node *node)
{
    for (unsigned i = 0; i < node->nic_count; i++) {
        free(node->nics[i].newest_ns);
    }
    free(node->current);
    free(node->arena);
}

/** Add the engines' counters to the sums over processes that have ended. */
static void retire_counters(struct sim_node *node)
{
    struct sim_result *retired = &node->sim->retired;

    for (unsigned i = 0; i < node->nic_count; i++) {
        const struct rawe_counters *counters = &node->nics[i].engine.counters;
        retired->frames += counters->frames_sent;
        retired->resent += counters->frames_resent;
        retired->migrations += counters->migrations;
    }
    for (unsigned kind = 0; kind < SIM_CONTROLS; kind++) {
        retired->control[kind] += node->control[kind];
    }
}

/** Close all connections and free the engines. */
static void end_process(struct sim_node *node)
{
    for (unsigned i = 0; i < node->nic_count; i++) {
        sim_nic_clear(&node->nics[i]);
    }
    for (unsigned i = 0; i < node->nic_count; i++) {
        sim_route_close(&node->nics[i]);
    }
    sim_route_forget(node);
    sim_transfer_drop_all(node);
    sim_access_end(node);
    if (node->handles.in_use != 0) {
        net_fail("nothing leaks", "n%u at its end: %u handles left", node->index,
                 node->handles.in_use);
    }
    retire_counters(node);
    node->alive = false;
    for (unsigned i = 0; i < node->nic_count; i++) {
        sim_nic_stop(&node->nics[i]);
    }
    rawe_conn_table_free(&node->table);
    node->wake_ns = UINT64_MAX;
}

void sim_node_die(struct sim *sim, struct sim_node *node)
{
    sim_trace(sim, "n%u dies", node->index);
    sim->incidents.deaths++;
    sim->activity_ns = sim->now_ns;
    net_ledger_died(&sim->ledger, sim_node_process(node));
    sim_access_died(node);
    node->muted = true;
    node->alive = false;
    node->app.retry = NULL;
    node->app.open_sends = 0;
    end_process(node);
}

void sim_node_wake(struct sim_node *node, uint64_t at_ns)
{
    if (at_ns < node->busy_until_ns) {
        at_ns = node->busy_until_ns;
    }
    if (at_ns < node->pause_until_ns) {
        at_ns = node->pause_until_ns;
    }
    if (at_ns >= node->wake_ns) {
        return;
    }
    node->wake_ns = at_ns;
    sim_plan_event(node->sim, SIM_EVENT_PROGRESS, at_ns, node->index, ++node->wake_number);
}

static void note_timer(const struct rawe_timer *timer, uint64_t *earliest_ns)
{
    if (rawe_timer_armed(timer) && timer->deadline_ns < *earliest_ns) {
        *earliest_ns = timer->deadline_ns;
    }
}

/** Return when the earliest timer of the wheels expires, in virtual time. */
static uint64_t timer_due_ns(const struct sim_node *node)
{
    uint64_t earliest_ns = UINT64_MAX;
    unsigned armed = 0;

    for (unsigned i = 0; i < node->nic_count; i++) {
        armed += node->nics[i].engine.timers.armed;
        note_timer(&node->nics[i].engine.owing_timer, &earliest_ns);
    }
    if (armed == 0) {
        return UINT64_MAX;
    }
    for (const struct sim_channel *channel = node->channels; channel != NULL;
         channel = channel->next) {
        note_timer(&sim_conn(channel)->timer, &earliest_ns);
    }
    earliest_ns = ((earliest_ns >> RAWE_TIMER_TICK_SHIFT) + 1) << RAWE_TIMER_TICK_SHIFT;
    earliest_ns += node->sim->plan.clock_step_ns - 1;
    return earliest_ns > node->host->clock_offset_ns ? earliest_ns - node->host->clock_offset_ns
                                                     : 0;
}

bool sim_node_waiting(const struct sim_node *node)
{
    uint32_t waiting = 0;

    for (unsigned i = 0; i < node->nic_count; i++) {
        waiting += sim_nic_waiting(&node->nics[i]);
    }
    return waiting != 0;
}

bool sim_node_pending(const struct sim_node *node)
{
    bool pending = false;

    for (unsigned i = 0; i < node->nic_count; i++) {
        pending |= rawe_engine_pending(&node->nics[i].engine);
    }
    return pending;
}

static void plan_wake(struct sim *sim, struct sim_node *node)
{
    uint64_t soon_ns = node->local_ns + IDLE_PROGRESS_NS;
    uint64_t poll_ns = 1 + sim_random_below(&node->random, sim->plan.poll_ns);

    node->busy_until_ns = soon_ns;
    if (sim_node_waiting(node) || node->deferral.pending) {
        sim_node_wake(node, soon_ns);
    }
    if (sim_node_pending(node)) {
        /* Programs poll continuously; simulating polls without effect would only prolong runs. */
        if (node->local_ns != sim->now_ns) {
            node->idle_backoff_ns = 0; /* frames were received or sent */
        } else if (node->idle_backoff_ns < IDLE_BACKOFF_MOST_NS) {
            node->idle_backoff_ns = node->idle_backoff_ns * 2 + 1;
        }
        sim_node_wake(node, soon_ns + poll_ns + node->idle_backoff_ns);
    }
    uint64_t due_ns = timer_due_ns(node);
    if (due_ns != UINT64_MAX) {
        sim_node_wake(node, due_ns + poll_ns);
    }
    due_ns = sim_route_due_ns(node);
    if (due_ns != UINT64_MAX) {
        sim_node_wake(node, (due_ns > soon_ns ? due_ns : soon_ns) + poll_ns);
    }
    if (node->app.retry != NULL) {
        sim_node_wake(node, node->app.retry_ns + poll_ns);
    }
    if (node->app.operations_left != 0 && node->app.open_sends < sim->plan.sends_most) {
        sim_node_wake(node, node->app.next_ns + poll_ns);
    }
    if (sim->finishing) {
        sim_node_wake(node, node->end_ns);
    } else if (sim->departing && sim_depart_wake_ns(node) != UINT64_MAX) {
        sim_node_wake(node, sim_depart_wake_ns(node));
    }
}

/** The progress thread checks at growing intervals while it finds nothing to do. */
#define THREAD_BACKOFF_MOST 64u

/** It takes up to this many frames, or it would answer old PROBEs while new ones arrive. */
#define THREAD_FRAMES_MOST 256u

/** Frames that the progress thread takes from the ring before it checks the bulk queue. */
#define THREAD_ROUND_FRAMES 64u

/** Receive a bounded number of frames, and defer messages. Returns true if any frame arrived. */
static bool receive_for_later(struct sim_nic *nic)
{
    uint32_t before = sim_nic_waiting(nic);
    uint32_t left = before;

    while (left != 0 && before - left < THREAD_FRAMES_MOST &&
           !rawe_deferral_full(nic->engine.deferral)) {
        sim_nic_receive(nic, THREAD_ROUND_FRAMES);
        left = sim_nic_waiting(nic);
    }
    return left < before;
}

/** Make progress on an interface without calling the program. Returns true if work was done. */
static bool take_over(struct sim_nic *nic)
{
    struct rawe_engine *engine = &nic->engine;

    engine->now_ns = sim_node_clock(nic->node);
    rawe_engine_defer_begin(engine);
    bool useful = receive_for_later(nic) || rawe_engine_pending(engine);
    sim_nic_service(nic);
    rawe_engine_defer_end(engine);
    return useful;
}

void sim_node_thread(struct sim *sim, struct sim_node *node, uint32_t life)
{
    if (!node->alive || node->life != life || sim->now_ns >= node->pause_until_ns) {
        return;
    }
    bool useful = false;
    if (sim->now_ns >= node->frozen_until_ns && sim->now_ns >= node->local_ns) {
        node->thread_mode = node->in_thread = true;
        node->local_ns = sim->now_ns;
        useful = sim_route_check(node, false);
        for (unsigned i = 0; i < node->nic_count; i++) {
            useful = take_over(&node->nics[i]) || useful;
        }
        node->in_thread = false;
        sim_check_node(node);
        /* The program was waiting for the lock until now: both threads have the same clock. */
        node->busy_until_ns = node->local_ns;
        if (node->wake_ns < node->busy_until_ns) {
            node->wake_ns = UINT64_MAX;
            sim_node_wake(node, node->busy_until_ns);
        }
    }
    node->thread_backoff = useful ? 1 : node->thread_backoff * 2;
    if (node->thread_backoff > THREAD_BACKOFF_MOST) {
        node->thread_backoff = THREAD_BACKOFF_MOST;
    }
    uint64_t next_ns = sim->now_ns + sim->plan.thread_ns * node->thread_backoff;
    next_ns = next_ns < node->frozen_until_ns ? node->frozen_until_ns : next_ns;
    sim_plan_event(sim, SIM_EVENT_THREAD, next_ns, node->index, life);
}

/** Make progress on an interface, like the component. */
static void progress(struct sim *sim, struct sim_nic *nic)
{
    struct rawe_engine *engine = &nic->engine;

    engine->now_ns = sim_node_clock(nic->node);
    if (rawe_engine_has_deferred(engine)) {
        rawe_engine_deliver_deferred(engine);
    }
    sim_nic_receive(nic, sim->plan.receive_budget);
    sim_forge_receive(sim, nic);
    sim_trouble_within(sim, nic->node);
    sim_nic_service(nic);
}

/** Callbacks in callbacks that still make progress. */
#define NESTING_MOST 2u

void sim_node_nest(struct sim *sim, struct sim_node *node)
{
    if (sim->plan.nest_every == 0 || node->in_thread || node->deferral.active ||
        node->nesting == NESTING_MOST || node->ending || sim->finishing || !node->alive ||
        node->muted || sim_random_below(&node->nesting_random, sim->plan.nest_every) != 0) {
        return;
    }
    node->nesting++;
    for (unsigned i = 0; i < node->nic_count; i++) {
        struct sim_nic *nic = &node->nics[i];
        struct rawe_engine *engine = &nic->engine;
        if (!node->progressing) { /* a callback inside a call that sends */
            node->progressing = true;
            progress(sim, nic);
            node->progressing = false;
            continue;
        }
        engine->now_ns = sim_node_clock(node);
        rawe_engine_defer_begin(engine);
        sim_nic_receive(nic, sim->plan.receive_budget);
        sim_nic_service(nic);
        rawe_engine_defer_end(engine);
        rawe_engine_complete_deferred(engine);
    }
    node->nesting--;
}

void sim_node_progress(struct sim *sim, struct sim_node *node)
{
    node->wake_ns = UINT64_MAX;
    node->local_ns = sim->now_ns;
    (void)sim_route_check(node, true);
    node->progressing = true;
    for (unsigned i = 0; i < node->nic_count; i++) {
        progress(sim, &node->nics[i]);
    }
    node->progressing = false;
    bool departs = sim->departing && sim_depart_step(sim, node);
    if (!sim->departing) {
        sim_app_step(sim, node);
    }
    sim_check_node(node);
    if (departs || (sim->finishing && sim->now_ns >= node->end_ns && !node->ending)) {
        node->ending = true;
        end_process(node);
        return;
    }
    sim_trouble_between(sim, node);
    plan_wake(sim, node);
}
