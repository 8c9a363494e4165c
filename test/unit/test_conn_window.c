/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Tests of when a connection's congestion window grows, and when it is forgotten.
 */
#define UNIT_LANE RAWE_LANE_BULK

#include "unit_pair.h"

#include <string.h>

#include "rawe_conn.h"

#define FIRST_FRAMES 64u

static struct unit_send send_;
static uint8_t data[2000000];
static uint32_t handle_index;
static uint64_t handle_key;

static int set_up(void **state)
{
    (void)state;
    unit_init(&net);
    net.config.window_frames = RAWE_WINDOW_FRAMES_MAX;
    net.config.receive_frames = 4096;
    return 0;
}

static void start(void)
{
    static uint8_t target[sizeof(data)];
    unit_start(&net);
    unit_connect(&net, RAWE_LANE_BULK);
    assert_true(rawe_handle_register(&net.node[1].handles, target, sizeof(target), &handle_index,
                                     &handle_key));
    assert_int_equal(end(0)->cc.window, FIRST_FRAMES);
}

static void put(size_t len_bytes)
{
    unit_send_put(end(0), &send_, data, len_bytes, handle_index, handle_key, 0);
}

/** Send so much that a window of any size is used up. */
static void put_all(void)
{
    put(sizeof(data));
    unit_run(&net, 20 * UNIT_MS, 50 * UNIT_US);
    assert_int_equal(send_.status, RAWE_STATUS_DONE);
    assert_true(rawe_conn_drained(end(0)));
}

static void rawe_conn_acknowledged__the_window_grows_where_it_limits(void **state)
{
    (void)state;
    start();
    put_all();
    assert_int_equal(end(0)->cc.window, RAWE_WINDOW_FRAMES_MAX);
}

static void rawe_conn_acknowledged__the_window_does_not_grow_where_credit_limits(void **state)
{
    (void)state;
    net.config.receive_frames = 64; /* credit of 48 */
    start();
    put_all();
    assert_true(net.node[0].engine.counters.credit_stalls > 0);
    assert_int_equal(end(0)->cc.window, FIRST_FRAMES);
}

static void rawe_conn_acknowledged__the_window_does_not_grow_far_beyond_credit(void **state)
{
    (void)state;
    net.config.receive_frames = 400; /* credit of 300 */
    start();
    put_all();
    assert_in_range(end(0)->cc.window, 300, 600);
}

static void rawe_conn_acknowledged__the_window_does_not_grow_where_the_link_limits(void **state)
{
    (void)state;
    start();
    net.node[0].link_room = 8;
    put(sizeof(data));
    for (unsigned i = 0; i < 100; i++) {
        net.node[0].link_room = 8;
        unit_run(&net, 50 * UNIT_US, 50 * UNIT_US);
    }
    assert_int_equal(end(0)->cc.window, FIRST_FRAMES);
    net.node[0].link_room = UINT32_MAX;
    unit_run(&net, 20 * UNIT_MS, 50 * UNIT_US);
}

static void rawe_conn_output__after_idleness_as_at_first(void **state)
{
    (void)state;
    start();
    put_all();
    net.now_ns += UNIT_S;
    put(sizeof(data));
    assert_int_equal(unit_wire_count(&net), FIRST_FRAMES);
    unit_run(&net, 20 * UNIT_MS, 50 * UNIT_US);
    assert_int_equal(end(0)->cc.window, RAWE_WINDOW_FRAMES_MAX); /* and soon as before */
}

static void rawe_conn_output__a_window_hardly_used_is_forgotten(void **state)
{
    (void)state;
    start();
    put_all();
    for (unsigned i = 0; i < 1000; i++) {
        put(1000);
        unit_run(&net, UNIT_MS, UNIT_MS / 4);
    }
    put(sizeof(data));
    assert_int_equal(unit_wire_count(&net), FIRST_FRAMES);
    unit_run(&net, 20 * UNIT_MS, 50 * UNIT_US);
}

static void rawe_conn_output__a_window_in_use_stays(void **state)
{
    (void)state;
    start();
    put_all();
    for (unsigned i = 0; i < 200; i++) {
        put(1000000); /* 700 frames */
        unit_run(&net, UNIT_MS, 50 * UNIT_US);
        assert_int_equal(send_.status, RAWE_STATUS_DONE);
    }
    assert_int_equal(end(0)->cc.window, RAWE_WINDOW_FRAMES_MAX);
}

static void rawe_conn_output__a_short_pause_costs_nothing(void **state)
{
    (void)state;
    start();
    put_all();
    net.now_ns = end(0)->cc.used_ns + 9 * UNIT_MS;
    end(0)->peer_credit = RAWE_WINDOW_FRAMES_MAX;
    put(sizeof(data));
    assert_int_equal(unit_wire_count(&net), RAWE_WINDOW_FRAMES_MAX);
    unit_run(&net, 20 * UNIT_MS, 50 * UNIT_US);
}

static void rawe_conn_send_copy__after_idleness_as_at_first(void **state)
{
    (void)state;
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

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, unit_tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(rawe_conn_acknowledged__the_window_grows_where_it_limits),
        TEST(rawe_conn_acknowledged__the_window_does_not_grow_where_credit_limits),
        TEST(rawe_conn_acknowledged__the_window_does_not_grow_far_beyond_credit),
        TEST(rawe_conn_acknowledged__the_window_does_not_grow_where_the_link_limits),
        TEST(rawe_conn_output__after_idleness_as_at_first),
        TEST(rawe_conn_output__a_window_hardly_used_is_forgotten),
        TEST(rawe_conn_output__a_window_in_use_stays),
        TEST(rawe_conn_output__a_short_pause_costs_nothing),
        TEST(rawe_conn_send_copy__after_idleness_as_at_first),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
