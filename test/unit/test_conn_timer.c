/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Tests of a connection's timers, and of a stalled connection.
 */
#include "unit_pair.h"

#include <string.h>

#include "conn/rawe_conn.h"
#include "conn/rawe_conn_control.h"
#include "conn/rawe_conn_record.h"

FIXTURE(unit_set_up, unit_tear_down);

/** Neither lane has the link to itself: each flush asks it once, and it is full for both. */
TEST(rawe_engine_flush__a_full_link_is_tried_once)
{
    static uint8_t data[3000];
    struct unit_send sends[RAWE_LANES] = {0};
    for (unsigned lane = 0; lane < RAWE_LANES; lane++) {
        unit_connect(&net, (enum rawe_lane)lane);
    }
    net.node[0].link_room = 0;
    for (unsigned lane = 0; lane < RAWE_LANES; lane++) {
        unit_send_message(net.node[0].conn[lane], &sends[lane], 1, data, sizeof(data));
    }
    const uint64_t stalls = counters(0)->blocked_port;
    for (unsigned rounds = 1; rounds <= 20; rounds++) {
        rawe_engine_flush(engine(0), net.now_ns);
        assert_int_equal(counters(0)->blocked_port, stalls + rounds);
    }
    assert_true(rawe_engine_pending(engine(0)));
    engine(0)->callbacks.failed = NULL; /* an owner need not be told */
    unit_run(&net, net.config.liveness.peer_timeout_ns + UNIT_S, UNIT_MS);
    for (unsigned lane = 0; lane < RAWE_LANES; lane++) { /* a link that stays full is a dead peer */
        assert_int_equal(net.node[0].conn[lane]->handshake.state, RAWE_CONN_FAILED);
    }
    unit_assert_sent(sends, RAWE_LANES, RAWE_STATUS_FAILED);
    net.node[0].link_room = UINT32_MAX;
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

/** A process that was stopped asks for credit before it sends its overdue probe. */
TEST(rawe_conn_ask_credit__puts_off_no_question_to_a_silent_peer)
{
    unit_connect(&net, RAWE_LANE_EXPRESS);
    net.filter = drop_all;
    assert_int_equal(unit_copy_message(end(0), 1, 10), RAWE_STATUS_DONE);
    unit_run(&net, 20 * UNIT_MS, 100 * UNIT_US);
    const uint64_t planned_ns = end(0)->path.liveness.probe_deadline_ns;
    const uint64_t asked = counters(0)->probes_sent;
    net.now_ns += 10 * UNIT_S;
    end(0)->tx.reported_more = true;
    rawe_conn_ask_credit(end(0), net.now_ns);
    assert_true(end(0)->path.liveness.probe_deadline_ns == planned_ns);
    rawe_engine_advance(engine(0), net.now_ns);
    assert_int_equal(counters(0)->probes_sent, asked + 1);
    net.filter = NULL;
    finish();
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

/** Drop large frames, as if the path's MTU had been lowered. */
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
