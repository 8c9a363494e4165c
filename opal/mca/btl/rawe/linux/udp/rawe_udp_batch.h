/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Batches in datagrams. Each datagram has its own headers, so that it can be received alone.
 */
#ifndef RAWE_UDP_BATCH_H
#define RAWE_UDP_BATCH_H

#include "rawe_udp_socket.h"

/**
 * First byte of a batch's datagram, which no frame has. It takes the place of the header's port,
 * which the datagram has anyway: marker 8, 0 8, low half of the connection id 16.
 */
#define RAWE_UDP_BATCH_MARKER (RAWE_FRAME_VERSION << 4 | 0xF)

/**
 * Return the bulk port of a link (RAWE_PORT_EXPRESS), through whose socket it sends batches; NULL
 * when out of memory. The link receives them. Close the bulk port first.
 */
struct rawe_port *rawe_udp_bulk(struct rawe_port *link);

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
