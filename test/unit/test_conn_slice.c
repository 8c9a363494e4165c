/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Tests of frames that are sent in slices because the path does not carry them any more.
 */
#include "unit_pair.h"

#include <string.h>

#include "conn/rawe_conn_connect.h"
#include "conn/rawe_conn.h"

/** Frame payload that the path carries once its MTU has been lowered. */
#define LOWERED_BYTES 600u

static uint8_t data[30000];
static struct unit_send sends[4];

/** Drop large frames, as if the path's MTU had been lowered. */
static bool drop_large(struct unit_net *unused, const struct net_frame *frame)
{
    return frame->header.payload_bytes <= LOWERED_BYTES;
}

static void set_up(void)
{
    unit_fill(data, sizeof(data), 3);
    memset(sends, 0, sizeof(sends));
    unit_set_up();
}

/** Messages whose frames are too long for the path are in the window, and lost. */
static void stall(unsigned lane, unsigned count, size_t len_bytes)
{
    unit_connect(&net, lane);
    net.filter = drop_large;
    for (unsigned i = 0; i < count; i++) {
        unit_send_message(net.node[0].conn[lane], &sends[i], (uint8_t)i, data + i, len_bytes);
    }
    unit_run(&net, 20 * UNIT_MS, 100 * UNIT_US);
    assert_int_equal(net.node[1].message_count, 0);
}

static void lower(unsigned lane)
{
    unit_set_payload_max(net.node[0].conn[lane], LOWERED_BYTES);
    unit_run(&net, 300 * UNIT_MS, 100 * UNIT_US);
}

static void assert_arrived(unsigned count, size_t len_bytes)
{
    assert_int_equal(net.node[1].message_count, count);
    for (unsigned i = 0; i < count; i++) {
        const struct unit_message *message = &net.node[1].messages[i];
        assert_int_equal(message->len_bytes, len_bytes);
        assert_memory_equal(message->data, data + message->tag, len_bytes);
        unit_assert_sent(&sends[i], 1, RAWE_STATUS_DONE);
    }
}

FIXTURE(set_up, unit_tear_down);

TEST(rawe_conn_transmit_slices__what_comes_after_is_short)
{
    stall(RAWE_LANE_EXPRESS, 1, 1200);
    lower(RAWE_LANE_EXPRESS);
    assert_arrived(1, 1200);
    uint64_t slices = counters(0)->slices_sent;
    unit_send_message(end(0), &sends[1], 1, data + 1, 1200);
    unit_run(&net, 20 * UNIT_MS, 100 * UNIT_US);
    assert_arrived(2, 1200);
    assert_int_equal(counters(0)->slices_sent, slices);
}

/** Slices that the link refuses are sent later; its queue may never hold all slices of a frame. */
TEST(rawe_conn_transmit_slices__the_link_takes_one_at_a_time)
{
    stall(RAWE_LANE_EXPRESS, 2, 1200);
    unit_set_payload_max(end(0), LOWERED_BYTES);
    const uint64_t resent = counters(0)->frames_resent;
    for (unsigned i = 0; i < 400 && net.node[1].message_count < 2; i++) {
        net.node[0].link_room = 1; /* a slice, of three */
        unit_run(&net, UNIT_MS, UNIT_MS);
        rawe_engine_flush(engine(0), net.now_ns);
        /* A frame counts as sent when its last slice is. */
        assert_int_equal(end(0)->tx.window.to_transmit + counters(0)->frames_resent - resent,
                         counters(0)->slices_sent != 0 ? 2 : end(0)->tx.window.to_transmit);
    }
    assert_int_equal(net.node[1].message_count, 2);
    net.node[0].link_room = UINT32_MAX;
    unit_run(&net, 10 * UNIT_MS, UNIT_MS);
    assert_arrived(2, 1200);
}

static void receive_slice(uint32_t sequence, struct rawe_slice slice, size_t data_bytes)
{
    uint8_t payload[RAWE_SLICE_BYTES + 1400] = {0};
    struct rawe_header header = {.type = RAWE_FRAME_SLICE, .sequence = sequence};
    rawe_slice_encode(payload, &slice);
    unit_receive_forged(&net, 0, RAWE_LANE_EXPRESS, header, payload, RAWE_SLICE_BYTES + data_bytes);
}

