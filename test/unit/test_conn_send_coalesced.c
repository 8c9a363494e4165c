/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Tests of sends that are held back in a shared frame: what becomes of it.
 */
#include "unit_coalesce.h"

#include <string.h>

#include "conn/rawe_conn_control.h"
#include "conn/rawe_conn_connect.h"
#include "conn/rawe_conn_coalesce.h"
#include "conn/rawe_conn_output.h"
#include "conn/rawe_conn.h"

FIXTURE(unit_set_up_coalescing, unit_tear_down);

/* rawe_conn_coalesce_end */

TEST(send_coalesced__something_else_is_sent)
{
    static uint8_t data[3000];
    struct unit_send send = {0};
    connect_busy();
    copy(1, 10);
    copy(2, 10);
    unit_fill(data, sizeof(data), 3);
    unit_send_message(end(0), &send, 3, data, sizeof(data));
    assert_null(end(0)->coalescing);
    const struct net_frame *third = net.wire->next->next;
    assert_int_equal(messages_in(third), 2); /* what was there before goes before */
    assert_int_equal(third->next->bytes[RAWE_PAYLOAD_OFFSET], RAWE_FRAGMENT_PART);
    finish();
    assert_int_equal(send.done, 1);
    assert_int_equal(net.node[1].message_count, COALESCE_FROM + 3);
}

TEST(send_coalesced__counts_in_the_window_while_held_back)
{
    unit_start_with(
        (struct unit_options){.coalesce_from_frames = COALESCE_FROM, .window_frames = 16});
    connect_busy();
    net.node[1].paused = true;
    unsigned count = COALESCE_FROM;
    while (unit_copy_message(end(0), 1, 300) == RAWE_STATUS_DONE) {
        count++;
        uint32_t used = end(0)->sendwin.next - end(0)->sendwin.una + (end(0)->coalescing != NULL);
        assert_in_range(used, 1, 16);
    }
    assert_null(end(0)->coalescing);
    assert_int_equal(end(0)->sendwin.next - end(0)->sendwin.una, 16);
    assert_int_equal(unit_wire_count(&net), 16);
    assert_true(count > 16 + 10);
    uint8_t data[300];
    struct unit_send sends[20];
    memset(sends, 0, sizeof(sends));
    unit_fill(data, sizeof(data), 1);
    for (unsigned i = 0; i < 20; i++) {
        unit_send_message(end(0), &sends[i], 1, data, sizeof(data));
    }
    assert_int_equal(unit_copy_message(end(0), 1, 1), RAWE_STATUS_BUSY);
    assert_int_equal(end(0)->sendwin.next - end(0)->sendwin.una, 16);
    net.node[1].paused = false;
    finish();
    assert_int_equal(net.node[1].message_count, count + 20);
    assert_int_equal(counters(0)->frames_resent, 0);
}

TEST(send_coalesced__a_hole_keeps_the_window_from_sliding)
{
    unit_start_with((struct unit_options){.coalesce_from_frames = 1, .window_frames = 16});
    unit_connect(&net, RAWE_LANE_EXPRESS);
    copy(1, 10);
    struct net_frame *late = unit_wire_take(&net);
    unsigned count = 1;
    for (unsigned i = 0; i < 200; i++) {
        count += unit_copy_message(end(0), 1, 20) == RAWE_STATUS_DONE;
        assert_true(end(0)->sendwin.next - end(0)->sendwin.una + (end(0)->coalescing != NULL) <=
                    16);
        if (i % 3 == 2) {
            unit_settle(&net); /* the peer has all but the first, and says so */
        }
    }
    assert_int_equal(end(0)->sendwin.next - end(0)->sendwin.una, 16);
    assert_int_equal(unit_copy_message(end(0), 1, 20), RAWE_STATUS_BUSY);
    unit_wire_put(&net, late);
    finish();
    assert_int_equal(net.node[1].message_count, count);
}

/* rawe_conn_coalesce_flush */

TEST(rawe_conn_coalesce_flush__at_the_end_of_the_round)
{
    connect_busy();
    copy(1, 10);
    assert_true(rawe_engine_pending(&net.node[0].engine));
    assert_false(rawe_engine_idle(&net.node[0].engine));
    flush(0);
    assert_int_equal(unit_wire_count(&net), COALESCE_FROM + 1);
    assert_false(rawe_engine_pending(&net.node[0].engine));
    flush(0);
    assert_int_equal(unit_wire_count(&net), COALESCE_FROM + 1);
    finish();
}

