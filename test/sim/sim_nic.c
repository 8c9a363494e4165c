/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * An interface of a node: its identity, its receive rings, and the engine behind it.
 */
#include <string.h>

#include "sim.h"

#include "net_engine.h"

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

void sim_nic_clear(struct sim_nic *nic)
{
    struct sim_queue *const queues[] = {&nic->ring, &nic->bulk, &nic->stray};
    struct sim_packet *packet;

    for (unsigned i = 0; i < 3; i++) {
        while ((packet = sim_queue_take(queues[i])) != NULL) {
            sim_packet_give(nic->node->sim, packet);
        }
    }
}

/**
 * Return the interface's random generator. The first interface uses the node's generator, so that
 * its draws stay the same when interfaces are added.
 */
static struct sim_random *random_of(struct sim_nic *nic)
{
    return nic->index == 0 ? &nic->node->random : &nic->random;
}

static uint32_t choose_payload(struct sim_nic *nic)
{
    const struct sim_plan *plan = &nic->node->sim->plan;
    uint64_t other = sim_random_between(random_of(nic), 256, plan->payload_max_bytes) & ~7ull;
    bool differs = sim_random_below(random_of(nic), 2) == 0;
    return plan->mixed_mtu && differs ? (uint32_t)other : plan->payload_max_bytes;
}

void sim_nic_init(struct sim_nic *nic, struct sim_node *node, unsigned index)
{
    struct sim *sim = node->sim;
    uint64_t seed = sim->options.seed;
    uint64_t stream = SIM_NICS_MAX * (uint64_t)node->index + index;

    nic->node = node;
    nic->index = index;
    nic->link = &node->host->links[index];
    memcpy(nic->mac,
           (uint8_t[]){2, 0, 0, (uint8_t)index, (uint8_t)(node->index >> 8), (uint8_t)node->index},
           RAWE_MAC_BYTES);
    nic->random = sim_random_stream(seed, 20000 + stream);
    nic->full = index == 0 ? sim_random_stream(seed, 1002 + 8ull * node->index)
                           : sim_random_stream(seed, 30000 + stream);
    nic->errors = sim_random_stream(seed, 50000 + stream);
    nic->strays = sim_random_stream(seed, 60000 + stream);
    nic->backlog_bytes = sim->plan.backlog_bytes;
    nic->payload_max_bytes = choose_payload(nic);
    nic->ring.tail = &nic->ring.first;
    nic->bulk.tail = &nic->bulk.first;
    nic->stray.tail = &nic->stray.first;
    nic->carrier = true;
    nic->newest_ns = net_zeroed((size_t)sim->plan.nodes * sim->plan.nics * sizeof(*nic->newest_ns));
}

void sim_nic_wire(struct sim_nic *nic)
{
    struct sim_random *random = nic->index == 0 ? &nic->node->trouble : &nic->random;

    unsigned slowness =
        sim_random_below(random, 2) == 0
            ? 1
            : (unsigned)sim_random_between(random, 1, nic->node->sim->plan.slowness_most);
    nic->link->slowness = nic->link->slowness != 0 ? nic->link->slowness : slowness;
    random = random_of(nic);
    nic->sends_batches = sim_random_below(random, 4) != 0;
    nic->batch_path = (enum sim_batch_path)sim_random_below(random, SIM_BATCH_PATHS);
    if ((nic->node->sim->plan.faults & SIM_BIT(STEADY)) != 0) {
        nic->batch_path %= SIM_BATCH_BLOCKED; /* engines notice a block after half a second */
    }
    nic->batches_until_ns = sim_random_scaled(random, 1000, 100000000);
    nic->single_frames_stay = sim_random_below(random, 2) == 0;
}

static void choose_identity(struct sim_nic *nic)
{
    struct sim_random *random = random_of(nic);

    nic->key = (uint32_t)sim_random_next(random);
    /* A new process often gets its predecessor's port. */
    if (nic->node->life == 1 || sim_random_below(random, 2) == 0) {
        nic->port = (uint16_t)sim_random_between(random, 1, 0xFFFF);
    }
}

uint32_t sim_nic_link_mbps(const struct sim_nic *nic)
{
    const struct sim_plan *plan = &nic->node->sim->plan;
    return plan->rates_known ? 8000000 / plan->ps_per_byte / nic->link->slowness : 0;
}

