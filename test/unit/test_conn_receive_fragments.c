/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Tests of reception: PUT data and fragments of messages.
 */
#include "unit_receive.h"

#include <stdlib.h>
#include <string.h>

#include "conn/rawe_conn.h"

/** Hand node 1 a SEGMENT of message `number`. */
static void receive_segment_ahead(uint32_t ahead, uint32_t number, uint32_t offset,
                                  uint16_t data_bytes, uint32_t total_bytes)
{
    static uint8_t payload[2000];
    size_t at = rawe_fragment_encode(payload, &(struct rawe_fragment){.kind = RAWE_FRAGMENT_PART,
                                                                      .tag = 9,
                                                                      .data_bytes = data_bytes,
                                                                      .id = number,
                                                                      .offset = offset,
                                                                      .total_bytes = total_bytes});
    uint8_t *message = calloc(1, total_bytes + 1);
    assert_non_null(message);
    unit_fill(message, total_bytes, number);
    memcpy(payload + at, message + offset, data_bytes);
    free(message);
    receive_data(ahead, 0, payload, at + data_bytes);
}

static void receive_segment(uint32_t number, uint32_t offset, uint16_t data_bytes,
                            uint32_t total_bytes)
{
    receive_segment_ahead(0, number, offset, data_bytes, total_bytes);
}

static void receive_put(uint32_t index, uint64_t key, uint64_t offset, uint16_t data_bytes)
{
    static uint8_t payload[2000];
    size_t at = put_fragment(payload,
                             (struct rawe_fragment){.kind = RAWE_FRAGMENT_PUT,
                                                    .data_bytes = data_bytes,
                                                    .id = index,
                                                    .key = key,
                                                    .offset = offset},
                             33);
    receive_data(0, 0, payload, at);
}

FIXTURE(unit_set_up, unit_tear_down);

/* PUT */

TEST(place__only_where_the_handle_allows)
{
    uint8_t memory[300], before[300];
    uint32_t index;
    uint64_t key;
    memset(memory, 0xEE, sizeof(memory));
    memcpy(before, memory, sizeof(memory));
    connect_nodes();
    assert_true(rawe_handle_register(&net.node[1].handles, memory + 100, 100, &index, &key,
                                     RAWE_ACCESS_WRITE));
    const struct {
        uint32_t index;
        uint64_t key, offset;
        uint16_t data_bytes;
    } bad[] = {
        {index, key, 0, 101},
        {index, key, 100, 1},
        {index, key, 99, 2},
        {index, key, UINT64_MAX, 1},
        {index, key, UINT64_MAX - 99, 100},
        {index, key, 1ull << 32, 4},
        {index, key ^ 1, 0, 4},
        {index, key + (1ull << 32), 0, 4},
        {index, 0, 0, 4},
        {index + 1, key, 0, 4},
        {UINT32_MAX, key, 0, 4},
    };
    for (unsigned i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        receive_put(bad[i].index, bad[i].key, bad[i].offset, bad[i].data_bytes);
        assert_int_equal(counters(1)->dropped_handle, i + 1);
        assert_memory_equal(memory, before, sizeof(memory));
    }
    assert_int_equal(counters(1)->bytes_received, 0);
    assert_int_equal(engine(1)->put_refusal, RAWE_REFUSAL_BOUNDS); /* of the first one */
    receive_put(index, key, 100, 0);                               /* nothing, at its very end */
    receive_put(index, key, 10, 90);
    unit_fill(before + 110, 90, 33);
    assert_memory_equal(memory, before, sizeof(memory));
    assert_int_equal(counters(1)->bytes_received, 90);
    /* Given back, and given out again: the old key opens neither. */
    assert_true(rawe_handle_deregister(&net.node[1].handles, index, key));
    receive_put(index, key, 0, 4);
    uint32_t index_again;
    uint64_t key_again;
    assert_true(rawe_handle_register(&net.node[1].handles, memory + 100, 100, &index_again,
                                     &key_again, RAWE_ACCESS_WRITE));
    assert_int_equal(index_again, index);
    receive_put(index, key, 0, 4);
    assert_memory_equal(memory, before, sizeof(memory));
    assert_int_equal(counters(1)->dropped_handle, 13);
    assert_int_equal(net.node[1].message_count, 0);
}

