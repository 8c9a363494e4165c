/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Tests of moving a connection to another route, and of answers to a peer that has moved.
 */
#include "unit_rails.h"

#include "conn/rawe_conn_connect.h"
#include "conn/rawe_conn_control.h"
#include "conn/rawe_conn_path.h"
#include "conn/rawe_conn.h"

static uint8_t data[40000];

static void set_up(void)
{
    rails_set_up();
    unit_fill(data, sizeof(data), 3);
}

static void set_up_batches(void)
{
    unit_fill(data, sizeof(data), 3);
    rails_init();
    rails.net.config.window_frames = 256;
    rails.net.config.receive_frames = 1024;
    rails_start(16);
}

static void assert_last_message(unsigned host, unsigned count, uint8_t tag, size_t len_bytes)
{
    unit_assert_last(&rails.host[host].inbox, count, tag, len_bytes, 3);
}

/** Rail 0 is cut, and the connection leaves it. */
static void cut_and_move(struct rawe_conn *conn, unsigned rail)
{
    rails_cut(0);
    rawe_conn_move(conn, &rails_peer(0, rail)->route, rails.now_ns);
}

FIXTURE(set_up, rails_stop);
static const struct unit_fixture with_batches = {set_up_batches, rails_stop};

TEST(rawe_conn_open__uses_another_route_while_the_preferred_one_is_down)
{
    rails_cut(0);
    rawe_peer_set_down(rails_peer(0, 0), rails.now_ns);
    struct rawe_conn *conn = rails_conn(0, 0, RAWE_LANE_EXPRESS);
    assert_int_equal(rails_used(conn), 1);
    assert_int_equal(unit_copy_message(conn, 1, 100), RAWE_STATUS_BUSY); /* it connects */
    unit_run(&rails.net, 10 * UNIT_MS, 100 * UNIT_US);
    assert_int_equal(conn->handshake.state, RAWE_CONN_OPEN);
    /* The far end belongs to the same pair of interfaces. */
    assert_non_null(rails_peer(1, 0)->conn[RAWE_LANE_EXPRESS]);
    assert_null(rails_peer(1, 1)->conn[RAWE_LANE_EXPRESS]);
    assert_int_equal(rails_migrations(0), 0);
    assert_int_equal(rails_migrations(1), 0);
}

/** Else they would look as if they had been sent before the probe, which answers for those. */
TEST(rawe_conn_move__frames_that_follow_are_not_older_than_the_probe)
{
    struct rawe_conn *conn = rails_connect(RAWE_LANE_EXPRESS);
    rails.now_ns += UNIT_US;
    rawe_conn_move(conn, &rails_peer(0, 1)->route, rails.now_ns);
    assert_int_equal(conn->engine->now_ns, rails.now_ns);
}

/** The first answer by the new route says what the old one has lost. */
TEST(rawe_conn_move__the_answer_to_its_probe_finds_what_was_lost)
{
    struct rawe_conn *conn = rails_connect(RAWE_LANE_EXPRESS);
    rails_cut(0);
    unit_send_copy(conn, 1, 100);
    rails.now_ns += UNIT_US;
    rawe_conn_move(conn, &rails_peer(0, 1)->route, rails.now_ns);
    while (conn->engine->counters.frames_resent == 0) {
        unit_run(&rails.net, 10 * UNIT_US, 10 * UNIT_US);
        assert_int_equal(conn->engine->counters.probes_sent, 1); /* no other was needed */
    }
    assert_int_equal(conn->engine->counters.probes_answered, 1);
    assert_int_equal(rails.host[1].inbox.message_count, 1);
}

