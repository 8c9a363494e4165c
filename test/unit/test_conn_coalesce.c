/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Tests of coalescing on the express lane: when short messages are held back, and what becomes of
 * them.
 */
#include "unit_pair.h"

#include <string.h>

#include "conn/rawe_conn_send.h"
#include "conn/rawe_conn.h"
#include "conn/rawe_conn_control.h"
#include "conn/rawe_conn_connect.h"

/** Messages are held back once this many frames are in flight. */
#define COALESCE_FROM 2u

/** A fixture: both nodes started, neither connected. */
static void unit_set_up_coalescing(void)
{
    unit_start_with((struct unit_options){.coalesce_from_frames = COALESCE_FROM});
}

/** Send a message from node 0. */
static void copy(uint8_t tag, size_t len_bytes)
{
    unit_send_copy(end(0), tag, len_bytes);
}

/** Open a lane with just enough frames in flight that the next short message is held back. */
static void connect_busy(void)
{
    unit_connect(&net, RAWE_LANE_EXPRESS);
    for (unsigned i = 0; i < COALESCE_FROM; i++) {
        copy(200, 10);
    }
    assert_int_equal(net_queue_count(&net.queue), COALESCE_FROM);
}

/** End a node's round of reception. */
static void flush(unsigned node)
{
    rawe_engine_flush(&net.node[node].engine, net.now_ns);
}

/** Return the frame sent last; there must be one. */
static struct net_frame *last_frame(void)
{
    struct net_frame *last = net.wire;
    while (last != NULL && last->next != NULL) {
        last = last->next;
    }
    assert_non_null(last);
    return last;
}

/** Return the number of messages in a frame; assert that the padding between them is zero. */
static unsigned messages_in(const struct net_frame *frame)
{
    const uint8_t *cursor = frame->bytes + RAWE_PAYLOAD_OFFSET;
    const uint8_t *end_of_payload = cursor + frame->header.payload_bytes;
    unsigned count = 0;
    while (cursor != end_of_payload) {
        struct rawe_fragment fragment;
        assert_int_equal(rawe_fragment_decode(&fragment, &cursor, end_of_payload), RAWE_DECODE_OK);
        assert_int_equal(fragment.kind, RAWE_FRAGMENT_MESSAGE);
        assert_int_equal(fragment.id, 0);
        for (const uint8_t *pad = fragment.data + fragment.data_bytes; pad < cursor; pad++) {
            assert_int_equal(*pad, 0);
        }
        count++;
    }
    return count;
}

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

static void set_up_busy(void)
{
    unit_set_up_coalescing();
    connect_busy();
}

FIXTURE(set_up_busy, unit_tear_down);
static const struct unit_fixture unconnected = {unit_set_up_coalescing, unit_tear_down};

TEST_WITH(unconnected, rawe_conn_coalesce_new__no_large_frame_left)
{
    unit_start_with(
        (struct unit_options){.coalesce_from_frames = COALESCE_FROM, .window_frames = 256});
    net.node[0].engine.frames.limit = 0;
    unit_connect(&net, RAWE_LANE_EXPRESS);
    end(0)->tx.peer_credit = 1000;
    unit_fix_window(end(0), 1000);
    unsigned count = 0;
    while (unit_copy_message(end(0), 9, 700) == RAWE_STATUS_DONE) {
        count++; /* too long to be held back */
    }
    assert_null(end(0)->tx.window.held);
    assert_int_equal(unit_copy_message(end(0), 1, 20), RAWE_STATUS_BUSY);
    assert_null(end(0)->tx.window.held);
    struct unit_send sends[2] = {0};
    uint8_t data[20];
    unit_fill(data, sizeof(data), 1);
    unit_send_message(end(0), &sends[0], 1, data, sizeof(data));
    assert_int_equal(sends[0].done, 1); /* alone, a short one needs no large frame */
    assert_int_equal(net_queue_count(&net.queue), count + 1);
    finish();
    unit_assert_last(&net.node[1], count + 1, 1, sizeof(data), 1);
    assert_int_equal(counters(0)->messages_sent, count + 1);
}

/** Of a frame that holds two messages already; one byte more ends it and begins the next. */
TEST(rawe_conn_coalesce_fits__to_the_last_byte)
{
    for (unsigned more = 0; more < 2; more++) {
        const size_t last_bytes =
            LIMIT_BYTES - 504 - 404 - RAWE_FRAGMENT_MESSAGE_BYTES + more; /* 4 + 498 + 2, 4 + 400 */
        set_up_busy();
        copy(1, 498);
        copy(2, 400);
        copy(3, last_bytes);
        assert_int_equal(net_queue_count(&net.queue), COALESCE_FROM + more);
        assert_non_null(end(0)->tx.window.held); /* the last frame waits for more */
        assert_int_equal(more != 0 ? messages_in(last_frame()) : 2, 2);
        copy(4, 0); /* nothing fits a full one any more, not even the shortest */
        assert_int_equal(net_queue_count(&net.queue), COALESCE_FROM + 1);
        if (more == 0) {
            assert_int_equal(last_frame()->header.payload_bytes, LIMIT_BYTES);
            assert_int_equal(messages_in(last_frame()), 3);
        } else {
            flush(0);
            assert_int_equal(messages_in(last_frame()), 2);
        }
        finish();
        assert_int_equal(net.node[1].message_count, COALESCE_FROM + 4);
        unit_assert_message(&net.node[1], COALESCE_FROM + 2, 3, last_bytes, 3);
        unit_assert_message(&net.node[1], COALESCE_FROM + 3, 4, 0, 4);
    }
}

