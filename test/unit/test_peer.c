/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Tests of a peer: which message takes which lane, streaks, early completion.
 */
#include "unit_message.h"
#include "unit_net.h"
#include "unit_wire.h"

#include <string.h>

#include "rawe_peer.h"

#define COALESCE_FROM 4u
#define STREAK_NS (40 * UNIT_US)
#define MESSAGES 64u
#define MESSAGE_BYTES 20000u

/** Fits a frame, is too long to be copied, and coalesces poorly. */
#define FRAME_BYTES 1400u
/** May be copied, and coalesces poorly. */
#define COPIED_BYTES 900u

static struct unit_net net;
static struct rawe_peer peer;

/** When the clock was read, and what lay on the wire at that time. */
static unsigned clock_reads, wire_at_last_read;

static uint64_t read_clock(void *context)
{
    assert_ptr_equal(context, &net);
    clock_reads++;
    wire_at_last_read = unit_wire_count(&net);
    return net.now_ns;
}

/** A message of the test's, with what is known of it. */
struct sent {
    struct rawe_message message; /**< first: cast back from it */
    uint8_t own[MESSAGE_BYTES];
    uint8_t elsewhere[MESSAGE_BYTES];
    unsigned completed, released;
    enum rawe_status status;
    enum rawe_peer_result result;
};
static struct sent sent[MESSAGES];
static unsigned sent_count;

static void start(bool batches)
{
    static const uint8_t mac[RAWE_MAC_BYTES] = {0x02, 0, 0, 0, 0, 0x11};
    unit_init(&net);
    net.config.window_frames = 256;
    net.config.receive_frames = 1024;
    net.config.coalesce_from_frames = COALESCE_FROM;
    unit_start(&net);
    if (batches) {
        unit_use_batches(&net, 16);
    }
    struct rawe_peer_config config = {
        .port = 501,
        .key = 0xABCD0001u,
        .payload_max_bytes = net.config.payload_max_bytes,
        .owner = &net.node[0],
        .streak_ns = STREAK_NS,
        .now_ns = read_clock,
        .context = &net,
    };
    memcpy(config.mac, mac, sizeof(mac));
    rawe_peer_init(&peer, &net.node[0].engine, &config);
    memset(sent, 0, sizeof(sent));
    sent_count = clock_reads = 0;
}

static int set_up(void **state)
{
    (void)state;
    start(true);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    unit_stop(&net);
    return 0;
}

static struct rawe_conn *end(unsigned lane)
{
    return net.node[0].conn[lane];
}

/** Open the peer's connection of a lane and bring it up at both ends. */
static void connect_lane(enum rawe_lane lane)
{
    net.node[0].conn[lane] = rawe_peer_conn(&peer, lane);
    assert_non_null(end(lane));
    rawe_conn_connect(end(lane), net.now_ns);
    unit_settle(&net);
    assert_int_equal(end(lane)->handshake.state, RAWE_CONN_OPEN);
}

static void connect_both(void)
{
    connect_lane(RAWE_LANE_EXPRESS);
    connect_lane(RAWE_LANE_BULK);
}

static void completed(struct rawe_message *message, enum rawe_status status)
{
    struct sent *one = (struct sent *)(void *)message;
    assert_int_equal(one->result, RAWE_PEER_QUEUED);
    assert_int_equal(one->completed, 0);
    one->completed++;
    one->status = status;
}

static void released(struct rawe_message *message)
{
    struct sent *one = (struct sent *)(void *)message;
    assert_true(message->completed_early);
    assert_int_equal(one->completed, one->result == RAWE_PEER_QUEUED);
    assert_int_equal(one->released, 0);
    one->released++;
}

