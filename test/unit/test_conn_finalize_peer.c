/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Tests of what a peer that finalizes leaves behind.
 */
#include "unit_finalize.h"

#include <string.h>

#include "conn/rawe_conn.h"
#include "conn/rawe_conn_connect.h"

FIXTURE(finalize_set_up, unit_tear_down);

/* rawe_conn_receive: CLOSE */

/** The fault: node 0, behind the fence, has messages in flight that nobody takes any more. */
TEST(rawe_conn_receive__nothing_is_lost_with_a_peer_that_finalized)
{
    net.filter = lose_data;
    end(0)->peer_credit = 5;
    finalize_send(0, 3); /* some in flight, some queued */
    rawe_engine_finalizing(engine(1));
    unit_run(&net, 50 * UNIT_MS, UNIT_MS);
    depart();
    unit_run(&net, 2 * TIMEOUT_NS, UNIT_MS);
    assert_nothing_lost();
    assert_complete(3);
    assert_int_equal(end(0)->handshake.state, RAWE_CONN_PEER_CLOSED);
}

TEST(rawe_conn_receive__a_forged_end_is_not_believed)
{
    struct rawe_header header = {.type = RAWE_FRAME_CLOSE, .flags = RAWE_FLAG_FINALIZING};
    finalize_send(0, 3);
    unit_wire_clear(&net);
    unit_receive_forged(&net, 1, UNIT_LANE, header, NULL, 0);
    assert_int_equal(finalize_sends[0].done, 0);
    unit_run(&net, 3 * UNIT_S, UNIT_MS);
    assert_complete(3);
    assert_int_equal(net.node[1].message_count, 3);
}

TEST(rawe_engine_receive__an_unknown_peer_is_answered)
{
    unit_close(&net, 1, UNIT_LANE);
    unit_settle(&net);
    net.node[1].refuses = true;
    rawe_engine_finalizing(engine(1));
    finalize_send(0, 3); /* it asks for a connection again */
    assert_int_equal(end(0)->handshake.state, RAWE_CONN_CONNECTING);
    unit_settle(&net);
    assert_int_equal(end(0)->handshake.state, RAWE_CONN_PEER_CLOSED);
    assert_nothing_lost();
    assert_complete(3);
}

/* rawe_conn_close */

TEST(rawe_conn_close__says_it_three_times_when_finalizing)
{
    net.filter = drop_all;
    unit_open(&net, 0, RAWE_LANE_BULK);
    rawe_engine_finalizing(engine(1));
    unit_close(&net, 1, UNIT_LANE);
    assert_int_equal(net.node[1].sent[RAWE_FRAME_CLOSE], 3);
    unit_close(&net, 0, UNIT_LANE);
    assert_int_equal(net.node[0].sent[RAWE_FRAME_CLOSE], 1);
    unit_close(&net, 0, RAWE_LANE_BULK);
    assert_int_equal(net.node[0].sent[RAWE_FRAME_CLOSE], 1);
}

/* rawe_conn_peer_gone */

TEST(rawe_conn_peer_gone__without_a_close)
{
    net.filter = lose_data;
    end(0)->peer_credit = 5;
    finalize_send(0, 3);
    rawe_engine_finalizing(engine(1));
    assert_int_equal(linger(1, UNIT_S), RAWE_FINALIZED_DONE);
    net.filter = drop_all;
    depart();
    unit_run(&net, 2 * TIMEOUT_NS, UNIT_MS);
    assert_nothing_lost();
    assert_complete(3);
    memset(finalize_sends, 0, sizeof(finalize_sends));
    finalize_send(0, 2); /* nobody needs them either */
    unit_run(&net, 900 * UNIT_MS, UNIT_MS);
    assert_int_equal(finalize_sends[0].done, 0); /* but it might have been suspended */
    unit_run(&net, 2 * TIMEOUT_NS, UNIT_MS);
    assert_nothing_lost();
    assert_complete(2);
}