static uint64_t clock_of(void *context)
{
    return sim_node_clock(context);
}

/** rawe_engine_config.arrival_clock_ns: CLOCK_REALTIME, which can be set. */
static uint64_t arrival_clock_of(void *context)
{
    const struct sim_node *node = context;
    return sim_node_clock(node) + node->host->step_ns;
}

void sim_nic_start(struct sim_nic *nic)
{
    struct sim_node *node = nic->node;
    const struct sim_plan *plan = &node->sim->plan;
    struct rawe_output output = {.transmit = sim_channel_transmit, .context = nic};
    struct rawe_engine_config config = {
        .ethertype = RAWE_ETHERTYPE_DEFAULT,
        .jobid = 7,
        .vpid = node->index,
        .payload_max_bytes = nic->payload_max_bytes,
        .message_max_bytes = plan->message_max_bytes,
        .window_frames = plan->window_frames,
        .receive_frames = plan->receive_frames,
        .copy_max_bytes = plan->copy_max_bytes,
        .frames_limit = plan->frames_limit,
        .coalesce_from_frames = plan->coalesce_from_frames,
        .ack_delay_ns = plan->ack_delay_ns,
        .liveness.probe_least_ns = plan->probe_least_ns,
        .liveness.probe_most_ns = plan->probe_most_ns,
        .reorder_ns = plan->reorder_ns,
        .inflow_bytes = plan->inflow_bytes,
        .host = plan->processes > 1 ? &node->host->pull[nic->index] : NULL,
        .host_index = node->index % plan->processes,
        .link_mbps = sim_nic_link_mbps(nic),
        .liveness.peer_timeout_ns = plan->peer_timeout_ns,
        .liveness.idle_ns = plan->idle_ns,
        .handles = &node->handles,
        .table = &node->table,
        .deferral = &node->deferral,
        .streak_ns = plan->streak_ns,
        .clock_ns = clock_of,
        .arrival_clock_ns = plan->arrivals_known ? arrival_clock_of : NULL,
        .clock_context = node,
        .first_sequence = plan->first_sequence,
        .overtaken_most = plan->overtaken_most,
        .checksummed = plan->checksummed,
    };

    choose_identity(nic);
    memcpy(nic->published, nic->mac, RAWE_MAC_BYTES);
    config.port = nic->port;
    config.key = nic->key;
    memcpy(config.mac, nic->mac, RAWE_MAC_BYTES);
    nic->full_until_ns = 0;
    rawe_engine_init(&nic->engine, &config, &sim_channel_callbacks, nic, &output,
                     sim_node_clock(node));
    if (plan->reassembly_limit != 0) {
        nic->engine.reassembly_buffers.limit = plan->reassembly_limit;
    }
    sim_batch_enable(nic);
}

void sim_nic_stop(struct sim_nic *nic)
{
    rawe_engine_complete_deferred(&nic->engine); /* completes sends but delivers nothing */
    net_engine_stop(&nic->engine);
    memset(&nic->engine, 0, sizeof(nic->engine));
}

/** Return another running process of the host, or NULL. */
static struct sim_node *other_process(struct sim_node *node)
{
    const struct sim *sim = node->sim;
    uint32_t first = node->index - node->index % sim->plan.processes;

    for (uint32_t i = first; i < first + sim->plan.processes && i < sim->plan.nodes; i++) {
        if (i != node->index && sim->nodes[i].alive) {
            return &sim->nodes[i];
        }
    }
    return NULL;
}

/**
 * Return true if the packet reaches another process of the host, as happens while a process joins
 * or leaves a fanout group. The other process's filter would drop most of these frames, except
 * those that it passed earlier.
 */
static bool goes_astray(struct sim_nic *nic, struct sim_packet *packet)
{
    struct sim *sim = nic->node->sim;
    struct sim_node *other = other_process(nic->node);

    if (other == NULL || packet->batch || !sim_faults_on(sim)) {
        return false;
    }
    if (sim->now_ns >= nic->strays_until_ns) {
        if (!sim_strikes(sim, &nic->strays, sim->plan.stray_ppm)) {
            return false;
        }
        nic->strays_until_ns =
            sim->now_ns + sim_random_scaled(&nic->strays, 100, sim->plan.stray_ns);
    }
    if (other->nic_count > nic->index) {
        sim_queue_put(&other->nics[nic->index].stray, sim_packet_copy(sim, packet));
        sim_node_wake(other, sim->now_ns + 1);
    }
    sim_packet_lose(sim, packet, "it comes to another process");
    return true;
}

