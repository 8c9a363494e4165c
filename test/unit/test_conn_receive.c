/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Tests of receiving frames: data, control frames and fragments.
 */
#include "unit_alloc.h"
#include "unit_pair.h"

#include <string.h>
#include <stdlib.h>

#include "conn/rawe_conn_connect.h"
#include "conn/rawe_conn.h"

static void set_up_connected(void)
{
    unit_set_up();
    connect_nodes();
}

FIXTURE(set_up_connected, unit_tear_down);
static const struct unit_fixture unconnected = {unit_set_up, unit_tear_down};

TEST(receive_data__outside_the_window)
{
    receive_message(RAWE_WINDOW_FRAMES_MAX, RAWE_FLAG_ACK_NOW, 1);
    receive_message(0x70000000, RAWE_FLAG_ACK_NOW, 1);
    assert_int_equal(counters(1)->dropped_outside, 2);
    assert_int_equal(counters(1)->frames_received, 0);
    assert_int_equal(net.node[1].message_count, 0);
    assert_false(rawe_engine_pending(&net.node[1].engine));
    receive_message(RAWE_WINDOW_FRAMES_MAX - 1, 0, 1);
    assert_int_equal(net.node[1].message_count, 1);
}

TEST(receive_data__beyond_a_gap_without_memory)
{
    unit_allocations_left = 2; /* the harness makes two for the frame */
    receive_message(1, 0, 2);
    unit_allocations_left = -1;
    assert_int_equal(counters(1)->no_buffer, 1);
    assert_int_equal(counters(1)->frames_received, 0);
    assert_int_equal(net.node[1].message_count, 0);
    assert_false(rawe_recvwin_has_gap(&end(1)->rx.window));
    receive_message(1, 0, 2);
    receive_message(0, 0, 1);
    assert_int_equal(net.node[1].message_count, 2);
    assert_null(end(1)->rx.window.taken);
    net_queue_clear(&net.queue);
}

TEST(rawe_conn_deliver_messages__what_is_before_a_malformed_fragment_counts)
{
    /* Malformed bytes after a valid message. */
    static const uint8_t tails[][24] = {
        {1, 1, 0},                /* 3 bytes: shorter than a fragment header */
        {1, 1, 0xFF, 0xFF},       /* longer than the frame */
        {1, 1, 0, 1},             /* one byte longer than the frame */
        {0, 1, 0, 0, 0, 0, 0, 0}, /* no such kind */
        {99, 1, 0, 0, 0, 0, 0, 0},
        {2, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0},
        {3, 0, 0, 0, 0, 0, 0, 0}, /* a PUT cut off */
        {3, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0},
    };
    static const size_t tail_bytes[] = {3, 4, 4, 8, 8, 16, 8, 24};
    for (unsigned i = 0; i < sizeof(tails) / sizeof(tails[0]); i++) {
        uint8_t payload[64];
        size_t at = put_fragment(
            payload,
            (struct rawe_fragment){.kind = RAWE_FRAGMENT_MESSAGE, .tag = 7, .data_bytes = 12}, i);
        memcpy(payload + at, tails[i], tail_bytes[i]);
        uint32_t next = end(1)->rx.window.next;
        receive_data(0, 0, payload, at + tail_bytes[i]);
        unit_assert_last(&net.node[1], i + 1, 7, 12, i);
        assert_int_equal(counters(1)->dropped_length, i + 1);
        assert_int_equal(end(1)->rx.window.next, next + 1); /* retransmitting would not help */
    }
}

TEST(receive_data__a_malformed_first_fragment_is_not_taken)
{
    static const uint8_t payloads[][40] = {
        {0},                                                          /* empty frame */
        {1, 1, 0},                                                    /* cut off */
        {1, 1, 0, 1},                                                 /* longer than the frame */
        {0, 1, 0, 0, 0, 0, 0, 0},                                     /* no such kind */
        {2, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0},                         /* SEGMENT cut off */
        {2, 1, 0, 4, 0, 0, 0, 0, 0, 0, 0, 5, 0, 0, 0, 8, 1, 2, 3, 4}, /* beyond its message */
        {3, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0},             /* PUT cut off */
        /* SEGMENT and PUT followed by another fragment */
        {2, 1, 0, 8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 16, 1, 2, 3, 4, 5, 6, 7, 8, 1, 0, 0, 0, 0},
        {3, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0},
    };
    static const size_t lengths[] = {0, 3, 4, 8, 12, 20, 16, 32, 32};
    uint32_t next = end(1)->rx.window.next;
    for (unsigned i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
        receive_data(0, RAWE_FLAG_ACK_NOW, payloads[i], lengths[i]);
        assert_int_equal(counters(1)->dropped_length, i + 1);
        assert_int_equal(end(1)->rx.window.next, next);
    }
    assert_int_equal(counters(1)->frames_received, 0);
    assert_int_equal(net.node[1].engine.reassembly_buffers.allocated, 0);
    assert_int_equal(net_queue_count(&net.queue), 0);
    receive_message(0, 0, 1); /* a valid frame with that number is still accepted */
    assert_int_equal(net.node[1].message_count, 1);
}

