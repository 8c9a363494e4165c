/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Tests of the end of a connection: states, CLOSE frames, giving up, leaving in MPI_Finalize.
 */
#include "unit_pair.h"
#include "unit_rails.h"

#include <string.h>

#include "conn/rawe_conn_connect.h"
#include "conn/rawe_conn_tx.h"
#include "conn/rawe_conn_end.h"
#include "conn/rawe_conn.h"

#define TIMEOUT_NS (5 * UNIT_S) /* as set by unit_init */
#define SENDS 3u

static struct unit_send sends[SENDS];
/** Content of each message: unit_fill with seed 3. */
static uint8_t data[5000];
static enum rawe_needs needs; /**< what the finalizing process's peers need */

/** Fixture: an open express lane. */
static void set_up(void)
{
    needs = RAWE_NEEDS_ALL;
    unit_start_with((struct unit_options){0});
    unit_connect(&net, RAWE_LANE_EXPRESS);
    unit_fill(data, sizeof(data), 3);
    memset(sends, 0, sizeof(sends));
}

FIXTURE(set_up, unit_tear_down);

static bool lose_data(struct unit_net *of, const struct net_frame *frame)
{
    return frame->header.type != RAWE_FRAME_DATA;
}

/** Send messages of four frames each. */
static void send(unsigned from, unsigned count)
{
    unit_send_messages(end(from), sends, count, data, sizeof(data));
}

/** Hand node 0 a control frame from its peer. */
static void receive(uint8_t type, uint8_t flags, uint32_t sequence, uint32_t acknowledgement)
{
    const struct rawe_header header = {
        .type = type, .flags = flags, .sequence = sequence, .acknowledgement = acknowledgement};
    net_queue_clear(&net.queue);
    unit_receive_forged(&net, 1, unit_lane, header, NULL, 0);
}

/** Assert that no loss or failure has been reported to node 0. */
static void assert_nothing_lost(void)
{
    assert_int_equal(net.node[0].lost_calls, 0);
    assert_int_equal(net.node[0].failed_calls, 0);
}

static enum rawe_finalized linger(struct rawe_conn *conn, uint64_t most_ns)
{
    enum rawe_finalized result = RAWE_FINALIZED_NOT;
    for (uint64_t ns = 0; ns < most_ns && result == RAWE_FINALIZED_NOT; ns += UNIT_MS) {
        unit_run(&net, UNIT_MS, UNIT_MS);
        result = rawe_conn_finalized(conn, needs, net.now_ns);
    }
    return result;
}

/** Join the routes of a node's two lanes, which lead to the same process. */
static void join_lanes(unsigned node)
{
    struct rawe_route *route = net.node[node].route;
    rawe_route_join(&route[RAWE_LANE_BULK], &route[RAWE_LANE_EXPRESS]);
}

/* ---- the states ---- */

