/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Tests of messages that are delivered from the buffer a batch was received into.
 */
#define UNIT_LANE RAWE_LANE_BULK

#include "unit_alloc.h"
#include "unit_segments.h"

#include <string.h>

#include "rawe_conn_connect.h"
#include "rawe_conn_inplace.h"

/* rawe_conn_inplace_add */

static const uint8_t *delivered_from;

static void note_place(void *context, struct rawe_conn *conn, uint8_t tag, const uint8_t *bytes,
                       size_t len_bytes)
{
    (void)context, (void)conn, (void)tag, (void)len_bytes;
    delivered_from = bytes;
}

static void rawe_conn_inplace_add__delivered_from_the_buffer_itself(void **state)
{
    (void)state;
    struct unit_segment batch[UNIT_SEGMENTS_MAX];
    unsigned count = unit_segments(batch, 0, 2500);
    count += unit_segments(batch + count, 1, 300);
    engine(1)->callbacks.deliver = note_place;
    unit_receive_segments(batch, count);
    assert_int_equal(net.batches_placed, 1);
    assert_ptr_equal(delivered_from, engine(1)->inplace.buffer + 3 * UNIT_SEGMENT_BYTES);
    assert_int_equal(engine(1)->counters.messages_received, 2);
    assert_int_equal(engine(1)->reassembly_buffers.allocated, 0);
}

static void rawe_conn_inplace_add__several_messages_in_order(void **state)
{
    (void)state;
    const uint32_t lengths[] = {1, 1000, 1001, 2999, 3000, 5, 5, 4500, 999, 1};
    struct unit_segment batch[UNIT_SEGMENTS_MAX];
    unsigned count = 0;
    for (uint32_t i = 0; i < 10; i++) {
        count += unit_segments(batch + count, i, lengths[i]);
    }
    unit_receive_segments(batch, count);
    assert_int_equal(net.batches_placed, 1);
    assert_int_equal(net.node[1].message_count, 10);
    for (uint32_t i = 0; i < 10; i++) {
        unit_assert_fragmented(i, i, lengths[i]);
    }
    assert_int_equal(engine(1)->counters.messages_received, 10);
    assert_int_equal(engine(1)->counters.frames_received, count);
    assert_int_equal(engine(1)->reassembly_buffers.allocated, 0); /* none was needed */
    assert_int_equal(end(1)->reassembly->next, 10);
    assert_null(engine(1)->inplace.conn);
}

static void rawe_conn_inplace_add__as_long_as_the_buffer(void **state)
{
    (void)state;
    struct unit_segment batch[UNIT_SEGMENTS_MAX];
    unsigned count = unit_segments(batch, 0, 100);
    count += unit_segments(batch + count, 1, 55000);
    unit_receive_segments(batch, count);
    assert_int_equal(net.batches_placed, 1);
    assert_int_equal(net.node[1].message_count, 2);
    unit_assert_fragmented(1, 1, 55000);
}

static void rawe_conn_inplace_add__continues_in_the_next_batch(void **state)
{
    (void)state;
    struct unit_segment batch[UNIT_SEGMENTS_MAX];
    unsigned first = unit_segments(batch, 0, 1500);
    unsigned count = first + unit_segments(batch + first, 1, 9000);
    count += unit_segments(batch + count, 2, 700);
    unit_receive_segments(batch, first + 4); /* 4 of 9 segments */
    assert_int_equal(net.node[1].message_count, 1);
    assert_ptr_equal(engine(1)->inplace.conn, end(1));
    unit_receive_segments(batch + first + 4, count - first - 4);
    assert_int_equal(net.node[1].message_count, 3);
    unit_assert_fragmented(0, 0, 1500);
    unit_assert_fragmented(1, 1, 9000);
    unit_assert_fragmented(2, 2, 700);
    assert_null(engine(1)->inplace.conn);
}

