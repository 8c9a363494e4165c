/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Tests of batches on a bulk lane (sending, validation, withdrawal), and of frames sent in slices
 * because the path no longer carries them whole.
 */
#include "unit_pair.h"

#include <string.h>

#include "conn/rawe_conn_batch.h"
#include "conn/rawe_conn_tx.h"
#include "conn/rawe_conn_connect.h"
#include "conn/rawe_conn.h"

#define BATCH_DATA_BYTES 300000u

/** Length of a PUT that is long enough to validate the path. */
#define VALIDATING_BYTES 20000u

/** Source of the PUTs, and their target, node 1's memory. */
static uint8_t batch_data[BATCH_DATA_BYTES], batch_memory[BATCH_DATA_BYTES];
static struct unit_memory batch_handle;

/** Open the lane with batches of at most `frames_max` frames, and register node 1's memory. */
static void batch_connect(unsigned frames_max)
{
    unit_use_batches(&net, frames_max);
    unit_connect(&net, RAWE_LANE_BULK);
    batch_handle =
        unit_register_memory(&net, 1, batch_memory, sizeof(batch_memory), RAWE_ACCESS_WRITE);
    memset(batch_memory, 0, sizeof(batch_memory));
}

/** Start a PUT of the first `len_bytes` of `batch_data`. */
static void batch_begin_put(struct unit_send *send, size_t len_bytes)
{
    unit_send_put(end(0), send, batch_data, len_bytes, batch_handle.index, batch_handle.key, 0);
}

static void batch_end_put(const struct unit_send *send, size_t len_bytes)
{
    for (unsigned i = 0; i < 4000 && send->done == 0; i++) {
        unit_run(&net, 250 * UNIT_US, 50 * UNIT_US);
    }
    unit_assert_sent(send, 1, RAWE_STATUS_DONE);
    assert_memory_equal(batch_memory, batch_data, len_bytes);
}

/** PUT `len_bytes` of new content and wait until it is done. */
static void batch_put(size_t len_bytes, unsigned seed)
{
    struct unit_send send = {0};
    unit_fill(batch_data, len_bytes, seed);
    batch_begin_put(&send, len_bytes);
    batch_end_put(&send, len_bytes);
}

FIXTURE(unit_set_up_wide, unit_tear_down);

/* rawe_conn_batch_transmit: the harness checks the shape of each batch. */

/** Simulate a system call that takes 20 us per frame of a batch. */
static bool slowly(struct unit_net *network, const struct net_frame *frame)
{
    network->now_ns += frame->batch != 0 ? 20 * UNIT_US : 0;
    return true;
}

TEST(transmit__batches_for_a_while_at_a_time)
{
    struct unit_send send = {0};
    batch_connect(8);
    batch_put(VALIDATING_BYTES, 1);
    net_queue_clear(&net.queue);
    net.filter = slowly;
    batch_begin_put(&send, 200000);
    assert_int_equal(net_queue_count(&net.queue), 16); /* 320 us */
    rawe_engine_flush(&net.node[0].engine, net.now_ns);
    assert_int_equal(net_queue_count(&net.queue), 32);
    batch_end_put(&send, 200000);
    assert_int_equal(counters(0)->frames_resent, 0);
}

/** An announcement would use up credit; the request for credit already tells the peer. */
TEST(rawe_conn_batch_announce__not_without_credit)
{
    struct unit_send send = {0};
    batch_connect(16);
    batch_put(30000, 1);
    unit_run(&net, 20 * UNIT_MS, UNIT_MS / 2);
    rawe_conn_note_credit(&end(0)->tx, 0, false, false, false, net.now_ns);
    batch_begin_put(&send, 30000);
    assert_true(rawe_sendwin_empty(&end(0)->tx.window));
    batch_end_put(&send, 30000);
}

/** Close the connection at node 0 while node 1's owner makes progress inside a callback. */
static void close_inside(struct unit_send *send)
{
    rawe_engine_defer_begin(engine(1));
    unit_receive_forged(&net, 0, RAWE_LANE_BULK, (struct rawe_header){.type = RAWE_FRAME_CLOSE},
                        NULL, 0);
    rawe_engine_defer_end(engine(1));
}

/** Receive node 0's next frame at node 1 inside a callback. The frame before is not missing. */
static void receive_next_inside(struct unit_send *send)
{
    rawe_engine_defer_begin(engine(1));
    unit_receive_next(&net);
    rawe_engine_defer_end(engine(1));
    assert_false(rawe_recvwin_has_gap(&end(1)->rx.window));
}

