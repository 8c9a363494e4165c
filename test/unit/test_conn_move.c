/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Tests of moving a connection to another route: which end moves, which follows, and a bad day at
 * random.
 */
#include "unit_rails.h"

#include <string.h>
#include <stdlib.h>

#include "conn/rawe_conn_connect.h"
#include "conn/rawe_conn_control.h"
#include "conn/rawe_conn_move.h"
#include "conn/rawe_conn.h"

static uint8_t data[40000];

static void set_up_batches(void)
{
    rails_init();
    rails.config.window_frames = 256;
    rails.config.receive_frames = 1024;
    rails_start(16);
}

static void assert_last_message(unsigned host, unsigned count, uint8_t tag, size_t len_bytes)
{
    const struct unit_node *inbox = &rails.host[host].inbox;
    assert_int_equal(inbox->message_count, count);
    unit_assert_message(inbox, count - 1, tag, len_bytes, 3);
}

FIXTURE(rails_set_up, rails_tear_down);
static const struct unit_fixture with_batches = {set_up_batches, rails_tear_down};

/* rawe_conn_attach */

TEST(rawe_conn_attach__uses_another_route_while_home_is_down)
{
    rails_cut(0);
    rawe_peer_set_down(rails_peer(0, 0), rails.now_ns);
    struct rawe_conn *conn = rails_conn(0, 0, RAWE_LANE_EXPRESS);
    assert_int_equal(rails_used(conn), 1);
    assert_int_equal(unit_copy_message(conn, 1, 100), RAWE_STATUS_BUSY); /* it connects */
    rails_run(10 * UNIT_MS, 100 * UNIT_US);
    assert_int_equal(conn->handshake.state, RAWE_CONN_OPEN);
    /* The far end belongs to the same pair of interfaces, and has followed. */
    const struct rawe_conn *far = rails_conn(1, 0, RAWE_LANE_EXPRESS);
    assert_int_equal(far->handshake.state, RAWE_CONN_OPEN);
    assert_int_equal(rails_used(far), 1);
    assert_null(rails_peer(1, 1)->conn[RAWE_LANE_EXPRESS]);
    assert_int_equal(rails_migrations(0), 0);
    assert_int_equal(rails_migrations(1), 1);
}

/* rawe_conn_move */

TEST(rawe_conn_move__sends_what_is_unacknowledged_by_the_other_route)
{
    static struct unit_send send;
    memset(&send, 0, sizeof(send));
    unit_fill(data, sizeof(data), 3);
    struct rawe_conn *conn = rails_connect(RAWE_LANE_BULK);
    unit_send_message(conn, &send, 7, data, sizeof(data));
    assert_true(conn->sendwin.in_flight > 10);
    rails_cut(0);
    rails_run(100 * UNIT_US, 100 * UNIT_US);
    uint32_t id = conn->handshake.local_id;
    rawe_conn_move(conn, &rails_peer(0, 1)->route, rails.now_ns);
    assert_int_equal(rails_used(conn), 1);
    rails_run(5 * UNIT_MS, 100 * UNIT_US);
    assert_int_equal(send.done, 1);
    assert_int_equal(send.status, RAWE_STATUS_DONE);
    assert_last_message(1, 1, 7, sizeof(data));
    assert_int_equal(conn->handshake.local_id, id);
    assert_int_equal(rails_used(rails_conn(1, 0, RAWE_LANE_BULK)), 1);
    assert_int_equal(rails_migrations(0), 1);
    assert_int_equal(rails_migrations(1), 1);
    /* What is lost with a route says nothing of the congestion of the next. */
    assert_int_equal(conn->engine->counters.congestion_events, 0);
}

TEST(rawe_conn_move__takes_nothing_twice)
{
    static struct unit_send send;
    memset(&send, 0, sizeof(send));
    unit_fill(data, sizeof(data), 3);
    struct rawe_conn *conn = rails_connect(RAWE_LANE_BULK);
    unit_send_message(conn, &send, 7, data, sizeof(data));
    /* The old route was slow, not dead: all arrives, some of it by both. */
    rawe_conn_move(conn, &rails_peer(0, 1)->route, rails.now_ns);
    rails_run(5 * UNIT_MS, 100 * UNIT_US);
    assert_int_equal(send.done, 1);
    assert_last_message(1, 1, 7, sizeof(data));
}

/** Data held up by a small congestion window need not wait for an answer by the new route. */
TEST(rawe_conn_move__goes_on_with_what_is_queued)
{
    static struct unit_send send;
    memset(&send, 0, sizeof(send));
    unit_fill(data, sizeof(data), 3);
    struct rawe_conn *conn = rails_connect(RAWE_LANE_EXPRESS);
    net_fix_window(conn, 4);
    unit_send_message(conn, &send, 7, data, sizeof(data));
    assert_int_equal(conn->sendwin.in_flight, 4);
    rails_cut(0);
    rails_cut(1); /* nothing is answered there either */
    rawe_conn_move(conn, &rails_peer(0, 1)->route, rails.now_ns);
    rails_settle();
    assert_true(conn->sendwin.in_flight > 4);
}

static unsigned operations_done;

static void operation_done(struct rawe_operation *operation, enum rawe_status status)
{
    assert_int_equal(status, RAWE_STATUS_DONE);
    assert_int_equal(operation->refusal, RAWE_REFUSAL_NONE);
    operations_done++;
}

