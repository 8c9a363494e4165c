/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The state of a UDP port, and how datagrams are sent.
 */
#ifndef RAWE_UDP_SOCKET_H
#define RAWE_UDP_SOCKET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#include "../port/rawe_port.h"
#include "rawe_udp_address.h"

/**
 * Longest payload of a datagram over IPv4; over IPv6 a bit more would fit. The limit also applies
 * before the kernel cuts it.
 */
#define RAWE_UDP_DATAGRAM_BYTES_MAX 65507u

/** Maximum number of datagrams that the kernel cuts from one (UDP_MAX_SEGMENTS before 6.10). */
#define RAWE_UDP_SEGMENTS_MAX 64u

/** What one system call received: a datagram, or several of the same length from one sender. */
struct rawe_udp_received {
    struct rawe_udp_received *next;
    unsigned users;       /**< callbacks that were given part of it */
    size_t len_bytes;     /**< of all datagrams */
    size_t segment_bytes; /**< of each but the last */
    size_t at_bytes;      /**< where the next datagram begins */
    uint64_t arrived_ns;
    union rawe_udp_address from;
    uint8_t source[RAWE_MAC_BYTES]; /**< stands for `from`, unless that is unknown */
    uint16_t source_port;
    bool unknown; /**< an IPv6 address is unknown until a datagram from it has the right key */
    uint8_t bytes[RAWE_ETH_HEADER_BYTES + RAWE_UDP_DATAGRAM_BYTES_MAX];
};

struct rawe_udp {
    struct rawe_port port;   /**< first */
    uint32_t waits;          /**< a datagram is waiting in `current` */
    uint64_t uncut_until_ns; /**< the kernel refused to cut datagrams; 0: it cuts */
    struct rawe_port_config config;
    struct rawe_port_counters counters;
    uint64_t refused; /**< datagrams dropped because too many addresses are known */
    struct rawe_udp_received *current; /**< the next datagrams; NULL: none */
    struct rawe_udp_received *spare;   /**< unused memory */
};

/** Return the 16-bit number at `field`. */
static inline uint16_t rawe_udp_port_of(const uint8_t *field)
{
    return (uint16_t)(field[0] << 8 | field[1]);
}

/** Return true unless the kernel has lately refused to cut datagrams. */
static inline bool rawe_udp_cuts(struct rawe_udp *udp)
{
    if (__builtin_expect(udp->uncut_until_ns != 0, 0) &&
        rawe_port_clock_ns() >= udp->uncut_until_ns) {
        udp->uncut_until_ns = 0;
    }
    return udp->uncut_until_ns == 0;
}

/** Return how many datagrams of this length one system call can send. */
unsigned rawe_udp_segments_max(size_t segment_bytes);

enum rawe_udp_sent {
    RAWE_UDP_TAKEN, /**< sent, or lost by an error that sending again would not mend */
    RAWE_UDP_FULL,  /**< no room in the kernel */
    RAWE_UDP_UNCUT, /**< the kernel refuses to cut datagrams: see rawe_udp_cuts */
};

/**
 * Send `frames` frames through the socket `fd`, as one datagram that is cut after each
 * `segment_bytes` unless that is 0. Counts for `udp`.
 */
enum rawe_udp_sent rawe_udp_send(struct rawe_udp *udp, int fd, union rawe_udp_address *to,
                                 struct iovec *iov, size_t iov_count, uint16_t segment_bytes,
                                 unsigned frames);

#endif
