/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Tests of sending copies and the caller's memory: the frames and fragments that a connection
 * hands to the link, and sends that wait for a batch to fill.
 */
#include "unit_pair.h"

#include <string.h>

#include "conn/rawe_conn.h"
#include "conn/rawe_conn_connect.h"
#include "conn/rawe_conn_send.h"
#include "conn/rawe_conn_tx.h"

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
    conn->tx.peer_credit = 4; /* if both limits are reached, credit is reported */
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

TEST(rawe_conn_send_copy__busy_without_a_frame)
{
    net.node[0].engine.frames.limit = 0; /* one slab of each size is always allowed */
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

/* Without a thread that would transmit it, a waiting message must not be reported as complete. */
TEST(rawe_conn_send_copy__link_full_and_nothing_may_be_held_back)
{
    unit_connect(&net, RAWE_LANE_EXPRESS);
    net.node[0].link_room = 0;
    uint32_t next = end(0)->tx.window.next;
    for (unsigned i = 0; i < 3; i++) {
        assert_int_equal(unit_copy_message(end(0), 1, 700), RAWE_STATUS_BUSY);
    }
    assert_int_equal(end(0)->tx.window.next, next);
    assert_int_equal(counters(0)->blocked_port, 1); /* the link was tried once */
    assert_int_equal(counters(0)->messages_sent, 0);
    net.node[0].link_room = UINT32_MAX;
    unit_settle(&net);
    unit_send_copy(end(0), 2, 700);
    finish();
    unit_assert_last(&net.node[1], 1, 2, 700, 2);
}

/** A send on a failed connection completes at once, unless callbacks are deferred. */
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

/** A callback may read a later clock than its round; frames sent after it must not look older. */
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

/** Another connection took the queued data: with nothing to wait for, no timer may stay armed. */
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

/** Advance the clock and send two messages: one by copy, one queued until the round ends. */
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
    unit_send_message(conn, &first, 1, late_data, 100); /* copied, so complete at once */
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

/** Return the number of data bytes in each frame of a batch. */
static size_t segment_bytes(void)
{
    return net.config.payload_max_bytes + RAWE_HEADER_BYTES - RAWE_BATCH_HEADER_BYTES -
           NET_BATCH_OVERHEAD_BYTES;
}

/** Return the size of a message in a bundle, including its fragment header and padding. */
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

/** Assert that everything sent has arrived once and in order. */
static void assert_delivered(void)
{
    assert_int_equal(net.node[1].message_count, send_count);
    for (unsigned i = 0; i < send_count; i++) {
        unit_assert_message(&net.node[1], i, (uint8_t)i, lengths[i], 5);
    }
    unit_assert_sent(many, send_count, RAWE_STATUS_DONE);
    assert_int_equal(counters(1)->dropped_fragment + counters(1)->dropped_length, 0);
}

/** Open a bulk lane and validate batches on it. */
static void connect_good(void)
{
    unit_use_batches(&net, BATCH_FRAMES);
    unit_connect(&net, RAWE_LANE_BULK);
    send_next(20000); /* long enough to validate batches */
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
    unit_step(&net); /* deliver the frames */
    assert_true(end(0)->tx.window.in_flight >= 2 * COALESCE_FROM);
    net_queue_clear(&net.queue); /* drop the acknowledgements */
}

static void flush(void)
{
    rawe_engine_flush(&net.node[0].engine, net.now_ns);
}

/** Count node 0's batches on the wire. Only the last frame of a batch may be shorter. */
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

/** After a computation, frames still count as in flight until we read their acknowledgements. */
TEST_WITH(with_batches, waits_for_full_batch__not_behind_an_earlier_burst)
{
    connect_busy();
    net.now_ns += UNIT_MS;
    send_some(1, 3000);
    assert_int_equal(end(0)->tx.queue.bytes, 0);
    assert_int_equal(batches_on_wire(), 1);
    finish();
    assert_delivered();
}

TEST_WITH(with_batches, rawe_conn_flush__data_carries_the_acknowledgement)
{
    for (unsigned answers = 0; answers < 2; answers++) {
        connect_busy();
        send_some(1, 3000);
        uint64_t acks = counters(0)->acks_sent;
        rawe_recvwin_owe_now(&end(0)->rx.window);
        if (answers) {
            rawe_recvwin_owe_answer(&end(0)->rx.window, 1); /* an answer needs an ACK frame */
        }
        flush();
        assert_int_equal(net.wire->header.type, answers ? RAWE_FRAME_ACK : RAWE_FRAME_BULK);
        assert_int_equal(counters(0)->acks_sent, acks + answers);
        assert_false(rawe_recvwin_due(&end(0)->rx.window));
        assert_int_equal(end(0)->tx.queue.bytes, 0);
        finish();
        assert_delivered();
        unit_tear_down();
        set_up_coalescing();
    }
}

/** Messages are held back once this many frames are in flight. */
#define HOLD_FROM 2u

/** Start both nodes without connecting them. */
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

/** Largest payload of a frame with several messages, limited by the buffers for copied data. */
#define LIMIT_BYTES (1024u + RAWE_FRAGMENT_BYTES_MAX)

static void set_up_busy(void)
{
    unit_set_up_coalescing();
    connect_holding();
}

static const struct unit_fixture busy = {set_up_busy, unit_tear_down};

TEST_WITH(busy, rawe_conn_coalesce_poor__fewer_than_three_to_a_frame)
{
    size_t third = LIMIT_BYTES / 3 - RAWE_FRAGMENT_MESSAGE_BYTES;
    assert_false(rawe_conn_coalesce_poor(end(0), 1));
    assert_false(rawe_conn_coalesce_poor(end(0), third));
    assert_true(rawe_conn_coalesce_poor(end(0), third + 1));
}
