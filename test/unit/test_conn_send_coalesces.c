/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Tests of sends that wait for a batch to be filled, and of batches with several messages.
 */
#define UNIT_LANE RAWE_LANE_BULK

#include "unit_pair.h"

#include <string.h>

#include "conn/rawe_conn.h"

#define COALESCE_FROM 2u
#define BATCH_FRAMES 16u

static uint8_t data[100000];

static struct unit_send sends[400];
static size_t lengths[400];
static unsigned send_count;

static void start(uint32_t coalesce_from)
{
    unit_start_with((struct unit_options){.coalesce_from_frames = coalesce_from,
                                          .message_max_bytes = sizeof(data),
                                          .window_frames = 256});
    unit_fill(data, sizeof(data), 5);
    send_count = 0;
}

static void set_up(void)
{
    start(COALESCE_FROM);
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

static void send(size_t len_bytes)
{
    struct unit_send *unit = &sends[send_count];
    lengths[send_count] = len_bytes;
    memset(unit, 0, sizeof(*unit));
    unit->send.ordered = true;
    unit_send_message(end(0), unit, (uint8_t)send_count++, data, len_bytes);
}

static void send_some(unsigned count, size_t len_bytes)
{
    for (unsigned i = 0; i < count; i++) {
        send(len_bytes);
    }
}

/** All that was sent has arrived, in order, once. */
static void assert_delivered(void)
{
    assert_int_equal(net.node[1].message_count, send_count);
    for (unsigned i = 0; i < send_count; i++) {
        unit_assert_message(&net.node[1], i, (uint8_t)i, lengths[i], 5);
    }
    unit_assert_sent(sends, send_count, RAWE_STATUS_DONE);
    assert_int_equal(counters(1)->dropped_fragment + counters(1)->dropped_length, 0);
}

/** An open bulk lane on which batches pass. */
static void connect_good(void)
{
    unit_use_batches(&net, BATCH_FRAMES);
    unit_connect(&net, RAWE_LANE_BULK);
    send(20000); /* more than goes without validation */
    finish();
    assert_int_equal(end(0)->path.batch, RAWE_BATCH_VALID);
    unit_fix_window(end(0), 64);
}

/** Connect, then put enough frames in flight that later messages coalesce. */
static void connect_busy(void)
{
    connect_good();
    send(2 * COALESCE_FROM * segment_bytes());
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

FIXTURE(set_up, unit_tear_down);

TEST(coalesces__until_the_round_ends)
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

TEST(coalesces__until_there_is_enough_for_a_batch)
{
    connect_busy();
    unsigned count = 0;
    while ((count + 1) * bundled_bytes(3000) < batch_bytes()) {
        send(3000);
        count++;
        assert_int_equal(net_queue_count(&net.queue), 0);
    }
    send(3000);
    assert_int_equal(net_queue_count(&net.queue), frames_of(count * bundled_bytes(3000)));
    assert_int_equal(batches_on_wire(), 1);
    assert_int_equal(end(0)->tx.queue.bytes, 3000); /* the rest waits for more */
    assert_true(rawe_engine_pending(&net.node[0].engine));
    finish();
    assert_delivered();
}

TEST(coalesces__short_messages_fill_a_batch_with_their_headers)
{
    connect_busy();
    unsigned count = 0;
    while ((count + 1) * bundled_bytes(200) < batch_bytes()) {
        send(200);
        assert_int_equal(net_queue_count(&net.queue), 0);
        assert_int_equal(end(0)->tx.queue.count, ++count);
    }
    send(200);
    assert_int_equal(net_queue_count(&net.queue), BATCH_FRAMES);
    assert_int_equal(batches_on_wire(), 1);
    assert_in_range(end(0)->tx.queue.count, 0, 1);
    finish();
    assert_delivered();
}

TEST(coalesces__not_unless_asked_for)
{
    unit_stop(&net);
    start(0);
    connect_good();
    for (unsigned i = 0; i < 20; i++) {
        send(3000);
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
