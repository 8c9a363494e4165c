/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The receiving half of the bulk link, given packets as the kernel would.
 */
#ifndef RAWE_FUZZ_BATCH_LINK_H
#define RAWE_FUZZ_BATCH_LINK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "linux/packet/rawe_packet.h"
#include "base/rawe_wire.h"

/** Longest data of a packet, as the IPv4 header knows lengths. */
#define BATCH_LINK_BYTES_MAX (UINT16_MAX - RAWE_PACKET_OVERHEAD_BYTES - RAWE_BATCH_HEADER_BYTES)

struct batch_link_packet {
    uint8_t destination[RAWE_MAC_BYTES], source[RAWE_MAC_BYTES];
    uint8_t gso_type;
    uint16_t gso_size;
    uint8_t head[RAWE_BATCH_HEADER_BYTES];
    const uint8_t *data;
    size_t data_bytes;
    uint16_t ip_lie;  /**< is added to the length that the IPv4 header says */
    size_t cut_bytes; /**< taken from the end of headers and data */
    bool no_room;     /**< the queue has no room for it */
};

/**
 * Let the link receive a packet, in its ring or, when it is long, in its queue. It must take what
 * is there, whatever the packet says.
 */
void batch_link_receive(const struct batch_link_packet *packet,
                        const struct rawe_port_receiver *receiver, void *context);

#endif