TEST(rawe_conn_coalesce_flush__acknowledgement_rides_along)
{
    connect_busy();
    assert_int_equal(unit_copy_message(end(1), 1, 10), RAWE_STATUS_DONE);
    struct net_frame *frames[COALESCE_FROM + 1];
    for (unsigned i = 0; i <= COALESCE_FROM; i++) {
        frames[i] = unit_wire_take(&net);
    }
    unit_receive(&net, frames[COALESCE_FROM]);
    copy(1, 10);
    net.now_ns += net.config.ack_delay_ns + 20 * UNIT_US;
    rawe_engine_advance(&net.node[0].engine, net.now_ns);
    assert_true(end(0)->recvwin.ack_now);
    flush(0);
    assert_int_equal(unit_wire_count(&net), 1); /* nothing but what was held back */
    assert_int_equal(net.wire->header.type, RAWE_FRAME_DATA);
    assert_int_equal(net.wire->header.acknowledgement, 1);
    assert_false(end(0)->recvwin.ack_now);
    assert_int_equal(end(0)->recvwin.ack_deadline_ns, 0);
    assert_int_equal(counters(0)->acks_sent, 0);
    for (unsigned i = 0; i < COALESCE_FROM; i++) {
        unit_wire_put(&net, frames[i]);
    }
    net_frame_free(frames[COALESCE_FROM]);
    finish();
    assert_int_equal(net.node[1].message_count, COALESCE_FROM + 1);
}

TEST(rawe_conn_coalesce_flush__no_credit)
{
    connect_busy();
    copy(1, 10);
    end(0)->cc.window = COALESCE_FROM; /* losses were found meanwhile, say */
    flush(0);
    assert_int_equal(unit_wire_count(&net), COALESCE_FROM);
    assert_null(end(0)->coalescing);
    assert_int_equal(end(0)->sendwin.to_transmit, 1);
    assert_int_equal(unit_copy_message(end(0), 2, 10), RAWE_STATUS_BUSY);
    finish();
    assert_int_equal(net.node[1].message_count, COALESCE_FROM + 1);
    assert_int_equal(counters(0)->frames_resent, 0);
}

TEST(rawe_conn_coalesce_flush__link_full)
{
    connect_busy();
    copy(1, 10);
    copy(2, 10);
    net.node[0].link_room = 0;
    flush(0);
    flush(0);
    assert_int_equal(unit_wire_count(&net), COALESCE_FROM);
    assert_true(counters(0)->link_stalls > 0);
    assert_true(rawe_engine_pending(&net.node[0].engine));
    assert_false(rawe_conn_drained(end(0)));
    net.node[0].link_room = UINT32_MAX;
    flush(0);
    assert_int_equal(unit_wire_count(&net), COALESCE_FROM + 1);
    finish();
    assert_int_equal(net.node[1].message_count, COALESCE_FROM + 2);
    assert_int_equal(counters(0)->frames_sent, COALESCE_FROM + 1);
    assert_int_equal(counters(1)->duplicates, 0);
}

TEST(rawe_conn_coalesce_flush__lost_and_sent_again)
{
    connect_busy();
    for (uint8_t tag = 1; tag < 8; tag++) {
        copy(tag, 50);
    }
    unit_settle(&net);
    copy(8, 10);
    copy(9, 10);
    copy(10, 10);
    flush(0);
    struct net_frame *lost = last_frame();
    assert_int_equal(messages_in(lost), 3);
    lost->header.key ^= 1; /* garbled on the way */
    unit_frame_encode(lost);
    finish();
    assert_int_equal(counters(0)->frames_resent, 1);
    assert_int_equal(net.node[1].message_count, COALESCE_FROM + 10);
    assert_int_equal(counters(1)->messages_received, COALESCE_FROM + 10);
}

TEST(rawe_conn_coalesce_flush__drained_only_after_it)
{
    connect_busy();
    copy(1, 10);
    while (unit_wire_count(&net) != 0) {
        unit_receive_next(&net);
    }
    flush(1);
    end(1)->recvwin.ack_now = true;
    rawe_conn_make_pending(end(1));
    flush(1);
    unit_receive_next(&net); /* acknowledges all that has been sent */
    assert_int_equal(end(0)->sendwin.una, end(0)->sendwin.next);
    assert_false(rawe_conn_drained(end(0)));
    finish();
    assert_int_equal(net.node[1].message_count, COALESCE_FROM + 1);
}

