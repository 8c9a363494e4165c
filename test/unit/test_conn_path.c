/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Tests of moving a connection to another route, of answers to a peer that has moved, and of the
 * ring of routes to a process (rawe_route).
 */
#include "unit_rails.h"

#include "conn/rawe_conn_connect.h"
#include "conn/rawe_conn_tx.h"
#include "conn/rawe_conn_path.h"
#include "conn/rawe_conn.h"
#include "conn/rawe_route.h"

static uint8_t data[40000];

static void set_up(void)
{
    rails_set_up();
    unit_fill(data, sizeof(data), 3);
}

FIXTURE(set_up, rails_stop);

/** If frames sent after the probe looked older, its answer would make them count as lost. */
TEST(rawe_conn_move__frames_that_follow_are_not_older_than_the_probe)
{
    struct rawe_conn *conn = rails_connect(RAWE_LANE_EXPRESS);
    rails.now_ns += UNIT_US;
    rawe_conn_move(conn, &rails_peer(0, 1)->route, rails.now_ns);
    assert_int_equal(conn->engine->now_ns, rails.now_ns);
}

TEST(rawe_conn_move__ends_asking_a_peer_that_does_not_answer)
{
    struct rawe_conn *conn = rails_connect(RAWE_LANE_EXPRESS);
    rails_cut(0);
    rails_cut(1);
    rawe_conn_move(conn, &rails_peer(0, 1)->route, rails.now_ns);
    unit_run(&rails.net, 20 * UNIT_S, 5 * UNIT_MS);
    assert_int_equal(rails.host[0].failed_calls, 0); /* no data is outstanding */
    assert_int_equal(conn->handshake.state, RAWE_CONN_OPEN);
    assert_true(conn->engine->counters.probes_sent < 10);
    /* Liveness is reset, so the next probe starts afresh. */
    assert_int_equal(conn->path.liveness.probes_unanswered, 0);
    assert_int_equal(conn->path.liveness.silent_since_ns, 0);
}

/** Return the rail on which a connection sends answers. */
static unsigned rail_back(const struct rawe_conn *conn)
{
    const struct rails_nic *nic = conn->path.into->context;
    return nic->rail;
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
/** Another rank of the peer's host sends a PROBE; its closed connection had the same id. */
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

#define RING_ROUTES 3u

static struct rawe_route routes[RING_ROUTES];
static char engine_a, engine_b; /* only their addresses are used */

static struct rawe_engine *route_engine(unsigned which)
{
    return (struct rawe_engine *)(void *)(which == 0 ? &engine_a : &engine_b);
}

/** Routes 0 and 1 use engine 0 and different interfaces of the peer; route 2 uses engine 1. */
static void set_up_routes(void)
{
    for (unsigned i = 0; i < RING_ROUTES; i++) {
        routes[i] = (struct rawe_route){
            .engine = route_engine(i == 2),
            .mac = {2, 0, 0, 0, 0, (uint8_t)(i % 2)},
        };
        rawe_route_init(&routes[i]);
    }
}

static void join_all(void)
{
    rawe_route_join(&routes[1], &routes[0]);
    rawe_route_join(&routes[2], &routes[0]);
}

static const struct unit_fixture with_routes = {set_up_routes, NULL};

TEST_WITH(with_routes, rawe_route_init__is_a_ring_of_its_own)
{
    assert_ptr_equal(rawe_route_next(&routes[0]), &routes[0]);
    assert_ptr_equal(rawe_route_best(&routes[0]), &routes[0]);
}

TEST_WITH(with_routes, rawe_route_join__keeps_the_order)
{
    join_all();
    for (unsigned i = 0; i < RING_ROUTES; i++) {
        assert_ptr_equal(rawe_route_next(&routes[i]), &routes[(i + 1) % RING_ROUTES]);
    }
}

TEST_WITH(with_routes, rawe_route_remove__leaves_the_others_together)
{
    join_all();
    rawe_route_remove(&routes[0]);
    assert_ptr_equal(rawe_route_next(&routes[0]), &routes[0]);
    assert_ptr_equal(rawe_route_next(&routes[1]), &routes[2]);
    assert_ptr_equal(rawe_route_next(&routes[2]), &routes[1]);
    rawe_route_remove(&routes[0]);
    assert_ptr_equal(rawe_route_next(&routes[0]), &routes[0]);
}

TEST_WITH(with_routes, rawe_route_from__needs_address_and_link)
{
    static const uint8_t mac[RAWE_MAC_BYTES] = {2, 0, 0, 0, 0, 1};
    join_all();
    assert_ptr_equal(rawe_route_from(&routes[2], route_engine(0), routes[0].mac, 0), &routes[0]);
    assert_ptr_equal(rawe_route_from(&routes[2], route_engine(0), mac, 0), &routes[1]);
    assert_ptr_equal(rawe_route_from(&routes[0], route_engine(1), routes[2].mac, 0), &routes[2]);
    assert_null(rawe_route_from(&routes[0], route_engine(1), mac, 0));
    assert_ptr_equal(rawe_route_from(&routes[2], route_engine(0), mac, routes[1].port), &routes[1]);
    assert_null(rawe_route_from(&routes[2], route_engine(0), mac, routes[1].port + 1));
}

TEST_WITH(with_routes, rawe_route_best__is_home_or_the_next_that_is_up)
{
    join_all();
    assert_ptr_equal(rawe_route_best(&routes[1]), &routes[1]);
    routes[1].down = true;
    assert_ptr_equal(rawe_route_best(&routes[1]), &routes[2]);
    routes[2].down = true;
    assert_ptr_equal(rawe_route_best(&routes[1]), &routes[0]);
    routes[0].down = true;
    assert_null(rawe_route_best(&routes[1]));
}
