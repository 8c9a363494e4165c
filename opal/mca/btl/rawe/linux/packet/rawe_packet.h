/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * A port (linux/port/rawe_port.h) that is a packet socket: frames are received through a ring, and
 * sent with one system call per frame or batch (sendmmsg, a transmit ring and a second socket for
 * sending made no difference above 2 %). A batch looks like TCP (doc/protocol.md), and is passed to
 * the kernel in one piece of up to 64 kB, with a virtio_net_hdr that requests TCP segmentation.
 *
 * Batches are received through a ring and a queue. Polling a queue takes a system call, polling a
 * ring does not; but slots of 64 kB would mean copying everything twice. So one socket has both
 * (PACKET_COPY_THRESH). A packet that fits a slot is complete there. Of longer packets the slot has
 * the beginning, enough to find their place, and the packet is in the socket's queue (tpacket_rcv
 * queues it before it hands the slot over), from which recvmsg copies it into place. Filling these
 * slots is wasted effort of the kernel, so they are short; packets of up to some 16 kB have a
 * socket of their own (RAWE_PORT_MIDDLE) with slots that hold them whole. Filters divide packets by
 * length, and time stamps restore their order.
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
 * Open only the socket, for tools, according to `config`, receiving into `ring`, which has about
 * `ring_bytes` in slots for `slot_data_bytes` behind the Ethernet header. Returns the descriptor,
 * or -1 and the error, as rawe_port_open.
 */
int rawe_packet_open_socket(struct rawe_ring *ring, const struct rawe_port_config *config,
                            uint32_t slot_data_bytes, size_t ring_bytes,
                            struct rawe_port_error *error);

/* The rest is for rawe_packet.c and its tests. */

/** Longest packet after the envelope. */
#define RAWE_PACKET_SCRATCH_BYTES 65536u

struct rawe_packet {
    struct rawe_port port; /**< first */
    struct rawe_ring ring;
    struct rawe_port_config config;
    struct rawe_port_counters counters;
    /* for bulk ports */
    struct rawe_txqueue txqueue;
    struct rawe_envelope envelope; /**< of the packet being received */
    uint8_t *scratch; /**< for packets without a place; NULL: in use, or never needed */
};

#endif