/** The next message, its header of `first_bytes` in its own memory, the rest elsewhere. */
static struct sent *make(size_t first_bytes, size_t second_bytes, bool may_complete_early)
{
    struct sent *one = &sent[sent_count];
    unit_fill(one->elsewhere, first_bytes + second_bytes, sent_count);
    memcpy(one->own, one->elsewhere, first_bytes);
    one->message.complete = completed;
    one->message.release = released;
    one->message.own = may_complete_early ? one->own : NULL;
    one->message.send.tag = (uint8_t)sent_count++;
    one->message.send.piece_count = second_bytes != 0 ? 2 : 1;
    one->message.send.pieces[0] = (struct rawe_bytes){one->own, first_bytes};
    one->message.send.pieces[1] = (struct rawe_bytes){one->elsewhere + first_bytes, second_bytes};
    return one;
}

static struct sent *send_made(struct sent *one)
{
    one->result = RAWE_PEER_QUEUED;
    one->result = rawe_peer_send(&peer, &one->message);
    return one;
}

/** The sender uses memory that is not the message's own again once that is complete. */
static void overwrite(struct sent *one)
{
    memset(one->elsewhere, 0xEE, sizeof(one->elsewhere));
}

static struct sent *send_whole(size_t len_bytes, bool may_complete_early)
{
    return send_made(make(len_bytes, 0, may_complete_early));
}

static void finish(void)
{
    for (unsigned i = 0; i < 2000 && !rawe_peer_drained(&peer); i++) {
        unit_run(&net, UNIT_MS, 50 * UNIT_US);
    }
    assert_true(rawe_peer_drained(&peer));
}

static void assert_delivered(unsigned index, size_t len_bytes)
{
    for (unsigned i = 0; i < net.node[1].message_count; i++) {
        if (net.node[1].messages[i].tag == index) {
            unit_assert_message(&net.node[1], i, (uint8_t)index, len_bytes, index);
            return;
        }
    }
    fail_msg("message %u has not been delivered", index);
}

static unsigned sent_frames(enum rawe_lane lane)
{
    return net.node[0].sent[lane == RAWE_LANE_BULK ? RAWE_FRAME_BULK : RAWE_FRAME_DATA];
}

static enum rawe_status send_copy(size_t len_bytes)
{
    static uint8_t data[MESSAGE_BYTES];
    return rawe_peer_send_copy(&peer, 200, data, 10, data + 10, len_bytes - 10);
}

/* rawe_peer_conn */

static void rawe_peer_conn__opened_on_first_use(void **state)
{
    (void)state;
    assert_null(peer.conn[RAWE_LANE_EXPRESS]);
    assert_int_equal(send_copy(100), RAWE_STATUS_BUSY); /* it connects first */
    net.node[0].conn[RAWE_LANE_EXPRESS] = peer.conn[RAWE_LANE_EXPRESS];
    assert_non_null(peer.conn[RAWE_LANE_EXPRESS]);
    assert_null(peer.conn[RAWE_LANE_BULK]);
    assert_ptr_equal(rawe_peer_conn(&peer, RAWE_LANE_EXPRESS), end(RAWE_LANE_EXPRESS));
    assert_ptr_equal(end(RAWE_LANE_EXPRESS)->owner, &net.node[0]);
    unit_settle(&net);
    assert_int_equal(send_copy(100), RAWE_STATUS_DONE);
}

/* rawe_peer_drained, rawe_peer_close */

static void rawe_peer_drained__both_lanes(void **state)
{
    (void)state;
    assert_true(rawe_peer_drained(&peer));
    connect_both();
    assert_true(rawe_peer_drained(&peer));
    assert_int_equal(send_copy(100), RAWE_STATUS_DONE);
    assert_false(rawe_peer_drained(&peer));
    finish();
    send_whole(5000, true);
    assert_false(rawe_peer_drained(&peer));
    finish();
    assert_delivered(0, 5000);
}

