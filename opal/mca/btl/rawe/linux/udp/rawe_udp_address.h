/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * MAC addresses that stand for IPv4 and IPv6 addresses: core and the glue know no others.
 */
#ifndef RAWE_UDP_ADDRESS_H
#define RAWE_UDP_ADDRESS_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>

#include "../../core/base/rawe_wire.h"
#include "../sys/rawe_interface.h"

#define RAWE_UDP_ADDRESS_BYTES 4u /**< IPv4 */
#define RAWE_UDP_IPV6_BYTES 16u

/** First byte of a MAC address that stands for an IPv6 address: locally administered. */
#define RAWE_UDP_IPV6_MARKER 0x06u

/** Maximum number of IPv6 addresses that are known only because a datagram came from them. */
#define RAWE_UDP_HEARD_MAX 8192u

/**
 * Write the MAC address that stands for an IPv4 address. All zero stands for 127.0.0.1, as for the
 * loopback interface.
 */
void rawe_udp_mac(uint8_t mac[RAWE_MAC_BYTES], const uint8_t address[RAWE_UDP_ADDRESS_BYTES]);

/** Where an IPv6 address is from. */
enum rawe_udp_origin {
    RAWE_UDP_UNCHECKED, /**< a datagram, whose key is not checked yet: look it up only */
    RAWE_UDP_HEARD,     /**< a datagram with the right key */
    RAWE_UDP_GIVEN,     /**< the modex, our interface or the user */
};

/**
 * Write the MAC address that stands for an IPv6 address in this process. Returns false if the
 * address is unchecked and unknown, or if there are too many. From any thread.
 */
bool rawe_udp_ipv6_mac(uint8_t mac[RAWE_MAC_BYTES], const uint8_t address[RAWE_UDP_IPV6_BYTES],
                       enum rawe_udp_origin origin);

/** Return true for a MAC address that stands for an IPv6 address. */
static inline bool rawe_udp_is_ipv6(const uint8_t mac[RAWE_MAC_BYTES])
{
    return mac[0] == RAWE_UDP_IPV6_MARKER;
}

/** Return how many bytes IP and UDP take from an interface's MTU, which has this address. */
static inline uint32_t rawe_udp_overhead_bytes(const uint8_t mac[RAWE_MAC_BYTES])
{
    return rawe_udp_is_ipv6(mac) ? 48 : 28;
}

/**
 * Make an interface's address and MTU those of UDP. Returns false if it has no usable address
 * (rawe_interface_ip).
 */
bool rawe_udp_use(struct rawe_interface *interface);

/** Format the address for which a MAC address stands. */
struct rawe_mac_text rawe_udp_text(const uint8_t mac[RAWE_MAC_BYTES]);

/** An address and port for system calls. AF_UNSPEC: it is not known. */
union rawe_udp_address {
    struct sockaddr any;
    struct sockaddr_in ipv4;
    struct sockaddr_in6 ipv6;
};

/** Return the address and port for which a MAC address and a port stand. */
union rawe_udp_address rawe_udp_address_of(const uint8_t mac[RAWE_MAC_BYTES], uint16_t port);

#endif