TEST(rawe_conn_end_step__each_state_and_event)
{
    static const struct {
        enum rawe_end_state from, to;
        enum rawe_end_event event;
    } edges[] = {
        {RAWE_END_NONE, RAWE_END_ANNOUNCING, RAWE_ON_FINALIZE},
        {RAWE_END_PEER, RAWE_END_BOTH, RAWE_ON_FINALIZE},
        {RAWE_END_ANNOUNCING, RAWE_END_ANNOUNCED, RAWE_ON_ANSWER},
        {RAWE_END_BOTH, RAWE_END_BOTH_ANNOUNCED, RAWE_ON_ANSWER},
        {RAWE_END_NONE, RAWE_END_PEER, RAWE_ON_PEER_FINALIZING},
        {RAWE_END_ANNOUNCING, RAWE_END_BOTH, RAWE_ON_PEER_FINALIZING},
        {RAWE_END_ANNOUNCED, RAWE_END_BOTH_ANNOUNCED, RAWE_ON_PEER_FINALIZING},
        {RAWE_END_ANNOUNCED, RAWE_END_ANNOUNCING, RAWE_ON_NEW_LIFE},
        {RAWE_END_BOTH_ANNOUNCED, RAWE_END_BOTH, RAWE_ON_NEW_LIFE},
        {RAWE_END_PEER, RAWE_END_NONE, RAWE_ON_FORGET_PEER},
        {RAWE_END_BOTH, RAWE_END_ANNOUNCING, RAWE_ON_FORGET_PEER},
        {RAWE_END_BOTH_ANNOUNCED, RAWE_END_ANNOUNCED, RAWE_ON_FORGET_PEER},
    };
    struct rawe_conn *conn = end(0);
    for (unsigned from = RAWE_END_NONE; from <= RAWE_END_BOTH_ANNOUNCED; from++) {
        for (unsigned event = RAWE_ON_FINALIZE; event <= RAWE_ON_FORGET_PEER; event++) {
            enum rawe_end_state to = from; /* an impossible event changes nothing */
            for (size_t i = 0; i < sizeof(edges) / sizeof(edges[0]); i++) {
                to = edges[i].from == from && edges[i].event == event ? edges[i].to : to;
            }
            conn->end.state = (uint8_t)from;
            conn->path.preferred->finalizing = from >= RAWE_END_PEER;
            rawe_conn_end_step(conn, event);
            assert_int_equal(conn->end.state, to);
            assert_int_equal(conn->path.preferred->finalizing, to >= RAWE_END_PEER);
        }
    }
}

/** An unnumbered answer (RAWE_PROBE_PLAIN) may belong to an earlier PROBE, so it proves nothing. */
TEST(rawe_conn_note_finalizing__each_frame)
{
    static const struct {
        enum rawe_end_state from, to;
        uint8_t type, flags;
        uint32_t sequence; /**< PROBEs from 7, or UINT32_MAX - 10, on announce the end */
    } cases[] = {
        {RAWE_END_NONE, RAWE_END_PEER, RAWE_FRAME_PROBE, RAWE_FLAG_FINALIZING, 1},
        {RAWE_END_PEER, RAWE_END_PEER, RAWE_FRAME_ACK, 0, 0}, /* overtaken by the PROBE */
        {RAWE_END_NONE, RAWE_END_NONE, RAWE_FRAME_ACK, RAWE_FLAG_PROBE_ANSWER, 7},
        {RAWE_END_ANNOUNCING, RAWE_END_ANNOUNCING, RAWE_FRAME_ACK, 0, 7},
        {RAWE_END_ANNOUNCING, RAWE_END_ANNOUNCING, RAWE_FRAME_ACK, RAWE_FLAG_PROBE_ANSWER, 6},
        {RAWE_END_ANNOUNCING, RAWE_END_ANNOUNCED, RAWE_FRAME_ACK, RAWE_FLAG_PROBE_ANSWER, 7},
        {RAWE_END_ANNOUNCING, RAWE_END_BOTH_ANNOUNCED, RAWE_FRAME_ACK,
         RAWE_FLAG_PROBE_ANSWER | RAWE_FLAG_FINALIZING, 8},
        {RAWE_END_ANNOUNCING, RAWE_END_ANNOUNCING, RAWE_FRAME_ACK, RAWE_FLAG_PROBE_ANSWER,
         RAWE_PROBE_PLAIN},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        end(0)->end.state = (uint8_t)cases[i].from;
        end(0)->end.announced_from = cases[i].sequence != RAWE_PROBE_PLAIN ? 7 : UINT32_MAX - 10;
        receive(cases[i].type, cases[i].flags, cases[i].sequence, 0);
        assert_int_equal(end(0)->end.state, cases[i].to);
    }
}

TEST(rawe_conn_end_step__tells_from_the_next_probe_on)
{
    end(1)->path.liveness.probe_number = 5;
    rawe_engine_finalizing(engine(1));
    assert_int_equal(end(1)->end.announced_from, 6);
    assert_int_equal(unit_open(&net, 1, RAWE_LANE_BULK)->end.state, RAWE_END_ANNOUNCING);
}

