/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * An address: how to reach one interface of a process.
 */
#ifndef MCA_BTL_RAWE_ADDRESS_H
#define MCA_BTL_RAWE_ADDRESS_H

#include <stdint.h>

#include "core/rawe_wire.h"

struct mca_btl_rawe_address {
    uint8_t mac[RAWE_MAC_BYTES]; /**< zero: loopback */
    uint16_t port;
    uint32_t key;
    uint32_t mtu_bytes;
    uint32_t speed_mbps; /**< 0: unknown */
};

#endif