TEST(rawe_conn_move__takes_operations_along)
{
    static uint64_t word;
    uint64_t before = 0;
    uint32_t index;
    uint64_t key;
    struct rawe_handle_table *handles = rails_conn(1, 0, RAWE_LANE_EXPRESS)->engine->config.handles;
    struct rawe_conn *conn = rails_connect(RAWE_LANE_EXPRESS);
    word = 5;
    operations_done = 0;
    assert_true(
        rawe_handle_register(handles, &word, sizeof(word), &index, &key, RAWE_ACCESS_ATOMIC));
    struct rawe_operation operation = {
        .done = operation_done,
        .handle_index = index,
        .handle_key = key,
        .len_bytes = sizeof(word),
        .to = (uint8_t *)&before,
        .atomic = RAWE_ATOMIC_ADD,
        .operand = 3,
    };
    rails_cut(0);
    assert_true(rawe_peer_operate(rails_peer(0, 0), &operation));
    rawe_conn_move(conn, &rails_peer(0, 1)->route, rails.now_ns);
    rails_run(5 * UNIT_MS, 100 * UNIT_US);
    assert_int_equal(operations_done, 1);
    assert_int_equal(word, 8);
    assert_int_equal(before, 5);
    assert_true(rawe_handle_deregister(handles, index, key));
}

TEST(rawe_conn_move__tells_a_peer_whose_acknowledgements_are_lost)
{
    struct rawe_conn *conn = rails_connect(RAWE_LANE_EXPRESS);
    struct rawe_conn *far = rails_conn(1, 0, RAWE_LANE_EXPRESS);
    assert_int_equal(unit_copy_message(far, 1, 100), RAWE_STATUS_DONE);
    rails_settle();
    rails_cut(0);
    /* Nothing is in flight from here; the first questions are lost as well. */
    rails.cut[1] = true;
    rawe_conn_move(conn, &rails_peer(0, 1)->route, rails.now_ns);
    rails_run(10 * UNIT_MS, 100 * UNIT_US);
    assert_int_equal(rails_used(far), 0);
    rails.cut[1] = false;
    rails_run(100 * UNIT_MS, 100 * UNIT_US);
    assert_int_equal(rails_used(far), 1);
    /* And then nothing is asked any more. */
    uint64_t probes = conn->engine->counters.probes_sent;
    rails_run(UNIT_S, UNIT_MS);
    assert_int_equal(conn->engine->counters.probes_sent, probes);
}

TEST(rawe_conn_move__ends_asking_a_peer_that_does_not_answer)
{
    struct rawe_conn *conn = rails_connect(RAWE_LANE_EXPRESS);
    rails_cut(0);
    rails_cut(1);
    rawe_conn_move(conn, &rails_peer(0, 1)->route, rails.now_ns);
    rails_run(20 * UNIT_S, 5 * UNIT_MS);
    assert_int_equal(rails.host[0].failed_calls, 0); /* nothing is waited for */
    assert_int_equal(conn->handshake.state, RAWE_CONN_OPEN);
    assert_true(conn->engine->counters.probes_sent < 10);
    /* The next caller begins again. */
    assert_false(rawe_liveness_unanswered(&conn->liveness));
    assert_int_equal(conn->liveness.silent_since_ns, 0);
}

static uint64_t batches_sent(const struct rawe_conn *conn)
{
    return conn->engine->counters.batches_sent;
}

TEST_WITH(with_batches, rawe_conn_move__validates_batches_again)
{
    static struct unit_send first, others[20]; /* more than a window */
    memset(&first, 0, sizeof(first));
    memset(others, 0, sizeof(others));
    unit_fill(data, sizeof(data), 3);
    struct rawe_conn *conn = rails_connect(RAWE_LANE_BULK);
    unit_send_message(conn, &first, 7, data, sizeof(data));
    rails_run(UNIT_MS, 100 * UNIT_US);
    assert_int_equal(conn->batch, RAWE_BATCH_VALID);
    assert_int_equal(first.done, 1);
    for (unsigned i = 0; i < 20; i++) {
        unit_send_message(conn, &others[i], 8, data, sizeof(data));
    }
    rails_cut(0);
    uint64_t before = batches_sent(conn);
    uint32_t next = conn->sendwin.next;
    rails.cut[2] = true;
    rawe_conn_move(conn, &rails_peer(0, 2)->route, rails.now_ns);
    net_fix_window(conn, 200); /* there would be room for more */
    rails_run(100 * UNIT_US, 100 * UNIT_US);
    assert_int_equal(conn->batch, RAWE_BATCH_MIGRATED);
    assert_int_equal(conn->sendwin.next, next);
    rails.cut[2] = false;
    while (conn->engine->counters.validations_passed == 1) {
        assert_int_not_equal(conn->batch, RAWE_BATCH_VALID);
        assert_true(batches_sent(conn) <= before + 1); /* of nothing but validation */
        assert_int_equal(others[19].done, 0);
        rails_run(100 * UNIT_US, 100 * UNIT_US);
    }
    assert_int_equal(conn->batch, RAWE_BATCH_VALID);
    rails_run(20 * UNIT_MS, 100 * UNIT_US);
    assert_int_equal(others[19].done, 1);
    assert_true(batches_sent(conn) > before + 10);
    assert_last_message(1, 21, 8, sizeof(data));
}