/* rawe_conn_coalesce_drop */

TEST(rawe_conn_coalesce_flush__closed)
{
    connect_busy();
    copy(1, 10);
    unit_close(&net, 0, RAWE_LANE_EXPRESS); /* tear_down finds the frame in its pool */
    unit_settle(&net);
    assert_int_equal(net.node[1].message_count, COALESCE_FROM);
}

/** Node 0 holds a message back when it hears of the peer's CLOSE. */
static void hold_and_be_closed(void)
{
    connect_busy();
    copy(1, 10);
    unit_close_having_all(&net, 1, RAWE_LANE_EXPRESS);
    assert_int_equal(end(0)->handshake.state, RAWE_CONN_CONNECTING);
    assert_non_null(end(0)->coalescing);
    assert_false(rawe_conn_drained(end(0)));
}

TEST(rawe_conn_coalesce_flush__not_when_the_peer_closes)
{
    hold_and_be_closed();
    assert_true(rawe_conn_coalesce(end(0), 2, "xy", 2, NULL, 0)); /* it may be joined still */
    assert_int_equal(unit_copy_message(end(0), 3, 10), RAWE_STATUS_BUSY);
    uint8_t data[10];
    struct unit_send send = {0};
    unit_fill(data, sizeof(data), 3);
    unit_send_message(end(0), &send, 3, data, sizeof(data));
    finish();
    assert_int_equal(end(0)->handshake.state, RAWE_CONN_OPEN);
    assert_int_equal(send.done, 1);
    assert_int_equal(net.node[1].message_count, 3);
    unit_assert_message(&net.node[1], 0, 1, 10, 1);
    assert_memory_equal(net.node[1].messages[1].data, "xy", 2);
    unit_assert_message(&net.node[1], 2, 3, 10, 3);
}

TEST(rawe_conn_coalesce_flush__not_for_want_of_a_place_in_the_window)
{
    unit_start_with(
        (struct unit_options){.coalesce_from_frames = COALESCE_FROM, .window_frames = 16});
    hold_and_be_closed();
    uint8_t data[1200];
    struct unit_send sends[20];
    memset(sends, 0, sizeof(sends));
    unit_fill(data, sizeof(data), 3);
    for (unsigned i = 0; i < 20; i++) { /* behind it, and more than a window */
        unit_send_message(end(0), &sends[i], 3, data, sizeof(data));
    }
    while (end(0)->handshake.state != RAWE_CONN_OPEN) {
        unit_receive_next(&net);
    }
    /* The peer's credit comes before the end of the round: what is queued goes first. */
    end(0)->peer_credit = 16;
    rawe_conn_output(end(0), net.now_ns);
    assert_non_null(end(0)->coalescing);
    assert_int_equal(end(0)->sendwin.next - end(0)->sendwin.una, 15);
    finish();
    assert_int_equal(net.node[1].message_count, 21);
    assert_int_equal(sends[19].done, 1);
}

TEST(rawe_conn_coalesce_flush__peer_does_not_come_back)
{
    hold_and_be_closed();
    net.node[1].refuses = true;
    unit_run(&net, 2 * net.config.liveness.peer_timeout_ns, 10 * UNIT_MS);
    assert_int_equal(end(0)->handshake.state, RAWE_CONN_FAILED);
    assert_int_equal(net.node[0].failed_calls, 1);
    assert_null(end(0)->coalescing);
    assert_true(rawe_conn_drained(end(0)));
    assert_false(rawe_conn_coalesce(end(0), 2, "xy", 2, NULL, 0));
    assert_int_equal(unit_copy_message(end(0), 2, 10), RAWE_STATUS_FAILED);
}

TEST(rawe_conn_coalesce_flush__not_when_the_peer_begins_anew)
{
    connect_busy();
    copy(1, 10);
    unit_close(&net, 1, RAWE_LANE_EXPRESS);
    unit_wire_clear(&net); /* its CLOSE, too */
    struct rawe_conn *again = unit_open(&net, 1, RAWE_LANE_EXPRESS);
    rawe_conn_connect(again, net.now_ns);
    finish();
    assert_int_equal(end(0)->handshake.state, RAWE_CONN_OPEN);
    assert_null(end(0)->coalescing);
    assert_int_equal(net.node[1].message_count, 1); /* the others were on the old connection */
    unit_assert_message(&net.node[1], 0, 1, 10, 1);
}
