/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Tests of failover: when routes are pinged, abandoned and used again. The peer's responders are
 * simulated; connections and their migration are real.
 */
#include "unit_rails.h"

#include <string.h>

#include "conn/rawe_conn.h"
#include "conn/rawe_conn_connect.h"
#include "routes/rawe_failover.h"

#define EXPRESS RAWE_LANE_EXPRESS

static struct rawe_failover failover; /**< host 0's failover */
static bool answers[RAILS];           /**< whether the peer's responder answers on each rail */
static uint64_t newest_ns[RAILS];     /**< time of the newest answer on each rail */
static uint64_t late_ns;              /**< delay of answers on rail 1 */
static unsigned asked[RAILS];
static unsigned said;
static unsigned said_rail;
static enum rawe_failover_report said_last;

static unsigned rail_of(const struct rawe_peer *peer)
{
    const struct rails_nic *nic = peer->engine->context;
    return nic->rail;
}

/** If true, a PING on rail 1 makes failover follow the peer to its address (here unchanged). */
static bool moves;

static void ask(void *context, struct rawe_peer *peer)
{
    unsigned rail = rail_of(peer);
    assert_ptr_equal(context, &failover);
    asked[rail]++;
    newest_ns[rail] = answers[rail] ? rails.now_ns + 1 : newest_ns[rail];
    if (moves && rail == 1) {
        const struct rawe_route there = peer->route;
        rawe_failover_follow(&failover, peer, there.mac, rails.now_ns);
    }
}

static uint64_t answered_ns(void *context, const struct rawe_peer *peer)
{
    const uint64_t at_ns = newest_ns[rail_of(peer)];
    assert_ptr_equal(context, &failover);
    return rail_of(peer) == 1 && rails.now_ns + 1 < at_ns + late_ns ? 0 : at_ns;
}

static void say(void *context, const struct rawe_peer *peer, enum rawe_failover_report news)
{
    assert_ptr_equal(context, &failover);
    said++;
    said_rail = rail_of(peer);
    said_last = news;
}

static void set_up(void)
{
    static const struct rawe_failover_callbacks callbacks = {
        .ask = ask,
        .answered_ns = answered_ns,
        .say = say,
    };
    rails_set_up();
    rawe_failover_init(&failover, &callbacks, &failover);
    memset(newest_ns, 0, sizeof(newest_ns));
    memset(asked, 0, sizeof(asked));
    moves = false;
    late_ns = 0;
    for (unsigned rail = 0; rail < RAILS; rail++) {
        answers[rail] = true;
        rawe_conn_connect(rails_conn(0, rail, EXPRESS), rails.now_ns);
    }
    said = 0;
    said_last = RAWE_FAILOVER_NO_REPORT;
    unit_settle(&rails.net);
}

/** Advance the clock and check the routes every 10 ms; `may_say`: reports are allowed. */
static void pass_saying(uint64_t duration_ns, bool may_say)
{
    for (uint64_t end_ns = rails.now_ns + duration_ns; rails.now_ns < end_ns;) {
        rawe_failover_check(&failover, may_say, rails.now_ns);
        unit_run(&rails.net, 10 * UNIT_MS, UNIT_MS);
    }
}

static void pass(uint64_t duration_ns)
{
    pass_saying(duration_ns, true);
}

/** Report that a connection is silent. */
static void silent(unsigned rail)
{
    struct rawe_conn *conn = rails_conn(0, rail, EXPRESS);
    conn->path.liveness.silent_since_ns = rails.now_ns;
    rawe_failover_silent(&failover, conn, rails.now_ns);
}

static void carrier(unsigned rail, bool carrier_)
{
    struct rawe_peer *peer = rails_peer(0, rail);
    rawe_failover_set_carrier(&failover, peer->engine, carrier_);
    rawe_failover_heed_carrier(&failover, peer, rails.now_ns);
}

static bool down(unsigned rail)
{
    return rails_peer(0, rail)->route.down;
}

static unsigned used(unsigned rail)
{
    return rails_used(rails_conn(0, rail, EXPRESS));
}