TEST_WITH(with_batches, rawe_conn_move__tries_batches_again_by_the_next_route)
{
    static struct unit_send sends[3];
    memset(sends, 0, sizeof(sends));
    unit_fill(data, sizeof(data), 3);
    struct rawe_conn *conn = rails_connect(RAWE_LANE_BULK);
    conn->batch = RAWE_BATCH_INVALID; /* they do not pass by rail 0 */
    conn->batch_failures = 10;
    conn->batch_verdict_ns = rails.now_ns;
    unit_send_message(conn, &sends[0], 7, data, sizeof(data));
    rails_run(UNIT_MS, 100 * UNIT_US);
    assert_int_equal(conn->batch, RAWE_BATCH_INVALID);
    rawe_conn_move(conn, &rails_peer(0, 2)->route, rails.now_ns);
    unit_send_message(conn, &sends[1], 8, data, sizeof(data));
    rails_run(UNIT_MS, 100 * UNIT_US);
    assert_int_equal(conn->batch, RAWE_BATCH_VALID);
    assert_int_equal(conn->batch_failures, 0);
    rails.host[0].nic[0].engine.batches.output.transmit = NULL;
    rawe_conn_move(conn, &rails_peer(0, 0)->route, rails.now_ns);
    unit_send_message(conn, &sends[2], 9, data, sizeof(data));
    rails_run(UNIT_MS, 100 * UNIT_US);
    assert_int_equal(conn->batch, RAWE_BATCH_INVALID);
    assert_last_message(1, 3, 9, sizeof(data));
}

TEST_WITH(with_batches, rawe_conn_move__goes_without_batches_where_the_link_has_none)
{
    static struct unit_send first, second;
    memset(&first, 0, sizeof(first));
    memset(&second, 0, sizeof(second));
    unit_fill(data, sizeof(data), 3);
    rails.host[0].nic[1].engine.batches.output.transmit = NULL;
    struct rawe_conn *conn = rails_connect(RAWE_LANE_BULK);
    unit_send_message(conn, &first, 7, data, sizeof(data));
    rails_run(UNIT_MS, 100 * UNIT_US);
    unit_send_message(conn, &second, 8, data, sizeof(data));
    rails_cut(0);
    rawe_conn_move(conn, &rails_peer(0, 1)->route, rails.now_ns);
    rails_run(20 * UNIT_MS, 100 * UNIT_US);
    assert_int_equal(second.done, 1);
    assert_last_message(1, 2, 8, sizeof(data));
}

TEST_WITH(with_batches, rawe_conn_move__gives_batches_up_where_they_do_not_pass)
{
    static struct unit_send first, second;
    memset(&first, 0, sizeof(first));
    memset(&second, 0, sizeof(second));
    unit_fill(data, sizeof(data), 3);
    rails.batches_cut[1] = true;
    struct rawe_conn *conn = rails_connect(RAWE_LANE_BULK);
    unit_send_message(conn, &first, 7, data, sizeof(data));
    rails_run(UNIT_MS, 100 * UNIT_US);
    assert_int_equal(conn->batch, RAWE_BATCH_VALID);
    rails_cut(0);
    rawe_conn_move(conn, &rails_peer(0, 1)->route, rails.now_ns);
    unit_send_message(conn, &second, 8, data, 1500);
    rails_run(UNIT_S, 100 * UNIT_US);
    assert_int_equal(second.done, 1);
    assert_last_message(1, 2, 8, 1500);
}

TEST(rawe_conn_move__sends_shorter_frames_where_no_others_pass)
{
    static struct unit_send first, second;
    rails_stop();
    rails_init();
    rails.mtu_payload_bytes[1] = 600; /* the harness refuses longer ones */
    rails_start(0);
    memset(&first, 0, sizeof(first));
    memset(&second, 0, sizeof(second));
    unit_fill(data, sizeof(data), 3);
    struct rawe_conn *conn = rails_connect(RAWE_LANE_BULK);
    uint32_t before_bytes = conn->payload_max_bytes;
    unit_send_message(conn, &first, 7, data, sizeof(data));
    rails_cut(0);
    rawe_peer_set_down(rails_peer(0, 0), rails.now_ns);
    assert_int_equal(conn->payload_max_bytes, 600);
    rails_run(20 * UNIT_MS, 100 * UNIT_US);
    assert_int_equal(first.done, 1);
    assert_last_message(1, 1, 7, sizeof(data));
    rails.cut[0] = false;
    rawe_peer_set_up(rails_peer(0, 0), rails.now_ns);
    assert_int_equal(conn->payload_max_bytes, before_bytes);
    unit_send_message(conn, &second, 8, data, sizeof(data));
    rails_run(20 * UNIT_MS, 100 * UNIT_US);
    assert_last_message(1, 2, 8, sizeof(data));
}

TEST(rawe_conn_move__waits_where_the_other_link_is_full)
{
    static struct unit_send send;
    struct rawe_conn *conn = rails_connect(RAWE_LANE_EXPRESS);
    memset(&send, 0, sizeof(send));
    unit_fill(data, 100, 3);
    rails_cut(0);
    rails.host[0].nic[1].room = 0;
    rawe_conn_move(conn, &rails_peer(0, 1)->route, rails.now_ns);
    unit_send_message(conn, &send, 3, data, 100);
    assert_int_equal(conn->sendwin.to_transmit, 1);
    rails_settle();
    assert_int_equal(conn->sendwin.to_transmit, 1);
    rails.host[0].nic[1].room = UINT32_MAX;
    rails_run(UNIT_MS, 100 * UNIT_US);
    assert_last_message(1, 1, 3, 100);
}

