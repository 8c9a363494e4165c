/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Tests of failing over: which routes are asked when, when they are left and used again. The
 * responders of the peer are the test's own; connections and their moving are real.
 */
#include "unit_rails.h"

#include <string.h>

#include "conn/rawe_conn.h"
#include "conn/rawe_conn_connect.h"
#include "routes/rawe_failover.h"

#define EXPRESS RAWE_LANE_EXPRESS

static struct rawe_failover failover; /**< of host 0 */
static bool answers[RAILS];           /**< its peer's responder, by that rail */
static uint64_t newest_ns[RAILS];     /**< answer by that rail */
static uint64_t late_ns;              /**< answers by rail 1 take that long */
static unsigned asked[RAILS];
static unsigned said;
static unsigned said_rail;
static enum rawe_failover_report said_last;

static unsigned rail_of(const struct rawe_peer *peer)
{
    const struct rails_nic *nic = peer->engine->context;
    return nic->rail;
}

static bool flaky; /**< half of the PINGs by rail 1 are lost */
static uint32_t chance;
static bool
    moves; /**< answers by rail 1 show where the peer is now: where it was, in this network */

static void ask(void *context, struct rawe_peer *peer)
{
    unsigned rail = rail_of(peer);
    assert_ptr_equal(context, &failover);
    asked[rail]++;
    chance = chance * 1103515245u + 12345u;
    const bool lost = flaky && rail == 1 && (chance >> 16 & 1) != 0;
    newest_ns[rail] = answers[rail] && !lost ? rails.now_ns + 1 : newest_ns[rail];
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
    flaky = moves = false;
    late_ns = 0;
    chance = 1;
    for (unsigned rail = 0; rail < RAILS; rail++) {
        answers[rail] = true;
        rawe_conn_connect(rails_conn(0, rail, EXPRESS), rails.now_ns);
    }
    said = 0;
    said_last = RAWE_FAILOVER_NO_REPORT;
    unit_settle(&rails.net);
}

/** Time passes, and the routes are checked every 10 ms, with or without leave to report. */
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