static void rawe_peer_close__completes_what_is_left(void **state)
{
    (void)state;
    connect_both();
    struct sent *queued = send_whole(5000, false);
    struct sent *early = send_whole(5000, true);
    finish();
    struct sent *again = send_whole(5000, false);
    rawe_peer_close(&peer);
    assert_null(peer.conn[RAWE_LANE_EXPRESS]);
    assert_null(peer.conn[RAWE_LANE_BULK]);
    net.node[0].conn[RAWE_LANE_EXPRESS] = net.node[0].conn[RAWE_LANE_BULK] = NULL;
    assert_int_equal(queued->status, RAWE_STATUS_DONE);
    assert_int_equal(early->released, 1);
    assert_int_equal(again->completed, 1);
    assert_int_equal(again->status, RAWE_STATUS_FAILED);
    assert_true(rawe_peer_drained(&peer));
}

/* rawe_peer_send_copy */

static void rawe_peer_send_copy__only_what_may_be_copied(void **state)
{
    (void)state;
    connect_both();
    uint32_t most = net.node[0].engine.config.copy_max_bytes;
    assert_int_equal(send_copy(most), RAWE_STATUS_DONE);
    assert_int_equal(send_copy(most + 1), RAWE_STATUS_BUSY);
    assert_int_equal(unit_wire_count(&net), 1);
    finish();
}

static void rawe_peer_send_copy__not_longer_than_a_frame_of_this_path(void **state)
{
    (void)state;
    peer.config.payload_max_bytes = 512;
    connect_both();
    uint32_t most = rawe_conn_frame_message_bytes(end(RAWE_LANE_EXPRESS));
    assert_true(most < net.node[0].engine.config.copy_max_bytes);
    assert_int_equal(send_copy(most), RAWE_STATUS_DONE);
    assert_int_equal(send_copy(most + 1), RAWE_STATUS_BUSY);
    finish();
}

static void rawe_peer_send_copy__the_clock_is_read_behind_the_transmission(void **state)
{
    (void)state;
    connect_both();
    clock_reads = 0;
    net.now_ns += 7 * UNIT_US;
    assert_int_equal(send_copy(100), RAWE_STATUS_DONE);
    assert_int_equal(clock_reads, 1);
    assert_int_equal(wire_at_last_read, 1);
    assert_int_equal(net.node[0].engine.now_ns, net.now_ns);
    finish();
}

static void rawe_peer_send_copy__joins_the_frame_held_back_without_a_clock(void **state)
{
    (void)state;
    connect_both();
    for (unsigned i = 0; i < COALESCE_FROM + 1; i++) {
        assert_int_equal(send_copy(100), RAWE_STATUS_DONE);
    }
    assert_int_equal(unit_wire_count(&net), COALESCE_FROM);
    assert_non_null(end(RAWE_LANE_EXPRESS)->coalescing);
    clock_reads = 0;
    assert_int_equal(send_copy(100), RAWE_STATUS_DONE);
    assert_int_equal(clock_reads, 0);
    assert_int_equal(net.node[0].engine.counters.messages_coalesced, 1);
    finish();
    assert_int_equal(net.node[1].message_count, COALESCE_FROM + 2);
}

static void rawe_peer_send_copy__failed(void **state)
{
    (void)state;
    connect_both();
    end(RAWE_LANE_EXPRESS)->handshake.state = RAWE_CONN_FAILED;
    assert_int_equal(send_copy(100), RAWE_STATUS_FAILED);
    assert_int_equal(send_whole(100, true)->result, RAWE_PEER_FAILED);
    assert_int_equal(send_whole(FRAME_BYTES, true)->result, RAWE_PEER_FAILED);
    end(RAWE_LANE_BULK)->handshake.state = RAWE_CONN_FAILED;
    assert_int_equal(send_whole(9000, true)->result, RAWE_PEER_FAILED);
    for (unsigned i = 0; i < sent_count; i++) {
        assert_int_equal(sent[i].completed + sent[i].released, 0);
    }
    assert_true(rawe_peer_drained(&peer));
}

/* rawe_peer_send: lanes */