/** Silence may be congestion, and the next route may lead through the same port. */
TEST(rawe_conn_move__neither_raises_the_window_nor_forgives_losses)
{
    static struct unit_send send;
    struct rawe_conn *conn = rails_connect(RAWE_LANE_EXPRESS);
    rawe_cc_set_window(&conn->cc, 4);
    unit_send_message(conn, &send, 7, data, sizeof(data));
    assert_int_equal(conn->sendwin.in_flight, 4);
    cut_and_move(conn, 1);
    assert_int_equal(conn->cc.window, 4);
    unit_run(&rails.net, 5 * UNIT_MS, 100 * UNIT_US);
    assert_int_equal(send.done, 1);
    assert_int_equal(conn->engine->counters.congestion_events, 1);
}

TEST(rawe_conn_move__ends_asking_a_peer_that_does_not_answer)
{
    struct rawe_conn *conn = rails_connect(RAWE_LANE_EXPRESS);
    rails_cut(0);
    rails_cut(1);
    rawe_conn_move(conn, &rails_peer(0, 1)->route, rails.now_ns);
    unit_run(&rails.net, 20 * UNIT_S, 5 * UNIT_MS);
    assert_int_equal(rails.host[0].failed_calls, 0); /* nothing is waited for */
    assert_int_equal(conn->handshake.state, RAWE_CONN_OPEN);
    assert_true(conn->engine->counters.probes_sent < 10);
    /* The next caller begins again. */
    assert_int_equal(conn->liveness.probes_unanswered, 0);
    assert_int_equal(conn->liveness.silent_since_ns, 0);
}

static uint64_t batches_sent(const struct rawe_conn *conn)
{
    return conn->engine->counters.batches_sent;
}

TEST_WITH(with_batches, rawe_conn_move__validates_batches_again)
{
    static struct unit_send first, others[20]; /* more than a window */
    struct rawe_conn *conn = rails_connect(RAWE_LANE_BULK);
    unit_send_message(conn, &first, 7, data, sizeof(data));
    unit_run(&rails.net, UNIT_MS, 100 * UNIT_US);
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
    unit_fix_window(conn, 200); /* there would be room for more */
    unit_run(&rails.net, 100 * UNIT_US, 100 * UNIT_US);
    assert_int_equal(conn->batch, RAWE_BATCH_MIGRATED);
    assert_int_equal(conn->sendwin.next, next);
    rails.cut[2] = false;
    while (conn->engine->counters.validations_passed == 1) {
        assert_int_not_equal(conn->batch, RAWE_BATCH_VALID);
        assert_true(batches_sent(conn) <= before + 1); /* of nothing but validation */
        assert_int_equal(others[19].done, 0);
        unit_run(&rails.net, 100 * UNIT_US, 100 * UNIT_US);
    }
    assert_int_equal(conn->batch, RAWE_BATCH_VALID);
    unit_run(&rails.net, 20 * UNIT_MS, 100 * UNIT_US);
    assert_int_equal(others[19].done, 1);
    assert_true(batches_sent(conn) > before + 10);
    assert_last_message(1, 21, 8, sizeof(data));
}

TEST_WITH(with_batches, rawe_conn_move__tries_batches_again_by_the_next_route)
{
    static struct unit_send sends[3];
    struct rawe_conn *conn = rails_connect(RAWE_LANE_BULK);
    conn->batch = RAWE_BATCH_INVALID; /* they do not pass by rail 0 */
    conn->batch_failures = 10;
    conn->batch_verdict_ns = rails.now_ns;
    unit_send_message(conn, &sends[0], 7, data, sizeof(data));
    unit_run(&rails.net, UNIT_MS, 100 * UNIT_US);
    assert_int_equal(conn->batch, RAWE_BATCH_INVALID);
    rawe_conn_move(conn, &rails_peer(0, 2)->route, rails.now_ns);
    unit_send_message(conn, &sends[1], 8, data, sizeof(data));
    unit_run(&rails.net, UNIT_MS, 100 * UNIT_US);
    assert_int_equal(conn->batch, RAWE_BATCH_VALID);
    assert_int_equal(conn->batch_failures, 0);
    rails.host[0].nic[0].engine.batches.output.transmit = NULL;
    rawe_conn_move(conn, &rails_peer(0, 0)->route, rails.now_ns);
    unit_send_message(conn, &sends[2], 9, data, sizeof(data));
    unit_run(&rails.net, UNIT_MS, 100 * UNIT_US);
    assert_int_equal(conn->batch, RAWE_BATCH_INVALID);
    assert_last_message(1, 3, 9, sizeof(data));
}

