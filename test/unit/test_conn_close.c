/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Tests of closing a connection, and of what ends one without.
 */
#include "unit_pair.h"

#include <string.h>

#include "conn/rawe_conn.h"
#include "conn/rawe_conn_connect.h"
#include "conn/rawe_conn_control.h"
#include "conn/rawe_conn_receive.h"

static struct unit_send sends[3];
static uint8_t data[5000];

static void set_up(void)
{
    unit_start_with((struct unit_options){0});
    unit_connect(&net, RAWE_LANE_EXPRESS);
    memset(sends, 0, sizeof(sends));
}

static void send_messages(unsigned count)
{
    unit_send_messages(end(0), sends, count, data, sizeof(data));
}

/** Node 0 gets a CLOSE that says it has all before `acknowledgement`, counted from the oldest. */
static void receive_close(uint32_t acknowledgement, uint8_t flags)
{
    struct rawe_header header = {.type = RAWE_FRAME_CLOSE, .flags = flags};
    header.acknowledgement = acknowledgement;
    unit_wire_clear(&net);
    unit_receive_forged(&net, 1, RAWE_LANE_EXPRESS, header, NULL, 0);
}

/** Node 1 is gone until node 0 gives it up. */
static void believe(void)
{
    net.filter = drop_all;
    unit_run(&net, 3000 * UNIT_MS, UNIT_MS);
    assert_int_equal(end(0)->handshake.state, RAWE_CONN_PEER_CLOSED);
}

/** Node 1 disowns the connection. */
static void disown(void)
{
    struct rawe_header header = {.type = RAWE_FRAME_CLOSE, .flags = RAWE_FLAG_REPLY};
    unit_receive_forged(&net, 1, RAWE_LANE_EXPRESS, header, NULL, 0);
}

FIXTURE(set_up, unit_tear_down);

TEST(rawe_conn_receive__what_a_close_does_not_acknowledge_has_failed)
{
    send_messages(3); /* four frames each */
    receive_close(6, 0);
    unit_assert_sent(sends, 1, RAWE_STATUS_DONE);
    assert_int_equal(sends[1].done, 0); /* the peer may just be ahead in MPI_Finalize */
    assert_int_equal(net.node[0].lost_calls, 0);
    believe();
    unit_assert_sent(&sends[1], 2, RAWE_STATUS_FAILED);
    assert_int_equal(net.node[0].lost_calls, 1);
}

TEST(rawe_conn_receive__a_close_that_does_not_acknowledge_the_whole_send)
{
    static const struct {
        uint32_t credit, acknowledges;
    } cases[] = {
        {2, 2},     /* all that was sent, which is not all there was to send */
        {64, 1000}, /* what was never sent */
    };
    for (unsigned i = 0; i < 2; i++) {
        set_up();
        end(0)->peer_credit = cases[i].credit;
        send_messages(1);
        receive_close(cases[i].acknowledges, 0);
        assert_int_equal(sends[0].done, 0);
        believe();
        unit_assert_sent(sends, 1, RAWE_STATUS_FAILED);
        assert_int_equal(net.node[0].lost_calls, 1);
    }
}

TEST(rawe_conn_receive__copied_messages_are_not_lost_in_silence)
{
    unit_send_copy(end(0), 1, 100);
    receive_close(0, 0);
    believe();
    assert_int_equal(net.node[0].lost_calls, 1);
}

/** A forged CLOSE: the peer is asked, and answers. */
static void refute_close(void)
{
    send_messages(3);
    receive_close(0, 0);
    unit_run(&net, 3000 * UNIT_MS, UNIT_MS);
    unit_assert_sent(sends, 3, RAWE_STATUS_DONE);
    assert_int_equal(net.node[0].lost_calls, 0);
}