static void rawe_peer_send__lane_by_length(void **state)
{
    (void)state;
    connect_both();
    uint32_t framed = rawe_conn_frame_message_bytes(end(RAWE_LANE_EXPRESS));
    send_whole(100, true);
    send_whole(framed, true);
    assert_int_equal(sent_frames(RAWE_LANE_EXPRESS), 2);
    assert_int_equal(sent_frames(RAWE_LANE_BULK), 0);
    send_whole(framed + 1, true);
    assert_int_not_equal(sent_frames(RAWE_LANE_BULK), 0);
    finish();
    assert_int_equal(sent_frames(RAWE_LANE_EXPRESS), 2);
    assert_delivered(0, 100);
    assert_delivered(1, framed);
    assert_delivered(2, framed + 1);
}

static void rawe_peer_send__in_order_on_the_bulk_lane(void **state)
{
    (void)state;
    connect_both();
    for (unsigned i = 0; i < 8; i++) {
        struct sent *one = make(100, 0, true);
        one->message.send.ordered = true;
        send_made(one);
    }
    finish();
    assert_int_equal(sent_frames(RAWE_LANE_EXPRESS), 0);
    assert_int_equal(net.node[1].message_count, 8);
    for (unsigned i = 0; i < 8; i++) {
        assert_int_equal(net.node[1].messages[i].tag, i);
    }
}

static void rawe_peer_send__copied_is_complete_at_once(void **state)
{
    (void)state;
    connect_both();
    struct sent *one = send_made(make(30, 70, false));
    assert_int_equal(one->result, RAWE_PEER_COMPLETE);
    assert_false(one->message.completed_early);
    overwrite(one);
    memset(one->own, 0xEE, sizeof(one->own));
    finish();
    assert_delivered(0, 100);
    assert_int_equal(one->completed + one->released, 0);
}

/* rawe_peer_send: early completion */

static void rawe_peer_send__early_in_one_piece(void **state)
{
    (void)state;
    connect_both();
    send_whole(5000, true); /* validates batches */
    finish();
    struct sent *one = send_whole(5000, true);
    assert_int_equal(one->result, RAWE_PEER_COMPLETE);
    assert_true(one->message.completed_early);
    assert_int_equal(one->released, 0);
    finish();
    assert_int_equal(one->released, 1);
    assert_int_equal(one->completed, 0);
    assert_delivered(1, 5000);
}

static bool drop_some(struct unit_net *of, const struct unit_frame *frame)
{
    return frame->header.type != RAWE_FRAME_BULK || ++of->filter_count % 3 != 0;
}

static void rawe_peer_send__early_in_two_pieces_is_resent_from_the_copy(void **state)
{
    (void)state;
    connect_both();
    send_whole(5000, true);
    finish();
    net.filter = drop_some;
    struct sent *one = send_made(make(60, RAWE_PEER_COPY_BYTES - 60, true));
    assert_int_equal(one->result, RAWE_PEER_COMPLETE);
    assert_true(one->message.completed_early);
    overwrite(one);
    finish();
    assert_true(net.node[0].engine.counters.frames_resent > 0);
    assert_int_equal(one->released, 1);
    assert_delivered(1, RAWE_PEER_COPY_BYTES);
}

static void rawe_peer_send__in_two_pieces_too_long_for_a_copy(void **state)
{
    (void)state;
    connect_both();
    send_whole(5000, true);
    finish();
    struct sent *one = send_made(make(60, RAWE_PEER_COPY_BYTES - 59, true));
    assert_int_equal(one->result, RAWE_PEER_QUEUED);
    assert_int_equal(one->completed, 0);
    finish();
    assert_int_equal(one->completed, 1);
    assert_int_equal(one->released, 0);
    assert_delivered(1, RAWE_PEER_COPY_BYTES + 1);
}

static void rawe_peer_send__in_two_pieces_in_order_is_not_copied(void **state)
{
    (void)state;
    connect_both();
    send_whole(5000, true);
    finish();
    struct sent *one = make(60, 4000, true);
    one->message.send.ordered = true;
    assert_int_equal(send_made(one)->result, RAWE_PEER_QUEUED);
    finish();
    assert_int_equal(one->completed, 1);
    assert_false(one->message.completed_early);
}

