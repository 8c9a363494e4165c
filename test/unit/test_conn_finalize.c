/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Tests of MPI_Finalize: when a connection may be closed, and what its peer makes of that.
 */
#include "unit_pair.h"
#include "unit_rails.h"

#include <string.h>

#include "conn/rawe_conn_finalize.h"
#include "conn/rawe_conn.h"
#include "conn/rawe_conn_connect.h"
#include "conn/rawe_conn_control.h"

#define TIMEOUT_NS (5 * UNIT_S) /* as unit_init has it */
#define SENDS 3u

static struct unit_send sends[SENDS];
/** Content of messages: unit_fill with seed 3. */
static uint8_t data[5000];
static enum rawe_needs needs; /**< of the peers of the finalizing process */

/** Fixture: an open express lane. */
static void set_up(void)
{
    needs = RAWE_NEEDS_ALL;
    unit_start_with((struct unit_options){0});
    unit_connect(&net, RAWE_LANE_EXPRESS);
    unit_fill(data, sizeof(data), 3);
    memset(sends, 0, sizeof(sends));
}

static bool lose_data(struct unit_net *of, const struct net_frame *frame)
{
    return frame->header.type != RAWE_FRAME_DATA;
}

/** Send messages of four frames each. */
static void send(unsigned from, unsigned count)
{
    unit_send_messages(end(from), sends, count, data, sizeof(data));
}

/** Assert that node 0 has not been told of a loss. */
static void assert_nothing_lost(void)
{
    assert_int_equal(net.node[0].lost_calls, 0);
    assert_int_equal(net.node[0].failed_calls, 0);
}

static enum rawe_finalized linger(unsigned node, uint64_t most_ns)
{
    enum rawe_finalized result = RAWE_FINALIZED_NOT;
    for (uint64_t ns = 0; ns < most_ns && result == RAWE_FINALIZED_NOT; ns += UNIT_MS) {
        unit_run(&net, UNIT_MS, UNIT_MS);
        result = rawe_conn_finalized(end(node), needs, net.now_ns);
    }
    return result;
}

FIXTURE(set_up, unit_tear_down);

TEST(rawe_conn_announce_finalizing__an_earlier_answer_is_none)
{
    send(1, 1);
    net_queue_clear(&net.queue);
    unit_run(&net, 2 * UNIT_MS, UNIT_MS); /* it asks, and is answered */
    assert_true(end(1)->path.liveness.probe_number != 0);
    struct rawe_header header = {
        .type = RAWE_FRAME_ACK,
        .flags = RAWE_FLAG_PROBE_ANSWER,
        .sequence = end(1)->path.liveness.probe_number,
    };
    net.filter = drop_all;
    rawe_engine_finalizing(engine(1));
    unit_receive_forged(&net, 0, unit_lane, header, NULL, 0);
    assert_false(end(1)->end.announced);
}

/** An answer without a number may belong to an earlier PROBE, whatever the numbers are. */
TEST(rawe_conn_announce_finalizing__an_answer_without_number_is_none)
{
    struct rawe_header header = {
        .type = RAWE_FRAME_ACK,
        .flags = RAWE_FLAG_PROBE_ANSWER,
        .sequence = RAWE_PROBE_PLAIN,
    };
    end(1)->path.liveness.probe_number = UINT32_MAX - 10;
    rawe_engine_finalizing(engine(1));
    unit_receive_forged(&net, 0, unit_lane, header, NULL, 0);
    assert_false(end(1)->end.announced);
}

TEST(rawe_conn_note_finalizing__not_of_the_next_process)
{
    rawe_engine_finalizing(engine(1));
    assert_int_equal(linger(1, UNIT_S), RAWE_FINALIZED_DONE);
    unit_close(&net, 1, unit_lane);
    unit_settle(&net);
    assert_true(end(0)->end.peer);
    net.now_ns += UNIT_MS;
    unit_restart(&net, 1);
    rawe_conn_connect(unit_open(&net, 1, unit_lane), net.now_ns);
    unit_settle(&net);
    assert_false(end(0)->end.peer);
    assert_works_both_ways();
}

TEST(rawe_conn_note_finalizing__not_of_an_earlier_process)
{
    uint8_t payload[RAWE_CONNECT_BYTES];
    struct rawe_header header = {.type = RAWE_FRAME_CONNECT, .flags = RAWE_FLAG_FINALIZING};
    struct rawe_connect from = {
        .jobid = net.config.jobid,
        .vpid = 1,
        .connection_id = end(1)->handshake.local_id,
        .key = engine(1)->config.key,
        .port = engine(1)->config.port,
        .lane = unit_lane,
        .payload_max_bytes = net.config.payload_max_bytes,
        .incarnation = end(1)->handshake.local_incarnation - 1,
    };
    for (unsigned i = 0; i < 2; i++) {
        rawe_connect_encode(payload, &from);
        unit_receive_forged(&net, 1, unit_lane, header, payload, sizeof(payload));
        assert_int_equal(end(0)->end.peer, i);
        from.incarnation++;
    }
}

