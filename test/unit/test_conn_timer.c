/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Tests of timers of a connection, and of one that stalls.
 */
#include "unit_pair.h"

#include <string.h>

#include "conn/rawe_conn.h"
#include "conn/rawe_conn_control.h"
#include "conn/rawe_conn_record.h"

FIXTURE(unit_set_up, unit_tear_down);

TEST(timer_expired__a_peer_that_never_answers_connect_fails)
{
    static uint8_t data[100];
    struct unit_send send = {0};
    net.node[1].refuses = true;
    unit_open(&net, 0, RAWE_LANE_EXPRESS);
    unit_send_message(end(0), &send, 1, data, sizeof(data));
    unit_run(&net, 10 * UNIT_S, 2 * UNIT_MS);
    assert_int_equal(net.node[0].failed_calls, 1);
    assert_true(net.node[0].silent_calls > 10);
    unit_assert_sent(&send, 1, RAWE_STATUS_FAILED);
    assert_true(counters(1)->dropped_unknown_peer > 10);
}

TEST(timer_expired__a_peer_that_was_given_up_holds_nothing)
{
    static uint8_t data[100], payload[200];
    struct unit_send send = {0};
    struct rawe_fragment fragment = {
        .kind = RAWE_FRAGMENT_PART, .total_bytes = 1000, .data_bytes = 100};
    unit_connect(&net, RAWE_LANE_EXPRESS);
    fragment.id = end(1)->reassembly.next;
    receive_data(1, 0, payload, put_fragment(payload, fragment, 1));
    receive_message(0, 0, 2);
    receive_message(1, 0, 3);
    assert_int_equal(engine(1)->credit.open[RAWE_LANE_EXPRESS], 1);
    assert_int_not_equal(engine(1)->credit.advertised[RAWE_LANE_EXPRESS], 0);
    assert_non_null(end(1)->reassembly.first);
    assert_non_null(end(1)->recvwin.taken);
    net.filter = drop_all;
    unit_send_message(end(1), &send, 1, data, sizeof(data));
    unit_run(&net, 10 * UNIT_S, 2 * UNIT_MS);
    assert_int_equal(net.node[1].failed_calls, 1);
    assert_int_equal(engine(1)->credit.advertised[RAWE_LANE_EXPRESS], 0);
    assert_int_equal(engine(1)->credit.open[RAWE_LANE_EXPRESS], 0);
    assert_null(end(1)->reassembly.first);
    assert_null(end(1)->recvwin.taken);
}

static void close_failed(struct unit_node *node, struct rawe_conn *conn)
{
    assert_ptr_equal(node->conn[RAWE_LANE_EXPRESS], conn);
    unit_close(node->net, node->index, RAWE_LANE_EXPRESS);
}

TEST(timer_expired__the_failed_connection_may_be_closed_by_the_callback)
{
    static uint8_t data[60000];
    struct unit_send send = {0};
    unit_connect(&net, RAWE_LANE_EXPRESS);
    net.node[0].on_failed = close_failed;
    net.filter = drop_all;
    unit_send_message(end(0), &send, 1, data, sizeof(data));
    unit_run(&net, 10 * UNIT_S, 2 * UNIT_MS);
    assert_int_equal(net.node[0].failed_calls, 1);
    assert_null(end(0));
    unit_assert_sent(&send, 1, RAWE_STATUS_FAILED);
}

TEST(timer_expired__a_probe_that_the_link_did_not_take_is_no_evidence)
{
    unit_connect(&net, RAWE_LANE_EXPRESS);
    net.node[1].paused = true;
    assert_int_equal(unit_copy_message(end(0), 1, 10), RAWE_STATUS_DONE);
    while (counters(0)->probes_sent == 0) {
        unit_run(&net, 50 * UNIT_US, 50 * UNIT_US);
    }
    /* Node 1 reads the frame and the probe; its answer is under way. */
    net.node[1].paused = false;
    unit_step(&net);
    struct net_frame *answer = net_queue_take(&net.queue);
    assert_non_null(answer);
    assert_int_equal(answer->header.type, RAWE_FRAME_ACK);
    assert_int_equal(net_queue_count(&net.queue), 0);
    net.node[1].paused = true;
    /* A second frame leaves after the probe; then the link is full when it wants to ask again. */
    assert_int_equal(unit_copy_message(end(0), 2, 10), RAWE_STATUS_DONE);
    net.node[0].link_room = 0;
    unit_run(&net, 200 * UNIT_MS, 50 * UNIT_US);
    assert_int_equal(counters(0)->probes_sent, 1);
    net.node[0].link_room = UINT32_MAX;
    unit_receive(&net, answer);
    net_frame_free(answer);
    rawe_engine_flush(&net.node[0].engine, net.now_ns);
    assert_int_equal(counters(0)->frames_resent, 0);
    net.node[1].paused = false;
    unit_run(&net, 300 * UNIT_MS, 100 * UNIT_US);
    assert_true(rawe_conn_drained(end(0)));
    assert_int_equal(counters(0)->frames_resent, 0);
    assert_int_equal(counters(1)->duplicates, 0);
}

