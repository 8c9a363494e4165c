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

TEST(elsewhere__is_deferred_with_the_engine_that_receives)
{
    struct rawe_conn *conn = rails_connect(RAWE_LANE_EXPRESS);
    struct rawe_engine *owner = &rails.host[1].nic[0].engine;
    struct rawe_engine *receiver = &rails.host[1].nic[1].engine;
    rawe_conn_move(conn, &rails_peer(0, 1)->route, rails.now_ns);
    unit_run(&rails.net, UNIT_MS, 100 * UNIT_US);
    rawe_engine_defer_begin(receiver);
    unit_send_copy(conn, 3, 100);
    unit_settle(&rails.net);
    rawe_engine_defer_end(receiver);
    assert_int_equal(rails.host[1].inbox.message_count, 0);
    assert_false(owner->deferral->active);
    assert_true(rawe_engine_has_deferred(owner));
    /* What comes next is delivered behind it. */
    unit_send_copy(conn, 4, 100);
    unit_settle(&rails.net);
    assert_int_equal(rails.host[1].inbox.message_count, 2);
    assert_int_equal(rails.host[1].inbox.messages[0].tag, 3);
    assert_int_equal(rails.host[1].inbox.messages[1].tag, 4);
}

/**
 * A CONNECT that ends a life of the connection, while the owner is away: what was in flight is
 * reported when it may be. Returns the engine of the owner.
 */
static struct rawe_engine *end_life(struct unit_send *send)
{
    static uint8_t data[100];
    struct rawe_conn *conn = rails_connect(RAWE_LANE_EXPRESS);
    struct rawe_engine *receiver = &rails.host[1].nic[1].engine;
    rails_cut(0);
    if (send != NULL) {
        unit_send_message(rails_conn(1, 0, RAWE_LANE_EXPRESS), send, 7, data, sizeof(data));
    } else {
        unit_send_copy(rails_conn(1, 0, RAWE_LANE_EXPRESS), 7, sizeof(data));
    }
    rawe_conn_close(conn, rails.now_ns);
    rails_peer(0, 0)->conn[RAWE_LANE_EXPRESS] = NULL;
    rawe_peer_set_down(rails_peer(0, 0), rails.now_ns);
    rawe_conn_connect(rails_conn(0, 0, RAWE_LANE_EXPRESS), rails.now_ns);
    rawe_engine_defer_begin(receiver);
    unit_settle(&rails.net);
    rawe_engine_defer_end(receiver);
    return &rails.host[1].nic[0].engine;
}

TEST(elsewhere__so_is_the_end_of_a_life)
{
    static struct unit_send send;
    struct rawe_engine *owner = end_life(&send);
    assert_int_equal(rails.host[1].lost_calls, 0);
    assert_int_equal(send.done, 0);
    assert_false(owner->deferral->active);
    rawe_engine_deliver_deferred(owner);
    assert_int_equal(rails.host[1].lost_calls, 1);
    unit_assert_sent(&send, 1, RAWE_STATUS_FAILED);
}

/** No send completes with it: the loss alone has the owner look. */
TEST(elsewhere__so_is_the_loss_of_a_copied_message)
{
    struct rawe_engine *owner = end_life(NULL);
    assert_int_equal(rails.host[1].lost_calls, 0);
    assert_true(rawe_engine_has_deferred(owner));
    rawe_engine_deliver_deferred(owner);
    assert_int_equal(rails.host[1].lost_calls, 1);
}

/** What came by several interfaces is told in the order in which it was taken, whichever has its turn. */
TEST(elsewhere__in_order_of_arrival_over_all_engines)
{
    enum { ROUNDS = 20 };
    struct rawe_conn *conns[RAILS];
    for (unsigned rail = 0; rail < RAILS; rail++) {
        conns[rail] = rails_conn(0, rail, RAWE_LANE_EXPRESS);
        rawe_conn_connect(conns[rail], rails.now_ns);
    }
    unit_settle(&rails.net);
    struct rawe_engine *turn = &rails.host[1].nic[RAILS - 1].engine;
    rawe_engine_defer_begin(turn);
    for (unsigned i = 0; i < ROUNDS; i++) {
        unit_send_copy(conns[(i * i) % RAILS], (uint8_t)i, 100);
        unit_settle(&rails.net);
    }
    assert_int_equal(rails.host[1].inbox.message_count, 0);
    rawe_engine_defer_end(turn);
    unit_send_copy(conns[0], ROUNDS, 100); /* it comes last, and is delivered last */
    unit_settle(&rails.net);
    assert_int_equal(rails.host[1].inbox.message_count, ROUNDS + 1);
    for (unsigned i = 0; i <= ROUNDS; i++) {
        assert_int_equal(rails.host[1].inbox.messages[i].tag, i);
    }
}