/** Both lanes of a node lead to the same process. */
static void join_lanes(unsigned node)
{
    struct rawe_route *route = net.node[node].route;
    rawe_route_join(&route[RAWE_LANE_BULK], &route[RAWE_LANE_EXPRESS]);
}

static void hear_finalizing(struct rawe_conn *conn)
{
    const struct rawe_header header = {.type = RAWE_FRAME_ACK, .flags = RAWE_FLAG_FINALIZING};
    rawe_conn_note_finalizing(conn, &header);
}

/** With thousands of peers MPI_Finalize must not look at all connections for each silent one. */
TEST(rawe_conn_peer_finalizing__looks_at_no_other_process)
{
    static struct rawe_conn *nowhere = (struct rawe_conn *)8;
    unit_open(&net, 0, RAWE_LANE_BULK);
    join_lanes(0);
    uint32_t id = rawe_conn_table_add(engine(0)->table, nowhere);
    assert_false(rawe_conn_peer_finalizing(end(0)));
    rawe_conn_table_remove(engine(0)->table, id);
}

TEST(rawe_conn_complete_unneeded__what_was_asked_for_has_failed)
{
    const uint8_t kinds[] = {RAWE_FRAGMENT_GET, RAWE_FRAGMENT_PUT, RAWE_FRAGMENT_ATOMIC};
    for (unsigned i = 0; i < 3; i++) {
        sends[i].send = (struct rawe_send){.done = unit_send_done, .kind = kinds[i]};
        sends[i].send.next = i < 2 ? &sends[i + 1].send : NULL;
    }
    rawe_conn_complete_unneeded(engine(0), &sends[0].send);
    for (unsigned i = 0; i < 3; i++) {
        unit_assert_sent(&sends[i], 1, i == 1 ? RAWE_STATUS_DONE : RAWE_STATUS_FAILED);
    }
}

/** Node 1 finalizes with messages in flight, which are lost, like all that `filter` refuses. */
static void finalize_and_lose(unsigned in_flight,
                              bool (*filter)(struct unit_net *of, const struct net_frame *frame))
{
    send(1, in_flight);
    net_queue_clear(&net.queue);
    net.filter = filter;
    rawe_engine_finalizing(engine(1));
}

TEST(rawe_conn_finalized__unused_ones_may_be_closed)
{
    struct rawe_conn *idle = unit_open(&net, 1, RAWE_LANE_BULK);
    rawe_engine_finalizing(engine(1));
    assert_int_equal(rawe_conn_finalized(idle, needs, net.now_ns), RAWE_FINALIZED_DONE);
    unit_close(&net, 0, unit_lane);
    unit_settle(&net);
    assert_int_equal(rawe_conn_finalized(end(1), needs, net.now_ns), RAWE_FINALIZED_DONE);
}

/** It waits for about that long, and no longer. */
TEST(rawe_conn_finalized__a_peer_that_is_silent_or_takes_nothing)
{
    static const struct {
        const char *peer;
        bool (*filter)(struct unit_net *of, const struct net_frame *frame);
        enum rawe_needs needs;
        unsigned in_flight; /**< messages to it */
        uint64_t timeout_ns, waits_ns;
        enum rawe_finalized then;
    } cases[] = {
        {"dies that needed nothing", drop_all, RAWE_NEEDS_ALL, 0, TIMEOUT_NS, TIMEOUT_NS,
         RAWE_FINALIZED_DONE},
        {"dies that may have needed something", drop_all, RAWE_NEEDS_ALL, 1, TIMEOUT_NS, TIMEOUT_NS,
         RAWE_FINALIZED_LOST},
        {"answers and takes nothing", lose_data, RAWE_NEEDS_ALL, 1, TIMEOUT_NS, TIMEOUT_NS,
         RAWE_FINALIZED_LOST},
        /* It has been told that we finalize; if it is silent, it has left. */
        {"without needs is silent", drop_all, RAWE_NEEDS_NONE, 1, TIMEOUT_NS, UNIT_S,
         RAWE_FINALIZED_DONE},
        /* A process of another job, which has disconnected and died. */
        {"that needs data has all", drop_all, RAWE_NEEDS_DATA, 0, TIMEOUT_NS, UNIT_S,
         RAWE_FINALIZED_DONE},
        {"that needs data misses some", drop_all, RAWE_NEEDS_DATA, 1, TIMEOUT_NS, TIMEOUT_NS,
         RAWE_FINALIZED_LOST},
        {"where none is given up", drop_all, RAWE_NEEDS_ALL, 1, 0, 30 * UNIT_S,
         RAWE_FINALIZED_LOST},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        unit_case(cases[i].peer);
        set_up();
        needs = cases[i].needs;
        engine(1)->config.liveness.peer_timeout_ns = cases[i].timeout_ns;
        finalize_and_lose(cases[i].in_flight, cases[i].filter);
        assert_int_equal(linger(1, cases[i].waits_ns * 9 / 10), RAWE_FINALIZED_NOT);
        assert_int_equal(linger(1, cases[i].waits_ns / 5), cases[i].then);
    }
}