void sim_nic_arrive(struct sim_nic *nic, struct sim_packet *packet)
{
    struct sim_node *node = nic->node;
    struct sim *sim = node->sim;
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
            sim_route_answer(nic, &header, packet);
        }
        sim_packet_give(sim, packet);
        return;
    }
    if (goes_astray(nic, packet)) {
        return;
    }
    struct sim_queue *queue = packet->batch ? &nic->bulk : &nic->ring;
    if (queue->count >= sim->plan.ring_frames) {
        sim->incidents.ring_drops++;
        sim_packet_lose(sim, packet, "ring is full");
        return;
    }
    packet->arrived_ns = sim->now_ns;
    packet->step_ns = node->host->step_ns;
    sim_queue_put(queue, packet);
    sim_node_wake(node, sim->now_ns + 1 + sim_random_below(&node->random, sim->plan.poll_ns));
}

uint64_t sim_nic_time(const struct sim_nic *nic)
{
    const struct sim_node *node = nic->node;
    return node->sim->plan.clock_per_call ? sim_node_clock(node) : nic->engine.now_ns;
}

static void note_arrival(struct sim_nic *nic, const struct sim_packet *packet)
{
    rawe_engine_arriving(&nic->engine,
                         sim_node_clock_at(nic->node, packet->arrived_ns) + packet->step_ns);
}

/** Deliver what callbacks deferred before taking the next frame, like the component. */
static void deliver_deferred(struct rawe_engine *engine)
{
    if (rawe_engine_has_deferred(engine) && !engine->deferral->active) {
        rawe_engine_deliver_deferred(engine);
    }
}

/** Pass the frame in a buffer of exactly its length, so that sanitizers detect overruns. */
static void receive_frame(struct sim_nic *nic, const struct sim_packet *packet)
{
    uint8_t *bytes = net_new(packet->len_bytes);

    memcpy(bytes, packet->bytes, packet->len_bytes);
    rawe_engine_receive(&nic->engine, bytes, packet->len_bytes, sim_nic_time(nic));
    net_delete(bytes);
}

void sim_nic_receive(struct sim_nic *nic, unsigned budget)
{
    struct sim_node *node = nic->node;
    struct sim *sim = node->sim;
    char text[160];
    struct sim_packet *packet;
    struct sim_node *scarce = sim_memory_scarce(node);

    for (unsigned i = 0; i < budget && (packet = sim_queue_take(&nic->ring)) != NULL; i++) {
        node->local_ns += sim->plan.receive_cost_ns;
        sim_trace(sim, "n%u takes %s", node->index, sim_trace_frame(packet, text, sizeof(text)));
        sim_evidence_arrived(node, packet);
        note_arrival(nic, packet);
        receive_frame(nic, packet);
        sim_packet_give(sim, packet);
        deliver_deferred(&nic->engine);
    }
    /*
     * Empty the bulk queue after the ring but before sending answers: a PROBE in the ring may ask
     * about frames in the bulk queue, and an answer would wrongly indicate their loss.
     */
    while ((packet = sim_batch_take(nic)) != NULL) {
        if (sim_batch_intact(packet)) {
            note_arrival(nic, packet);
            (void)net_receive(&nic->engine, packet->bytes, packet->len_bytes, sim_nic_time(nic));
        }
        sim_packet_give(sim, packet);
        deliver_deferred(&nic->engine);
    }
    (void)sim_memory_scarce(scarce);
}

void sim_nic_service(struct sim_nic *nic)
{
    struct rawe_engine *engine = &nic->engine;
    struct sim_node *scarce = sim_memory_scarce(nic->node);

    if (sim_nic_waiting(nic) == 0 && rawe_timer_wheel_due(&engine->timers, sim_nic_time(nic))) {
        rawe_engine_advance(engine, sim_nic_time(nic));
    }
    if (rawe_engine_pending(engine)) {
        rawe_engine_flush(engine, sim_nic_time(nic));
    }
    (void)sim_memory_scarce(scarce);
}
