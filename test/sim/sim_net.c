/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The network: a link from each interface to a switch and back, with a rate, a delay and bounded
 * buffers, and all faults that affect frames.
 */
#include <stdlib.h>
#include <string.h>

#include "sim.h"

#include "net_packet.h"

void sim_net_init(struct sim *sim)
{
    struct sim_net *net = &sim->net;
    uint64_t seed = sim->options.seed;

    net->loss = sim_random_stream(seed, 10);
    net->burst = sim_random_stream(seed, 11);
    net->duplicate = sim_random_stream(seed, 12);
    net->reorder = sim_random_stream(seed, 13);
    net->jitter = sim_random_stream(seed, 14);
    net->corrupt = sim_random_stream(seed, 15);
    net->partition = sim_random_stream(seed, 16);
    net->forge = sim_random_stream(seed, 19);
    net->side = net_zeroed(sim->plan.nodes);
    for (unsigned i = 0; i < sim->plan.partitions; i++) {
        uint64_t at_ns = sim_random_below(&net->partition, sim->plan.faults_end_ns);
        sim_plan_event(sim, SIM_EVENT_PARTITION, at_ns, 0, 0);
    }
}

void sim_net_free(struct sim *sim)
{
    free(sim->net.side);
}

struct sim_packet *sim_packet_take(struct sim *sim, uint32_t len_bytes)
{
    /* Short frames may have been padded. */
    uint32_t room_bytes = len_bytes < SIM_PADDED_BYTES ? SIM_PADDED_BYTES : len_bytes;
    struct sim_packet *packet = net_new(sizeof(*packet) + room_bytes);

    *packet = (struct sim_packet){.len_bytes = len_bytes};
    sim->net.in_flight++;
    return packet;
}

struct sim_packet *sim_packet_copy(struct sim *sim, const struct sim_packet *packet)
{
    struct sim_packet *copy = sim_packet_take(sim, packet->len_bytes);

    *copy = *packet;
    copy->next = NULL;
    memcpy(copy->bytes, packet->bytes, packet->len_bytes);
    return copy;
}

void sim_packet_give(struct sim *sim, struct sim_packet *packet)
{
    sim->net.in_flight--;
    net_delete(packet);
}

bool sim_packet_header(const struct sim_packet *packet, struct rawe_header *header)
{
    if (net_is_batch(packet->bytes, packet->len_bytes)) {
        return net_batch_header(packet->bytes, packet->len_bytes, header);
    }
    return packet->len_bytes >= RAWE_PAYLOAD_OFFSET &&
           rawe_header_decode(header, packet->bytes + RAWE_ETH_HEADER_BYTES,
                              packet->len_bytes - RAWE_ETH_HEADER_BYTES) == RAWE_DECODE_OK;
}

bool sim_packet_sequenced(const struct sim_packet *packet, const struct rawe_header *header)
{
    const uint8_t *payload = packet->bytes + RAWE_PAYLOAD_OFFSET;
    struct rawe_slice slice;

    if (header->type != RAWE_FRAME_SLICE) {
        return header->type == RAWE_FRAME_DATA || header->type == RAWE_FRAME_BULK;
    }
    return rawe_slice_decode(&slice, payload, header->payload_bytes) == RAWE_DECODE_OK &&
           slice.offset + header->payload_bytes - RAWE_SLICE_BYTES == slice.total_bytes;
}

void sim_packet_lose(struct sim *sim, struct sim_packet *packet, const char *why)
{
    char text[160];

    sim_trace(sim, "%s is lost: %s", sim_trace_frame(packet, text, sizeof(text)), why);
    sim->incidents.lost++;
    sim->incidents.lost_sequenced += packet->sequenced;
    sim_packet_give(sim, packet);
}

/** Return the time for which `len_bytes` occupy the interface's link. */
static uint64_t wire_time_ns(const struct sim_nic *nic, uint64_t len_bytes)
{
    return len_bytes * nic->node->sim->plan.ps_per_byte * nic->link->slowness / 1000 + 1;
}

