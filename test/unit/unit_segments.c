/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Batches of segments made by hand: see unit_segments.h.
 */
#include "unit_segments.h"

#include "net_message.h"

int unit_set_up_segments(void **state)
{
    (void)unit_set_up_wide(state);
    unit_use_batches(&net, 40);
    unit_connect(&net, RAWE_LANE_BULK);
    return 0;
}

struct unit_segment unit_segment(uint32_t number, uint32_t offset, uint32_t total_bytes)
{
    uint32_t left = total_bytes - offset;
    return (struct unit_segment){number, offset, total_bytes,
                                 (uint16_t)(left < UNIT_SEGMENT_BYTES ? left : UNIT_SEGMENT_BYTES),
                                 (uint8_t)number};
}

unsigned unit_segments(struct unit_segment *out, uint32_t number, uint32_t total_bytes)
{
    unsigned count = 0;
    for (uint32_t offset = 0; offset < total_bytes; offset += UNIT_SEGMENT_BYTES) {
        out[count++] = unit_segment(number, offset, total_bytes);
    }
    return count;
}

static void put_segment(const struct unit_segment *segment, bool last)
{
    uint8_t payload[RAWE_FRAGMENT_PART_BYTES + UNIT_SEGMENT_BYTES] = {0};
    struct rawe_fragment fragment = {
        .kind = RAWE_FRAGMENT_PART,
        .tag = segment->tag,
        .data_bytes = segment->data_bytes,
        .id = segment->number,
        .total_bytes = segment->total_bytes,
        .offset = segment->offset,
    };
    rawe_fragment_encode(payload, &fragment);
    net_content_fill(payload + RAWE_FRAGMENT_PART_BYTES, net_content_seed(0, segment->number),
                     segment->offset, segment->data_bytes);
    struct rawe_header header = {.type = RAWE_FRAME_BULK, .sequence = net.segment_sequence++};
    size_t payload_bytes = RAWE_FRAGMENT_PART_BYTES + segment->data_bytes;
    struct net_frame *frame = unit_forge(&net, 0, RAWE_LANE_BULK, header, payload,
                                         last ? payload_bytes : sizeof(payload));
    frame->header.payload_bytes = (uint16_t)payload_bytes;
    unit_frame_encode(frame);
    frame->batch = net.batch_number;
    unit_wire_put(&net, frame);
}

void unit_put_segments(const struct unit_segment *segments, unsigned count)
{
    assert_in_range(count, 1, UNIT_SEGMENTS_MAX);
    net.batch_number++;
    for (unsigned i = 0; i < count; i++) {
        put_segment(&segments[i], i + 1 == count);
    }
}

void unit_receive_segments(const struct unit_segment *segments, unsigned count)
{
    unit_put_segments(segments, count);
    unit_step(&net);
    unit_wire_clear(&net);
}

void unit_assert_fragmented(unsigned index, uint32_t number, size_t len_bytes)
{
    assert_true(index < net.node[1].message_count);
    const struct unit_message *got = &net.node[1].messages[index];
    assert_int_equal(got->tag, (uint8_t)number);
    assert_int_equal(got->len_bytes, len_bytes);
    assert_int_equal(net_content_compare(got->data, net_content_seed(0, number), 0, len_bytes),
                     len_bytes);
}
