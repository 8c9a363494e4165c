/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * A port (linux/port/rawe_port.h) that is a UDP socket, which needs no privilege and crosses
 * routers. A datagram contains what follows a frame's Ethernet header. For core, an IPv4 address is
 * a MAC address (rawe_udp_mac), and the frame header's port is the UDP port, so core and the glue
 * know nothing of UDP but the shorter MTU.
 *
 * A process has two adjacent UDP ports on each interface: the lower one receives express frames,
 * the upper one is the responder's. A PROBE is sent to both, as raw frames reach both sockets.
 *
 * There are no batches. Frames of equal length that are sent together are one system call, which
 * the kernel or the NIC cuts (UDP_SEGMENT), and the receiver's kernel merges what arrives together
 * (UDP_GRO). Unlike with TCP's segmentation, each datagram has its own complete header.
 */
#ifndef RAWE_UDP_H
#define RAWE_UDP_H

#include <stdint.h>

#include "../../core/base/rawe_wire.h"
#include "../port/rawe_port.h"
#include "../sys/rawe_interface.h"

extern const struct rawe_port_kind rawe_udp_port;

/** Bytes that IPv4 and UDP take from an interface's MTU. */
#define RAWE_UDP_OVERHEAD_BYTES 28u

#define RAWE_UDP_ADDRESS_BYTES 4u

/**
 * Write the MAC address that stands for an IPv4 address. All zero stands for 127.0.0.1, as for the
 * loopback interface.
 */
void rawe_udp_mac(uint8_t mac[RAWE_MAC_BYTES], const uint8_t address[RAWE_UDP_ADDRESS_BYTES]);

/** Format the IPv4 address for which a MAC address stands. */
struct rawe_mac_text rawe_udp_text(const uint8_t mac[RAWE_MAC_BYTES]);

#endif
