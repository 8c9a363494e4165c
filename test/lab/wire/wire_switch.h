/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The switch in the middle of the wire: ports, who sits at which, and the way of a frame from port
 * to port through the faults of both.
 *
 *      host A ──> port A, outbound direction ──> switch ──> port B, inbound direction ──> host B
 */
#ifndef WIRE_SWITCH_H
#define WIRE_SWITCH_H

#include "wire_direction.h"
#include "wire_queue.h"

#include <net/if.h>

struct wire_port {
    char name[IF_NAMESIZE];      /* of the network interface */
    uint8_t mac[WIRE_MAC_BYTES]; /* of the host's NIC at the other end */
    unsigned group;              /* ports of different groups do not hear each other */
    int fd;                      /* packet socket */
    struct wire_direction in;    /* towards the host */
    struct wire_direction out;   /* from the host */
};

struct wire_switch {
    struct wire_port *ports;
    unsigned count;
    unsigned *table; /* by the hash of group and MAC address: index of the port + 1; 0 is empty */
    unsigned table_mask;
    struct wire_queue held;
    uint64_t seed;
    bool is_cutting;  /* batches into their segments, as between hosts; else they stay whole */
    uint64_t cut;     /* batches that were cut */
    uint64_t strange; /* frames that could not be cut, and were dropped */
};

/** Monotonic time. */
uint64_t wire_now_ns(void);

/** Builds the table once all ports are there. Exits with a message when a MAC is there twice. */
void wire_switch_start(struct wire_switch *wire);

/** Gives all directions generators that this seed decides. */
void wire_switch_seed(struct wire_switch *wire, uint64_t seed);

/** Takes some frames that wait at a port and sends them on their way. */
void wire_switch_receive(struct wire_switch *wire, unsigned port);

/** Sends on what is due; returns when the next one is, or WIRE_NEVER. */
uint64_t wire_switch_release(struct wire_switch *wire);

#endif
