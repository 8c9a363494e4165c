/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Batches of segments made by hand, from node 0 to node 1, for the tests of what a receiver makes
 * of them. What node 1 answers comes to nobody.
 */
#ifndef UNIT_SEGMENTS_H
#define UNIT_SEGMENTS_H

#include "unit_pair.h"

/** Length of a segment; shorter where a message ends. */
#define UNIT_SEGMENT_BYTES 1000u
#define UNIT_SEGMENT_HEAD_BYTES (RAWE_HEADER_BYTES + RAWE_FRAGMENT_PART_BYTES)
/** Of one batch. */
#define UNIT_SEGMENTS_MAX 60u

/** A frame of a batch, with one segment in it. */
struct unit_segment {
    uint32_t number;
    uint32_t offset;
    uint32_t total_bytes;
    uint16_t data_bytes; /**< UNIT_SEGMENT_BYTES at most: the rest is filled up */
    uint8_t tag;
};

/** For cmocka: a bulk lane between nodes whose links move batches. */
int unit_set_up_segments(void **state);
/** The one at `offset` of a message. */
struct unit_segment unit_segment(uint32_t number, uint32_t offset, uint32_t total_bytes);
/** All of a message; returns how many. */
unsigned unit_segments(struct unit_segment *out, uint32_t number, uint32_t total_bytes);
/** Put a batch with those on the wire, numbered from net->segment_sequence on. */
void unit_put_segments(const struct unit_segment *segments, unsigned count);
/** The same, and node 1 receives it. */
void unit_receive_segments(const struct unit_segment *segments, unsigned count);
/** Message `index` that node 1 got is the one with this number. */
void unit_assert_fragmented(unsigned index, uint32_t number, size_t len_bytes);

#endif