TEST(rawe_conn_move__tries_another_link_that_is_full_once)
{
    static struct unit_send sends[RAWE_LANES];
    struct rawe_conn *conns[RAWE_LANES];
    const struct rawe_counters *counters = &rails.host[0].nic[0].engine.counters;
    memset(sends, 0, sizeof(sends));
    unit_fill(data, 1000, 3);
    for (unsigned lane = 0; lane < RAWE_LANES; lane++) {
        conns[lane] = rails_connect(lane);
    }
    rails_cut(0);
    rails.host[0].nic[1].room = 0;
    for (unsigned lane = 0; lane < RAWE_LANES; lane++) {
        rawe_conn_move(conns[lane], &rails_peer(0, 1)->route, rails.now_ns);
        unit_send_message(conns[lane], &sends[lane], 3, data, 1000);
    }
    uint64_t stalls = counters->link_stalls;
    for (unsigned i = 1; i <= 10; i++) {
        rawe_engine_flush(&rails.host[0].nic[0].engine, rails.now_ns);
        assert_int_equal(counters->link_stalls, stalls + i);
    }
    rails.host[0].nic[1].room = UINT32_MAX;
    rails_run(UNIT_MS, 100 * UNIT_US);
    assert_last_message(1, 2, 3, 1000);
}

/** Frames that peers may have in flight to a ring of host 1. */
static uint32_t promised(unsigned rail)
{
    uint32_t sum = 0;
    for (unsigned preferred = 0; preferred < RAILS; preferred++) {
        for (unsigned lane = 0; lane < RAWE_LANES; lane++) {
            const struct rawe_conn *conn = rails_peer(1, preferred)->conn[lane];
            sum += conn != NULL && rails_used(conn) == rail ? conn->credit.advertised : 0;
        }
    }
    return sum;
}

TEST(rawe_conn_move__takes_credit_from_the_ring_that_it_comes_to)
{
    struct rawe_conn *conns[RAILS];
    rails_stop();
    rails_init();
    rails.config.receive_frames = 96;
    rails.config.window_frames = 64;
    rails_start(0);
    for (unsigned rail = 0; rail < RAILS; rail++) {
        conns[rail] = rails_conn(0, rail, RAWE_LANE_EXPRESS);
        rawe_conn_connect(conns[rail], rails.now_ns);
        rails_settle();
        assert_int_equal(rails_used(rails_conn(1, rail, RAWE_LANE_EXPRESS)), rail);
    }
    rails_cut(1);
    rawe_conn_move(conns[1], &rails_peer(0, 0)->route, rails.now_ns);
    rails_cut(2);
    rawe_conn_move(conns[2], &rails_peer(0, 0)->route, rails.now_ns);
    for (unsigned i = 0; i < 100; i++) {
        for (unsigned rail = 0; rail < RAILS; rail++) {
            (void)unit_copy_message(conns[rail], 1, 100);
        }
        rails_run(UNIT_MS, 100 * UNIT_US);
    }
    assert_in_range(promised(0), 3, 96);
    for (unsigned i = 0; i < 100; i++) { /* two fall silent, and have to give back */
        (void)unit_copy_message(conns[0], 1, 100);
        rails_run(UNIT_MS, 100 * UNIT_US);
    }
    assert_in_range(promised(0), 3, 96);
    assert_true(conns[0]->peer_credit >= 48);
    /* And each of them has some. */
    for (unsigned rail = 0; rail < RAILS; rail++) {
        assert_int_equal(rails_used(rails_conn(1, rail, RAWE_LANE_EXPRESS)), 0);
        assert_true(conns[rail]->peer_credit != 0);
    }
    /* Time goes on for that ring, although nothing else comes to it. */
    struct rawe_conn *far = rails_conn(1, 1, RAWE_LANE_EXPRESS);
    uint32_t epoch = far->via->credit.epoch;
    rawe_conn_make_pending(far);
    rawe_engine_flush(far->engine, rails.now_ns + 20 * UNIT_MS);
    assert_int_equal(far->via->credit.epoch, epoch + 1);
    assert_int_equal(rails.host[1].nic[1].engine.credit.advertised[RAWE_LANE_EXPRESS], 0);
    rails.cut[1] = rails.cut[2] = false;
    for (unsigned rail = 1; rail < RAILS; rail++) {
        rawe_conn_move(conns[rail], &rails_peer(0, rail)->route, rails.now_ns);
    }
    rails_run(100 * UNIT_MS, 100 * UNIT_US);
    for (unsigned rail = 0; rail < RAILS; rail++) {
        assert_int_equal(rails.host[1].nic[rail].engine.credit.open[RAWE_LANE_EXPRESS], 1);
    }
}

TEST(rawe_conn_move__asks_for_the_connection_by_the_other_route)
{
    static struct unit_send send;
    memset(&send, 0, sizeof(send));
    unit_fill(data, sizeof(data), 3);
    struct rawe_conn *conn = rails_conn(0, 0, RAWE_LANE_BULK);
    rails_cut(0);
    unit_send_message(conn, &send, 7, data, sizeof(data));
    rails_run(20 * UNIT_MS, 100 * UNIT_US);
    assert_int_equal(conn->handshake.state, RAWE_CONN_CONNECTING);
    rawe_conn_move(conn, &rails_peer(0, 1)->route, rails.now_ns);
    rails_run(20 * UNIT_MS, 100 * UNIT_US);
    assert_int_equal(send.done, 1);
    assert_last_message(1, 1, 7, sizeof(data));
    assert_int_equal(rails_used(rails_conn(1, 0, RAWE_LANE_BULK)), 1);
}