/** A message is sent while node 1 computes, for a moment. */
static void send_while_it_computes(void)
{
    memset(sends, 0, sizeof(sends));
    net.node[1].paused = true;
    send_messages(1);
    unit_run(&net, 20 * UNIT_MS, UNIT_MS);
    net.node[1].paused = false;
    unit_run(&net, 3000 * UNIT_MS, UNIT_MS);
    assert_int_equal(net.node[0].lost_calls, 0);
}

TEST(rawe_conn_receive__a_peer_that_answered_long_since_has_not_ended_it)
{
    refute_close();
    for (unsigned i = 0; i < 20; i++) {
        send_messages(3);
        unit_run(&net, 500 * UNIT_MS, UNIT_MS);
        unit_assert_sent(sends, 3, RAWE_STATUS_DONE);
    }
    send_while_it_computes();
    unit_assert_sent(sends, 1, RAWE_STATUS_DONE);
}

TEST(rawe_conn_receive__a_peer_that_has_answered_since_may_be_silent)
{
    refute_close();
    send_while_it_computes(); /* nothing has come of it since */
    unit_assert_sent(sends, 1, RAWE_STATUS_DONE);
}

/** The CLOSE is lost; the answer to a PROBE comes by another route than the ACK, and overtakes it. */
TEST(rawe_conn_receive__an_acknowledgement_after_the_close_counts)
{
    struct rawe_header ack = {.type = RAWE_FRAME_ACK, .acknowledgement = 4};
    send_messages(1);
    net.filter = drop_all;
    receive_close(0, RAWE_FLAG_REPLY);
    unit_run(&net, 500 * UNIT_MS, UNIT_MS);
    unit_receive_forged(&net, 1, RAWE_LANE_EXPRESS, ack, NULL, 0);
    unit_assert_sent(sends, 1, RAWE_STATUS_DONE);
    receive_close(0, RAWE_FLAG_REPLY);
    assert_int_equal(end(0)->handshake.state, RAWE_CONN_PEER_CLOSED);
    assert_int_equal(net.node[0].lost_calls, 0);
}

TEST(rawe_conn_receive__a_peer_that_disowns_it_acknowledges_nothing)
{
    send_messages(1);
    disown();
    assert_int_equal(sends[0].done, 0); /* the peer may just be ahead in MPI_Finalize */
    net.now_ns += 1000 * UNIT_MS;
    receive_close(4, RAWE_FLAG_REPLY);
    assert_int_equal(sends[0].status, RAWE_STATUS_FAILED);
    assert_int_equal(net.node[0].lost_calls, 1);
}

TEST(rawe_conn_receive__disowned_in_finalize_nothing_is_lost)
{
    send_messages(1);
    unit_wire_clear(&net);
    disown();
    assert_int_equal(sends[0].done, 0);
    rawe_engine_finalizing(engine(0));
    receive_close(0, RAWE_FLAG_REPLY | RAWE_FLAG_FINALIZING);
    assert_int_equal(end(0)->handshake.state, RAWE_CONN_PEER_CLOSED);
    assert_int_equal(sends[0].done, 0); /* no connection has it any more */
    assert_int_equal(net.node[0].lost_calls, 0);
}

TEST(rawe_conn_receive__a_closed_connection_asked_about_has_failed)
{
    send_messages(1);
    unit_wire_clear(&net);
    net.node[1].link_room = 0;
    unit_close(&net, 1, RAWE_LANE_EXPRESS); /* without a CLOSE */
    net.node[1].link_room = UINT32_MAX;
    net.node[1].refuses = true;
    unit_run(&net, 3000 * UNIT_MS, UNIT_MS);
    assert_int_equal(end(0)->handshake.state, RAWE_CONN_PEER_CLOSED);
    unit_assert_sent(sends, 1, RAWE_STATUS_FAILED);
}