static void rawe_conn_inplace_add__cut_everywhere(void **state)
{
    (void)state;
    struct unit_segment batch[UNIT_SEGMENTS_MAX];
    uint32_t number = 0;
    for (unsigned cut = 1; cut < 12; cut++) {
        unsigned count = unit_segments(batch, number, 1900);
        count += unit_segments(batch + count, number + 1, 4100);
        count += unit_segments(batch + count, number + 2, 2001);
        count += unit_segments(batch + count, number + 3, 10);
        for (unsigned from = 0; from < count; from += cut) {
            unit_receive_segments(batch + from, count - from < cut ? count - from : cut);
        }
        assert_int_equal(net.node[1].message_count, number + 4);
        unit_assert_fragmented(number, number, 1900);
        unit_assert_fragmented(number + 1, number + 1, 4100);
        unit_assert_fragmented(number + 2, number + 2, 2001);
        unit_assert_fragmented(number + 3, number + 3, 10);
        number += 4;
    }
    assert_int_equal(engine(1)->counters.dropped_fragment, 0);
    assert_null(engine(1)->inplace.conn);
}

static void rawe_conn_inplace_add__the_rest_comes_in_place(void **state)
{
    (void)state;
    struct unit_segment batch[UNIT_SEGMENTS_MAX];
    unsigned first = unit_segments(batch, 0, 1500);
    unsigned count = first + unit_segments(batch + first, 1, 9000);
    unit_receive_segments(batch, first + 3);
    unit_receive_segments(batch + first + 3,
                          count - first - 3); /* alone in its batch: into its own buffer */
    assert_int_equal(net.batches_placed, 2);
    assert_int_equal(net.node[1].message_count, 2);
    unit_assert_fragmented(1, 1, 9000);
}

static void rawe_conn_inplace_add__the_rest_comes_in_plain_frames(void **state)
{
    (void)state;
    struct unit_segment batch[UNIT_SEGMENTS_MAX];
    unsigned first = unit_segments(batch, 0, 1500);
    unsigned count = first + unit_segments(batch + first, 1, 5000);
    unit_receive_segments(batch, first + 2);
    unit_put_segments(batch + first + 2, count - first - 2);
    for (struct net_frame *frame; (frame = unit_wire_take(&net)) != NULL;) {
        unit_receive(&net, frame); /* cut by the sender's device, each comes alone */
        net_frame_free(frame);
    }
    assert_int_equal(net.node[1].message_count, 2);
    unit_assert_fragmented(1, 1, 5000);
}

static void rawe_conn_inplace_add__an_earlier_message_is_missing(void **state)
{
    (void)state;
    struct unit_segment batch[UNIT_SEGMENTS_MAX], late[UNIT_SEGMENTS_MAX];
    unsigned late_count = unit_segments(late, 0, 2500);
    unsigned count = unit_segments(batch, 1, 1500);
    count += unit_segments(batch + count, 2, 2500);
    net.segment_sequence = late_count;
    unit_receive_segments(batch, count);
    assert_int_equal(net.node[1].message_count, 0); /* they wait for it, in buffers of their own */
    assert_int_equal(engine(1)->reassembly_buffers.allocated, 2);
    uint32_t behind = net.segment_sequence;
    net.segment_sequence = 0;
    unit_receive_segments(late, late_count);
    assert_int_equal(net.node[1].message_count, 3);
    unit_assert_fragmented(0, 0, 2500);
    unit_assert_fragmented(1, 1, 1500);
    unit_assert_fragmented(2, 2, 2500);
    net.segment_sequence = behind;
    count = unit_segments(batch, 3, 100);
    count += unit_segments(batch + count, 4, 100);
    unit_receive_segments(batch, count);
    assert_int_equal(net.node[1].message_count, 5);
}

static void rawe_conn_inplace_add__its_beginning_is_missing(void **state)
{
    (void)state;
    struct unit_segment batch[UNIT_SEGMENTS_MAX];
    unsigned count = unit_segments(batch, 0, 2500);
    count += unit_segments(batch + count, 1, 1800);
    net.segment_sequence = 1;
    unit_receive_segments(batch + 1, count - 1);
    assert_int_equal(net.node[1].message_count, 0);
    net.segment_sequence = 0;
    unit_receive_segments(batch, 1);
    assert_int_equal(net.node[1].message_count, 2);
    unit_assert_fragmented(0, 0, 2500);
    unit_assert_fragmented(1, 1, 1800);
}

