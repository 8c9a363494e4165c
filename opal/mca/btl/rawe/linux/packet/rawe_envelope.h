/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * What is in front of a batch's data as the kernel takes and hands over packets: a virtio_net_hdr, in
 * which sender and kernel tell each other what is to be cut, what was merged, and which checksums hold;
 * then Ethernet, IPv4 and batch header (doc/protocol.md, section 4).
 */
#ifndef RAWE_ENVELOPE_H
#define RAWE_ENVELOPE_H

#include <linux/virtio_net.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "../../core/base/rawe_wire.h"
#include "rawe_filter.h"

/** Headers in front of a batch's data, from the Ethernet header on. */
#define RAWE_ENVELOPE_HEAD_BYTES (RAWE_FILTER_BULK_OFFSET + RAWE_BATCH_HEADER_BYTES)

/** What IPv4 takes from the MTU, beside the batch header. */
#define RAWE_PACKET_OVERHEAD_BYTES 20u

struct rawe_envelope {
    struct virtio_net_hdr vnet;
    uint8_t packet[RAWE_ENVELOPE_HEAD_BYTES]; /**< Ethernet, IPv4, batch */
};

/**
 * Fill it in for a packet with that Ethernet and batch header, of `bytes` behind the Ethernet header
 * that IPv4 is put behind; to be cut after each `segment_bytes` of data, 0: it is one frame.
 */
void rawe_envelope_write(struct rawe_envelope *envelope, const uint8_t *head, size_t bytes,
                         uint32_t segment_bytes);

/** A received packet. */
struct rawe_enveloped {
    const uint8_t *bytes; /**< from the Ethernet header on, what is there of it */
    size_t present_bytes; /**< of the data, behind the headers there */
    size_t data_bytes;    /**< behind the headers */
    unsigned frames;      /**< that the kernel has merged into it */
    bool verified;        /**< its checksum, by NIC or kernel; or it has not left this host */
};

/**
 * Describe a packet of `len_bytes`, Ethernet header included, of which `present_bytes` are at `frame`;
 * a virtio_net_hdr lies in front of them. Returns false if it was damaged, as its length or its IPv4
 * header says.
 */
bool rawe_envelope_read(struct rawe_enveloped *packet, const uint8_t *frame, size_t present_bytes,
                        size_t len_bytes);

/** Return true if nothing of a packet was damaged, whose data lies at `data`: see `verified`. */
bool rawe_envelope_intact(const struct rawe_enveloped *packet, const uint8_t *data);

#endif
