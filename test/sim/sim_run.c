/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * One run from its first event to its last: nodes work until all messages are settled, then end one
 * by one. Also the output of a run: the trace, with a line per event, and violations.
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sim.h"

/** Runs are small: a run with more events than this is in an endless loop. */
#define EVENTS_MOST 10000000u

/** Time for which runs continue after the last forged frame, to show its consequences. */
#define AFTER_LIES_NS 20000000u

/* ---- trace and violations ---- */

static const char *const type_names[] = {"?",       "DATA",  "BULK", "ACK",  "PROBE",
                                         "CONNECT", "CLOSE", "PING", "PONG", "SLICE"};

void sim_trace_line(struct sim *sim, const char *format, ...)
{
    va_list arguments;

    printf("%6llu.%09llu  ", (unsigned long long)(sim->now_ns / 1000000000u),
           (unsigned long long)(sim->now_ns % 1000000000u));
    va_start(arguments, format);
    vprintf(format, arguments);
    va_end(arguments);
    putchar('\n');
}

const char *sim_trace_frame(const struct sim_packet *packet, char *out, size_t out_bytes)
{
    struct rawe_header header;
    char ends[64];

    snprintf(ends, sizeof(ends), "n%u.%u -> n%u.%u", packet->source, packet->source_nic,
             packet->destination, packet->destination_nic);
    if (!sim_packet_header(packet, &header)) {
        snprintf(out, out_bytes, "%s a broken frame of %u bytes", ends, packet->len_bytes);
        return out;
    }
    snprintf(out, out_bytes, "%s %s %08x seq %u ack %u credit %u%s%s%s%s%s %u bytes", ends,
             type_names[header.type], header.connection_id, header.sequence, header.acknowledgement,
             header.credit, header.flags & RAWE_FLAG_ACK_NOW ? " ACK_NOW" : "",
             header.flags & RAWE_FLAG_PROBE_ANSWER ? " ANSWER" : "",
             header.flags & RAWE_FLAG_REPLY ? " REPLY" : "",
             header.flags & RAWE_FLAG_RESENT ? " RESENT" : "", packet->batch ? ", batch of" : ",",
             packet->len_bytes);
    return out;
}

struct sim *sim_running;

void net_fail(const char *invariant, const char *format, ...)
{
    struct sim *sim = sim_running;
    char what[320], text[512];
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(what, sizeof(what), format, arguments);
    va_end(arguments);
    snprintf(text, sizeof(text), "violates \"%s\" at %llu.%09llu s, event %llu: %s", invariant,
             (unsigned long long)(sim->now_ns / 1000000000u),
             (unsigned long long)(sim->now_ns % 1000000000u), (unsigned long long)sim->event_count,
             what);
    sim_trace(sim, "%s", text);
    sim->on_violation(sim, text);
    exit(EXIT_FAILURE);
}

/* ---- the run ---- */

static void mix(struct sim *sim, uint64_t value)
{
    sim->digest = (sim->digest ^ value) * 0x9E3779B97F4A7C15ull;
    sim->digest ^= sim->digest >> 29;
}

static void mix_packet(struct sim *sim, const struct sim_packet *packet)
{
    uint64_t words[3] = {0};
    size_t known = packet->len_bytes < RAWE_PAYLOAD_OFFSET ? 0 : sizeof(words);

    memcpy(words, packet->bytes + RAWE_ETH_HEADER_BYTES, known);
    mix(sim, words[0]);
    mix(sim, words[1]);
    mix(sim, words[2] + packet->len_bytes);
}

/**
 * Let a process die. Another process takes its place if the plan has restarts, but only half of the
 * time if the plan also has kills.
 */
static void death(struct sim *sim, const struct sim_event *event)
{
    struct sim_node *node = &sim->nodes[event->node];
    struct sim_random random = {event->value};
    bool kills = (sim->plan.faults & SIM_BIT(KILL)) != 0;
    bool restarts = (sim->plan.faults & SIM_BIT(RESTART)) != 0;
    uint64_t gap_ns = sim_random_scaled(&random, 1000, 1000000000);

    if (!node->alive || !sim_incident(sim)) {
        return;
    }
    sim_node_die(sim, node);
    if (restarts && (!kills || sim_random_below(&random, 2) == 0)) {
        sim->unborn++;
        sim_plan_event(sim, SIM_EVENT_BIRTH, sim->now_ns + gap_ns, event->node, 0);
    } else {
        node->app.operations_left = 0;
    }
}