/** A job that was suspended learns that a route is down before it has asked any peer. */
TEST(rawe_conn_move__does_not_count_our_own_absence)
{
    struct rawe_conn *conn = rails_connect(RAWE_LANE_EXPRESS);
    rails_cut(0);
    assert_int_equal(unit_copy_message(conn, 3, 100), RAWE_STATUS_DONE);
    rails_run(50 * UNIT_MS, UNIT_MS);
    rails.now_ns += 100 * UNIT_S;
    rails_cut(1); /* what is asked there first is lost */
    rawe_conn_move(conn, &rails_peer(0, 1)->route, rails.now_ns);
    rails_run(20 * UNIT_MS, UNIT_MS);
    assert_int_equal(rails.host[0].failed_calls, 0);
    rails.cut[1] = false;
    rails_run(100 * UNIT_MS, UNIT_MS);
    assert_int_equal(rails.host[1].inbox.message_count, 1);
}

/* rawe_conn_follow */

static struct net_frame *recorded;

/** Keep the first PROBE that comes by rail 1. */
static void record_probe(struct net_frame *frame, unsigned rail)
{
    if (rail == 1 && frame->header.type == RAWE_FRAME_PROBE && recorded == NULL) {
        recorded = net_frame_copy(frame);
    }
}

/** Host 0 moves to rail 1 and back again; a PROBE of that is in `recorded`. */
static struct rawe_conn *move_and_go_home(void)
{
    struct rawe_conn *conn = rails_connect(RAWE_LANE_EXPRESS);
    recorded = NULL;
    rails.on_frame = record_probe;
    rawe_conn_move(conn, &rails_peer(0, 1)->route, rails.now_ns);
    rails_run(UNIT_MS, 100 * UNIT_US);
    assert_int_equal(rails_used(rails_conn(1, 0, RAWE_LANE_EXPRESS)), 1);
    rawe_conn_move(conn, &rails_peer(0, 0)->route, rails.now_ns);
    rails_run(UNIT_MS, 100 * UNIT_US);
    assert_int_equal(rails_used(rails_conn(1, 0, RAWE_LANE_EXPRESS)), 0);
    assert_non_null(recorded);
    return conn;
}

TEST(rawe_conn_follow__does_not_heed_a_probe_that_is_repeated)
{
    (void)move_and_go_home();
    rails_receive(recorded);
    rails_settle();
    assert_int_equal(rails_used(rails_conn(1, 0, RAWE_LANE_EXPRESS)), 0);
    net_frame_free(recorded);
}

TEST(rawe_conn_follow__does_not_heed_one_that_is_so_old_that_it_looks_new)
{
    struct rawe_conn *conn = move_and_go_home();
    const struct rawe_conn *far = rails_conn(1, 0, RAWE_LANE_EXPRESS);
    for (unsigned i = 0; i < 2 * 64; i++) { /* half of all the numbers that migrations have */
        rawe_conn_move(conn, &rails_peer(0, (i + 1) % 2)->route, rails.now_ns);
        rails_run(UNIT_MS, 100 * UNIT_US);
        assert_int_equal(rails_used(far), (i + 1) % 2);
    }
    rails_receive(recorded);
    rails_settle();
    assert_int_equal(rails_used(far), 0);
    rawe_conn_move(conn, &rails_peer(0, 2)->route, rails.now_ns);
    rails_run(UNIT_MS, 100 * UNIT_US);
    assert_int_equal(rails_used(far), 2);
    net_frame_free(recorded);
}

TEST(rawe_conn_follow__heeds_probes_whatever_their_numbers)
{
    static const uint32_t numbers[] = {0x7FFFFFFF, 0x80000000, 0xC0000000, UINT32_MAX};
    struct rawe_conn *conn = rails_connect(RAWE_LANE_EXPRESS);
    struct rawe_conn *far = rails_conn(1, 0, RAWE_LANE_EXPRESS);
    for (unsigned i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
        far->newest_probe = 0; /* its life is new, that of the peer's numbers is not */
        conn->liveness.probe_number = numbers[i];
        for (unsigned rail = 2; rail-- > 0;) {
            rawe_conn_move(conn, &rails_peer(0, rail)->route, rails.now_ns);
            rails_run(UNIT_MS, 100 * UNIT_US);
            assert_int_equal(rails_used(far), rail);
            assert_false(rawe_conn_newest_probe(far, RAWE_PROBE_PLAIN)); /* it has no number */
        }
    }
}

/** What has to be right in a PROBE: its sender is as good as the peer. */
TEST(rawe_conn_follow__does_not_heed_a_probe_that_says_something_wrong)
{
    (void)move_and_go_home();
    const struct rawe_conn *far = rails_conn(1, 0, RAWE_LANE_EXPRESS);
    struct rawe_engine *engine = &rails.host[1].nic[1].engine;
    enum { RIGHT, SOURCE, KEY, ID, PEER_ID, PEER_KEY, PEER_PORT, ACK, CASES };
    for (unsigned what = CASES; what-- > 0;) {
        struct net_frame *frame = net_frame_copy(recorded);
        uint8_t *payload = frame->bytes + RAWE_PAYLOAD_OFFSET;
        struct rawe_header header = frame->header;
        struct rawe_connect from;
        assert_int_equal(rawe_connect_decode(&from, payload, RAWE_CONNECT_BYTES), RAWE_DECODE_OK);
        header.sequence += 100 + CASES - what; /* newer than all before */
        header.acknowledgement += what == ACK ? 5 : 0;
        header.key += what == KEY;
        header.connection_id += what == ID ? 1u << 20 : 0;
        from.connection_id += what == PEER_ID;
        from.key += what == PEER_KEY;
        from.port = (uint16_t)(from.port + (what == PEER_PORT));
        from.choice = 100;
        frame->bytes[RAWE_MAC_BYTES + 5] ^= what == SOURCE ? 0x80 : 0;
        rawe_connect_encode(payload, &from);
        rawe_header_encode(frame->bytes + RAWE_ETH_HEADER_BYTES, &header);
        rails_receive(frame);
        net_frame_free(frame);
        assert_int_equal(rails_used(far), what == RIGHT ? 1 : 0);
    }
    assert_int_equal(engine->counters.dropped_source, 1);
    assert_int_equal(engine->counters.dropped_key, 1);
    assert_int_equal(engine->counters.dropped_connection, 1);
    assert_int_equal(rails.host[1].nic[0].engine.counters.dropped_ack, 1);
    net_frame_free(recorded);
}

