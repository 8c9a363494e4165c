/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Tests of credit: what many senders together may have in flight to one receiver.
 */
#include "unit_star.h"

#include <stdlib.h>
#include <string.h>

#include "conn/rawe_conn_connect.h"

#define SENDERS 64u

static struct star star;
static struct unit_send sends[SENDERS];
static uint8_t data[60000];

static void tear_down(void)
{
    star_hub(&star)->ring_room = UINT32_MAX;
    star_stop(&star);
}

/** As many senders, and a receive ring of `frames` at the hub. */
static void start(unsigned senders, uint32_t frames)
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

FIXTURE(NULL, tear_down);

TEST(rawe_engine_share_credit__senders_never_exceed_the_ring)
{
    start(SENDERS, 240);
    all_arrives(240);
}

TEST(rawe_engine_share_credit__more_senders_than_frames)
{
    start(SENDERS, 29); /* of MTU 9000 with the stock rmem_max */
    all_arrives(29);
}

TEST(rawe_engine_share_credit__few_senders_and_few_frames)
{
    start(8, 29);
    all_arrives(29);
}

TEST(rawe_engine_advance__a_silent_sender_keeps_no_credit)
{
    start(SENDERS, 1000);
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

/** Peers that have nothing to send are asked whether they live, and ask. */
TEST(rawe_conn_receive__a_probe_makes_no_sender)
{
    start(SENDERS, 1000);
    star_run(&star, 50 * UNIT_MS, 100 * UNIT_US);
    for (unsigned i = 1; i < SENDERS; i++) {
        assert_true(rawe_conn_send_probe(star.up[i]));
    }
    star_send(&star, star.up[0], &sends[0], data, sizeof(data));
    star_run(&star, 5 * UNIT_MS, 100 * UNIT_US);
    assert_int_equal(sends[0].done, 1);
    assert_int_equal(star.up[0]->peer_credit, star.config.window_frames);
}

TEST(rawe_conn_output__without_credit_it_asks)
{
    start(2, 1000);
    struct star_node *spoke = &star.node[0];
    star.up[0]->peer_credit = 0;
    star_send(&star, star.up[0], &sends[0], data, sizeof(data));
    assert_int_equal(spoke->engine.counters.frames_sent, 0);
    star_run(&star, 10 * UNIT_MS, 20 * UNIT_US);
    assert_true(spoke->engine.counters.probes_sent > 0);
    assert_int_equal(sends[0].done, 1);
}

TEST(rawe_conn_output__waiting_for_a_turn_probes_less_and_less)
{
    start(SENDERS, 8);
    send_from_all();
    star_run(&star, 100 * UNIT_MS, 50 * UNIT_US);
    for (unsigned i = 0; i < SENDERS; i++) {
        /* After six quick questions two in each epoch of 10 ms: enough to be counted as a sender. */
        assert_in_range(star.node[i].engine.counters.probes_sent, 1, 6 + 2 * 10);
    }
    star_run(&star, 30000 * UNIT_MS, 100 * UNIT_US);
    assert_int_equal(star_hub(&star)->messages, SENDERS);
}
