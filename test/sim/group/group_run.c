/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * A run: frames cross the network, members are woken when they have asked to be, and time jumps
 * from event to event.
 */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/rawe_crc32c.h"
#include "group_run.h"
#include "net_harness.h"

/** A run that takes longer is considered endless. */
#define LONGEST_NS (300 * NS_PER_S)

/** In a run, this many control messages find no memory; more would only take time. */
#define REFUSED_MAX 50u

/** A frame, or some frames of a batch, in flight; each arrival holds a reference. */
struct sim_packet {
    uint32_t references;
    uint32_t len_bytes;
    uint32_t data; /**< number of DATA frames */
    uint32_t from; /**< sender of a control message */
    bool batch;
    bool control;
    uint8_t bytes[];
};

/** Kinds of events that have no packet. */
enum {
    WAKES, /**< the member is woken */
    SENDS, /**< the member sends its next message */
    ASKS,  /**< the member asks, after a long wait */
    LACKS, /**< the member asks if it lacks acknowledgements, and will do so again */
};

/** A message that is being sent. */
struct sending {
    struct rawe_group_send send; /**< must be first: `done` gets it */
    struct host *root;
    uint8_t data[];
};

void violate(struct run *run, const char *format, ...)
{
    if (run->outcome->violation[0] == 0) {
        va_list arguments;
        va_start(arguments, format);
        vsnprintf(run->outcome->violation, sizeof run->outcome->violation, format, arguments);
        va_end(arguments);
    }
}

/* Events. */

static void add_event(struct run *run, uint64_t at_ns, uint32_t member, uint32_t kind,
                      struct sim_packet *packet)
{
    sim_events_push(
        &run->events,
        (struct sim_event){.at_ns = at_ns, .kind = kind, .node = member, .packet = packet});
}

static void wake_by(struct host *host, uint64_t at_ns)
{
    if (at_ns < host->wake_ns) {
        host->wake_ns = at_ns;
        add_event(host->run, at_ns, host->self, WAKES, NULL);
    }
}

/* The network. */

static void release_packet(struct sim_packet *packet)
{
    if (--packet->references == 0) {
        free(packet);
    }
}

/** Send a copy of a multicast packet to one member. */
static void cross(struct run *run, struct sim_packet *packet, uint32_t to)
{
    const struct plan *plan = run->plan;
    const struct fate *fate = &plan->fate[to];
    struct host *host = &run->host[to];
    uint64_t late_ns =
        plan->jitter_ns == 0 ? 0 : sim_random_below(&run->random, plan->jitter_ns + 1);
    host->burst_left = run->now_ns < host->burst_until_ns ? host->burst_left : 0;
    if (host->burst_left == 0 && sim_random_chance(&run->random, plan->burst_ppm)) {
        host->burst_left = 1 + (uint32_t)sim_random_below(&run->random, 50);
        host->burst_until_ns = run->now_ns + NS_PER_S;
    }
    if ((run->now_ns >= fate->deaf_from_ns && run->now_ns < fate->deaf_until_ns) ||
        host->burst_left != 0 || sim_random_chance(&run->random, plan->loss_ppm)) {
        host->burst_left -= host->burst_left != 0;
        run->outcome->missed += packet->data;
        return;
    }
    run->outcome->missed += late_ns >= RAWE_GROUP_NACK_NS / 2 ? packet->data : 0;
    packet->references++;
    add_event(run, run->now_ns + plan->delay_ns + late_ns, to, WAKES, packet);
    if (sim_random_chance(&run->random, plan->duplicate_ppm)) {
        packet->references++;
        add_event(run, run->now_ns + plan->delay_ns + sim_random_below(&run->random, NS_PER_MS), to,
                  WAKES, packet);
    }
}

static bool link_takes(struct host *host)
{
    struct run *run = host->run;
    if (run->now_ns >= host->full_until_ns &&
        sim_random_chance(&run->random, run->plan->full_ppm)) {
        host->full_until_ns = run->now_ns + sim_random_between(&run->random, 1, NS_PER_MS);
    }
    if (run->now_ns < host->full_until_ns) {
        wake_by(host, host->full_until_ns);
        return false;
    }
    return true;
}

