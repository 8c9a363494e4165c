/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The receiving half of the bulk link, given packets as the kernel would.
 */
#ifndef RAWE_FUZZ_BATCH_LINK_H
#define RAWE_FUZZ_BATCH_LINK_H

#include <stddef.h>
#include <stdint.h>

#include "rawe_bulk.h"
#include "rawe_wire.h"

/** Longest packet behind its envelope. */
#define BATCH_LINK_BYTES_MAX 65536u

struct batch_link_packet {
    uint8_t destination[RAWE_MAC_BYTES], source[RAWE_MAC_BYTES];
    uint8_t gso_type;
    uint16_t gso_size;
    const uint8_t *bytes; /**< behind the envelope */
    size_t len_bytes;
    size_t cut_bytes; /**< taken from the end of packet and envelope together */
};

/** Let the link receive a packet, in its ring or, when it is long, in its queue. */
void batch_link_receive(const struct batch_link_packet *packet,
                        const struct rawe_bulk_receiver *receiver, void *context);

#endif
