/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Tests of sending, by copy and from the caller's memory: the frames and fragments that a connection
 * hands to the link, sends that wait for a batch to fill, short messages that are held back, and sends
 * whose owner learns that they have been transmitted.
 */
#include "unit_pair.h"

#include <string.h>

#include "conn/rawe_conn.h"
#include "conn/rawe_conn_connect.h"
#include "conn/rawe_conn_send.h"
#include "conn/rawe_conn_control.h"

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

#define COALESCE_FROM 2u
#define BATCH_FRAMES 16u

static uint8_t pattern[100000];

static struct unit_send many[400];
static size_t lengths[400];
static unsigned send_count;

static void start_coalescing(uint32_t coalesce_from)
{
    unit_start_with((struct unit_options){.coalesce_from_frames = coalesce_from,
                                          .message_max_bytes = sizeof(pattern),
                                          .window_frames = 256});
    unit_fill(pattern, sizeof(pattern), 5);
    send_count = 0;
}

static void set_up_coalescing(void)
{
    unit_lane = RAWE_LANE_BULK;
    start_coalescing(COALESCE_FROM);
}

/** Data of a frame of a batch. */
static size_t segment_bytes(void)
{
    return net.config.payload_max_bytes + RAWE_HEADER_BYTES - RAWE_BATCH_HEADER_BYTES -
           NET_BATCH_OVERHEAD_BYTES;
}

static size_t batch_bytes(void)
{
    return BATCH_FRAMES * segment_bytes();
}

/** Return the size of a message in a bundle, with fragment header and padding. */
static size_t bundled_bytes(size_t len_bytes)
{
    return rawe_fragment_pad(RAWE_FRAGMENT_MESSAGE_BYTES + len_bytes);
}

static unsigned frames_of(size_t len_bytes)
{
    return (unsigned)((len_bytes + segment_bytes() - 1) / segment_bytes());
}

static void send_next(size_t len_bytes)
{
    struct unit_send *unit = &many[send_count];
    lengths[send_count] = len_bytes;
    memset(unit, 0, sizeof(*unit));
    unit->send.ordered = true;
    unit_send_message(end(0), unit, (uint8_t)send_count++, pattern, len_bytes);
}

static void send_some(unsigned count, size_t len_bytes)
{
    for (unsigned i = 0; i < count; i++) {
        send_next(len_bytes);
    }
}

/** All that was sent has arrived, in order, once. */
static void assert_delivered(void)
{
    assert_int_equal(net.node[1].message_count, send_count);
    for (unsigned i = 0; i < send_count; i++) {
        unit_assert_message(&net.node[1], i, (uint8_t)i, lengths[i], 5);
    }
    unit_assert_sent(many, send_count, RAWE_STATUS_DONE);
    assert_int_equal(counters(1)->dropped_fragment + counters(1)->dropped_length, 0);
}

/** An open bulk lane on which batches pass. */
static void connect_good(void)
{
    unit_use_batches(&net, BATCH_FRAMES);
    unit_connect(&net, RAWE_LANE_BULK);
    send_next(20000); /* more than goes without validation */
    finish();
    assert_int_equal(end(0)->path.batch, RAWE_BATCH_VALID);
    unit_fix_window(end(0), 64);
}

/** Connect, then put enough frames in flight that later messages coalesce. */
static void connect_busy(void)
{
    connect_good();
    send_next(2 * COALESCE_FROM * segment_bytes());
    assert_int_equal(end(0)->tx.queue.bytes, 0);
    assert_int_equal(end(0)->tx.window.in_flight, 2 * COALESCE_FROM);
    unit_step(&net); /* off the wire */
    assert_true(end(0)->tx.window.in_flight >= 2 * COALESCE_FROM);
    net_queue_clear(&net.queue); /* drop the replies */
}

static void flush(void)
{
    rawe_engine_flush(&net.node[0].engine, net.now_ns);
}

/** Batches of node 0 on the wire; all but the last frame of each are equally long. */
static unsigned batches_on_wire(void)
{
    unsigned count = 0, number = 0;
    size_t first_bytes = 0, last_bytes = 0;
    for (const struct net_frame *frame = net.wire; frame != NULL; frame = frame->next) {
        if (frame->from != 0 || frame->batch == 0) {
            continue;
        }
        if (frame->batch != number) {
            number = frame->batch;
            first_bytes = frame->len_bytes;
            count++;
        } else {
            assert_int_equal(last_bytes, first_bytes);
        }
        last_bytes = frame->len_bytes;
        assert_true(last_bytes <= first_bytes);
    }
    return count;
}

