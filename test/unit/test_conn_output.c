/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Tests of output: frames to the link, which may be full, and again after losses.
 */
#include "unit_pair.h"

#include <string.h>

#include "conn/rawe_conn.h"

static bool drop_from_node_1(struct unit_net *unused, const struct net_frame *frame)
{
    return frame->from != 1;
}

FIXTURE(unit_set_up, unit_tear_down);

/* rawe_conn_output */

TEST(rawe_conn_output__link_full_at_every_place)
{
    static uint8_t data[30000];
    unit_fill(data, sizeof(data), 7);
    unit_connect(&net, RAWE_LANE_EXPRESS);
    end(0)->cc.window = end(0)->peer_credit = 64;
    for (unsigned room = 0; room < 25; room++) {
        struct unit_send send = {0};
        uint64_t frames_before = counters(0)->frames_sent;
        net.node[0].link_room = room;
        unit_send_message(end(0), &send, 1, data, sizeof(data));
        assert_int_equal(counters(0)->frames_sent - frames_before, room < 21 ? room : 21);
        for (unsigned i = 0; i < 60 && send.done == 0; i++) {
            net.node[0].link_room = 1 + room % 3; /* a little more at a time */
            unit_run(&net, 50 * UNIT_US, 50 * UNIT_US);
        }
        assert_int_equal(send.done, 1);
        unit_assert_message(&net.node[1], room, 1, sizeof(data), 7);
    }
    assert_int_equal(counters(0)->frames_resent, 0);
    assert_int_equal(counters(1)->duplicates, 0);
    assert_true(counters(0)->link_stalls > 20);
}

static bool drop_every_third_data(struct unit_net *of, const struct net_frame *frame)
{
    return frame->header.type != RAWE_FRAME_DATA || of->filter_count++ % 3 != 0;
}

TEST(rawe_conn_output__resends_with_a_link_that_is_nearly_always_full)
{
    static uint8_t data[60000];
    struct unit_send sends[4];
    memset(sends, 0, sizeof(sends));
    unit_fill(data, sizeof(data), 9);
    unit_connect(&net, RAWE_LANE_EXPRESS);
    net.filter = drop_every_third_data;
    net.node[0].link_room = 3;
    for (unsigned i = 0; i < 4; i++) {
        unit_send_message(end(0), &sends[i], (uint8_t)i, data, sizeof(data) - i);
    }
    for (unsigned i = 0; i < 20000 && !rawe_conn_drained(end(0)); i++) {
        net.node[0].link_room = i % 4;
        net.node[1].link_room = (i / 2) % 3;
        unit_run(&net, 50 * UNIT_US, 50 * UNIT_US);
    }
    assert_true(rawe_conn_drained(end(0)));
    assert_int_equal(net.node[1].message_count, 4);
    for (unsigned i = 0; i < 4; i++) {
        assert_int_equal(sends[i].done, 1);
        uint8_t tag = net.node[1].messages[i].tag;
        unit_assert_message(&net.node[1], i, tag, sizeof(data) - tag, 9);
    }
    net.node[1].link_room = UINT32_MAX;
}

static bool drop_some(struct unit_net *of, const struct net_frame *frame)
{
    of->filter_count = of->filter_count * 1664525u + 1013904223u;
    return (of->filter_count >> 16) % 8 != 0;
}

TEST(rawe_conn_output__across_the_wrap_with_losses)
{
    static uint8_t data[2][20000];
    for (uint32_t before = 0; before < 60; before += 7) {
        struct unit_send sends[2][5];
        memset(sends, 0, sizeof(sends));
        unit_connect(&net, RAWE_LANE_EXPRESS);
        unit_begin_at(&net, RAWE_LANE_EXPRESS, UINT32_MAX - before);
        net.filter = drop_some;
        unsigned messages[2] = {net.node[0].message_count, net.node[1].message_count};
        for (unsigned from = 0; from < 2; from++) {
            unit_fill(data[from], sizeof(data[from]), from);
            for (unsigned i = 0; i < 5; i++) {
                unit_send_message(end(from), &sends[from][i], (uint8_t)i, data[from],
                                  sizeof(data[from]) - i);
            }
        }
        unit_run(&net, 200 * UNIT_MS, 50 * UNIT_US);
        net.filter = NULL;
        unit_run(&net, 200 * UNIT_MS, 100 * UNIT_US);
        for (unsigned from = 0; from < 2; from++) {
            assert_int_equal(net.node[1 - from].message_count, messages[1 - from] + 5);
            for (unsigned i = 0; i < 5; i++) {
                const struct unit_node *to = &net.node[1 - from];
                unsigned at = messages[1 - from] + i;
                assert_int_equal(sends[from][i].done, 1);
                unit_assert_message(to, at, to->messages[at].tag,
                                    sizeof(data[from]) - to->messages[at].tag, from);
            }
            assert_true(rawe_conn_drained(end(from)));
            assert_true(end(from)->sendwin.next < UINT32_MAX - before); /* it has wrapped */
        }
        unit_close(&net, 0, RAWE_LANE_EXPRESS);
        unit_settle(&net);
        unit_close(&net, 1, RAWE_LANE_EXPRESS);
    }
}

TEST(rawe_conn_output__nothing_is_lost_when_acknowledgements_stop)
{
    static uint8_t data[60000];
    struct unit_send send = {0};
    unit_fill(data, sizeof(data), 4);
    unit_connect(&net, RAWE_LANE_EXPRESS);
    net.filter = drop_from_node_1;
    unit_send_message(end(0), &send, 1, data, sizeof(data));
    unit_run(&net, UNIT_S, UNIT_MS);
    assert_int_equal(send.done, 0);
    net.filter = NULL;
    finish();
    assert_int_equal(send.done, 1);
    assert_int_equal(counters(0)->frames_resent, 0); /* the frames had arrived all the time */
    unit_assert_message(&net.node[1], 0, 1, sizeof(data), 4);
}

/* rawe_conn_transmit_control */

static uint8_t late_data[3000];
static struct unit_send late_send;

/** Time has passed; one message goes by copy, the next waits for the round that is under way. */
static void send_two_later(struct unit_send *send)
{
    struct rawe_conn *conn = send->context;
    net.now_ns += UNIT_MS;
    assert_int_equal(unit_copy_message(conn, 2, 50), RAWE_STATUS_DONE);
    memset(&late_send, 0, sizeof(late_send));
    unit_send_message(conn, &late_send, 3, late_data, 1300);
}

TEST(rawe_conn_output__what_is_sent_later_does_not_look_older)
{
    struct unit_send first = {.on_done = send_two_later};
    unit_start_with((struct unit_options){.coalesce_from_frames = 64});
    struct rawe_conn *conn = unit_connect(&net, RAWE_LANE_EXPRESS);
    uint64_t before_ns = net.now_ns;
    uint32_t begin = conn->sendwin.next;
    first.context = conn;
    unit_fill(late_data, sizeof(late_data), 1);
    unit_send_message(conn, &first, 1, late_data, 100); /* copied, hence complete at once */
    assert_int_equal(first.done, 1);
    assert_int_equal(conn->sendwin.next, begin + 3);
    for (uint32_t sequence = begin + 1; sequence != conn->sendwin.next; sequence++) {
        const struct rawe_txframe *frame =
            conn->sendwin.slots[sequence & (net.config.window_frames - 1)];
        assert_true(rawe_txframe_sent_ns(frame) == before_ns + UNIT_MS);
    }
    unit_settle(&net);
}
