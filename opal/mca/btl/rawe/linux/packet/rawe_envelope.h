/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The headers before a batch's data in packets exchanged with the kernel: a virtio_net_hdr, in
 * which sender and kernel tell each other what to cut, what was merged, and which checksums hold;
 * then the Ethernet, IPv4 and batch headers (doc/protocol.md, section 4).
 */
#ifndef RAWE_ENVELOPE_H
#define RAWE_ENVELOPE_H

#include <linux/virtio_net.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "../../core/base/rawe_wire.h"
#include "rawe_filter.h"

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
 * length behind the Ethernet header, without the IPv4 header that is inserted. The packet is cut
 * after each `segment_bytes` of data; 0: it is one frame.
 */
void rawe_envelope_write(struct rawe_envelope *envelope, const uint8_t *head, size_t bytes,
                         uint32_t segment_bytes);

/** A received packet. */
struct rawe_enveloped {
    const uint8_t *bytes; /**< from the Ethernet header on, as far as present */
    size_t present_bytes; /**< data bytes present behind the headers */
    size_t data_bytes;    /**< data bytes behind the headers */
    unsigned frames;      /**< frames that the kernel merged into it */
    bool verified;        /**< checksum verified by NIC or kernel; or never left this host */
};

/**
 * Describe a packet of `len_bytes` with its Ethernet header, of which `present_bytes` are at
 * `frame`, behind a virtio_net_hdr. Returns false if its length or IPv4 header shows damage.
 */
bool rawe_envelope_read(struct rawe_enveloped *packet, const uint8_t *frame, size_t present_bytes,
                        size_t len_bytes);

/** Return true if the packet, whose data is at `data`, is undamaged: see `verified`. */
bool rawe_envelope_intact(const struct rawe_enveloped *packet, const uint8_t *data);

#endif
