/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Tests of the limits on frames in flight (window, credit, congestion window), and of when the
 * congestion window grows and is forgotten.
 */
#define UNIT_LANE RAWE_LANE_BULK

#include "unit_pair.h"

#include "conn/rawe_conn.h"

#define FIRST_FRAMES 21u /* of the bulk lane: 32 kB */

static const struct unit_fixture with_unit = {unit_set_up, unit_tear_down};

TEST_WITH(with_unit, rawe_conn_enter_window__asks_with_a_batch_that_uses_it_up)
{
    static uint8_t large[60000];
    static struct unit_send sends[2];
    unit_start_with((struct unit_options){.window_frames = 256, .batch_frames = 16});
    unit_connect(&net, RAWE_LANE_BULK);
    unit_send_message(end(0), &sends[0], 1, large, sizeof(large));
    finish();
    assert_int_equal(end(0)->path.batch, RAWE_BATCH_VALID);
    unit_fix_window(end(0), 16);
    unsigned acknowledgements = net.node[1].sent[RAWE_FRAME_ACK];
    unit_send_message(end(0), &sends[1], 2, large, sizeof(large));
    assert_in_range(end(0)->tx.window.in_flight, 12, 16);
    assert_true(end(0)->tx.queue.bytes != 0);
    unit_step(&net); /* no time has passed */
    assert_int_equal(net.node[1].sent[RAWE_FRAME_ACK], acknowledgements + 1);
    finish();
}

TEST_WITH(with_unit, rawe_conn_enter_window__asks_behind_a_send_that_is_waited_for)
{
    static uint8_t some[3000];
    static struct unit_send sends[3];
    unit_connect(&net, RAWE_LANE_BULK);
    net.node[0].link_room = 0;
    for (unsigned i = 0; i < 3; i++) {
        sends[i].send.relaxed = i != 1; /* in their midst */
        unit_send_message(end(0), &sends[i], (uint8_t)i, some, sizeof(some));
    }
    net.node[0].link_room = UINT32_MAX;
    rawe_engine_flush(engine(0), net.now_ns);
    assert_int_equal(net_queue_count(&net.queue), 9);
    unit_settle(&net); /* no time has passed */
    unit_assert_sent(sends, 3, RAWE_STATUS_DONE);
    assert_int_equal(net.node[1].sent[RAWE_FRAME_ACK], 1);
    /* Do not request it for the next message. */
    sends[0].done = 0;
    unit_send_message(end(0), &sends[0], 0, some, sizeof(some));
    unit_settle(&net);
    assert_int_equal(sends[0].done, 0);
    finish();
}

TEST_WITH(with_unit, rawe_conn_enter_window__asks_behind_it_with_one_that_is_copied)
{
    static uint8_t some[3000];
    static struct unit_send sends[3];
    unit_start_with((struct unit_options){.coalesce_from_frames = 4});
    unit_connect(&net, RAWE_LANE_BULK);
    net.node[0].link_room = 0;
    sends[0].send.relaxed = true; /* with it the link is full */
    unit_send_message(end(0), &sends[0], 0, some, sizeof(some));
    unit_send_message(end(0), &sends[1], 1, some, sizeof(some));
    unit_send_message(end(0), &sends[2], 2, some, 100);
    net.node[0].link_room = UINT32_MAX;
    rawe_engine_flush(engine(0), net.now_ns);
    unit_settle(&net); /* no time has passed */
    assert_int_equal(sends[1].done, 1);
    assert_int_equal(net.node[1].sent[RAWE_FRAME_ACK], 1);
    finish();
}

static struct unit_send send_;
static uint8_t data[2000000];
static struct unit_memory known;

static void set_up(void)
{
    unit_init(&net);
    net.config.window_frames = RAWE_WINDOW_FRAMES_MAX;
    net.config.receive_frames = 4096;
}

FIXTURE(set_up, unit_tear_down);

