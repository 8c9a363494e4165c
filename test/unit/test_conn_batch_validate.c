/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Tests of whether batches pass: a connection tries it, and notices when they do not any more.
 */
#include "unit_batch.h"

#include "conn/rawe_conn_batch.h"
#include "unit_link.h"

/** What a frame of a batch carries; 0: it is none. */
static uint8_t fragment_kind(const struct net_frame *frame)
{
    struct rawe_batch batch;
    if (!net_is_batch(frame->bytes, (uint32_t)frame->len_bytes) ||
        rawe_batch_decode(&batch, frame->bytes + RAWE_ETH_HEADER_BYTES, RAWE_BATCH_HEADER_BYTES,
                          frame->len_bytes - NET_BATCH_HEAD_BYTES) != RAWE_DECODE_OK) {
        return 0;
    }
    return batch.header.type == RAWE_FRAME_BULK ? batch.fragment.kind : 0;
}

FIXTURE(unit_set_up_wide, unit_tear_down);

/* rawe_conn_batch_validate */

TEST(rawe_conn_batch_validate__first_a_batch_of_known_content)
{
    struct unit_send send = {0};
    batch_connect(10);
    assert_int_equal(end(0)->batch, RAWE_BATCH_UNVALIDATED);
    batch_begin_put(&send, 100);
    assert_int_equal(end(0)->batch, RAWE_BATCH_VALIDATING);
    unsigned count = unit_wire_count(&net);
    assert_in_range(count, 2, 10);
    for (const struct net_frame *frame = net.wire; frame != NULL; frame = frame->next) {
        assert_int_equal(frame->batch, 1);
        assert_int_equal(fragment_kind(frame), RAWE_FRAGMENT_VALIDATION);
    }
    unit_settle(&net);
    assert_int_equal(end(0)->batch, RAWE_BATCH_VALID);
    assert_int_equal(counters(0)->validations_passed, 1);
    assert_int_equal(send.done, 1);
    assert_int_equal(net.node[1].message_count, 0); /* a validation frame is nobody's message */
    assert_int_equal(counters(1)->messages_received, 0);
}

TEST(rawe_conn_batch_validate__not_on_the_express_lane)
{
    struct unit_send send = {0};
    unit_use_batches(&net, 10);
    struct rawe_conn *express = unit_connect(&net, RAWE_LANE_EXPRESS);
    unit_fill(batch_data, 20000, 1);
    unit_send_message(express, &send, 1, batch_data, 20000);
    unit_run(&net, 5 * UNIT_MS, 50 * UNIT_US);
    assert_int_equal(send.done, 1);
    assert_int_equal(express->batch, RAWE_BATCH_UNVALIDATED);
    assert_int_equal(net.batch_number, 0);
}

TEST(rawe_conn_batch_validate__not_without_a_link_that_can)
{
    struct unit_send send = {0};
    struct rawe_conn *bulk = unit_connect(&net, RAWE_LANE_BULK);
    unit_fill(batch_data, 20000, 1);
    unit_send_message(bulk, &send, 1, batch_data, 20000);
    unit_run(&net, 5 * UNIT_MS, 50 * UNIT_US);
    assert_int_equal(send.done, 1);
    assert_int_equal(bulk->batch, RAWE_BATCH_UNVALIDATED);
}

TEST(rawe_conn_batch_validate__link_full)
{
    batch_connect(10);
    for (unsigned i = 0; i < 60; i++) {
        net.node[0].link_room = i % 13;
        struct unit_send send = {0};
        if (i == 0) {
            unit_fill(batch_data, 20000, 3);
        }
        batch_begin_put(&send, 20000);
        net.node[0].link_room = UINT32_MAX;
        finish();
        assert_int_equal(send.done, 1);
    }
    assert_memory_equal(batch_memory, batch_data, 20000);
    assert_int_equal(end(0)->batch, RAWE_BATCH_VALID);
    assert_int_equal(counters(0)->frames_resent, 0);
}

TEST(rawe_conn_batch_validate__a_frame_is_held_back)
{
    struct unit_send send = {0};
    unit_start_with((struct unit_options){.window_frames = 16, .coalesce_from_frames = 1});
    batch_connect(32);
    for (unsigned i = 0; i < 2; i++) {
        assert_int_equal(unit_copy_message(end(0), 1, 10), RAWE_STATUS_DONE);
    }
    assert_non_null(end(0)->coalescing);
    unit_close_having_all(&net, 1, RAWE_LANE_BULK);
    unit_open(&net, 1, RAWE_LANE_BULK);
    assert_int_equal(end(0)->handshake.state, RAWE_CONN_CONNECTING);
    assert_non_null(end(0)->coalescing);
    batch_begin_put(&send, 3000);
    while (unit_wire_count(&net) != 0) {
        unit_receive_next(&net);
    }
    assert_int_equal(end(0)->handshake.state, RAWE_CONN_OPEN);
    unit_receive_forged(&net, 1, RAWE_LANE_BULK, (struct rawe_header){.type = RAWE_FRAME_PROBE},
                        NULL, 0);
    /* What is held back has a number of the window, too. */
    assert_true(rawe_sendwin_used(&end(0)->sendwin) + (end(0)->coalescing != NULL) <= 16);
    finish();
    assert_int_equal(send.done, 1);
    assert_int_equal(net.node[1].message_count, 1);
}

