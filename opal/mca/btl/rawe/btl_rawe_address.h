/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * An address: how to reach one interface of a process.
 */
#ifndef MCA_BTL_RAWE_ADDRESS_H
#define MCA_BTL_RAWE_ADDRESS_H

#include <stdint.h>
#include <string.h>

#include "linux/probe/rawe_responder.h"

struct mca_btl_rawe_address {
    uint8_t mac[RAWE_MAC_BYTES]; /**< zero: loopback */
    uint16_t port;
    uint32_t key;
    uint16_t ping_port; /**< the responder's, and its key */
    uint32_t ping_key;
    uint32_t mtu_bytes;
    uint32_t speed_mbps; /**< 0: unknown */
    uint8_t index;       /**< in the process's list */
};

/** Where the process's responder is reached. */
static inline struct rawe_ping_address mca_btl_rawe_ping_address(
    const struct mca_btl_rawe_address *address)
{
    struct rawe_ping_address to = {.port = address->ping_port, .key = address->ping_key};

    memcpy(to.mac, address->mac, RAWE_MAC_BYTES);
    return to;
}

#endif
