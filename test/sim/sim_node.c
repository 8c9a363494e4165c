/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * A node: the process on it, its receive ring, and its progress loop, which is the component's.
 */
#include <stdlib.h>
#include <string.h>

#include "sim.h"

#include "net_receive.h"

#include "net_engine.h"

/** A progress call that finds nothing to do. */
#define IDLE_PROGRESS_NS 50u

/** Longest wait between two flushes that achieve nothing. */
#define IDLE_BACKOFF_MOST_NS 10000000u

uint64_t sim_node_clock_at(const struct sim_node *node, uint64_t at_ns)
{
    uint64_t clock_ns = at_ns + node->clock_offset_ns;
    return clock_ns - clock_ns % node->sim->plan.clock_step_ns;
}

static void choose_identity(struct sim_node *node)
{
    node->life++;
    node->key = (uint32_t)sim_random_next(&node->random);
    /* A new process often gets the port of the one before. */
    if (node->life == 1 || sim_random_below(&node->random, 2) == 0) {
        node->port = (uint16_t)sim_random_between(&node->random, 1, 0xFFFF);
    }
}

static uint32_t choose_payload(const struct sim_plan *plan, struct sim_node *node)
{
    uint64_t other = sim_random_between(&node->random, 256, plan->payload_max_bytes) & ~7ull;
    bool differs = sim_random_below(&node->random, 2) == 0;
    return plan->mixed_mtu && differs ? (uint32_t)other : plan->payload_max_bytes;
}

void sim_node_start(struct sim *sim, struct sim_node *node)
{
    const struct sim_plan *plan = &sim->plan;
    struct rawe_output output = {.transmit = sim_channel_transmit, .context = node};
    struct rawe_engine_config config = {
        .ethertype = RAWE_ETHERTYPE_DEFAULT,
        .jobid = 7,
        .vpid = node->index,
        .payload_max_bytes = node->payload_max_bytes,
        .message_max_bytes = plan->message_max_bytes,
        .window_frames = plan->window_frames,
        .receive_frames = plan->receive_frames,
        .copy_max_bytes = plan->copy_max_bytes,
        .frames_limit = plan->frames_limit,
        .deferred_max_bytes = plan->deferred_most_bytes,
        .coalesce_from_frames = plan->coalesce_from_frames,
        .ack_delay_ns = plan->ack_delay_ns,
        .liveness.probe_least_ns = plan->probe_least_ns,
        .liveness.probe_most_ns = plan->probe_most_ns,
        .reorder_ns = plan->reorder_ns,
        .liveness.peer_timeout_ns = plan->peer_timeout_ns,
        .liveness.idle_ns = plan->idle_ns,
        .first_sequence = plan->first_sequence,
        .checksum = plan->checksum,
    };

    choose_identity(node);
    config.port = node->port;
    config.key = node->key;
    rawe_handle_table_init(&node->handles, sim_random_next(&node->random));
    config.handles = &node->handles;
    memcpy(config.mac, node->mac, RAWE_MAC_BYTES);
    node->alive = true;
    node->muted = false;
    node->local_ns = node->busy_until_ns = sim->now_ns;
    node->wake_ns = UINT64_MAX;
    node->pause_until_ns = node->full_until_ns = node->frozen_until_ns = 0;
    node->frames_new = node->frames_again = node->control = 0;
    node->channels_most = 0;
    node->thread_mode = false;
    if (!rawe_engine_init(&node->engine, &config, &sim_channel_callbacks, node, &output,
                          sim_node_clock(node))) {
        abort();
    }
    if (plan->reassembly_limit != 0) {
        node->engine.reassembly_buffers.limit = plan->reassembly_limit;
    }
    sim_batch_enable(node);
    sim_access_start(node);
    sim_trace(sim, "n%u starts, life %u, key %08x", node->index, node->life, node->key);
    sim_node_wake(node, sim->now_ns);
}