TEST(rawe_conn_batch_validate__no_frame_left_for_it)
{
    net.node[0].engine.frames.limit = 0;
    batch_connect(10);
    struct rawe_conn *express = unit_connect(&net, RAWE_LANE_EXPRESS);
    express->cc.window = express->peer_credit = 1000;
    net.node[1].paused = true;
    while (unit_copy_message(express, 1, 10) == RAWE_STATUS_DONE) {
    }
    struct unit_send send = {0};
    unit_fill(batch_data, 5000, 2);
    batch_begin_put(&send, 5000);
    assert_int_equal(send.done, 0);
    net.node[1].paused = false;
    unit_run(&net, 20 * UNIT_MS, 50 * UNIT_US);
    assert_int_equal(send.done, 1);
    assert_memory_equal(batch_memory, batch_data, 5000);
}

/* rawe_conn_batch_conclude */

TEST(rawe_conn_batch_conclude__three_validations_lost_altogether)
{
    batch_connect(10);
    net.batches_vanish = true;
    batch_put(50000, 5); /* over plain frames in the end */
    assert_int_equal(end(0)->batch, RAWE_BATCH_INVALID);
    assert_int_equal(counters(0)->validations_failed, 1);
    assert_true(counters(0)->losses_validation > 0);
    assert_int_equal(counters(0)->losses_overtaken + counters(0)->losses_probed, 0);
    assert_int_equal(counters(0)->validations_passed, 0);
    assert_int_equal(counters(0)->batches_sent, 3);
    uint64_t resent = counters(0)->frames_resent;
    batch_put(100000, 6);
    finish();
    assert_int_equal(counters(0)->batches_sent, 3);
    assert_int_equal(counters(0)->frames_resent, resent);
    assert_int_equal(counters(0)->congestion_events, 0); /* validation says nothing of congestion */
}

static bool drop_sequence(struct unit_net *of, const struct net_frame *frame)
{
    if (frame->batch != 0 && frame->header.sequence == of->filter_count) {
        of->filter_count = UINT32_MAX;
        return false;
    }
    return true;
}

TEST(rawe_conn_batch_conclude__a_frame_of_the_validation_lost)
{
    for (unsigned lost = 0; lost < 4; lost++) {
        if (end(0) == NULL) {
            batch_connect(10);
        }
        net.filter = drop_sequence;
        net.filter_count = lost;
        batch_put(30000, lost);
        finish();
        assert_int_equal(end(0)->batch, RAWE_BATCH_VALID);
        unit_close(&net, 0, RAWE_LANE_BULK);
        unit_settle(&net);
        unit_close(&net, 1, RAWE_LANE_BULK);
        unit_connect(&net, RAWE_LANE_BULK);
    }
    assert_int_equal(counters(0)->validations_passed, 4);
    assert_int_equal(counters(0)->frames_resent, 4);
    assert_int_equal(counters(1)->duplicates, 0);
}

static unsigned batches_to_lose;

static bool lose_first_batches(struct unit_net *of, const struct net_frame *frame)
{
    return frame->batch == 0 || frame->batch > batches_to_lose;
}

TEST(rawe_conn_batch_conclude__lost_twice_and_then_good)
{
    batch_connect(10);
    batches_to_lose = 2;
    net.filter = lose_first_batches;
    batch_put(30000, 1);
    assert_int_equal(end(0)->batch, RAWE_BATCH_VALID);
    assert_int_equal(counters(0)->validations_failed, 0);
}

static bool garble_validations(struct unit_net *of, const struct net_frame *frame)
{
    if (frame->batch != 0 && fragment_kind(frame) == RAWE_FRAGMENT_VALIDATION) {
        frame->bytes[frame->len_bytes - 1] ^= 0x10;
    }
    return true;
}

TEST(rawe_conn_batch_conclude__content_that_arrives_wrong)
{
    batch_connect(10);
    net.filter = garble_validations;
    batch_put(30000, 1);
    assert_int_equal(end(0)->batch, RAWE_BATCH_INVALID);
    assert_true(counters(1)->dropped_validation >= 3);
    assert_int_equal(counters(0)->validations_failed, 1);
}

