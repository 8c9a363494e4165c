/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Tests of receiving batches straight into place: what is planned for, and frames that break the
 * promise of the first.
 */
#define UNIT_LANE RAWE_LANE_BULK

#include "unit_pair.h"

#include <stdlib.h>
#include <string.h>

#define HEAD_BYTES (RAWE_HEADER_BYTES + RAWE_FRAGMENT_BYTES_MAX)

static uint8_t memory[10000];
static uint32_t handle_index;
static uint64_t handle_key;
static struct rawe_placement placement;

static void connect_bulk(void)
{
    unit_use_batches(&net, 10);
    unit_connect(&net, RAWE_LANE_BULK);
    assert_true(rawe_handle_register(&net.node[1].handles, memory, sizeof(memory), &handle_index,
                                     &handle_key));
    memset(memory, 0xEE, sizeof(memory));
}

/** A frame of a batch to node 1: headers only, for data of `data_bytes` that lie elsewhere. */
static struct net_frame *batch_frame(uint32_t ahead, struct rawe_fragment fragment)
{
    uint8_t payload[RAWE_FRAGMENT_BYTES_MAX + 1000] = {0};
    size_t at = rawe_fragment_encode(payload, &fragment);
    unit_fill(payload + at, fragment.data_bytes, ahead);
    return unit_forge(&net, 0, RAWE_LANE_BULK,
                      (struct rawe_header){.type = RAWE_FRAME_BULK,
                                           .sequence = end(1)->recvwin.acktr->next + ahead},
                      payload, at + fragment.data_bytes);
}

static struct rawe_fragment put_fragment(uint64_t offset, uint16_t data_bytes)
{
    return (struct rawe_fragment){.kind = RAWE_FRAGMENT_PUT,
                                  .data_bytes = data_bytes,
                                  .id = handle_index,
                                  .key = handle_key,
                                  .offset = offset};
}

static struct rawe_fragment segment_fragment(uint32_t number, uint32_t offset, uint16_t data_bytes,
                                             uint32_t total_bytes)
{
    return (struct rawe_fragment){.kind = RAWE_FRAGMENT_PART,
                                  .tag = 7,
                                  .data_bytes = data_bytes,
                                  .id = number,
                                  .offset = offset,
                                  .total_bytes = total_bytes};
}

/** Ask for the place of a batch that begins with `frame`, whose head is all that can be read. */
static bool plan(const struct net_frame *frame, size_t head_bytes, size_t frame_bytes,
                 size_t total_bytes)
{
    uint8_t *head = malloc(head_bytes != 0 ? head_bytes : 1);
    assert_non_null(head);
    memcpy(head, frame->bytes + RAWE_ETH_HEADER_BYTES, head_bytes);
    memset(&placement, 0, sizeof(placement));
    bool planned = rawe_engine_plan(&net.node[1].engine, frame->bytes + RAWE_MAC_BYTES, head,
                                    head_bytes, frame_bytes, total_bytes, &placement);
    free(head);
    return planned;
}

/** The same for a batch of `count` whole frames; the frame is freed. */
static bool plan_batch(struct net_frame *frame, unsigned count)
{
    size_t frame_bytes = frame->len_bytes - RAWE_ETH_HEADER_BYTES;
    bool planned = plan(frame, HEAD_BYTES, frame_bytes, count * frame_bytes);
    net_frame_free(frame);
    return planned;
}

/** Receive the frame as a link does that has put its data at `data`; the frame is freed. */
static void receive_parts(struct net_frame *frame, size_t head_bytes, const uint8_t *data)
{
    size_t bytes = frame->len_bytes - RAWE_ETH_HEADER_BYTES;
    uint8_t *head = malloc(head_bytes);
    assert_non_null(head);
    memcpy(head, frame->bytes + RAWE_ETH_HEADER_BYTES, head_bytes);
    rawe_engine_receive_parts(&net.node[1].engine, frame->bytes + RAWE_MAC_BYTES, head, head_bytes,
                              data, bytes - head_bytes, net.now_ns);
    free(head);
    net_frame_free(frame);
}

/* rawe_engine_plan */

static void rawe_engine_plan__a_put(void **state)
{
    (void)state;
    connect_bulk();
    assert_true(plan_batch(batch_frame(0, put_fragment(1000, 500)), 4));
    assert_ptr_equal(placement.base, memory + 1000);
    assert_int_equal(placement.head_bytes, RAWE_HEADER_BYTES + RAWE_FRAGMENT_PUT_BYTES);
    assert_int_equal(placement.data_bytes, 500);
}