void sim_node_init(struct sim *sim, struct sim_node *node, uint32_t index)
{
    uint64_t seed = sim->options.seed;

    node->sim = sim;
    node->index = index;
    memcpy(node->mac, (uint8_t[]){2, 0, 0, 0, (uint8_t)(index >> 8), (uint8_t)index},
           RAWE_MAC_BYTES);
    node->random = sim_random_stream(seed, 1000 + 8ull * index);
    node->pause = sim_random_stream(seed, 1001 + 8ull * index);
    node->full = sim_random_stream(seed, 1002 + 8ull * index);
    node->app.random = sim_random_stream(seed, 1003 + 8ull * index);
    node->trouble = sim_random_stream(seed, 1004 + 8ull * index);
    node->payload_max_bytes = choose_payload(&sim->plan, node);
    node->clock_offset_ns = sim_random_scaled(&node->random, 1u << 30, 1ull << 54);
    node->pauses_left = sim->plan.pauses_most;
    node->freezes_left = node->jumps_left = 2;
    node->slowness = sim_random_below(&node->trouble, 2) == 0
                         ? 1
                         : (unsigned)sim_random_between(&node->trouble, 1, sim->plan.slowness_most);
    node->ring.tail = &node->ring.first;
    node->bulk.tail = &node->bulk.first;
    node->stray.tail = &node->stray.first;
    node->sends_batches = sim_random_below(&node->random, 4) != 0;
    node->batch_path = (enum sim_batch_path)sim_random_below(&node->random, SIM_BATCH_PATHS);
    node->batches_until_ns = sim_random_scaled(&node->random, 1000, 100000000);
    node->single_frames_stay = sim_random_below(&node->random, 2) == 0;
    node->end_ns = UINT64_MAX;
    node->newest_ns = calloc(sim->plan.nodes, sizeof(*node->newest_ns));
    node->current = calloc(sim->plan.nodes, sizeof(*node->current));
    if (node->newest_ns == NULL || node->current == NULL) {
        abort();
    }
    sim_node_start(sim, node);
}

void sim_node_free(struct sim_node *node)
{
    free(node->newest_ns);
    free(node->current);
    free(node->arena);
}

/** Add what the engine counted to what is kept of processes that have ended. */
static void retire_counters(struct sim_node *node)
{
    struct sim_result *retired = &node->sim->retired;
    const struct rawe_counters *counters = &node->engine.counters;

    retired->frames += counters->frames_sent;
    retired->resent += counters->frames_resent;
    retired->control += node->control;
}

void sim_queue_put(struct sim_queue *queue, struct sim_packet *packet)
{
    packet->next = NULL;
    *queue->tail = packet;
    queue->tail = &packet->next;
    queue->count++;
}

struct sim_packet *sim_queue_take(struct sim_queue *queue)
{
    struct sim_packet *packet = queue->first;
    if (packet != NULL) {
        queue->first = packet->next;
        queue->count--;
        if (queue->first == NULL) {
            queue->tail = &queue->first;
        }
    }
    return packet;
}

static void queue_clear(struct sim *sim, struct sim_queue *queue)
{
    struct sim_packet *packet;

    while ((packet = sim_queue_take(queue)) != NULL) {
        sim_packet_give(sim, packet);
    }
}

/** Close all connections and give the engine back. */
static void end_process(struct sim_node *node)
{
    queue_clear(node->sim, &node->ring);
    queue_clear(node->sim, &node->bulk);
    queue_clear(node->sim, &node->stray);
    while (node->channels != NULL) {
        sim_channel_close(node->channels);
    }
    sim_channel_forget_peers(node);
    sim_transfer_drop_all(node);
    sim_access_end(node);
    if (node->engine.serving.copied_bytes != 0) {
        net_fail("nothing leaks", "n%u at its end: copies of its window are left", node->index);
    }
    if (node->handles.in_use != 0) {
        net_fail("nothing leaks", "n%u at its end: %u handles left", node->index,
                 node->handles.in_use);
    }
    retire_counters(node);
    node->alive = false;
    rawe_engine_complete_deferred(&node->engine); /* nobody hears of it any more */
    net_engine_stop(&node->engine);
    memset(&node->engine, 0, sizeof(node->engine));
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
    sim_events_push(&node->sim->events, (struct sim_event){.at_ns = at_ns,
                                                           .kind = SIM_EVENT_PROGRESS,
                                                           .node = node->index,
                                                           .value = ++node->wake_number});
}

