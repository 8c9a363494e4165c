/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Tests of frames that come by another route, or from a source that is not known.
 */
#include "unit_rails.h"

#include <string.h>

#include "net_engine.h"
#include "conn/rawe_conn.h"
#include "conn/rawe_conn_connect.h"

FIXTURE(rails_set_up, rails_stop);

/**
 * A CONNECT ends a life of the connection while the owner defers: the copied message in flight is
 * reported as lost when the owner is back.
 */
TEST(elsewhere__a_copied_message_is_lost_while_the_owner_defers)
{
    struct rawe_engine *owner = &rails.host[1].nic[0].engine;
    struct rawe_conn *conn = rails_connect(RAWE_LANE_EXPRESS);
    struct rawe_engine *receiver = &rails.host[1].nic[1].engine;
    rails_cut(0);
    unit_send_copy(rails_conn(1, 0, RAWE_LANE_EXPRESS), 7, 100);
    rawe_conn_close(conn, rails.now_ns);
    rails_peer(0, 0)->conn[RAWE_LANE_EXPRESS] = NULL;
    rawe_peer_set_down(rails_peer(0, 0), rails.now_ns);
    rawe_conn_connect(rails_conn(0, 0, RAWE_LANE_EXPRESS), rails.now_ns);
    rawe_engine_defer_begin(receiver);
    unit_settle(&rails.net);
    rawe_engine_defer_end(receiver);
    assert_int_equal(rails.host[1].lost_calls, 0);
    assert_true(rawe_engine_has_deferred(owner));
    rawe_engine_deliver_deferred(owner);
    assert_int_equal(rails.host[1].lost_calls, 1);
}

TEST(elsewhere__counts_probes_for_the_link_that_received_them)
{
    struct rawe_conn *conn = rails_connect(RAWE_LANE_EXPRESS);
    rawe_conn_move(conn, &rails_peer(0, 1)->route, rails.now_ns);
    unit_settle(&rails.net);
    assert_int_equal(rails.host[1].nic[1].engine.probes_passed_on, 1);
    assert_int_equal(rails.host[1].nic[0].engine.probes_passed_on, 0);
}

TEST(elsewhere__time_does_not_go_back)
{
    struct rawe_conn *conn = rails_connect(RAWE_LANE_EXPRESS);
    struct rawe_engine *owner = &rails.host[1].nic[0].engine;
    rawe_conn_move(conn, &rails_peer(0, 1)->route, rails.now_ns);
    unit_run(&rails.net, UNIT_MS, 100 * UNIT_US);
    /* A callback of the round that receives has sent something, at a time it has read itself. */
    uint64_t later_ns = rails.now_ns + 30 * UNIT_US;
    owner->now_ns = later_ns;
    unit_send_copy(conn, 3, 100);
    unit_receive(&rails.net, rails.net.wire);
    assert_int_equal(rails.host[1].inbox.message_count, 1);
    assert_true(owner->now_ns == later_ns);
    struct rawe_conn *other = rails_conn(0, 0, RAWE_LANE_BULK);
    unit_settle(&rails.net);
    owner->now_ns = later_ns;
    rawe_conn_move(other, &rails_peer(0, 1)->route, rails.now_ns);
    rawe_conn_connect(other, rails.now_ns);
    unit_receive(&rails.net, rails.net.wire);
    assert_int_equal(owner->counters.connects_received, 3);
    assert_true(owner->now_ns == later_ns);
}

static unsigned probes;

static void count_probes(struct net_frame *frame, unsigned rail)
{
    probes += rail == 1 && frame->header.type == RAWE_FRAME_PROBE;
}

/** Host 1 knows one of host 0's interfaces. */
static void set_up(void)
{
    rails_init();
    rails.host[1].late = true;
    rails_start(0);
    probes = 0;
    rails.on_frame = count_probes;
}

static struct rawe_conn *connect_lane(void)
{
    struct rawe_conn *conn = rails_conn(0, 0, RAWE_LANE_EXPRESS);
    rawe_conn_connect(conn, rails.now_ns);
    unit_settle(&rails.net);
    assert_int_equal(conn->handshake.state, RAWE_CONN_OPEN);
    return conn;
}

static uint64_t dropped(unsigned rail)
{
    return rails.host[1].nic[rail].engine.counters.dropped_source;
}

static const struct unit_fixture with_unknown = {set_up, rails_stop};