static const struct unit_fixture with_batches = {set_up_coalescing, unit_tear_down};

TEST_WITH(with_batches, coalesces__until_the_round_ends)
{
    connect_busy();
    send_some(3, 3000);
    assert_int_equal(net_queue_count(&net.queue), 0);
    assert_int_equal(end(0)->tx.queue.bytes, 9000);
    assert_true(rawe_engine_pending(&net.node[0].engine));
    assert_false(rawe_conn_drained(end(0)));
    flush();
    assert_int_equal(end(0)->tx.queue.bytes, 0);
    assert_int_equal(net_queue_count(&net.queue), frames_of(3 * bundled_bytes(3000)));
    assert_int_equal(batches_on_wire(), 1);
    finish();
    assert_delivered();
}

TEST_WITH(with_batches, coalesces__until_there_is_enough_for_a_batch)
{
    connect_busy();
    unsigned count = 0;
    while ((count + 1) * bundled_bytes(3000) < batch_bytes()) {
        send_next(3000);
        count++;
        assert_int_equal(net_queue_count(&net.queue), 0);
    }
    send_next(3000);
    assert_int_equal(net_queue_count(&net.queue), frames_of(count * bundled_bytes(3000)));
    assert_int_equal(batches_on_wire(), 1);
    assert_int_equal(end(0)->tx.queue.bytes, 3000); /* the rest waits for more */
    assert_true(rawe_engine_pending(&net.node[0].engine));
    finish();
    assert_delivered();
}

TEST_WITH(with_batches, coalesces__short_messages_fill_a_batch_with_their_headers)
{
    connect_busy();
    unsigned count = 0;
    while ((count + 1) * bundled_bytes(200) < batch_bytes()) {
        send_next(200);
        assert_int_equal(net_queue_count(&net.queue), 0);
        assert_int_equal(end(0)->tx.queue.count, ++count);
    }
    send_next(200);
    assert_int_equal(net_queue_count(&net.queue), BATCH_FRAMES);
    assert_int_equal(batches_on_wire(), 1);
    assert_in_range(end(0)->tx.queue.count, 0, 1);
    finish();
    assert_delivered();
}

TEST_WITH(with_batches, coalesces__not_unless_asked_for)
{
    unit_stop(&net);
    start_coalescing(0);
    connect_good();
    for (unsigned i = 0; i < 20; i++) {
        send_next(3000);
        assert_int_equal(net_queue_count(&net.queue), 3 * (i + 1));
    }
    finish();
    net.node[0].link_room = 0;
    send_some(5, 3000);
    net.node[0].link_room = UINT32_MAX;
    flush();
    assert_int_equal(batches_on_wire(), 5); /* nor do they share batches */
    finish();
    assert_delivered();
}

#define SENDS 12u
#define SEND_BYTES 9000u

/** The tests' record of each send. */
static struct unit_send reported[SENDS];
static uint8_t original[SENDS][SEND_BYTES];
static unsigned transmitted_calls[SENDS];
static bool nested; /**< frames in flight arrive, and are acknowledged, inside the callback */

static void set_up_reports(void)
{
    unit_lane = RAWE_LANE_BULK;
    unit_start_with((struct unit_options){.window_frames = 256});
    memset(reported, 0, sizeof(reported));
    memset(transmitted_calls, 0, sizeof(transmitted_calls));
    nested = false;
}

static void left(struct rawe_send *send, struct rawe_conn *conn);

static void send_one(unsigned index, size_t len_bytes)
{
    unit_fill(original[index], len_bytes, index);
    reported[index].send.transmitted = left;
    unit_send_message(end(0), &reported[index], (uint8_t)index, original[index], len_bytes);
}

static void left(struct rawe_send *send, struct rawe_conn *conn)
{
    unsigned index = (unsigned)((struct unit_send *)(void *)send - reported);
    assert_true(index < SENDS);
    assert_ptr_equal(conn, end(0));
    assert_int_equal(send->framed_bytes, send->total_bytes);
    assert_int_equal(reported[index].done, 0); /* before it */
    transmitted_calls[index]++;
    if (nested) {
        unit_settle(&net);
    }
}

static void assert_reported(unsigned count, size_t len_bytes)
{
    assert_int_equal(net.node[1].message_count, count);
    for (unsigned i = 0; i < count; i++) {
        uint8_t tag = net.node[1].messages[i].tag;
        unit_assert_message(&net.node[1], i, tag, len_bytes, tag);
        unit_assert_sent(&reported[tag], 1, RAWE_STATUS_DONE);
    }
}

static const struct unit_fixture with_reports = {set_up_reports, unit_tear_down};

