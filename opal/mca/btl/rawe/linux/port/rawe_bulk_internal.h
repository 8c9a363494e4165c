/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * What the two halves of bulk, receiving and sending, share.
 */
#ifndef RAWE_BULK_INTERNAL_H
#define RAWE_BULK_INTERNAL_H

#include <linux/virtio_net.h>
#include <stddef.h>
#include <stdint.h>

#include "../../core/base/rawe_wire.h"
#include "rawe_bulk.h"
#include "../packet/rawe_filter.h"
#include "../packet/rawe_ring.h"

/** In front of the data: what the kernel wants to know, then the packet's headers. */
struct rawe_bulk_envelope {
    struct virtio_net_hdr vnet;
    uint8_t packet[RAWE_FILTER_BULK_OFFSET + RAWE_BATCH_HEADER_BYTES]; /**< Ethernet, IPv4, batch */
};

_Static_assert(sizeof(struct virtio_net_hdr) == 10, "as the kernel lays it in front of packets");
_Static_assert(sizeof(struct rawe_bulk_envelope) ==
                   10 + RAWE_FILTER_BULK_OFFSET + RAWE_BATCH_HEADER_BYTES,
               "no padding");

/** Longest packet behind the envelope. */
#define SCRATCH_BYTES 65536u

struct rawe_bulk {
    struct rawe_bulk_head head; /**< first: see rawe_bulk_inline.h */
    struct rawe_ring ring;
    int fd; /**< ring and queue to receive, and to send */
    uint32_t mtu_bytes;
    size_t queue_bytes;
    bool offloaded;
    uint64_t refused_since_ns; /**< the kernel has taken no batch since; 0: it has taken the last */
    struct rawe_link_counters counters;
    struct rawe_bulk_envelope envelope; /**< of the packet being received */
    uint8_t *scratch;                   /**< SCRATCH_BYTES, for packets without a place */
};

#endif