static void rawe_engine_plan__a_message_in_segments(void **state)
{
    (void)state;
    connect_bulk();
    assert_true(plan_batch(batch_frame(0, segment_fragment(0, 500, 500, 3000)), 5));
    assert_int_equal(placement.head_bytes, RAWE_HEADER_BYTES + RAWE_FRAGMENT_PART_BYTES);
    assert_ptr_equal(placement.base, end(1)->reassembly->partial[0].buffer + 500);
    /* Longer than the rest of the message: others follow, and it goes into a buffer for all. */
    assert_true(plan_batch(batch_frame(0, segment_fragment(0, 500, 500, 3000)), 6));
    assert_ptr_equal(placement.base, net.node[1].engine.inplace.buffer);
}

static void rawe_engine_plan__changes_nothing_by_itself(void **state)
{
    (void)state;
    connect_bulk();
    struct rawe_counters before = *counters(1);
    assert_true(plan_batch(batch_frame(0, put_fragment(0, 500)), 4));
    assert_memory_equal(&before, counters(1), sizeof(before));
    assert_int_equal(end(1)->recvwin.acktr->next, 0);
    assert_int_equal(memory[0], 0xEE);
    assert_false(rawe_engine_pending(&net.node[1].engine));
}

static void rawe_engine_plan__the_last_frame_may_be_shorter(void **state)
{
    (void)state;
    connect_bulk();
    struct net_frame *frame = batch_frame(0, put_fragment(sizeof(memory) - 1250, 500));
    size_t frame_bytes = frame->len_bytes - RAWE_ETH_HEADER_BYTES;
    assert_true(plan(frame, HEAD_BYTES, frame_bytes, 3 * frame_bytes - 250));
    assert_false(plan(frame, HEAD_BYTES, frame_bytes, 3 * frame_bytes - 249)); /* one too many */
    assert_true(plan(frame, HEAD_BYTES, 0, frame_bytes)); /* alone: no frame length given */
    assert_true(plan(frame, HEAD_BYTES, 2 * frame_bytes, frame_bytes));
    net_frame_free(frame);
    /*
     * A last frame too short for its headers: taken off the sum, it would hide that the frames
     * before it reach beyond the end of the memory.
     */
    frame = batch_frame(0, put_fragment(sizeof(memory) - 999, 500));
    for (size_t last_bytes = 1; last_bytes < HEAD_BYTES; last_bytes++) {
        assert_false(plan(frame, HEAD_BYTES, frame_bytes, 2 * frame_bytes + last_bytes));
    }
    net_frame_free(frame);
}

static void rawe_engine_plan__every_short_head(void **state)
{
    (void)state;
    connect_bulk();
    struct net_frame *frame = batch_frame(0, put_fragment(0, 100));
    for (size_t head_bytes = 0; head_bytes < HEAD_BYTES; head_bytes++) {
        assert_false(plan(frame, head_bytes, 0, frame->len_bytes - RAWE_ETH_HEADER_BYTES));
    }
    /* And every length of the batch that does not agree with the first header. */
    for (size_t total_bytes = 0; total_bytes < frame->len_bytes - RAWE_ETH_HEADER_BYTES;
         total_bytes++) {
        assert_false(plan(frame, HEAD_BYTES, 0, total_bytes));
        assert_false(plan(frame, HEAD_BYTES, total_bytes, total_bytes));
    }
    net_frame_free(frame);
}

static void rawe_engine_plan__only_memory_the_peer_may_write(void **state)
{
    (void)state;
    connect_bulk();
    struct rawe_fragment fragment = put_fragment(0, 500);
    fragment.key ^= 1;
    assert_false(plan_batch(batch_frame(0, fragment), 2));
    fragment = put_fragment(0, 500);
    fragment.id++;
    assert_false(plan_batch(batch_frame(0, fragment), 2));
    assert_true(plan_batch(batch_frame(0, put_fragment(sizeof(memory) - 1000, 500)), 2));
    assert_false(plan_batch(batch_frame(0, put_fragment(sizeof(memory) - 999, 500)), 2));
    assert_false(plan_batch(batch_frame(0, put_fragment(UINT64_MAX - 100, 500)), 2));
    assert_true(rawe_handle_deregister(&net.node[1].handles, handle_index, handle_key));
    assert_false(plan_batch(batch_frame(0, put_fragment(0, 500)), 2));
}