/** A process ends a session and begins another, whose first connection may use a new lane. */
TEST(rawe_conn_receive_connect__of_the_next_session)
{
    static const struct {
        const char *name;
        bool bulk; /**< the earlier session used the bulk lane, too */
        enum rawe_lane lane;
    } cases[] = {
        {"the same lane", false, RAWE_LANE_EXPRESS},
        {"one of two lanes", true, RAWE_LANE_BULK},
        {"a lane never used before", false, RAWE_LANE_BULK},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        unit_case(cases[i].name);
        set_up();
        struct rawe_conn *bulk = unit_open(&net, 0, RAWE_LANE_BULK);
        join_lanes(0);
        if (cases[i].bulk) {
            rawe_conn_connect(bulk, net.now_ns);
            unit_settle(&net);
        }
        rawe_engine_finalizing(engine(1));
        assert_int_equal(linger(end(1), UNIT_S), RAWE_FINALIZED_DONE);
        unit_close(&net, 1, RAWE_LANE_EXPRESS);
        if (cases[i].bulk) {
            unit_close(&net, 1, RAWE_LANE_BULK);
        }
        unit_settle(&net);
        assert_int_equal(end(0)->end.state, RAWE_END_PEER);
        net.now_ns += UNIT_MS;
        unit_restart(&net, 1);
        rawe_conn_connect(unit_open(&net, 1, cases[i].lane), net.now_ns);
        unit_settle(&net);
        assert_int_equal(end(0)->end.state, RAWE_END_NONE);
        assert_int_equal(bulk->end.state, RAWE_END_NONE);
        assert_false(rawe_conn_peer_gone(end(0), UNIT_S)); /* it would drop our sends */
        if (cases[i].lane == RAWE_LANE_BULK) {
            (void)unit_open(&net, 1, RAWE_LANE_EXPRESS);
        }
        assert_works_both_ways();
    }
}

/* ---- CLOSE frames ---- */

TEST(rawe_conn_disowned__each_frame)
{
    static const struct {
        uint8_t type, flags;
        enum rawe_disowned then;
    } frames[] = {
        {RAWE_FRAME_CLOSE, RAWE_FLAG_REPLY, RAWE_DISOWNED_ENDED},
        {RAWE_FRAME_ACK, 0, RAWE_DISOWNED_NOT},
        {RAWE_FRAME_CLOSE, RAWE_FLAG_GIVEN_UP, RAWE_DISOWNED_GIVEN_UP},
        {RAWE_FRAME_CLOSE, 0, RAWE_DISOWNED_GIVEN_UP},
        {RAWE_FRAME_PROBE, 0, RAWE_DISOWNED_NOT},
    };
    send(0, 1); /* data in flight, so that no frame is believed at once */
    for (size_t i = 0; i < sizeof(frames) / sizeof(frames[0]); i++) {
        receive(frames[i].type, frames[i].flags, 0, 0);
        assert_int_equal(end(0)->end.disowned, frames[i].then);
        assert_int_equal(rawe_conn_end_asks(&end(0)->end), frames[i].then != RAWE_DISOWNED_NOT);
    }
    assert_int_equal(end(0)->handshake.state, RAWE_CONN_OPEN);
}

/** While nothing is in flight, a disowning CLOSE causes one PROBE, even after we have paused. */
TEST(rawe_conn_disowned__an_idle_peer_is_asked)
{
    uint32_t probes = net.node[0].sent[RAWE_FRAME_PROBE];
    for (unsigned round = 0; round < 3; round++) {
        receive(RAWE_FRAME_CLOSE, RAWE_FLAG_GIVEN_UP, 0, 0);
        if (round == 2) {
            net.now_ns += 3 * UNIT_S;
            receive(RAWE_FRAME_CLOSE, RAWE_FLAG_GIVEN_UP, 0, 0);
        }
        unit_run(&net, 1200 * UNIT_MS, UNIT_MS);
    }
    assert_int_equal(net.node[0].sent[RAWE_FRAME_PROBE], probes + 3);
    assert_int_equal(net.node[0].given_up_calls, 0);
    assert_int_equal(end(0)->handshake.state, RAWE_CONN_OPEN);
}

