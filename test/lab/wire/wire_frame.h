/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * A frame on its way through the wire, as a packet socket with PACKET_VNET_HDR gives and takes it.
 */
#ifndef WIRE_FRAME_H
#define WIRE_FRAME_H

#include <linux/virtio_net.h>
#include <stddef.h>
#include <stdint.h>

#define WIRE_ETH_HEADER_BYTES 14u
#define WIRE_MAC_BYTES 6u
#define WIRE_FRAME_BYTES_MAX (128u << 10) /* the kernel's largest batch is 64 kB and headers */

struct wire_frame {
    struct virtio_net_hdr vnet; /* what is left to be done to the frame: nothing, when all zero */
    uint8_t *bytes;             /* from the destination MAC address on */
    size_t len_bytes;
};

#endif