bool sim_net_full(struct sim *sim, struct sim_nic *nic)
{
    uint64_t now_ns = nic->node->local_ns;

    if (now_ns < nic->full_until_ns) {
        return true;
    }
    if (sim_faults_on(sim) && sim_strikes(sim, &nic->full, sim->plan.full_ppm)) {
        nic->full_until_ns = now_ns + sim_random_scaled(&nic->full, 100, sim->plan.full_ns);
        /* An administrator may have changed the queue's length or replaced the queue. */
        nic->backlog_bytes = (uint32_t)sim_random_scaled(&nic->errors, sim->plan.backlog_bytes / 64,
                                                         sim->plan.backlog_bytes);
        return true;
    }
    return nic->link->wire_free_ns > now_ns &&
           nic->link->wire_free_ns - now_ns > wire_time_ns(nic, nic->backlog_bytes);
}

/** Return true if a port reports an error other than "full". Its frames are counted as sent. */
static bool fails(struct sim *sim, struct sim_nic *nic, bool bulk)
{
    uint64_t now_ns = nic->node->local_ns;

    if (!sim_faults_on(sim)) {
        return false;
    }
    if (now_ns >= nic->fails_until_ns[bulk] &&
        sim_strikes(sim, &nic->errors, sim->plan.error_ppm)) {
        nic->fails_until_ns[bulk] =
            now_ns + sim_random_scaled(&nic->errors, 100, sim->plan.error_ns);
    }
    return now_ns < nic->fails_until_ns[bulk];
}

void sim_net_send(struct sim *sim, struct sim_nic *nic, struct sim_packet *packet, uint64_t at_ns)
{
    char text[160];

    packet->source = nic->node->index;
    packet->source_nic = nic->index;
    if (fails(sim, nic, packet->batch)) {
        sim_packet_lose(sim, packet, "its port fails");
        return;
    }
    sim_trace(sim, "%s", sim_trace_frame(packet, text, sizeof(text)));
    if (nic->link->wire_free_ns < at_ns) {
        nic->link->wire_free_ns = at_ns;
    }
    nic->link->wire_free_ns += wire_time_ns(nic, packet->len_bytes);
    sim_events_push(&sim->events,
                    (struct sim_event){.at_ns = nic->link->wire_free_ns + sim->plan.delay_ns,
                                       .kind = SIM_EVENT_SWITCH,
                                       .node = packet->destination,
                                       .packet = packet});
}

void sim_net_start_partition(struct sim *sim)
{
    struct sim_net *net = &sim->net;
    uint64_t length_ns = sim_random_scaled(&net->partition, 1000, sim->plan.partition_most_ns);

    net->one_way = sim_random_below(&net->partition, 3) == 0;
    for (unsigned i = 0; i < sim->plan.nodes; i++) {
        net->side[i] = (uint8_t)sim_random_below(&net->partition, 2);
    }
    if (!sim_faults_on(sim) || !sim_incident(sim)) {
        return;
    }
    net->partition_until_ns = sim->now_ns + length_ns;
    sim_disturb(sim, net->partition_until_ns);
    sim_trace(sim, "the network falls apart for %llu us%s", (unsigned long long)length_ns / 1000,
              net->one_way ? ", one way" : "");
}