TEST(rawe_conn_follow__comes_home_to_an_address_that_is_everywhere)
{
    rails_stop();
    rails_init();
    rails.one_mac = true;
    rails_start(0);
    struct rawe_conn *conn = rails_connect(RAWE_LANE_EXPRESS);
    const struct rawe_conn *far = rails_conn(1, 0, RAWE_LANE_EXPRESS);
    rawe_conn_move(conn, &rails_peer(0, 1)->route, rails.now_ns);
    rails_run(UNIT_MS, 100 * UNIT_US);
    assert_int_equal(rails_used(far), 1);
    rawe_conn_move(conn, &rails_peer(0, 0)->route, rails.now_ns);
    rails_run(UNIT_MS, 100 * UNIT_US);
    assert_int_equal(rails_used(far), 0);
}

TEST(rawe_conn_follow__not_to_a_route_that_is_down)
{
    struct rawe_conn *conn = rails_connect(RAWE_LANE_EXPRESS);
    rails_peer(1, 1)->route.down = true;
    rawe_conn_move(conn, &rails_peer(0, 1)->route, rails.now_ns);
    rails_run(UNIT_MS, 100 * UNIT_US);
    assert_int_equal(rails_used(rails_conn(1, 0, RAWE_LANE_EXPRESS)), 0);
    /* It works nevertheless. */
    assert_int_equal(unit_copy_message(conn, 3, 100), RAWE_STATUS_DONE);
    rails_run(UNIT_MS, 100 * UNIT_US);
    assert_true(rawe_conn_drained(conn));
}

TEST(rawe_conn_follow__ends_agree_when_both_have_moved)
{
    struct rawe_conn *conn = rails_connect(RAWE_LANE_EXPRESS);
    struct rawe_conn *far = rails_conn(1, 0, RAWE_LANE_EXPRESS);
    rails_cut(0);
    rawe_conn_move(conn, &rails_peer(0, 1)->route, rails.now_ns);
    rawe_conn_move(far, &rails_peer(1, 2)->route, rails.now_ns);
    rails_run(UNIT_MS, 100 * UNIT_US);
    assert_int_equal(rails_used(conn), 1);
    assert_int_equal(rails_used(far), 1);
    rails_run(UNIT_S, UNIT_MS);
    assert_int_equal(rails_migrations(0), 1);
    assert_int_equal(rails_migrations(1), 2);
}

TEST(rawe_conn_follow__the_one_that_stays_heeds_one_that_cannot_come)
{
    struct rawe_conn *conn = rails_connect(RAWE_LANE_EXPRESS);
    struct rawe_conn *far = rails_conn(1, 0, RAWE_LANE_EXPRESS);
    rails_cut(0);
    rails_cut(1);
    rawe_conn_move(conn, &rails_peer(0, 1)->route, rails.now_ns); /* in vain */
    rawe_conn_move(far, &rails_peer(1, 2)->route, rails.now_ns);
    rails_run(60 * UNIT_MS, 100 * UNIT_US);
    assert_int_equal(rails_used(far), 2);
    assert_int_equal(rails_used(conn), 2);
}

/** Ranks do not decide between processes of two jobs that have both moved. */
TEST(rawe_conn_follow__processes_of_different_jobs_agree)
{
    struct rawe_conn *conn = rails_connect(RAWE_LANE_EXPRESS);
    struct rawe_connect from = {.jobid = rails.config.jobid + 1, .vpid = 0};
    conn->migrated_ns = rails.now_ns;
    rawe_conn_follow(conn, &rails_peer(0, 1)->route, &from, from.choice, rails.now_ns);
    assert_int_equal(rails_used(conn), 0);
    from = (struct rawe_connect){.jobid = rails.config.jobid - 1, .vpid = 1};
    rawe_conn_follow(conn, &rails_peer(0, 1)->route, &from, from.choice, rails.now_ns);
    assert_int_equal(rails_used(conn), 1);
}

/* rawe_conn_follow_connect */

TEST(rawe_conn_follow_connect__not_to_a_route_that_is_down)
{
    struct rawe_conn *far = rails_conn(1, 0, RAWE_LANE_EXPRESS);
    struct rawe_route *route = &rails_peer(1, 1)->route;
    route->down = true;
    rawe_conn_follow_connect(far, route, 1, rails.now_ns);
    assert_int_equal(rails_used(far), 0);
    route->down = false;
    rawe_conn_follow_connect(far, route, 1, rails.now_ns);
    assert_int_equal(rails_used(far), 1);
}

/** Its first frame is still missing. */
TEST(rawe_conn_follow_connect__not_when_data_has_come)
{
    static struct unit_send send;
    static uint8_t message[3000];
    struct rawe_conn *conn = rails_connect(RAWE_LANE_EXPRESS);
    struct rawe_conn *far = rails_conn(1, 0, RAWE_LANE_EXPRESS);
    unit_send_message(conn, &send, 1, message, sizeof(message));
    rails_receive(rails.wire->next);
    rawe_conn_follow_connect(far, &rails_peer(1, 1)->route, far->handshake.peer_incarnation,
                             rails.now_ns);
    assert_int_equal(rails_used(far), 0);
    rails_settle();
    assert_int_equal(rails.host[1].inbox.message_count, 1);
}

