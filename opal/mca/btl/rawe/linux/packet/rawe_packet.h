/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * A port (linux/port/rawe_port.h) that is a packet socket: frames come out of a receive ring, frames
 * and batches go out one system call each (sendmmsg, a transmit ring and a second socket to send
 * through were the same within 2 %). A batch looks like TCP (doc/protocol.md), and is handed to the
 * kernel in one piece of up to 64 kB, with a virtio_net_hdr that asks for TCP segmentation.
 *
 * Batches are received from a ring and a queue: a queue cannot be looked at without a system call, a
 * ring can, but slots of 64 kB would have everything copied twice. So one socket has both
 * (PACKET_COPY_THRESH): what fits a slot lies there whole; of what is longer the slot has the
 * beginning, enough to tell where it goes, and the packet waits in the socket's queue (tpacket_rcv
 * queues it before it hands the slot over), from where recvmsg copies it into place. As the kernel
 * fills these slots in vain, they are short; packets of up to some 16 kB have a socket of their own
 * (RAWE_PORT_MIDDLE), whose slots hold them whole. Filters share the packets out by length, and time
 * stamps restore their order.
 */
#ifndef RAWE_PACKET_H
#define RAWE_PACKET_H

#include <linux/virtio_net.h>
#include <stddef.h>
#include <stdint.h>

#include "../../core/base/rawe_wire.h"
#include "../port/rawe_port.h"
#include "rawe_envelope.h"
#include "rawe_filter.h"
#include "rawe_ring.h"
#include "rawe_txqueue.h"

extern const struct rawe_port_kind rawe_packet_port;

/**
 * The socket alone, for tools: opened as `config` says, receiving into `ring`, which has about
 * `ring_bytes` in slots for `slot_data_bytes` behind the Ethernet header. Returns the descriptor, or
 * -1 and the error, as rawe_port_open.
 */
int rawe_packet_open_socket(struct rawe_ring *ring, const struct rawe_port_config *config,
                            uint32_t slot_data_bytes, size_t ring_bytes,
                            struct rawe_port_error *error);

/* What follows is for rawe_packet.c and its tests. */

/** Longest packet behind the envelope. */
#define RAWE_PACKET_SCRATCH_BYTES 65536u

struct rawe_packet {
    struct rawe_port port; /**< first */
    struct rawe_ring ring;
    struct rawe_port_config config;
    struct rawe_port_counters counters;
    /* of a bulk port */
    struct rawe_txqueue txqueue;
    struct rawe_envelope envelope; /**< of the packet being received */
    uint8_t *scratch; /**< for packets without a place; NULL: in use, or never needed */
};

#endif