/** Let two messages acknowledge a send of node 1, and call `on_done` when it completes. */
static void acknowledge(bool plain, void (*on_done)(struct unit_send *send))
{
    static struct unit_send sends[4];
    memset(sends, 0, sizeof(sends));
    sends[1].on_done = on_done;
    batch_connect(10);
    batch_put(VALIDATING_BYTES, 1);
    unit_fill(batch_data, sizeof(batch_data), 4);
    unit_send_message(end(1), &sends[0], 1, batch_data, 3000);
    unit_run(&net, 5 * UNIT_MS, 50 * UNIT_US);
    assert_int_equal(sends[0].done, 1);
    unit_send_message(end(1), &sends[1], 1, batch_data, 3000);
    unit_receive_all(&net);
    if (plain) {
        end(0)->path.batch = RAWE_BATCH_INVALID;
    }
    unit_send_message(end(0), &sends[2], 2, batch_data, 3000);
    unit_send_message(end(0), &sends[3], 2, batch_data, 3000);
    uint64_t received = counters(1)->frames_received;
    while (sends[1].done == 0) {
        unit_receive_next(&net);
    }
    assert_true(counters(1)->frames_received > received);
}

/** The callback of a frame's acknowledgement ends the connection: it keeps none of the frame. */
static void acknowledge_and_end(bool plain)
{
    acknowledge(plain, close_inside);
    assert_int_equal(end(1)->handshake.state, RAWE_CONN_PEER_CLOSED);
    assert_int_equal(end(1)->rx.window.next, net.config.first_sequence);
    assert_false(rawe_recvwin_has_gap(&end(1)->rx.window));
    net_queue_clear(&net.queue);
}

TEST(rawe_conn_ack_finish__a_callback_ends_the_connection)
{
    acknowledge_and_end(false);
    unit_stop(&net);
    unit_set_up_wide();
    acknowledge_and_end(true);
}

TEST(rawe_conn_ack_finish__a_callback_receives_the_next_frame)
{
    acknowledge(false, receive_next_inside);
    unit_stop(&net);
    unit_set_up_wide();
    acknowledge(true, receive_next_inside);
}

/** Return the kind of fragment in a batch; 0: the frame is not a batch. */
static uint8_t fragment_kind(const struct net_frame *frame)
{
    struct rawe_batch batch;
    if (!net_is_batch(frame->bytes, (uint32_t)frame->len_bytes) ||
        rawe_batch_decode(&batch, frame->bytes + RAWE_ETH_HEADER_BYTES, RAWE_BATCH_HEADER_BYTES,
                          frame->len_bytes - NET_BATCH_HEAD_BYTES) != RAWE_DECODE_OK) {
        return 0;
    }
    return batch.header.type == RAWE_FRAME_BULK ? batch.fragment.kind : 0;
}

TEST(rawe_conn_batch_validate__not_for_the_first_eight_frames)
{
    struct unit_send sends[9] = {0};
    batch_connect(10);
    unit_fill(batch_data, sizeof(batch_data), 1);
    for (unsigned i = 0; i < 9; i++) {
        unit_send_message(end(0), &sends[i], 1, batch_data, rawe_conn_segment_bytes(end(0)));
        assert_int_equal(end(0)->path.batch,
                         i < 8 ? RAWE_BATCH_UNVALIDATED : RAWE_BATCH_VALIDATING);
        unit_settle(&net);
        assert_int_equal(sends[i].done, 1);
    }
    assert_int_equal(end(0)->path.batch, RAWE_BATCH_VALID);
}

TEST(rawe_conn_batch_validate__not_on_the_express_lane_nor_without_a_link_that_can)
{
    for (unsigned able = 0; able < 2; able++) {
        struct unit_send send = {0};
        if (able != 0) {
            unit_use_batches(&net, 10);
        }
        struct rawe_conn *conn = unit_connect(&net, able != 0 ? RAWE_LANE_EXPRESS : RAWE_LANE_BULK);
        unit_fill(batch_data, 20000, 1);
        unit_send_message(conn, &send, 1, batch_data, 20000);
        unit_run(&net, 5 * UNIT_MS, 50 * UNIT_US);
        assert_int_equal(send.done, 1);
        assert_int_equal(conn->path.batch, RAWE_BATCH_UNVALIDATED);
        assert_int_equal(net.batch_number, 0);
    }
}

