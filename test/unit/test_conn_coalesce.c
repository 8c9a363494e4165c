/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Tests of coalescing: when short messages share a frame, and how it is filled.
 */
#include "unit_coalesce.h"

#include <string.h>

#include "conn/rawe_conn_coalesce.h"
#include "conn/rawe_conn_send.h"
#include "conn/rawe_conn.h"

/** Payload of a frame with several messages: what fits the buffers of frames with copied data. */
#define LIMIT_BYTES (1024u + RAWE_FRAGMENT_BYTES_MAX)

/** Node 1 has the messages of connect_busy, then one of each tag from `tag` on, in this order. */
static void assert_delivered(unsigned index, uint8_t tag, unsigned count, size_t len_bytes)
{
    assert_int_equal(net.node[1].message_count, index + count);
    for (unsigned i = 0; i < count; i++) {
        unit_assert_message(&net.node[1], index + i, (uint8_t)(tag + i), len_bytes, tag + i);
    }
}

FIXTURE(unit_set_up_coalescing, unit_tear_down);

/* rawe_conn_coalesce_new */

TEST(rawe_conn_coalesce_new__no_large_frame_left)
{
    unit_start_with(
        (struct unit_options){.coalesce_from_frames = COALESCE_FROM, .window_frames = 256});
    net.node[0].engine.frames.limit = 0;
    unit_connect(&net, RAWE_LANE_EXPRESS);
    end(0)->cc.window = end(0)->peer_credit = 1000;
    unsigned count = 0;
    while (unit_copy_message(end(0), 9, 700) == RAWE_STATUS_DONE) {
        count++; /* too long to be held back */
    }
    assert_null(end(0)->coalescing);
    assert_int_equal(unit_copy_message(end(0), 1, 20), RAWE_STATUS_BUSY);
    assert_null(end(0)->coalescing);
    struct unit_send sends[2];
    uint8_t data[20];
    memset(sends, 0, sizeof(sends));
    unit_fill(data, sizeof(data), 1);
    unit_send_message(end(0), &sends[0], 1, data, sizeof(data));
    assert_int_equal(sends[0].done, 1); /* alone, a short one needs no large frame */
    assert_int_equal(unit_wire_count(&net), count + 1);
    finish();
    assert_int_equal(net.node[1].message_count, count + 1);
    unit_assert_message(&net.node[1], count, 1, sizeof(data), 1);
    assert_int_equal(counters(0)->messages_sent, count + 1);
}

/* rawe_conn_coalesce_fits */

TEST(rawe_conn_coalesce_fits__to_the_last_byte)
{
    connect_busy();
    copy(1, 500);
    copy(2, 400); /* 8 + 500 + 4 to the next multiple of 8, 8 + 400 */
    copy(3, LIMIT_BYTES - 512 - 408 - RAWE_FRAGMENT_MESSAGE_BYTES);
    assert_int_equal(unit_wire_count(&net), COALESCE_FROM);
    copy(4, 0); /* nothing fits any more, not even the shortest */
    assert_int_equal(unit_wire_count(&net), COALESCE_FROM + 1);
    assert_int_equal(last_frame()->header.payload_bytes, LIMIT_BYTES);
    assert_int_equal(messages_in(last_frame()), 3);
    finish();
    assert_int_equal(net.node[1].message_count, COALESCE_FROM + 4);
    unit_assert_message(&net.node[1], COALESCE_FROM + 2, 3, 120, 3);
    unit_assert_message(&net.node[1], COALESCE_FROM + 3, 4, 0, 4);
}

TEST(rawe_conn_coalesce_fits__one_byte_too_long_ends_the_frame)
{
    connect_busy();
    copy(1, 500);
    copy(2, 400);
    copy(3, LIMIT_BYTES - 512 - 408 - RAWE_FRAGMENT_MESSAGE_BYTES + 1);
    assert_int_equal(unit_wire_count(&net), COALESCE_FROM + 1);
    assert_int_equal(messages_in(last_frame()), 2);
    assert_non_null(end(0)->coalescing); /* which itself waits for more */
    copy(4, 5);
    flush(0);
    assert_int_equal(unit_wire_count(&net), COALESCE_FROM + 2);
    assert_int_equal(messages_in(last_frame()), 2);
    finish();
    assert_int_equal(net.node[1].message_count, COALESCE_FROM + 4);
    unit_assert_message(&net.node[1], COALESCE_FROM + 2, 3, 121, 3);
}

