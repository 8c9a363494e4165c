/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Tests of acknowledgements: released frames, credit, RTT samples, retransmissions, and the limits
 * on frames in flight (window, credit, congestion window). test_sendwin.c tests which frames count
 * as lost.
 */
#include "unit_pair.h"

#include "conn/rawe_conn.h"

/** Return the number of round trips in node 0's histogram. */
static uint64_t round_trips_counted(void)
{
    uint64_t sum = 0;
    for (unsigned i = 0; i < RAWE_HISTOGRAM_BUCKETS; i++) {
        sum += net.node[0].engine.round_trips.count[i];
    }
    return sum;
}

/** Sequence numbers whose first transmission is dropped. */
static uint32_t doomed[64];
static unsigned doomed_count;

static bool drop_doomed_once(struct unit_net *unused, const struct net_frame *frame)
{
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

/** Send one-frame messages; drop the first transmission of message i if bit i of `lost` is set. */
static void send_numbered(unsigned count, uint64_t lost)
{
    for (unsigned i = 0; i < count; i++) {
        if ((lost >> i & 1) != 0) {
            doom(end(0)->tx.window.next + i);
        }
    }
    for (unsigned i = 0; i < count; i++) {
        unit_send_copy(end(0), (uint8_t)i, 10 + i);
    }
}

/** Open a connection with `count` one-frame messages in flight, none of them received. */
static void in_flight(unsigned count)
{
    doomed_count = 0;
    unit_connect(&net, RAWE_LANE_EXPRESS);
    unit_begin_at(&net, RAWE_LANE_EXPRESS, UINT32_MAX - 2); /* numbers wrap in each test */
    end(0)->tx.peer_credit = 64;
    send_numbered(count, 0);
    assert_int_equal(net_queue_count(&net.queue), count);
}

/** Hand node 0 an acknowledgement of una + `beyond`, with a SACK block. */
static void acknowledge(uint32_t beyond, const uint8_t *sack, size_t sack_bytes)
{
    unit_receive_forged(&net, 1, RAWE_LANE_EXPRESS,
                        (struct rawe_header){.type = RAWE_FRAME_ACK, .acknowledgement = beyond},
                        sack, sack_bytes);
}

/** Assert that node 1 received each message sent by in_flight(count) once, in any order. */
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

FIXTURE(unit_set_up, unit_tear_down);

TEST(acknowledged__no_rtt_sample_from_a_resent_frame)
{
    in_flight(0);
    doom(end(0)->tx.window.next);
    unit_send_copy(end(0), 0, 10);
    finish();
    assert_int_equal(counters(0)->frames_resent, 1);
    assert_true(end(0)->tx.rtt.smoothed_ns == 0);
    /* The probe's answer sets the minimum RTT, so later acknowledgements can prove losses. */
    assert_true(end(0)->tx.rtt.minimum_ns < UNIT_S);
    assert_int_equal(round_trips_counted(), 0);
    unit_send_copy(end(0), 1, 11);
    finish();
    /* The wire has no latency: the RTT is the acknowledgement delay. */
    assert_in_range(end(0)->tx.rtt.smoothed_ns, net.config.ack_delay_ns,
                    net.config.ack_delay_ns + 60 * UNIT_US);
    assert_int_equal(round_trips_counted(), 1);
    unsigned bucket = rawe_histogram_bucket(end(0)->tx.rtt.smoothed_ns);
    assert_int_equal(net.node[0].engine.round_trips.count[bucket], 1);
    assert_all_arrived(2);
}

/** A frame overtaken by a later one counts as lost once the reordering window has passed. */
TEST(rawe_conn_detect_losses__a_young_gap_is_not_resent)
{
    const uint8_t second = 1;                         /* the frame after the missing one */
    const uint64_t window_ns = net.config.reorder_ns; /* no RTT is known yet */
    in_flight(2);
    net_queue_clear(&net.queue);
    net.now_ns += 10 * UNIT_US;
    acknowledge(0, &second, 1);
    assert_int_equal(end(0)->tx.window.sacked, 1);
    net.filter = drop_all;
    unit_run(&net, window_ns * 3 / 4, UNIT_US);
    assert_int_equal(counters(0)->frames_resent, 0);
    unit_run(&net, window_ns, UNIT_US);
    assert_int_equal(counters(0)->frames_resent, 1);
    assert_int_equal(counters(0)->losses_overtaken, 1);
}

/** A busy peer acknowledges only when probed; its delay says nothing about the path. */
TEST(acknowledged__no_rtt_sample_from_a_peer_that_had_to_be_asked)
{
    in_flight(0);
    net.node[1].paused = true;
    unit_send_copy(end(0), 0, 10);
    while (counters(0)->probes_sent == 0) {
        unit_run(&net, 10 * UNIT_US, 10 * UNIT_US);
    }
    net.node[1].paused = false;
    finish();
    assert_int_equal(counters(0)->probes_answered, 1);
    assert_true(end(0)->tx.rtt.smoothed_ns == 0);
    assert_all_arrived(1);
}

/** After a long silence probes are rare. Once the peer answers, probe soon for missing data. */
TEST(acknowledged__a_silence_that_is_over_delays_no_question)
{
    in_flight(2);
    unit_receive_next(&net);
    net.filter = drop_all;
    net_queue_clear(&net.queue); /* lose the second frame and the first one's acknowledgement */
    unit_run(&net, UNIT_S, 200 * UNIT_US);
    assert_true(end(0)->path.liveness.probe_deadline_ns > net.now_ns + 15 * UNIT_MS);
    const uint64_t before = counters(0)->probes_sent;
    acknowledge(1, NULL, 0);
    unit_run(&net, 12 * UNIT_MS, 100 * UNIT_US);
    assert_true(counters(0)->probes_sent > before);
    net.filter = NULL;
    finish();
}

#define FIRST_FRAMES 21u /* 32 kB on the bulk lane */

static const struct unit_fixture with_unit = {unit_set_up_bulk, unit_tear_down};

TEST_WITH(with_unit, rawe_conn_enter_window__asks_behind_a_send_that_is_waited_for)
{
    static uint8_t some[3000];
    static struct unit_send sends[3];
    unit_connect(&net, RAWE_LANE_BULK);
    net.node[0].link_room = 0;
    for (unsigned i = 0; i < 3; i++) {
        sends[i].send.relaxed = i != 1; /* the owner awaits only the second */
        unit_send_message(end(0), &sends[i], (uint8_t)i, some, sizeof(some));
    }
    net.node[0].link_room = UINT32_MAX;
    rawe_engine_flush(engine(0), net.now_ns);
    assert_int_equal(net_queue_count(&net.queue), 9);
    unit_settle(&net); /* no time has passed */
    unit_assert_sent(sends, 3, RAWE_STATUS_DONE);
    assert_int_equal(net.node[1].sent[RAWE_FRAME_ACK], 1);
    /* The next message does not request an acknowledgement. */
    sends[0].done = 0;
    unit_send_message(end(0), &sends[0], 0, some, sizeof(some));
    unit_settle(&net);
    assert_int_equal(sends[0].done, 0);
    finish();
}

static struct unit_send send_;
static uint8_t window_data[2000000];
static struct unit_memory known;

static void set_up(void)
{
    unit_lane = RAWE_LANE_BULK;
    unit_init(&net);
    net.config.window_frames = RAWE_WINDOW_FRAMES_MAX;
    net.config.receive_frames = 4096;
}

static const struct unit_fixture with_window = {set_up, unit_tear_down};

static void start_window(void)
{
    static uint8_t target[sizeof(window_data)];
    unit_start(&net);
    unit_connect(&net, RAWE_LANE_BULK);
    known = unit_register_memory(&net, 1, target, sizeof(target), RAWE_ACCESS_WRITE);
    assert_int_equal(end(0)->tx.cc.window, FIRST_FRAMES);
}

static void put(size_t len_bytes)
{
    unit_send_put(end(0), &send_, window_data, len_bytes, known.index, known.key, 0);
}

/** Send more than the largest window holds. */
static void put_all(void)
{
    put(sizeof(window_data));
    unit_run(&net, 20 * UNIT_MS, 50 * UNIT_US);
    assert_int_equal(send_.status, RAWE_STATUS_DONE);
    assert_true(rawe_conn_drained(end(0)));
}

TEST_WITH(with_window, acknowledged__the_window_grows_where_it_limits_and_not_far_beyond_credit)
{
    static const struct {
        uint32_t receive_frames; /* 3/4 of the ring is advertised as credit */
        uint32_t least, most;
    } cases[] = {
        {4096, RAWE_WINDOW_FRAMES_MAX, RAWE_WINDOW_FRAMES_MAX},
        {400, 300, 600},
        {24, FIRST_FRAMES, FIRST_FRAMES},
    };
    for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        set_up();
        net.config.receive_frames = cases[i].receive_frames;
        start_window();
        put_all();
        assert_int_equal(counters(0)->blocked_credit > 0, i != 0);
        assert_in_range(end(0)->tx.cc.window, cases[i].least, cases[i].most);
        unit_tear_down();
    }
    unit_start(&net);
}