static void dispatch(struct sim *sim, const struct sim_event *event)
{
    struct sim_node *node = &sim->nodes[event->node];

    sim->event_count++;
    mix(sim, event->at_ns ^ (uint64_t)event->kind << 56 ^ (uint64_t)event->node << 40);
    switch (event->kind) {
    case SIM_EVENT_SWITCH:
        mix_packet(sim, event->packet);
        if (event->packet->batch) {
            sim_batch_at_switch(sim, event->packet);
        } else {
            sim_net_at_switch(sim, event->packet);
        }
        break;
    case SIM_EVENT_ARRIVE:
        sim_nic_arrive(&node->nics[event->packet->destination_nic], event->packet);
        break;
    case SIM_EVENT_PROGRESS:
        if (node->alive && event->value == node->wake_number && event->at_ns == node->wake_ns) {
            sim_node_progress(sim, node);
        }
        break;
    case SIM_EVENT_PARTITION:
        sim_net_start_partition(sim);
        break;
    case SIM_EVENT_DEATH:
        death(sim, event);
        break;
    case SIM_EVENT_PULL:
        sim_trouble_pull(sim, node, event->value);
        break;
    case SIM_EVENT_PLUG:
        sim_trouble_plug(sim, &node->nics[event->value]);
        break;
    case SIM_EVENT_ADDRESS:
        sim_address_change(sim, node, event->value);
        break;
    case SIM_EVENT_LOSSY:
        sim_lossy_begin(sim);
        break;
    case SIM_EVENT_SHRINK:
        sim_shrink_begin(sim);
        break;
    case SIM_EVENT_SUSPEND:
        sim_trouble_suspend(sim, node, event->value);
        break;
    case SIM_EVENT_SEVER:
        sim_trouble_sever(sim, node);
        break;
    case SIM_EVENT_THREAD:
        sim_node_thread(sim, node, (uint32_t)event->value);
        break;
    case SIM_EVENT_FORGE:
        sim_forge(sim, (enum sim_forgery)event->value);
        break;
    case SIM_EVENT_BIRTH:
        if (sim->plan.suspended_ns != 0 && sim->now_ns < node->frozen_until_ns) {
            sim_plan_event(sim, SIM_EVENT_BIRTH, node->frozen_until_ns, event->node, 0);
            break;
        }
        sim->unborn--;
        sim_node_start(sim, node);
        break;
    default:
        abort();
    }
}

/** Let the nodes end at random times, now that all messages are settled. */
static void begin_end(struct sim *sim)
{
    struct sim_random random = sim_random_stream(sim->options.seed, 18);

    sim_trace(sim, "all is settled");
    if (!sim->plan.lying) {
        sim_check_counters(sim);
    }
    if (sim_depart_possible(sim)) {
        sim_depart_begin(sim);
        return;
    }
    sim->finishing = true;
    sim->faults_end_ns = 0;
    for (unsigned i = 0; i < sim->plan.nodes; i++) {
        struct sim_node *node = &sim->nodes[i];
        if (node->alive) {
            node->end_ns = sim->now_ns + sim_random_below(&random, 3000000);
            sim_node_wake(node, node->end_ns);
        }
    }
}

/** Return true if the run may end unfinished: a deceived node may wait forever. */
static bool lies_are_over(const struct sim *sim)
{
    uint64_t after_ns =
        sim->faults_end_ns > sim->disturbed_ns ? sim->faults_end_ns : sim->disturbed_ns;
    return sim->now_ns > after_ns + AFTER_LIES_NS && sim->unborn == 0;
}