static bool decode(const struct sim_packet *packet, struct rawe_group_header *header)
{
    return (packet->batch ? rawe_group_batch_decode(header, packet->bytes, RAWE_BATCH_HEADER_BYTES,
                                                    packet->len_bytes - RAWE_BATCH_HEADER_BYTES)
                          : rawe_group_header_decode(header, packet->bytes, packet->len_bytes)) ==
           RAWE_DECODE_OK;
}

static struct sim_packet *packet_of(const uint8_t *bytes, size_t len_bytes)
{
    struct sim_packet *packet = net_new(sizeof *packet + len_bytes);
    *packet = (struct sim_packet){.references = 1, .len_bytes = (uint32_t)len_bytes};
    memcpy(packet->bytes, bytes, len_bytes);
    return packet;
}

static void put_on_wire(struct host *host, const struct rawe_bytes *frame)
{
    struct run *run = host->run;
    struct sim_packet *packet = packet_of(frame->base, frame->len_bytes);
    struct rawe_group_header header;
    if (rawe_group_header_decode(&header, packet->bytes, frame->len_bytes) != RAWE_DECODE_OK ||
        header.sender != host->self || header.payload_bytes > run->plan->payload_bytes) {
        violate(run, "member %u sends a frame that is none", host->self);
    }
    packet->data = 1;
    if (run->trace) {
        printf("%12" PRIu64 " ns  %u: frame, flags %02x sequence %u, %u bytes\n", run->now_ns,
               host->self, header.flags, header.sequence, header.payload_bytes);
    }
    const bool lost = sim_random_chance(&run->random, run->plan->shared_ppm);
    for (uint32_t i = 0; i < run->plan->members; i++) {
        if (i != host->self && lost) {
            run->outcome->missed++;
        } else if (i != host->self) {
            cross(run, packet, i);
        }
    }
    release_packet(packet);
}

/**
 * Send a control message over a connection: it arrives exactly once, after a random delay, and
 * later messages may overtake it.
 */
static bool send_control(void *context, uint32_t to, const uint8_t *bytes, size_t len_bytes)
{
    struct host *host = context;
    struct run *run = host->run;
    const struct plan *plan = run->plan;
    struct rawe_group_control control;
    const bool late = sim_random_chance(&run->random, plan->late_ppm);
    const uint64_t late_ns = late ? sim_random_below(&run->random, plan->late_ns + 1) : 0;
    struct sim_packet *packet = packet_of(bytes, len_bytes);
    packet->control = true;
    packet->from = host->self;
    if (to >= plan->members || to == host->self ||
        rawe_group_control_decode(&control, packet->bytes, len_bytes) != RAWE_DECODE_OK) {
        violate(run, "member %u sends a control message that is none", host->self);
        free(packet);
        return false;
    }
    if (control.type == RAWE_GROUP_NACK && known_too_early(&host->known, &control, run->now_ns)) {
        violate(run, "member %u asks for what may only be late", host->self);
    }
    if (run->trace) {
        printf("%12" PRIu64 " ns  %u to %u: control %u flags %02x root %u sequence %u piece %u\n",
               run->now_ns, host->self, to, control.type, control.flags, control.root,
               control.sequence, control.piece);
    }
    if (run->refused < REFUSED_MAX && sim_random_chance(&run->random, plan->poor_ppm)) {
        run->refused++;
        free(packet);
        return false;
    }
    add_event(run, run->now_ns + plan->delay_ns + late_ns, to, WAKES, packet);
    return true;
}

