/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Tests of connections: state, control frames, closing, and ends without a CLOSE.
 */
#include "unit_pair.h"

#include <string.h>

#include "conn/rawe_conn.h"
#include "conn/rawe_conn_connect.h"
#include "conn/rawe_conn_tx.h"
#include "conn/rawe_conn_receive.h"
#include "conn/rawe_conn_record.h"

FIXTURE(unit_set_up, unit_tear_down);

TEST(rawe_conn_open__is_idle_and_allocates_no_window)
{
    struct rawe_conn *conn = unit_open(&net, 0, RAWE_LANE_EXPRESS);
    assert_int_equal(conn->handshake.state, RAWE_CONN_IDLE);
    assert_true(rawe_conn_drained(conn));
    assert_int_equal(net_queue_count(&net.queue), 0);
    assert_int_equal(net.node[0].engine.timers.armed, 0);
}

TEST(rawe_conn_open__payload_is_the_smaller_of_link_and_path)
{
    struct rawe_route route = {.engine = &net.node[0].engine, .payload_max_bytes = 700};
    rawe_route_init(&route);
    struct rawe_conn *conn = rawe_conn_open(&route, RAWE_LANE_EXPRESS, NULL, NULL);
    assert_non_null(conn);
    assert_int_equal(conn->path.payload_max_bytes, 700);
    rawe_conn_close(conn, net.now_ns);
    route.payload_max_bytes = 60000;
    conn = rawe_conn_open(&route, RAWE_LANE_EXPRESS, NULL, NULL);
    assert_non_null(conn);
    assert_int_equal(conn->path.payload_max_bytes, net.config.payload_max_bytes);
    rawe_conn_close(conn, net.now_ns);
}

/** A probe that turns out not to be due must not put off the question to an idle peer. */
TEST(rawe_conn_correct_probe__an_idle_peer_is_asked_although_an_answer_seemed_due)
{
    unit_connect(&net, RAWE_LANE_EXPRESS);
    struct rawe_conn *conn = end(0);
    conn->engine->config.liveness.idle_ns = 50 * UNIT_MS;
    conn->path.liveness.waits_since_ns = net.now_ns;
    conn->path.liveness.probe_deadline_ns = net.now_ns + UNIT_MS;
    rawe_conn_arm(conn);
    unit_run(&net, 60 * UNIT_MS, UNIT_MS);
    assert_int_equal(net.node[0].sent[RAWE_FRAME_PROBE], 1);
}

static struct unit_send next_send;

static void send_again(struct unit_send *send)
{
    static uint8_t data[3000];
    unit_send_message(send->context, &next_send, 5, data, sizeof(data));
}

TEST(rawe_conn_close__a_done_that_sends_again_fails_at_once)
{
    static uint8_t data[1400];
    struct unit_send send = {.on_done = send_again};
    send.context = unit_connect(&net, RAWE_LANE_EXPRESS);
    net.filter = drop_all;
    unit_send_message(end(0), &send, 1, data, sizeof(data));
    unit_close(&net, 0, RAWE_LANE_EXPRESS);
    assert_int_equal(send.done, 1);
    unit_assert_sent(&next_send, 1, RAWE_STATUS_FAILED);
}

TEST(rawe_conn_arm__takes_the_earliest_deadline)
{
    unit_open(&net, 0, RAWE_LANE_EXPRESS);
    rawe_conn_arm(end(0));
    assert_false(rawe_timer_armed(&end(0)->timer));
    uint64_t *deadlines[] = {&end(0)->tx.window.loss_deadline_ns,
                             &end(0)->path.liveness.probe_deadline_ns};
    for (unsigned i = 0; i < 2; i++) {
        rawe_timer_cancel(&net.node[0].engine.timers, &end(0)->timer);
        for (unsigned j = 0; j < 2; j++) {
            *deadlines[j] = net.now_ns + (i == j ? 1 : 2) * UNIT_MS;
        }
        rawe_conn_arm(end(0));
        assert_true(end(0)->timer.deadline_ns == net.now_ns + UNIT_MS);
    }
}

