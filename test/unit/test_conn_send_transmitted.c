/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Tests of sends whose owner learns that they have been transmitted.
 */
#define UNIT_LANE RAWE_LANE_BULK

#include "unit_pair.h"

#include <string.h>

#include "conn/rawe_conn_send.h"

#define SENDS 12u
#define SEND_BYTES 9000u

/** The tests' record of each send. */
static struct unit_send sends[SENDS];
static uint8_t original[SENDS][SEND_BYTES];
static unsigned transmitted_calls[SENDS];
static bool nested; /**< frames in flight arrive, and are acknowledged, inside the callback */

static void set_up(void)
{
    unit_start_with((struct unit_options){.window_frames = 256});
    memset(sends, 0, sizeof(sends));
    memset(transmitted_calls, 0, sizeof(transmitted_calls));
    nested = false;
}

static void left(struct rawe_send *send, struct rawe_conn *conn);

static void send_one(unsigned index, size_t len_bytes)
{
    unit_fill(original[index], len_bytes, index);
    sends[index].send.transmitted = left;
    unit_send_message(end(0), &sends[index], (uint8_t)index, original[index], len_bytes);
}

static void left(struct rawe_send *send, struct rawe_conn *conn)
{
    unsigned index = (unsigned)((struct unit_send *)(void *)send - sends);
    assert_true(index < SENDS);
    assert_ptr_equal(conn, end(0));
    assert_int_equal(send->framed_bytes, send->total_bytes);
    assert_int_equal(sends[index].done, 0); /* before it */
    transmitted_calls[index]++;
    if (nested) {
        unit_settle(&net);
    }
}

static void assert_delivered(unsigned count, size_t len_bytes)
{
    assert_int_equal(net.node[1].message_count, count);
    for (unsigned i = 0; i < count; i++) {
        uint8_t tag = net.node[1].messages[i].tag;
        unit_assert_message(&net.node[1], i, tag, len_bytes, tag);
        unit_assert_sent(&sends[tag], 1, RAWE_STATUS_DONE);
    }
}

FIXTURE(set_up, unit_tear_down);

TEST(report_transmitted__a_copied_message_is_done_at_once)
{
    unit_start_with((struct unit_options){.coalesce_from_frames = 64});
    unit_connect(&net, RAWE_LANE_BULK);
    send_one(0, 100);
    assert_int_equal(sends[0].done, 1);
    assert_int_equal(transmitted_calls[0], 0);
    finish();
    assert_delivered(1, 100);
}

TEST(report_transmitted__not_while_deferring)
{
    unit_connect(&net, RAWE_LANE_BULK);
    unit_fix_window(end(0), 3);
    send_one(0, SEND_BYTES);
    rawe_engine_defer_begin(&net.node[0].engine);
    finish();
    assert_int_equal(transmitted_calls[0] + sends[0].done, 0);
    rawe_engine_defer_end(&net.node[0].engine);
    rawe_engine_deliver_deferred(&net.node[0].engine);
    assert_int_equal(transmitted_calls[0], 0); /* done comes first */
    assert_delivered(1, SEND_BYTES);
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

TEST(report_transmitted__acknowledged_inside_the_callback)
{
    unit_connect(&net, RAWE_LANE_BULK);
    send_while_link_full(8, 3000);
    nested = true;
    unit_settle(&net);
    assert_int_equal(transmitted_calls[0], 1);
    finish();
    assert_delivered(8, 3000);
    for (unsigned i = 1; i < 8; i++) {
        assert_true(transmitted_calls[i] <= 1); /* done may have come first */
    }
}