static void put_batch_on_wire(struct host *host, const uint8_t *head, const struct rawe_bytes *data,
                              uint32_t segment_bytes)
{
    struct run *run = host->run;
    struct rawe_group_header header;
    if (rawe_group_batch_decode(&header, head, RAWE_BATCH_HEADER_BYTES, data->len_bytes) !=
            RAWE_DECODE_OK ||
        header.sender != host->self || header.segment_bytes != run->plan->segment_bytes ||
        segment_bytes != (rawe_group_frames(&header) == 1 ? 0 : header.segment_bytes)) {
        violate(run, "member %u sends a batch that is none", host->self);
    }
    if (run->trace) {
        printf("%12" PRIu64 " ns  %u: batch, flags %02x sequence %u, %u bytes\n", run->now_ns,
               host->self, header.flags, header.sequence, header.payload_bytes);
    }
    const bool lost = sim_random_chance(&run->random, run->plan->shared_ppm);
    for (uint32_t i = 0; i < run->plan->members; i++) {
        /* The device cuts the batch into frames; receivers merge some of them again. */
        uint32_t at_bytes = i == host->self ? header.payload_bytes : 0;
        while (at_bytes < header.payload_bytes) {
            const uint32_t frames = 1 + (uint32_t)sim_random_below(&run->random, 64);
            const uint32_t left_bytes = header.payload_bytes - at_bytes;
            const uint32_t bytes = frames * header.segment_bytes < left_bytes
                                       ? frames * header.segment_bytes
                                       : left_bytes;
            struct sim_packet *packet = net_new(sizeof *packet + RAWE_BATCH_HEADER_BYTES + bytes);
            *packet = (struct sim_packet){.references = 1,
                                          .len_bytes = RAWE_BATCH_HEADER_BYTES + bytes,
                                          .batch = true,
                                          .data = (bytes - 1) / header.segment_bytes + 1};
            memcpy(packet->bytes, head, RAWE_BATCH_HEADER_BYTES);
            memcpy(packet->bytes + RAWE_BATCH_HEADER_BYTES, (uint8_t *)data->base + at_bytes,
                   bytes);
            rawe_put32(packet->bytes + 4, at_bytes);
            if (lost) {
                run->outcome->missed += packet->data;
            } else {
                cross(run, packet, i);
            }
            release_packet(packet);
            at_bytes += bytes;
        }
    }
}

static bool batch(void *context, uint8_t *head, const struct rawe_bytes *data,
                  uint32_t segment_bytes)
{
    const bool takes = link_takes(context);
    if (takes) {
        put_batch_on_wire(context, head, data, segment_bytes);
    }
    return takes;
}

static bool multicast(void *context, const struct rawe_bytes *frame)
{
    const bool takes = link_takes(context);
    if (takes) {
        put_on_wire(context, frame);
    }
    return takes;
}

/* Programs. */

static uint8_t content(uint32_t root, uint32_t message, uint32_t at_bytes)
{
    uint32_t mix = (root * 0x9E3779B9u + message) * 0x85EBCA6Bu + at_bytes / 8 * 0xC2B2AE35u;
    return (uint8_t)(mix >> 24 ^ at_bytes);
}

/** Return a root's message with this number, or NULL. */
static const struct order *order_of(const struct plan *plan, uint32_t root, uint32_t message)
{
    for (uint32_t i = 0; i < plan->orders; i++) {
        if (plan->order[i].root == root && message-- == 0) {
            return &plan->order[i];
        }
    }
    return NULL;
}

/** Return a destination for the next part or, at random, NULL to leave the part in its frame. */
static uint8_t *place(void *context, const struct rawe_group_part *part)
{
    struct host *host = context;
    if (part->at_bytes != host->at_bytes[part->root]) {
        violate(host->run, "a place for the wrong part of a message of %u", part->root);
    }
    return sim_random_below(&host->run->random, 4) == 0 ? NULL : host->place;
}

static bool deliver(void *context, const struct rawe_group_part *part)
{
    struct host *host = context;
    struct run *run = host->run;
    const uint32_t message = host->delivered[part->root];
    const uint64_t ready_ns = run->plan->fate[host->self].refuses_until_ns;
    if (run->now_ns < ready_ns) {
        wake_by(host, ready_ns);
        return false;
    }
    if (sim_random_chance(&run->random, run->plan->refuse_ppm)) {
        wake_by(host, run->now_ns + sim_random_between(&run->random, 1, NS_PER_MS));
        return false;
    }
    const struct order *order = order_of(run->plan, part->root, message);
    if (message >= run->host[part->root].sends || order == NULL ||
        part->total_bytes != order->len_bytes || part->at_bytes != host->at_bytes[part->root]) {
        violate(run, "member %u gets the wrong part of message %u of %u", host->self, message,
                part->root);
    }
    for (uint32_t i = 0; i < part->len_bytes; i++) {
        if (part->data[i] != content(part->root, message, part->at_bytes + i)) {
            violate(run, "member %u: byte %u of message %u of %u is wrong", host->self,
                    part->at_bytes + i, message, part->root);
            break;
        }
    }
    if (part->last && !run->plan->deaf && run->plan->jitter_ns == 0 && run->plan->burst_ppm == 0) {
        violate(run, "member %u gets a last message, and all hear", host->self);
    }
    run->came_ns = run->now_ns;
    host->at_bytes[part->root] += part->len_bytes;
    if (host->at_bytes[part->root] == part->total_bytes) {
        host->at_bytes[part->root] = 0;
        host->delivered[part->root]++;
    }
    return true;
}

