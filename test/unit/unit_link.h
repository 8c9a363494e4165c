/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The link of a node, for unit_net.c: it takes frames as long as it has room, checks what must hold
 * of every frame, and puts them on the wire.
 */
#ifndef UNIT_LINK_H
#define UNIT_LINK_H

#include "unit_net.h"

/** Transmit of a rawe_output whose context is the node. */
unsigned unit_transmit(void *context, const struct rawe_frame *frames, unsigned count);
/** The same for batches: each is taken as a whole or not at all. */
bool unit_transmit_batch(void *context, const struct rawe_frame *packet, uint32_t segment_bytes);

#endif
