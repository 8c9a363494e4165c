/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Tests of what connections share: a link that is full, and the credit of a receive ring.
 */
#include "unit_star.h"

#include <stdlib.h>
#include <string.h>

#include "conn/rawe_conn.h"
#include "conn/rawe_conn_connect.h"

#define SPOKES 9u
#define SENDERS 64u

static struct star star;
static struct unit_send sends[SENDERS];
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
    star_hub(&star)->link_room = star_hub(&star)->ring_room = UINT32_MAX;
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

/* Credit. */

static const struct unit_fixture with_senders = {NULL, tear_down};

/** As many senders, and a receive ring of `frames` at the hub. */
static void start_senders(unsigned senders, uint32_t frames)
{
    star_init(&star, senders, RAWE_LANE_BULK);
    star.config.window_frames = 512;
    star.config.receive_frames = frames;
    star_start(&star);
    star_connect(&star);
    memset(sends, 0, sizeof(sends));
}

static void send_from_all(void)
{
    for (unsigned i = 0; i < star.spokes; i++) {
        star_send(&star, star.up[i], &sends[i], data, sizeof(data));
    }
}

/**
 * All nodes but the hub run on; the hub looks into its ring every 2 ms only. Control frames are no
 * part of credit: they have a place of their own here, as the ring has for the bulk queue.
 */
static void run_with_slow_hub(unsigned rounds)
{
    struct star_node *hub = star_hub(&star);
    for (unsigned round = 0; round < rounds; round++) {
        for (unsigned k = 0; k < 20; k++) {
            star.now_ns += 100 * UNIT_US;
            for (unsigned i = 0; i < star.spokes; i++) {
                star_receive(&star.node[i], UINT32_MAX);
                rawe_engine_advance(&star.node[i].engine, star.now_ns);
                rawe_engine_flush(&star.node[i].engine, star.now_ns);
            }
        }
        star_receive(hub, UINT32_MAX);
        rawe_engine_advance(&hub->engine, star.now_ns);
        rawe_engine_flush(&hub->engine, star.now_ns);
    }
}

static void all_arrives(unsigned frames)
{
    struct star_node *hub = star_hub(&star);
    hub->data_most = 0;
    send_from_all();
    run_with_slow_hub(8000);
    assert_int_equal(hub->messages, star.spokes);
    for (unsigned i = 0; i < star.spokes; i++) {
        assert_int_equal(sends[i].done, 1);
        assert_int_equal(sends[i].status, RAWE_STATUS_DONE);
        assert_int_equal(star.node[i].engine.counters.frames_resent, 0);
    }
    assert_in_range(hub->data_most, 1, frames);
}

TEST_WITH(with_senders, rawe_engine_share_credit__senders_never_exceed_the_ring)
{
    start_senders(SENDERS, 240);
    all_arrives(240);
}

TEST_WITH(with_senders, rawe_engine_share_credit__more_senders_than_frames)
{
    start_senders(SENDERS, 29); /* of MTU 9000 with the stock rmem_max */
    all_arrives(29);
}

TEST_WITH(with_senders, rawe_engine_share_credit__few_senders_and_few_frames)
{
    start_senders(8, 29);
    all_arrives(29);
}

TEST_WITH(with_senders, rawe_engine_advance__a_silent_sender_keeps_no_credit)
{
    start_senders(SENDERS, 1000);
    struct star_node *hub = star_hub(&star);
    /* One after the other has the ring to itself for a while. */
    for (unsigned i = 0; i < SENDERS; i++) {
        star_send(&star, star.up[i], &sends[i], data, sizeof(data));
        star_run(&star, 50 * UNIT_MS, 100 * UNIT_US);
        assert_int_equal(sends[i].done, 1);
    }
    uint32_t sum = 0;
    for (unsigned i = 0; i < SENDERS; i++) {
        sum += star.up[i]->peer_credit;
    }
    assert_true(sum <= 1000);
    /* Then all of them at the same time. */
    hub->messages = 0;
    for (unsigned i = 0; i < SENDERS; i++) {
        star.node[i].engine.counters.frames_resent = 0;
    }
    all_arrives(1000);
}

/** Idle peers are probed for life, and probe. */
TEST_WITH(with_senders, rawe_conn_receive__a_probe_makes_no_sender)
{
    start_senders(SENDERS, 1000);
    star_run(&star, 50 * UNIT_MS, 100 * UNIT_US);
    for (unsigned i = 1; i < SENDERS; i++) {
        assert_true(rawe_conn_send_probe(star.up[i]));
    }
    star_send(&star, star.up[0], &sends[0], data, sizeof(data));
    star_run(&star, 5 * UNIT_MS, 100 * UNIT_US);
    assert_int_equal(sends[0].done, 1);
    assert_int_equal(star.up[0]->peer_credit, star.config.window_frames);
}

TEST_WITH(with_senders, rawe_conn_output__without_credit_it_asks)
{
    start_senders(2, 1000);
    struct star_node *spoke = &star.node[0];
    star.up[0]->peer_credit = 0;
    star_send(&star, star.up[0], &sends[0], data, sizeof(data));
    assert_int_equal(spoke->engine.counters.frames_sent, 0);
    star_run(&star, 10 * UNIT_MS, 20 * UNIT_US);
    assert_true(spoke->engine.counters.probes_sent > 0);
    assert_int_equal(sends[0].done, 1);
}

TEST_WITH(with_senders, rawe_conn_output__waiting_for_a_turn_probes_less_and_less)
{
    start_senders(SENDERS, 8);
    send_from_all();
    star_run(&star, 100 * UNIT_MS, 50 * UNIT_US);
    for (unsigned i = 0; i < SENDERS; i++) {
        /* After six quick questions two in each epoch of 10 ms: enough to be counted as a sender. */
        assert_in_range(star.node[i].engine.counters.probes_sent, 1, 6 + 2 * 10);
    }
    star_run(&star, 30000 * UNIT_MS, 100 * UNIT_US);
    assert_int_equal(star_hub(&star)->messages, SENDERS);
}
