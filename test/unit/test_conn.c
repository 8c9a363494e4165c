/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Tests of a connection as a whole: opening, closing, the flush. Its timer is in
 * test_conn_timer.c.
 */
#include "unit_receive.h"

#include <string.h>

#include "conn/rawe_conn_control.h"
#include "conn/rawe_conn_connect.h"
#include "conn/rawe_conn.h"

FIXTURE(unit_set_up, unit_tear_down);

/* rawe_conn_open */

TEST(rawe_conn_open__is_idle_and_allocates_no_window)
{
    struct rawe_conn *conn = unit_open(&net, 0, RAWE_LANE_EXPRESS);
    assert_int_equal(conn->handshake.state, RAWE_CONN_IDLE);
    assert_null(conn->sendwin.slots);
    assert_null(conn->recvwin.acktr);
    assert_true(rawe_conn_drained(conn));
    assert_int_equal(unit_wire_count(&net), 0);
    assert_int_equal(net.node[0].engine.timers.armed, 0);
}

TEST(rawe_conn_open__payload_is_the_smaller_of_link_and_path)
{
    struct rawe_conn_config config = {.payload_max_bytes = 700};
    struct rawe_conn *conn = rawe_conn_open(&net.node[0].engine, &config);
    assert_non_null(conn);
    assert_int_equal(conn->payload_max_bytes, 700);
    rawe_conn_close(conn, net.now_ns);
    config.payload_max_bytes = 60000;
    conn = rawe_conn_open(&net.node[0].engine, &config);
    assert_non_null(conn);
    assert_int_equal(conn->payload_max_bytes, net.config.payload_max_bytes);
    rawe_conn_close(conn, net.now_ns);
}

/* rawe_conn_close */

TEST(rawe_conn_close__tells_the_peer)
{
    unit_connect(&net, RAWE_LANE_EXPRESS);
    unit_close(&net, 0, RAWE_LANE_EXPRESS);
    assert_int_equal(net.node[0].sent[RAWE_FRAME_CLOSE], 1);
    unit_settle(&net);
    assert_int_equal(end(1)->handshake.state, RAWE_CONN_PEER_CLOSED);
    assert_true(rawe_conn_drained(end(1)));
    unit_run(&net, 10 * UNIT_MS, 100 * UNIT_US);
    assert_int_equal(net.node[1].engine.timers.armed, 0); /* it asks no more */
}

TEST(rawe_conn_close__before_it_is_open_says_nothing)
{
    net.filter = drop_all;
    unit_open(&net, 0, RAWE_LANE_EXPRESS);
    rawe_conn_connect(end(0), net.now_ns);
    unit_close(&net, 0, RAWE_LANE_EXPRESS);
    assert_int_equal(net.node[0].sent[RAWE_FRAME_CLOSE], 0);
    assert_int_equal(net.node[0].engine.timers.armed, 0);
}

TEST(rawe_conn_close__what_is_left_completes_with_an_error)
{
    static uint8_t data[60000];
    struct unit_send sends[4];
    memset(sends, 0, sizeof(sends));
    unit_connect(&net, RAWE_LANE_EXPRESS);
    net.filter = drop_all;
    unit_send_message(end(0), &sends[0], 1, data, 1400);         /* framed */
    unit_send_message(end(0), &sends[1], 1, data, sizeof(data)); /* half framed */
    unit_send_message(end(0), &sends[2], 1, data, sizeof(data)); /* queued */
    unit_send_message(end(0), &sends[3], 1, data, 10);
    assert_false(rawe_conn_drained(end(0)));
    unit_close(&net, 0, RAWE_LANE_EXPRESS);
    for (unsigned i = 0; i < 4; i++) {
        assert_int_equal(sends[i].done, 1);
        assert_int_equal(sends[i].status, RAWE_STATUS_FAILED);
    }
}

static struct unit_send send_again;
static uint8_t again_data[3000];

/** Sends another message as soon as one is done, as an upper layer's pipeline does. */
static void again(struct unit_send *send)
{
    struct rawe_conn *conn = send->context;
    unit_send_message(conn, &send_again, 5, again_data, sizeof(again_data));
}

TEST(rawe_conn_close__a_done_that_sends_again_fails_at_once)
{
    static uint8_t data[1400];
    struct unit_send send = {.on_done = again};
    memset(&send_again, 0, sizeof(send_again));
    send.context = unit_connect(&net, RAWE_LANE_EXPRESS);
    net.filter = drop_all;
    unit_send_message(end(0), &send, 1, data, sizeof(data));
    unit_close(&net, 0, RAWE_LANE_EXPRESS);
    assert_int_equal(send.done, 1);
    assert_int_equal(send_again.done, 1);
    assert_int_equal(send_again.status, RAWE_STATUS_FAILED);
}