static void done(struct rawe_group_send *send)
{
    struct sending *sending = (struct sending *)send;
    memset(sending->data, 0xEE, send->len_bytes); /* the engine has released the memory */
    sending->root->done++;
    free(sending);
}

/** Send a root's next message. */
static void send_next(struct run *run, struct host *host)
{
    const struct order *order = order_of(run->plan, host->self, host->sends);
    const uint32_t len_bytes = order->len_bytes;
    struct sending *sending = net_new(sizeof *sending + len_bytes);
    *sending = (struct sending){.send = {.done = done,
                                         .len_bytes = len_bytes,
                                         .may_wait = order->may_wait && !order->batches,
                                         .batches = order->batches},
                                .root = host};
    sending->send.data = sending->data;
    for (uint32_t i = 0; i < len_bytes; i++) {
        sending->data[i] = content(host->self, host->sends, i);
    }
    host->sends++;
    if (!rawe_group_send(&host->group, &sending->send, run->now_ns)) {
        violate(run, "member %u cannot send", host->self);
    }
    if (host->group.held_ns != 0 && (!order->may_wait || run->plan->share_from == 0 ||
                                     host->group.sent - host->group.base < run->plan->share_from)) {
        violate(run, "member %u holds a frame back", host->self);
    }
}

/** As the owner does, ask for acknowledgements at intervals, until all messages have them. */
static void ask_as_root(struct run *run, struct host *host)
{
    const struct rawe_group *group = &host->group;
    if (group->base != group->sent) {
        rawe_group_ask(&host->group, RAWE_GROUP_ALL);
    }
    if (group->base != group->next || group->first != NULL ||
        order_of(run->plan, host->self, host->sends) != NULL) {
        add_event(run, run->now_ns + ASK_NS, host->self, LACKS, NULL);
    }
}

static void start(struct run *run, uint32_t self)
{
    const struct plan *plan = run->plan;
    struct host *host = &run->host[self];
    const struct rawe_group_config config = {
        .id = plan->id,
        .members = plan->members,
        .self = self,
        .payload_bytes = plan->payload_bytes,
        .segment_bytes = plan->segment_bytes,
        .window_frames = plan->window_frames,
        .share_from = plan->share_from,
        .deliver = deliver,
        .place = place,
        .context = host,
        .output = {multicast, batch, send_control, &plan->batch_bytes, host},
        .counters = &host->counters,
    };
    rawe_group_init(&host->group, &config);
    host->started = true;
}

/* The run. */

/** Let a member leave if it is allowed to. It sends nothing afterwards. */
static void depart(struct run *run, struct host *host)
{
    host->left = host->left ||
                 (run->plan->unfenced && check_has_all(run, host) && rawe_group_done(&host->group));
}

static uint64_t dropped(const struct rawe_group_counters *counters)
{
    return counters->dropped_decode + counters->dropped_group + counters->dropped_member +
           counters->dropped_checksum + counters->dropped_outside;
}

static void take_in(struct host *host, const uint8_t *bytes, uint32_t len_bytes, bool is_batch)
{
    const uint32_t data_bytes = is_batch ? len_bytes - RAWE_BATCH_HEADER_BYTES : 0;
    struct rawe_group_header header;
    const uint8_t *payload = NULL;
    if (!is_batch) {
        payload = rawe_group_read(&header, bytes, len_bytes, &host->counters);
    } else if (rawe_group_batch_decode(&header, bytes, RAWE_BATCH_HEADER_BYTES, data_bytes) ==
               RAWE_DECODE_OK) {
        uint8_t *placed = rawe_group_place(&host->group, &header);
        payload = bytes + RAWE_BATCH_HEADER_BYTES;
        payload = placed == NULL ? payload : memcpy(placed, payload, data_bytes);
    }
    if (payload != NULL) {
        rawe_group_receive(&host->group, &header, payload, host->run->now_ns);
    }
}

