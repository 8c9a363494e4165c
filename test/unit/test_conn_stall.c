/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Tests of connections that make no progress although probes are answered: frames of some length do
 * not arrive any more.
 */
#include "unit_pair.h"

#include <string.h>

#include "conn/rawe_conn.h"

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

static void tear_down(void)
{
    unit_stop(&net);
}

/** The path's MTU has become smaller. */
static bool drop_large(struct unit_net *unused, const struct net_frame *frame)
{
    return frame->header.payload_bytes <= 600;
}

static uint8_t data[5000];

static void stall_with_large_frames(struct unit_send *send)
{
    memset(send, 0, sizeof(*send));
    unit_connect(&net, RAWE_LANE_EXPRESS);
    net.filter = drop_large;
    unit_send_message(end(0), send, 1, data, sizeof(data));
}

FIXTURE(set_up, tear_down);

TEST(stall__is_noticed_though_probes_are_answered)
{
    static struct unit_send send;
    stall_with_large_frames(&send);
    unit_run(&net, UNIT_S, 100 * UNIT_US);
    assert_true(net.node[0].engine.counters.probes_answered > 10);
    assert_true(stalled_calls > 3);
    assert_in_range(stalled_ns, UNIT_S / 2, UNIT_S);
    assert_int_equal(net.node[0].silent_calls, 0);
    /* The path carries them again: all is well. */
    net.filter = NULL;
    unit_run(&net, UNIT_S, 100 * UNIT_US);
    assert_int_equal(send.done, 1);
    assert_int_equal(send.status, RAWE_STATUS_DONE);
    const unsigned calls = stalled_calls;
    unit_run(&net, UNIT_S, 100 * UNIT_US);
    assert_int_equal(stalled_calls, calls);
}

TEST(stall__ends_by_the_peer_timeout)
{
    static struct unit_send send;
    stall_with_large_frames(&send);
    unit_run(&net, 4900 * UNIT_MS, UNIT_MS);
    assert_int_equal(net.node[0].failed_calls, 0);
    unit_run(&net, UNIT_S, UNIT_MS);
    assert_int_equal(net.node[0].failed_calls, 1);
    assert_int_equal(send.done, 1);
    assert_int_equal(send.status, RAWE_STATUS_FAILED);
}

TEST(stall__lasts_without_a_peer_timeout)
{
    static struct unit_send send;
    net.node[0].engine.config.liveness.peer_timeout_ns = 0;
    stall_with_large_frames(&send);
    unit_run(&net, 60 * UNIT_S, 10 * UNIT_MS);
    assert_int_equal(net.node[0].failed_calls, 0);
    assert_true(stalled_ns > 30 * UNIT_S);
}

/** A receiver outside of MPI may have no room for frames; its progress thread answers probes. */
TEST(stall__does_not_count_while_the_peer_computes)
{
    static struct unit_send send;
    stall_with_large_frames(&send);
    for (unsigned i = 0; i < 20; i++) {
        unit_run(&net, UNIT_S, UNIT_MS);
        rawe_conn_alive(end(0), net.now_ns);
    }
    assert_int_equal(net.node[0].failed_calls, 0);
    assert_true(stalled_ns < 2 * UNIT_S);
    unit_run(&net, 6 * UNIT_S, UNIT_MS);
    assert_int_equal(net.node[0].failed_calls, 1);
}

TEST(stall__does_not_count_while_we_are_away)
{
    static struct unit_send send;
    stall_with_large_frames(&send);
    for (unsigned i = 0; i < 6; i++) {
        unit_run(&net, 300 * UNIT_MS, UNIT_MS);
        net.now_ns += 600 * UNIT_S;
    }
    unit_run(&net, 300 * UNIT_MS, UNIT_MS);
    assert_int_equal(net.node[0].failed_calls, 0);
    net.filter = NULL;
    unit_run(&net, UNIT_S, UNIT_MS);
    assert_int_equal(send.status, RAWE_STATUS_DONE);
}

/** What is in flight when MPI_Finalize begins may have to be sent in shorter frames. */
TEST(stall__is_noticed_while_finalizing)
{
    static struct unit_send send;
    stall_with_large_frames(&send);
    rawe_engine_finalizing(engine(0));
    unit_run(&net, UNIT_S, 100 * UNIT_US);
    assert_true(stalled_calls > 3);
    assert_in_range(stalled_ns, UNIT_S / 2, UNIT_S);
    assert_int_equal(net.node[1].message_count, 0);
    rawe_conn_set_payload_max(end(0), 600); /* what the owner does once it has measured that */
    unit_run(&net, UNIT_S, 100 * UNIT_US);
    assert_int_equal(net.node[1].message_count, 1);
    assert_true(rawe_conn_drained(end(0)));
}

/** The owner of a connection is told of no end of it then; it asks when it may be closed. */
TEST(stall__ends_nothing_while_finalizing)
{
    static struct unit_send send;
    stall_with_large_frames(&send);
    rawe_engine_finalizing(engine(0));
    unit_run(&net, 12 * UNIT_S, UNIT_MS); /* twice the peer timeout */
    assert_int_equal(net.node[0].failed_calls, 0);
    assert_int_equal(end(0)->handshake.state, RAWE_CONN_OPEN);
    assert_false(rawe_conn_drained(end(0)));
}

TEST(stall__is_not_a_loss_of_a_frame_now_and_then)
{
    unit_connect(&net, RAWE_LANE_EXPRESS);
    for (unsigned i = 0; i < 200; i++) {
        assert_int_equal(unit_copy_message(end(0), 1, 100), RAWE_STATUS_DONE);
        unit_run(&net, UNIT_MS, 100 * UNIT_US);
    }
    assert_int_equal(stalled_calls, 0);
}

/* rawe_conn_set_payload_max */

static uint32_t longest_bytes;

static bool note_longest(struct unit_net *unused, const struct net_frame *frame)
{
    if (frame->header.payload_bytes > longest_bytes) {
        longest_bytes = frame->header.payload_bytes;
    }
    return true;
}

TEST(rawe_conn_set_payload_max__bounds_the_frames_made_from_now_on)
{
    struct unit_send send = {0};
    unit_connect(&net, RAWE_LANE_EXPRESS);
    unit_fill(data, sizeof(data), 3);
    longest_bytes = 0;
    net.filter = note_longest;
    rawe_conn_set_payload_max(end(0), 600);
    unit_send_message(end(0), &send, 1, data, sizeof(data));
    unit_run(&net, UNIT_S, 100 * UNIT_US);
    assert_int_equal(send.status, RAWE_STATUS_DONE);
    unit_assert_message(&net.node[1], 0, 1, sizeof(data), 3);
    assert_int_equal(longest_bytes, 600);
    /* It only falls: what the peer takes is another limit. */
    rawe_conn_set_payload_max(end(0), 1400);
    assert_int_equal(end(0)->payload_max_bytes, 600);
}