/** The peer's CLOSE is lost, and its answer to our PROBE overtakes its ACK on another route. */
TEST(rawe_conn_receive_close__an_acknowledgement_after_it_counts)
{
    send(0, 1);
    net.filter = drop_all;
    receive(RAWE_FRAME_CLOSE, RAWE_FLAG_REPLY, 0, 0);
    unit_run(&net, 500 * UNIT_MS, UNIT_MS);
    receive(RAWE_FRAME_ACK, 0, 0, 4);
    unit_assert_sent(sends, 1, RAWE_STATUS_DONE);
    receive(RAWE_FRAME_CLOSE, RAWE_FLAG_REPLY, 0, 0);
    assert_int_equal(end(0)->handshake.state, RAWE_CONN_PEER_CLOSED);
    assert_nothing_lost();
}

TEST(rawe_conn_receive_close__both_ends_wait_for_no_data_any_more)
{
    static const uint8_t flags[] = {0, RAWE_FLAG_REPLY}; /* the peer closes or disowns the lane */
    for (unsigned i = 0; i < 2; i++) {
        set_up();
        send(0, 2);
        receive(RAWE_FRAME_CLOSE, flags[i], 0, 0);
        rawe_engine_finalizing(engine(0));
        assert_int_equal(end(0)->handshake.state, RAWE_CONN_OPEN);
        receive(RAWE_FRAME_CLOSE, flags[i] | RAWE_FLAG_FINALIZING, 0, 0);
        assert_int_equal(end(0)->handshake.state, RAWE_CONN_PEER_CLOSED);
        assert_int_equal(sends[0].done + sends[1].done, 0); /* no connection owns the sends */
        assert_nothing_lost();
    }
}

/** Return how many connections share our credit. */
static uint32_t shares(void)
{
    return engine(0)->pull.credit.open[unit_lane];
}

static unsigned replies_without_credit;

static bool note_replies(struct unit_net *unused, const struct net_frame *frame)
{
    replies_without_credit += frame->header.type == RAWE_FRAME_CONNECT &&
                              (frame->header.flags & RAWE_FLAG_REPLY) != 0 &&
                              frame->header.credit == 0;
    return true;
}

/** A process that outlives many peers has as much credit for new ones. */
TEST(rawe_conn_receive_close__its_credit_is_free_until_it_connects_again)
{
    assert_int_equal(shares(), 1);
    receive(RAWE_FRAME_CLOSE, 0, 0, 0);
    assert_int_equal(end(0)->handshake.state, RAWE_CONN_PEER_CLOSED);
    assert_int_equal(shares(), 0);
    send(0, 1); /* reconnects */
    assert_int_equal(shares(), 1);
    unit_settle(&net);
    assert_works_both_ways();
    /* Or the peer does. */
    unit_close(&net, 1, unit_lane);
    unit_settle(&net);
    assert_int_equal(shares(), 0);
    unit_restart(&net, 1);
    replies_without_credit = 0;
    net.filter = note_replies;
    rawe_conn_connect(unit_open(&net, 1, unit_lane), net.now_ns);
    unit_settle(&net);
    assert_int_equal(replies_without_credit, 0);
    assert_int_equal(shares(), 1);
    assert_works_both_ways();
}

TEST(rawe_engine_receive__an_unknown_peer_is_answered)
{
    unit_close(&net, 1, unit_lane);
    unit_settle(&net);
    net.node[1].refuses = true;
    rawe_engine_finalizing(engine(1));
    send(0, 3); /* reconnects */
    assert_int_equal(end(0)->handshake.state, RAWE_CONN_CONNECTING);
    unit_settle(&net);
    assert_int_equal(end(0)->handshake.state, RAWE_CONN_PEER_CLOSED);
    assert_nothing_lost();
    unit_assert_sent(sends, 3, RAWE_STATUS_DONE);
}

