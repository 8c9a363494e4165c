/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Tests of a peer: streaks of messages that follow each other, which take the bulk lane.
 */
#include "unit_peer.h"

#include <string.h>

/** Messages in a row that would begin a streak if everything else were right. */
static void send_successive(unsigned count, uint64_t interval_ns)
{
    for (unsigned i = 0; i < count; i++) {
        unit_peer_send(FRAME_BYTES, true);
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

FIXTURE(unit_peer_set_up, unit_peer_tear_down);

TEST(streak__begins_after_so_many_in_a_row)
{
    unit_peer_connect();
    begin_streak();
    unsigned express = unit_peer_frames(RAWE_LANE_EXPRESS);
    assert_int_equal(express, 2 * RAWE_PEER_STREAK_MESSAGES + 1);
    send_successive(10, UNIT_US);
    assert_int_equal(unit_peer_frames(RAWE_LANE_EXPRESS), express);
    unit_peer_finish();
    assert_int_equal(net.node[1].message_count, sent_count);
    assert_true(net.node[0].engine.counters.batches_sent > 0);
}

TEST(streak__not_of_messages_that_coalesce_well)
{
    unit_peer_connect();
    for (unsigned i = 0; i < 3 * RAWE_PEER_STREAK_MESSAGES; i++) {
        assert_int_equal(unit_peer_send_copy(100), RAWE_STATUS_DONE);
    }
    assert_false(peer.streak);
    assert_int_equal(peer.streak_count, 0);
    unit_peer_finish();
}

TEST(streak__not_of_messages_far_apart)
{
    unit_peer_connect();
    send_successive(3 * RAWE_PEER_STREAK_MESSAGES, STREAK_NS / RAWE_PEER_STREAK_MESSAGES);
    assert_false(peer.streak);
    assert_int_equal(unit_peer_frames(RAWE_LANE_BULK), 0);
    unit_peer_finish();
}

TEST(streak__not_while_nothing_is_in_flight)
{
    unit_peer_connect();
    for (unsigned i = 0; i < 3 * RAWE_PEER_STREAK_MESSAGES; i++) {
        unit_peer_send(FRAME_BYTES, true);
        unit_peer_finish();
        peer.streak_since_ns = net.now_ns; /* as if no time had passed */
    }
    assert_false(peer.streak);
    assert_int_equal(unit_peer_frames(RAWE_LANE_BULK), 0);
}

TEST(streak__not_without_batches)
{
    unit_stop(&net);
    unit_peer_start(false);
    unit_peer_connect();
    send_successive(3 * RAWE_PEER_STREAK_MESSAGES, UNIT_US);
    assert_false(peer.streak);
    assert_int_equal(unit_peer_frames(RAWE_LANE_BULK), 0);
    unit_peer_finish();
}

TEST(streak__not_where_nothing_coalesces)
{
    net.node[0].engine.config.coalesce_from_frames = 0;
    unit_peer_connect();
    send_successive(3 * RAWE_PEER_STREAK_MESSAGES, UNIT_US);
    assert_false(peer.streak);
    unit_peer_finish();
}

TEST(streak__not_to_a_peer_that_batches_do_not_reach)
{
    unit_peer_connect();
    unit_peer_end(RAWE_LANE_BULK)->batch = RAWE_BATCH_INVALID;
    send_successive(3 * RAWE_PEER_STREAK_MESSAGES, UNIT_US);
    assert_false(peer.streak);
    unit_peer_finish();
}

TEST(streak__not_while_the_bulk_lane_is_busy)
{
    unit_peer_connect();
    unit_peer_send(9000, true);
    send_successive(3 * RAWE_PEER_STREAK_MESSAGES, UNIT_US);
    assert_false(peer.streak);
    unit_peer_finish();
}

TEST(streak__ends_with_a_long_message)
{
    unit_peer_connect();
    begin_streak();
    unit_peer_send(9000, true);
    assert_false(peer.streak);
    unit_peer_finish();
    assert_int_equal(net.node[1].message_count, sent_count);
}

TEST(streak__ends_with_put_data)
{
    static uint8_t memory[4000], data[4000];
    static struct unit_send put;
    unit_peer_connect();
    begin_streak();
    unit_peer_finish();
    uint32_t index;
    uint64_t key;
    assert_true(rawe_handle_register(&net.node[1].handles, memory, sizeof(memory), &index, &key,
                                     RAWE_ACCESS_WRITE));
    unit_fill(data, sizeof(data), 5);
    unit_send_put(unit_peer_end(RAWE_LANE_BULK), &put, data, sizeof(data), index, key,
                  0); /* sets `done` */
    unit_peer_finish();
    memset(memory, 0, sizeof(memory));
    put.done = 0;
    assert_true(peer.streak);
    assert_true(rawe_peer_put(&peer, &put.send));
    assert_false(peer.streak);
    unit_peer_finish();
    assert_int_equal(put.done, 1);
    assert_memory_equal(memory, data, sizeof(data));
    assert_true(rawe_handle_deregister(&net.node[1].handles, index, key));
}

TEST(streak__ends_once_all_of_it_is_acknowledged)
{
    unit_peer_connect();
    begin_streak();
    send_successive(5, UNIT_US);
    assert_true(peer.streak);
    unit_peer_finish();
    unsigned express = unit_peer_frames(RAWE_LANE_EXPRESS);
    send_successive(1, UNIT_US);
    assert_false(peer.streak);
    assert_int_equal(unit_peer_frames(RAWE_LANE_EXPRESS), express + 1);
    unit_peer_finish();
    assert_int_equal(net.node[1].message_count, sent_count);
}

TEST(streak__begins_with_a_message_that_was_to_be_copied)
{
    unit_peer_connect();
    for (unsigned i = 0; i < 2 * RAWE_PEER_STREAK_MESSAGES + 1; i++) {
        assert_int_equal(unit_peer_send_copy(COPIED_BYTES), RAWE_STATUS_DONE);
    }
    assert_int_equal(unit_peer_send_copy(COPIED_BYTES), RAWE_STATUS_BUSY);
    assert_true(peer.streak);
    unsigned express = unit_peer_frames(RAWE_LANE_EXPRESS);
    unit_peer_send(COPIED_BYTES, true); /* the caller goes on with this */
    assert_true(peer.streak);
    assert_int_equal(unit_peer_frames(RAWE_LANE_EXPRESS), express);
    unit_peer_finish();
    unit_peer_assert_delivered(0, COPIED_BYTES);
}