static void rawe_peer_send__not_early_when_somebody_else_owns_it(void **state)
{
    (void)state;
    connect_both();
    send_whole(5000, true);
    finish();
    struct sent *one = send_whole(5000, false);
    assert_int_equal(one->result, RAWE_PEER_QUEUED);
    finish();
    assert_int_equal(one->completed, 1);
    assert_int_equal(one->status, RAWE_STATUS_DONE);
    assert_int_equal(one->released, 0);
}

static void rawe_peer_send__not_complete_while_connecting(void **state)
{
    (void)state;
    net.node[0].conn[RAWE_LANE_EXPRESS] = rawe_peer_conn(&peer, RAWE_LANE_EXPRESS);
    net.node[0].conn[RAWE_LANE_BULK] = rawe_peer_conn(&peer, RAWE_LANE_BULK);
    struct sent *one = send_made(make(60, 4000, true));
    assert_int_equal(one->result, RAWE_PEER_QUEUED);
    assert_int_equal(one->completed, 0);
    finish();
    assert_int_equal(one->completed, 1);
    assert_int_equal(one->released, 1);
    assert_delivered(0, 4060);
}

static void rawe_peer_send__not_complete_while_the_link_is_full(void **state)
{
    (void)state;
    unit_stop(&net);
    start(false);
    connect_both();
    for (unsigned room = 0; room < 3; room++) {
        net.node[0].link_room = room;
        struct sent *one = send_made(make(60, 4000, true)); /* three frames, all in the window */
        assert_int_equal(one->message.send.framed_bytes, 4060);
        assert_int_equal(one->result, RAWE_PEER_QUEUED);
        assert_int_equal(one->completed, 0);
        net.node[0].link_room = UINT32_MAX;
        finish();
        assert_int_equal(one->completed, 1);
        assert_int_equal(one->released, 1);
        assert_delivered(room, 4060);
    }
}

static void rawe_peer_send__not_complete_while_the_window_is_full(void **state)
{
    (void)state;
    unit_stop(&net);
    start(false);
    connect_both();
    end(RAWE_LANE_BULK)->cc.window = 4;
    struct sent *one = send_whole(15000, true);
    assert_int_equal(one->result, RAWE_PEER_QUEUED);
    assert_int_equal(one->completed, 0);
    finish();
    assert_int_equal(one->completed, 1);
    assert_true(one->message.completed_early);
    assert_int_equal(one->released, 1);
    assert_delivered(0, 15000);
}

static void rawe_peer_send__silence_fails_what_is_not_complete(void **state)
{
    (void)state;
    connect_both();
    send_whole(5000, true);
    finish();
    net.node[1].paused = true;
    struct sent *early = send_whole(5000, true);
    struct sent *waits = send_whole(5000, false);
    unit_run(&net, 2 * net.config.liveness.peer_timeout_ns, 5 * UNIT_MS);
    net.node[1].paused = false;
    assert_int_equal(early->released, 1);
    assert_int_equal(early->completed, 0);
    assert_int_equal(waits->completed, 1);
    assert_int_equal(waits->status, RAWE_STATUS_FAILED);
    assert_true(rawe_peer_drained(&peer));
}

/* rawe_peer_send: streaks */

/** Messages in a row that would begin a streak if everything else were right. */
static void send_successive(unsigned count, uint64_t interval_ns)
{
    for (unsigned i = 0; i < count; i++) {
        send_whole(FRAME_BYTES, true);
        net.now_ns += interval_ns;
    }
}

/** The first messages set the beginning of the time that is measured. */
static void begin_streak(void)
{
    send_successive(RAWE_PEER_STREAK_MESSAGES + 1, UNIT_US);
    send_successive(RAWE_PEER_STREAK_MESSAGES, UNIT_US);
    assert_false(peer.streak);
    send_successive(1, UNIT_US);
    assert_true(peer.streak);
}