TEST(rawe_conn_batch_validate__a_frame_is_held_back)
{
    struct unit_send send = {0};
    unit_start_with((struct unit_options){.window_frames = 16, .coalesce_from_frames = 1});
    batch_connect(32);
    for (unsigned i = 0; i < 2; i++) {
        unit_send_copy(end(0), 1, 10);
    }
    assert_non_null(end(0)->tx.window.held);
    unit_close_having_all(&net, 1, RAWE_LANE_BULK);
    unit_open(&net, 1, RAWE_LANE_BULK);
    assert_int_equal(end(0)->handshake.state, RAWE_CONN_CONNECTING);
    assert_non_null(end(0)->tx.window.held);
    batch_begin_put(&send, 3000);
    unit_receive_all(&net);
    assert_int_equal(end(0)->handshake.state, RAWE_CONN_OPEN);
    unit_receive_forged(&net, 1, RAWE_LANE_BULK, (struct rawe_header){.type = RAWE_FRAME_PROBE},
                        NULL, 0);
    /* A held frame also occupies a sequence number in the window. */
    assert_true(rawe_sendwin_used(&end(0)->tx.window) + (end(0)->tx.window.held != NULL) <= 16);
    finish();
    assert_int_equal(send.done, 1);
    assert_int_equal(net.node[1].message_count, 1);
}

TEST(rawe_conn_batch_conclude__three_validations_lost_altogether)
{
    batch_connect(10);
    net.batches_vanish = true;
    batch_put(50000, 5); /* sent in plain frames in the end */
    assert_int_equal(end(0)->path.batch, RAWE_BATCH_INVALID);
    assert_int_equal(counters(0)->validations_failed, 1);
    assert_true(counters(0)->losses_validation > 0);
    assert_int_equal(counters(0)->losses_overtaken + counters(0)->losses_probed, 0);
    assert_int_equal(counters(0)->validations_passed, 0);
    assert_int_equal(counters(0)->batches_sent, 3);
    uint64_t resent = counters(0)->frames_resent;
    batch_put(100000, 6);
    finish();
    assert_int_equal(counters(0)->batches_sent, 3);
    assert_int_equal(counters(0)->frames_resent, resent);
    assert_int_equal(counters(0)->congestion_events, 0); /* a lost validation is no congestion */
    net.batches_vanish = false;
    unit_run(&net, 100 * UNIT_MS, UNIT_MS);
    batch_put(30000, 7); /* validated again */
    assert_int_equal(end(0)->path.batch, RAWE_BATCH_VALID);
}

static bool garble_validations(struct unit_net *of, const struct net_frame *frame)
{
    if (frame->batch != 0 && fragment_kind(frame) == RAWE_FRAGMENT_VALIDATION) {
        frame->bytes[frame->len_bytes - 1] ^= 0x10;
    }
    return true;
}

TEST(rawe_conn_batch_conclude__content_that_arrives_wrong)
{
    batch_connect(10);
    net.filter = garble_validations;
    batch_put(30000, 1);
    assert_int_equal(end(0)->path.batch, RAWE_BATCH_INVALID);
    assert_true(counters(1)->dropped_validation >= 3);
    assert_int_equal(counters(0)->validations_failed, 1);
}

/** Batches are no longer than the link's current preference (longest_bytes). */
TEST(rawe_conn_batch_frames__no_more_than_the_link_wants)
{
    uint32_t longest_bytes;
    batch_connect(16);
    batch_put(30000, 1);
    longest_bytes = 4 * rawe_conn_segment_bytes(end(0));
    net.node[0].engine.batches.output.longest_bytes = &longest_bytes;
    assert_int_equal(rawe_conn_batch_frames(end(0)), 4);
    uint64_t batches = counters(0)->batches_sent;
    batch_put(40 * rawe_conn_segment_bytes(end(0)), 2);
    assert_int_equal(counters(0)->batches_sent - batches, 10);
    longest_bytes = 1; /* shorter than a frame */
    assert_int_equal(rawe_conn_batch_frames(end(0)), 1);
}

static bool lose_late_batches(struct unit_net *of, const struct net_frame *frame)
{
    return frame->batch == 0 || frame->header.sequence - of->filter_count >= 100 ||
           frame->header.sequence % 3 == 0;
}

TEST(acknowledged__also_behind_what_arrived_out_of_order)
{
    batch_connect(16);
    batch_put(30000, 1);
    net.filter_count = end(0)->tx.window.next;
    net.filter = lose_late_batches;
    struct unit_send send = {0};
    unit_fill(batch_data, 60000, 2);
    batch_begin_put(&send, 60000);
    unit_settle(&net);
    assert_true(end(0)->tx.window.sacked != 0); /* each acknowledgement repeats the SACK */
    net.batches_vanish = true;
    batch_end_put(&send, 60000);
    assert_int_equal(end(0)->path.batch, RAWE_BATCH_INVALID);
}

/** Frame payload that the path carries once its MTU has been lowered. */
#define LOWERED_BYTES 600u

static uint8_t sliced_data[30000];
static struct unit_send sliced_sends[4];

/** Drop large frames, as if the path's MTU had been lowered. */
static bool drop_large(struct unit_net *unused, const struct net_frame *frame)
{
    return frame->header.payload_bytes <= LOWERED_BYTES;
}

