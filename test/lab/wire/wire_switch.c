/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Forwards frames between ports. Addresses are configured, not learned: a forged source address has
 * no effect, and no frame is flooded because its host has not sent yet.
 */
#include "wire.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define FRAMES_AT_ONCE 32 /* from one port before the others are served */

/* The context of wire_direction_pass() for one frame in one direction of a port. */
struct passage {
    struct wire_switch *wire;
    unsigned port;
    bool is_inbound;
    uint64_t now_ns;
};

uint64_t wire_now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* Return the port with this address, or NULL. A lab has a few dozen ports at most. */
static struct wire_port *find_port(const struct wire_switch *wire, const uint8_t *mac,
                                   unsigned group)
{
    for (unsigned i = 0; i < wire->count; i++) {
        struct wire_port *port = &wire->ports[i];

        if (port->group == group && memcmp(port->mac, mac, WIRE_MAC_BYTES) == 0) {
            return port;
        }
    }
    return NULL;
}

void wire_switch_seed(struct wire_switch *wire, uint64_t seed)
{
    wire->seed = seed;
    for (unsigned i = 0; i < wire->count; i++) {
        wire_direction_seed(&wire->ports[i].in, seed, 2 * i);
        wire_direction_seed(&wire->ports[i].out, seed, 2 * i + 1);
    }
}

static wire_deliver_fn deliver;

/* Pass a frame from the switch to the host of a port. */
static void forward_to(struct wire_switch *wire, struct wire_port *port, struct wire_frame *frame,
                       uint64_t now_ns)
{
    struct passage passage = {wire, (unsigned)(port - wire->ports), true, now_ns};

    wire_direction_pass(&port->in, frame, now_ns, deliver, &passage);
}

/*
 * Forward a frame to the port of its address, or to all others if the address is unknown.
 */
static void forward(struct wire_switch *wire, unsigned from, struct wire_frame *frame,
                    uint64_t now_ns)
{
    const struct wire_port *source = &wire->ports[from];
    struct wire_port *target = find_port(wire, frame->bytes, source->group);

    if (target != NULL) {
        if (target != source) {
            forward_to(wire, target, frame, now_ns);
        }
        return;
    }
    for (unsigned i = 0; i < wire->count; i++) {
        if (i != from && wire->ports[i].group == source->group) {
            forward_to(wire, &wire->ports[i], frame, now_ns);
        }
    }
}

/* Deliver a frame at the end of a direction. */
static void arrive(struct wire_switch *wire, unsigned port, bool is_inbound,
                   struct wire_frame *frame, uint64_t now_ns)
{
    struct wire_port *at = &wire->ports[port];
    struct wire_direction *direction = is_inbound ? &at->in : &at->out;

    if (is_inbound && !wire_port_send(at, frame)) {
        direction->counters.refused++;
        return;
    }
    direction->counters.delivered++;
    if (!is_inbound) {
        forward(wire, port, frame, now_ns);
    }
}

static void deliver(void *context, const struct wire_frame *frame, uint64_t release_ns)
{
    const struct passage *passage = context;
    struct wire_switch *wire = passage->wire;

    if (release_ns <= passage->now_ns) {
        struct wire_frame now = *frame;
        arrive(wire, passage->port, passage->is_inbound, &now, passage->now_ns);
    } else if (!wire_queue_put(&wire->held, frame, release_ns, passage->port,
                               passage->is_inbound)) {
        struct wire_port *port = &wire->ports[passage->port];
        (passage->is_inbound ? &port->in : &port->out)->counters.refused++;
    }
}

void wire_switch_receive(struct wire_switch *wire, unsigned port)
{
    struct wire_frame frame;

    for (int i = 0; i < FRAMES_AT_ONCE && wire_port_receive(&wire->ports[port], &frame); i++) {
        struct passage passage = {wire, port, false, wire_now_ns()};

        wire_direction_pass(&wire->ports[port].out, &frame, passage.now_ns, deliver, &passage);
    }
}

uint64_t wire_switch_release(struct wire_switch *wire)
{
    while (wire_queue_next_ns(&wire->held) != WIRE_NEVER) {
        uint64_t now_ns = wire_now_ns();
        struct wire_held *held = wire_queue_take(&wire->held, now_ns);

        if (held == NULL) {
            break;
        }
        arrive(wire, held->port, held->is_inbound, &held->frame, now_ns);
        free(held);
    }
    return wire_queue_next_ns(&wire->held);
}
