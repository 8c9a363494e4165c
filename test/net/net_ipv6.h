/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * IPv6 addresses that an attacker may choose: the hash that stands for an address is public, so
 * others with the same one are found at once.
 */
#ifndef NET_IPV6_H
#define NET_IPV6_H

#include <endian.h>
#include <stdint.h>
#include <string.h>

/** Change an address to the `n`th of those with its hash; 0: itself. */
static inline void net_ipv6_collide(uint8_t address[16], uint32_t n)
{
    const uint64_t factor = 0x9E3779B97F4A7C15u;
    uint64_t inverse = factor; /* of three bits; each step doubles them */
    uint64_t halves[2];

    for (unsigned i = 0; i < 5; i++) {
        inverse *= 2 - factor * inverse;
    }
    memcpy(halves, address, sizeof halves);
    const uint64_t high = be64toh(halves[0]) * factor, mask = high ^ high >> 32;
    halves[1] = htobe64(mask ^ (((mask ^ be64toh(halves[1])) * factor) ^ n) * inverse);
    memcpy(address, halves, sizeof halves);
}

#endif