TEST(rawe_conn_send_close__three_times_when_finalizing)
{
    net.filter = drop_all;
    unit_open(&net, 0, RAWE_LANE_BULK);
    rawe_engine_finalizing(engine(1));
    unit_close(&net, 1, unit_lane);
    assert_int_equal(net.node[1].sent[RAWE_FRAME_CLOSE], 3);
    unit_close(&net, 0, unit_lane);
    assert_int_equal(net.node[0].sent[RAWE_FRAME_CLOSE], 1);
    unit_close(&net, 0, RAWE_LANE_BULK);
    assert_int_equal(net.node[0].sent[RAWE_FRAME_CLOSE], 1);
}

/* ---- giving up ---- */

/** Node 0 gives up node 1, which then computes and does not probe. */
TEST(rawe_conn_answer_failed__not_while_the_program_is_away)
{
    net.filter = drop_all;
    send(0, 1);
    unit_run(&net, 6 * UNIT_S, 10 * UNIT_MS);
    net.filter = NULL;
    assert_int_equal(net.node[0].failed_calls, 1);
    assert_int_equal(end(1)->handshake.state, RAWE_CONN_OPEN);
    memset(sends, 0, sizeof(sends));
    send(1, 1);
    rawe_engine_defer_begin(engine(1));
    unit_run(&net, 2500 * UNIT_MS, UNIT_MS);
    assert_int_equal(net.node[1].given_up_calls, 0);
    rawe_engine_defer_end(engine(1));
    rawe_engine_deliver_deferred(engine(1));
    unit_run(&net, 2500 * UNIT_MS, UNIT_MS);
    assert_int_equal(net.node[1].given_up_calls, 1);
    assert_int_equal(net.node[1].failed_calls + net.node[1].lost_calls, 0);
    assert_int_equal(end(1)->handshake.state, RAWE_CONN_FAILED);
    unit_assert_sent(sends, 1, RAWE_STATUS_FAILED);
    assert_int_equal(net.node[0].given_up_calls, 0);
}

/** Node 0 connects to a process that has given it up; no connection was ever open. */
TEST(rawe_conn_fail__renounced_before_it_was_open)
{
    for (unsigned finalizing = 0; finalizing < 2; finalizing++) {
        unit_start_with((struct unit_options){0});
        memset(sends, 0, sizeof(sends));
        net.node[1].has_given_up = true;
        unit_open(&net, 0, unit_lane);
        if (finalizing) {
            rawe_engine_finalizing(engine(0));
        }
        send(0, 1);
        unit_run(&net, 2500 * UNIT_MS, UNIT_MS);
        assert_nothing_lost();
        assert_int_equal(net.node[1].sent[RAWE_FRAME_CLOSE], net.node[0].sent[RAWE_FRAME_CONNECT]);
        assert_int_equal(net.node[1].sent[RAWE_FRAME_CONNECT], 0);
        for (unsigned node = 0; node < 2; node++) {
            assert_int_equal(end(node)->handshake.state, RAWE_CONN_FAILED);
            assert_int_equal(counters(node)->peers_lost, 1);
            assert_int_equal(engine(node)->pull.credit.open[RAWE_LANE_EXPRESS], 0);
            assert_int_equal(engine(node)->pull.credit.advertised[RAWE_LANE_EXPRESS], 0);
        }
        assert_int_equal(net.node[0].given_up_calls, 1 - finalizing);
        assert_int_equal(sends[0].done, 1 - finalizing);
        assert_int_equal(sends[0].status, finalizing ? 0 : RAWE_STATUS_FAILED);
        assert_int_equal(rawe_conn_finalized(end(0), RAWE_NEEDS_DATA, net.now_ns),
                         RAWE_FINALIZED_DONE);
    }
}

static bool lose_to_node_1(struct unit_net *of, const struct net_frame *frame)
{
    return memcmp(frame->bytes, of->node[1].engine.config.mac, RAWE_MAC_BYTES) != 0;
}

