/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Does to a frame what a NIC does before it reaches the cable: cuts a batch into its segments
 * and completes checksums.
 */
#ifndef WIRE_CUT_H
#define WIRE_CUT_H

#include "wire_frame.h"

#include <stdbool.h>

/** Called for each segment, which is the caller's. */
typedef void wire_segment_fn(void *context, struct wire_frame *segment);

/**
 * Calls `emit` for each frame as it would be on a cable. Cut are batches of TCP and of UDP
 * (USO), both over IPv4: the lab has no IPv6. False, and nothing emitted, for others and for
 * headers that make no sense. The frame's own bytes are changed.
 */
bool wire_cut(struct wire_frame *frame, wire_segment_fn *emit, void *context);

/** Length of the longest frame that wire_cut() makes of this one. */
size_t wire_cut_longest_bytes(const struct wire_frame *frame);

#endif