static void rawe_conn_inplace_add__two_connections_by_turns(void **state)
{
    (void)state;
    /* The other lane stands for another peer: the buffer is the engine's. */
    struct unit_segment batch[UNIT_SEGMENTS_MAX];
    unsigned first = unit_segments(batch, 0, 1500);
    unsigned count = first + unit_segments(batch + first, 1, 5000);
    unit_receive_segments(batch, first + 2);
    assert_ptr_equal(engine(1)->inplace.conn, end(1));
    assert_non_null(rawe_conn_inplace_buffer(engine(1))); /* somebody else's batch comes */
    memset(engine(1)->inplace.buffer, 0xEE, RAWE_INPLACE_BUFFER_BYTES);
    assert_null(engine(1)->inplace.conn);
    unit_receive_segments(batch + first + 2, count - first - 2);
    assert_int_equal(net.node[1].message_count, 2);
    unit_assert_fragmented(1, 1, 5000);
}

/* rawe_conn_inplace_spill, rawe_conn_inplace_buffer: without memory. */

static void rawe_conn_inplace_buffer__without_memory(void **state)
{
    (void)state;
    struct unit_segment batch[UNIT_SEGMENTS_MAX];
    struct rawe_placement placement;
    unsigned count = unit_segments(batch, 0, 1500);
    count += unit_segments(batch + count, 1, 500);
    unit_put_segments(batch, count);
    const struct net_frame *first = net.wire;
    unit_allocations_left = 0;
    assert_false(rawe_engine_plan(
        engine(1), first->bytes + RAWE_MAC_BYTES, first->bytes + RAWE_ETH_HEADER_BYTES,
        UNIT_SEGMENT_HEAD_BYTES + RAWE_FRAGMENT_PUT_BYTES - RAWE_FRAGMENT_PART_BYTES,
        UNIT_SEGMENT_HEAD_BYTES + UNIT_SEGMENT_BYTES,
        2 * (UNIT_SEGMENT_HEAD_BYTES + UNIT_SEGMENT_BYTES) + UNIT_SEGMENT_HEAD_BYTES + 500,
        &placement));
    unit_allocations_left = -1;
    assert_null(engine(1)->inplace.buffer);
    unit_step(&net);
    unit_wire_clear(&net);
    assert_int_equal(net.node[1].message_count, 2);
}

static void rawe_conn_inplace_buffer__not_for_longer_batches(void **state)
{
    (void)state;
    struct unit_segment batch[UNIT_SEGMENTS_MAX];
    struct rawe_placement placement;
    unsigned count = unit_segments(batch, 0, 1500);
    unit_put_segments(batch, count);
    const uint8_t *bytes = net.wire->bytes;
    const size_t longest = RAWE_INPLACE_BUFFER_BYTES;
    for (unsigned over = 0; over < 2; over++) {
        assert_int_equal(rawe_engine_plan(engine(1), bytes + RAWE_MAC_BYTES,
                                          bytes + RAWE_ETH_HEADER_BYTES,
                                          RAWE_HEADER_BYTES + RAWE_FRAGMENT_BYTES_MAX,
                                          UNIT_SEGMENT_HEAD_BYTES + UNIT_SEGMENT_BYTES + 60,
                                          longest + over, &placement),
                         over == 0);
    }
    unit_wire_clear(&net);
}

