/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Tests of batches that pass: what is sent as one, and what goes with it.
 */
#include "unit_batch.h"

#include <string.h>

#include "conn/rawe_conn_batch.h"

FIXTURE(unit_set_up_wide, unit_tear_down);

/* rawe_conn_batch_transmit: the harness checks the shape of each batch. */

TEST(rawe_conn_batch_transmit__puts_of_every_length)
{
    batch_connect(16);
    batch_put(1, 1);
    size_t frame = rawe_conn_segment_bytes(end(0)), all = sizeof(batch_data);
    const size_t lengths[] = {
        1,          8,          frame - 1,      frame,      frame + 1,  2 * frame,
        15 * frame, 16 * frame, 16 * frame + 1, 17 * frame, 48 * frame, 49 * frame + 5,
        200000,     all};
    for (unsigned i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
        batch_put(lengths[i], i);
    }
    assert_int_equal(counters(0)->frames_resent, 0);
    assert_true(net.batches_placed > 10);
}

TEST(rawe_conn_batch_transmit__a_long_put_is_shared_out_evenly)
{
    struct unit_send send = {0};
    unsigned frames[4] = {0};
    batch_connect(16);
    batch_put(1, 1);
    size_t bytes = 33 * (size_t)rawe_conn_segment_bytes(end(0)) - 7;
    unsigned before = net.batch_number;
    batch_begin_put(&send, bytes);
    for (const struct net_frame *frame = net.wire; frame != NULL; frame = frame->next) {
        assert_in_range(frame->batch - before, 1, 3);
        frames[frame->batch - before]++;
    }
    for (unsigned i = 1; i <= 3; i++) {
        assert_int_equal(frames[i], 11); /* not 16, 16 and 1 */
    }
    unit_settle(&net);
    assert_int_equal(send.done, 1);
}

TEST(rawe_conn_batch_transmit__frames_of_different_sends_do_not_mix)
{
    struct unit_send sends[40];
    memset(sends, 0, sizeof(sends));
    batch_connect(16);
    batch_put(1, 1);
    unit_fill(batch_data, sizeof(batch_data), 9);
    /* Scattered pieces: a batch over two of them would be placed wrongly. */
    for (unsigned i = 0; i < 40; i++) {
        unit_send_put(end(0), &sends[i], batch_data + i * 7000, 3000 + i, batch_handle_index,
                      batch_handle_key, (39 - i) * 7000);
    }
    finish();
    for (unsigned i = 0; i < 40; i++) {
        assert_int_equal(sends[i].done, 1);
        assert_memory_equal(batch_memory + (39 - i) * 7000, batch_data + i * 7000, 3000 + i);
    }
}

TEST(rawe_conn_batch_transmit__long_messages)
{
    struct unit_send sends[100];
    memset(sends, 0, sizeof(sends));
    batch_connect(16);
    unit_fill(batch_data, sizeof(batch_data), 4);
    for (unsigned i = 0; i < 100; i++) {
        unit_send_message(end(0), &sends[i], (uint8_t)i, batch_data, 1000 + i * 400);
    }
    finish();
    assert_int_equal(net.node[1].message_count, 100);
    for (unsigned i = 0; i < 100; i++) {
        uint8_t tag = net.node[1].messages[i].tag;
        assert_int_equal(sends[i].done, 1);
        unit_assert_message(&net.node[1], i, tag, 1000u + tag * 400u, 4);
    }
    assert_int_equal(counters(0)->frames_resent, 0);
    assert_true(net.batches_placed > 10);
}

static bool drop_some(struct unit_net *of, const struct net_frame *frame)
{
    of->filter_count = of->filter_count * 1664525u + 1013904223u;
    return (of->filter_count >> 16) % 12 != 0;
}

TEST(rawe_conn_batch_transmit__losses_inside_batches)
{
    batch_connect(16);
    net.filter = drop_some;
    for (unsigned i = 0; i < 10; i++) {
        batch_put(60000, i);
        struct unit_send send = {0};
        unsigned before = net.node[1].message_count;
        unit_send_message(end(0), &send, 1, batch_data, 50000);
        finish();
        assert_int_equal(net.node[1].message_count, before + 1);
        unit_assert_message(&net.node[1], before, 1, 50000, i);
    }
    assert_true(counters(0)->frames_resent > 0);
    assert_int_equal(counters(1)->dropped_fragment + counters(1)->dropped_handle, 0);
}

TEST(rawe_conn_batch_transmit__link_full_at_every_place)
{
    batch_connect(8);
    batch_put(1, 1);
    for (unsigned room = 0; room < 45; room++) {
        struct unit_send send = {0};
        unit_fill(batch_data, 60000, room);
        net.node[0].link_room = room;
        batch_begin_put(&send, 60000);
        net.node[0].link_room = UINT32_MAX;
        finish();
        assert_int_equal(send.done, 1);
        assert_memory_equal(batch_memory, batch_data, 60000);
    }
    assert_int_equal(counters(0)->frames_resent, 0);
    assert_int_equal(counters(1)->duplicates, 0);
}