static void set_up_slices(void)
{
    unit_fill(sliced_data, sizeof(sliced_data), 3);
    memset(sliced_sends, 0, sizeof(sliced_sends));
    unit_set_up();
}

/** Send messages in frames too long for the path: the frames fill the window and are lost. */
static void stall(unsigned lane, unsigned count, size_t len_bytes)
{
    unit_connect(&net, lane);
    net.filter = drop_large;
    for (unsigned i = 0; i < count; i++) {
        unit_send_message(net.node[0].conn[lane], &sliced_sends[i], (uint8_t)i, sliced_data + i,
                          len_bytes);
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
        assert_memory_equal(message->data, sliced_data + message->tag, len_bytes);
        unit_assert_sent(&sliced_sends[i], 1, RAWE_STATUS_DONE);
    }
}

static const struct unit_fixture with_slices = {set_up_slices, unit_tear_down};

TEST_WITH(with_slices, rawe_conn_transmit_slices__what_comes_after_is_short)
{
    stall(RAWE_LANE_EXPRESS, 1, 1200);
    lower(RAWE_LANE_EXPRESS);
    assert_arrived(1, 1200);
    uint64_t slices = counters(0)->slices_sent;
    unit_send_message(end(0), &sliced_sends[1], 1, sliced_data + 1, 1200);
    unit_run(&net, 20 * UNIT_MS, 100 * UNIT_US);
    assert_arrived(2, 1200);
    assert_int_equal(counters(0)->slices_sent, slices);
}

/** Slices that the link refuses are sent later; its queue may be shorter than a frame's slices. */
TEST_WITH(with_slices, rawe_conn_transmit_slices__the_link_takes_one_at_a_time)
{
    stall(RAWE_LANE_EXPRESS, 2, 1200);
    unit_set_payload_max(end(0), LOWERED_BYTES);
    const uint64_t resent = counters(0)->frames_resent;
    for (unsigned i = 0; i < 400 && net.node[1].message_count < 2; i++) {
        net.node[0].link_room = 1; /* one of three slices */
        unit_run(&net, UNIT_MS, UNIT_MS);
        rawe_engine_flush(engine(0), net.now_ns);
        /* A frame counts as sent when its last slice is sent. */
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

TEST_WITH(with_slices, rawe_conn_take_slice__lengths_that_do_not_add_up)
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

TEST_WITH(with_slices, rawe_conn_take_slice__parts_that_do_not_belong_together)
{
    unit_connect(&net, RAWE_LANE_EXPRESS);
    uint32_t next = end(1)->rx.window.next;
    receive_slice(next, (struct rawe_slice){50, 100, RAWE_FRAME_DATA}, 50); /* without slice 0 */
    assert_null(end(1)->rx.sliced);
    receive_slice(next, (struct rawe_slice){0, 100, RAWE_FRAME_DATA}, 50);
    receive_slice(next + 1, (struct rawe_slice){50, 100, RAWE_FRAME_DATA}, 50);
    receive_slice(next, (struct rawe_slice){50, 101, RAWE_FRAME_DATA}, 51);
    receive_slice(next, (struct rawe_slice){50, 100, RAWE_FRAME_BULK}, 50);
    receive_slice(next, (struct rawe_slice){40, 100, RAWE_FRAME_DATA}, 60);
    assert_int_equal(counters(1)->dropped_slice, 5);
    assert_int_equal(end(1)->rx.window.next, next);
}

/** Half the length of a frame with two padded messages. */
#define HALF_BYTES 32u
#define MESSAGE_BYTES 26u

/** Hand node 1 a slice of a frame with two messages. */
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

/** Receive the next frame's first slice inside the owner's callback. */
static void receive_inside(struct unit_node *node, struct rawe_conn *conn, uint8_t tag)
{
    static const uint8_t next[2 * HALF_BYTES] = {0};
    node->on_deliver = NULL;
    rawe_engine_defer_begin(&node->engine);
    receive_part(conn->rx.window.next, next, 0, 2 * HALF_BYTES - 8);
    rawe_engine_defer_end(&node->engine);
}

TEST_WITH(with_slices, rawe_conn_take_slice__from_inside_a_callback)
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

TEST_WITH(with_slices, rawe_conn_reset__slices_of_an_earlier_life_are_forgotten)
{
    unit_connect(&net, RAWE_LANE_EXPRESS);
    uint32_t next = end(1)->rx.window.next;
    receive_slice(next, (struct rawe_slice){0, 100, RAWE_FRAME_DATA}, 50);
    assert_non_null(end(1)->rx.sliced);
    rawe_conn_reset(end(1));
    assert_null(end(1)->rx.sliced);
}