/** Return why the switch does not forward this frame, or NULL. */
static const char *misfortune(struct sim *sim, const struct sim_packet *packet)
{
    struct sim_net *net = &sim->net;
    const struct sim_node *from = &sim->nodes[packet->source];
    struct sim_node *node = &sim->nodes[packet->destination];
    struct sim_nic *to = &node->nics[packet->destination_nic];

    if (sim->now_ns < node->cut_until_ns || sim->now_ns < from->cut_until_ns) {
        return "cut off";
    }
    const struct sim_nic *out = &from->nics[packet->source_nic];
    if (!sim_address_takes(to, packet->bytes)) {
        return "no interface has that address";
    }
    if ((sim->now_ns < to->pulled_until_ns && to->pulled_in) ||
        (sim->now_ns < out->pulled_until_ns && out->pulled_out)) {
        return "its cable is pulled";
    }
    if (sim->now_ns < net->partition_until_ns &&
        net->side[packet->source] != net->side[packet->destination] &&
        (!net->one_way || net->side[packet->source] == 0)) {
        return "partition";
    }
    if (sim->now_ns < to->burst_until_ns) {
        return "burst";
    }
    if (sim_lossy_takes(sim, packet)) {
        return "its route is lossy";
    }
    if (sim_shrink_takes(sim, packet)) {
        return "it is too long";
    }
    if (!sim_faults_on(sim)) {
        return NULL;
    }
    if (sim_strikes(sim, &net->burst, sim->plan.burst_ppm)) {
        to->burst_until_ns = sim->now_ns + sim_random_scaled(&net->burst, 1000, sim->plan.burst_ns);
        return "burst begins";
    }
    return sim_strikes(sim, &net->loss, sim->plan.loss_ppm) ? "random loss" : NULL;
}

/** Change up to 8 bits of a frame, or one byte of a packet with TCP's checksum: see damage(). */
static void change_bytes(struct sim_random *random, struct sim_packet *packet)
{
    uint64_t bits = 8ull * (packet->len_bytes - RAWE_ETH_HEADER_BYTES);
    uint64_t count = sim_random_scaled(random, 1, 8);
    bool near = sim_random_below(random, 2) == 0; /* a burst within 32 bits */
    uint64_t first = sim_random_below(random, bits);
    uint8_t change = (uint8_t)sim_random_between(random, 1, 255);

    if (packet->batch) {
        packet->bytes[RAWE_ETH_HEADER_BYTES + first / 8] ^= change;
        return;
    }
    for (uint64_t i = 0; i < count; i++) {
        uint64_t bit = near ? first + sim_random_below(random, 32) : sim_random_below(random, bits);
        if (bit < bits) {
            packet->bytes[RAWE_ETH_HEADER_BYTES + bit / 8] ^= (uint8_t)(1u << (bit % 8));
        }
    }
}

/**
 * Truncate a frame or append bytes to it. Nothing is appended to a batch, because its IPv4 header
 * gives its length.
 */
static struct sim_packet *resize(struct sim *sim, struct sim_packet *packet)
{
    struct sim_random *random = &sim->net.corrupt;
    uint32_t before = packet->len_bytes;

    if (sim_random_below(random, 2) == 0) {
        packet->len_bytes = (uint32_t)sim_random_between(random, RAWE_ETH_HEADER_BYTES, before - 1);
        return packet;
    }
    uint32_t more = (uint32_t)sim_random_scaled(random, 1, 64);
    if (packet->batch) {
        return packet;
    }
    struct sim_packet *longer = sim_packet_take(sim, before + more);
    *longer = *packet;
    longer->len_bytes = before + more;
    memcpy(longer->bytes, packet->bytes, before);
    for (uint32_t i = 0; i < more; i++) { /* append padding, or a copy of the last bytes */
        longer->bytes[before + i] = more % 2 == 0 ? 0 : packet->bytes[before - 1 - i % before];
    }
    sim_packet_give(sim, packet);
    return longer;
}

/**
 * Damage a frame. TCP's checksum detects a changed byte but misses two changes that cancel out;
 * CRC32C misses at most one in 4 billion changes of up to 8 bits at these lengths. Returns NULL if
 * the frame is lost, because the network itself checks it.
 */
