/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Tests of acknowledgements: what they release, SACK, credit, RTT samples. Which frames count as
 * lost is in test_conn_losses.c.
 */
#include "unit_pair.h"

#include <string.h>

/** Round trips in node 0's histogram. */
static uint64_t round_trips_counted(void)
{
    uint64_t sum = 0;
    for (unsigned i = 0; i < RAWE_HISTOGRAM_BUCKETS; i++) {
        sum += net.node[0].engine.round_trips.count[i];
    }
    return sum;
}

/** Sequence numbers whose first sending is dropped. */
static uint32_t doomed[64];
static unsigned doomed_count;

static bool drop_doomed_once(struct unit_net *unused, const struct unit_frame *frame)
{
    (void)unused;
    if (frame->header.type != RAWE_FRAME_DATA || frame->from != 0) {
        return true;
    }
    for (unsigned i = 0; i < doomed_count; i++) {
        if (doomed[i] == frame->header.sequence) {
            doomed[i] = doomed[--doomed_count];
            return false;
        }
    }
    return true;
}

static void doom(uint32_t sequence)
{
    doomed[doomed_count++] = sequence;
    net.filter = drop_doomed_once;
}

/** An open connection on which `count` messages of one frame are in flight, none handed over. */
static void in_flight(unsigned count)
{
    doomed_count = 0;
    unit_connect(&net, RAWE_LANE_EXPRESS);
    unit_begin_at(&net, RAWE_LANE_EXPRESS, UINT32_MAX - 2); /* the numbers wrap in each test */
    end(0)->cc.window = end(0)->peer_credit = 64;
    for (unsigned i = 0; i < count; i++) {
        assert_int_equal(unit_copy_message(end(0), (uint8_t)i, 10 + i), RAWE_STATUS_DONE);
    }
    assert_int_equal(unit_wire_count(&net), count);
}

/** Hand node 0 an acknowledgement: `beyond` its una, with a SACK block. */
static void acknowledge(uint32_t beyond, const uint8_t *sack, size_t sack_bytes)
{
    struct unit_frame *frame = unit_forge(
        &net, 1, RAWE_LANE_EXPRESS,
        (struct rawe_header){.type = RAWE_FRAME_ACK, .acknowledgement = beyond}, sack, sack_bytes);
    unit_receive(&net, frame);
    unit_frame_free(frame);
}

/** Node 1 got the messages of in_flight(count), each once, in whatever order. */
static void assert_all_arrived(unsigned count)
{
    bool seen[256] = {false};
    assert_int_equal(net.node[1].message_count, count);
    for (unsigned i = 0; i < count; i++) {
        uint8_t tag = net.node[1].messages[i].tag;
        assert_true(tag < count);
        assert_false(seen[tag]);
        seen[tag] = true;
        unit_assert_message(&net.node[1], i, tag, 10u + tag, tag);
    }
}

/* rawe_conn_acknowledged */

static void rawe_conn_acknowledged__releases_up_to_it(void **state)
{
    (void)state;
    in_flight(10);
    uint32_t una = end(0)->sendwin.una;
    acknowledge(4, NULL, 0);
    assert_int_equal(end(0)->sendwin.una, una + 4);
    assert_int_equal(end(0)->sendwin.in_flight, 6);
    acknowledge(6, NULL, 0);
    assert_true(rawe_conn_drained(end(0)));
    assert_int_equal(end(0)->sendwin.in_flight, 0);
    assert_true(end(0)->liveness.probe_deadline_ns == 0);
}

static void rawe_conn_acknowledged__an_older_one_changes_nothing(void **state)
{
    (void)state;
    in_flight(10);
    acknowledge(5, NULL, 0);
    uint32_t una = end(0)->sendwin.una, credit = end(0)->peer_credit;
    static const uint8_t sack[] = {0xFF};
    net.node[1].engine.credit.frames[RAWE_LANE_EXPRESS] = 17;
    for (uint32_t back = 1; back < 100; back++) {
        acknowledge(0u - back, sack, sizeof(sack));
    }
    assert_int_equal(end(0)->sendwin.una, una);
    assert_int_equal(end(0)->peer_credit, credit);
    assert_int_equal(end(0)->sendwin.sacked, 0);
    assert_int_equal(counters(0)->dropped_ack, 0);
}