TEST(rawe_engine_finalizing__both_ends_wait_for_no_data_any_more)
{
    send_messages(2);
    receive_close(0, 0);
    rawe_engine_finalizing(engine(0));
    assert_int_equal(end(0)->handshake.state, RAWE_CONN_OPEN);
    receive_close(0, RAWE_FLAG_FINALIZING);
    assert_int_equal(end(0)->handshake.state, RAWE_CONN_PEER_CLOSED);
    assert_int_equal(sends[0].done, 0);
    assert_int_equal(sends[1].done, 0);
    assert_int_equal(net.node[0].lost_calls, 0);
}

TEST(rawe_engine_deliver_deferred__tells_of_a_loss_meanwhile)
{
    send_messages(1);
    rawe_engine_defer_begin(engine(0));
    receive_close(0, 0);
    believe();
    assert_int_equal(net.node[0].lost_calls, 0);
    assert_true(rawe_engine_has_deferred(engine(0)));
    rawe_engine_defer_end(engine(0));
    rawe_engine_deliver_deferred(engine(0));
    assert_int_equal(net.node[0].lost_calls, 1);
    assert_int_equal(sends[0].status, RAWE_STATUS_FAILED);
    rawe_engine_deliver_deferred(engine(0));
    assert_int_equal(net.node[0].lost_calls, 1);
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

/** The first send is in frames, the second half so, the others are queued; none arrives. */
static void send_beyond_credit(void)
{
    memset(under_way, 0, sizeof(under_way));
    done_count = 0;
    unit_connect(&net, RAWE_LANE_EXPRESS);
    net.filter = drop_all;
    end(0)->peer_credit = 4;
    for (unsigned i = 0; i < SENDS; i++) {
        under_way[i].on_done = note_done;
        unit_send_message(end(0), &under_way[i], 1, under_way_data, sizeof(under_way_data));
    }
    assert_int_equal(under_way[0].send.framed_bytes, sizeof(under_way_data));
    assert_in_range(under_way[1].send.framed_bytes, 1, sizeof(under_way_data) - 1);
    assert_int_equal(under_way[2].send.framed_bytes, 0);
    assert_int_equal(end(0)->queue.count, SENDS - 1);
}

static const struct unit_fixture with_default = {unit_set_up, unit_tear_down};

TEST_WITH(with_default, rawe_conn_complete__not_while_deferring)
{
    send_beyond_credit();
    rawe_engine_defer_begin(engine(0));
    rawe_conn_complete(engine(0), NULL, RAWE_STATUS_DONE);
    assert_false(rawe_engine_has_deferred(engine(0)));
    rawe_conn_complete(engine(0), rawe_conn_abandon(end(0), true), RAWE_STATUS_FAILED);
    assert_int_equal(done_count, 0);
    rawe_engine_defer_end(engine(0));
    rawe_engine_deliver_deferred(engine(0));
    assert_done(0, SENDS, RAWE_STATUS_FAILED);
}

TEST_WITH(with_default, rawe_conn_abandon__what_is_queued_stays)
{
    send_beyond_credit();
    rawe_conn_complete(engine(0), rawe_conn_abandon(end(0), false), RAWE_STATUS_FAILED);
    assert_done(0, 2, RAWE_STATUS_FAILED); /* half of the second may have arrived */
    assert_true(rawe_sendwin_empty(&end(0)->sendwin));
    assert_null(rawe_conn_abandon(end(0), false)); /* nothing of the third was in a frame */
    assert_int_equal(end(0)->queue.count, SENDS - 2);
    assert_int_equal(end(0)->queue.bytes, (SENDS - 2) * sizeof(under_way_data));
    unit_close(&net, 0, RAWE_LANE_EXPRESS);
    assert_done(0, SENDS, RAWE_STATUS_FAILED);
}

TEST_WITH(with_default, rawe_conn_abandon__the_queue_too)
{
    send_beyond_credit();
    rawe_conn_complete(engine(0), rawe_conn_abandon(end(0), true), RAWE_STATUS_DONE);
    assert_done(0, SENDS, RAWE_STATUS_DONE);
    assert_true(rawe_conn_idle(end(0)));
    assert_int_equal(end(0)->queue.bytes, 0);
    assert_null(rawe_conn_abandon(end(0), true)); /* nothing is left */
}

TEST_WITH(with_default, rawe_conn_reset__nothing_of_the_earlier_life_is_left)
{
    send_beyond_credit();
    net.filter = NULL;
    finish();
    unit_send_copy(end(0), 1, 10);
    unit_send_copy(end(1), 1, 10);
    finish(); /* a round trip is known: these were sent once */
    assert_true(end(0)->rtt.smoothed_ns != 0);
    end(0)->sendwin.loss_deadline_ns = end(0)->liveness.probe_deadline_ns = net.now_ns;
    end(0)->liveness.probes_unanswered = 3;
    rawe_liveness_probe_sent(&end(0)->liveness, net.now_ns);
    assert_int_not_equal(end(0)->ack_requested, net.config.first_sequence);
    /* A message of which a part has come. */
    const struct rawe_fragment part = {
        .kind = RAWE_FRAGMENT_PART, .data_bytes = 10, .total_bytes = 20};
    assert_non_null(
        rawe_reassembly_place(&end(0)->reassembly, &engine(0)->reassembly_buffers, &part, 20));
    end(0)->batch = RAWE_BATCH_INVALID;
    end(0)->queue.awaited = true;
    end(0)->disowned_since_ns = net.now_ns;
    rawe_conn_reset(end(0));
    assert_int_equal(end(0)->sendwin.next, net.config.first_sequence);
    assert_int_equal(rawe_recvwin_next(&end(0)->recvwin), net.config.first_sequence);
    assert_int_equal(end(0)->queue.message_number, net.config.first_sequence);
    assert_int_equal(end(0)->ack_requested, net.config.first_sequence);
    assert_null(end(0)->reassembly.first);
    assert_int_equal(end(0)->peer_credit, 0);
    assert_false(end(0)->queue.awaited);
    assert_true(end(0)->disowned_since_ns == 0);
    assert_int_equal(end(0)->batch, RAWE_BATCH_UNVALIDATED);
    assert_int_equal(end(0)->liveness.probes_unanswered, 0);
    assert_int_equal(end(0)->liveness.probes_remembered, 0);
    assert_true(end(0)->liveness.probe_deadline_ns == 0);
    assert_true(end(0)->sendwin.loss_deadline_ns == 0);
    assert_true(end(0)->rtt.smoothed_ns == 0);
    assert_false(rawe_recvwin_due(&end(0)->recvwin));
}

TEST_WITH(with_default, rawe_conn_renew__numbers_begin_where_the_configuration_says)
{
    unit_stop(&net);
    unit_init(&net);
    net.config.first_sequence = UINT32_MAX - 2;
    unit_start(&net);
    unit_connect(&net, RAWE_LANE_EXPRESS);
    for (unsigned life = 0; life < 2; life++) {
        assert_int_equal(end(0)->sendwin.next, UINT32_MAX - 2);
        assert_int_equal(end(0)->queue.message_number, UINT32_MAX - 2);
        assert_works_both_ways();
        assert_true(end(0)->sendwin.next < 100); /* has gone round */
        unit_close(&net, 1, RAWE_LANE_EXPRESS);
        unit_settle(&net);
        unit_open(&net, 1, RAWE_LANE_EXPRESS);
    }
}

TEST_WITH(with_default, rawe_conn_renew__a_new_id_and_incarnation)
{
    unit_connect(&net, RAWE_LANE_EXPRESS);
    const struct rawe_handshake before = end(0)->handshake;
    rawe_conn_renew(end(0));
    assert_null(rawe_conn_table_find(engine(0)->table, before.local_id));
    assert_ptr_equal(rawe_conn_table_find(engine(0)->table, end(0)->handshake.local_id), end(0));
    assert_true(end(0)->handshake.local_incarnation > before.local_incarnation);
    assert_int_equal(end(0)->handshake.peer_id, 0);
}
