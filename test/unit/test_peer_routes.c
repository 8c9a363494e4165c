/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Tests of peers of the same process that share their routes: which connections move when one is
 * down, or up again, or closed.
 */
#include "unit_rails.h"

#include <string.h>

#include "conn/rawe_conn.h"
#include "conn/rawe_conn_connect.h"

/** Host 0 opens the express lane of each rail. */
static void connect_all(void)
{
    for (unsigned rail = 0; rail < RAILS; rail++) {
        rawe_conn_connect(rails_conn(0, rail, RAWE_LANE_EXPRESS), rails.now_ns);
    }
    rails_settle();
}

/** The rails that the connections at home on rails 0, 1, 2 use: 120 if each uses its own... */
static unsigned used(unsigned host)
{
    unsigned all = 0;
    for (unsigned rail = 0; rail < RAILS; rail++) {
        all = 10 * all + rails_used(rails_conn(host, rail, RAWE_LANE_EXPRESS));
    }
    return all;
}

/** A message gets through on each connection, in both directions. */
static void assert_works(void)
{
    for (unsigned host = 0; host < 2; host++) {
        unsigned before = rails.host[1 - host].inbox.message_count;
        for (unsigned rail = 0; rail < RAILS; rail++) {
            struct rawe_conn *conn = rails_conn(host, rail, RAWE_LANE_EXPRESS);
            assert_int_equal(unit_copy_message(conn, (uint8_t)rail, 100), RAWE_STATUS_DONE);
        }
        rails_run(UNIT_MS, 100 * UNIT_US);
        assert_int_equal(rails.host[1 - host].inbox.message_count, before + RAILS);
    }
}

FIXTURE(rails_set_up, rails_tear_down);

/* rawe_peer_next, rawe_peer_used */

TEST(rawe_peer_next__goes_through_all_of_the_process)
{
    for (unsigned rail = 0; rail < RAILS; rail++) {
        assert_ptr_equal(rawe_peer_next(rails_peer(0, rail)), rails_peer(0, (rail + 1) % RAILS));
    }
}

TEST(rawe_peer_used__is_the_one_whose_route_is_used)
{
    connect_all();
    struct rawe_conn *conn = rails_conn(0, 0, RAWE_LANE_EXPRESS);
    assert_ptr_equal(rawe_peer_used(conn), rails_peer(0, 0));
    rawe_peer_set_down(rails_peer(0, 0), rails.now_ns);
    assert_ptr_equal(rawe_peer_used(conn), rails_peer(0, 1));
}

/* rawe_peer_set_down */

TEST(rawe_peer_set_down__moves_all_that_use_the_route)
{
    connect_all();
    assert_int_equal(used(0), 12);
    rails_cut(0);
    rawe_peer_set_down(rails_peer(0, 0), rails.now_ns);
    assert_int_equal(used(0), 112);
    rails_cut(1);
    rawe_peer_set_down(rails_peer(0, 1), rails.now_ns);
    assert_int_equal(used(0), 222);
    rails_run(UNIT_MS, 100 * UNIT_US);
    assert_int_equal(used(1), 222);
    assert_int_equal(rails.host[0].table.migrated, 2);
    assert_works();
}

TEST(rawe_peer_set_down__of_the_last_moves_nothing)
{
    connect_all();
    for (unsigned rail = 0; rail < RAILS; rail++) {
        rawe_peer_set_down(rails_peer(0, rail), rails.now_ns);
    }
    assert_int_equal(used(0), 222);
}

/* rawe_peer_set_up */

TEST(rawe_peer_set_up__brings_home_who_belongs_there)
{
    connect_all();
    rails_cut(0);
    rails_cut(1);
    rawe_peer_set_down(rails_peer(0, 0), rails.now_ns);
    rawe_peer_set_down(rails_peer(0, 1), rails.now_ns);
    rails_run(UNIT_MS, 100 * UNIT_US);
    rails.cut[1] = false;
    rawe_peer_set_up(rails_peer(0, 1), rails.now_ns);
    rails_run(UNIT_MS, 100 * UNIT_US);
    assert_int_equal(used(0), 212);
    assert_int_equal(used(1), 212);
    assert_works();
    rails.cut[0] = false;
    rawe_peer_set_up(rails_peer(0, 0), rails.now_ns);
    rails_run(UNIT_MS, 100 * UNIT_US);
    assert_int_equal(used(0), 12);
    assert_int_equal(used(1), 12);
    assert_int_equal(rails.host[0].table.migrated, 0);
    assert_works();
}

TEST(rawe_peer_set_up__takes_those_whose_route_is_down)
{
    connect_all();
    for (unsigned rail = 0; rail < RAILS; rail++) {
        rails_cut(rail);
        rawe_peer_set_down(rails_peer(0, rail), rails.now_ns);
    }
    rails.cut[0] = false;
    rawe_peer_set_up(rails_peer(0, 0), rails.now_ns);
    assert_int_equal(used(0), 0);
    rails_run(UNIT_MS, 100 * UNIT_US);
    assert_int_equal(used(1), 0);
    assert_works();
}

/* rawe_peer_close */

TEST(rawe_peer_close__sends_away_who_uses_the_route)
{
    connect_all();
    rawe_peer_set_down(rails_peer(0, 0), rails.now_ns);
    rails_run(UNIT_MS, 100 * UNIT_US);
    assert_int_equal(used(0), 112);
    rawe_peer_close(rails_peer(0, 1));
    assert_ptr_equal(rawe_peer_next(rails_peer(0, 0)), rails_peer(0, 2));
    assert_int_equal(rails_used(rails_conn(0, 0, RAWE_LANE_EXPRESS)), 2);
    /* With nothing else left, it goes home. */
    rawe_peer_close(rails_peer(0, 2));
    assert_int_equal(rails_used(rails_conn(0, 0, RAWE_LANE_EXPRESS)), 0);
    assert_ptr_equal(rawe_peer_next(rails_peer(0, 0)), rails_peer(0, 0));
}

/* rawe_peer_set_payload_max */

/** What the rails carry on the connections at home on them. */
static void assert_carries(uint32_t first_bytes, uint32_t second_bytes, uint32_t third_bytes)
{
    assert_int_equal(rails_conn(0, 0, RAWE_LANE_EXPRESS)->payload_max_bytes, first_bytes);
    assert_int_equal(rails_conn(0, 1, RAWE_LANE_EXPRESS)->payload_max_bytes, second_bytes);
    assert_int_equal(rails_conn(0, 2, RAWE_LANE_EXPRESS)->payload_max_bytes, third_bytes);
}

/** Those that have come from elsewhere would stall there: nobody else tells them. */
TEST(rawe_peer_set_payload_max__of_all_that_use_the_route)
{
    connect_all();
    const uint32_t whole_bytes = rails_conn(0, 2, RAWE_LANE_EXPRESS)->payload_max_bytes;
    rails_cut(0);
    rawe_peer_set_down(rails_peer(0, 0), rails.now_ns);
    rails_run(UNIT_MS, 100 * UNIT_US);
    rawe_peer_set_payload_max(rails_peer(0, 1), 600);
    assert_carries(600, 600, whole_bytes);
    rails.mtu_payload_bytes[1] = 600;
    assert_works();
    /* At home there is as much room as ever. */
    rails.cut[0] = false;
    rawe_peer_set_up(rails_peer(0, 0), rails.now_ns);
    rails_run(UNIT_MS, 100 * UNIT_US);
    assert_carries(whole_bytes, 600, whole_bytes);
    assert_works();
}