TEST(rawe_conn_idle_deadline_ns__after_the_last_question)
{
    unit_connect(&net, RAWE_LANE_EXPRESS);
    struct rawe_conn *conn = end(0);
    struct rawe_liveness_limits *limits = &conn->engine->config.liveness;
    uint64_t asked_ns = conn->path.liveness.asked_ns;
    assert_true(rawe_conn_idle_deadline_ns(conn) == 0);
    limits->idle_ns = 300 * UNIT_MS;
    assert_true(rawe_conn_idle_deadline_ns(conn) == asked_ns + 300 * UNIT_MS);
    /* No idle probe while data is unacknowledged: a probe for that data is due earlier. */
    conn->path.liveness.probe_deadline_ns = net.now_ns + UNIT_MS;
    assert_true(rawe_conn_idle_deadline_ns(conn) == 0);
    conn->path.liveness.probe_deadline_ns = 0;
    /* Probe early if the peer does not yet know that we are finalizing. */
    rawe_engine_finalizing(conn->engine);
    assert_true(rawe_conn_idle_deadline_ns(conn) == asked_ns + limits->probe_least_ns);
    conn->end.state = RAWE_END_ANNOUNCED;
    assert_true(rawe_conn_idle_deadline_ns(conn) == asked_ns + 300 * UNIT_MS);
    conn->handshake.state = RAWE_CONN_PEER_CLOSED;
    assert_true(rawe_conn_idle_deadline_ns(conn) == 0);
}

TEST(rawe_conn_transmit_control__says_when_the_link_is_full)
{
    unit_connect(&net, RAWE_LANE_EXPRESS);
    net.node[0].link_room = 1;
    assert_true(rawe_conn_transmit_control(end(0), RAWE_FRAME_PROBE, 0, 17, NULL, 0));
    assert_false(rawe_conn_transmit_control(end(0), RAWE_FRAME_PROBE, 0, 18, NULL, 0));
    assert_int_equal(net_queue_count(&net.queue), 1);
    assert_int_equal(net.wire->header.sequence, 17);
    assert_int_equal(net.wire->header.type, RAWE_FRAME_PROBE);
    assert_int_equal(net.wire->header.credit, end(0)->rx.credit.advertised);
}

TEST(rawe_conn_transmit_control__carries_the_largest_sack)
{
    uint8_t sack[RAWE_SACK_BYTES_MAX];
    unit_fill(sack, sizeof(sack), 1);
    unit_connect(&net, RAWE_LANE_EXPRESS);
    assert_true(rawe_conn_transmit_control(end(0), RAWE_FRAME_ACK, 0, 0, sack, sizeof(sack)));
    assert_int_equal(net.wire->header.payload_bytes, sizeof(sack));
    assert_memory_equal(net.wire->bytes + RAWE_PAYLOAD_OFFSET, sack, sizeof(sack));
}

#define SENDS 4u

static uint8_t under_way_data[3000];
static struct unit_send under_way[SENDS];
static unsigned done_order[SENDS], done_count;

static void note_done(struct unit_send *send)
{
    done_order[done_count++] = (unsigned)(send - under_way);
}

static void assert_done(unsigned from, unsigned to, enum rawe_status status)
{
    assert_int_equal(done_count, to);
    for (unsigned i = from; i < to; i++) {
        assert_int_equal(done_order[i], i);
        assert_int_equal(under_way[i].status, status);
    }
}

/** Frame the first send and part of the second; queue the others. Every frame is lost. */
static void send_beyond_credit(void)
{
    memset(under_way, 0, sizeof(under_way));
    done_count = 0;
    unit_connect(&net, RAWE_LANE_EXPRESS);
    net.filter = drop_all;
    end(0)->tx.peer_credit = 4;
    for (unsigned i = 0; i < SENDS; i++) {
        under_way[i].on_done = note_done;
        unit_send_message(end(0), &under_way[i], 1, under_way_data, sizeof(under_way_data));
    }
    assert_int_equal(under_way[0].send.framed_bytes, sizeof(under_way_data));
    assert_in_range(under_way[1].send.framed_bytes, 1, sizeof(under_way_data) - 1);
    assert_int_equal(under_way[2].send.framed_bytes, 0);
    assert_int_equal(end(0)->tx.queue.count, SENDS - 1);
}

