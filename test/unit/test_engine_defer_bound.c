/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Tests of the memory that messages take while the engine's owner is away.
 */
#define UNIT_LANE RAWE_LANE_BULK

#include "unit_pair.h"

#include <string.h>

#include "conn/rawe_conn.h"

static void set_up(void)
{
    unit_init(&net);
    net.config.window_frames = 256;
    net.config.receive_frames = 1024;
    net.config.deferred_max_bytes = 200000;
    unit_start(&net);
}

static uint8_t data[65536];
static struct unit_send sends[6000];

/** All that node 1 holds for its owner, in use or not. */
static size_t held_bytes(void)
{
    return engine(1)->deferral.bytes +
           (size_t)engine(1)->reassembly_buffers.allocated * net.config.message_max_bytes;
}

/** Send `count` messages of `len_bytes` in order to node 1, whose owner is away. */
static void send_in_order(unsigned count, size_t len_bytes)
{
    unit_connect(&net, RAWE_LANE_BULK);
    unit_fill(data, sizeof(data), 7);
    rawe_engine_defer_begin(engine(1));
    memset(sends, 0, sizeof(sends));
    for (unsigned i = 0; i < count; i++) {
        sends[i].send.ordered = true;
        unit_send_message(end(0), &sends[i], (uint8_t)i, data, len_bytes);
    }
    unit_run(&net, 500 * UNIT_MS, UNIT_MS);
}

/** The owner is back, for good: everything is delivered, once and in order. */
static void come_back(unsigned count, size_t len_bytes)
{
    for (unsigned i = 0; i < 100 && net.node[1].message_count != count; i++) {
        rawe_engine_defer_end(engine(1));
        rawe_engine_deliver_deferred(engine(1));
        unit_run(&net, 100 * UNIT_MS, UNIT_MS);
    }
    assert_int_equal(engine(1)->deferral.bytes, 0);
    assert_int_equal(net.node[1].message_count, count);
    for (unsigned i = 0; i < count; i++) {
        unit_assert_message(&net.node[1], i, (uint8_t)i, len_bytes, 7);
        assert_int_equal(sends[i].status, RAWE_STATUS_DONE);
    }
}

FIXTURE(set_up, unit_tear_down);

TEST(rawe_engine_defer_fragmented__short_messages_give_their_buffers_back)
{
    send_in_order(1000, 1);
    assert_true(rawe_conn_drained(end(0)));
    assert_in_range(engine(1)->reassembly_buffers.allocated, 1, RAWE_REASSEMBLY_MESSAGES);
    come_back(1000, 1);
}

TEST(rawe_engine_defer_fragmented__counts_what_is_allocated)
{
    send_in_order(6000, 1);
    /* Each takes the memory of its entry at least. */
    assert_in_range(engine(1)->deferral.bytes, 150000, net.config.deferred_max_bytes + 1000);
    assert_true(held_bytes() < net.config.deferred_max_bytes +
                                   (RAWE_REASSEMBLY_MESSAGES + 1) * net.config.message_max_bytes);
    come_back(6000, 1);
}

TEST(rawe_engine_defer_fragmented__long_messages_stay_within_the_limit)
{
    send_in_order(50, 40000);
    assert_in_range(engine(1)->deferral.bytes, 3 * net.config.message_max_bytes,
                    net.config.deferred_max_bytes + 2 * net.config.message_max_bytes);
    assert_true(engine(1)->counters.no_buffer > 0);
    come_back(50, 40000);
}

TEST(rawe_engine_defer__messages_in_one_frame_stay_within_the_limit)
{
    unit_connect(&net, RAWE_LANE_BULK);
    rawe_engine_defer_begin(engine(1));
    unsigned count = 0;
    for (unsigned i = 0; i < 1000; i++) {
        count += unit_copy_message(end(0), (uint8_t)i, 500) == RAWE_STATUS_DONE;
        unit_run(&net, 200 * UNIT_US, 200 * UNIT_US);
    }
    assert_in_range(engine(1)->deferral.bytes, 150000, net.config.deferred_max_bytes + 1000);
    rawe_engine_defer_end(engine(1));
    rawe_engine_deliver_deferred(engine(1));
    unit_run(&net, 500 * UNIT_MS, UNIT_MS);
    assert_int_equal(net.node[1].message_count, count);
}