TEST(rawe_conn_peer_gone__on_a_lane_never_opened)
{
    rawe_engine_finalizing(engine(1));
    assert_int_equal(linger(1, UNIT_S), RAWE_FINALIZED_DONE);
    depart();
    struct rawe_conn *bulk = unit_open(&net, 0, RAWE_LANE_BULK);
    unit_send_message(bulk, &finalize_sends[0], 0, finalize_data, sizeof(finalize_data));
    unit_run(&net, 2 * TIMEOUT_NS, UNIT_MS);
    assert_nothing_lost();
    assert_complete(1);
    assert_int_equal(bulk->handshake.state, RAWE_CONN_IDLE);
}

TEST(rawe_conn_peer_gone__it_may_come_back)
{
    struct unit_send last = {.done = 0};
    rawe_engine_finalizing(engine(1));
    unit_run(&net, 50 * UNIT_MS, UNIT_MS);
    net.filter = drop_all; /* it is starved, and has something to say */
    unit_send_message(end(1), &last, 9, finalize_data, sizeof(finalize_data));
    finalize_send(0, 3);
    assert_int_equal(linger(1, 3 * UNIT_S), RAWE_FINALIZED_NOT);
    assert_complete(3);
    net.filter = NULL;
    assert_int_equal(linger(1, UNIT_S), RAWE_FINALIZED_DONE);
    assert_int_equal(net.node[0].message_count, 1);
    unit_assert_message(&net.node[0], 0, 9, sizeof(finalize_data), 3);
    assert_nothing_lost();
}

TEST(rawe_conn_peer_gone__before_a_short_timeout)
{
    engine(0)->config.liveness.peer_timeout_ns = 300 * UNIT_MS;
    rawe_engine_finalizing(engine(1));
    assert_int_equal(linger(1, UNIT_S), RAWE_FINALIZED_DONE);
    net.filter = drop_all;
    finalize_send(0, 2);
    unit_run(&net, UNIT_S, UNIT_MS);
    assert_nothing_lost();
    assert_complete(2);
}

/** It waits for others, and says so, but nothing of ours arrives any more. */
TEST(rawe_conn_peer_gone__as_it_takes_nothing)
{
    net.filter = lose_data;
    rawe_engine_finalizing(engine(1));
    finalize_send(0, 2);
    unit_run(&net, TIMEOUT_NS - UNIT_S, UNIT_MS);
    assert_int_equal(finalize_sends[0].done, 0);
    unit_run(&net, 2 * UNIT_S, UNIT_MS);
    assert_nothing_lost();
    assert_complete(2);
}

TEST(rawe_conn_peer_gone__not_of_one_that_does_not_finalize)
{
    finalize_send(0, 1);
    net.filter = drop_all;
    unit_wire_clear(&net);
    unit_run(&net, TIMEOUT_NS + UNIT_S, UNIT_MS);
    assert_int_equal(net.node[0].failed_calls, 1);
    assert_int_equal(finalize_sends[0].status, RAWE_STATUS_FAILED);
}

TEST(rawe_conn_peer_gone__while_batches_are_validated)
{
    unit_use_batches(&net, 16);
    unit_connect(&net, RAWE_LANE_BULK);
    rawe_engine_finalizing(engine(1));
    unit_run(&net, 50 * UNIT_MS, UNIT_MS);
    net.filter = drop_all;
    net.batches_vanish = true;
    struct rawe_conn *bulk = net.node[0].conn[RAWE_LANE_BULK];
    for (unsigned i = 0; i < 2; i++) {
        unit_send_message(bulk, &finalize_sends[i], 0, finalize_data, sizeof(finalize_data));
        unit_run(&net, 2 * UNIT_S, UNIT_MS);
        assert_int_equal(finalize_sends[i].done, 1);
        assert_int_equal(finalize_sends[i].status, RAWE_STATUS_DONE);
    }
    assert_nothing_lost();
}