/** Handle the next event. Returns false if there was none. */
static bool step(struct sim *sim)
{
    struct sim_event event;

    if (!sim_events_pop(&sim->events, &event)) {
        if (sim->plan.lying && !sim->finishing) {
            begin_end(sim); /* all wait for data that a forged frame acknowledged */
            return true;
        }
        return false;
    }
    sim->now_ns = event.at_ns;
    dispatch(sim, &event);
    if (sim->departing) {
        sim->finishing = sim_depart_over(sim);
        if (!sim->finishing) {
            sim_check_stalled(sim);
        }
    } else if (!sim->finishing) {
        bool in_flight = event.kind == SIM_EVENT_SWITCH || event.kind == SIM_EVENT_ARRIVE;
        if (sim->plan.lying ? lies_are_over(sim) : !in_flight && sim_check_quiet(sim)) {
            begin_end(sim);
        } else {
            sim_check_stalled(sim);
        }
    }
    if (sim->event_count > EVENTS_MOST) {
        net_fail("everything finishes", "no end after %u events", EVENTS_MOST);
    }
    return true;
}

static void check_end(struct sim *sim)
{
    if (!sim->finishing) {
        net_fail("everything finishes",
                 "nothing is planned any more, %u sends are open and %u messages undelivered",
                 sim->ledger.open, sim->ledger.undelivered);
    }
    for (unsigned i = 0; i < sim->plan.nodes; i++) {
        if (sim->nodes[i].alive) {
            net_fail("everything finishes", "n%u has not ended", i);
        }
    }
    if (sim->net.in_flight != 0) {
        abort(); /* the simulator has lost a packet */
    }
}

static void fill_result(const struct sim *sim, struct sim_result *result)
{
    /* Idle peers are checked throughout a run, however few frames it has. */
    bool counts = sim->calm && sim->plan.idle_ns == 0 && (sim->plan.faults & SIM_BIT(STEADY)) == 0;

    *result = sim->retired;
    result->calm_frames = counts ? result->frames : 0;
    result->calm_connections = counts ? sim->channels_opened : 0;
    for (unsigned kind = 0; kind < SIM_CONTROLS; kind++) {
        result->calm_control[kind] = counts ? result->control[kind] : 0;
    }
    result->events = sim->event_count;
    result->virtual_ns = sim->now_ns;
    result->messages = sim->ledger.deliveries;
    result->puts = sim->puts;
    result->lost = sim->incidents.lost;
    result->incidents = sim->incident_count;
    result->digest = sim->digest;
    result->nodes = sim->plan.nodes;
    result->nics = sim->plan.nics;
    result->faults = sim->plan.faults;
}

void sim_run(const struct sim_options *options, void (*on_violation)(struct sim *, const char *),
             struct sim_result *result)
{
    struct sim *sim = net_zeroed(sizeof(*sim));
    sim_running = sim;
    sim->options = *options;
    sim->on_violation = on_violation;
    sim_plan_make(&sim->plan, options);
    sim->faults_end_ns = sim->plan.faults_end_ns;
    sim->nodes = net_zeroed(sim->plan.nodes * sizeof(*sim->nodes));
    sim->hosts = aligned_alloc(_Alignof(struct sim_host), sim->plan.nodes * sizeof(*sim->hosts));
    memset(sim->hosts, 0, sim->plan.nodes * sizeof(*sim->hosts));
    sim_submit_init(sim);
    sim_net_init(sim);
    sim_trouble_plan(sim);
    sim_forge_plan(sim);
    sim_lossy_plan(sim);
    sim_shrink_plan(sim);
    sim_address_plan(sim);
    for (unsigned i = 0; i < sim->plan.nodes; i++) {
        sim_node_init(sim, &sim->nodes[i], i);
        sim_app_init(sim, &sim->nodes[i]);
    }
    while (step(sim)) {
    }
    sim_forge_free(sim);
    check_end(sim);
    fill_result(sim, result);
    for (unsigned i = 0; i < sim->plan.nodes; i++) {
        sim_node_free(&sim->nodes[i]);
    }
    free(sim->nodes);
    free(sim->hosts);
    sim_submit_free(sim);
    sim_access_free(sim);
    sim_transfer_free(sim);
    sim_events_free(&sim->events);
    sim_net_free(sim);
    free(sim);
}
