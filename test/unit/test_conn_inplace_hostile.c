/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Tests of hostile batches with several messages. Whatever they do, nothing is read or written out
 * of bounds: that is for the address sanitizer to see.
 */
#include "unit_segments.h"

#include <stdlib.h>
#include <string.h>

static void forget_messages(void)
{
    for (unsigned i = 0; i < net.node[1].message_count; i++) {
        free(net.node[1].messages[i].data);
    }
    free(net.node[1].messages);
    net.node[1].messages = NULL;
    net.node[1].message_count = 0;
}

static void rawe_conn_inplace_add__contradictions(void **state)
{
    (void)state;
    struct unit_segment good[4], batch[5];
    good[0] = unit_segment(0, 0, 3500);
    good[1] = unit_segment(0, 1000, 3500);
    good[2] = unit_segment(0, 2000, 3500);
    good[3] = unit_segment(0, 3000, 3500);
    batch[4] = unit_segment(1, 0, 10);
    /* One field of one segment is wrong, by little, by much, or as far as it goes. */
    static const uint32_t wrong[] = {1, 999, 1000, 1001, 60000, 65536, 0x80000000u, 0xFFFFFFFFu};
    for (unsigned which = 0; which < 4; which++) {
        for (unsigned field = 0; field < 5; field++) {
            for (unsigned i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
                memcpy(batch, good, sizeof(good));
                struct unit_segment *segment = &batch[which];
                switch (field) {
                case 0:
                    segment->number += wrong[i];
                    break;
                case 1:
                    segment->offset += wrong[i];
                    break;
                case 2:
                    segment->total_bytes += wrong[i];
                    break;
                case 3:
                    segment->data_bytes = (uint16_t)(wrong[i] % (UNIT_SEGMENT_BYTES + 1));
                    break;
                default:
                    segment->tag = (uint8_t)(segment->tag + wrong[i]);
                    break;
                }
                net.segment_sequence = 0;
                unit_receive_segments(batch, 5);
                bool wrong_now = memcmp(batch, good, sizeof(good)) != 0;
                /* Bytes are counted: a peer may overlap its own fragments. */
                if (field != 1 || net.node[1].message_count != 2) {
                    assert_int_equal(net.node[1].message_count, wrong_now ? 0 : 2);
                }
                /* A peer that is honest afterwards, on a new connection, is served. */
                unit_close(&net, 1, RAWE_LANE_BULK);
                assert_null(engine(1)->inplace.conn);
                unit_close(&net, 0, RAWE_LANE_BULK);
                unit_wire_clear(&net);
                unit_connect(&net, RAWE_LANE_BULK);
                forget_messages();
            }
        }
    }
    net.segment_sequence = 0;
    memcpy(batch, good, sizeof(good));
    unit_receive_segments(batch, 5);
    assert_int_equal(net.node[1].message_count, 2);
    unit_assert_fragmented(0, 0, 3500);
}

static void rawe_conn_inplace_add__the_same_message_begins_twice(void **state)
{
    (void)state;
    struct unit_segment batch[UNIT_SEGMENTS_MAX];
    batch[0] = unit_segment(0, 0, 3000);
    batch[1] = unit_segment(0, 1000, 3000);
    batch[2] = unit_segment(0, 0, 2000); /* shorter now, and whole */
    batch[3] = unit_segment(0, 1000, 2000);
    batch[4] = unit_segment(0, 2000, 3000);
    batch[5] = unit_segment(1, 0, 10);
    unit_receive_segments(batch, 6);
    assert_int_equal(engine(1)->counters.dropped_fragment, 2);
    assert_int_equal(net.node[1].message_count, 2);
    unit_assert_fragmented(0, 0, 3000);
    unit_assert_fragmented(1, 1, 10);
    for (uint32_t number = 2; number < 2 + 2 * RAWE_REASSEMBLY_MESSAGES; number++) {
        unsigned count = unit_segments(batch, number, 1200); /* no place is taken for ever */
        count += unit_segments(batch + count, number + 1, 10);
        unit_receive_segments(batch, count);
        number++;
    }
    assert_int_equal(net.node[1].message_count, 2 + 2 * RAWE_REASSEMBLY_MESSAGES);
}

static void rawe_conn_inplace_add__longer_than_the_batch(void **state)
{
    (void)state;
    struct unit_segment batch[3];
    batch[0] = unit_segment(0, 0, 10);
    batch[1] = unit_segment(1, 0, 65536); /* from here on the buffer has not as much */
    batch[2] = unit_segment(1, 1000, 65536);
    unit_receive_segments(batch, 3);
    assert_null(engine(1)->inplace.conn); /* has a buffer of its own */
    assert_int_equal(engine(1)->reassembly_buffers.allocated, 1);
    batch[0] = unit_segment(1, 2000, 65536);
    batch[1] = unit_segment(1, 3000, 65537); /* longer than any message may be */
    unit_receive_segments(batch, 2);
    assert_int_equal(net.node[1].message_count, 1);
    assert_int_equal(engine(1)->counters.dropped_misplaced, 1);
    unit_put_segments(&batch[1], 1);
    struct net_frame *frame = unit_wire_take(&net);
    frame->batch = 0; /* the same in a plain frame */
    unit_receive(&net, frame);
    net_frame_free(frame);
    assert_int_equal(engine(1)->counters.dropped_fragment, 1);
}