TEST_WITH(with_reports, report_transmitted__a_copied_message_is_done_at_once)
{
    unit_start_with((struct unit_options){.coalesce_from_frames = 64});
    unit_connect(&net, RAWE_LANE_BULK);
    send_one(0, 100);
    assert_int_equal(reported[0].done, 1);
    assert_int_equal(transmitted_calls[0], 0);
    finish();
    assert_reported(1, 100);
}

TEST_WITH(with_reports, report_transmitted__not_while_deferring)
{
    unit_connect(&net, RAWE_LANE_BULK);
    unit_fix_window(end(0), 3);
    send_one(0, SEND_BYTES);
    rawe_engine_defer_begin(&net.node[0].engine);
    finish();
    assert_int_equal(transmitted_calls[0] + reported[0].done, 0);
    rawe_engine_defer_end(&net.node[0].engine);
    rawe_engine_deliver_deferred(&net.node[0].engine);
    assert_int_equal(transmitted_calls[0], 0); /* done comes first */
    assert_reported(1, SEND_BYTES);
}

/** Sends that the link has had no room for, all to be transmitted in the same turn. */
static void send_while_link_full(unsigned count, size_t len_bytes)
{
    net.node[0].link_room = 0;
    for (unsigned i = 0; i < count; i++) {
        send_one(i, len_bytes);
    }
    assert_int_equal(net_queue_count(&net.queue), 0);
    net.node[0].link_room = UINT32_MAX;
}

TEST_WITH(with_reports, report_transmitted__acknowledged_inside_the_callback)
{
    unit_connect(&net, RAWE_LANE_BULK);
    send_while_link_full(8, 3000);
    nested = true;
    unit_settle(&net);
    assert_int_equal(transmitted_calls[0], 1);
    finish();
    assert_reported(8, 3000);
    for (unsigned i = 1; i < 8; i++) {
        assert_true(transmitted_calls[i] <= 1); /* done may have come first */
    }
}

/** Messages are held back once this many frames are in flight. */
#define HOLD_FROM 2u

/** A fixture: both nodes started, neither connected. */
static void unit_set_up_coalescing(void)
{
    unit_start_with((struct unit_options){.coalesce_from_frames = HOLD_FROM});
}

/** Send a message from node 0. */
static void copy(uint8_t tag, size_t len_bytes)
{
    unit_send_copy(end(0), tag, len_bytes);
}

/** Open a lane with just enough frames in flight that the next short message is held back. */
static void connect_holding(void)
{
    unit_connect(&net, RAWE_LANE_EXPRESS);
    for (unsigned i = 0; i < HOLD_FROM; i++) {
        copy(200, 10);
    }
    assert_int_equal(net_queue_count(&net.queue), HOLD_FROM);
}

/** End a node's round of reception. */
static void flush_node(unsigned node)
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

/** Node 1 has the messages of connect_holding, then one of each tag from `tag` on, in this order. */
static void assert_held_delivered(unsigned index, uint8_t tag, unsigned count, size_t len_bytes)
{
    assert_int_equal(net.node[1].message_count, index + count);
    for (unsigned i = 0; i < count; i++) {
        unit_assert_message(&net.node[1], index + i, (uint8_t)(tag + i), len_bytes, tag + i);
    }
}

static void set_up_busy(void)
{
    unit_set_up_coalescing();
    connect_holding();
}

static const struct unit_fixture busy = {set_up_busy, unit_tear_down};
static const struct unit_fixture unconnected = {unit_set_up_coalescing, unit_tear_down};