/** The link has none, or they are lost. */
TEST_WITH(with_batches, rawe_conn_move__goes_without_batches_where_they_do_not_pass)
{
    static const size_t lengths[] = {sizeof(data), 1500};
    static struct unit_send first, second;
    for (unsigned lost = 0; lost < 2; lost++) {
        rails_stop();
        set_up_batches();
        if (lost) {
            rails.batches_cut[1] = true;
        } else {
            rails.host[0].nic[1].engine.batches.output.transmit = NULL;
        }
        struct rawe_conn *conn = rails_connect(RAWE_LANE_BULK);
        unit_send_message(conn, &first, 7, data, sizeof(data));
        unit_run(&rails.net, UNIT_MS, 100 * UNIT_US);
        assert_int_equal(conn->batch, RAWE_BATCH_VALID);
        cut_and_move(conn, 1);
        unit_send_message(conn, &second, 8, data, lengths[lost]);
        unit_run(&rails.net, lost ? UNIT_S : 20 * UNIT_MS, 100 * UNIT_US);
        assert_int_equal(second.done, 1);
        assert_last_message(1, 2, 8, lengths[lost]);
    }
}

TEST(rawe_conn_move__sends_shorter_frames_where_no_others_pass)
{
    static struct unit_send first, second;
    rails_stop();
    rails_init();
    rails.mtu_payload_bytes[1] = 600; /* the harness refuses longer ones */
    rails_start(0);
    struct rawe_conn *conn = rails_connect(RAWE_LANE_BULK);
    uint32_t before_bytes = conn->payload_max_bytes;
    unit_send_message(conn, &first, 7, data, sizeof(data));
    rails_cut(0);
    rawe_peer_set_down(rails_peer(0, 0), rails.now_ns);
    assert_int_equal(conn->payload_max_bytes, 600);
    unit_run(&rails.net, 20 * UNIT_MS, 100 * UNIT_US);
    assert_int_equal(first.done, 1);
    assert_last_message(1, 1, 7, sizeof(data));
    rails.cut[0] = false;
    rawe_peer_set_up(rails_peer(0, 0), rails.now_ns);
    assert_int_equal(conn->payload_max_bytes, before_bytes);
    unit_send_message(conn, &second, 8, data, sizeof(data));
    unit_run(&rails.net, 20 * UNIT_MS, 100 * UNIT_US);
    assert_last_message(1, 2, 8, sizeof(data));
}

TEST(rawe_conn_move__tries_another_link_that_is_full_once)
{
    static struct unit_send sends[RAWE_LANES];
    struct rawe_conn *conns[RAWE_LANES];
    const struct rawe_counters *counters = &rails.host[0].nic[0].engine.counters;
    for (unsigned lane = 0; lane < RAWE_LANES; lane++) {
        conns[lane] = rails_connect(lane);
    }
    rails_cut(0);
    rails.host[0].nic[1].room = 0;
    for (unsigned lane = 0; lane < RAWE_LANES; lane++) {
        rawe_conn_move(conns[lane], &rails_peer(0, 1)->route, rails.now_ns);
        unit_send_message(conns[lane], &sends[lane], 3, data, 1000);
    }
    uint64_t stalls = counters->blocked_port;
    for (unsigned i = 1; i <= 10; i++) {
        rawe_engine_flush(&rails.host[0].nic[0].engine, rails.now_ns);
        assert_int_equal(counters->blocked_port, stalls + i);
    }
    rails.host[0].nic[1].room = UINT32_MAX;
    unit_run(&rails.net, UNIT_MS, 100 * UNIT_US);
    assert_last_message(1, 2, 3, 1000);
}

