/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Tests of routes that only the peer has found: each side looks for its own, so that a peer may ask
 * for a connection, or move one, from an interface that we know nothing of yet.
 */
#include "unit_rails.h"

#include <string.h>

#include "conn/rawe_conn.h"
#include "conn/rawe_conn_connect.h"
#include "conn/rawe_conn_move.h"

static unsigned probes;

static void count_probes(struct net_frame *frame, unsigned rail)
{
    probes += rail == 1 && frame->header.type == RAWE_FRAME_PROBE;
}

/** Host 1 knows one of host 0's interfaces. */
static void set_up(void)
{
    rails_init();
    rails.host[1].late = true;
    rails_start(0);
    probes = 0;
    rails.on_frame = count_probes;
}

static struct rawe_conn *connect_lane(void)
{
    struct rawe_conn *conn = rails_conn(0, 0, RAWE_LANE_EXPRESS);
    rawe_conn_connect(conn, rails.now_ns);
    rails_settle();
    assert_int_equal(conn->handshake.state, RAWE_CONN_OPEN);
    return conn;
}

static uint64_t dropped(unsigned rail)
{
    return rails.host[1].nic[rail].engine.counters.dropped_source;
}

FIXTURE(set_up, rails_tear_down);

TEST(rawe_engine_receive__a_connect_by_a_route_that_is_not_known)
{
    struct rawe_conn *conn = rails_conn(0, 0, RAWE_LANE_EXPRESS);
    rails_cut(0);
    assert_int_equal(unit_copy_message(conn, 7, 100), RAWE_STATUS_BUSY); /* it connects */
    rawe_conn_move(conn, &rails_peer(0, 1)->route, rails.now_ns);
    rails_run(20 * UNIT_MS, 100 * UNIT_US);
    assert_int_equal(conn->handshake.state, RAWE_CONN_OPEN);
    assert_int_equal(rails_used(rails_conn(1, 0, RAWE_LANE_EXPRESS)), 1);
    assert_int_equal(rails.host[1].unknown_calls, 1);
    assert_int_equal(dropped(1), 0);
}

TEST(rawe_engine_receive__a_probe_by_a_route_that_is_not_known)
{
    struct rawe_conn *conn = connect_lane();
    rails_cut(0);
    assert_int_equal(unit_copy_message(conn, 7, 100), RAWE_STATUS_DONE);
    rawe_conn_move(conn, &rails_peer(0, 1)->route, rails.now_ns);
    rails_run(20 * UNIT_MS, 100 * UNIT_US);
    assert_int_equal(rails.host[1].inbox.message_count, 1);
    assert_int_equal(rails_used(rails_conn(1, 0, RAWE_LANE_EXPRESS)), 1);
    assert_int_equal(rails.host[1].unknown_calls, 1);
    assert_int_equal(dropped(1), 0);
}

/** Nobody is asked about frames that say nothing of where the peer is. */
TEST(rawe_engine_receive__nothing_by_a_route_that_is_refused)
{
    struct rawe_conn *conn = connect_lane();
    rails.host[1].refuses = true;
    rawe_conn_move(conn, &rails_peer(0, 1)->route, rails.now_ns);
    assert_int_equal(unit_copy_message(conn, 7, 100), RAWE_STATUS_DONE);
    rails_run(20 * UNIT_MS, 100 * UNIT_US);
    assert_int_not_equal(probes, 0);
    assert_int_equal(rails.host[1].unknown_calls, probes);
    assert_int_equal(dropped(1), rails.carried[1]);
    assert_true(rails.carried[1] > probes);
    assert_int_equal(rails.host[1].inbox.message_count, 0);
    assert_int_equal(rails_used(rails_conn(1, 0, RAWE_LANE_EXPRESS)), 0);
}