TEST_WITH(unconnected, rawe_conn_coalesce_new__no_large_frame_left)
{
    unit_start_with((struct unit_options){.coalesce_from_frames = HOLD_FROM, .window_frames = 256});
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
TEST_WITH(busy, rawe_conn_coalesce_fits__to_the_last_byte)
{
    for (unsigned more = 0; more < 2; more++) {
        const size_t last_bytes =
            LIMIT_BYTES - 504 - 404 - RAWE_FRAGMENT_MESSAGE_BYTES + more; /* 4 + 498 + 2, 4 + 400 */
        set_up_busy();
        copy(1, 498);
        copy(2, 400);
        copy(3, last_bytes);
        assert_int_equal(net_queue_count(&net.queue), HOLD_FROM + more);
        assert_non_null(end(0)->tx.window.held); /* the last frame waits for more */
        assert_int_equal(more != 0 ? messages_in(last_frame()) : 2, 2);
        copy(4, 0); /* nothing fits a full one any more, not even the shortest */
        assert_int_equal(net_queue_count(&net.queue), HOLD_FROM + 1);
        if (more == 0) {
            assert_int_equal(last_frame()->header.payload_bytes, LIMIT_BYTES);
            assert_int_equal(messages_in(last_frame()), 3);
        } else {
            flush_node(0);
            assert_int_equal(messages_in(last_frame()), 2);
        }
        finish();
        assert_int_equal(net.node[1].message_count, HOLD_FROM + 4);
        unit_assert_message(&net.node[1], HOLD_FROM + 2, 3, last_bytes, 3);
        unit_assert_message(&net.node[1], HOLD_FROM + 3, 4, 0, 4);
    }
}

TEST_WITH(busy, rawe_conn_coalesce_poor__fewer_than_three_to_a_frame)
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
        assert_int_equal(net_queue_count(&net.queue), tag < HOLD_FROM ? tag + 1u : HOLD_FROM);
        assert_int_equal(end(0)->tx.window.held != NULL, tag >= HOLD_FROM);
    }
    flush_node(0);
    assert_int_equal(net_queue_count(&net.queue), HOLD_FROM + 1);
    assert_int_equal(messages_in(last_frame()), 6 - HOLD_FROM);
    finish();
    assert_held_delivered(0, 0, 6, 30);
    copy(6, 30); /* nothing under way: at once again */
    assert_int_equal(net_queue_count(&net.queue), 1);
}

TEST_WITH(busy, rawe_conn_coalesce_wanted__longer_messages_do_not_wait)
{
    copy(1, LIMIT_BYTES / 2);
    assert_null(end(0)->tx.window.held);
    assert_int_equal(net_queue_count(&net.queue), HOLD_FROM + 1);
    copy(2, LIMIT_BYTES / 2 - 1);
    assert_non_null(end(0)->tx.window.held);
    assert_int_equal(net_queue_count(&net.queue), HOLD_FROM + 1);
    finish();
}

TEST_WITH(busy, rawe_conn_send_copy__joins_the_frame_that_is_held_back)
{
    copy(1, 10);
    assert_int_equal(rawe_conn_send_copy(end(0), 2, "ab", 2, "c", 1), RAWE_STATUS_DONE);
    assert_int_equal(rawe_conn_send_copy(end(0), 3, NULL, 0, "c", 1), RAWE_STATUS_DONE);
    assert_int_equal(rawe_conn_send_copy(end(0), 4, NULL, 0, NULL, 0), RAWE_STATUS_DONE);
    assert_int_equal(net_queue_count(&net.queue), HOLD_FROM);
    flush_node(0);
    assert_int_equal(net_queue_count(&net.queue), HOLD_FROM + 1);
    finish();
    assert_int_equal(net.node[1].message_count, HOLD_FROM + 4);
    assert_memory_equal(net.node[1].messages[HOLD_FROM + 1].data, "abc", 3);
    assert_int_equal(net.node[1].messages[HOLD_FROM + 2].tag, 3);
    assert_memory_equal(net.node[1].messages[HOLD_FROM + 2].data, "c", 1);
    assert_int_equal(net.node[1].messages[HOLD_FROM + 3].tag, 4);
    assert_int_equal(net.node[1].messages[HOLD_FROM + 3].len_bytes, 0);
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
    assert_held_delivered(0, 0, 30, 80);
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

TEST_WITH(busy, rawe_conn_coalesce_flush__acknowledgement_rides_along)
{
    unit_send_copy(end(1), 1, 10);
    struct net_frame *frames[HOLD_FROM + 1];
    for (unsigned i = 0; i <= HOLD_FROM; i++) {
        frames[i] = net_queue_take(&net.queue);
    }
    unit_receive(&net, frames[HOLD_FROM]);
    copy(1, 10);
    net.now_ns += net.config.ack_delay_ns + 20 * UNIT_US;
    rawe_engine_advance(&net.node[0].engine, net.now_ns);
    assert_true(end(0)->rx.window.ack_now);
    flush_node(0);
    assert_int_equal(net_queue_count(&net.queue), 1); /* nothing but what was held back */
    assert_int_equal(net.wire->header.type, RAWE_FRAME_DATA);
    assert_int_equal(net.wire->header.acknowledgement, 1);
    assert_false(end(0)->rx.window.ack_now);
    assert_int_equal(end(0)->rx.window.ack_deadline_ns, 0);
    assert_int_equal(counters(0)->acks_sent, 0);
    for (unsigned i = 0; i < HOLD_FROM; i++) {
        net_queue_put(&net.queue, frames[i]);
    }
    net_frame_free(frames[HOLD_FROM]);
    finish();
    assert_int_equal(net.node[1].message_count, HOLD_FROM + 1);
}