static struct sim_packet *damage(struct sim *sim, struct sim_packet *packet)
{
    struct sim_random *random = &sim->net.corrupt;
    uint32_t kinds = sim->plan.faults;
    bool resizes =
        (kinds & SIM_BIT(RESIZE)) != 0 &&
        ((kinds & (SIM_BIT(CORRUPT) | SIM_BIT(ECHO))) == 0 || sim_random_below(random, 2) == 0);
    bool echoes = !resizes && (kinds & SIM_BIT(ECHO)) != 0 &&
                  ((kinds & SIM_BIT(CORRUPT)) == 0 || sim_random_below(random, 2) == 0);

    if (packet->batch) {
        net_batch_sum(packet->bytes, packet->len_bytes);
    }
    if (echoes) {
        struct sim_packet *copy = sim_packet_copy(sim, packet);
        sim->incidents.duplicated++;
        sim_net_forward(sim, copy, sim_random_scaled(random, 1, 1000000));
        packet->sequenced = 0; /* the copy has the frames */
    }
    sim->incidents.corrupted++;
    if (sim->plan.checksummed) {
        sim_packet_lose(sim, packet, "its checksum is wrong");
        return NULL;
    }
    sim->incidents.lost_sequenced += packet->sequenced;
    packet->damaged_bytes = packet->len_bytes;
    sim_trace(sim, "the frame after that is damaged");
    if (resizes) {
        return resize(sim, packet);
    }
    change_bytes(random, packet);
    return packet;
}

void sim_net_forward(struct sim *sim, struct sim_packet *packet, uint64_t late_ns)
{
    struct sim_nic *to = &sim->nodes[packet->destination].nics[packet->destination_nic];
    uint64_t *newest_ns =
        &to->newest_ns[(size_t)packet->source * sim->plan.nics + packet->source_nic];
    uint64_t free_ns = to->link->port_free_ns > sim->now_ns ? to->link->port_free_ns : sim->now_ns;

    if (sim->plan.switch_bytes != 0 && free_ns - sim->now_ns + wire_time_ns(to, packet->len_bytes) >
                                           wire_time_ns(to, sim->plan.switch_bytes)) {
        sim_packet_lose(sim, packet, "no room at the switch");
        return;
    }
    to->link->port_free_ns = free_ns + wire_time_ns(to, packet->len_bytes);
    uint64_t arrival_ns = to->link->port_free_ns + sim->plan.delay_ns + late_ns;
    if (arrival_ns < *newest_ns) {
        sim->incidents.overtaken++;
    } else {
        *newest_ns = arrival_ns;
    }
    sim_events_push(&sim->events, (struct sim_event){.at_ns = arrival_ns,
                                                     .kind = SIM_EVENT_ARRIVE,
                                                     .node = packet->destination,
                                                     .packet = packet});
}

void sim_net_at_switch(struct sim *sim, struct sim_packet *packet)
{
    struct sim_net *net = &sim->net;
    const struct sim_plan *plan = &sim->plan;
    uint64_t late_ns = 0;

    const char *why = misfortune(sim, packet);
    if (why != NULL) {
        sim_packet_lose(sim, packet, why);
        return;
    }
    sim_forge_listen(sim, packet);
    if (sim_faults_on(sim)) {
        if (sim_strikes(sim, &net->duplicate, plan->duplicate_ppm)) {
            struct sim_packet *copy = sim_packet_copy(sim, packet);
            sim->incidents.duplicated++;
            sim_net_forward(sim, copy, sim_random_scaled(&net->duplicate, 1, 1000000));
        }
        if (sim_strikes(sim, &net->corrupt, plan->corrupt_ppm)) {
            packet = damage(sim, packet);
            if (packet == NULL) {
                return;
            }
        }
        if (sim_strikes(sim, &net->reorder, plan->reorder_ppm)) {
            late_ns += sim_random_scaled(&net->reorder, 100, plan->late_ns);
        }
        if (plan->jitter_ns != 0) {
            late_ns += sim_random_below(&net->jitter, plan->jitter_ns);
        }
    }
    sim_net_forward(sim, packet, late_ns);
}