/** No peer is probed because of frames that do not tell where it is. */
TEST_WITH(with_unknown, rawe_engine_receive__nothing_by_a_route_that_is_refused)
{
    struct rawe_conn *conn = connect_lane();
    rails.host[1].refuses = true;
    rawe_conn_move(conn, &rails_peer(0, 1)->route, rails.now_ns);
    unit_send_copy(conn, 7, 100);
    unit_run(&rails.net, 20 * UNIT_MS, 100 * UNIT_US);
    assert_int_not_equal(probes, 0);
    assert_int_equal(rails.host[1].unknown_calls, probes);
    assert_int_equal(dropped(1), rails.carried[1]);
    assert_true(rails.carried[1] > probes);
    assert_int_equal(rails.host[1].inbox.message_count, 0);
    assert_int_equal(rails_used(rails_conn(1, 0, RAWE_LANE_EXPRESS)), 0);
}

static void set_up_batches(void)
{
    rails_init();
    rails_start(16);
}

static const struct unit_fixture with_batches = {set_up_batches, rails_stop};

/** Data is written before the frame is judged: not where an unknown peer says, which knows all keys. */
TEST_WITH(with_batches, rawe_engine_place__by_any_route_of_the_peer_and_no_other)
{
    static uint8_t source[30000], memory[sizeof(source)];
    struct unit_send first = {0}, send = {0};
    struct rawe_handle_table *handles = &rails.host[1].handles;
    uint32_t index;
    uint64_t key;
    struct rawe_conn *conn = rails_connect(RAWE_LANE_BULK);
    unit_fill(source, sizeof(source), 3);
    assert_true(
        rawe_handle_register(handles, memory, sizeof(memory), &index, &key, RAWE_ACCESS_WRITE));
    unit_send_put(conn, &first, source, sizeof(source), index, key, 0); /* batches pass */
    unit_run(&rails.net, 10 * UNIT_MS, 100 * UNIT_US);
    assert_int_equal(first.done, 1);
    assert_int_equal(conn->path.batch, RAWE_BATCH_VALID);
    memset(memory, 0, sizeof(memory));
    unit_send_put(conn, &send, source, sizeof(source), index, key, 0);
    struct net_frame *frame = net_frame_copy(rails.net.wire);
    assert_int_not_equal(frame->batch, 0);
    struct rawe_engine *engine = &rails.host[1].nic[0].engine;
    frame->bytes[RAWE_MAC_BYTES + 5] ^= 0x80;
    assert_false(net_receive(engine, frame->bytes, (uint32_t)frame->len_bytes, rails.now_ns));
    assert_int_equal(engine->counters.dropped_source, 1);
    for (unsigned i = 0; i < sizeof(memory); i++) {
        assert_int_equal(memory[i], 0);
    }
    net_frame_free(frame);
    unit_run(&rails.net, 10 * UNIT_MS, 100 * UNIT_US);
    assert_memory_equal(memory, source, sizeof(memory));
    rawe_conn_move(conn, &rails_peer(0, 1)->route, rails.now_ns);
    unit_run(&rails.net, 10 * UNIT_MS, 100 * UNIT_US);
    memset(memory, 0, sizeof(memory));
    const unsigned placed = rails.net.batches_placed;
    unit_send_put(conn, &first, source, sizeof(source), index, key, 0);
    unit_run(&rails.net, 10 * UNIT_MS, 100 * UNIT_US);
    assert_true(rails.net.batches_placed > placed);
    assert_memory_equal(memory, source, sizeof(memory));
    assert_true(rawe_handle_deregister(handles, index, key));
}

/* ---- an address that changes ---- */

TEST(rawe_peer_announce__opens_none_where_that_is_not_wanted)
{
    rawe_peer_announce(rails_peer(0, 0), false, rails.now_ns);
    assert_null(rails_peer(0, 0)->conn[RAWE_LANE_EXPRESS]);
}

TEST(rawe_engine_receive__a_probe_that_does_not_know_the_connection_moves_nothing)
{
    static const uint8_t new_mac[RAWE_MAC_BYTES] = {2, 9, 0, 0, 0, 0};
    struct rawe_conn *conn = rails_connect(RAWE_LANE_EXPRESS);
    rails.host[1].follows = true;
    conn->handshake.local_id++;
    rawe_engine_set_mac(&rails.host[0].nic[0].engine, new_mac);
    rawe_peer_announce(rails_peer(0, 0), true, rails.now_ns);
    unit_run(&rails.net, UNIT_MS, 100 * UNIT_US);
    conn->handshake.local_id--;
    assert_int_equal(rails.host[1].unknown_calls, 0);
    assert_int_equal(rails_peer(1, 0)->route.mac[1], 0);
    assert_int_not_equal(dropped(0), 0);
}
