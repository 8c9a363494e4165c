/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Tests of sending, by copy and from the caller's memory, and of the frames and fragments that a
 * connection hands to the link.
 */
#include "unit_pair.h"

#include <string.h>

#include "conn/rawe_conn.h"
#include "conn/rawe_conn_connect.h"
#include "conn/rawe_conn_send.h"

FIXTURE(unit_set_up, unit_tear_down);

TEST(rawe_conn_blocked_by__names_what_is_missing)
{
    static uint8_t data[60000];
    struct unit_send sends[4] = {0};
    struct rawe_conn *conn = unit_open(&net, 0, RAWE_LANE_EXPRESS);
    (void)unit_open(&net, 1, RAWE_LANE_EXPRESS);
    assert_int_equal(rawe_conn_blocked_by(conn), RAWE_BLOCKED_BY_PEER);
    unit_send_message(conn, &sends[0], 1, data, 10);
    assert_int_equal(counters(0)->blocked_peer, 1);
    finish();
    assert_int_equal(rawe_conn_blocked_by(conn), RAWE_BLOCKED_BY_NOTHING);

    net.node[0].link_room = 8;
    conn->tx.peer_credit = 1000;
    unit_fix_window(conn, 4);
    for (unsigned i = 1; i < 4; i++) {
        unit_send_message(conn, &sends[i], 2, data, sizeof(data));
        assert_int_equal(rawe_conn_blocked_by(conn), RAWE_BLOCKED_BY_CONGESTION);
        assert_int_equal(counters(0)->blocked_congestion, i);
    }
    conn->tx.peer_credit = 4; /* takes precedence if both are used up */
    rawe_conn_output(conn, true, net.now_ns);
    assert_int_equal(rawe_conn_blocked_by(conn), RAWE_BLOCKED_BY_CREDIT);
    assert_int_equal(counters(0)->blocked_credit, 1);
    conn->tx.peer_credit = 1000;
    unit_fix_window(conn, 1000);
    rawe_conn_output(conn, true, net.now_ns);
    assert_int_equal(rawe_conn_blocked_by(conn), RAWE_BLOCKED_BY_PORT);
    assert_int_equal(counters(0)->blocked_port, 1);
    net.node[0].link_room = UINT32_MAX;
    rawe_engine_flush(&net.node[0].engine, net.now_ns);
    assert_int_equal(rawe_conn_blocked_by(conn), RAWE_BLOCKED_BY_WINDOW);
    assert_int_equal(counters(0)->blocked_window, 1);
    finish();
    unit_assert_sent(&sends[3], 1, RAWE_STATUS_DONE);
}

TEST(rawe_conn_send_copy__one_frame_with_one_fragment)
{
    unit_connect(&net, RAWE_LANE_EXPRESS);
    assert_int_equal(rawe_conn_send_copy(end(0), 0x5A, "head", 4, "tail!", 5), RAWE_STATUS_DONE);
    assert_int_equal(net_queue_count(&net.queue), 1);
    static const uint8_t payload[] = {1, 0x5A, 0, 9, 'h', 'e', 'a', 'd', 't', 'a', 'i', 'l', '!'};
    assert_int_equal(net.wire->header.payload_bytes, sizeof(payload));
    assert_memory_equal(net.wire->bytes + RAWE_PAYLOAD_OFFSET, payload, sizeof(payload));
    assert_int_equal(counters(0)->messages_sent, 1);
    assert_int_equal(counters(0)->bytes_sent, 9);
    assert_int_equal(counters(0)->frames_sent, 1);
    unit_settle(&net);
    assert_int_equal(net.node[1].messages[0].tag, 0x5A);
    assert_memory_equal(net.node[1].messages[0].data, "headtail!", 9);
}

TEST(rawe_conn_send_copy__busy_without_a_frame)
{
    net.node[0].engine.frames.limit = 0; /* a slab of each size is always had */
    unit_connect(&net, RAWE_LANE_EXPRESS);
    end(0)->tx.peer_credit = 1000;
    unit_fix_window(end(0), 1000);
    unsigned count = 0;
    while (unit_copy_message(end(0), 1, 10) == RAWE_STATUS_DONE) {
        count++;
    }
    assert_int_equal(count, 64);
    assert_int_equal(unit_copy_message(end(0), 1, 10), RAWE_STATUS_BUSY);
    finish();
    assert_int_equal(net.node[1].message_count, count);
    unit_send_copy(end(0), 1, 10);
}

