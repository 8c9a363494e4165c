/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Tests of migration, at the other end: it follows to the route that its peer has gone to, and
 * comes home when the peer has.
 */
#include "unit_rails.h"

#include "conn/rawe_conn.h"
#include "conn/rawe_conn_connect.h"
#include "conn/rawe_conn_control.h"
#include "conn/rawe_conn_move.h"

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

FIXTURE(rails_set_up, rails_tear_down);

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

/** What has to be right of a PROBE: who says so is as good as the peer. */
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

/** Of two jobs whose processes have both moved, ranks do not decide. */
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
    static uint8_t data[3000];
    struct rawe_conn *conn = rails_connect(RAWE_LANE_EXPRESS);
    struct rawe_conn *far = rails_conn(1, 0, RAWE_LANE_EXPRESS);
    unit_send_message(conn, &send, 1, data, sizeof(data));
    rails_receive(rails.wire->next);
    rawe_conn_follow_connect(far, &rails_peer(1, 1)->route, far->handshake.peer_incarnation,
                             rails.now_ns);
    assert_int_equal(rails_used(far), 0);
    rails_settle();
    assert_int_equal(rails.host[1].inbox.message_count, 1);
}

/* rawe_conn_come_home */

/** A message, which is acknowledged before the peer is asked; 100 ms. */
static void talk(struct rawe_conn *conn)
{
    uint64_t probes = conn->engine->counters.probes_sent;
    assert_int_equal(unit_copy_message(conn, 3, 100), RAWE_STATUS_DONE);
    rails_run(UNIT_MS, 20 * UNIT_US);
    rails_run(99 * UNIT_MS, UNIT_MS);
    assert_true(conn->engine->counters.probes_sent == probes);
}

TEST(rawe_conn_come_home__after_a_connect_that_was_late)
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

/** Host 0 goes home, and the question by which the other end would learn of that is lost. */
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

TEST(rawe_conn_come_home__after_a_probe_that_was_lost)
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

TEST(rawe_conn_come_home__not_while_home_is_down)
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

/** It has nothing there, and asks for a connection where it is. */
TEST(rawe_conn_come_home__not_while_it_connects)
{
    struct rawe_conn *conn = rails_conn(0, 0, RAWE_LANE_EXPRESS);
    rails_cut(0);
    rails_cut(1);
    rawe_conn_connect(conn, rails.now_ns);
    rawe_conn_move(conn, &rails_peer(0, 1)->route, rails.now_ns);
    rails_run(2 * UNIT_S, UNIT_MS);
    rawe_conn_come_home(conn, conn->home, rails.now_ns);
    assert_int_equal(conn->handshake.state, RAWE_CONN_CONNECTING);
    assert_int_equal(rails_used(conn), 1);
}