void sim_node_arrive(struct sim *sim, struct sim_node *node, struct sim_packet *packet)
{
    struct rawe_header header;

    if (!node->alive) {
        sim_packet_give(sim, packet);
        return;
    }
    if (!packet->batch && packet->len_bytes >= RAWE_PAYLOAD_OFFSET &&
        rawe_header_decode(&header, packet->bytes + RAWE_ETH_HEADER_BYTES,
                           packet->len_bytes - RAWE_ETH_HEADER_BYTES) == RAWE_DECODE_OK &&
        (header.type == RAWE_FRAME_PING || header.type == RAWE_FRAME_PONG)) {
        if (sim->now_ns >= node->frozen_until_ns) {
            sim_responder_receive(sim, node, &header, packet);
        }
        sim_packet_give(sim, packet);
        return;
    }
    struct sim_queue *queue = packet->batch ? &node->bulk : &node->ring;
    if (queue->count >= sim->plan.ring_frames) {
        sim->incidents.ring_drops++;
        sim_packet_lose(sim, packet, "ring is full");
        return;
    }
    sim_queue_put(queue, packet);
    sim_node_wake(node, sim->now_ns + 1 + sim_random_below(&node->random, sim->plan.poll_ns));
}

uint64_t sim_node_engine_time(const struct sim_node *node)
{
    return node->sim->plan.clock_per_call ? sim_node_clock(node) : node->engine.now_ns;
}

static void receive(struct sim *sim, struct sim_node *node, unsigned budget)
{
    char text[160];
    struct sim_packet *packet;

    for (unsigned i = 0; i < budget && (packet = sim_queue_take(&node->ring)) != NULL; i++) {
        node->local_ns += sim->plan.receive_cost_ns;
        sim_trace(sim, "n%u takes %s", node->index, sim_trace_frame(packet, text, sizeof(text)));
        sim_evidence_arrived(node, packet);
        rawe_engine_receive(&node->engine, packet->bytes, packet->len_bytes,
                            sim_node_engine_time(node));
        sim_packet_give(sim, packet);
    }
    /*
     * Bulk after the ring, and all of it, before anything is answered: a PROBE in the ring may ask
     * for frames in here, and its answer would be false evidence of their loss.
     */
    while ((packet = sim_batch_take(node)) != NULL) {
        (void)net_receive(&node->engine, packet->bytes, packet->len_bytes,
                          sim_node_engine_time(node));
        sim_packet_give(sim, packet);
    }
}

/** When the wheel will let its earliest timer expire, in virtual time. */
static uint64_t timer_due_ns(const struct sim_node *node)
{
    uint64_t earliest_ns = UINT64_MAX;

    if (node->engine.timers.armed == 0) {
        return UINT64_MAX;
    }
    for (const struct sim_channel *channel = node->channels; channel != NULL;
         channel = channel->next) {
        const struct rawe_timer *timer = &channel->conn->timer;
        if (rawe_timer_armed(timer) && timer->deadline_ns < earliest_ns) {
            earliest_ns = timer->deadline_ns;
        }
    }
    earliest_ns = ((earliest_ns >> RAWE_TIMER_TICK_SHIFT) + 1) << RAWE_TIMER_TICK_SHIFT;
    earliest_ns += node->sim->plan.clock_step_ns - 1;
    return earliest_ns > node->clock_offset_ns ? earliest_ns - node->clock_offset_ns : 0;
}

