/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Tests of what ends with one life of a connection, and what begins with the next.
 */
#include "unit_pair.h"

#include <string.h>

#include "conn/rawe_conn_life.h"
#include "conn/rawe_conn_receive.h"

#define SENDS 4u

static uint8_t data[3000];
static struct unit_send sends[SENDS];
static unsigned done_order[SENDS], done_count;

static void note_done(struct unit_send *send)
{
    done_order[done_count++] = (unsigned)(send - sends);
}

static void assert_done(unsigned from, unsigned to, enum rawe_status status)
{
    assert_int_equal(done_count, to);
    for (unsigned i = from; i < to; i++) {
        assert_int_equal(done_order[i], i);
        assert_int_equal(sends[i].status, status);
    }
}

/** The first send is in frames, the second half in them, the others are queued; none arrives. */
static void send_beyond_credit(void)
{
    memset(sends, 0, sizeof(sends));
    done_count = 0;
    unit_connect(&net, RAWE_LANE_EXPRESS);
    net.filter = drop_all;
    end(0)->peer_credit = RAWE_CC_LEAST_FRAMES;
    for (unsigned i = 0; i < SENDS; i++) {
        sends[i].on_done = note_done;
        unit_send_message(end(0), &sends[i], 1, data, sizeof(data));
    }
    assert_int_equal(sends[0].send.framed_bytes, sizeof(data));
    assert_in_range(sends[1].send.framed_bytes, 1, sizeof(data) - 1);
    assert_int_equal(sends[2].send.framed_bytes, 0);
    assert_int_equal(end(0)->queue.count, SENDS - 1);
}

FIXTURE(unit_set_up, unit_tear_down);

/* rawe_conn_complete */

TEST(rawe_conn_complete__not_while_deferring)
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

/* rawe_conn_abandon */

TEST(rawe_conn_abandon__what_is_queued_stays)
{
    send_beyond_credit();
    rawe_conn_complete(engine(0), rawe_conn_abandon(end(0), false), RAWE_STATUS_FAILED);
    assert_done(0, 2, RAWE_STATUS_FAILED); /* half of the second may have arrived */
    assert_true(rawe_sendwin_empty(&end(0)->sendwin));
    assert_null(rawe_conn_abandon(end(0), false)); /* nothing of the third was in a frame */
    assert_int_equal(end(0)->queue.count, SENDS - 2);
    assert_int_equal(end(0)->queue.bytes, (SENDS - 2) * sizeof(data));
    unit_close(&net, 0, RAWE_LANE_EXPRESS);
    assert_done(0, SENDS, RAWE_STATUS_FAILED);
}

TEST(rawe_conn_abandon__the_queue_too)
{
    send_beyond_credit();
    rawe_conn_complete(engine(0), rawe_conn_abandon(end(0), true), RAWE_STATUS_DONE);
    assert_done(0, SENDS, RAWE_STATUS_DONE);
    assert_true(rawe_conn_idle(end(0)));
    assert_int_equal(end(0)->queue.bytes, 0);
    assert_null(rawe_conn_abandon(end(0), true)); /* nothing is left */
}

/* rawe_conn_reset */

TEST(rawe_conn_reset__nothing_of_the_earlier_life_is_left)
{
    send_beyond_credit();
    net.filter = NULL;
    finish();
    assert_int_equal(unit_copy_message(end(0), 1, 10), RAWE_STATUS_DONE);
    assert_int_equal(unit_copy_message(end(1), 1, 10), RAWE_STATUS_DONE);
    finish(); /* a round trip is known: these were sent once */
    assert_true(end(0)->rtt.smoothed_ns != 0);
    end(0)->loss_deadline_ns = end(0)->liveness.probe_deadline_ns = net.now_ns;
    end(0)->liveness.probes_unanswered = 3;
    rawe_liveness_probe_sent(&end(0)->liveness, net.now_ns);
    assert_int_not_equal(end(0)->ack_requested, net.config.first_sequence);
    /* A message of which a part has come. */
    assert_true(rawe_conn_expect_fragments(end(0)));
    const struct rawe_fragment part = {
        .kind = RAWE_FRAGMENT_PART, .data_bytes = 10, .total_bytes = 20};
    assert_non_null(
        rawe_reassembly_place(end(0)->reassembly, &engine(0)->reassembly_buffers, &part, 20));
    end(0)->batch = RAWE_BATCH_INVALID;
    end(0)->awaited = true;
    end(0)->newest_probe = end(0)->migration = 3;
    end(0)->disowned_since_ns = net.now_ns;
    rawe_conn_reset(end(0));
    assert_int_equal(end(0)->sendwin.next, net.config.first_sequence);
    assert_int_equal(rawe_recvwin_next(&end(0)->recvwin), net.config.first_sequence);
    assert_int_equal(end(0)->queue.message_number, net.config.first_sequence);
    assert_int_equal(end(0)->ack_requested, net.config.first_sequence);
    assert_null(end(0)->reassembly->partial[0].buffer);
    assert_int_equal(end(0)->peer_credit, 0);
    assert_false(end(0)->awaited);
    assert_int_equal(end(0)->newest_probe, 0);
    assert_int_equal(end(0)->migration, 0);
    assert_true(end(0)->disowned_since_ns == 0);
    assert_int_equal(end(0)->handshake.peer_id, 0);
    assert_int_equal(end(0)->batch, RAWE_BATCH_UNVALIDATED);
    assert_int_equal(end(0)->liveness.probes_unanswered, 0);
    assert_int_equal(end(0)->liveness.probes_remembered, 0);
    assert_true(end(0)->liveness.probe_deadline_ns == 0);
    assert_true(end(0)->loss_deadline_ns == 0);
    assert_true(end(0)->rtt.smoothed_ns == 0);
    assert_false(rawe_recvwin_due(&end(0)->recvwin));
}

/* rawe_conn_renew */

TEST(rawe_conn_renew__numbers_begin_where_the_configuration_says)
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

TEST(rawe_conn_renew__a_new_id_and_incarnation)
{
    unit_connect(&net, RAWE_LANE_EXPRESS);
    const struct rawe_handshake before = end(0)->handshake;
    rawe_conn_renew(end(0));
    assert_null(rawe_conn_table_find(engine(0)->table, before.local_id));
    assert_ptr_equal(rawe_conn_table_find(engine(0)->table, end(0)->handshake.local_id), end(0));
    assert_true(end(0)->handshake.local_incarnation > before.local_incarnation);
}