static void rawe_conn_acknowledged__completes_sends_in_order(void **state)
{
    (void)state;
    static uint8_t data[1400];
    struct unit_send sends[6];
    memset(sends, 0, sizeof(sends));
    unit_connect(&net, RAWE_LANE_EXPRESS);
    end(0)->peer_credit = 10;
    net.filter = drop_all;
    for (unsigned i = 0; i < 6; i++) {
        unit_send_message(end(0), &sends[i], 1, data, sizeof(data));
    }
    acknowledge(3, NULL, 0);
    for (unsigned i = 0; i < 6; i++) {
        assert_int_equal(sends[i].done, i < 3);
    }
    static const uint8_t sack[] = {0x03}; /* the two behind the missing one: not complete yet */
    acknowledge(0, sack, sizeof(sack));
    assert_int_equal(sends[4].done + sends[5].done, 0);
    acknowledge(3, NULL, 0);
    assert_int_equal(sends[3].done + sends[4].done + sends[5].done, 3);
}

static void rawe_conn_acknowledged__more_credit_sends_more(void **state)
{
    (void)state;
    static uint8_t data[60000];
    struct unit_send send = {0};
    unit_connect(&net, RAWE_LANE_EXPRESS);
    end(0)->peer_credit = 4;
    net.filter = drop_all;
    unit_send_message(end(0), &send, 1, data, sizeof(data));
    assert_int_equal(end(0)->sendwin.in_flight, 4);
    net.node[1].engine.credit.frames[RAWE_LANE_EXPRESS] = 9;
    acknowledge(0, NULL, 0);
    assert_int_equal(end(0)->sendwin.in_flight, 9);
    net.node[1].engine.credit.frames[RAWE_LANE_EXPRESS] = 0; /* some room there always is */
    acknowledge(0, NULL, 0);
    assert_int_equal(end(0)->peer_credit, RAWE_CC_LEAST_FRAMES);
    acknowledge(9, NULL, 0);
    assert_int_equal(end(0)->sendwin.in_flight, RAWE_CC_LEAST_FRAMES);
    unit_close(&net, 0, RAWE_LANE_EXPRESS);
}

static void rawe_conn_acknowledged__sack_beyond_what_was_sent(void **state)
{
    (void)state;
    uint8_t sack[RAWE_SACK_BYTES_MAX + 72];
    in_flight(10);
    memset(sack, 0xFF, sizeof(sack));
    acknowledge(0, sack, sizeof(sack)); /* even longer than a block may be */
    assert_int_equal(end(0)->sendwin.sacked, 9);
    assert_int_equal(end(0)->sendwin.in_flight, 1);
    finish();
    assert_all_arrived(10);
}

static void rawe_conn_acknowledged__sack_of_frames_that_wait_for_the_link(void **state)
{
    (void)state;
    in_flight(3);
    net.node[0].link_room = 0;
    assert_int_equal(unit_copy_message(end(0), 3, 13), RAWE_STATUS_DONE);
    static const uint8_t sack[] = {0x07};
    acknowledge(0, sack, sizeof(sack));
    assert_int_equal(end(0)->sendwin.sacked, 2);
    assert_int_equal(end(0)->sendwin.to_transmit, 1); /* never sent, hence never arrived */
    net.node[0].link_room = UINT32_MAX;
    finish();
    assert_all_arrived(4);
}

static void rawe_conn_acknowledged__a_repeated_sack_counts_once(void **state)
{
    (void)state;
    in_flight(10);
    static const uint8_t sack[] = {0x80, 0x01};
    for (unsigned i = 0; i < 5; i++) {
        acknowledge(0, sack, sizeof(sack));
        assert_int_equal(end(0)->sendwin.sacked, 2);
        assert_int_equal(end(0)->sendwin.in_flight, 8);
    }
    finish();
    assert_all_arrived(10);
}

static void rawe_conn_acknowledged__no_rtt_sample_from_a_resent_frame(void **state)
{
    (void)state;
    in_flight(0);
    doom(end(0)->sendwin.next);
    assert_int_equal(unit_copy_message(end(0), 0, 10), RAWE_STATUS_DONE);
    finish();
    assert_int_equal(counters(0)->frames_resent, 1);
    assert_true(end(0)->rtt.smoothed_ns == 0);
    assert_int_equal(round_trips_counted(), 0);
    assert_int_equal(unit_copy_message(end(0), 1, 11), RAWE_STATUS_DONE);
    finish();
    /* Nothing but the delayed acknowledgement took time on this wire. */
    assert_in_range(end(0)->rtt.smoothed_ns, net.config.ack_delay_ns,
                    net.config.ack_delay_ns + 60 * UNIT_US);
    assert_int_equal(round_trips_counted(), 1);
    unsigned bucket = rawe_histogram_bucket(end(0)->rtt.smoothed_ns);
    assert_int_equal(net.node[0].engine.round_trips.count[bucket], 1);
    assert_all_arrived(2);
}