TEST(rawe_conn_peer_gone__on_a_lane_never_opened)
{
    struct rawe_conn *bulk = unit_open(&net, 0, RAWE_LANE_BULK);
    join_lanes(0);
    rawe_engine_finalizing(engine(1));
    assert_int_equal(linger(end(1), UNIT_S), RAWE_FINALIZED_DONE);
    unit_close(&net, 1, unit_lane); /* node 1 leaves */
    unit_settle(&net);
    net.filter = lose_to_node_1;
    unit_send_message(bulk, &sends[0], 0, data, sizeof(data));
    unit_run(&net, 2 * TIMEOUT_NS, UNIT_MS);
    assert_nothing_lost();
    unit_assert_sent(sends, 1, RAWE_STATUS_DONE);
    assert_int_equal(bulk->handshake.state, RAWE_CONN_IDLE);
}

/** The finalizing peer still answers our PROBEs, but our data frames no longer arrive. */
TEST(rawe_conn_peer_gone__as_it_takes_nothing)
{
    net.filter = lose_data;
    rawe_engine_finalizing(engine(1));
    send(0, 2);
    unit_run(&net, TIMEOUT_NS - UNIT_S, UNIT_MS);
    assert_int_equal(sends[0].done, 0);
    unit_run(&net, 2 * UNIT_S, UNIT_MS);
    assert_nothing_lost();
    unit_assert_sent(sends, 2, RAWE_STATUS_DONE);
}

TEST(rawe_conn_peer_gone__what_was_asked_for_has_failed)
{
    static const uint8_t kinds[] = {RAWE_FRAGMENT_GET, RAWE_FRAGMENT_PUT, RAWE_FRAGMENT_ATOMIC};
    rawe_conn_end_step(end(0), RAWE_ON_PEER_FINALIZING);
    for (unsigned i = 0; i < SENDS; i++) {
        sends[i].send = (struct rawe_send){.done = unit_send_done,
                                           .kind = kinds[i],
                                           .pieces = {{data, sizeof(data)}},
                                           .piece_count = 1};
        rawe_sendqueue_push(&end(0)->tx.queue, &sends[i].send);
    }
    assert_true(rawe_conn_peer_gone(end(0), UNIT_S));
    for (unsigned i = 0; i < SENDS; i++) {
        unit_assert_sent(&sends[i], 1, i == 1 ? RAWE_STATUS_DONE : RAWE_STATUS_FAILED);
    }
}

/* ---- leaving in MPI_Finalize ---- */

TEST(rawe_conn_finalized__unused_ones_may_be_closed)
{
    struct rawe_conn *idle = unit_open(&net, 1, RAWE_LANE_BULK);
    rawe_engine_finalizing(engine(1));
    assert_int_equal(rawe_conn_finalized(idle, needs, net.now_ns), RAWE_FINALIZED_DONE);
    unit_close(&net, 0, unit_lane);
    unit_settle(&net);
    assert_int_equal(rawe_conn_finalized(end(1), needs, net.now_ns), RAWE_FINALIZED_DONE);
}