TEST(place__every_length_through_the_wire)
{
    static uint8_t data[10000], memory[10100];
    uint32_t index;
    uint64_t key;
    connect_nodes();
    assert_true(rawe_handle_register(&net.node[1].handles, memory, sizeof(memory), &index, &key,
                                     RAWE_ACCESS_WRITE));
    uint32_t frame = net.config.payload_max_bytes - RAWE_FRAGMENT_PUT_BYTES;
    const size_t lengths[] = {1,     7,         8,         168,           169,         frame - 1,
                              frame, frame + 1, 2 * frame, 2 * frame + 1, sizeof(data)};
    for (unsigned i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
        struct unit_send send = {0};
        unit_fill(data, sizeof(data), i);
        memset(memory, 0xEE, sizeof(memory));
        unit_send_put(end(0), &send, data, lengths[i], index, key, 50);
        assert_int_equal(send.done, 0);
        unit_settle(&net);
        assert_int_equal(send.done, 1); /* its last frame asked for an acknowledgement */
        assert_int_equal(send.status, RAWE_STATUS_DONE);
        assert_memory_equal(memory + 50, data, lengths[i]);
        assert_int_equal(memory[49], 0xEE);
        assert_int_equal(memory[50 + lengths[i]], 0xEE);
    }
    assert_int_equal(counters(0)->puts_sent, sizeof(lengths) / sizeof(lengths[0]));
    assert_int_equal(net.node[1].message_count, 0);
}

static bool drop_every_fifth(struct unit_net *of, const struct net_frame *frame)
{
    return of->filter_count++ % 5 != 0;
}

static uint8_t put_data[60000], put_memory[60000];

static void assert_placed(struct unit_send *send)
{
    assert_memory_equal(put_memory, put_data, sizeof(put_data));
}

TEST(place__is_done_only_when_all_is_there)
{
    uint32_t index;
    uint64_t key;
    connect_nodes();
    assert_true(rawe_handle_register(&net.node[1].handles, put_memory, sizeof(put_memory), &index,
                                     &key, RAWE_ACCESS_WRITE));
    for (unsigned round = 0; round < 5; round++) {
        struct unit_send send = {.on_done = assert_placed};
        unit_fill(put_data, sizeof(put_data), round);
        net.filter = drop_every_fifth;
        unit_send_put(end(0), &send, put_data, sizeof(put_data), index, key, 0);
        unit_run(&net, 200 * UNIT_MS, 50 * UNIT_US);
        assert_int_equal(send.done, 1);
        assert_int_equal(send.status, RAWE_STATUS_DONE);
    }
}

/* Segments */

static void reply_to(struct unit_node *node, struct rawe_conn *conn, uint8_t tag)
{
    assert_int_equal(unit_copy_message(conn, (uint8_t)(tag + 100), 30), RAWE_STATUS_DONE);
}

TEST(add_fragment__out_of_order)
{
    connect_nodes();
    receive_segment(0, 1000, 500, 3000);
    receive_segment(1, 10, 10, 20);
    receive_segment(0, 0, 1000, 3000);
    receive_segment(1, 0, 10, 20);
    receive_segment(0, 1500, 1400, 3000);
    assert_int_equal(net.node[1].message_count, 0); /* 1 is whole and waits for 0 */
    receive_segment(0, 2900, 100, 3000);
    assert_int_equal(net.node[1].message_count, 2);
    unit_assert_message(&net.node[1], 0, 9, 3000, 0);
    unit_assert_message(&net.node[1], 1, 9, 20, 1);
    assert_int_equal(counters(1)->messages_received, 2);
    assert_int_equal(counters(1)->bytes_received, 3020);
}