/** The rail by which a connection answers. */
static unsigned rail_back(const struct rawe_conn *conn)
{
    const struct rails_nic *nic = conn->into->context;
    return nic->rail;
}

/** Frames that peers may have in flight to a ring of host 1. */
static uint32_t promised(unsigned rail)
{
    uint32_t sum = 0;
    for (unsigned preferred = 0; preferred < RAILS; preferred++) {
        for (unsigned lane = 0; lane < RAWE_LANES; lane++) {
            const struct rawe_conn *conn = rails_peer(1, preferred)->conn[lane];
            sum += conn != NULL && rail_back(conn) == rail ? conn->credit.advertised : 0;
        }
    }
    return sum;
}

TEST(rawe_conn_move__takes_credit_from_the_ring_that_it_comes_to)
{
    struct rawe_conn *conns[RAILS];
    rails_stop();
    rails_init();
    rails.net.config.receive_frames = 96;
    rails.net.config.window_frames = 64;
    rails_start(0);
    for (unsigned rail = 0; rail < RAILS; rail++) {
        conns[rail] = rails_conn(0, rail, RAWE_LANE_EXPRESS);
        rawe_conn_connect(conns[rail], rails.now_ns);
        unit_settle(&rails.net);
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
        unit_run(&rails.net, UNIT_MS, 100 * UNIT_US);
    }
    assert_in_range(promised(0), 3, 96);
    for (unsigned i = 0; i < 100; i++) { /* two fall silent, and have to give back */
        (void)unit_copy_message(conns[0], 1, 100);
        unit_run(&rails.net, UNIT_MS, 100 * UNIT_US);
    }
    assert_in_range(promised(0), 3, 96);
    assert_true(conns[0]->peer_credit >= 48);
    /* And each of them has some. */
    for (unsigned rail = 0; rail < RAILS; rail++) {
        assert_int_equal(rail_back(rails_conn(1, rail, RAWE_LANE_EXPRESS)), 0);
        assert_true(conns[rail]->peer_credit != 0);
    }
    /* Time goes on for that ring, although nothing else comes to it. */
    struct rawe_conn *far = rails_conn(1, 1, RAWE_LANE_EXPRESS);
    uint32_t epoch = far->into->credit.epoch;
    rawe_conn_make_pending(far);
    rawe_engine_flush(far->engine, rails.now_ns + 20 * UNIT_MS);
    assert_int_equal(far->into->credit.epoch, epoch + 1);
    assert_int_equal(rails.host[1].nic[1].engine.credit.advertised[RAWE_LANE_EXPRESS], 0);
    rails.cut[1] = rails.cut[2] = false;
    for (unsigned rail = 1; rail < RAILS; rail++) {
        rawe_conn_move(conns[rail], &rails_peer(0, rail)->route, rails.now_ns);
    }
    unit_run(&rails.net, 100 * UNIT_MS, 100 * UNIT_US);
    for (unsigned rail = 0; rail < RAILS; rail++) {
        assert_int_equal(rails.host[1].nic[rail].engine.credit.open[RAWE_LANE_EXPRESS], 1);
    }
}

TEST(rawe_conn_path_asked__not_by_a_route_that_is_down)
{
    struct rawe_conn *conn = rails_connect(RAWE_LANE_EXPRESS);
    rails_peer(1, 1)->route.down = true;
    rawe_conn_move(conn, &rails_peer(0, 1)->route, rails.now_ns);
    unit_send_copy(conn, 3, 100);
    unsigned carried = rails.carried[1];
    unit_run(&rails.net, UNIT_MS, 100 * UNIT_US);
    assert_true(rawe_conn_drained(conn));
    assert_int_equal(rails.carried[1], carried + 2); /* PROBE and message */
}