TEST(rawe_conn_coalesce_fits__frames_shorter_than_the_buffers)
{
    unit_start_with(
        (struct unit_options){.coalesce_from_frames = COALESCE_FROM, .payload_max_bytes = 512});
    connect_busy();
    for (uint8_t tag = 0; tag < 40; tag++) {
        copy(tag, 60); /* the harness checks that no frame is too long */
    }
    finish();
    assert_delivered(COALESCE_FROM, 0, 40, 60);
    assert_true(counters(0)->frames_sent < 40);
}

/* rawe_conn_coalesce_wanted */

TEST(rawe_conn_coalesce_poor__fewer_than_three_to_a_frame)
{
    connect_busy();
    size_t third = LIMIT_BYTES / 3 - RAWE_FRAGMENT_MESSAGE_BYTES;
    assert_false(rawe_conn_coalesce_poor(end(0), 1));
    assert_false(rawe_conn_coalesce_poor(end(0), third));
    assert_true(rawe_conn_coalesce_poor(end(0), third + 1));
}

TEST(rawe_conn_coalesce_wanted__first_messages_leave_at_once)
{
    unit_connect(&net, RAWE_LANE_EXPRESS);
    for (uint8_t tag = 0; tag < 6; tag++) {
        copy(tag, 30);
        assert_int_equal(unit_wire_count(&net), tag < COALESCE_FROM ? tag + 1u : COALESCE_FROM);
        assert_int_equal(end(0)->coalescing != NULL, tag >= COALESCE_FROM);
    }
    flush(0);
    assert_int_equal(unit_wire_count(&net), COALESCE_FROM + 1);
    assert_int_equal(messages_in(last_frame()), 6 - COALESCE_FROM);
    finish();
    assert_delivered(0, 0, 6, 30);
    copy(6, 30); /* nothing under way: at once again */
    assert_int_equal(unit_wire_count(&net), 1);
}

TEST(rawe_conn_coalesce_wanted__never_unless_asked_for)
{
    unit_start_with((struct unit_options){0});
    unit_connect(&net, RAWE_LANE_EXPRESS);
    for (uint8_t tag = 0; tag < 20; tag++) {
        copy(tag, 1);
        assert_null(end(0)->coalescing);
        assert_int_equal(unit_wire_count(&net), tag + 1);
    }
    finish();
    assert_delivered(0, 0, 20, 1);
    struct unit_send sends[20];
    uint8_t data[40];
    memset(sends, 0, sizeof(sends));
    unit_fill(data, sizeof(data), 1);
    end(0)->cc.window = 4; /* the others are queued */
    for (unsigned i = 0; i < 20; i++) {
        unit_send_message(end(0), &sends[i], 1, data, sizeof(data));
    }
    finish();
    assert_int_equal(net.node[1].message_count, 40);
    assert_int_equal(counters(0)->messages_coalesced, 0);
    assert_int_equal(counters(0)->frames_sent, 40);
}

TEST(rawe_conn_coalesce_wanted__longer_messages_do_not_wait)
{
    connect_busy();
    copy(1, LIMIT_BYTES / 2);
    assert_null(end(0)->coalescing);
    assert_int_equal(unit_wire_count(&net), COALESCE_FROM + 1);
    copy(2, LIMIT_BYTES / 2 - 1);
    assert_non_null(end(0)->coalescing);
    assert_int_equal(unit_wire_count(&net), COALESCE_FROM + 1);
    finish();
}

/* rawe_conn_coalesce */

