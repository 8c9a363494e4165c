/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * A port (linux/port/rawe_port.h) that is a UDP socket, which needs no privilege and crosses
 * routers. A datagram contains what follows a frame's Ethernet header. For core, an IPv4 or IPv6
 * address is a MAC address (rawe_udp_address.c), and the frame header's port is the UDP port, so
 * core and the glue know nothing of UDP but the shorter MTU.
 *
 * A process has two adjacent UDP ports on each interface: the lower one receives express frames,
 * the upper one is the responder's, which answers from the lower one. A PROBE is sent to both, as
 * raw frames reach both sockets.
 *
 * A batch, and frames of equal length that are sent together, are one system call, which the kernel
 * or the NIC cuts (UDP_SEGMENT), and the receiver's kernel merges what arrives together (UDP_GRO).
 * TCP's segmentation copies a header to each segment; here the port does it, and leaves the headers
 * out again when it receives.
 */
#ifndef RAWE_UDP_H
#define RAWE_UDP_H

#include "../port/rawe_port.h"

extern const struct rawe_port_kind rawe_udp_port;

struct rawe_udp_received;

/** Set source, source_port and unknown of received datagrams from their address. For rawe_udp.c. */
void rawe_udp_note_source(struct rawe_udp_received *to);

#endif