/** A process that stood still wants credit, before it asks what it should have asked long ago. */
TEST(rawe_conn_ask_credit__puts_off_no_question_to_a_silent_peer)
{
    unit_connect(&net, RAWE_LANE_EXPRESS);
    net.filter = drop_all;
    assert_int_equal(unit_copy_message(end(0), 1, 10), RAWE_STATUS_DONE);
    unit_run(&net, 20 * UNIT_MS, 100 * UNIT_US);
    const uint64_t planned_ns = end(0)->liveness.probe_deadline_ns;
    const uint64_t asked = counters(0)->probes_sent;
    net.now_ns += 10 * UNIT_S;
    end(0)->reported_more = true;
    rawe_conn_ask_credit(end(0), net.now_ns);
    assert_true(end(0)->liveness.probe_deadline_ns == planned_ns);
    rawe_engine_advance(engine(0), net.now_ns);
    assert_int_equal(counters(0)->probes_sent, asked + 1);
    net.filter = NULL;
    finish();
}

#define IDLE_NS (500 * UNIT_MS)

/** A connection on which nothing is owed; both ends want to detect the other's death. */
static void connect_idle(void)
{
    unit_stop(&net);
    unit_init(&net);
    net.config.liveness.idle_ns = IDLE_NS;
    unit_start(&net);
    unit_connect(&net, RAWE_LANE_EXPRESS);
}

TEST(timer_expired__a_peer_that_owes_nothing_is_probed_rarely)
{
    connect_idle();
    unit_run(&net, 20 * IDLE_NS, UNIT_MS);
    for (unsigned node = 0; node < UNIT_NODES; node++) {
        assert_in_range(counters(node)->probes_sent, 19, 20);
        assert_int_equal(counters(node)->probes_answered, counters(node)->probes_sent);
        assert_int_equal(net.node[node].silent_calls + net.node[node].failed_calls, 0);
    }
}

TEST(timer_expired__another_answer_does_not_raise_the_rate)
{
    connect_idle();
    for (unsigned i = 0; i < 1000; i++) {
        assert_int_equal(unit_copy_message(end(0), 1, 10), RAWE_STATUS_DONE);
        unit_run(&net, 10 * UNIT_MS, 100 * UNIT_US);
    }
    assert_in_range(counters(0)->probes_sent, 1, 20);
    assert_in_range(counters(1)->probes_sent, 1, 20);
}

static unsigned stalled_calls;
static uint64_t stalled_ns;

static void note_stalled(void *context, struct rawe_conn *conn, uint64_t so_long_ns)
{
    stalled_calls++;
    stalled_ns = so_long_ns;
}

static void set_up(void)
{
    unit_start_with((struct unit_options){0});
    net.node[0].engine.callbacks.stalled = note_stalled;
    stalled_calls = 0;
}

/** The path's MTU has become smaller. */
static bool drop_large(struct unit_net *unused, const struct net_frame *frame)
{
    return frame->header.payload_bytes <= 600;
}

static uint8_t stalled_data[5000];
static struct unit_send stalled_send;

static void stall_with_large_frames(void)
{
    memset(&stalled_send, 0, sizeof(stalled_send));
    unit_connect(&net, RAWE_LANE_EXPRESS);
    net.filter = drop_large;
    unit_send_message(end(0), &stalled_send, 1, stalled_data, sizeof(stalled_data));
}

static const struct unit_fixture with_stalled = {set_up, unit_tear_down};

TEST_WITH(with_stalled, stall__is_noticed_though_probes_are_answered)
{
    stall_with_large_frames();
    unit_run(&net, UNIT_S, 100 * UNIT_US);
    assert_true(net.node[0].engine.counters.probes_answered > 10);
    assert_true(stalled_calls > 3);
    assert_in_range(stalled_ns, UNIT_S / 2, UNIT_S);
    assert_int_equal(net.node[0].silent_calls, 0);
    /* The path carries them again: all is well. */
    net.filter = NULL;
    unit_run(&net, UNIT_S, 100 * UNIT_US);
    assert_int_equal(stalled_send.status, RAWE_STATUS_DONE);
    const unsigned calls = stalled_calls;
    unit_run(&net, UNIT_S, 100 * UNIT_US);
    assert_int_equal(stalled_calls, calls);
}