TEST(add_fragment__hostile_ones_are_counted_and_do_no_harm)
{
    connect_nodes();
    receive_segment(0, 0, 100, 200);
    receive_segment(0, 100, 50, 151);                       /* another length */
    receive_segment(RAWE_REASSEMBLY_MESSAGES, 0, 100, 200); /* the slot is in use */
    receive_segment(1, 0, 100, net.config.message_max_bytes + 1);
    receive_segment(1, 0, 0, 100);   /* nothing in it */
    receive_segment(0, 0, 101, 200); /* more than is missing */
    assert_int_equal(counters(1)->dropped_fragment, 5);
    assert_int_equal(counters(1)->frames_received, 6); /* sent again they were no better */
    assert_int_equal(net.node[1].message_count, 0);
    receive_segment(0, 100, 100, 200);
    assert_int_equal(net.node[1].message_count, 1);
    unit_assert_message(&net.node[1], 0, 9, 200, 0);
}

TEST(add_fragment__without_a_buffer_the_frame_is_not_taken)
{
    connect_nodes();
    net.node[1].engine.reassembly_buffers.limit = 1;
    receive_segment(1, 0, 100, 200);
    uint32_t next = end(1)->recvwin.acktr->next;
    receive_segment(2, 0, 100, 200);
    assert_int_equal(counters(1)->no_buffer, 1);
    assert_int_equal(end(1)->recvwin.acktr->next, next);
    /* The message that all others wait for is taken beyond the limit. */
    receive_segment(0, 0, 200, 200);
    receive_segment(1, 100, 100, 200);
    assert_int_equal(net.node[1].message_count, 2);
    receive_segment(2, 0, 100, 200);
    receive_segment(2, 100, 100, 200);
    assert_int_equal(net.node[1].message_count, 3);
    for (unsigned i = 0; i < 3; i++) {
        unit_assert_message(&net.node[1], i, 9, 200, i);
    }
    assert_int_equal(counters(1)->no_buffer, 1);
}

TEST(add_fragment__a_callback_sends_while_more_are_whole)
{
    connect_nodes();
    for (uint32_t number = 5; number > 0; number--) {
        receive_segment(number, 0, 150, 150);
    }
    net.node[1].on_deliver = reply_to;
    receive_segment(0, 0, 150, 150); /* delivers all six */
    assert_int_equal(net.node[1].message_count, 6);
    assert_int_equal(unit_wire_count(&net), 6);
    unit_wire_clear(&net);
}

static bool drop_some(struct unit_net *of, const struct net_frame *frame)
{
    of->filter_count = of->filter_count * 1664525u + 1013904223u;
    return (of->filter_count >> 16) % 6 != 0;
}

TEST(add_fragment__few_buffers_for_many_messages_with_losses)
{
    enum { COUNT = 60 };
    static uint8_t data[4000];
    static struct unit_send sends[COUNT];
    memset(sends, 0, sizeof(sends));
    unit_fill(data, sizeof(data), 3);
    unit_connect(&net, RAWE_LANE_EXPRESS);
    unit_begin_at(&net, RAWE_LANE_EXPRESS, UINT32_MAX - 50);
    net.node[1].engine.reassembly_buffers.limit = 2;
    net.filter = drop_some;
    for (unsigned i = 0; i < COUNT; i++) {
        unit_send_message(end(0), &sends[i], (uint8_t)i, data, sizeof(data));
    }
    unit_run(&net, 500 * UNIT_MS, 50 * UNIT_US);
    net.filter = NULL;
    unit_run(&net, 500 * UNIT_MS, 100 * UNIT_US);
    assert_int_equal(net.node[1].message_count, COUNT);
    assert_true(counters(1)->no_buffer > 0);
    assert_in_range(net.node[1].engine.reassembly_buffers.allocated, 1, RAWE_REASSEMBLY_MESSAGES);
    for (unsigned i = 0; i < COUNT; i++) {
        assert_int_equal(sends[i].done, 1);
        unit_assert_message(&net.node[1], i, (uint8_t)i, sizeof(data), 3);
    }
    assert_true(rawe_conn_drained(end(0)));
}