static void rawe_conn_acknowledged__the_window_grows_when_it_is_what_holds_back(void **state)
{
    (void)state;
    static uint8_t data[65536];
    struct unit_send sends[4];
    memset(sends, 0, sizeof(sends));
    unit_connect(&net, RAWE_LANE_EXPRESS);
    end(0)->cc.window = 8;
    for (unsigned i = 0; i < 4; i++) {
        unit_send_message(end(0), &sends[i], 1, data, sizeof(data));
    }
    finish();
    assert_true(end(0)->cc.window > 32);
    assert_int_equal(counters(0)->congestion_events, 0);
    /* One message at a time uses nothing of it and must not inflate it. */
    uint32_t window = end(0)->cc.window = 8;
    for (unsigned i = 0; i < 50; i++) {
        assert_int_equal(unit_copy_message(end(0), 1, 10), RAWE_STATUS_DONE);
        finish();
    }
    assert_int_equal(end(0)->cc.window, window);
}

static void rawe_conn_acknowledged__lost_acknowledgements_are_made_good(void **state)
{
    (void)state;
    in_flight(0);
    for (unsigned i = 0; i < 40; i++) {
        assert_int_equal(unit_copy_message(end(0), (uint8_t)i, 10 + i), RAWE_STATUS_DONE);
        net.filter = i % 4 == 3 ? NULL : drop_all;
        unit_step(&net);
        rawe_engine_advance(&net.node[1].engine, net.now_ns += 100 * UNIT_US);
        rawe_engine_flush(&net.node[1].engine, net.now_ns);
        net.filter = NULL;
    }
    finish();
    assert_all_arrived(40);
    assert_int_equal(counters(0)->frames_resent, 0);
}

static void rawe_conn_acknowledged__a_lost_frame_that_had_arrived_after_all(void **state)
{
    (void)state;
    in_flight(10);
    unit_wire_clear(&net);
    net.node[1].paused = true;
    net.node[0].link_room = 0; /* it cannot be sent again for now */
    static const uint8_t sack[] = {0xFE, 0x01};
    acknowledge(0, sack, sizeof(sack)); /* 0 and 1 are missing */
    unit_run(&net, 200 * UNIT_US, 20 * UNIT_US);
    assert_int_equal(end(0)->sendwin.to_transmit, 2);
    assert_int_equal(end(0)->sendwin.in_flight, 0);
    static const uint8_t later[] = {0xFF, 0x01};
    acknowledge(0, later, sizeof(later)); /* 1 is there */
    assert_int_equal(end(0)->sendwin.to_transmit, 1);
    assert_int_equal(end(0)->sendwin.sacked, 9);
    acknowledge(10, NULL, 0);
    assert_int_equal(end(0)->sendwin.to_transmit, 0);
    assert_true(rawe_conn_drained(end(0)));
    net.node[0].link_room = UINT32_MAX;
    unit_run(&net, UNIT_MS, 20 * UNIT_US);
    assert_int_equal(counters(0)->frames_resent, 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, unit_set_up, unit_tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(rawe_conn_acknowledged__releases_up_to_it),
        TEST(rawe_conn_acknowledged__an_older_one_changes_nothing),
        TEST(rawe_conn_acknowledged__completes_sends_in_order),
        TEST(rawe_conn_acknowledged__more_credit_sends_more),
        TEST(rawe_conn_acknowledged__sack_beyond_what_was_sent),
        TEST(rawe_conn_acknowledged__sack_of_frames_that_wait_for_the_link),
        TEST(rawe_conn_acknowledged__a_repeated_sack_counts_once),
        TEST(rawe_conn_acknowledged__no_rtt_sample_from_a_resent_frame),
        TEST(rawe_conn_acknowledged__the_window_grows_when_it_is_what_holds_back),
        TEST(rawe_conn_acknowledged__lost_acknowledgements_are_made_good),
        TEST(rawe_conn_acknowledged__a_lost_frame_that_had_arrived_after_all),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