/* rawe_conn_fail_back */

/** A message, which is acknowledged before the peer is asked; 100 ms. */
static void talk(struct rawe_conn *conn)
{
    uint64_t probes = conn->engine->counters.probes_sent;
    assert_int_equal(unit_copy_message(conn, 3, 100), RAWE_STATUS_DONE);
    rails_run(UNIT_MS, 20 * UNIT_US);
    rails_run(99 * UNIT_MS, UNIT_MS);
    assert_true(conn->engine->counters.probes_sent == probes);
}

TEST(rawe_conn_fail_back__after_a_connect_that_was_late)
{
    rawe_peer_set_down(rails_peer(0, 0), rails.now_ns);
    struct rawe_conn *conn = rails_conn(0, 0, RAWE_LANE_EXPRESS);
    rawe_conn_connect(conn, rails.now_ns);
    struct net_frame *late = net_frame_copy(rails.wire);
    rails_cut(1);
    rails.cut[1] = false;
    rawe_peer_set_up(rails_peer(0, 0), rails.now_ns);
    rails_settle();
    struct rawe_conn *far = rails_conn(1, 0, RAWE_LANE_EXPRESS);
    assert_int_equal(rails_used(conn), 0);
    assert_int_equal(rails_used(far), 0);
    rails_receive(late);
    net_frame_free(late);
    assert_int_equal(rails_used(far), 1); /* for all that it knows the peer is there */
    for (unsigned i = 0; i < 20; i++) {
        talk(conn);
    }
    assert_int_equal(rails_used(conn), 0);
    assert_int_equal(rails_used(far), 0);
    assert_int_equal(rails.host[1].inbox.message_count, 20);
}

TEST(rawe_conn_follow_connect__not_one_of_an_earlier_life)
{
    rawe_peer_set_down(rails_peer(0, 0), rails.now_ns);
    struct rawe_conn *conn = rails_conn(0, 0, RAWE_LANE_EXPRESS);
    rawe_conn_connect(conn, rails.now_ns);
    struct net_frame *late = net_frame_copy(rails.wire);
    rails_cut(1);
    rails.cut[1] = false;
    rawe_peer_set_up(rails_peer(0, 0), rails.now_ns);
    rails_settle();
    struct rawe_conn *far = rails_conn(1, 0, RAWE_LANE_EXPRESS);
    far->handshake.peer_incarnation++; /* it has heard of a later one */
    rails_receive(late);
    net_frame_free(late);
    assert_int_equal(rails.host[1].nic[1].engine.counters.dropped_connection +
                         rails.host[1].nic[0].engine.counters.dropped_connection,
                     1);
    assert_int_equal(rails_used(far), 0);
    assert_int_equal(rails_migrations(1), 0);
}

/** Host 0 moves back, and the PROBE that would tell the other end is lost. */
static struct rawe_conn *go_home_unheard(void)
{
    struct rawe_conn *conn = rails_connect(RAWE_LANE_EXPRESS);
    rawe_conn_move(conn, &rails_peer(0, 1)->route, rails.now_ns);
    rails_run(100 * UNIT_MS, UNIT_MS);
    rails_cut(0);
    rawe_conn_move(conn, &rails_peer(0, 0)->route, rails.now_ns);
    rails.cut[0] = false;
    /* It has heard something, and asks no more. */
    talk(rails_conn(1, 0, RAWE_LANE_EXPRESS));
    assert_int_equal(rails_used(conn), 0);
    assert_int_equal(rails_used(rails_conn(1, 0, RAWE_LANE_EXPRESS)), 1);
    return conn;
}

TEST(rawe_conn_fail_back__after_a_probe_that_was_lost)
{
    struct rawe_conn *conn = go_home_unheard();
    for (unsigned i = 0; i < 20; i++) {
        talk(conn);
        /* Not at once: it may have been sent before the peer left. */
        assert_true(i > 5 || rails_used(rails_conn(1, 0, RAWE_LANE_EXPRESS)) == 1);
    }
    assert_int_equal(rails_used(rails_conn(1, 0, RAWE_LANE_EXPRESS)), 0);
    assert_int_equal(rails_used(conn), 0);
    assert_int_equal(rails.host[1].inbox.message_count, 20);
}

TEST(rawe_conn_fail_back__not_while_home_is_down)
{
    struct rawe_conn *conn = go_home_unheard();
    rails_peer(1, 0)->route.down = true;
    for (unsigned i = 0; i < 20; i++) {
        talk(conn);
    }
    assert_int_equal(rails_used(rails_conn(1, 0, RAWE_LANE_EXPRESS)), 1);
    assert_int_equal(rails.host[1].inbox.message_count, 20);
    rawe_peer_set_up(rails_peer(1, 0), rails.now_ns);
    assert_int_equal(rails_used(rails_conn(1, 0, RAWE_LANE_EXPRESS)), 0);
}

/** It has no connection there, and connects by the route it uses. */
TEST(rawe_conn_fail_back__not_while_it_connects)
{
    struct rawe_conn *conn = rails_conn(0, 0, RAWE_LANE_EXPRESS);
    rails_cut(0);
    rails_cut(1);
    rawe_conn_connect(conn, rails.now_ns);
    rawe_conn_move(conn, &rails_peer(0, 1)->route, rails.now_ns);
    rails_run(2 * UNIT_S, UNIT_MS);
    rawe_conn_fail_back(conn, conn->preferred, rails.now_ns);
    assert_int_equal(conn->handshake.state, RAWE_CONN_CONNECTING);
    assert_int_equal(rails_used(conn), 1);
}