static void rawe_engine_plan__only_frames_that_are_all_new(void **state)
{
    (void)state;
    connect_bulk();
    unit_begin_at(&net, RAWE_LANE_BULK, UINT32_MAX - 1);
    receive_parts(batch_frame(3, put_fragment(1500, 500)),
                  RAWE_HEADER_BYTES + RAWE_FRAGMENT_PUT_BYTES, memory + 1500);
    assert_int_equal(counters(1)->frames_received, 1);
    assert_true(plan_batch(batch_frame(0, put_fragment(0, 500)), 3));
    assert_false(
        plan_batch(batch_frame(0, put_fragment(0, 500)), 4)); /* the last is there already */
    assert_false(plan_batch(batch_frame(3, put_fragment(1500, 500)), 1));
    assert_true(plan_batch(batch_frame(4, put_fragment(2000, 500)), 4));
    assert_false(plan_batch(batch_frame(0u - 1, put_fragment(0, 500)), 1)); /* acknowledged */
    assert_false(plan_batch(batch_frame(RAWE_WINDOW_FRAMES_MAX - 1, put_fragment(0, 500)), 2));
}

static void rawe_engine_plan__never_more_than_a_window(void **state)
{
    (void)state;
    connect_bulk();
    assert_true(plan_batch(batch_frame(0, put_fragment(0, 1)), net.config.window_frames));
    assert_false(plan_batch(batch_frame(0, put_fragment(0, 1)), net.config.window_frames + 1));
    struct net_frame *frame = batch_frame(0, put_fragment(0, 1));
    assert_false(plan(frame, HEAD_BYTES, frame->len_bytes - RAWE_ETH_HEADER_BYTES, SIZE_MAX / 2));
    net_frame_free(frame);
}

static void rawe_engine_plan__only_puts_and_segments(void **state)
{
    (void)state;
    connect_bulk();
    for (unsigned kind = 0; kind < 256; kind++) {
        struct net_frame *frame = batch_frame(0, put_fragment(0, 500));
        frame->bytes[RAWE_PAYLOAD_OFFSET] = (uint8_t)kind;
        bool planned = plan_batch(frame, 1);
        assert_true(!planned || kind == RAWE_FRAGMENT_PUT || kind == RAWE_FRAGMENT_PART);
    }
    assert_false(plan_batch(batch_frame(0, put_fragment(0, 0)), 1)); /* nothing to place */
    for (unsigned type = 0; type < 16; type++) {
        struct net_frame *frame = batch_frame(0, put_fragment(0, 500));
        frame->header.type = (uint8_t)type;
        unit_frame_encode(frame);
        assert_int_equal(plan_batch(frame, 1), type == RAWE_FRAME_BULK);
    }
}

static void rawe_engine_plan__only_from_the_peer_of_an_open_connection(void **state)
{
    (void)state;
    connect_bulk();
    struct net_frame *frame = batch_frame(0, put_fragment(0, 500));
    frame->header.port++;
    unit_frame_encode(frame);
    assert_false(plan_batch(frame, 1));
    frame = batch_frame(0, put_fragment(0, 500));
    frame->header.key++;
    unit_frame_encode(frame);
    assert_false(plan_batch(frame, 1));
    frame = batch_frame(0, put_fragment(0, 500));
    frame->header.connection_id ^= 0x00100000;
    unit_frame_encode(frame);
    assert_false(plan_batch(frame, 1));
    frame = batch_frame(0, put_fragment(0, 500));
    frame->bytes[RAWE_MAC_BYTES + 5] ^= 1;
    assert_false(plan_batch(frame, 1));
    frame = batch_frame(0, put_fragment(0, 500));
    frame->bytes[RAWE_ETH_HEADER_BYTES] ^= 0x20; /* version */
    assert_false(plan_batch(frame, 1));
    frame = batch_frame(0, put_fragment(0, 500));
    unit_close(&net, 0, RAWE_LANE_BULK);
    unit_settle(&net);
    frame->header.connection_id = end(1)->handshake.local_id;
    unit_frame_encode(frame);
    assert_int_equal(end(1)->handshake.state, RAWE_CONN_PEER_CLOSED);
    assert_false(plan_batch(frame, 1));
}

/* rawe_engine_receive_parts */

static void rawe_engine_receive_parts__data_in_place(void **state)
{
    (void)state;
    connect_bulk();
    unit_fill(memory + 1000, 500, 0);
    uint8_t copy[500];
    memcpy(copy, memory + 1000, 500);
    receive_parts(batch_frame(0, put_fragment(1000, 500)),
                  RAWE_HEADER_BYTES + RAWE_FRAGMENT_PUT_BYTES, memory + 1000);
    assert_memory_equal(memory + 1000, copy, 500);
    assert_int_equal(counters(1)->frames_received, 1);
    assert_int_equal(counters(1)->bytes_received, 500);
}