/** While it finalizes, the owner is not told of an end; it asks when it may close the connection. */
TEST_WITH(with_stalled, stall__ends_by_the_peer_timeout)
{
    static const struct {
        const char *name;
        uint64_t timeout_ns, run_ns;
        bool finalizing, fails;
    } cases[] = {
        {"before the timeout", 5 * UNIT_S, 4900 * UNIT_MS, false, false},
        {"after the timeout", 5 * UNIT_S, 5900 * UNIT_MS, false, true},
        {"without a timeout", 0, 60 * UNIT_S, false, false},
        {"finalizing", 5 * UNIT_S, 12 * UNIT_S, true, false},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        unit_case(cases[i].name);
        set_up();
        engine(0)->config.liveness.peer_timeout_ns = cases[i].timeout_ns;
        stall_with_large_frames();
        if (cases[i].finalizing) {
            rawe_engine_finalizing(engine(0));
        }
        unit_run(&net, cases[i].run_ns, 2 * UNIT_MS);
        assert_int_equal(net.node[0].failed_calls, cases[i].fails);
        assert_int_equal(end(0)->handshake.state,
                         cases[i].fails ? RAWE_CONN_FAILED : RAWE_CONN_OPEN);
        assert_int_equal(stalled_send.done, cases[i].fails);
        assert_true(cases[i].fails ? stalled_send.status == RAWE_STATUS_FAILED
                                   : stalled_ns > cases[i].run_ns / 2);
    }
}

/** A receiver outside of MPI may have no room for frames; its progress thread answers probes. */
TEST_WITH(with_stalled, stall__does_not_count_while_the_peer_computes)
{
    stall_with_large_frames();
    for (unsigned i = 0; i < 20; i++) {
        unit_run(&net, UNIT_S, UNIT_MS);
        rawe_liveness_alive(&end(0)->liveness, net.now_ns);
    }
    assert_int_equal(net.node[0].failed_calls, 0);
    assert_true(stalled_ns < 2 * UNIT_S);
    unit_run(&net, 6 * UNIT_S, UNIT_MS);
    assert_int_equal(net.node[0].failed_calls, 1);
}

TEST_WITH(with_stalled, stall__does_not_count_while_we_are_away)
{
    stall_with_large_frames();
    for (unsigned i = 0; i < 6; i++) {
        unit_run(&net, 300 * UNIT_MS, UNIT_MS);
        net.now_ns += 600 * UNIT_S;
    }
    unit_run(&net, 300 * UNIT_MS, UNIT_MS);
    assert_int_equal(net.node[0].failed_calls, 0);
    net.filter = NULL;
    unit_run(&net, UNIT_S, UNIT_MS);
    assert_int_equal(stalled_send.status, RAWE_STATUS_DONE);
}

/** Data in flight when MPI_Finalize begins may have to be sent in shorter frames. */
TEST_WITH(with_stalled, stall__is_noticed_while_finalizing)
{
    stall_with_large_frames();
    rawe_engine_finalizing(engine(0));
    unit_run(&net, UNIT_S, 100 * UNIT_US);
    assert_true(stalled_calls > 3);
    assert_in_range(stalled_ns, UNIT_S / 2, UNIT_S);
    assert_int_equal(net.node[1].message_count, 0);
    unit_set_payload_max(end(0), 600); /* what the owner does once it has measured that */
    unit_run(&net, UNIT_S, 100 * UNIT_US);
    assert_int_equal(net.node[1].message_count, 1);
    assert_true(rawe_conn_drained(end(0)));
}

static uint32_t longest_bytes;

static bool note_longest(struct unit_net *unused, const struct net_frame *frame)
{
    if (frame->header.payload_bytes > longest_bytes) {
        longest_bytes = frame->header.payload_bytes;
    }
    return true;
}

TEST_WITH(with_stalled, rawe_conn_path_fit__bounds_the_frames_made_from_now_on)
{
    struct unit_send send = {0};
    unit_connect(&net, RAWE_LANE_EXPRESS);
    unit_fill(stalled_data, sizeof(stalled_data), 3);
    longest_bytes = 0;
    net.filter = note_longest;
    unit_set_payload_max(end(0), 600);
    unit_send_message(end(0), &send, 1, stalled_data, sizeof(stalled_data));
    unit_run(&net, UNIT_S, 100 * UNIT_US);
    assert_int_equal(send.status, RAWE_STATUS_DONE);
    unit_assert_message(&net.node[1], 0, 1, sizeof(stalled_data), 3);
    assert_int_equal(longest_bytes, 600);
}
