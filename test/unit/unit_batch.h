/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * A bulk lane between two nodes whose links move batches, for the tests of these.
 */
#ifndef UNIT_BATCH_H
#define UNIT_BATCH_H

#define UNIT_LANE RAWE_LANE_BULK

#include "unit_pair.h"

#define BATCH_DATA_BYTES 300000u

/** What is sent, and node 1's memory that PUTs go to. */
extern uint8_t batch_data[BATCH_DATA_BYTES], batch_memory[BATCH_DATA_BYTES];
extern uint32_t batch_handle_index;
extern uint64_t batch_handle_key;

/** Open the lane, with batches of at most that many frames, and register node 1's memory. */
void batch_connect(unsigned frames_max);
/** Begin to PUT that much of `batch_data`. */
void batch_begin_put(struct unit_send *send, size_t len_bytes);
/** PUT `len_bytes` of new content and wait until it is done. */
void batch_put(size_t len_bytes, unsigned seed);

#endif
