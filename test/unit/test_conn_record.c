/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Tests of what all accesses to registered memory share: their frames, their number, and how they
 * end with a connection.
 */
#include "unit_record.h"

#include <string.h>

FIXTURE(record_set_up, record_tear_down);

TEST(records__do_not_share_frames_with_messages)
{
    uint64_t word = 5;
    struct access *access[10];
    for (unsigned i = 0; i < 10; i++) {
        assert_int_equal(unit_peer_send_copy(50), RAWE_STATUS_DONE);
        access[i] = record_get(8 * i, 8);
        assert_int_equal(unit_peer_send_copy(50), RAWE_STATUS_DONE);
        assert_true(record_put(i, &word, 8, 1000 + 8 * i));
    }
    record_run();
    assert_int_equal(net.node[1].message_count, 20);
    for (unsigned i = 0; i < 10; i++) {
        record_assert_got(access[i], 8 * i, 8);
        assert_int_equal(record_puts[i].done, 1);
    }
    assert_int_equal(counters(1)->dropped_length, 0);
}

TEST(records__fail_with_their_connection)
{
    uint64_t word = 5;
    net.filter = drop_all;
    for (unsigned i = 0; i < 100; i++) {
        (void)record_get(1500 * i, 8);
        assert_true(record_put(i, &word, 8, 8 * i));
    }
    (void)record_get(0, 10000);
    unit_close(&net, 0, RAWE_LANE_EXPRESS);
    peer.conn[RAWE_LANE_EXPRESS] = NULL;
    for (unsigned i = 0; i < 100; i++) {
        assert_int_equal(record_accesses[i].done, 1);
        assert_int_equal(record_accesses[i].status, RAWE_STATUS_FAILED);
        assert_int_equal(record_accesses[i].operation.refusal, RAWE_REFUSAL_NONE);
        assert_int_equal(record_puts[i].done, 1);
        assert_int_equal(record_puts[i].status, RAWE_STATUS_FAILED);
    }
    assert_int_equal(engine(0)->operations.in_use, 0);
}

TEST(records__of_a_failed_connection_fail_when_the_owner_is_back)
{
    uint64_t word = 5;
    unit_peer_end(RAWE_LANE_EXPRESS)->handshake.state = RAWE_CONN_FAILED;
    rawe_engine_defer_begin(engine(0)); /* who sends is not the owner: what is done has to wait */
    const struct access *access = record_get(0, 8);
    assert_true(record_put(0, &word, 8, 0));
    assert_int_equal(access->done, 0);
    assert_int_equal(record_puts[0].done, 0);
    rawe_engine_defer_end(engine(0));
    rawe_engine_deliver_deferred(engine(0));
    assert_int_equal(access->done, 1);
    assert_int_equal(access->status, RAWE_STATUS_FAILED);
    assert_int_equal(access->operation.refusal, RAWE_REFUSAL_NONE);
    assert_int_equal(record_puts[0].done, 1);
    assert_int_equal(record_puts[0].status, RAWE_STATUS_FAILED);
    assert_int_equal(engine(0)->operations.in_use, 0);
}

TEST(records__are_put_off_where_nothing_may_be_held_back)
{
    uint64_t word = 5;
    engine(0)->config.coalesce_from_frames = 0;
    net.node[0].link_room = 3;
    for (unsigned i = 0; i < 10; i++) {
        (void)record_get(8 * i, 8);
        assert_true(record_put(i, &word, 8, 1000 + 8 * i));
    }
    net.node[0].link_room = UINT32_MAX;
    record_run();
    for (unsigned i = 0; i < 10; i++) {
        record_assert_got(&record_accesses[i], 8 * i, 8);
        assert_int_equal(record_puts[i].done, 1);
    }
    assert_int_equal(counters(0)->puts_sent, 10);
}

TEST(operate__at_the_limit)
{
    static struct access many[RAWE_OPERATIONS_MAX + 1];
    net.filter = drop_all;
    for (unsigned i = 0; i <= RAWE_OPERATIONS_MAX; i++) {
        many[i].operation = (struct rawe_operation){
            .done = record_operation_done,
            .handle_index = record_index,
            .handle_key = record_key,
            .len_bytes = 8,
            .to = (uint8_t *)&many[i].before,
        };
        assert_int_equal(rawe_peer_operate(&peer, &many[i].operation), i < RAWE_OPERATIONS_MAX);
    }
    net.filter = NULL;
    record_run();
    for (unsigned i = 0; i < RAWE_OPERATIONS_MAX; i++) {
        assert_int_equal(many[i].status, RAWE_STATUS_DONE);
        assert_int_equal(many[i].done, 1);
    }
    assert_int_equal(many[RAWE_OPERATIONS_MAX].done, 0);
}

/** The target's bulk lane ends; that is known before the reply comes. */
static struct access *get_while_bulk_ends(uint64_t len_bytes)
{
    unit_peer_connect_lane(RAWE_LANE_BULK);
    struct access *access = record_get(0, len_bytes);
    unit_close(&net, 1, RAWE_LANE_BULK);
    record_run();
    return access;
}

TEST(operate__goes_on_when_the_other_lane_begins_anew)
{
    const struct access *access = get_while_bulk_ends(8);
    record_assert_got(access, 0, 8);
    assert_int_equal(net.node[0].lost_calls, 0);
}

TEST(operate__fails_with_the_lane_that_its_reply_may_take)
{
    const struct access *access = get_while_bulk_ends(10000);
    assert_int_equal(access->done, 1);
    assert_int_equal(access->status, RAWE_STATUS_FAILED);
    assert_int_equal(net.node[0].lost_calls, 1);
}

TEST(operate__goes_on_when_the_lane_that_its_reply_takes_had_ended_before)
{
    unit_peer_connect_lane(RAWE_LANE_BULK);
    unit_close(&net, 1, RAWE_LANE_BULK);
    unit_settle(&net);
    assert_int_equal(unit_peer_end(RAWE_LANE_BULK)->handshake.state, RAWE_CONN_PEER_CLOSED);
    const struct access *access = record_get(0, 10000);
    record_run();
    record_assert_got(access, 0, 10000);
    assert_int_equal(net.node[0].lost_calls, 0);
}

/** Hand node 0 a frame of node 1's, made up, which acknowledges the request. */
static void forge(enum rawe_frame_type type)
{
    unit_receive_forged(&net, 1, RAWE_LANE_EXPRESS,
                        (struct rawe_header){.type = type, .acknowledgement = 1}, NULL, 0);
}

TEST(operate__target_dies_without_a_reply)
{
    struct access *access = record_get(0, 8);
    unit_wire_clear(&net);
    forge(RAWE_FRAME_ACK);
    net.node[1].paused = true;
    unit_run(&net, 2 * net.config.liveness.peer_timeout_ns, UNIT_MS);
    assert_int_equal(access->done, 1);
    assert_int_equal(access->status, RAWE_STATUS_FAILED);
    assert_int_equal(net.node[0].failed_calls, 1);
}

TEST(operate__target_closes_without_a_reply)
{
    struct access *access = record_get(0, 8);
    unit_wire_clear(&net);
    forge(RAWE_FRAME_CLOSE);
    assert_int_equal(access->done, 1);
    assert_int_equal(access->status, RAWE_STATUS_FAILED);
    assert_int_equal(net.node[0].lost_calls, 1); /* somebody has to hear of it */
}
