/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * A port (linux/port/rawe_port.h) that is a UDP socket, which needs no privilege and crosses
 * routers. A datagram contains what follows a frame's Ethernet header. For core, an IPv4 or IPv6
 * address is a MAC address (rawe_udp_address.c), and the frame header's port is the UDP port, so
 * core and the glue know nothing of UDP but the shorter MTU.
 *
 * A process has two adjacent UDP ports on each interface: the lower one receives express frames,
 * the upper one is the responder's. A PROBE is sent to both, as raw frames reach both sockets.
 *
 * A batch, and frames of equal length that are sent together, are one system call, which the kernel
 * or the NIC cuts (UDP_SEGMENT), and the receiver's kernel merges what arrives together (UDP_GRO).
 * TCP's segmentation copies a header to each segment; here the port does it, and leaves the headers
 * out again when it receives.
 */
#ifndef RAWE_UDP_H
#define RAWE_UDP_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#include "../../core/base/rawe_wire.h"
#include "../port/rawe_port.h"
#include "../sys/rawe_interface.h"

extern const struct rawe_port_kind rawe_udp_port;

#define RAWE_UDP_ADDRESS_BYTES 4u /**< IPv4 */
#define RAWE_UDP_IPV6_BYTES 16u

/** First byte of a MAC address that stands for an IPv6 address: locally administered. */
#define RAWE_UDP_IPV6_MARKER 0x06u

/** Maximum number of IPv6 addresses that are known only because a datagram came from them. */
#define RAWE_UDP_HEARD_MAX 8192u

/**
 * Return the bulk port of a link (RAWE_PORT_EXPRESS), through whose socket it sends batches; NULL
 * when out of memory. The link receives them. Close the bulk port first.
 */
struct rawe_port *rawe_udp_bulk(struct rawe_port *link);

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

/* ---- this and the rest are for the port ---- */

/**
 * Longest payload of a datagram over IPv4; over IPv6 a bit more would fit. The limit also applies
 * before the kernel cuts it.
 */
#define RAWE_UDP_DATAGRAM_BYTES_MAX 65507u

/** Maximum number of datagrams that the kernel cuts from one (UDP_MAX_SEGMENTS before 6.10). */
#define RAWE_UDP_SEGMENTS_MAX 64u

/**
 * First byte of a batch's datagram, which no frame has. It takes the place of the header's port,
 * which the datagram has anyway: marker 8, 0 8, low half of the connection id 16.
 */
#define RAWE_UDP_BATCH_MARKER (RAWE_WIRE_VERSION << 4 | 0xF)

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
    struct rawe_port port; /**< first */
    uint32_t waits;        /**< a datagram is waiting in `current` */
    bool cuts;             /**< the kernel cuts datagrams; written by rawe_udp_send */
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

/** Set source, source_port and unknown of received datagrams from their address. */
void rawe_udp_note_source(struct rawe_udp_received *to);

/* ---- rawe_udp_socket.c ---- */

/** Return how many datagrams of this length one system call can send. */
unsigned rawe_udp_segments_max(size_t segment_bytes);

enum rawe_udp_sent {
    RAWE_UDP_TAKEN, /**< sent, or lost by an error that sending again would not mend */
    RAWE_UDP_FULL,  /**< no room in the kernel */
    RAWE_UDP_UNCUT, /**< the kernel cannot cut datagrams, so from now on `cuts` is false */
};

/** Send `frames` frames as one datagram, cut after each `segment_bytes` unless that is 0. */
enum rawe_udp_sent rawe_udp_send(struct rawe_udp *udp, union rawe_udp_address *to,
                                 struct iovec *iov, size_t iov_count, uint16_t segment_bytes,
                                 unsigned frames);

/* ---- rawe_udp_batch.c ---- */

/** Return true if a datagram is part of a batch for us. */
bool rawe_udp_is_batch(const struct rawe_udp *udp, const uint8_t *bytes, size_t len_bytes);

/** Return the length of all segments at `bytes` that are one packet, as if GRO had merged TCP. */
size_t rawe_udp_packet_bytes(const uint8_t *bytes, size_t left_bytes, size_t segment_bytes);

/**
 * Hand over a packet of `len_bytes` whose segments each have a header. Its data is copied to where
 * the receiver wants it, or else behind the first header. Returns the number of frames.
 */
unsigned rawe_udp_hand_over_packet(const struct rawe_udp *udp, const struct rawe_udp_received *from,
                                   uint8_t *bytes, size_t len_bytes,
                                   const struct rawe_port_receiver *receiver, void *context);

#endif