/** Give a member a forged frame, a real one with one wrong field, which it must drop. */
static void forge(struct run *run, const struct sim_packet *packet, struct host *host)
{
    struct rawe_group_header header;
    uint8_t *bytes = net_new(packet->len_bytes);
    memcpy(bytes, packet->bytes, packet->len_bytes);
    if (decode(packet, &header)) {
        switch (sim_random_below(&run->random, 4)) {
        case 0: /* frame of another group */
            header.id ^= 1ull << sim_random_below(&run->random, 64);
            break;
        case 1:
            header.sender =
                (uint16_t)sim_random_between(&run->random, run->plan->members, UINT16_MAX);
            break;
        case 2:
            header.sender = (uint16_t)host->self;
            break;
        default:
            header.sequence +=
                (uint32_t)sim_random_between(&run->random, 2 * RAWE_WINDOW_FRAMES_MAX, 1u << 30);
            break;
        }
        const size_t covered_bytes = RAWE_GROUP_HEADER_BYTES + header.payload_bytes;
        const uint64_t dropped_before = dropped(&host->counters);
        packet->batch ? rawe_group_batch_encode(bytes, &header)
                      : rawe_group_header_encode(bytes, &header);
        if (!packet->batch) {
            rawe_checksum_encode(bytes + covered_bytes, rawe_crc32c(0, bytes, covered_bytes));
        }
        take_in(host, bytes, packet->len_bytes, packet->batch);
        if (dropped(&host->counters) == dropped_before) {
            violate(run, "member %u takes a forged frame", host->self);
        }
    }
    free(bytes);
}

/** Record which frames a control message reports as sent. */
static void learn_control(struct run *run, const struct sim_packet *packet, struct host *host)
{
    struct rawe_group_control control;
    (void)rawe_group_control_decode(&control, packet->bytes, packet->len_bytes);
    if (control.root != host->self &&
        (control.type == RAWE_GROUP_STATUS || control.type == RAWE_GROUP_REPAIR)) {
        known_learn(&host->known, control.root,
                    control.sequence + (control.type == RAWE_GROUP_REPAIR), run->now_ns);
    }
}

static void arrive(struct run *run, struct sim_packet *packet, struct host *host)
{
    struct rawe_group_header header;
    if (packet->control) {
        learn_control(run, packet, host);
        rawe_group_receive_control(&host->group, packet->from, packet->bytes, packet->len_bytes,
                                   run->now_ns);
        return;
    }
    if (sim_random_chance(&run->random, run->plan->forge_ppm)) {
        forge(run, packet, host);
    }
    if (sim_random_chance(&run->random, run->plan->corrupt_ppm)) {
        uint8_t *bytes = net_new(packet->len_bytes);
        const uint64_t dropped_before = dropped(&host->counters);
        memcpy(bytes, packet->bytes, packet->len_bytes);
        bytes[sim_random_below(&run->random, packet->len_bytes)] ^=
            (uint8_t)(1u << sim_random_below(&run->random, 8));
        take_in(host, bytes, packet->len_bytes, false);
        run->outcome->missed += packet->data;
        if (dropped(&host->counters) == dropped_before) {
            violate(run, "a corrupt frame was taken");
        }
        free(bytes);
        return;
    }
    if (decode(packet, &header)) {
        known_learn(&host->known, header.sender, header.sequence + rawe_group_frames(&header),
                    run->now_ns);
    }
    take_in(host, packet->bytes, packet->len_bytes, packet->batch);
}