static void plan_wake(struct sim *sim, struct sim_node *node)
{
    uint64_t soon_ns = node->local_ns + IDLE_PROGRESS_NS;
    uint64_t poll_ns = 1 + sim_random_below(&node->random, sim->plan.poll_ns);

    node->busy_until_ns = soon_ns;
    if (node->ring.count != 0 || node->bulk.count != 0 || rawe_engine_has_deferred(&node->engine)) {
        sim_node_wake(node, soon_ns);
    }
    if (rawe_engine_pending(&node->engine)) {
        /* Programs poll without a break; where that is in vain, it would only make runs long. */
        if (node->local_ns != sim->now_ns) {
            node->idle_backoff_ns = 0; /* frames were taken or sent */
        } else if (node->idle_backoff_ns < IDLE_BACKOFF_MOST_NS) {
            node->idle_backoff_ns = node->idle_backoff_ns * 2 + 1;
        }
        sim_node_wake(node, soon_ns + poll_ns + node->idle_backoff_ns);
    }
    uint64_t due_ns = timer_due_ns(node);
    if (due_ns != UINT64_MAX) {
        sim_node_wake(node, due_ns + poll_ns);
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

/** As the component does: timers only with an empty ring, then what was put off. */
static void service(struct sim_node *node)
{
    struct rawe_engine *engine = &node->engine;

    if (node->ring.count == 0 && node->bulk.count == 0 &&
        rawe_timer_wheel_due(&engine->timers, sim_node_engine_time(node))) {
        rawe_engine_advance(engine, sim_node_engine_time(node));
    }
    if (rawe_engine_pending(engine)) {
        rawe_engine_flush(engine, sim_node_engine_time(node));
    }
}

/** The progress thread looks less and less often while it finds nothing to do. */
#define THREAD_BACKOFF_MOST 64u

/** It empties the ring, or it would answer old questions while new ones come. */
#define THREAD_FRAMES_MOST 256u

/** Frames out of the ring before the bulk queue is looked at. */
#define THREAD_ROUND_FRAMES 64u

/** Receive without bothering the program, within bounds. True when something came of it. */
static bool receive_for_later(struct sim *sim, struct sim_node *node)
{
    const struct rawe_engine *engine = &node->engine;
    uint32_t before = node->ring.count + node->bulk.count;
    uint32_t left = before;

    while (left != 0 && before - left < THREAD_FRAMES_MOST && !rawe_engine_defer_full(engine)) {
        receive(sim, node, THREAD_ROUND_FRAMES);
        left = node->ring.count + node->bulk.count;
    }
    return left < before;
}

void sim_node_thread(struct sim *sim, struct sim_node *node, uint32_t life)
{
    struct rawe_engine *engine = &node->engine;

    if (!node->alive || node->life != life || sim->now_ns >= node->pause_until_ns) {
        return;
    }
    bool useful = false;
    if (sim->now_ns >= node->frozen_until_ns && sim->now_ns >= node->local_ns) {
        node->thread_mode = true;
        node->local_ns = sim->now_ns;
        engine->now_ns = sim_node_clock(node);
        rawe_engine_defer_begin(engine);
        useful = receive_for_later(sim, node) || rawe_engine_pending(engine);
        service(node);
        rawe_engine_defer_end(engine);
        sim_check_node(node);
        /* The program waits for the lock: two threads of a process have one clock. */
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
    sim_events_push(&sim->events, (struct sim_event){.at_ns = next_ns,
                                                     .kind = SIM_EVENT_THREAD,
                                                     .node = node->index,
                                                     .value = life});
}

void sim_node_progress(struct sim *sim, struct sim_node *node)
{
    struct rawe_engine *engine = &node->engine;

    node->wake_ns = UINT64_MAX;
    node->local_ns = sim->now_ns;
    engine->now_ns = sim_node_clock(node);
    if (rawe_engine_has_deferred(engine)) {
        rawe_engine_deliver_deferred(engine);
    }
    receive(sim, node, sim->plan.receive_budget);
    sim_forge_receive(sim, node);
    sim_trouble_within(sim, node);
    service(node);
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