static void streak__begins_after_so_many_in_a_row(void **state)
{
    (void)state;
    connect_both();
    begin_streak();
    unsigned express = sent_frames(RAWE_LANE_EXPRESS);
    assert_int_equal(express, 2 * RAWE_PEER_STREAK_MESSAGES + 1);
    send_successive(10, UNIT_US);
    assert_int_equal(sent_frames(RAWE_LANE_EXPRESS), express);
    finish();
    assert_int_equal(net.node[1].message_count, sent_count);
    assert_true(net.node[0].engine.counters.batches_sent > 0);
}

static void streak__not_of_messages_that_coalesce_well(void **state)
{
    (void)state;
    connect_both();
    for (unsigned i = 0; i < 3 * RAWE_PEER_STREAK_MESSAGES; i++) {
        assert_int_equal(send_copy(100), RAWE_STATUS_DONE);
    }
    assert_false(peer.streak);
    assert_int_equal(peer.streak_count, 0);
    finish();
}

static void streak__not_of_messages_far_apart(void **state)
{
    (void)state;
    connect_both();
    send_successive(3 * RAWE_PEER_STREAK_MESSAGES, STREAK_NS / RAWE_PEER_STREAK_MESSAGES);
    assert_false(peer.streak);
    assert_int_equal(sent_frames(RAWE_LANE_BULK), 0);
    finish();
}

static void streak__not_while_nothing_is_in_flight(void **state)
{
    (void)state;
    connect_both();
    for (unsigned i = 0; i < 3 * RAWE_PEER_STREAK_MESSAGES; i++) {
        send_whole(FRAME_BYTES, true);
        finish();
        peer.streak_since_ns = net.now_ns; /* as if no time had passed */
    }
    assert_false(peer.streak);
    assert_int_equal(sent_frames(RAWE_LANE_BULK), 0);
}

static void streak__not_without_batches(void **state)
{
    (void)state;
    unit_stop(&net);
    start(false);
    connect_both();
    send_successive(3 * RAWE_PEER_STREAK_MESSAGES, UNIT_US);
    assert_false(peer.streak);
    assert_int_equal(sent_frames(RAWE_LANE_BULK), 0);
    finish();
}

static void streak__not_where_nothing_coalesces(void **state)
{
    (void)state;
    net.node[0].engine.config.coalesce_from_frames = 0;
    connect_both();
    send_successive(3 * RAWE_PEER_STREAK_MESSAGES, UNIT_US);
    assert_false(peer.streak);
    finish();
}

static void streak__not_to_a_peer_that_batches_do_not_reach(void **state)
{
    (void)state;
    connect_both();
    end(RAWE_LANE_BULK)->batch = RAWE_BATCH_INVALID;
    send_successive(3 * RAWE_PEER_STREAK_MESSAGES, UNIT_US);
    assert_false(peer.streak);
    finish();
}

static void streak__not_while_the_bulk_lane_is_busy(void **state)
{
    (void)state;
    connect_both();
    send_whole(9000, true);
    send_successive(3 * RAWE_PEER_STREAK_MESSAGES, UNIT_US);
    assert_false(peer.streak);
    finish();
}

static void streak__ends_with_a_long_message(void **state)
{
    (void)state;
    connect_both();
    begin_streak();
    send_whole(9000, true);
    assert_false(peer.streak);
    finish();
    assert_int_equal(net.node[1].message_count, sent_count);
}

static void streak__ends_with_put_data(void **state)
{
    (void)state;
    static uint8_t memory[4000], data[4000];
    static struct unit_send put;
    connect_both();
    begin_streak();
    finish();
    uint32_t index;
    uint64_t key;
    assert_true(rawe_handle_register(&net.node[1].handles, memory, sizeof(memory), &index, &key));
    unit_fill(data, sizeof(data), 5);
    unit_send_put(end(RAWE_LANE_BULK), &put, data, sizeof(data), index, key, 0); /* sets `done` */
    finish();
    memset(memory, 0, sizeof(memory));
    put.done = 0;
    assert_true(peer.streak);
    assert_true(rawe_peer_put(&peer, &put.send));
    assert_false(peer.streak);
    finish();
    assert_int_equal(put.done, 1);
    assert_memory_equal(memory, data, sizeof(data));
    assert_true(rawe_handle_deregister(&net.node[1].handles, index, key));
}

