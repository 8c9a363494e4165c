/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * A port (linux/port/rawe_port.h) that is a packet socket: frames are received through a ring, and
 * sent with one system call per frame or batch (sendmmsg, a transmit ring and a second socket for
 * sending made no difference above 2 %). A batch looks like TCP (doc/protocol.md), and is passed to
 * the kernel in one piece of up to 64 kB, with a virtio_net_hdr that requests TCP segmentation.
 *
 * Batches are received through a ring and a queue. Polling a queue takes a system call; polling a
 * ring does not, but 64 kB slots would mean copying everything twice. So one socket has both
 * (PACKET_COPY_THRESH). A packet that fits a slot is complete in it. For a longer packet, the slot
 * contains the beginning, enough to find its place, and recvmsg copies the packet from the socket's
 * queue to that place (tpacket_rcv queues it before it hands over the slot). Filling these slots is
 * wasted work, so they are short; packets of up to some 16 kB have their own socket
 * (RAWE_PORT_MIDDLE) with slots that hold whole packets. Filters divide packets by length, and time
 * stamps restore their order.
 */
#ifndef RAWE_PACKET_H
#define RAWE_PACKET_H

#include <linux/virtio_net.h>
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "../../core/base/rawe_wire.h"
#include "../port/rawe_port.h"
#include "rawe_filter.h"
#include "rawe_ring.h"

extern const struct rawe_port_kind rawe_packet_port;

/**
 * For tools: open only the socket, according to `config`. It receives into `ring`, of about
 * `ring_bytes`, with slots for `slot_data_bytes` after the Ethernet header. Returns the descriptor,
 * or -1 and the error, like rawe_port_open.
 */
int rawe_packet_open_socket(struct rawe_ring *ring, const struct rawe_port_config *config,
                            uint32_t slot_data_bytes, size_t ring_bytes,
                            struct rawe_port_error *error);

/**
 * A port opened by a thread, because for each ring the kernel waits until no processor can be using
 * the socket (packet_set_ring, synchronize_net): 14 ms; 70 ms for five rings in sequence, and 12 ms
 * with a thread each (Linux 6.18, two busy cores). With 256 processes on these cores, each ring
 * takes a second or more.
 */
struct rawe_port_opening {
    struct rawe_port_config config; /**< set by the caller */
    struct rawe_port *port;
    struct rawe_port_error error;
    pthread_t thread;
    bool threaded;
};

/** Begin to open a port. */
void rawe_port_open_begin(struct rawe_port_opening *opening);

/** Wait until the port is open. Returns NULL, and sets `error`, if it could not be opened. */
struct rawe_port *rawe_port_open_end(struct rawe_port_opening *opening);

/* ---- rawe_envelope.c: this and the rest are for the port and its tests ---- */

/** Headers before a batch's data, beginning with the Ethernet header. */
#define RAWE_ENVELOPE_HEAD_BYTES (RAWE_FILTER_BULK_OFFSET + RAWE_BATCH_HEADER_BYTES)

/** Bytes that IPv4 takes from the MTU, besides the batch header. */
#define RAWE_PACKET_OVERHEAD_BYTES 20u

struct rawe_envelope {
    struct virtio_net_hdr vnet;
    uint8_t packet[RAWE_ENVELOPE_HEAD_BYTES]; /**< Ethernet, IPv4, batch */
};

/**
 * Fill in the envelope of a packet with the Ethernet and batch headers at `head`. `bytes` is its
 * length after the Ethernet header, without the IPv4 header that is inserted. The packet is cut
 * after each `segment_bytes` of data; 0: it is one frame.
 */
void rawe_envelope_write(struct rawe_envelope *envelope, const uint8_t *head, size_t bytes,
                         uint32_t segment_bytes);

/** A received packet. */
struct rawe_enveloped {
    const uint8_t *bytes; /**< from the Ethernet header on, as far as present */
    size_t present_bytes; /**< data bytes present after the headers */
    size_t data_bytes;    /**< all data bytes after the headers */
    unsigned frames;      /**< frames that the kernel merged into it */
    bool verified;        /**< checksum verified by NIC or kernel; or never left this host */
};

/**
 * Describe a packet of `len_bytes`, Ethernet header included. Its first `present_bytes` are at
 * `frame`, after a virtio_net_hdr. Returns false if its length or IPv4 header shows damage.
 */
bool rawe_envelope_read(struct rawe_enveloped *packet, const uint8_t *frame, size_t present_bytes,
                        size_t len_bytes);

/** Return true if the packet, whose data is at `data`, is undamaged: see `verified`. */
bool rawe_envelope_intact(const struct rawe_enveloped *packet, const uint8_t *data);

/* ---- rawe_txqueue.c ---- */

struct rawe_txqueue {
    uint32_t limit_bytes;   /**< see above */
    uint32_t base_bytes;    /**< bytes sent in 0.3 ms; 0: unknown */
    uint32_t taken;         /**< consecutive batches that found room */
    bool refused;           /**< the last one found none: call rawe_txqueue_poll before the next */
    uint32_t queued_bytes;  /**< length of the queue at the last poll... */
    uint64_t seen_ns;       /**< ... and the time of that poll */
    uint64_t drained_bytes; /**< bytes drained between polls in this measurement... */
    uint64_t drained_ns;    /**< ... and the duration */
    uint64_t dropped_since_ns; /**< all batches since then were dropped; 0: the last was not */
};

/** Begin with an unknown rate, and room for two of the longest batches. */
void rawe_txqueue_init(struct rawe_txqueue *queue);
/** Note that a batch found room. Returns true if the limit has changed. */
bool rawe_txqueue_taken(struct rawe_txqueue *queue);
/** Note that a batch found no room, with `queued_bytes` in the queue. */
void rawe_txqueue_full(struct rawe_txqueue *queue, uint32_t queued_bytes, uint64_t now_ns);
/** Note that a batch was dropped (ENOBUFS). True: none was accepted for long, so it is lost. */
bool rawe_txqueue_dropped(struct rawe_txqueue *queue, uint64_t now_ns);
/** Prepare to retry a refused batch. Returns true if the limit has changed. */
bool rawe_txqueue_poll(struct rawe_txqueue *queue, uint32_t queued_bytes, uint64_t now_ns);
/** Return the length of the longest batch that fits the limit twice. */
uint32_t rawe_txqueue_batch_bytes(const struct rawe_txqueue *queue);

/* ---- rawe_packet.c ---- */

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
