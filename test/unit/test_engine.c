/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Tests of the engine: what it allocates, the flush, sharing out credit. What it receives is in
 * test_engine_receive.c.
 */
#include "unit_pair.h"

#include <string.h>

#include "conn/rawe_conn_control.h"
#include "conn/rawe_conn.h"

FIXTURE(unit_set_up, unit_tear_down);

/* rawe_engine_init */

TEST(rawe_engine_init__what_is_copied_fits_a_frame)
{
    unit_stop(&net);
    unit_init(&net);
    net.config.copy_max_bytes = 100000;
    unit_start(&net);
    assert_int_equal(net.node[0].engine.config.copy_max_bytes,
                     net.config.payload_max_bytes - RAWE_FRAGMENT_MESSAGE_BYTES);
    unit_connect(&net, RAWE_LANE_EXPRESS);
    assert_int_equal(unit_copy_message(end(0), 1, net.node[0].engine.config.copy_max_bytes),
                     RAWE_STATUS_DONE);
    unit_settle(&net);
    assert_int_equal(net.node[1].message_count, 1);
}

/* rawe_engine_free */

TEST(rawe_engine_free__after_use_nothing_is_left)
{
    static uint8_t data[20000];
    struct unit_send send = {0};
    uint32_t index;
    uint64_t key;
    unit_connect(&net, RAWE_LANE_EXPRESS);
    assert_true(
        rawe_handle_register(&net.node[0].handles, data, 10, &index, &key, RAWE_ACCESS_WRITE));
    unit_send_message(end(0), &send, 1, data, sizeof(data));
    unit_settle(&net);
    unit_stop(&net); /* checks pools; the leak sanitizer the rest */
    assert_int_equal(net.node[0].engine.own_table.size, 0);
}

/* rawe_engine_flush */

static unsigned nested_flushes;

static void flush_again(struct unit_send *send)
{
    struct unit_node *node = send->context;
    nested_flushes++;
    rawe_engine_flush(&node->engine, node->net->now_ns);
}

TEST(rawe_engine_flush__from_within_a_callback_of_a_flush)
{
    uint8_t byte = 1;
    struct unit_send sends[2];
    memset(sends, 0, sizeof(sends));
    nested_flushes = 0;
    unit_start_with((struct unit_options){.coalesce_from_frames = 64});
    unit_connect(&net, RAWE_LANE_EXPRESS);
    unit_connect(&net, RAWE_LANE_BULK);
    net.node[0].link_room = 0;
    for (unsigned lane = 0; lane < RAWE_LANES; lane++) {
        struct rawe_conn *conn = net.node[0].conn[lane];
        assert_int_equal(unit_copy_message(conn, 1, 10), RAWE_STATUS_DONE); /* waits */
        sends[lane].on_done = flush_again;
        sends[lane].context = &net.node[0];
        conn->cc.window = 0; /* nothing of the next one is framed yet */
        unit_send_message(conn, &sends[lane], 2, &byte, 1);
        conn->cc.window = 64;
        rawe_conn_make_pending(conn);
    }
    net.node[0].link_room = UINT32_MAX;
    rawe_engine_flush(&net.node[0].engine, net.now_ns);
    assert_int_equal(nested_flushes, 2);
    unit_run(&net, UNIT_MS, 20 * UNIT_US);
    assert_int_equal(net.node[1].message_count, 4);
    /* Neither of the two has been forgotten on the way. */
    for (unsigned lane = 0; lane < RAWE_LANES; lane++) {
        struct rawe_conn *conn = net.node[0].conn[lane];
        assert_false(conn->is_pending);
        rawe_conn_make_pending(conn);
        assert_ptr_equal(net.node[0].engine.pending, conn);
        rawe_engine_flush(&net.node[0].engine, net.now_ns);
    }
}

static void close_bulk(struct unit_send *send)
{
    unit_close(&net, 0, RAWE_LANE_BULK);
}

TEST(rawe_engine_flush__a_callback_closes_the_next_in_line)
{
    uint8_t byte = 1;
    struct unit_send send = {.on_done = close_bulk};
    unit_start_with((struct unit_options){.coalesce_from_frames = 64});
    unit_connect(&net, RAWE_LANE_EXPRESS);
    unit_connect(&net, RAWE_LANE_BULK);
    net.node[0].link_room = 0;
    assert_int_equal(unit_copy_message(end(0), 1, 10), RAWE_STATUS_DONE);
    assert_int_equal(unit_copy_message(net.node[0].conn[RAWE_LANE_BULK], 1, 10), RAWE_STATUS_DONE);
    end(0)->cc.window = 0;
    unit_send_message(end(0), &send, 2, &byte, 1);
    end(0)->cc.window = 64;
    assert_ptr_equal(net.node[0].engine.pending, end(0)); /* and bulk behind it */
    net.node[0].link_room = UINT32_MAX;
    rawe_engine_flush(&net.node[0].engine, net.now_ns);
    assert_null(net.node[0].conn[RAWE_LANE_BULK]);
    unit_run(&net, UNIT_MS, 20 * UNIT_US);
    assert_true(rawe_conn_drained(end(0)));
    assert_int_equal(net.node[1].message_count, 2);
}

TEST(rawe_engine_flush__with_nothing_to_do)
{
    assert_false(rawe_engine_pending(&net.node[0].engine));
    rawe_engine_flush(&net.node[0].engine, net.now_ns);
    assert_int_equal(unit_wire_count(&net), 0);
}

/* rawe_engine_advance */

TEST(rawe_engine_advance__credit_follows_those_who_send)
{
    unit_connect(&net, RAWE_LANE_EXPRESS);
    unit_connect(&net, RAWE_LANE_BULK);
    struct rawe_engine *engine = &net.node[1].engine;
    engine->credit.room[RAWE_LANE_EXPRESS] = 64;
    rawe_credit_use_bulk(&engine->credit, 0); /* shares out anew */
    assert_int_equal(engine->credit.share[RAWE_LANE_EXPRESS].active, 48);
    for (unsigned lane = 0; lane < RAWE_LANES; lane++) {
        assert_int_equal(unit_copy_message(net.node[0].conn[lane], 1, 10), RAWE_STATUS_DONE);
    }
    unit_settle(&net);
    assert_int_equal(engine->credit.share[RAWE_LANE_EXPRESS].active,
                     24); /* at once: the second may fill the ring */
    unit_run(&net, 12 * UNIT_MS, UNIT_MS);
    assert_int_equal(engine->credit.share[RAWE_LANE_EXPRESS].active,
                     24); /* they sent in the epoch before */
    unit_run(&net, 25 * UNIT_MS, UNIT_MS);
    assert_int_equal(engine->credit.share[RAWE_LANE_EXPRESS].active, 48);
}