TEST_WITH(with_window, acknowledged__the_window_does_not_grow_where_the_link_limits)
{
    start_window();
    net.node[0].link_room = 2;
    put(sizeof(window_data));
    for (unsigned i = 0; i < 100; i++) {
        net.node[0].link_room = 2;
        unit_run(&net, 50 * UNIT_US, 50 * UNIT_US);
    }
    assert_int_equal(end(0)->tx.cc.window, FIRST_FRAMES);
    net.node[0].link_room = UINT32_MAX;
    unit_run(&net, 20 * UNIT_MS, 50 * UNIT_US);
}

TEST_WITH(with_window, rawe_conn_output__after_idleness_as_at_first)
{
    start_window();
    put_all();
    net.now_ns += UNIT_S;
    put(sizeof(window_data));
    assert_int_equal(net_queue_count(&net.queue), FIRST_FRAMES);
    unit_run(&net, 20 * UNIT_MS, 50 * UNIT_US);
    assert_int_equal(end(0)->tx.cc.window, RAWE_WINDOW_FRAMES_MAX); /* back at its old size */
}

TEST_WITH(with_window, rawe_conn_output__a_short_pause_costs_nothing)
{
    start_window();
    put_all();
    net.now_ns = end(0)->tx.cc.used_ns + 9 * UNIT_MS;
    end(0)->engine->now_ns = net.now_ns; /* set by hand: the engine's clock never goes back */
    end(0)->tx.peer_credit = RAWE_WINDOW_FRAMES_MAX;
    put(sizeof(window_data));
    assert_int_equal(net_queue_count(&net.queue), RAWE_WINDOW_FRAMES_MAX);
    unit_run(&net, 20 * UNIT_MS, 50 * UNIT_US);
}

TEST_WITH(with_window, rawe_conn_send_copy__after_idleness_as_at_first)
{
    start_window();
    put_all();
    net.now_ns += UNIT_S;
    unsigned count = 0;
    while (unit_copy_message(end(0), 1, 100) == RAWE_STATUS_DONE) {
        count++;
    }
    assert_int_equal(count, FIRST_FRAMES);
    unit_run(&net, 20 * UNIT_MS, 50 * UNIT_US);
}

TEST_WITH(with_window, rawe_conn_connect__the_first_window_is_of_bytes)
{
    net.config.payload_max_bytes = 8952;
    unit_start(&net);
    unit_connect(&net, RAWE_LANE_BULK);
    assert_in_range(end(0)->tx.cc.window * 8952, 16000, 64000);
    unit_connect(&net, RAWE_LANE_EXPRESS); /* short frames */
    assert_int_equal(net.node[0].conn[RAWE_LANE_EXPRESS]->tx.cc.window, 64);
}