static void happen(struct run *run, const struct sim_event *event)
{
    struct host *host = &run->host[event->node];
    const struct fate *fate = &run->plan->fate[event->node];
    host->left = host->left || (fate->dies_ns != 0 && run->now_ns >= fate->dies_ns);
    if (host->left) {
        return;
    }
    if (run->now_ns < fate->starts_ns && event->packet != NULL && !event->packet->control) {
        run->outcome->missed += event->packet->data;
        return; /* the member has not started yet */
    }
    const bool paused = run->now_ns >= fate->pause_from_ns && run->now_ns < fate->pause_until_ns;
    if (run->now_ns < fate->starts_ns || paused) {
        const uint64_t ready_ns = paused ? fate->pause_until_ns : fate->starts_ns;
        if (event->packet != NULL) {
            event->packet->references++;
            run->outcome->missed += event->packet->data;
        }
        if (event->packet == NULL && event->kind == WAKES) {
            host->wake_ns = NEVER;
            wake_by(host, ready_ns);
            return;
        }
        add_event(run, ready_ns, event->node, event->kind, event->packet);
        return;
    }
    if (!host->started) {
        start(run, event->node);
    }
    bool progressed = false;
    if (event->packet != NULL) {
        arrive(run, event->packet, host);
    } else if (event->kind == SENDS) {
        send_next(run, host);
    } else if (event->kind == ASKS) {
        rawe_group_ask(&host->group, sim_random_below(&run->random, 2) == 0
                                         ? RAWE_GROUP_ALL
                                         : (host->self + 1) % run->plan->members);
    } else if (event->kind == LACKS) {
        ask_as_root(run, host);
    } else if (event->at_ns == host->wake_ns) {
        host->wake_ns = NEVER;
        host->group.withheld = sim_random_chance(&run->random, run->plan->refuse_ppm);
        rawe_group_progress(&host->group, run->now_ns);
        progressed = true;
    }
    check_member(run, host, progressed);
    wake_by(host, rawe_group_next_ns(&host->group));
    depart(run, host);
}

static void begin(struct run *run)
{
    const struct plan *plan = run->plan;
    run->host = net_zeroed(plan->members * sizeof *run->host);
    for (uint32_t i = 0; i < plan->members; i++) {
        struct host *host = &run->host[i];
        *host = (struct host){.run = run,
                              .self = i,
                              .wake_ns = NEVER,
                              .delivered = net_zeroed(plan->members * sizeof(uint32_t)),
                              .at_bytes = net_zeroed(plan->members * sizeof(uint32_t))};
        known_init(&host->known, plan);
        wake_by(host, plan->fate[i].starts_ns);
        if (plan->poor_ppm != 0) {
            add_event(run, BEGIN_NS + ASK_NS, i, LACKS, NULL);
        }
    }
    for (uint32_t i = 0; i < plan->orders; i++) {
        add_event(run, plan->order[i].at_ns, plan->order[i].root, SENDS, NULL);
    }
    for (uint32_t i = 0; i < plan->asks; i++) {
        add_event(run, BEGIN_NS + sim_random_scaled(&run->random, NS_PER_US, 10 * NS_PER_S),
                  (uint32_t)sim_random_below(&run->random, plan->members), ASKS, NULL);
    }
}

static void end(struct run *run)
{
    struct sim_event event;

    while (sim_events_pop(&run->events, &event)) {
        if (event.packet != NULL) {
            release_packet(event.packet);
        }
    }
    sim_events_free(&run->events);
    for (uint32_t i = 0; i < run->plan->members; i++) {
        struct host *host = &run->host[i];
        struct rawe_group_send *send = host->started ? host->group.first : NULL;
        while (send != NULL) {
            struct rawe_group_send *next = send->next;
            free(send);
            send = next;
        }
        if (host->started) {
            rawe_group_free(&host->group);
        }
        free(host->delivered);
        free(host->at_bytes);
        free(host->known.end);
        free(host->known.since_ns);
    }
    free(run->host);
}

void plan_run(const struct plan *plan, struct outcome *outcome, bool trace)
{
    struct run run = {.plan = plan,
                      .outcome = outcome,
                      .random = sim_random_stream(plan->seed, 1),
                      .trace = trace};
    struct sim_event event;

    *outcome = (struct outcome){.end_ns = 0};
    begin(&run);
    while (outcome->violation[0] == 0 && sim_events_pop(&run.events, &event)) {
        run.now_ns = event.at_ns;
        if (run.now_ns > LONGEST_NS) {
            violate(&run, "the run does not end");
        }
        happen(&run, &event);
        if (event.packet != NULL) {
            release_packet(event.packet);
        }
    }
    outcome->end_ns = run.now_ns;
    check_end(&run);
    end(&run);
}