static unsigned asked_in_all(void)
{
    return asked[0] + asked[1] + asked[2];
}

/** Remove a rail's peer from the ring of routes until join() adds it again. */
static void part(unsigned rail)
{
    rawe_route_remove(&rails_peer(0, rail)->route);
}

static void join(unsigned rail)
{
    rawe_peer_join(rails_peer(0, rail), rails_peer(0, (rail + 1) % RAILS));
}

FIXTURE(set_up, rails_stop);

/** A silent route is checked at once, even if a check is already planned for later. */
TEST(rawe_failover_silent__is_due_at_once)
{
    silent(1);
    pass(100 * UNIT_MS);
    silent(2);
    assert_true(rawe_failover_due_ns(&failover) <= rails.now_ns);
}

TEST(rawe_failover_silent__asks_nothing_where_there_is_no_other_route)
{
    part(1);
    answers[1] = false;
    silent(1);
    assert_false(rawe_failover_pending(&failover));
    pass(100 * UNIT_MS);
    assert_int_equal(asked_in_all(), 0);
    assert_false(down(1));
    join(1);
}

TEST(rawe_failover_heed_carrier__leaves_the_route_at_once)
{
    carrier(1, false);
    assert_true(down(1));
    assert_int_equal(used(0), 0);
    assert_int_equal(used(1), 2);
    assert_int_equal(used(2), 2);
    pass(1);
    assert_int_equal(said, 1);
    assert_int_equal(said_rail, 1);
    assert_int_equal(said_last, RAWE_FAILOVER_CARRIER_LOST);
}

TEST(rawe_failover_heed_carrier__asks_nothing_without_carrier)
{
    carrier(1, false);
    pass(UNIT_S);
    assert_int_equal(asked[1], 0);
    assert_true(rawe_failover_due_ns(&failover) == UINT64_MAX);
    assert_false(rawe_failover_pending(&failover)); /* and the route is not checked */
    /* When the other routes are pinged, rail 1 is not. */
    silent(2);
    pass(1);
    assert_int_equal(asked[0], 1);
    assert_int_equal(asked[1], 0);
    assert_int_equal(asked[2], 1);
}

TEST(rawe_failover_heed_carrier__asks_at_once_when_it_is_back)
{
    carrier(1, false);
    pass(10 * UNIT_S);
    carrier(1, true);
    assert_true(rawe_failover_due_ns(&failover) <= rails.now_ns);
    pass(1);
    assert_int_equal(asked[1], 1);
    assert_int_equal(asked[0] + asked[2], 0);
    assert_true(down(1)); /* the carrier may still bounce */
    pass(200 * UNIT_MS);  /* however long the carrier was lost */
    assert_false(down(1));
    assert_int_equal(used(1), 1);
    assert_int_equal(said_last, RAWE_FAILOVER_ANSWERS);
    assert_false(rawe_failover_pending(&failover));
}

TEST(rawe_failover_heed_carrier__a_route_without_others_stays)
{
    part(1);
    carrier(1, false);
    assert_false(down(1));
    assert_false(rawe_failover_pending(&failover));
    carrier(1, true);
    pass(100 * UNIT_MS);
    assert_int_equal(said + asked_in_all(), 0);
    join(1);
}

TEST(rawe_failover_heed_carrier__leaves_routes_alone_that_are_up)
{
    carrier(1, true);
    assert_false(rawe_failover_pending(&failover));
    silent(1);
    carrier(1, true);
    pass(100 * UNIT_MS);
    assert_false(rawe_failover_pending(&failover)); /* the answer has cleared the route */
    assert_false(down(1));
    assert_int_equal(asked[1], 1);
    assert_int_equal(said, 0);
}