TEST(rawe_conn_abandon__the_queue_too)
{
    send_beyond_credit();
    rawe_conn_complete(engine(0), rawe_conn_abandon(end(0), true), RAWE_STATUS_DONE);
    assert_done(0, SENDS, RAWE_STATUS_DONE);
    assert_true(rawe_conn_idle(end(0)));
    assert_int_equal(end(0)->tx.queue.bytes, 0);
    assert_null(rawe_conn_abandon(end(0), true)); /* no send is left */
}

TEST(rawe_conn_reset__nothing_of_the_earlier_life_is_left)
{
    send_beyond_credit();
    net.filter = NULL;
    finish();
    unit_send_copy(end(0), 1, 10);
    unit_send_copy(end(1), 1, 10);
    finish(); /* gives an RTT sample: nothing was retransmitted */
    assert_true(end(0)->tx.rtt.smoothed_ns != 0);
    end(0)->tx.window.loss_deadline_ns = end(0)->path.liveness.probe_deadline_ns = net.now_ns;
    end(0)->path.liveness.probes_unanswered = 3;
    rawe_liveness_probe_sent(&end(0)->path.liveness, net.now_ns);
    assert_int_not_equal(end(0)->tx.ack_requested, net.config.first_sequence);
    /* Node 0 has received part of a message. */
    const struct rawe_fragment part = {
        .kind = RAWE_FRAGMENT_PART, .data_bytes = 10, .total_bytes = 20};
    assert_non_null(
        rawe_reassembly_place(&end(0)->rx.reassembly, &engine(0)->reassembly_buffers, &part));
    end(0)->path.batch = RAWE_BATCH_INVALID;
    end(0)->tx.queue.awaited = true;
    rawe_conn_reset(end(0));
    assert_int_equal(end(0)->tx.window.next, net.config.first_sequence);
    assert_int_equal(end(0)->rx.window.next, net.config.first_sequence);
    assert_int_equal(end(0)->tx.queue.message_number, net.config.first_sequence);
    assert_int_equal(end(0)->tx.ack_requested, net.config.first_sequence);
    assert_null(end(0)->rx.reassembly.first);
    assert_int_equal(end(0)->tx.peer_credit, 0);
    assert_false(end(0)->tx.queue.awaited);
    assert_int_equal(end(0)->path.batch, RAWE_BATCH_UNVALIDATED);
    assert_int_equal(end(0)->path.liveness.probes_unanswered, 0);
    assert_int_equal(end(0)->path.liveness.probes_remembered, 0);
    assert_true(end(0)->path.liveness.probe_deadline_ns == 0);
    assert_true(end(0)->tx.window.loss_deadline_ns == 0);
    assert_true(end(0)->tx.rtt.smoothed_ns == 0);
    assert_false(rawe_recvwin_due(&end(0)->rx.window));
}

