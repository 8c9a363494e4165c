/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Forwards frames between ports, which are packet sockets, and holds frames until they are due. The
 * total size of held frames is limited, so that long delays at full speed do not exhaust memory.
 * Addresses are configured, not learned: a forged source address has no effect, and no frame is
 * flooded merely because its destination has never sent a frame.
 */
#define _GNU_SOURCE
#include "wire.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>

#define SOCKET_BYTES (32 << 20)

static _Noreturn void fail(const struct wire_port *port, const char *what)
{
    fprintf(stderr, "rawe-wire: port %s: %s: %s; is it there, and is this root?\n", port->name,
            what, strerror(errno));
    exit(1);
}

static void set_option(const struct wire_port *port, int level, int option, int value,
                       const char *name)
{
    if (setsockopt(port->fd, level, option, &value, sizeof value) != 0) {
        fail(port, name);
    }
}

void wire_port_open(struct wire_port *port)
{
    struct sockaddr_ll address = {.sll_family = AF_PACKET, .sll_protocol = htons(ETH_P_ALL)};

    /* With protocol 0, the socket does not receive from all interfaces until it is bound to one. */
    port->fd = socket(AF_PACKET, SOCK_RAW | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (port->fd < 0) {
        fail(port, "packet socket");
    }
    set_option(port, SOL_PACKET, PACKET_IGNORE_OUTGOING, 1, "PACKET_IGNORE_OUTGOING");
    set_option(port, SOL_SOCKET, SO_RCVBUFFORCE, SOCKET_BYTES, "SO_RCVBUFFORCE");
    set_option(port, SOL_SOCKET, SO_SNDBUFFORCE, SOCKET_BYTES, "SO_SNDBUFFORCE");
    address.sll_ifindex = (int)if_nametoindex(port->name);
    if (address.sll_ifindex == 0) {
        fail(port, "interface");
    }
    if (bind(port->fd, (struct sockaddr *)&address, sizeof address) != 0) {
        fail(port, "bind");
    }
}

/* Receive a frame, valid until the next call. Returns false if no frame is waiting. */
static bool wire_port_receive(struct wire_port *port, struct wire_frame *frame)
{
    static uint8_t buffer[WIRE_FRAME_BYTES_MAX];
    ssize_t got;

    do {
        got = recv(port->fd, buffer, sizeof buffer, 0);
        /* ENETDOWN is reported once if the interface goes down or disappears; it may come back. */
    } while (got < 0 && (errno == EINTR || errno == ENETDOWN));
    *frame = (struct wire_frame){buffer, (size_t)got};
    return got >= (ssize_t)WIRE_ETH_HEADER_BYTES;
}

/* Send a frame to the host of the port. Returns false if the kernel refuses it. */
static bool wire_port_send(struct wire_port *port, const struct wire_frame *frame)
{
    ssize_t sent;

    do {
        sent = send(port->fd, frame->bytes, frame->len_bytes, 0);
    } while (sent < 0 && errno == EINTR);
    return sent >= 0;
}

uint64_t wire_port_overrun(struct wire_port *port)
{
    struct tpacket_stats statistics = {0};
    socklen_t len = sizeof statistics;

    /* Reading resets the kernel's counts. */
    if (getsockopt(port->fd, SOL_PACKET, PACKET_STATISTICS, &statistics, &len) != 0) {
        return 0;
    }
    return statistics.tp_drops;
}

#define BYTES_MAX ((size_t)512 << 20)

/* Hold a copy of a frame. Returns false if out of memory or if too many bytes are held already. */
static bool wire_queue_put(struct wire_queue *queue, const struct wire_frame *frame,
                           uint64_t release_ns, unsigned port, bool is_inbound)
{
    struct wire_held *held, *before = TAILQ_LAST(&queue->frames, wire_held_list);

    if (queue->bytes + frame->len_bytes > BYTES_MAX ||
        (held = malloc(sizeof *held + frame->len_bytes)) == NULL) {
        return false;
    }
    *held = (struct wire_held){.release_ns = release_ns, .port = port, .is_inbound = is_inbound};
    held->frame = (struct wire_frame){(uint8_t *)(held + 1), frame->len_bytes};
    memcpy(held->frame.bytes, frame->bytes, frame->len_bytes);
    queue->count++;
    queue->bytes += frame->len_bytes;
    /* Few frames are due later than frames that arrive after them, so search from the end. */
    while (before != NULL && before->release_ns > release_ns) {
        before = TAILQ_PREV(before, wire_held_list, entry);
    }
    if (before != NULL) {
        TAILQ_INSERT_AFTER(&queue->frames, before, held, entry);
    } else {
        TAILQ_INSERT_HEAD(&queue->frames, held, entry);
    }
    return true;
}

/* Return when the next frame is due; WIRE_NEVER: no frame waits. */
static uint64_t wire_queue_next_ns(const struct wire_queue *queue)
{
    const struct wire_held *first = TAILQ_FIRST(&queue->frames);

    return first != NULL ? first->release_ns : WIRE_NEVER;
}

/* Remove and return the next frame if it is due, else NULL. The caller frees it. */
static struct wire_held *wire_queue_take(struct wire_queue *queue, uint64_t now_ns)
{
    struct wire_held *first = TAILQ_FIRST(&queue->frames);

    if (first == NULL || first->release_ns > now_ns) {
        return NULL;
    }
    TAILQ_REMOVE(&queue->frames, first, entry);
    queue->count--;
    queue->bytes -= first->frame.len_bytes;
    return first;
}

#define FRAMES_AT_ONCE 32 /* received from one port before the next port is served */

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
