/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Receiving: see net_receive.h.
 */
#include "net_receive.h"

#include <string.h>

#include "net_harness.h"
#include "net_packet.h"

/** In memory of exactly its length, for sanitizers. */
static uint8_t *copy(const uint8_t *bytes, uint32_t len_bytes)
{
    uint8_t *memory = net_new(len_bytes);

    memcpy(memory, bytes, len_bytes);
    return memory;
}

bool net_receive(struct rawe_engine *engine, const uint8_t *bytes, uint32_t len_bytes,
                 uint64_t now_ns)
{
    const uint8_t *source_mac = bytes + RAWE_MAC_BYTES;

    if (!net_is_batch(bytes, len_bytes)) {
        rawe_engine_receive(engine, bytes, len_bytes, now_ns);
        return false;
    }
    uint32_t data_bytes = len_bytes - NET_BATCH_HEAD_BYTES;
    uint8_t *head = copy(bytes + RAWE_ETH_HEADER_BYTES, RAWE_BATCH_HEADER_BYTES);
    uint8_t *place =
        rawe_engine_place(engine, source_mac, head, RAWE_BATCH_HEADER_BYTES, data_bytes);
    uint8_t *data = place != NULL ? place : net_new(data_bytes);

    memcpy(data, bytes + NET_BATCH_HEAD_BYTES, data_bytes);
    rawe_engine_receive_batch(engine, source_mac, head, RAWE_BATCH_HEADER_BYTES, data, data_bytes,
                              now_ns);
    if (place == NULL) {
        net_delete(data);
    }
    net_delete(head);
    return place != NULL;
}