TEST(rawe_conn_path_asked__forgets_a_route_that_is_removed)
{
    struct rawe_conn *conn = rails_connect(RAWE_LANE_EXPRESS);
    const struct rawe_conn *far = rails_conn(1, 0, RAWE_LANE_EXPRESS);
    rawe_conn_move(conn, &rails_peer(0, 1)->route, rails.now_ns);
    unit_settle(&rails.net);
    assert_int_equal(rail_back(far), 1);
    rawe_peer_close(rails_peer(1, 1));
    assert_int_equal(rail_back(far), 0);
}

/** What the peer sends by a route of its own says nothing of ours. */
TEST(rawe_liveness_heard__a_dead_route_is_silent_although_the_peer_is_heard)
{
    struct rawe_conn *conn = rails_connect(RAWE_LANE_EXPRESS);
    struct rawe_conn *far = rails_conn(1, 0, RAWE_LANE_EXPRESS);
    rails_cut(0);
    rawe_conn_move(far, &rails_peer(1, 1)->route, rails.now_ns);
    unit_send_copy(conn, 3, 100);
    for (unsigned i = 0; i < 100; i++) {
        unit_send_copy(far, 3, 100);
        unit_run(&rails.net, UNIT_MS, 100 * UNIT_US);
    }
    assert_int_equal(rails.host[0].inbox.message_count, 100);
    assert_true(rawe_conn_drained(far)); /* it is answered */
    assert_true(rails.host[0].silent_calls != 0);
    rawe_conn_move(conn, &rails_peer(0, 1)->route, rails.now_ns);
    unit_run(&rails.net, 10 * UNIT_MS, 100 * UNIT_US);
    assert_int_equal(rails.host[1].inbox.message_count, 1);
    assert_int_equal(conn->liveness.silent_since_ns, 0);
}

/** The peer holds our route for dead, and answers by another: then ours is not dead. */
TEST(rawe_liveness_heard__an_answer_ends_silence_by_whatever_route)
{
    struct rawe_conn *conn = rails_connect(RAWE_LANE_EXPRESS);
    rails_peer(1, 0)->route.down = true;
    rawe_conn_move(rails_conn(1, 0, RAWE_LANE_EXPRESS), &rails_peer(1, 1)->route, rails.now_ns);
    unit_settle(&rails.net);
    unit_send_copy(conn, 3, 100);
    unit_run(&rails.net, 100 * UNIT_MS, 100 * UNIT_US);
    assert_true(rawe_conn_drained(conn));
    assert_int_equal(conn->liveness.silent_since_ns, 0);
    assert_int_equal(rails.host[0].silent_calls, 0);
}

/** Another rank of the peer's host, which chose the same id for a connection that is gone, asks. */
TEST(rawe_engine_receive__a_question_of_another_process_is_answered)
{
    struct rawe_engine *engine = rails_peer(1, 0)->engine;
    uint8_t frame[RAWE_PAYLOAD_OFFSET + RAWE_CONNECT_BYTES + RAWE_CHECKSUM_BYTES];
    (void)rails_connect(RAWE_LANE_EXPRESS);
    const struct rawe_connect from = {
        .connection_id = rails_conn(1, 0, RAWE_LANE_EXPRESS)->handshake.peer_id,
        .key = rails_peer(1, 0)->route.key + 1000,
        .port = 7,
    };
    struct rawe_header header = {
        .type = RAWE_FRAME_PROBE,
        .port = engine->config.port,
        .key = engine->config.key,
        .connection_id = 77u | 1u << 20, /* no such connection */
        .payload_bytes = RAWE_CONNECT_BYTES,
    };
    unit_settle(&rails.net);
    rawe_eth_header_encode(frame, engine->config.mac, rails_peer(1, 0)->route.mac,
                           engine->config.ethertype);
    rawe_connect_encode(frame + RAWE_PAYLOAD_OFFSET, &from);
    rawe_engine_receive(engine, frame, rawe_frame_seal(frame, &header), rails.now_ns);
    assert_int_equal(net_queue_count(&rails.net.queue), 1);
}