static unsigned replies;

static void reply_to(struct unit_node *node, struct rawe_conn *conn, uint8_t tag)
{
    replies++;
    unit_send_copy(conn, (uint8_t)(tag + 100), 30);
}

TEST_WITH(unconnected, rawe_conn_deliver__a_callback_replies)
{
    replies = 0;
    connect_nodes();
    net.node[1].on_deliver = reply_to;
    uint8_t payload[256];
    size_t at = 0;
    for (uint8_t i = 0; i < 4; i++) {
        at += put_fragment(
            payload + at,
            (struct rawe_fragment){.kind = RAWE_FRAGMENT_MESSAGE, .tag = i, .data_bytes = 9}, i);
    }
    receive_data(0, RAWE_FLAG_ACK_NOW, payload, at);
    assert_int_equal(replies, 4);
    /* The first reply carries the acknowledgement, so no ACK frame is needed. */
    assert_int_equal(net.wire->header.acknowledgement, UINT32_MAX);
    rawe_engine_flush(&net.node[1].engine, net.now_ns);
    assert_int_equal(counters(1)->acks_sent, 0);
    net_queue_clear(&net.queue);
}

static void receive_control(unsigned from, uint8_t type, uint32_t sequence, uint32_t beyond)
{
    unit_receive_forged(
        &net, from, RAWE_LANE_EXPRESS,
        (struct rawe_header){.type = type, .sequence = sequence, .acknowledgement = beyond}, NULL,
        0);
}

TEST(rawe_conn_receive__acknowledges_what_was_never_sent)
{
    static const uint8_t types[] = {RAWE_FRAME_DATA, RAWE_FRAME_BULK, RAWE_FRAME_ACK,
                                    RAWE_FRAME_PROBE};
    unit_send_copy(end(1), 1, 10);
    net_queue_clear(&net.queue);
    unsigned count = 0;
    for (unsigned i = 0; i < sizeof(types); i++) {
        uint8_t payload[64];
        size_t len_bytes = put_fragment(
            payload, (struct rawe_fragment){.kind = RAWE_FRAGMENT_MESSAGE, .data_bytes = 20}, 1);
        for (uint32_t beyond = 2; beyond < 0x7FFFFFFF; beyond *= 3) {
            unit_receive_forged(&net, 0, RAWE_LANE_EXPRESS,
                                (struct rawe_header){.type = types[i],
                                                     .sequence = end(1)->rx.window.next,
                                                     .acknowledgement = beyond},
                                payload, len_bytes);
            assert_int_equal(counters(1)->dropped_ack, ++count);
        }
    }
    assert_int_equal(end(1)->handshake.state, RAWE_CONN_OPEN);
    assert_int_equal(net.node[1].message_count, 0);
    assert_int_equal(counters(1)->frames_received, 0);
    assert_int_equal(counters(1)->probes_received, 0);
    assert_false(rawe_conn_drained(end(1)));
    assert_false(rawe_engine_pending(&net.node[1].engine));
}

TEST(rawe_conn_receive__a_probe_is_answered_at_the_end_of_the_round)
{
    receive_control(0, RAWE_FRAME_PROBE, 41, 0);
    receive_control(0, RAWE_FRAME_PROBE, 42, 0);
    assert_int_equal(net_queue_count(&net.queue), 0);
    rawe_engine_flush(&net.node[1].engine, net.now_ns);
    assert_int_equal(net_queue_count(&net.queue), 1);
    assert_int_equal(net.wire->header.type, RAWE_FRAME_ACK);
    assert_int_equal(net.wire->header.flags, RAWE_FLAG_PROBE_ANSWER);
    assert_int_equal(net.wire->header.sequence, 42);
    assert_int_equal(counters(1)->probes_received, 2);
    net_queue_clear(&net.queue);
    rawe_engine_flush(&net.node[1].engine, net.now_ns);
    assert_int_equal(net_queue_count(&net.queue), 0);
}