/** The finalizing process waits for about `waits_ns`, but no longer. */
TEST(rawe_conn_finalized__a_peer_that_is_silent_or_takes_nothing)
{
    static const struct {
        const char *peer;
        bool (*filter)(struct unit_net *of, const struct net_frame *frame);
        enum rawe_needs needs;
        unsigned in_flight; /**< messages to the peer */
        uint64_t waits_ns;
        enum rawe_finalized then;
    } cases[] = {
        {"dies that needed nothing", drop_all, RAWE_NEEDS_ALL, 0, TIMEOUT_NS, RAWE_FINALIZED_DONE},
        {"dies that needs data", drop_all, RAWE_NEEDS_ALL, 1, TIMEOUT_NS, RAWE_FINALIZED_LOST},
        {"only answers", lose_data, RAWE_NEEDS_ALL, 1, TIMEOUT_NS, RAWE_FINALIZED_LOST},
        /* The peer knows that we are finalizing; if it is silent, it has left. */
        {"without needs is silent", drop_all, RAWE_NEEDS_NONE, 1, UNIT_S, RAWE_FINALIZED_DONE},
        /* A process of another job that disconnected and died. */
        {"that needs data has all", drop_all, RAWE_NEEDS_DATA, 0, UNIT_S, RAWE_FINALIZED_DONE},
        {"that needs data misses some", drop_all, RAWE_NEEDS_DATA, 1, TIMEOUT_NS,
         RAWE_FINALIZED_LOST},
        {"is never given up", drop_all, RAWE_NEEDS_ALL, 1, 30 * UNIT_S, RAWE_FINALIZED_LOST},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        unit_case(cases[i].peer);
        set_up();
        needs = cases[i].needs;
        engine(1)->config.liveness.peer_timeout_ns =
            cases[i].waits_ns > TIMEOUT_NS ? 0 : TIMEOUT_NS;
        send(1, cases[i].in_flight);
        net_queue_clear(&net.queue);
        net.filter = cases[i].filter;
        rawe_engine_finalizing(engine(1));
        assert_int_equal(linger(end(1), cases[i].waits_ns * 9 / 10), RAWE_FINALIZED_NOT);
        assert_int_equal(linger(end(1), cases[i].waits_ns / 5), cases[i].then);
    }
}

/** A process that has left does not answer a CONNECT. */
TEST(rawe_conn_finalized__a_peer_that_was_never_connected)
{
    net.filter = drop_all;
    struct rawe_conn *bulk = unit_open(&net, 1, RAWE_LANE_BULK);
    unit_send_message(bulk, &sends[0], 0, data, sizeof(data));
    rawe_engine_finalizing(engine(1));
    assert_int_equal(rawe_conn_finalized(bulk, needs, net.now_ns), RAWE_FINALIZED_NOT);
    /* After a fence in MPI_Finalize, no peer needs the data still queued for it. */
    assert_int_equal(rawe_conn_finalized(bulk, RAWE_NEEDS_NONE, net.now_ns), RAWE_FINALIZED_DONE);
    join_lanes(1);
    rawe_conn_end_step(end(1), RAWE_ON_PEER_FINALIZING); /* learned on the other lane */
    assert_int_equal(rawe_conn_finalized(bulk, needs, net.now_ns), RAWE_FINALIZED_DONE);
    rawe_conn_end_step(end(1), RAWE_ON_FORGET_PEER);
    assert_int_equal(linger(bulk, TIMEOUT_NS * 9 / 10), RAWE_FINALIZED_NOT);
    assert_int_equal(linger(bulk, TIMEOUT_NS / 5), RAWE_FINALIZED_LOST);
}

/** The peer may also close while callbacks are deferred, before the loss could be reported. */
TEST(rawe_conn_finalized__a_peer_ends_it_and_does_not_finalize)
{
    for (unsigned before = 0; before < 2; before++) {
        set_up();
        net.filter = lose_data;
        send(1, 1);
        if (before) {
            rawe_engine_defer_begin(engine(1));
        } else {
            rawe_engine_finalizing(engine(1));
        }
        unit_run(&net, 50 * UNIT_MS, UNIT_MS);
        net.node[0].refuses = true;
        unit_close(&net, 0, unit_lane);
        assert_int_equal(linger(end(1), 900 * UNIT_MS), RAWE_FINALIZED_NOT);
        if (before) {
            unit_run(&net, UNIT_S, UNIT_MS);
            rawe_engine_finalizing(engine(1));
        }
        assert_int_equal(linger(end(1), UNIT_S), RAWE_FINALIZED_LOST);
        assert_false(rawe_engine_has_deferred(engine(1))); /* the report is withdrawn */
        end(1)->end.heard = true;
        struct rawe_conn *bulk = unit_open(&net, 1, RAWE_LANE_BULK);
        join_lanes(1);
        rawe_conn_end_step(bulk, RAWE_ON_PEER_FINALIZING); /* learned on the other lane */
        assert_int_equal(rawe_conn_finalized(end(1), needs, net.now_ns), RAWE_FINALIZED_DONE);
    }
}