TEST(rawe_conn_coalesce_poor__fewer_than_three_to_a_frame)
{
    size_t third = LIMIT_BYTES / 3 - RAWE_FRAGMENT_MESSAGE_BYTES;
    assert_false(rawe_conn_coalesce_poor(end(0), 1));
    assert_false(rawe_conn_coalesce_poor(end(0), third));
    assert_true(rawe_conn_coalesce_poor(end(0), third + 1));
}

TEST_WITH(unconnected, rawe_conn_coalesce_wanted__first_messages_leave_at_once)
{
    unit_connect(&net, RAWE_LANE_EXPRESS);
    for (uint8_t tag = 0; tag < 6; tag++) {
        copy(tag, 30);
        assert_int_equal(net_queue_count(&net.queue),
                         tag < COALESCE_FROM ? tag + 1u : COALESCE_FROM);
        assert_int_equal(end(0)->tx.window.held != NULL, tag >= COALESCE_FROM);
    }
    flush(0);
    assert_int_equal(net_queue_count(&net.queue), COALESCE_FROM + 1);
    assert_int_equal(messages_in(last_frame()), 6 - COALESCE_FROM);
    finish();
    assert_delivered(0, 0, 6, 30);
    copy(6, 30); /* nothing under way: at once again */
    assert_int_equal(net_queue_count(&net.queue), 1);
}

TEST(rawe_conn_coalesce_wanted__longer_messages_do_not_wait)
{
    copy(1, LIMIT_BYTES / 2);
    assert_null(end(0)->tx.window.held);
    assert_int_equal(net_queue_count(&net.queue), COALESCE_FROM + 1);
    copy(2, LIMIT_BYTES / 2 - 1);
    assert_non_null(end(0)->tx.window.held);
    assert_int_equal(net_queue_count(&net.queue), COALESCE_FROM + 1);
    finish();
}

TEST(rawe_conn_send_copy__joins_the_frame_that_is_held_back)
{
    copy(1, 10);
    assert_int_equal(rawe_conn_send_copy(end(0), 2, "ab", 2, "c", 1), RAWE_STATUS_DONE);
    assert_int_equal(rawe_conn_send_copy(end(0), 3, NULL, 0, "c", 1), RAWE_STATUS_DONE);
    assert_int_equal(rawe_conn_send_copy(end(0), 4, NULL, 0, NULL, 0), RAWE_STATUS_DONE);
    assert_int_equal(net_queue_count(&net.queue), COALESCE_FROM);
    flush(0);
    assert_int_equal(net_queue_count(&net.queue), COALESCE_FROM + 1);
    finish();
    assert_int_equal(net.node[1].message_count, COALESCE_FROM + 4);
    assert_memory_equal(net.node[1].messages[COALESCE_FROM + 1].data, "abc", 3);
    assert_int_equal(net.node[1].messages[COALESCE_FROM + 2].tag, 3);
    assert_memory_equal(net.node[1].messages[COALESCE_FROM + 2].data, "c", 1);
    assert_int_equal(net.node[1].messages[COALESCE_FROM + 3].tag, 4);
    assert_int_equal(net.node[1].messages[COALESCE_FROM + 3].len_bytes, 0);
}

TEST_WITH(unconnected, rawe_conn_coalesce_add__queued_messages_share_frames)
{
    struct unit_send sends[30] = {0};
    uint8_t data[30][80];
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
    assert_int_equal(counters(1)->messages_received, 30);
    assert_int_equal(counters(0)->bytes_sent, 30 * 80);
    assert_int_equal(counters(1)->bytes_received, 30 * 80);
    assert_int_equal(end(0)->tx.queue.bytes, 0);
    unit_assert_sent(sends, 30, RAWE_STATUS_DONE);
}

TEST(rawe_conn_coalesce_flush__acknowledgement_rides_along)
{
    unit_send_copy(end(1), 1, 10);
    struct net_frame *frames[COALESCE_FROM + 1];
    for (unsigned i = 0; i <= COALESCE_FROM; i++) {
        frames[i] = net_queue_take(&net.queue);
    }
    unit_receive(&net, frames[COALESCE_FROM]);
    copy(1, 10);
    net.now_ns += net.config.ack_delay_ns + 20 * UNIT_US;
    rawe_engine_advance(&net.node[0].engine, net.now_ns);
    assert_true(end(0)->rx.window.ack_now);
    flush(0);
    assert_int_equal(net_queue_count(&net.queue), 1); /* nothing but what was held back */
    assert_int_equal(net.wire->header.type, RAWE_FRAME_DATA);
    assert_int_equal(net.wire->header.acknowledgement, 1);
    assert_false(end(0)->rx.window.ack_now);
    assert_int_equal(end(0)->rx.window.ack_deadline_ns, 0);
    assert_int_equal(counters(0)->acks_sent, 0);
    for (unsigned i = 0; i < COALESCE_FROM; i++) {
        net_queue_put(&net.queue, frames[i]);
    }
    net_frame_free(frames[COALESCE_FROM]);
    finish();
    assert_int_equal(net.node[1].message_count, COALESCE_FROM + 1);
}