TEST(rawe_conn_take_slice__lengths_that_do_not_add_up)
{
    unit_connect(&net, RAWE_LANE_EXPRESS);
    uint32_t next = end(1)->rx.window.next;
    receive_slice(next, (struct rawe_slice){0, 100, RAWE_FRAME_DATA}, 101);
    receive_slice(next, (struct rawe_slice){65000, 65535, RAWE_FRAME_DATA}, 1000);
    receive_slice(next, (struct rawe_slice){0, 65535, RAWE_FRAME_DATA}, 1000);
    receive_slice(next, (struct rawe_slice){0, 100, RAWE_FRAME_ACK}, 50);
    receive_slice(next, (struct rawe_slice){0, 100, RAWE_FRAME_DATA}, 0);
    assert_int_equal(counters(1)->dropped_length, 5);
    assert_int_equal(end(1)->rx.window.next, next);
    assert_null(end(1)->rx.sliced);
}

TEST(rawe_conn_take_slice__parts_that_do_not_belong_together)
{
    unit_connect(&net, RAWE_LANE_EXPRESS);
    uint32_t next = end(1)->rx.window.next;
    receive_slice(next, (struct rawe_slice){50, 100, RAWE_FRAME_DATA}, 50); /* no first one */
    assert_null(end(1)->rx.sliced);
    receive_slice(next, (struct rawe_slice){0, 100, RAWE_FRAME_DATA}, 50);
    receive_slice(next + 1, (struct rawe_slice){50, 100, RAWE_FRAME_DATA}, 50);
    receive_slice(next, (struct rawe_slice){50, 101, RAWE_FRAME_DATA}, 51);
    receive_slice(next, (struct rawe_slice){50, 100, RAWE_FRAME_BULK}, 50);
    receive_slice(next, (struct rawe_slice){40, 100, RAWE_FRAME_DATA}, 60);
    assert_int_equal(counters(1)->dropped_slice, 5);
    assert_int_equal(end(1)->rx.window.next, next);
}

/** Half of a frame with two padded messages. */
#define HALF_BYTES 32u
#define MESSAGE_BYTES 26u

/** Hand node 1 part of a frame with two messages. */
static void receive_part(uint32_t sequence, const uint8_t *frame, uint16_t offset, uint16_t bytes)
{
    uint8_t payload[RAWE_SLICE_BYTES + 2 * HALF_BYTES];
    const struct rawe_slice slice = {offset, 2 * HALF_BYTES, RAWE_FRAME_DATA};
    struct rawe_header header = {.type = RAWE_FRAME_SLICE, .sequence = sequence};
    rawe_slice_encode(payload, &slice);
    memcpy(payload + RAWE_SLICE_BYTES, frame + offset, bytes);
    unit_receive_forged(&net, 0, RAWE_LANE_EXPRESS, header, payload,
                        RAWE_SLICE_BYTES + (size_t)bytes);
}

/** The owner waits in its callback, and the next frame's first slice comes meanwhile. */
static void receive_inside(struct unit_node *node, struct rawe_conn *conn, uint8_t tag)
{
    static const uint8_t next[2 * HALF_BYTES] = {0};
    node->on_deliver = NULL;
    rawe_engine_defer_begin(&node->engine);
    receive_part(conn->rx.window.next, next, 0, 2 * HALF_BYTES - 8);
    rawe_engine_defer_end(&node->engine);
}

TEST(rawe_conn_take_slice__from_inside_a_callback)
{
    uint8_t frame[2 * HALF_BYTES] = {0};
    unit_connect(&net, RAWE_LANE_EXPRESS);
    uint32_t sequence = end(1)->rx.window.next;
    for (uint8_t i = 0; i < 2; i++) {
        uint8_t *at = frame + i * HALF_BYTES;
        at += rawe_fragment_encode(at, &(struct rawe_fragment){.kind = RAWE_FRAGMENT_MESSAGE,
                                                               .tag = i,
                                                               .data_bytes = MESSAGE_BYTES});
        unit_fill(at, MESSAGE_BYTES, i);
    }
    net.node[1].on_deliver = receive_inside;
    receive_part(sequence, frame, 0, HALF_BYTES);
    receive_part(sequence, frame, HALF_BYTES, HALF_BYTES);
    assert_int_equal(counters(1)->dropped_length, 0);
    unit_assert_last(&net.node[1], 2, 1, MESSAGE_BYTES, 1);
}

TEST(rawe_conn_reset__slices_of_an_earlier_life_are_forgotten)
{
    unit_connect(&net, RAWE_LANE_EXPRESS);
    uint32_t next = end(1)->rx.window.next;
    receive_slice(next, (struct rawe_slice){0, 100, RAWE_FRAME_DATA}, 50);
    assert_non_null(end(1)->rx.sliced);
    rawe_conn_reset(end(1));
    assert_null(end(1)->rx.sliced);
}