/** A process that has left does not answer a CONNECT. */
TEST(rawe_conn_finalized__a_peer_that_was_never_connected)
{
    for (unsigned waits = 0; waits < 2; waits++) {
        set_up();
        net.filter = drop_all;
        struct rawe_conn *bulk = unit_open(&net, 1, RAWE_LANE_BULK);
        unit_send_message(bulk, &sends[0], 0, data, sizeof(data));
        rawe_engine_finalizing(engine(1));
        assert_int_equal(rawe_conn_finalized(bulk, needs, net.now_ns), RAWE_FINALIZED_NOT);
        /* Behind a fence in MPI_Finalize, no peer takes what is queued for it. */
        assert_int_equal(rawe_conn_finalized(bulk, RAWE_NEEDS_NONE, net.now_ns),
                         RAWE_FINALIZED_DONE);
        enum rawe_finalized result = RAWE_FINALIZED_NOT;
        uint64_t begin_ns = net.now_ns;
        while (waits != 0 && result == RAWE_FINALIZED_NOT) {
            unit_run(&net, UNIT_MS, UNIT_MS);
            result = rawe_conn_finalized(bulk, needs, net.now_ns);
        }
        if (waits != 0) {
            assert_int_equal(result, RAWE_FINALIZED_LOST);
            assert_in_range(net.now_ns - begin_ns, TIMEOUT_NS, TIMEOUT_NS + 10 * UNIT_MS);
        }
        join_lanes(1);
        hear_finalizing(end(1)); /* but known by another lane */
        assert_int_equal(rawe_conn_finalized(bulk, needs, net.now_ns), RAWE_FINALIZED_DONE);
    }
}

TEST(rawe_conn_finalized__a_peer_ends_it_and_does_not_finalize)
{
    net.filter = lose_data;
    send(1, 1);
    rawe_engine_finalizing(engine(1));
    unit_run(&net, 50 * UNIT_MS, UNIT_MS);
    net.node[0].refuses = true;
    unit_close(&net, 0, unit_lane);
    assert_int_equal(linger(1, 900 * UNIT_MS), RAWE_FINALIZED_NOT);
    assert_int_equal(linger(1, UNIT_S), RAWE_FINALIZED_LOST);
    assert_false(rawe_engine_has_deferred(engine(1))); /* it is not reported any more */
    end(1)->end.heard = true;
    struct rawe_conn *bulk = unit_open(&net, 1, RAWE_LANE_BULK);
    join_lanes(1);
    hear_finalizing(bulk); /* but it does, by another lane */
    assert_int_equal(rawe_conn_finalized(end(1), needs, net.now_ns), RAWE_FINALIZED_DONE);
}

TEST(rawe_engine_receive__an_unknown_peer_is_answered)
{
    unit_close(&net, 1, unit_lane);
    unit_settle(&net);
    net.node[1].refuses = true;
    rawe_engine_finalizing(engine(1));
    send(0, 3); /* it asks for a connection again */
    assert_int_equal(end(0)->handshake.state, RAWE_CONN_CONNECTING);
    unit_settle(&net);
    assert_int_equal(end(0)->handshake.state, RAWE_CONN_PEER_CLOSED);
    assert_nothing_lost();
    unit_assert_sent(sends, 3, RAWE_STATUS_DONE);
}

TEST(rawe_conn_close__says_it_three_times_when_finalizing)
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

static bool lose_to_node_1(struct unit_net *of, const struct net_frame *frame)
{
    return memcmp(frame->bytes, of->node[1].engine.config.mac, RAWE_MAC_BYTES) != 0;
}

TEST(rawe_conn_peer_gone__on_a_lane_never_opened)
{
    struct rawe_conn *bulk = unit_open(&net, 0, RAWE_LANE_BULK);
    join_lanes(0);
    rawe_engine_finalizing(engine(1));
    assert_int_equal(linger(1, UNIT_S), RAWE_FINALIZED_DONE);
    unit_close(&net, 1, unit_lane); /* it leaves */
    unit_settle(&net);
    net.filter = lose_to_node_1;
    unit_send_message(bulk, &sends[0], 0, data, sizeof(data));
    unit_run(&net, 2 * TIMEOUT_NS, UNIT_MS);
    assert_nothing_lost();
    unit_assert_sent(sends, 1, RAWE_STATUS_DONE);
    assert_int_equal(bulk->handshake.state, RAWE_CONN_IDLE);
}

/** It waits for others, and says so, but none of our frames arrives any more. */
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