/** Nothing of another engine passes what has stayed in reassembly; losses are told by any turn. */
TEST(elsewhere__nothing_passes_what_has_no_memory)
{
    static struct unit_send sends[4];
    static uint8_t data[3000];
    struct rawe_conn *first = rails_conn(0, 0, RAWE_LANE_EXPRESS);
    struct rawe_conn *second = rails_conn(0, 1, RAWE_LANE_EXPRESS);
    struct rawe_deferral *deferral = &rails.host[1].deferral;
    rawe_conn_connect(first, rails.now_ns);
    rawe_conn_connect(second, rails.now_ns);
    unit_settle(&rails.net);
    deferral->limit_bytes = 4000; /* for two of three */
    rawe_engine_defer_begin(&rails.host[1].nic[0].engine);
    for (unsigned i = 0; i < 3; i++) {
        unit_send_message(first, &sends[i], (uint8_t)i, data, sizeof(data));
    }
    struct net_frame *lost = rails.net.wire; /* all are whole when it comes at last */
    rails.net.wire = lost->next;
    net_frame_free(lost);
    unit_run(&rails.net, 5 * UNIT_MS, 100 * UNIT_US);
    assert_true(deferral->fragments_wait);
    unit_assert_sent(sends, 3, RAWE_STATUS_DONE);
    deferral->limit_bytes = 8u << 20;
    unit_send_message(second, &sends[3], 3, data, sizeof(data));
    unit_run(&rails.net, UNIT_MS, 100 * UNIT_US);
    assert_int_equal(sends[3].done, 0);
    rails_conn(1, 0, RAWE_LANE_EXPRESS)->finalize.report_loss = deferral->losses_wait = true;
    rawe_engine_defer_end(&rails.host[1].nic[0].engine);
    rawe_engine_deliver_deferred(&rails.host[1].nic[1].engine);
    assert_int_equal(rails.host[1].lost_calls, 1);
    assert_int_equal(rails.host[1].inbox.message_count, 3);
    unit_run(&rails.net, 100 * UNIT_MS, 100 * UNIT_US);
    assert_int_equal(rails.host[1].inbox.message_count, 4);
    for (unsigned i = 0; i < 4; i++) {
        assert_int_equal(rails.host[1].inbox.messages[i].tag, i);
    }
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

TEST_WITH(with_unknown, rawe_engine_receive__a_connect_by_a_route_that_is_not_known)
{
    struct rawe_conn *conn = rails_conn(0, 0, RAWE_LANE_EXPRESS);
    rails_cut(0);
    assert_int_equal(unit_copy_message(conn, 7, 100), RAWE_STATUS_BUSY); /* it connects */
    rawe_conn_move(conn, &rails_peer(0, 1)->route, rails.now_ns);
    unit_run(&rails.net, 20 * UNIT_MS, 100 * UNIT_US);
    assert_int_equal(conn->handshake.state, RAWE_CONN_OPEN);
    assert_ptr_equal(rails_conn(1, 0, RAWE_LANE_EXPRESS)->back, &rails_peer(1, 1)->route);
    assert_int_equal(rails.host[1].unknown_calls, 1);
    assert_int_equal(dropped(1), 0);
}

TEST_WITH(with_unknown, rawe_engine_receive__a_probe_by_a_route_that_is_not_known)
{
    struct rawe_conn *conn = connect_lane();
    rails_cut(0);
    unit_send_copy(conn, 7, 100);
    rawe_conn_move(conn, &rails_peer(0, 1)->route, rails.now_ns);
    unit_run(&rails.net, 20 * UNIT_MS, 100 * UNIT_US);
    assert_int_equal(rails.host[1].inbox.message_count, 1);
    assert_ptr_equal(rails_conn(1, 0, RAWE_LANE_EXPRESS)->back, &rails_peer(1, 1)->route);
    assert_int_equal(rails.host[1].unknown_calls, 1);
    assert_int_equal(dropped(1), 0);
}

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
    assert_int_equal(conn->batch, RAWE_BATCH_VALID);
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

static const uint8_t new_mac[RAWE_MAC_BYTES] = {2, 9, 0, 0, 0, 0};

/** Host 0's interface on rail 0 has another address. */
static void change_address(void)
{
    assert_memory_equal(rails.host[0].nic[0].engine.config.mac + 2, new_mac + 2, 4);
    rawe_engine_set_mac(&rails.host[0].nic[0].engine, new_mac);
    rawe_peer_announce(rails_peer(0, 0), true, rails.now_ns);
}

static unsigned to_new, to_old;

static void count_addressed(struct net_frame *frame, unsigned rail)
{
    to_new += memcmp(frame->bytes, new_mac, RAWE_MAC_BYTES) == 0;
    to_old += frame->to == 0 && frame->bytes[1] != 9;
}

static void follow(void)
{
    to_new = to_old = 0;
    rails.on_frame = count_addressed;
    rails.host[1].follows = true;
}

TEST(rawe_peer_announce__tells_a_peer_that_owes_nothing)
{
    struct rawe_conn *conn = rails_connect(RAWE_LANE_EXPRESS);
    unit_run(&rails.net, 10 * UNIT_MS, 100 * UNIT_US);
    follow();
    change_address();
    unit_run(&rails.net, 10 * UNIT_MS, 100 * UNIT_US);
    assert_int_equal(rails.host[1].unknown_calls, 1);
    assert_memory_equal(rails_peer(1, 0)->route.mac, new_mac, RAWE_MAC_BYTES);
    assert_int_equal(conn->liveness.probes_unanswered, 0);
    assert_int_equal(to_old, 0);
    /* All goes there, in both directions. */
    unit_send_copy(rails_conn(1, 0, RAWE_LANE_EXPRESS), 3, 100);
    unit_send_copy(conn, 4, 100);
    unit_run(&rails.net, 10 * UNIT_MS, 100 * UNIT_US);
    assert_int_equal(rails.host[0].inbox.message_count, 1);
    assert_int_equal(rails.host[1].inbox.message_count, 1);
    assert_int_equal(rails.host[1].unknown_calls, 1);
    assert_int_equal(to_old, 0);
    assert_int_not_equal(to_new, 0);
}

/** It is told until it follows: the address has to be validated first. */
TEST(rawe_peer_announce__again_until_it_is_heeded)
{
    struct rawe_conn *conn = rails_connect(RAWE_LANE_EXPRESS);
    change_address();
    unit_run(&rails.net, 10 * UNIT_MS, 100 * UNIT_US);
    assert_true(rails.host[1].unknown_calls > 1);
    assert_int_equal(rails_peer(1, 0)->route.mac[1], 0);
    unit_send_copy(conn, 4, 100);
    follow();
    unit_run(&rails.net, 100 * UNIT_MS, 100 * UNIT_US);
    assert_memory_equal(rails_peer(1, 0)->route.mac, new_mac, RAWE_MAC_BYTES);
    assert_int_equal(rails.host[1].inbox.message_count, 1);
}

/** First contact of a host whose published address is not its own any more. */
TEST(rawe_peer_announce__opens_a_connection_where_there_is_none)
{
    follow();
    change_address();
    unit_run(&rails.net, 10 * UNIT_MS, 100 * UNIT_US);
    assert_int_equal(rails_conn(0, 0, RAWE_LANE_EXPRESS)->handshake.state, RAWE_CONN_OPEN);
    assert_memory_equal(rails_peer(1, 0)->route.mac, new_mac, RAWE_MAC_BYTES);
    unit_send_copy(rails_conn(1, 0, RAWE_LANE_EXPRESS), 3, 100);
    unit_run(&rails.net, 10 * UNIT_MS, 100 * UNIT_US);
    assert_int_equal(rails.host[0].inbox.message_count, 1);
}

TEST(rawe_peer_announce__opens_none_where_that_is_not_wanted)
{
    rawe_peer_announce(rails_peer(0, 0), false, rails.now_ns);
    assert_null(rails_peer(0, 0)->conn[RAWE_LANE_EXPRESS]);
}

/** What was in flight to the old address is lost, and sent again. */
TEST(rawe_peer_set_mac__what_was_in_flight_is_repeated)
{
    struct rawe_conn *conn = rails_connect(RAWE_LANE_EXPRESS);
    unit_run(&rails.net, 10 * UNIT_MS, 100 * UNIT_US);
    unit_send_copy(rails_conn(1, 0, RAWE_LANE_EXPRESS), 3, 100);
    net_queue_clear(&rails.net.queue);
    follow();
    change_address();
    unit_run(&rails.net, 10 * UNIT_MS, 100 * UNIT_US);
    assert_int_equal(rails.host[0].inbox.message_count, 1);
    assert_true(rawe_conn_idle(conn));
}

/** Who does not know the connection moves nothing. */
TEST(rawe_engine_receive__a_probe_that_does_not_know_the_connection_moves_nothing)
{
    struct rawe_conn *conn = rails_connect(RAWE_LANE_EXPRESS);
    follow();
    conn->handshake.local_id++;
    change_address();
    unit_run(&rails.net, UNIT_MS, 100 * UNIT_US);
    conn->handshake.local_id--;
    assert_int_equal(rails.host[1].unknown_calls, 0);
    assert_int_equal(rails_peer(1, 0)->route.mac[1], 0);
    assert_int_not_equal(dropped(0), 0);
}