TEST(rawe_conn_coalesce__nothing_held_back)
{
    connect_busy();
    assert_false(rawe_conn_coalesce(end(0), 1, "ab", 2, NULL, 0));
    copy(1, 10);
    assert_true(rawe_conn_coalesce(end(0), 2, "ab", 2, "c", 1));
    assert_true(rawe_conn_coalesce(end(0), 3, NULL, 0, "c", 1));
    assert_true(rawe_conn_coalesce(end(0), 4, NULL, 0, NULL, 0));
    assert_false(rawe_conn_coalesce(end(0), 5, last_frame()->bytes, 1024, NULL, 0));
    assert_int_equal(unit_wire_count(&net), COALESCE_FROM); /* it sends nothing by itself */
    flush(0);
    assert_false(rawe_conn_coalesce(end(0), 5, "ab", 2, NULL, 0));
    finish();
    assert_int_equal(net.node[1].message_count, COALESCE_FROM + 4);
    assert_memory_equal(net.node[1].messages[COALESCE_FROM + 1].data, "abc", 3);
    assert_int_equal(net.node[1].messages[COALESCE_FROM + 2].tag, 3);
    assert_memory_equal(net.node[1].messages[COALESCE_FROM + 2].data, "c", 1);
    assert_int_equal(net.node[1].messages[COALESCE_FROM + 3].tag, 4);
    assert_int_equal(net.node[1].messages[COALESCE_FROM + 3].len_bytes, 0);
}

TEST(rawe_conn_coalesce__messages_of_every_length)
{
    uint8_t ones[1024];
    unit_connect(&net, RAWE_LANE_EXPRESS);
    /* What frames are made from is not clean. */
    memset(ones, 0xFF, sizeof(ones));
    for (unsigned i = 0; i < 40; i++) {
        assert_int_equal(rawe_conn_send_copy(end(0), 9, ones, sizeof(ones), NULL, 0, net.now_ns),
                         RAWE_STATUS_DONE);
    }
    finish();
    const unsigned begin = net.node[1].message_count;
    for (unsigned length = 0; length < LIMIT_BYTES / 2; length++) {
        copy((uint8_t)length, length);
        if (length % 60 == 59) {
            for (const struct net_frame *frame = net.wire; frame != NULL; frame = frame->next) {
                (void)messages_in(frame);
            }
            finish();
        }
    }
    finish();
    assert_int_equal(net.node[1].message_count, begin + LIMIT_BYTES / 2);
    for (unsigned length = 0; length < LIMIT_BYTES / 2; length++) {
        unit_assert_message(&net.node[1], begin + length, (uint8_t)length, length, (uint8_t)length);
    }
    assert_int_equal(counters(1)->dropped_length, 0);
    assert_true(counters(0)->messages_coalesced > 300);
}

TEST(rawe_conn_coalesce__counts_each_message)
{
    connect_busy();
    for (uint8_t tag = 0; tag < 5; tag++) {
        copy(tag, 100);
    }
    finish();
    assert_int_equal(counters(0)->messages_sent, COALESCE_FROM + 5);
    assert_int_equal(counters(0)->messages_coalesced, 4); /* the first one joined none */
    assert_int_equal(counters(0)->bytes_sent, COALESCE_FROM * 10 + 500);
    assert_int_equal(counters(0)->frames_sent, COALESCE_FROM + 1);
    assert_int_equal(counters(1)->messages_received, COALESCE_FROM + 5);
    assert_int_equal(counters(1)->bytes_received, COALESCE_FROM * 10 + 500);
    assert_int_equal(counters(1)->frames_received, COALESCE_FROM + 1);
}

static unsigned answers;

/** Answers each message with three of its own. */
static void answer(struct unit_node *node, struct rawe_conn *conn, uint8_t tag)
{
    for (unsigned i = 0; i < 3; i++) {
        answers += unit_copy_message(conn, tag, tag) == RAWE_STATUS_DONE;
    }
}