static void streak__ends_once_all_of_it_is_acknowledged(void **state)
{
    (void)state;
    connect_both();
    begin_streak();
    send_successive(5, UNIT_US);
    assert_true(peer.streak);
    finish();
    unsigned express = sent_frames(RAWE_LANE_EXPRESS);
    send_successive(1, UNIT_US);
    assert_false(peer.streak);
    assert_int_equal(sent_frames(RAWE_LANE_EXPRESS), express + 1);
    finish();
    assert_int_equal(net.node[1].message_count, sent_count);
}

static void streak__begins_with_a_message_that_was_to_be_copied(void **state)
{
    (void)state;
    connect_both();
    for (unsigned i = 0; i < 2 * RAWE_PEER_STREAK_MESSAGES + 1; i++) {
        assert_int_equal(send_copy(COPIED_BYTES), RAWE_STATUS_DONE);
    }
    assert_int_equal(send_copy(COPIED_BYTES), RAWE_STATUS_BUSY);
    assert_true(peer.streak);
    unsigned express = sent_frames(RAWE_LANE_EXPRESS);
    send_whole(COPIED_BYTES, true); /* the caller goes on with this */
    assert_true(peer.streak);
    assert_int_equal(sent_frames(RAWE_LANE_EXPRESS), express);
    finish();
    assert_delivered(0, COPIED_BYTES);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(rawe_peer_conn__opened_on_first_use),
        TEST(rawe_peer_drained__both_lanes),
        TEST(rawe_peer_close__completes_what_is_left),
        TEST(rawe_peer_send_copy__only_what_may_be_copied),
        TEST(rawe_peer_send_copy__not_longer_than_a_frame_of_this_path),
        TEST(rawe_peer_send_copy__the_clock_is_read_behind_the_transmission),
        TEST(rawe_peer_send_copy__joins_the_frame_held_back_without_a_clock),
        TEST(rawe_peer_send_copy__failed),
        TEST(rawe_peer_send__lane_by_length),
        TEST(rawe_peer_send__in_order_on_the_bulk_lane),
        TEST(rawe_peer_send__copied_is_complete_at_once),
        TEST(rawe_peer_send__early_in_one_piece),
        TEST(rawe_peer_send__early_in_two_pieces_is_resent_from_the_copy),
        TEST(rawe_peer_send__in_two_pieces_too_long_for_a_copy),
        TEST(rawe_peer_send__in_two_pieces_in_order_is_not_copied),
        TEST(rawe_peer_send__not_early_when_somebody_else_owns_it),
        TEST(rawe_peer_send__not_complete_while_connecting),
        TEST(rawe_peer_send__not_complete_while_the_link_is_full),
        TEST(rawe_peer_send__not_complete_while_the_window_is_full),
        TEST(rawe_peer_send__silence_fails_what_is_not_complete),
        TEST(streak__begins_after_so_many_in_a_row),
        TEST(streak__not_of_messages_that_coalesce_well),
        TEST(streak__not_of_messages_far_apart),
        TEST(streak__not_while_nothing_is_in_flight),
        TEST(streak__not_without_batches),
        TEST(streak__not_where_nothing_coalesces),
        TEST(streak__not_to_a_peer_that_batches_do_not_reach),
        TEST(streak__not_while_the_bulk_lane_is_busy),
        TEST(streak__ends_with_a_long_message),
        TEST(streak__ends_with_put_data),
        TEST(streak__ends_once_all_of_it_is_acknowledged),
        TEST(streak__begins_with_a_message_that_was_to_be_copied),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