static void start(void)
{
    static uint8_t target[sizeof(data)];
    unit_start(&net);
    unit_connect(&net, RAWE_LANE_BULK);
    known = unit_register_memory(&net, 1, target, sizeof(target), RAWE_ACCESS_WRITE);
    assert_int_equal(end(0)->tx.cc.window, FIRST_FRAMES);
}

static void put(size_t len_bytes)
{
    unit_send_put(end(0), &send_, data, len_bytes, known.index, known.key, 0);
}

/** Send more than a window of any size holds. */
static void put_all(void)
{
    put(sizeof(data));
    unit_run(&net, 20 * UNIT_MS, 50 * UNIT_US);
    assert_int_equal(send_.status, RAWE_STATUS_DONE);
    assert_true(rawe_conn_drained(end(0)));
}

TEST(acknowledged__the_window_grows_where_it_limits_and_not_far_beyond_credit)
{
    static const struct {
        uint32_t receive_frames; /* credit is three quarters of them */
        uint32_t least, most;
    } cases[] = {
        {4096, RAWE_WINDOW_FRAMES_MAX, RAWE_WINDOW_FRAMES_MAX},
        {400, 300, 600},
        {24, FIRST_FRAMES, FIRST_FRAMES},
    };
    for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        set_up();
        net.config.receive_frames = cases[i].receive_frames;
        start();
        put_all();
        assert_int_equal(counters(0)->blocked_credit > 0, i != 0);
        assert_in_range(end(0)->tx.cc.window, cases[i].least, cases[i].most);
        unit_tear_down();
    }
    unit_start(&net);
}

TEST(acknowledged__the_window_does_not_grow_where_the_link_limits)
{
    start();
    net.node[0].link_room = 2;
    put(sizeof(data));
    for (unsigned i = 0; i < 100; i++) {
        net.node[0].link_room = 2;
        unit_run(&net, 50 * UNIT_US, 50 * UNIT_US);
    }
    assert_int_equal(end(0)->tx.cc.window, FIRST_FRAMES);
    net.node[0].link_room = UINT32_MAX;
    unit_run(&net, 20 * UNIT_MS, 50 * UNIT_US);
}

TEST(rawe_conn_output__after_idleness_as_at_first)
{
    start();
    put_all();
    net.now_ns += UNIT_S;
    put(sizeof(data));
    assert_int_equal(net_queue_count(&net.queue), FIRST_FRAMES);
    unit_run(&net, 20 * UNIT_MS, 50 * UNIT_US);
    assert_int_equal(end(0)->tx.cc.window, RAWE_WINDOW_FRAMES_MAX); /* and soon as before */
}

TEST(rawe_conn_output__a_short_pause_costs_nothing)
{
    start();
    put_all();
    net.now_ns = end(0)->tx.cc.used_ns + 9 * UNIT_MS;
    end(0)->engine->now_ns = net.now_ns; /* its time does not go back otherwise */
    end(0)->tx.peer_credit = RAWE_WINDOW_FRAMES_MAX;
    put(sizeof(data));
    assert_int_equal(net_queue_count(&net.queue), RAWE_WINDOW_FRAMES_MAX);
    unit_run(&net, 20 * UNIT_MS, 50 * UNIT_US);
}

TEST(rawe_conn_send_copy__after_idleness_as_at_first)
{
    start();
    put_all();
    net.now_ns += UNIT_S;
    unsigned count = 0;
    while (unit_copy_message(end(0), 1, 100) == RAWE_STATUS_DONE) {
        count++;
    }
    assert_int_equal(count, FIRST_FRAMES);
    unit_run(&net, 20 * UNIT_MS, 50 * UNIT_US);
}

TEST(rawe_conn_connect__the_first_window_is_of_bytes)
{
    net.config.payload_max_bytes = 8952;
    unit_start(&net);
    unit_connect(&net, RAWE_LANE_BULK);
    assert_in_range(end(0)->tx.cc.window * 8952, 16000, 64000);
    unit_connect(&net, RAWE_LANE_EXPRESS); /* whose frames are short */
    assert_int_equal(net.node[0].conn[RAWE_LANE_EXPRESS]->tx.cc.window, 64);
}
