/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The receiving half of the bulk link, with packets as from the kernel.
 */
#ifndef RAWE_FUZZ_BATCH_LINK_H
#define RAWE_FUZZ_BATCH_LINK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "linux/packet/rawe_packet.h"
#include "base/rawe_wire.h"

/** Maximum data of a packet, limited by the IPv4 header's length field. */
#define BATCH_LINK_BYTES_MAX (UINT16_MAX - RAWE_PACKET_OVERHEAD_BYTES - RAWE_BATCH_HEADER_BYTES)

struct batch_link_packet {
    uint8_t destination[RAWE_MAC_BYTES], source[RAWE_MAC_BYTES];
    uint8_t gso_type;
    uint16_t gso_size;
    uint8_t head[RAWE_BATCH_HEADER_BYTES];
    const uint8_t *data;
    size_t data_bytes;
    uint16_t ip_lie;  /**< added to the length in the IPv4 header */
    size_t cut_bytes; /**< bytes cut from the end of the packet */
    bool no_room;     /**< the queue has no room for it */
};

/**
 * Let the link receive a packet from its ring or, if it is long, from its queue. It must take
 * exactly the bytes that exist, whatever the headers claim.
 */
void batch_link_receive(const struct batch_link_packet *packet,
                        const struct rawe_port_receiver *receiver, void *context);

#endif