/** Both lanes share a link: a flush that finds it full for one lane does not try the other. */
TEST(rawe_engine_flush__a_full_link_is_tried_once)
{
    static uint8_t data[3000];
    struct unit_send each[RAWE_LANES] = {0};
    for (unsigned lane = 0; lane < RAWE_LANES; lane++) {
        unit_connect(&net, (enum rawe_lane)lane);
    }
    net.node[0].link_room = 0;
    for (unsigned lane = 0; lane < RAWE_LANES; lane++) {
        unit_send_message(net.node[0].conn[lane], &each[lane], 1, data, sizeof(data));
    }
    const uint64_t stalls = counters(0)->blocked_port;
    for (unsigned rounds = 1; rounds <= 20; rounds++) {
        rawe_engine_flush(engine(0), net.now_ns);
        assert_int_equal(counters(0)->blocked_port, stalls + rounds);
    }
    assert_true(rawe_engine_pending(engine(0)));
    engine(0)->callbacks.failed = NULL; /* the failed callback is optional */
    unit_run(&net, net.config.liveness.peer_timeout_ns + UNIT_S, UNIT_MS);
    for (unsigned lane = 0; lane < RAWE_LANES; lane++) { /* treat a full link as a dead peer */
        assert_int_equal(net.node[0].conn[lane]->handshake.state, RAWE_CONN_FAILED);
    }
    unit_assert_sent(each, RAWE_LANES, RAWE_STATUS_FAILED);
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

/** While finalizing, the owner gets no failed callback; it polls rawe_conn_finalized instead. */
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

/** Frames that never arrive would otherwise fill the path: a large one for each round trip. */
TEST_WITH(with_stalled, stall__resends_ever_more_rarely)
{
    stall_with_large_frames();
    unit_run(&net, 2 * UNIT_S, 20 * UNIT_US);
    assert_in_range(engine(0)->counters.frames_resent, 20, 200);
    net.filter = NULL;
    unit_run(&net, 200 * UNIT_MS, 20 * UNIT_US);
    assert_int_equal(stalled_send.status, RAWE_STATUS_DONE);
}

/** Until chance no longer explains the losses, each resend follows as soon as the one before. */
TEST_WITH(with_stalled, stall__first_resends_are_no_rarer)
{
    uint64_t sent_ns[RAWE_LIVENESS_STALL_SENDINGS + 3] = {0}; /* by number of transmissions */
    stall_with_large_frames();
    for (unsigned sendings = 0; sendings < RAWE_LIVENESS_STALL_SENDINGS + 2;) {
        unit_run(&net, 10 * UNIT_US, 10 * UNIT_US);
        sendings = end(0)->tx.window.oldest->sendings;
        sent_ns[sendings] = sent_ns[sendings] != 0 ? sent_ns[sendings] : net.now_ns;
    }
    uint64_t *last = &sent_ns[RAWE_LIVENESS_STALL_SENDINGS + 2];
    assert_true(last[-2] - last[-3] < 2 * (sent_ns[2] - sent_ns[1]));
    assert_true(last[0] - last[-1] > 3 * (last[-2] - last[-3]) / 2);
}

/** Long frames may be lost while the peer refuses short ones: only the path can be at fault. */
TEST_WITH(with_stalled, stall__without_credit_is_reported_but_does_not_end)
{
    engine(0)->config.liveness.peer_timeout_ns = UNIT_S;
    stall_with_large_frames();
    unit_run(&net, 100 * UNIT_MS, 20 * UNIT_US);
    stalled_calls = 0;
    for (unsigned i = 0; i < 10000; i++) {
        end(0)->tx.peer_credit = 0;
        unit_run(&net, 200 * UNIT_US, 200 * UNIT_US);
    }
    assert_true(stalled_calls > 0);
    assert_int_equal(stalled_ns, 0);
    assert_int_equal(net.node[0].failed_calls, 0);
}

/** The callback may call MPI, and one loss says nothing about the path. */
TEST_WITH(with_stalled, stall__without_credit_is_reported_only_in_mpi_and_after_resends)
{
    stall_with_large_frames();
    for (unsigned i = 0; i < 1000; i++) {
        end(0)->tx.peer_credit = 0;
        unit_run(&net, 200 * UNIT_US, 200 * UNIT_US);
        assert_true(stalled_calls == 0 ||
                    end(0)->tx.window.oldest->sendings >= RAWE_LIVENESS_STALL_SENDINGS);
    }
    unit_run(&net, 100 * UNIT_MS, 20 * UNIT_US);
    rawe_engine_defer_begin(engine(0));
    stalled_calls = 0;
    for (unsigned i = 0; i < 1000; i++) {
        end(0)->tx.peer_credit = 0;
        unit_run(&net, 200 * UNIT_US, 200 * UNIT_US);
    }
    rawe_engine_defer_end(engine(0));
    rawe_engine_deliver_deferred(engine(0));
    assert_int_equal(stalled_calls, 0);
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