TEST(rawe_conn_receive__ping_and_pong_are_not_for_a_connection)
{
    receive_control(0, RAWE_FRAME_PING, 0, 0);
    receive_control(0, RAWE_FRAME_PONG, 0, 0);
    assert_int_equal(counters(1)->dropped_type, 2);
}

TEST_WITH(unconnected, rawe_conn_receive__on_a_connection_that_is_not_open)
{
    static const uint8_t types[] = {RAWE_FRAME_DATA, RAWE_FRAME_BULK, RAWE_FRAME_ACK,
                                    RAWE_FRAME_PROBE, RAWE_FRAME_CLOSE};
    unsigned dropped = 0;
    unit_open(&net, 0, RAWE_LANE_EXPRESS);
    unit_open(&net, 1, RAWE_LANE_EXPRESS);
    for (unsigned i = 0; i < sizeof(types); i++) {
        receive_control(0, types[i], 0, 0);
        assert_int_equal(counters(1)->dropped_connection, ++dropped);
        assert_int_equal(end(1)->handshake.state, RAWE_CONN_IDLE);
    }
    rawe_conn_connect(end(0), net.now_ns);
    unit_settle(&net);
    unit_close(&net, 0, RAWE_LANE_EXPRESS);
    unit_settle(&net);
    assert_int_equal(end(1)->handshake.state, RAWE_CONN_PEER_CLOSED);
    for (unsigned i = 0; i < sizeof(types); i++) {
        receive_control(0, types[i], 0, 0);
        assert_int_equal(counters(1)->dropped_connection, ++dropped);
        assert_int_equal(end(1)->handshake.state, RAWE_CONN_PEER_CLOSED);
    }
    assert_int_equal(net_queue_count(&net.queue), 0);
    assert_int_equal(net.node[1].message_count, 0);
}

/** Hand node 1 a frame with a SEGMENT of message `number`. */
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

TEST_WITH(unconnected, place__only_where_the_handle_allows)
{
    uint8_t memory[300], before[300];
    memset(memory, 0xEE, sizeof(memory));
    memcpy(before, memory, sizeof(memory));
    connect_nodes();
    const struct unit_memory known =
        unit_register_memory(&net, 1, memory + 100, 100, RAWE_ACCESS_WRITE);
    const uint32_t index = known.index;
    const uint64_t key = known.key;
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
    assert_int_equal(engine(1)->put_refusal, RAWE_REFUSAL_BOUNDS); /* the first refusal */
    receive_put(index, key, 100, 0);                               /* zero bytes at the end */
    receive_put(index, key, 10, 90);
    unit_fill(before + 110, 90, 33);
    assert_memory_equal(memory, before, sizeof(memory));
    assert_int_equal(counters(1)->bytes_received, 90);
    /* The old key is refused after deregistration, and once the index is reused. */
    assert_true(rawe_handle_deregister(&net.node[1].handles, index, key));
    receive_put(index, key, 0, 4);
    const struct unit_memory again =
        unit_register_memory(&net, 1, memory + 100, 100, RAWE_ACCESS_WRITE);
    assert_int_equal(again.index, index);
    receive_put(index, key, 0, 4);
    assert_memory_equal(memory, before, sizeof(memory));
    assert_int_equal(counters(1)->dropped_handle, 13);
    assert_int_equal(net.node[1].message_count, 0);
}

TEST(add_fragment__hostile_ones_are_counted_and_do_no_harm)
{
    receive_segment(0, 0, 100, 200);
    receive_segment(0, 100, 50, 151);                       /* contradicts the length */
    receive_segment(RAWE_REASSEMBLY_MESSAGES, 0, 100, 200); /* the slot is in use */
    receive_segment(1, 0, 100, net.config.message_max_bytes + 1);
    receive_segment(1, 0, 0, 100);   /* empty */
    receive_segment(0, 0, 101, 200); /* more data than is missing */
    assert_int_equal(counters(1)->dropped_fragment, 5);
    assert_int_equal(counters(1)->frames_received, 6); /* retransmissions would not help */
    assert_int_equal(net.node[1].message_count, 0);
    receive_segment(0, 100, 100, 200);
    unit_assert_last(&net.node[1], 1, 9, 200, 0);
}

TEST(add_fragment__without_a_buffer_the_frame_is_not_taken)
{
    net.node[1].engine.reassembly_buffers.limit = 1;
    receive_segment(1, 0, 100, 200);
    uint32_t next = end(1)->rx.window.next;
    receive_segment(2, 0, 100, 200);
    assert_int_equal(counters(1)->no_buffer, 1);
    assert_int_equal(end(1)->rx.window.next, next);
    /* The oldest message, which blocks all later ones, is accepted despite the limit. */
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