/* Unless another thread transmits it, a message is not complete before. */
TEST(rawe_conn_send_copy__link_full_and_nothing_may_be_held_back)
{
    unit_connect(&net, RAWE_LANE_EXPRESS);
    net.node[0].link_room = 0;
    uint32_t next = end(0)->tx.window.next;
    for (unsigned i = 0; i < 3; i++) {
        assert_int_equal(unit_copy_message(end(0), 1, 700), RAWE_STATUS_BUSY);
    }
    assert_int_equal(end(0)->tx.window.next, next);
    assert_int_equal(counters(0)->blocked_port, 1); /* tried once */
    assert_int_equal(counters(0)->messages_sent, 0);
    net.node[0].link_room = UINT32_MAX;
    unit_settle(&net);
    unit_send_copy(end(0), 2, 700);
    finish();
    unit_assert_last(&net.node[1], 1, 2, 700, 2);
}

/** A send on a failed connection completes at once, unless the owner cannot be called. */
TEST(rawe_conn_send__has_failed)
{
    static uint8_t data[100];
    struct unit_send sends[3] = {0};
    unit_connect(&net, RAWE_LANE_EXPRESS);
    end(0)->handshake.state = RAWE_CONN_FAILED;
    unit_send_put(end(0), &sends[0], data, sizeof(data), 1, 2, 0);
    assert_int_equal(sends[0].done, 1);
    rawe_engine_defer_begin(&net.node[0].engine);
    unit_send_put(end(0), &sends[1], data, sizeof(data), 1, 2, 0);
    unit_send_put(end(0), &sends[2], data, sizeof(data), 1, 2, 0);
    assert_int_equal(sends[1].done + sends[2].done, 0);
    rawe_engine_defer_end(&net.node[0].engine);
    rawe_engine_deliver_deferred(&net.node[0].engine);
    unit_assert_sent(sends, 3, RAWE_STATUS_FAILED);
}

/** A callback gives a later time than its round began with; what follows must not look older. */
TEST(rawe_conn_send_copy__time_does_not_go_back)
{
    struct rawe_conn *conn = unit_connect(&net, RAWE_LANE_EXPRESS);
    net.now_ns += UNIT_MS;
    unit_send_copy(conn, 1, 1);
    net.now_ns -= UNIT_MS;
    unit_send_copy(conn, 1, 1);
    const struct rawe_txframe *newest = conn->tx.window.newest;
    assert_true(newest->first.oldest_ns >= newest->previous->first.oldest_ns);
}

/** Another connection has taken what was queued: nothing is awaited, or the timer never rests. */
TEST(rawe_conn_start__with_a_full_link_and_nothing_to_send)
{
    unit_connect(&net, RAWE_LANE_EXPRESS);
    net.node[0].engine.link_full = true;
    rawe_conn_start(end(0), net.now_ns);
    assert_int_equal(end(0)->path.liveness.waits_since_ns, 0);
    assert_int_equal(end(0)->path.liveness.probe_deadline_ns, 0);
}

static uint8_t late_data[3000];
static struct unit_send late_send;

/** Time has passed; one message goes by copy, the next waits for the round that is under way. */
static void send_two_later(struct unit_send *send)
{
    struct rawe_conn *conn = send->context;
    net.now_ns += UNIT_MS;
    unit_send_copy(conn, 2, 50);
    memset(&late_send, 0, sizeof(late_send));
    unit_send_message(conn, &late_send, 3, late_data, 1300);
}

TEST(rawe_conn_output__what_is_sent_later_does_not_look_older)
{
    struct unit_send first = {.on_done = send_two_later};
    unit_start_with((struct unit_options){.coalesce_from_frames = 64});
    struct rawe_conn *conn = unit_connect(&net, RAWE_LANE_EXPRESS);
    uint64_t before_ns = net.now_ns;
    uint32_t begin = conn->tx.window.next;
    first.context = conn;
    unit_fill(late_data, sizeof(late_data), 1);
    unit_send_message(conn, &first, 1, late_data, 100); /* copied, hence complete at once */
    assert_int_equal(first.done, 1);
    assert_int_equal(conn->tx.window.next, begin + 3);
    for (const struct rawe_txframe *frame = conn->tx.window.oldest->next; frame != NULL;
         frame = frame->next) {
        assert_true(rawe_txframe_sent_ns(frame) == before_ns + UNIT_MS);
    }
    unit_settle(&net);
}