TEST(rawe_conn_coalesce__answers_out_of_a_callback)
{
    connect_busy();
    answers = 0;
    net.node[1].on_deliver = answer;
    for (uint8_t tag = 0; tag < 30; tag++) {
        copy(tag, tag);
    }
    finish();
    assert_true(rawe_conn_drained(end(1)));
    assert_int_equal(net.node[1].message_count, COALESCE_FROM + 30);
    assert_int_equal(net.node[0].message_count, answers);
    assert_int_equal(answers, 3 * (COALESCE_FROM + 30));
    assert_true(counters(1)->messages_coalesced > 0);
    assert_true(counters(1)->frames_sent < answers / 2);
}

/* rawe_conn_coalesce_add */

TEST(rawe_conn_coalesce_add__queued_messages_share_frames)
{
    struct unit_send sends[30];
    uint8_t data[30][80];
    memset(sends, 0, sizeof(sends));
    unit_open(&net, 0, RAWE_LANE_EXPRESS);
    for (unsigned i = 0; i < 30; i++) {
        unit_fill(data[i], sizeof(data[i]), i);
        unit_send_message(end(0), &sends[i], (uint8_t)i, data[i], sizeof(data[i]));
        assert_int_equal(sends[i].done, 0);
    }
    finish();
    assert_delivered(0, 0, 30, 80);
    const unsigned each = LIMIT_BYTES / (RAWE_FRAGMENT_MESSAGE_BYTES + 80);
    const unsigned frames = (30 + each - 1) / each;
    assert_int_equal(counters(0)->frames_sent, frames);
    assert_int_equal(counters(0)->messages_coalesced, 30 - frames);
    assert_int_equal(counters(0)->messages_sent, 30);
    assert_int_equal(end(0)->queue.bytes, 0);
    for (unsigned i = 0; i < 30; i++) {
        assert_int_equal(sends[i].done, 1);
        assert_int_equal(sends[i].status, RAWE_STATUS_DONE);
    }
}

TEST(rawe_conn_coalesce_add__others_stand_between)
{
    static uint8_t data[40][5000];
    struct unit_send sends[40];
    memset(sends, 0, sizeof(sends));
    unit_open(&net, 0, RAWE_LANE_EXPRESS);
    for (unsigned i = 0; i < 40; i++) {
        unit_fill(data[i], sizeof(data[i]), i);
        sends[i].send.ordered = i % 7 == 2; /* not to be packed, however short */
        unit_send_message(end(0), &sends[i], (uint8_t)i, data[i], i % 7 == 5 ? 5000 : 20 + i);
    }
    finish();
    assert_int_equal(net.node[1].message_count, 40);
    bool had[40] = {false};
    for (unsigned i = 0; i < 40; i++) {
        unsigned tag = net.node[1].messages[i].tag;
        assert_false(had[tag]);
        had[tag] = true;
        unit_assert_message(&net.node[1], i, (uint8_t)tag, tag % 7 == 5 ? 5000 : 20 + tag, tag);
        assert_int_equal(sends[i].done, 1);
    }
    assert_true(counters(0)->messages_coalesced > 0);
    assert_int_equal(end(0)->queue.bytes, 0);
}

TEST(rawe_conn_coalesce_add__no_longer_than_the_envelope_of_batches_allows)
{
    unit_stop(&net);
    unit_init(&net);
    net.config.coalesce_from_frames = COALESCE_FROM;
    net.config.copy_max_bytes = net.config.payload_max_bytes;
    unit_start(&net);
    unit_use_batches(&net, 10);
    struct rawe_conn *bulk = unit_connect(&net, RAWE_LANE_BULK);
    static struct unit_send sends[200];
    uint8_t data[8];
    memset(sends, 0, sizeof(sends));
    unit_fill(data, sizeof(data), 3);
    for (unsigned i = 0; i < 200; i++) { /* queued behind the validation */
        unit_send_message(bulk, &sends[i], (uint8_t)i, data, sizeof(data));
    }
    unit_run(&net, 5 * UNIT_MS, 50 * UNIT_US);
    assert_int_equal(bulk->batch, RAWE_BATCH_VALID);
    assert_true(rawe_conn_drained(bulk)); /* the harness checks the lengths */
    assert_int_equal(net.node[1].message_count, 200);
    assert_true(counters(0)->messages_coalesced > 0);
}