/** The peer has died: no route answers, and its connection was given up. */
TEST(rawe_failover_check__asks_nothing_of_a_peer_that_was_given_up)
{
    memset(answers, 0, sizeof(answers));
    silent(1);
    pass(UNIT_S);
    assert_true(rawe_failover_pending(&failover));
    rails_conn(0, 1, EXPRESS)->handshake.state = RAWE_CONN_FAILED;
    pass(20 * UNIT_MS);
    assert_false(rawe_failover_pending(&failover));
    unsigned before = asked_in_all();
    pass(UNIT_S);
    assert_int_equal(asked_in_all(), before);
    assert_int_equal(said, 0);
}

TEST(rawe_failover_check__looks_once_in_an_interval)
{
    answers[2] = false;
    silent(1);
    rawe_failover_check(&failover, true, rails.now_ns);
    silent(2);
    rawe_failover_check(&failover, true, rails.now_ns + RAWE_FAILOVER_INTERVAL_NS - 1);
    assert_int_equal(asked[2], 1);
    rawe_failover_check(&failover, true, rails.now_ns + RAWE_FAILOVER_INTERVAL_NS);
    assert_int_equal(asked[2], 2);
}

TEST(rawe_failover_check__keeps_news_until_it_may_be_said)
{
    carrier(1, false);
    pass_saying(100 * UNIT_MS, false);
    assert_int_equal(said, 0);
    pass(1);
    assert_int_equal(said, 1);
    carrier(1, true);
    pass_saying(2 * UNIT_S, false);
    assert_false(down(1));
    assert_int_equal(said, 1);
    assert_true(rawe_failover_pending(&failover));
    assert_true(rawe_failover_due_ns(&failover) == UINT64_MAX); /* no thread is woken to report */
    pass(1);
    assert_int_equal(said, 2);
    assert_int_equal(said_last, RAWE_FAILOVER_ANSWERS);
    assert_false(rawe_failover_pending(&failover));
}

/** If a route is silent, all are pinged, and an answer may reveal another route's new address. */
TEST(rawe_failover_check__a_route_may_be_followed_when_it_is_asked)
{
    moves = true;
    silent(0);
    rawe_failover_check(&failover, true, rails.now_ns);
    moves = false;
    assert_true(rawe_failover_due_ns(&failover) <= rails.now_ns);
    pass(20 * UNIT_MS);
    assert_int_equal(said_last, RAWE_FAILOVER_FOLLOWED);
    assert_int_equal(said_rail, 1);
}

TEST(rawe_failover_forget__takes_one_of_many)
{
    memset(answers, 0, sizeof(answers));
    for (unsigned rail = 0; rail < RAILS; rail++) {
        silent(rail);
    }
    rawe_failover_forget(&failover, rails_peer(0, 1));
    rawe_failover_forget(&failover, rails_peer(0, 1)); /* already forgotten */
    assert_true(rawe_failover_pending(&failover));
    answers[0] = answers[2] = true;
    pass(200 * UNIT_MS);
    assert_false(down(1));
    assert_false(rawe_failover_pending(&failover));
    silent(1);
    rawe_failover_forget(&failover, rails_peer(0, 1));
    assert_false(rawe_failover_pending(&failover));
}

/** Losses on a good route must not restart the measurement of a bad one. */
TEST(rawe_failover_lossy__another_route_that_loses_a_little_is_no_excuse)
{
    for (unsigned i = 0; i < 400 && !down(1); i++) {
        struct rawe_peer *good = rails_peer(0, 0), *bad = rails_peer(0, 1);
        good->route.arrived += 8000;
        good->route.lost += 2;
        rawe_failover_lossy(&failover, rails_conn(0, 0, EXPRESS), rails.now_ns);
        bad->route.arrived += 20;
        bad->route.lost += 8;
        rawe_failover_lossy(&failover, rails_conn(0, 1, EXPRESS), rails.now_ns);
        pass(10 * UNIT_MS);
    }
    assert_true(down(1));
}

TEST(rawe_failover_lossy__waits_for_answers)
{
    late_ns = RAWE_FAILOVER_INTERVAL_NS * 3 / 2;
    rawe_failover_lossy(&failover, rails_conn(0, 1, EXPRESS), rails.now_ns);
    pass(4 * UNIT_S);
    assert_int_equal(said, 0);
    assert_false(down(1));
}
