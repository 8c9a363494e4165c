/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Tests of asking for a connection. What is answered is in test_conn_receive_connect.c.
 */
#include "unit_pair.h"

#include <string.h>

#include "conn/rawe_conn_connect.h"
#include "conn/rawe_conn.h"

/** Drops the first `filter_count` CONNECT frames. */
static bool drop_first_connects(struct unit_net *of, const struct net_frame *frame)
{
    if (frame->header.type == RAWE_FRAME_CONNECT && of->filter_count != 0) {
        of->filter_count--;
        return false;
    }
    return true;
}

FIXTURE(unit_set_up, unit_tear_down);

/* rawe_conn_connect */

TEST(rawe_conn_connect__brings_up_both_ends)
{
    unit_connect(&net, RAWE_LANE_EXPRESS);
    assert_int_equal(end(0)->handshake.peer_id, end(1)->handshake.local_id);
    assert_int_equal(end(1)->handshake.peer_id, end(0)->handshake.local_id);
    assert_int_equal(counters(0)->connects_sent, 2); /* its request, its reply to the other's */
    assert_int_equal(counters(1)->connects_sent, 2);
    assert_works_both_ways();
    assert_int_equal(counters(0)->frames_resent + counters(1)->frames_resent, 0);
}

TEST(rawe_conn_connect__sends_wait_for_the_reply)
{
    static uint8_t data[5000];
    struct unit_send send = {0};
    unit_fill(data, sizeof(data), 8);
    unit_open(&net, 0, RAWE_LANE_EXPRESS);
    assert_int_equal(unit_copy_message(end(0), 1, 10), RAWE_STATUS_BUSY);
    assert_int_equal(end(0)->handshake.state, RAWE_CONN_CONNECTING);
    unit_send_message(end(0), &send, 7, data, sizeof(data));
    assert_false(rawe_conn_drained(end(0)));
    assert_int_equal(net.node[0].sent[RAWE_FRAME_CONNECT], 1);
    assert_int_equal(net.node[0].sent[RAWE_FRAME_DATA], 0);
    unit_run(&net, UNIT_MS, 20 * UNIT_US);
    assert_int_equal(send.done, 1);
    unit_assert_message(&net.node[1], 0, 7, sizeof(data), 8);
}

TEST(rawe_conn_connect__requests_and_replies_lost)
{
    for (unsigned lost = 1; lost <= 9; lost++) {
        net.filter = drop_first_connects;
        net.filter_count = lost;
        unit_open(&net, 0, RAWE_LANE_EXPRESS);
        rawe_conn_connect(end(0), net.now_ns);
        unit_run(&net, 2 * UNIT_S, 500 * UNIT_US);
        assert_int_equal(end(0)->handshake.state, RAWE_CONN_OPEN);
        assert_int_equal(end(1)->handshake.state, RAWE_CONN_OPEN);
        assert_works_both_ways();
        unit_close(&net, 0, RAWE_LANE_EXPRESS);
        unit_settle(&net);
        unit_close(&net, 1, RAWE_LANE_EXPRESS);
    }
}

TEST(rawe_conn_connect__asks_less_and_less_often)
{
    net.filter = drop_all;
    unit_open(&net, 0, RAWE_LANE_EXPRESS);
    rawe_conn_connect(end(0), net.now_ns);
    unit_run(&net, 250 * UNIT_MS, 200 * UNIT_US);
    /* After 1, 2 (3), 4 (7), 8, 16, 32, 64 (127), then every 100 ms. */
    assert_in_range(net.node[0].sent[RAWE_FRAME_CONNECT], 8, 10);
}

TEST(rawe_conn_connect__link_full)
{
    net.node[0].link_room = 0;
    unit_open(&net, 0, RAWE_LANE_EXPRESS);
    rawe_conn_connect(end(0), net.now_ns);
    unit_run(&net, 5 * UNIT_MS, 100 * UNIT_US);
    assert_int_equal(unit_wire_count(&net), 0);
    net.node[0].link_room = UINT32_MAX;
    unit_run(&net, 20 * UNIT_MS, 100 * UNIT_US);
    assert_int_equal(end(0)->handshake.state, RAWE_CONN_OPEN);
    assert_works_both_ways();
}