TEST(rawe_conn_batch_conclude__a_receiver_without_batches)
{
    batch_connect(10);
    net.batches_vanish = true; /* nobody there takes them off the wire */
    uint8_t *pattern = net.node[1].engine.batches.pattern;
    net.node[1].engine.batches = (struct rawe_batches){.pattern = NULL};
    batch_put(30000, 1);
    assert_int_equal(end(0)->batch, RAWE_BATCH_INVALID);
    assert_int_equal(counters(1)->dropped_validation, 0);
    net.node[1].engine.batches.pattern = pattern;
}

TEST(rawe_conn_batch_conclude__a_receiver_that_computes)
{
    struct unit_send send = {0};
    batch_connect(10);
    net.node[1].paused = true;
    unit_fill(batch_data, 30000, 1);
    batch_begin_put(&send, 30000);
    unit_run(&net, 2 * UNIT_S, UNIT_MS);
    assert_int_equal(end(0)->batch, RAWE_BATCH_VALIDATING); /* silence is no evidence here either */
    net.node[1].paused = false;
    finish();
    assert_int_equal(send.done, 1);
    assert_int_equal(end(0)->batch, RAWE_BATCH_VALID);
    assert_int_equal(counters(0)->frames_resent, 0);
}

/* rawe_conn_acknowledged: batches that do not pass any more */

TEST(rawe_conn_acknowledged__batches_that_vanish_give_way_to_plain_frames)
{
    batch_connect(16);
    batch_put(30000, 1);
    assert_int_equal(end(0)->batch, RAWE_BATCH_VALID);
    net.batches_vanish = true;
    batch_put(100000, 2);
    assert_int_equal(end(0)->batch, RAWE_BATCH_INVALID);
    assert_int_equal(counters(0)->peers_lost, 0);
    batch_put(100000, 3); /* it was tried once more, with this one at the latest */
    assert_int_equal(counters(0)->validations_failed, 2);
    uint64_t batches = counters(0)->batches_sent;
    batch_put(100000, 4);
    assert_int_equal(counters(0)->batches_sent, batches);
}

TEST(rawe_conn_batch_validate__again_when_they_had_stopped_passing)
{
    batch_connect(16);
    batch_put(30000, 1);
    for (unsigned times = 1; times <= 5; times++) {
        net.batches_vanish = true;
        batch_put(100000, times);
        net.batches_vanish = false;
        assert_int_equal(end(0)->batch, RAWE_BATCH_INVALID);
        batch_put(100000, 10 + times);
        /* Not for ever: who knows what that is. */
        assert_int_equal(end(0)->batch, times <= 3 ? RAWE_BATCH_VALID : RAWE_BATCH_INVALID);
    }
}

/** A link that drops packets of several frames. */
static bool transmit_single(void *context, const struct rawe_frame *packet, uint32_t segment_bytes)
{
    return segment_bytes != 0 || unit_transmit_batch(context, packet, segment_bytes);
}

TEST(rawe_conn_batch_transmit__where_only_single_frames_pass)
{
    batch_connect(16);
    batch_put(30000, 1);
    net.node[0].engine.batches.output.transmit = transmit_single;
    batch_put(200000, 2);
    batch_put(200000, 3); /* it was tried once more, with this one at the latest */
    assert_int_equal(end(0)->batch, RAWE_BATCH_INVALID);
    assert_int_equal(counters(0)->validations_failed, 2);
    uint64_t batches = counters(0)->batches_sent, resent = counters(0)->frames_resent;
    batch_put(200000, 4);
    assert_int_equal(counters(0)->batches_sent, batches);
    assert_int_equal(counters(0)->frames_resent, resent);
}

static bool lose_late_batches(struct unit_net *of, const struct net_frame *frame)
{
    return frame->batch == 0 || frame->header.sequence - of->filter_count >= 100 ||
           frame->header.sequence % 3 == 0;
}

TEST(rawe_conn_acknowledged__also_behind_what_arrived_out_of_order)
{
    batch_connect(16);
    batch_put(30000, 1);
    net.filter_count = end(0)->sendwin.next;
    net.filter = lose_late_batches;
    struct unit_send send = {0};
    unit_fill(batch_data, 60000, 2);
    batch_begin_put(&send, 60000);
    unit_settle(&net);
    assert_true(end(0)->sendwin.sacked != 0); /* each acknowledgement says so again */
    net.batches_vanish = true;
    for (unsigned i = 0; i < 4000 && send.done == 0; i++) {
        unit_run(&net, 250 * UNIT_US, 50 * UNIT_US);
    }
    assert_int_equal(send.done, 1);
    assert_memory_equal(batch_memory, batch_data, 60000);
    assert_int_equal(end(0)->batch, RAWE_BATCH_INVALID);
}