static void rawe_conn_inplace_add__longer_than_messages_may_be(void **state)
{
    (void)state;
    struct unit_segment batch[UNIT_SEGMENTS_MAX];
    unit_stop(&net);
    unit_init(&net);
    net.config.message_max_bytes = 4000;
    unit_start(&net);
    unit_use_batches(&net, 40);
    unit_connect(&net, RAWE_LANE_BULK);
    unsigned count = unit_segments(batch, 0, 4000);
    count += unit_segments(batch + count, 1, 4001);
    unit_receive_segments(batch, count);
    assert_int_equal(net.batches_placed, 1);
    assert_int_equal(net.node[1].message_count, 1);
    unit_assert_fragmented(0, 0, 4000);
    assert_int_equal(engine(1)->counters.dropped_fragment, 5);
}

static void rawe_conn_inplace_add__a_gap_behind_a_short_segment(void **state)
{
    (void)state;
    struct unit_segment batch[4];
    batch[0] = unit_segment(0, 0, 2500);
    batch[0].data_bytes = 700; /* filled up in the middle of its message */
    batch[1] = unit_segment(0, 700, 2500);
    batch[2] = unit_segment(0, 1700, 2500);
    batch[3] = unit_segment(1, 0, 10);
    unit_receive_segments(batch, 4);
    assert_int_equal(net.node[1].message_count, 2);
    unit_assert_fragmented(0, 0, 2500);
    unit_assert_fragmented(1, 1, 10);
}

static void rawe_conn_inplace_add__a_frame_of_another_connection(void **state)
{
    (void)state;
    struct unit_segment batch[3];
    unit_connect(&net, RAWE_LANE_EXPRESS);
    struct rawe_conn *express = net.node[1].conn[RAWE_LANE_EXPRESS];
    batch[0] = unit_segment(0, 0, 2000);
    batch[1] = unit_segment(0, 1000, 2000);
    batch[2] = unit_segment(1, 0, 10);
    unit_put_segments(batch, 3);
    struct net_frame *second = net.wire->next;
    second->header.connection_id = express->handshake.local_id;
    second->header.sequence = 0;
    unit_frame_encode(second);
    /* Together they would be whole, but neither connection has the whole of it. */
    const struct net_frame *frame = net.wire;
    struct rawe_placement placement;
    assert_true(rawe_engine_plan(
        engine(1), frame->bytes + RAWE_MAC_BYTES, frame->bytes + RAWE_ETH_HEADER_BYTES,
        RAWE_HEADER_BYTES + RAWE_FRAGMENT_BYTES_MAX, UNIT_SEGMENT_HEAD_BYTES + UNIT_SEGMENT_BYTES,
        3 * UNIT_SEGMENT_HEAD_BYTES + 2010, &placement));
    for (unsigned i = 0; i < 3; i++, frame = frame->next) {
        const uint8_t *bytes = frame->bytes + RAWE_ETH_HEADER_BYTES;
        uint8_t *to = placement.base + i * placement.data_bytes;
        size_t data_bytes = frame->len_bytes - RAWE_ETH_HEADER_BYTES - placement.head_bytes;
        memcpy(to, bytes + placement.head_bytes, data_bytes);
        rawe_engine_receive_parts(engine(1), frame->bytes + RAWE_MAC_BYTES, bytes,
                                  placement.head_bytes, to, data_bytes, net.now_ns);
    }
    unit_wire_clear(&net);
    assert_int_equal(net.node[1].message_count, 0);
    assert_int_equal(express->reassembly->next, 0);
    net.segment_sequence = 1;
    unit_receive_segments(&batch[1], 1); /* what was missing */
    assert_int_equal(net.node[1].message_count, 2);
    unit_assert_fragmented(0, 0, 2000);
}

static void rawe_conn_inplace_add__other_kinds_in_the_middle(void **state)
{
    (void)state;
    struct unit_segment batch[4];
    static const uint8_t kinds[] = {RAWE_FRAGMENT_MESSAGE, RAWE_FRAGMENT_PUT,
                                    RAWE_FRAGMENT_VALIDATION, 0, 77};
    for (unsigned i = 0; i < sizeof(kinds); i++) {
        uint64_t dropped = engine(1)->counters.dropped_length;
        uint32_t before = net.segment_sequence;
        batch[0] = unit_segment(2 * i, 0, 10);
        batch[1] = unit_segment(2 * i + 1, 0, 3000);
        batch[2] = unit_segment(2 * i + 1, 1000, 3000);
        batch[3] = unit_segment(2 * i + 1, 2000, 3000);
        unit_put_segments(batch, 4);
        struct net_frame *third = net.wire->next->next;
        third->bytes[RAWE_PAYLOAD_OFFSET] = kinds[i];
        unit_step(&net);
        unit_wire_clear(&net);
        assert_int_equal(engine(1)->counters.dropped_length, dropped + 1);
        assert_int_equal(net.node[1].message_count, 2 * i + 1);
        net.segment_sequence = before + 2; /* it was not taken: as it should be, it is */
        unit_receive_segments(&batch[2], 1);
        assert_int_equal(net.node[1].message_count, 2 * i + 2);
        unit_assert_fragmented(2 * i + 1, 2 * i + 1, 3000);
        net.segment_sequence = before + 4;
    }
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, unit_set_up_segments, unit_tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(rawe_conn_inplace_add__contradictions),
        TEST(rawe_conn_inplace_add__the_same_message_begins_twice),
        TEST(rawe_conn_inplace_add__longer_than_the_batch),
        TEST(rawe_conn_inplace_add__longer_than_messages_may_be),
        TEST(rawe_conn_inplace_add__a_gap_behind_a_short_segment),
        TEST(rawe_conn_inplace_add__a_frame_of_another_connection),
        TEST(rawe_conn_inplace_add__other_kinds_in_the_middle),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