/** A connection is silent, and stays so: nothing is owed on it that is asked about. */
static void silent(unsigned rail)
{
    struct rawe_conn *conn = rails_conn(0, rail, EXPRESS);
    conn->liveness.silent_since_ns = rails.now_ns;
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

/** There are no other routes until `join`. */
static void part(unsigned rail)
{
    rawe_route_remove(&rails_peer(0, rail)->route);
}

static void join(unsigned rail)
{
    rawe_peer_join(rails_peer(0, rail), rails_peer(0, (rail + 1) % RAILS));
}

FIXTURE(set_up, rails_stop);

/** Whatever was due before. */
TEST(rawe_failover_silent__is_due_at_once)
{
    silent(1);
    pass(100 * UNIT_MS);
    silent(2);
    assert_true(rawe_failover_due_ns(&failover) <= rails.now_ns);
}

static void heed_silence(struct rails_host *host, struct rawe_conn *conn)
{
    assert_int_equal(host->index, 0);
    rawe_failover_silent(&failover, conn, rails.now_ns);
}

TEST(rawe_failover_silent__blames_the_route_that_is_used)
{
    rails.host[0].on_silent = heed_silence;
    carrier(0, false);
    assert_int_equal(used(0), 1);
    answers[1] = false;
    rails_cut(1);
    unit_send_copy(rails_conn(0, 0, EXPRESS), 1, 100);
    pass(200 * UNIT_MS);
    assert_true(down(1));
    assert_int_equal(used(0), 2);
    assert_int_equal(used(1), 2);
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

/** Into a port that is full PROBEs and PINGs are lost, by chance, and what is resent arrives. */
TEST(rawe_failover_silent__over_when_the_connection_is_heard)
{
    rails.host[0].on_silent = heed_silence;
    answers[1] = false;
    rails_cut(1);
    unit_send_copy(rails_conn(0, 1, EXPRESS), 1, 100);
    pass(20 * UNIT_MS);
    assert_true(rawe_failover_pending(&failover));
    rails.cut[1] = false;
    pass(UNIT_S);
    assert_false(rawe_failover_pending(&failover));
    assert_false(down(1));
    assert_int_equal(used(1), 1);
    assert_int_equal(said, 0);
    assert_int_equal(rails.host[1].inbox.message_count, 1);
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
    assert_false(rawe_failover_pending(&failover)); /* nor is it looked at */
    /* Nor when it is asked of the others whether they answer. */
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
    assert_true(down(1)); /* a plug that is being moved bounces */
    pass(200 * UNIT_MS);  /* the time without carrier makes no difference */
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
    assert_false(rawe_failover_pending(&failover)); /* the answer has ended the doubt */
    assert_false(down(1));
    assert_int_equal(asked[1], 1);
    assert_int_equal(said, 0);
}

/** An answer from before it was down says nothing of now. */
TEST(rawe_failover_check__does_not_compare_with_routes_that_are_down)
{
    memset(answers, 0, sizeof(answers));
    carrier(0, false);
    carrier(2, false);
    silent(1);
    newest_ns[0] = newest_ns[2] = rails.now_ns + UNIT_S;
    pass(UNIT_S);
    assert_false(down(1));
}

/** The process has died: nothing answers, and its connection has been given up. */
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

/** A connection that uses another route is silent still, which says nothing of this one. */
TEST(rawe_failover_check__heeds_only_connections_that_use_the_route)
{
    memset(answers, 0, sizeof(answers));
    silent(1);
    rawe_liveness_heard(&rails_conn(0, 1, EXPRESS)->liveness);
    rails_conn(0, 2, EXPRESS)->liveness.silent_since_ns = rails.now_ns;
    pass(UNIT_S);
    assert_false(rawe_failover_pending(&failover));
    assert_false(down(1));
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

/** It got its second route when the carrier was lost already. */
TEST(rawe_failover_check__leaves_a_route_that_came_without_carrier)
{
    part(1);
    carrier(1, false);
    join(1);
    assert_false(down(1));
    silent(1);
    pass(1);
    assert_true(down(1));
    assert_int_equal(used(1), 2);
    assert_int_equal(said_last, RAWE_FAILOVER_CARRIER_LOST);
}

/** All routes were down, so there was none to move to. */
TEST(rawe_failover_check__uses_a_route_that_has_come_since)
{
    part(2);
    carrier(0, false);
    carrier(1, false);
    pass(UNIT_S);
    assert_int_equal(used(0), 1);
    join(2);
    pass(1);
    assert_int_equal(used(0), 2);
    assert_int_equal(used(1), 2);
    assert_int_equal(said, 2); /* of the carriers, and nothing new */
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
    assert_true(rawe_failover_due_ns(&failover) == UINT64_MAX); /* no thread is woken for it */
    pass(1);
    assert_int_equal(said, 2);
    assert_int_equal(said_last, RAWE_FAILOVER_ANSWERS);
    assert_false(rawe_failover_pending(&failover));
}

/** All routes are asked where one is silent: one that nothing is known against may have moved. */
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
    rawe_failover_forget(&failover, rails_peer(0, 1)); /* it is not there any more */
    assert_true(rawe_failover_pending(&failover));
    answers[0] = answers[2] = true;
    pass(200 * UNIT_MS);
    assert_false(down(1));
    assert_false(rawe_failover_pending(&failover));
    silent(1);
    rawe_failover_forget(&failover, rails_peer(0, 1));
    assert_false(rawe_failover_pending(&failover));
}

/* ---- routes that lose frames ---- */

static void note_lossy(const struct rawe_conn *conn)
{
    rawe_failover_lossy(&failover, conn, rails.now_ns);
}

/** A message by each rail every 2 ms, where there is room. */
static void exchange(uint64_t duration_ns)
{
    rails.host[0].on_lossy = note_lossy;
    for (uint64_t end_ns = rails.now_ns + duration_ns; rails.now_ns < end_ns;) {
        for (unsigned rail = 0; rail < RAILS; rail++) {
            (void)unit_copy_message(rails_conn(0, rail, EXPRESS), (uint8_t)rail, 100);
        }
        rawe_failover_check(&failover, true, rails.now_ns);
        unit_run(&rails.net, 2 * UNIT_MS, 200 * UNIT_US);
        unit_forget_messages(&rails.host[1].inbox);
    }
}

TEST(rawe_failover_lossy__leaves_the_route_and_returns_when_it_is_good)
{
    rails.lost_each[1] = 3;
    exchange(1000 * UNIT_MS);
    assert_true(down(1));
    assert_int_not_equal(used(1), 1);
    assert_false(down(0) || down(2));
    assert_int_equal(said, 1);
    assert_int_equal(said_rail, 1);
    assert_int_equal(said_last, RAWE_FAILOVER_LOSSY);
    rails.lost_each[1] = 0;
    exchange(4000 * UNIT_MS);
    assert_false(down(1));
    assert_int_equal(used(1), 1);
    assert_int_equal(said, 2);
    assert_int_equal(said_last, RAWE_FAILOVER_ANSWERS);
    assert_false(rawe_failover_pending(&failover));
}

/** It is congestion, or the network is so: nothing is gained by another route. */
TEST(rawe_failover_lossy__stays_where_others_lose_as_much)
{
    rails.lost_each[0] = rails.lost_each[1] = rails.lost_each[2] = 4;
    exchange(3000 * UNIT_MS);
    assert_int_equal(said, 0);
    assert_false(down(0) || down(1) || down(2));
}

TEST(rawe_failover_lossy__few_losses_are_no_reason)
{
    rails.lost_each[1] = 25;
    exchange(3000 * UNIT_MS);
    assert_int_equal(said, 0);
    assert_false(down(1));
}

/** What loses frames is better than nothing. */
TEST(rawe_failover_lossy__is_used_again_when_the_others_fail)
{
    rails.lost_each[1] = 3;
    exchange(1000 * UNIT_MS);
    assert_true(down(1));
    carrier(0, false);
    assert_true(down(1));
    carrier(2, false);
    assert_false(down(1));
    assert_int_equal(used(0), 1);
    assert_int_equal(used(1), 1);
    assert_int_equal(used(2), 1);
    exchange(1000 * UNIT_MS); /* and there is nothing to compare it with */
    assert_false(down(1));
}

/** Some of its PINGs are answered: it is worse than others, and better than a dead one. */
TEST(rawe_failover_lossy__is_used_again_when_the_others_are_silent)
{
    flaky = true;
    rails.lost_each[1] = 3;
    exchange(6000 * UNIT_MS);
    assert_true(down(1));
    answers[0] = answers[2] = false;
    rails_cut(0);
    rails_cut(2);
    silent(0);
    silent(2);
    for (unsigned i = 0; i < 1500 && down(1); i++) {
        rails_conn(0, 0, EXPRESS)->liveness.silent_since_ns = rails.now_ns;
        rails_conn(0, 2, EXPRESS)->liveness.silent_since_ns = rails.now_ns;
        pass(20 * UNIT_MS);
    }
    assert_false(down(1));
}

/** Its losses do not have the measurement of the bad one begin again. */
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

TEST(rawe_failover_lossy__asks_nothing_where_there_is_no_other_route)
{
    part(1);
    rails.lost_each[1] = 3;
    exchange(1000 * UNIT_MS);
    assert_false(rawe_failover_pending(&failover));
    assert_false(down(1));
    join(1);
}

/** What another route had in flight is not the fault of the one that finds it out. */
TEST(rawe_failover_lossy__blames_the_route_that_carried_it)
{
    unit_send_copies(rails_conn(0, 1, EXPRESS), 4, 1000);
    rails_cut(1);
    rails.now_ns += UNIT_US;
    carrier(1, false);
    unit_run(&rails.net, 100 * UNIT_MS, UNIT_MS);
    assert_int_not_equal(used(1), 1);
    assert_true(rawe_conn_idle(rails_conn(0, 1, EXPRESS)));
    assert_true(rails_conn(0, 1, EXPRESS)->engine->counters.losses_probed != 0);
    for (unsigned rail = 0; rail < RAILS; rail++) {
        assert_int_equal(rails_peer(0, rail)->route.lost, 0);
    }
}

/** It carries little, as each lost frame is waited for: PINGs tell the rest. */
TEST(rawe_failover_lossy__asks_where_few_frames_go)
{
    note_lossy(rails_conn(0, 1, EXPRESS));
    for (unsigned i = 0; i < 200 && !down(1); i++) {
        answers[1] = i / 4 % 3 != 0;
        pass(10 * UNIT_MS);
    }
    assert_true(down(1));
    assert_int_equal(said_last, RAWE_FAILOVER_LOSSY);
    assert_false(down(0) || down(2));
}

TEST(rawe_failover_lossy__waits_for_answers)
{
    late_ns = RAWE_FAILOVER_INTERVAL_NS * 3 / 2;
    note_lossy(rails_conn(0, 1, EXPRESS));
    pass(4 * UNIT_S);
    assert_int_equal(said, 0);
    assert_false(down(1));
}

/** It is late by all routes. */
TEST(rawe_failover_lossy__blames_no_route_for_a_busy_host)
{
    note_lossy(rails_conn(0, 1, EXPRESS));
    memset(answers, 0, sizeof(answers));
    pass(UNIT_S);
    assert_false(down(1));
    memset(answers, 1, sizeof(answers));
    pass(UNIT_S);
    assert_int_equal(said, 0);
    assert_false(rawe_failover_pending(&failover));
}
