/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Tests of how connections share a link that is full.
 */
#include "unit_star.h"

#include <stdlib.h>
#include <string.h>

#include "conn/rawe_conn.h"

#define SPOKES 9u

static struct star star;
static struct unit_send sends[SPOKES];
static uint8_t data[60000];

static void set_up(void)
{
    star_init(&star, SPOKES, RAWE_LANE_EXPRESS);
    star_start(&star);
    star_connect(&star);
    memset(sends, 0, sizeof(sends));
}

static void tear_down(void)
{
    star_hub(&star)->link_room = UINT32_MAX;
    star_stop(&star);
}

/** While nothing passes, the hub has something to send to each spoke. */
static void send_to_all(void)
{
    star_hub(&star)->link_room = 0;
    for (unsigned i = 0; i < SPOKES; i++) {
        star_send(&star, star.down[i], &sends[i], data, sizeof(data));
    }
}

FIXTURE(set_up, tear_down);

TEST(rawe_engine_flush__a_full_link_is_tried_once)
{
    struct star_node *hub = star_hub(&star);
    send_to_all();
    hub->transmit_calls = 0;
    for (unsigned rounds = 1; rounds <= 20; rounds++) {
        rawe_engine_flush(&hub->engine, star.now_ns);
        assert_int_equal(hub->transmit_calls, rounds);
    }
    assert_true(rawe_engine_pending(&hub->engine));
}

TEST(rawe_engine_flush__a_full_link_is_shared_in_turns)
{
    struct star_node *hub = star_hub(&star);
    send_to_all();
    for (unsigned round = 0; round < 4 * SPOKES; round++) {
        hub->link_room = 3;
        rawe_engine_flush(&hub->engine, star.now_ns);
        assert_int_equal(hub->link_room, 0);
    }
    for (unsigned i = 0; i < SPOKES; i++) {
        assert_int_equal(star.down[i]->sendwin.in_flight, 4 * 3);
    }
}

TEST(rawe_engine_flush__the_one_left_out_is_first_next_time)
{
    struct star_node *hub = star_hub(&star);
    send_to_all();
    /* The link takes something every second round only. */
    for (unsigned round = 0; round < 4 * SPOKES; round++) {
        hub->link_room = round % 2;
        rawe_engine_flush(&hub->engine, star.now_ns);
    }
    for (unsigned i = 0; i < SPOKES; i++) {
        assert_int_equal(star.down[i]->sendwin.in_flight, 2);
    }
}

TEST(rawe_engine_flush__acknowledgements_wait_for_their_turn_too)
{
    struct star_node *hub = star_hub(&star);
    for (unsigned i = 0; i < SPOKES; i++) {
        assert_int_equal(star_copy(&star, star.up[i], 100), RAWE_STATUS_DONE);
    }
    hub->link_room = 0;
    star_receive(hub, UINT32_MAX);
    star.now_ns += UNIT_MS;
    rawe_engine_advance(&hub->engine, star.now_ns); /* the acknowledgements are due */
    for (unsigned i = 0; i < SPOKES; i++) {
        hub->link_room = 1;
        rawe_engine_flush(&hub->engine, star.now_ns);
        unsigned drained = 0;
        for (unsigned k = 0; k < SPOKES; k++) {
            star_receive(&star.node[k], UINT32_MAX);
            drained += rawe_conn_drained(star.up[k]);
        }
        assert_int_equal(drained, i + 1);
    }
    assert_int_equal(hub->engine.counters.acks_sent, SPOKES);
}

TEST(rawe_engine_flush__the_link_is_free_again)
{
    struct star_node *hub = star_hub(&star);
    send_to_all();
    rawe_engine_flush(&hub->engine, star.now_ns);
    hub->link_room = UINT32_MAX;
    star_run(&star, 10 * UNIT_MS, 20 * UNIT_US);
    for (unsigned i = 0; i < SPOKES; i++) {
        assert_int_equal(sends[i].status, RAWE_STATUS_DONE);
        assert_int_equal(sends[i].done, 1);
        assert_int_equal(star.node[i].messages, 1);
    }
    assert_int_equal(hub->engine.counters.frames_resent, 0);
}

/** rawe_send.transmitted: the owner makes progress, until what it waits for has been sent. */
static void wait_for_all(struct rawe_send *send, struct rawe_conn *conn)
{
    struct star_node *hub = star_hub(&star);
    assert_ptr_equal(send, &sends[0].send);
    assert_ptr_equal(conn, star.down[0]);
    assert_true(hub->engine.link_full);
    star_send(&star, star.down[SPOKES - 1], &sends[SPOKES - 1], data, 1000);
    assert_non_null(hub->engine.pending);
    assert_non_null(hub->engine.flushing);
    hub->link_room = UINT32_MAX;
    rawe_engine_flush(&hub->engine, star.now_ns);
    for (unsigned i = 0; i < SPOKES; i++) {
        assert_int_equal(star.down[i]->sendwin.in_flight, i == 0 ? 2 : 1);
    }
    assert_null(hub->engine.flushing);
}

TEST(rawe_engine_flush__inside_a_callback_of_itself)
{
    struct star_node *hub = star_hub(&star);
    struct unit_send second;
    hub->link_room = 0;
    for (unsigned i = 0; i < SPOKES - 1; i++) { /* the last one: by the callback */
        star_send(&star, star.down[i], &sends[i], data, 1000);
    }
    sends[0].send.transmitted = wait_for_all;
    star_send(&star, star.down[0], &second, data, 1000);
    hub->link_room = 1;
    rawe_engine_flush(&hub->engine, star.now_ns);
    star_run(&star, 10 * UNIT_MS, 20 * UNIT_US);
    for (unsigned i = 0; i < SPOKES; i++) {
        assert_int_equal(sends[i].done, 1);
        assert_int_equal(star.node[i].messages, i == 0 ? 2 : 1);
    }
    assert_int_equal(second.done, 1);
}

TEST(rawe_engine_advance__a_link_full_for_ever_is_a_dead_peer)
{
    send_to_all();
    star_run(&star, star.config.liveness.peer_timeout_ns + UNIT_S, UNIT_MS);
    for (unsigned i = 0; i < SPOKES; i++) {
        assert_int_equal(star.down[i]->handshake.state, RAWE_CONN_FAILED);
        assert_int_equal(sends[i].status, RAWE_STATUS_FAILED);
        assert_int_equal(sends[i].done, 1);
    }
}