#define ROUNDS 400u

static unsigned long random_state;

static unsigned draw(unsigned below)
{
    random_state = random_state * 6364136223846793005ul + 1442695040888963407ul;
    return (unsigned)(random_state >> 33) % below;
}

/** As the responder's PINGs find it in a real process: this rail is dead, another is not. */
static void judge(struct rails_host *host, struct rawe_conn *conn)
{
    bool other = false;
    for (unsigned rail = 0; rail < RAILS; rail++) {
        other = other || !rails.cut[rail];
    }
    if (other && rails.cut[rails_used(conn)]) {
        rawe_peer_set_down(&host->nic[rails_used(conn)].peer, rails.now_ns);
    }
}

/** Pull a cable and mend it; hosts learn of it by their carrier, or do not. */
static void trouble(void)
{
    unsigned rail = draw(RAILS);
    if (!rails.cut[rail]) {
        rails_cut(rail);
        for (unsigned i = 0; i < 2; i++) {
            if (draw(2) == 0) {
                rawe_peer_set_down(rails_peer(i, rail), rails.now_ns);
            }
        }
        return;
    }
    rails.cut[rail] = false;
}

/** Probes have found rails working again. */
static void recover(void)
{
    for (unsigned i = 0; i < 2; i++) {
        for (unsigned rail = 0; rail < RAILS; rail++) {
            if (!rails.cut[rail] && rails_peer(i, rail)->route.down) {
                rawe_peer_set_up(rails_peer(i, rail), rails.now_ns);
            }
        }
    }
}

/** A message, somewhere from 0 to the length of several frames, numbered and copied. */
struct letter {
    struct unit_send send; /**< first */
    uint8_t *memory;
    size_t len_bytes;
};

/** Each message of host `from` is at the other once, and as it was sent. */
static void check_letters(const struct letter *letters, unsigned from)
{
    const struct unit_node *inbox = &rails.host[1 - from].inbox;
    static unsigned seen[ROUNDS];
    memset(seen, 0, sizeof(seen));
    assert_int_equal(inbox->message_count, ROUNDS);
    for (unsigned i = 0; i < ROUNDS; i++) {
        const struct unit_message *message = &inbox->messages[i];
        uint16_t number;
        memcpy(&number, message->data, sizeof(number));
        assert_true(number < ROUNDS);
        assert_int_equal(message->len_bytes, letters[number].len_bytes);
        assert_memory_equal(message->data, letters[number].memory, message->len_bytes);
        assert_int_equal(seen[number]++, 0);
        assert_int_equal(letters[i].send.done, 1);
        assert_int_equal(letters[i].send.status, RAWE_STATUS_DONE);
    }
}

static void write_letter(struct letter *letter, unsigned from, unsigned number)
{
    uint16_t written = (uint16_t)number;
    letter->len_bytes = 16 + draw(20000);
    letter->memory = malloc(letter->len_bytes);
    assert_non_null(letter->memory);
    unit_fill(letter->memory, letter->len_bytes, number);
    memcpy(letter->memory, &written, sizeof(written));
    enum rawe_lane lane = letter->len_bytes < 1000 ? RAWE_LANE_EXPRESS : RAWE_LANE_BULK;
    unit_send_message(rails_conn(from, draw(RAILS), lane), &letter->send, (uint8_t)number,
                      letter->memory, letter->len_bytes);
}

static void one_bad_day(unsigned seed)
{
    struct letter *letters[2];
    random_state = seed * 2654435761ul + 1;
    rails_init();
    rails_start(draw(2) != 0 ? 16 : 0);
    for (unsigned i = 0; i < 2; i++) {
        rails.host[i].on_silent = judge;
        letters[i] = calloc(ROUNDS, sizeof(*letters[i]));
        assert_non_null(letters[i]);
    }
    for (unsigned i = 0; i < ROUNDS; i++) {
        write_letter(&letters[0][i], 0, i);
        write_letter(&letters[1][i], 1, i);
        if (draw(8) == 0) {
            trouble();
        }
        if (draw(16) == 0) {
            recover();
        }
        rails_run(draw(4) == 0 ? draw(20) * UNIT_MS : 200 * UNIT_US, 200 * UNIT_US);
    }
    memset(rails.cut, 0, sizeof(rails.cut));
    recover();
    rails_run(3 * UNIT_S, UNIT_MS);
    for (unsigned i = 0; i < 2; i++) {
        assert_int_equal(rails.host[i].failed_calls, 0);
        assert_int_equal(rails.host[i].lost_calls, 0);
        check_letters(letters[i], i);
        for (unsigned rail = 0; rail < RAILS; rail++) {
            for (unsigned lane = 0; lane < RAWE_LANES; lane++) {
                const struct rawe_conn *conn = rails_peer(i, rail)->conn[lane];
                assert_true(conn == NULL || rails_used(conn) == rail);
            }
        }
    }
    rails_stop();
    for (unsigned i = 0; i < 2; i++) {
        for (unsigned j = 0; j < ROUNDS; j++) {
            free(letters[i][j].memory);
        }
        free(letters[i]);
    }
}

TEST_WITH(unit_no_fixture, move__loses_nothing_and_doubles_nothing_at_random)
{
    const char *seeds = getenv("RAWE_MOVE_SEEDS");
    unsigned count = seeds != NULL ? (unsigned)strtoul(seeds, NULL, 10) : 20;
    for (unsigned seed = 1; seed <= count; seed++) {
        one_bad_day(seed);
    }
}