static void rawe_conn_inplace_spill__without_memory_it_stays(void **state)
{
    (void)state;
    struct unit_segment batch[UNIT_SEGMENTS_MAX];
    unsigned first = unit_segments(batch, 0, 1500);
    unsigned count = first + unit_segments(batch + first, 1, 5000);
    unit_receive_segments(batch, first + 2);
    const struct rawe_conn *whose = engine(1)->inplace.conn;
    assert_ptr_equal(whose, end(1));
    unit_put_segments(batch + first + 2, 1);
    struct net_frame *frame = unit_wire_take(&net);
    unit_allocations_left = 0;
    assert_null(rawe_conn_inplace_buffer(engine(1)));
    assert_false(rawe_conn_inplace_spill(engine(1)));
    assert_ptr_equal(engine(1)->inplace.conn, whose);
    /* A part that comes alone cannot be taken either, and is not acknowledged. */
    unit_receive(&net, frame);
    unit_allocations_left = -1;
    assert_int_equal(engine(1)->counters.no_buffer, 1);
    assert_int_equal(end(1)->recvwin.acktr->next, net.segment_sequence - 1);
    unit_receive(&net, frame);
    net_frame_free(frame);
    unit_receive_segments(batch + first + 3, count - first - 3);
    assert_int_equal(net.node[1].message_count, 2);
    unit_assert_fragmented(1, 1, 5000);
}

/* The end of the connection whose message is in the buffer. */

static void rawe_conn_inplace_spill__connection_closed(void **state)
{
    (void)state;
    struct unit_segment batch[UNIT_SEGMENTS_MAX];
    unsigned first = unit_segments(batch, 0, 1500);
    (void)unit_segments(batch + first, 1, 5000);
    unit_receive_segments(batch, first + 2);
    assert_non_null(engine(1)->inplace.conn);
    unit_close(&net, 1, RAWE_LANE_BULK);
    assert_null(engine(1)->inplace.conn);
    assert_non_null(rawe_conn_inplace_buffer(engine(1)));
}

static void rawe_conn_inplace_spill__connection_begun_anew(void **state)
{
    (void)state;
    struct unit_segment batch[UNIT_SEGMENTS_MAX];
    unsigned first = unit_segments(batch, 0, 1500);
    (void)unit_segments(batch + first, 1, 5000);
    unit_receive_segments(batch, first + 2);
    unit_close(&net, 0, RAWE_LANE_BULK);
    unit_settle(&net);
    assert_int_equal(end(1)->handshake.state, RAWE_CONN_PEER_CLOSED);
    assert_null(engine(1)->inplace.conn);
    unit_open(&net, 0, RAWE_LANE_BULK);
    rawe_conn_connect(net.node[0].conn[RAWE_LANE_BULK], net.now_ns);
    unit_settle(&net);
    net.segment_sequence = 0;
    unsigned count = unit_segments(batch, 0, 1100); /* nothing is left of the old one */
    count += unit_segments(batch + count, 1, 1100);
    unit_receive_segments(batch, count);
    assert_int_equal(net.node[1].message_count, 3);
    unit_assert_fragmented(1, 0, 1100);
    unit_assert_fragmented(2, 1, 1100);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, unit_set_up_segments, unit_tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(rawe_conn_inplace_add__delivered_from_the_buffer_itself),
        TEST(rawe_conn_inplace_add__several_messages_in_order),
        TEST(rawe_conn_inplace_add__as_long_as_the_buffer),
        TEST(rawe_conn_inplace_add__continues_in_the_next_batch),
        TEST(rawe_conn_inplace_add__cut_everywhere),
        TEST(rawe_conn_inplace_add__the_rest_comes_in_place),
        TEST(rawe_conn_inplace_add__the_rest_comes_in_plain_frames),
        TEST(rawe_conn_inplace_add__an_earlier_message_is_missing),
        TEST(rawe_conn_inplace_add__its_beginning_is_missing),
        TEST(rawe_conn_inplace_add__two_connections_by_turns),
        TEST(rawe_conn_inplace_buffer__without_memory),
        TEST(rawe_conn_inplace_buffer__not_for_longer_batches),
        TEST(rawe_conn_inplace_spill__without_memory_it_stays),
        TEST(rawe_conn_inplace_spill__connection_closed),
        TEST(rawe_conn_inplace_spill__connection_begun_anew),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
