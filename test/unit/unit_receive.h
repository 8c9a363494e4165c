/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Frames made by hand, from node 0 to node 1, for the tests of what a receiver makes of them.
 */
#ifndef UNIT_RECEIVE_H
#define UNIT_RECEIVE_H

#include "unit_pair.h"

/** A fragment and `data_bytes` bytes of its data at `out`, padded. Returns the length. */
size_t put_fragment(uint8_t *out, struct rawe_fragment fragment, unsigned seed);
/** Hand node 1 a DATA frame of node 0, `ahead` of the next one it expects. */
void receive_data(uint32_t ahead, uint8_t flags, const uint8_t *payload, size_t payload_bytes);
/** The same with one message of 20 bytes, filled with seed `tag`. */
void receive_message(uint32_t ahead, uint8_t flags, uint8_t tag);
/** An open connection whose numbers are about to wrap; node 1's credit is 16 frames. */
void connect_nodes(void);

#endif