static void rawe_engine_receive_parts__data_in_the_wrong_place_counts_as_lost(void **state)
{
    (void)state;
    connect_bulk();
    /* The second frame of a batch was not what the first one promised: it lies 100 bytes off. */
    unit_fill(memory + 1100, 500, 0);
    receive_parts(batch_frame(0, put_fragment(1000, 500)),
                  RAWE_HEADER_BYTES + RAWE_FRAGMENT_PUT_BYTES, memory + 1100);
    assert_int_equal(counters(1)->dropped_misplaced, 1);
    assert_int_equal(counters(1)->frames_received, 0);
    assert_int_equal(memory[1099], 0xEE);
    /* Nor does a segment belong there: its message has no buffer yet, or another one. */
    receive_parts(batch_frame(0, segment_fragment(0, 0, 500, 900)),
                  RAWE_HEADER_BYTES + RAWE_FRAGMENT_PART_BYTES, memory + 1100);
    assert_true(plan_batch(batch_frame(0, segment_fragment(0, 0, 500, 900)), 1));
    receive_parts(batch_frame(0, segment_fragment(0, 0, 500, 900)),
                  RAWE_HEADER_BYTES + RAWE_FRAGMENT_PART_BYTES, memory + 1100);
    assert_int_equal(counters(1)->dropped_misplaced, 3);
    assert_int_equal(counters(1)->frames_received, 0);
    struct rawe_fragment fragment = put_fragment(0, 500);
    fragment.key ^= 1;
    receive_parts(batch_frame(0, fragment), RAWE_HEADER_BYTES + RAWE_FRAGMENT_PUT_BYTES, memory);
    assert_int_equal(counters(1)->dropped_handle, 1);
}

/**
 * Receive the frames of a batch of four but the second as one: what is left is put together
 * without a gap. Frees all but the second.
 */
static void receive_with_gap(struct net_frame *const frames[4])
{
    const unsigned order[] = {0, 2, 3};
    uint8_t kind = frames[0]->bytes[RAWE_PAYLOAD_OFFSET];
    size_t head_bytes = RAWE_HEADER_BYTES + rawe_fragment_header_bytes(kind);
    assert_true(plan_batch(net_frame_copy(frames[0]), 3));
    for (unsigned i = 0; i < 3; i++) {
        memcpy(placement.base + (size_t)i * placement.data_bytes,
               frames[order[i]]->bytes + RAWE_ETH_HEADER_BYTES + head_bytes, placement.data_bytes);
    }
    for (unsigned i = 0; i < 3; i++) {
        receive_parts(frames[order[i]], head_bytes,
                      placement.base + (size_t)i * placement.data_bytes);
    }
}

static void rawe_engine_receive_parts__a_batch_put_together_over_a_gap(void **state)
{
    (void)state;
    struct net_frame *frames[4];
    connect_bulk();
    for (uint32_t i = 0; i < 4; i++) {
        frames[i] = batch_frame(i, put_fragment(1000 + 500 * i, 500));
    }
    receive_with_gap(frames);
    assert_int_equal(counters(1)->dropped_misplaced, 2);
    assert_int_equal(counters(1)->frames_received, 1);
    unit_receive(&net, frames[1]);
    net_frame_free(frames[1]);
    for (uint32_t i = 0; i < 2; i++) { /* the two behind it come again */
        struct net_frame *frame = batch_frame(0, put_fragment(2000 + 500 * i, 500));
        unit_fill(frame->bytes + frame->len_bytes - 500, 500, 2 + i);
        unit_receive(&net, frame);
        net_frame_free(frame);
    }
    assert_int_equal(counters(1)->frames_received, 4);
    for (uint32_t i = 0; i < 4; i++) {
        uint8_t expected[500];
        unit_fill(expected, sizeof(expected), i);
        assert_memory_equal(memory + 1000 + 500 * i, expected, sizeof(expected));
    }
}

static void rawe_engine_receive_parts__segments_put_together_over_a_gap(void **state)
{
    (void)state;
    struct net_frame *frames[4];
    uint8_t whole[2000];
    connect_bulk();
    for (uint32_t i = 0; i < 4; i++) {
        frames[i] = batch_frame(i, segment_fragment(0, 500 * i, 500, 2000));
        unit_fill(whole + (size_t)500 * i, 500, i);
    }
    struct net_frame *again[2] = {net_frame_copy(frames[2]), net_frame_copy(frames[3])};
    receive_with_gap(frames);
    assert_int_equal(counters(1)->dropped_misplaced, 2);
    assert_int_equal(net.node[1].message_count, 0);
    unit_receive(&net, frames[1]);
    unit_receive(&net, again[0]);
    unit_receive(&net, again[1]);
    assert_int_equal(net.node[1].message_count, 1);
    assert_memory_equal(net.node[1].messages[0].data, whole, sizeof(whole));
    net_frame_free(frames[1]);
    net_frame_free(again[0]);
    net_frame_free(again[1]);
}