TEST(rawe_conn_close__while_it_waits_to_be_flushed)
{
    unit_connect(&net, RAWE_LANE_EXPRESS);
    unit_connect(&net, RAWE_LANE_BULK);
    rawe_conn_make_pending(end(0));
    rawe_conn_make_pending(net.node[0].conn[RAWE_LANE_BULK]);
    unit_close(&net, 0, RAWE_LANE_EXPRESS); /* the second of the list */
    assert_true(rawe_engine_pending(&net.node[0].engine));
    unit_settle(&net);
    assert_false(rawe_engine_pending(&net.node[0].engine));
}

TEST(rawe_conn_close__with_data_in_flight_both_ways)
{
    static uint8_t data[8000];
    struct unit_send mine = {0}, theirs = {0};
    unit_connect(&net, RAWE_LANE_EXPRESS);
    unit_send_message(end(0), &mine, 1, data, sizeof(data));
    unit_send_message(end(1), &theirs, 2, data, sizeof(data));
    unit_close(&net, 0, RAWE_LANE_EXPRESS);
    assert_int_equal(mine.status, RAWE_STATUS_FAILED);
    unit_settle(&net);
    assert_int_equal(theirs.done, 0); /* we may be about to finalize, too */
    unit_run(&net, 3000 * UNIT_MS, UNIT_MS);
    assert_int_equal(theirs.done, 1);
    assert_int_equal(theirs.status, RAWE_STATUS_FAILED);
    assert_int_equal(net.node[1].lost_calls, 1);
    assert_int_equal(end(1)->handshake.state, RAWE_CONN_PEER_CLOSED);
    /* What still came for the closed end had no effect. */
    assert_true(counters(0)->dropped_connection > 0);
    assert_int_equal(net.node[0].message_count, 0);
}

TEST(rawe_conn_close__with_frames_that_wait_for_the_link)
{
    static uint8_t data[9000];
    struct unit_send send = {0};
    unit_connect(&net, RAWE_LANE_EXPRESS);
    net.node[0].link_room = 2;
    unit_send_message(end(0), &send, 1, data, sizeof(data));
    assert_true(end(0)->sendwin.to_transmit > 0);
    unit_close(&net, 0, RAWE_LANE_EXPRESS); /* unit_stop counts the frames */
    assert_int_equal(send.done, 1);
    assert_int_equal(send.status, RAWE_STATUS_FAILED);
    assert_false(rawe_engine_pending(&net.node[0].engine));
}

/* rawe_conn_drained */

TEST(rawe_conn_drained__only_when_all_is_acknowledged)
{
    unit_connect(&net, RAWE_LANE_EXPRESS);
    assert_int_equal(unit_copy_message(end(0), 1, 10), RAWE_STATUS_DONE);
    assert_false(rawe_conn_drained(end(0)));
    unit_settle(&net);
    assert_false(rawe_conn_drained(end(0))); /* the acknowledgement is put off */
    unit_run(&net, net.config.ack_delay_ns + 20 * UNIT_US, 10 * UNIT_US);
    assert_true(rawe_conn_drained(end(0)));
}

/* rawe_conn_flush */

TEST(rawe_conn_flush__an_acknowledgement_waits_for_the_link)
{
    connect_nodes();
    receive_message(0, RAWE_FLAG_ACK_NOW, 1);
    net.node[1].link_room = 0;
    for (unsigned i = 0; i < 3; i++) {
        rawe_engine_flush(&net.node[1].engine, net.now_ns);
        assert_int_equal(counters(1)->acks_sent, 0);
        assert_true(rawe_engine_pending(&net.node[1].engine));
    }
    assert_int_equal(counters(1)->link_stalls, 3);
    net.node[1].link_room = 1;
    rawe_engine_flush(&net.node[1].engine, net.now_ns);
    assert_int_equal(counters(1)->acks_sent, 1);
    assert_false(rawe_engine_pending(&net.node[1].engine));
    unit_wire_clear(&net);
    net.node[1].link_room = UINT32_MAX;
}

TEST(rawe_conn_flush__acknowledgement_before_data)
{
    static uint8_t data[1400];
    struct unit_send send = {0};
    connect_nodes();
    receive_message(1, 0, 1); /* a hole: the SACK block cannot ride along */
    net.node[1].link_room = 0;
    unit_send_message(end(1), &send, 1, data, sizeof(data));
    net.node[1].link_room = UINT32_MAX;
    rawe_engine_flush(&net.node[1].engine, net.now_ns);
    assert_int_equal(unit_wire_count(&net), 2);
    assert_int_equal(net.wire->header.type, RAWE_FRAME_ACK);
    assert_int_equal(net.wire->next->header.type, RAWE_FRAME_DATA);
    unit_wire_clear(&net);
    unit_close(&net, 1, RAWE_LANE_EXPRESS);
}