TEST(rawe_conn_batch_transmit__waiting_messages_share_a_batch)
{
    static uint8_t shorts[60];
    static struct unit_send many[40];
    memset(many, 0, sizeof(many));
    unit_start_with((struct unit_options){
        .payload_max_bytes = 512, .coalesce_from_frames = 1, .batch_frames = 10});
    struct rawe_conn *conn = unit_connect(&net, RAWE_LANE_BULK);
    unit_fill(shorts, sizeof(shorts), 1);
    /* All wait for validation; each frame's length is checked. */
    for (unsigned i = 0; i < 40; i++) {
        unit_send_message(conn, &many[i], (uint8_t)i, shorts, sizeof(shorts));
    }
    unit_settle(&net);
    assert_int_equal(conn->batch, RAWE_BATCH_VALID);
    assert_int_equal(net.node[1].message_count, 40);
    assert_true(net.node[0].engine.counters.frames_sent < 40);
}

/* PROBE of a connection that sends batches */

static unsigned probes_plain, probes_like_data;
static bool batches_lost;

static bool count_probes(struct unit_net *of, const struct net_frame *frame)
{
    if (frame->from == 0 && frame->header.type == RAWE_FRAME_PROBE) {
        probes_plain += frame->batch == 0;
        probes_like_data += frame->batch != 0;
    }
    return !batches_lost || frame->batch == 0;
}

TEST(send_probe__also_to_the_responder)
{
    struct unit_send send = {0};
    batch_connect(16);
    batch_put(30000, 1);
    assert_int_equal(end(0)->batch, RAWE_BATCH_VALID);
    probes_plain = probes_like_data = 0;
    batches_lost = false;
    net.filter = count_probes;
    net.node[1].paused = true; /* it computes: only its responder receives, plain frames alone */
    batch_begin_put(&send, 30000);
    unit_run(&net, 20 * UNIT_MS, 50 * UNIT_US);
    assert_int_not_equal(probes_like_data, 0);
    assert_int_equal(probes_plain, probes_like_data);
    net.node[1].paused = false;
    finish();
    assert_int_equal(send.done, 1);
    assert_int_equal(counters(0)->losses_probed + counters(0)->losses_overtaken, 0);
}

TEST(send_probe__the_plain_one_is_no_evidence)
{
    struct unit_send send = {0};
    batch_connect(16);
    batch_put(30000, 1);
    unsigned answered = (unsigned)counters(0)->probes_answered;
    batches_lost = true; /* as if they were late */
    net.filter = count_probes;
    batch_begin_put(&send, 30000);
    unit_run(&net, 3 * UNIT_MS, 50 * UNIT_US);
    assert_true(counters(1)->probes_received > 0);
    assert_int_equal(counters(0)->probes_answered, answered);
    assert_int_equal(counters(0)->losses_probed + counters(0)->losses_overtaken, 0);
    batches_lost = false;
    finish();
    assert_int_equal(send.done, 1);
}

/** The owner waits in its callback, and meanwhile the peer ends the connection. */
static void close_inside(struct unit_send *send)
{
    rawe_engine_defer_begin(engine(1));
    unit_receive_forged(&net, 0, RAWE_LANE_BULK, (struct rawe_header){.type = RAWE_FRAME_CLOSE},
                        NULL, 0);
    rawe_engine_defer_end(engine(1));
}

/** What node 0 sends next carries the acknowledgement that ends the connection at node 1. */
static void send_and_end(bool plain)
{
    static struct unit_send sends[3];
    memset(sends, 0, sizeof(sends));
    sends[1].on_done = close_inside;
    batch_connect(10);
    batch_put(1, 1);
    unit_fill(batch_data, sizeof(batch_data), 4);
    unit_send_message(end(1), &sends[0], 1, batch_data, 3000);
    unit_run(&net, 5 * UNIT_MS, 50 * UNIT_US);
    assert_int_equal(sends[0].done, 1);
    unit_send_message(end(1), &sends[1], 1, batch_data, 3000);
    while (unit_wire_count(&net) != 0) {
        unit_receive_next(&net);
    }
    if (plain) {
        end(0)->batch = RAWE_BATCH_INVALID;
    }
    unit_send_message(end(0), &sends[2], 2, batch_data, 3000);
    while (sends[1].done == 0) {
        unit_receive_next(&net);
    }
    assert_int_equal(end(1)->handshake.state, RAWE_CONN_PEER_CLOSED);
    assert_null(end(1)->recvwin.acktr); /* nothing of the frame was taken in the next life */
    unit_wire_clear(&net);
}

TEST(rawe_conn_receive_batch__its_acknowledgement_ends_the_connection)
{
    send_and_end(false);
}

TEST(rawe_conn_receive__its_acknowledgement_ends_the_connection)
{
    send_and_end(true);
}