static void rawe_engine_receive_parts__headers_longer_or_shorter_than_promised(void **state)
{
    (void)state;
    connect_bulk();
    uint64_t dropped = 0;
    /* Heads cut at each length, in memory that ends there. */
    for (size_t fragment_bytes = 0; fragment_bytes <= 40; fragment_bytes++) {
        if (fragment_bytes != RAWE_FRAGMENT_PUT_BYTES) {
            receive_parts(batch_frame(0, put_fragment(0, 500)), RAWE_HEADER_BYTES + fragment_bytes,
                          memory);
            assert_int_equal(counters(1)->dropped_length, ++dropped);
        }
        if (fragment_bytes != RAWE_FRAGMENT_PART_BYTES) {
            receive_parts(batch_frame(0, segment_fragment(0, 0, 500, 500)),
                          RAWE_HEADER_BYTES + fragment_bytes, memory);
            assert_int_equal(counters(1)->dropped_length, ++dropped);
        }
        receive_parts(batch_frame(0, (struct rawe_fragment){.kind = RAWE_FRAGMENT_MESSAGE,
                                                            .data_bytes = 500}),
                      RAWE_HEADER_BYTES + fragment_bytes, memory);
        assert_int_equal(counters(1)->dropped_length, ++dropped);
    }
    assert_int_equal(counters(1)->frames_received, 0);
    assert_int_equal(net.node[1].message_count, 0);
    struct net_frame *frame = batch_frame(0, put_fragment(0, 500));
    for (size_t head_bytes = 1; head_bytes < RAWE_HEADER_BYTES; head_bytes++) {
        receive_parts(net_frame_copy(frame), head_bytes, memory);
        assert_int_equal(counters(1)->dropped_short, head_bytes);
    }
    net_frame_free(frame);
}

static void rawe_engine_receive_parts__control_frames_have_no_business_in_a_batch(void **state)
{
    (void)state;
    connect_bulk();
    assert_int_equal(unit_copy_message(end(1), 1, 10), RAWE_STATUS_DONE);
    unit_wire_clear(&net);
    for (unsigned type = RAWE_FRAME_ACK; type < RAWE_FRAME_TYPE_END; type++) {
        if (type == RAWE_FRAME_CLOSE) {
            continue; /* needs no payload, hence nothing of it is read */
        }
        struct net_frame *frame = batch_frame(0, put_fragment(0, 500));
        frame->header.type = (uint8_t)type;
        if (type == RAWE_FRAME_PROBE) {
            frame->header.connection_id ^= 0x00100000; /* would be answered with a CLOSE */
        }
        unit_frame_encode(frame);
        receive_parts(frame, RAWE_HEADER_BYTES, memory);
    }
    assert_int_equal(unit_wire_count(&net), 0);
    assert_int_equal(end(1)->sendwin.sacked, 0);
    assert_int_equal(end(1)->handshake.state, RAWE_CONN_OPEN);
    assert_int_equal(counters(1)->dropped_type, 5); /* ACK, CONNECT, PING, PONG, SLICE */
    assert_int_equal(counters(1)->dropped_connection, 1);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, unit_set_up, unit_tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(rawe_engine_plan__a_put),
        TEST(rawe_engine_plan__a_message_in_segments),
        TEST(rawe_engine_plan__changes_nothing_by_itself),
        TEST(rawe_engine_plan__the_last_frame_may_be_shorter),
        TEST(rawe_engine_plan__every_short_head),
        TEST(rawe_engine_plan__only_memory_the_peer_may_write),
        TEST(rawe_engine_plan__only_frames_that_are_all_new),
        TEST(rawe_engine_plan__never_more_than_a_window),
        TEST(rawe_engine_plan__only_puts_and_segments),
        TEST(rawe_engine_plan__only_from_the_peer_of_an_open_connection),
        TEST(rawe_engine_receive_parts__data_in_place),
        TEST(rawe_engine_receive_parts__data_in_the_wrong_place_counts_as_lost),
        TEST(rawe_engine_receive_parts__a_batch_put_together_over_a_gap),
        TEST(rawe_engine_receive_parts__segments_put_together_over_a_gap),
        TEST(rawe_engine_receive_parts__headers_longer_or_shorter_than_promised),
        TEST(rawe_engine_receive_parts__control_frames_have_no_business_in_a_batch),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
