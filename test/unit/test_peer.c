/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Tests of a peer: which connection carries a message, streaks, several routes, and long GETs that
 * wait for GETs from other peers.
 */
#include "unit_peer.h"
#include "unit_rails.h"

#include <string.h>

#include "routes/rawe_balance.h"

#include "conn/rawe_conn.h"
#include "conn/rawe_conn_connect.h"
#include "unit_alloc.h"

static void set_up_connected(void)
{
    unit_peer_set_up();
    unit_peer_connect();
}

FIXTURE(set_up_connected, unit_tear_down);
static const struct unit_fixture unconnected = {unit_peer_set_up, unit_tear_down};

TEST_WITH(unconnected, rawe_peer_conn__opened_on_first_use)
{
    assert_null(peer.conn[RAWE_LANE_EXPRESS]);
    assert_int_equal(unit_peer_send_copy(100), RAWE_STATUS_BUSY); /* the lane is opened first */
    net.node[0].conn[RAWE_LANE_EXPRESS] = peer.conn[RAWE_LANE_EXPRESS];
    assert_non_null(peer.conn[RAWE_LANE_EXPRESS]);
    assert_null(peer.conn[RAWE_LANE_BULK]);
    assert_ptr_equal(rawe_peer_conn(&peer, RAWE_LANE_EXPRESS), net.node[0].conn[RAWE_LANE_EXPRESS]);
    assert_ptr_equal(net.node[0].conn[RAWE_LANE_EXPRESS]->owner, &net.node[0]);
    unit_settle(&net);
    assert_int_equal(unit_peer_send_copy(100), RAWE_STATUS_DONE);
}

/** Connecting needs no data to send, and leaves an open connection unchanged. */
TEST_WITH(unconnected, rawe_peer_connect__before_anything_is_sent)
{
    rawe_peer_connect(&peer, RAWE_LANE_EXPRESS);
    net.node[0].conn[RAWE_LANE_EXPRESS] = peer.conn[RAWE_LANE_EXPRESS];
    assert_int_equal(net.node[0].engine.counters.connects_sent, 1);
    unit_settle(&net);
    assert_int_equal(peer.conn[RAWE_LANE_EXPRESS]->handshake.state, RAWE_CONN_OPEN);
    const uint64_t sent_before = net.node[0].engine.counters.connects_sent;
    rawe_peer_connect(&peer, RAWE_LANE_EXPRESS);
    assert_int_equal(net.node[0].engine.counters.connects_sent, sent_before);
}

static enum rawe_finalized finalized(void)
{
    return rawe_peer_finalized(&peer, RAWE_NEEDS_ALL, net.now_ns);
}

TEST_WITH(unconnected, rawe_peer_finalized__both_lanes)
{
    assert_int_equal(finalized(), RAWE_FINALIZED_DONE);
    unit_peer_connect();
    rawe_engine_finalizing(peer.engine);
    assert_int_equal(finalized(), RAWE_FINALIZED_NOT);
    unit_run(&net, 10 * UNIT_MS, 50 * UNIT_US);
    assert_int_equal(finalized(), RAWE_FINALIZED_DONE);
    for (unsigned lane = 0; lane < RAWE_LANES; lane++) {
        net.node[0].conn[lane]->end.state = RAWE_END_ANNOUNCING;
        assert_int_equal(finalized(), RAWE_FINALIZED_NOT);
        net.node[0].conn[lane]->end.state = RAWE_END_ANNOUNCED;
        net.node[0].conn[lane]->end.lost = true;
        assert_int_equal(finalized(), RAWE_FINALIZED_LOST);
        net.node[0].conn[lane]->end.lost = false;
    }
}

TEST(rawe_peer_close__completes_what_is_left)
{
    struct sent *queued = unit_peer_send(5000, false);
    struct sent *early = unit_peer_send(30000, true); /* too long for a bundle */
    unit_peer_finish();
    struct sent *again = unit_peer_send(5000, false);
    rawe_peer_close(&peer);
    assert_null(peer.conn[RAWE_LANE_EXPRESS]);
    assert_null(peer.conn[RAWE_LANE_BULK]);
    net.node[0].conn[RAWE_LANE_EXPRESS] = net.node[0].conn[RAWE_LANE_BULK] = NULL;
    assert_int_equal(queued->status, RAWE_STATUS_DONE);
    assert_int_equal(early->released, 1);
    assert_int_equal(again->completed, 1);
    assert_int_equal(again->status, RAWE_STATUS_FAILED);
    assert_true(unit_peer_drained());
}

TEST(rawe_peer_send_copy__only_what_may_be_copied)
{
    uint32_t most = net.node[0].engine.config.copy_max_bytes;
    assert_int_equal(unit_peer_send_copy(most), RAWE_STATUS_DONE);
    assert_int_equal(unit_peer_send_copy(most + 1), RAWE_STATUS_BUSY);
    assert_int_equal(net_queue_count(&net.queue), 1);
    unit_peer_finish();
}

TEST_WITH(unconnected, rawe_peer_send_copy__not_longer_than_a_frame_of_this_path)
{
    peer.route.payload_max_bytes = 512;
    unit_peer_connect();
    uint32_t most = rawe_conn_frame_message_bytes(net.node[0].conn[RAWE_LANE_EXPRESS]);
    assert_true(most < net.node[0].engine.config.copy_max_bytes);
    assert_int_equal(unit_peer_send_copy(most), RAWE_STATUS_DONE);
    assert_int_equal(unit_peer_send_copy(most + 1), RAWE_STATUS_BUSY);
    unit_peer_finish();
}

TEST(rawe_peer_send_copy__the_clock_is_read_behind_the_transmission)
{
    clock_reads = 0;
    net.now_ns += 7 * UNIT_US;
    assert_int_equal(unit_peer_send_copy(100), RAWE_STATUS_DONE);
    assert_int_equal(clock_reads, 1);
    assert_int_equal(wire_at_last_read, 1);
    assert_int_equal(net.node[0].engine.now_ns, net.now_ns);
    unit_peer_finish();
}

TEST(rawe_peer_send_copy__joins_the_frame_held_back_without_a_clock)
{
    for (unsigned i = 0; i < COALESCE_FROM + 1; i++) {
        assert_int_equal(unit_peer_send_copy(100), RAWE_STATUS_DONE);
    }
    assert_int_equal(net_queue_count(&net.queue), COALESCE_FROM);
    assert_non_null(net.node[0].conn[RAWE_LANE_EXPRESS]->tx.window.held);
    clock_reads = 0;
    assert_int_equal(unit_peer_send_copy(100), RAWE_STATUS_DONE);
    assert_int_equal(clock_reads, 0);
    assert_int_equal(net.node[0].engine.counters.messages_coalesced, 1);
    unit_peer_finish();
    assert_int_equal(net.node[1].message_count, COALESCE_FROM + 2);
}

TEST(rawe_peer_send_copy__failed)
{
    net.node[0].conn[RAWE_LANE_EXPRESS]->handshake.state = RAWE_CONN_FAILED;
    assert_int_equal(unit_peer_send_copy(100), RAWE_STATUS_FAILED);
    assert_int_equal(unit_peer_send(100, true)->result, RAWE_PEER_FAILED);
    assert_int_equal(unit_peer_send(FRAME_BYTES, true)->result, RAWE_PEER_FAILED);
    net.node[0].conn[RAWE_LANE_BULK]->handshake.state = RAWE_CONN_FAILED;
    assert_int_equal(unit_peer_send(9000, true)->result, RAWE_PEER_FAILED);
    for (unsigned i = 0; i < sent_count; i++) {
        assert_int_equal(sent[i].completed + sent[i].released, 0);
    }
    assert_true(unit_peer_drained());
}

/** Both lanes fail at both ends, including the bulk lane, which was never open. */
TEST_WITH(unconnected, rawe_peer_give_up__tells_the_peer)
{
    unit_peer_connect_lane(RAWE_LANE_EXPRESS);
    struct sent *waits = unit_peer_send(FRAME_BYTES, false);
    net_queue_clear(&net.queue);
    rawe_peer_give_up(&peer);
    assert_int_equal(waits->completed, 1);
    assert_int_equal(waits->status, RAWE_STATUS_FAILED);
    net.node[0].conn[RAWE_LANE_BULK] = peer.conn[RAWE_LANE_BULK];
    unit_settle(&net); /* node 0's notice arrives but is not believed yet */
    assert_int_equal(net.node[1].given_up_calls, 0);
    unit_open(&net, 1, RAWE_LANE_BULK);
    struct unit_send send[RAWE_LANES] = {{.done = 0}};
    static uint8_t data[5000];
    for (unsigned lane = 0; lane < RAWE_LANES; lane++) {
        assert_int_equal(peer.conn[lane]->handshake.state, RAWE_CONN_FAILED);
        unit_send_message(net.node[1].conn[lane], &send[lane], 1, data, sizeof(data));
    }
    unit_run(&net, 2500 * UNIT_MS, UNIT_MS);
    assert_int_equal(net.node[1].given_up_calls, RAWE_LANES);
    unit_assert_sent(send, RAWE_LANES, RAWE_STATUS_FAILED);
    assert_int_equal(net.node[0].failed_calls + net.node[0].given_up_calls, 0);
    assert_int_equal(unit_peer_send_copy(100), RAWE_STATUS_FAILED);
}

/** The caller need not initialize `internal`: rawe_peer_send clears it. */
TEST(rawe_peer_send__not_reported_by_a_process_that_finalizes)
{
    struct sent *message = unit_peer_make(5000, 0, false);
    message->message.send.internal = true;
    unit_peer_send_made(message);
    rawe_engine_finalizing(peer.engine);
    rawe_peer_close(&peer);
    net.node[0].conn[RAWE_LANE_EXPRESS] = net.node[0].conn[RAWE_LANE_BULK] = NULL;
    assert_int_equal(message->completed, 0);
}

/** Send messages in a row: enough of them begin a streak if all other conditions are met. */
static void send_successive(unsigned count, uint64_t interval_ns)
{
    for (unsigned i = 0; i < count; i++) {
        unit_peer_send(FRAME_BYTES, true);
        net.now_ns += interval_ns;
    }
}

/** Begin a streak. The first messages only start its clock. */
static void begin_streak(void)
{
    send_successive(RAWE_PEER_STREAK_MESSAGES + 1, UNIT_US);
    send_successive(RAWE_PEER_STREAK_MESSAGES, UNIT_US);
    assert_false(peer.streak);
    send_successive(1, UNIT_US);
    assert_true(peer.streak);
}

TEST(streak__begins_after_so_many_in_a_row)
{
    begin_streak();
    unsigned express = unit_peer_frames(RAWE_LANE_EXPRESS);
    assert_int_equal(express, 2 * RAWE_PEER_STREAK_MESSAGES + 1);
    send_successive(10, UNIT_US);
    assert_int_equal(unit_peer_frames(RAWE_LANE_EXPRESS), express);
    unit_peer_finish();
    assert_int_equal(net.node[1].message_count, sent_count);
    assert_true(net.node[0].engine.counters.batches_sent > 0);
}

TEST(streak__not_while_nothing_is_in_flight)
{
    for (unsigned i = 0; i < 3 * RAWE_PEER_STREAK_MESSAGES; i++) {
        unit_peer_send(FRAME_BYTES, true);
        unit_peer_finish();
        peer.streak_since_ns = net.now_ns; /* as if no time had passed */
    }
    assert_false(peer.streak);
    assert_int_equal(unit_peer_frames(RAWE_LANE_BULK), 0);
}

static void nothing_coalesces(void)
{
    engine(0)->config.coalesce_from_frames = 0;
}

static void batches_do_not_arrive(void)
{
    net.node[0].conn[RAWE_LANE_BULK]->path.batch = RAWE_BATCH_INVALID;
}

static void bulk_lane_is_busy(void)
{
    unit_peer_send(9000, true);
}

TEST_WITH(unconnected, streak__not_where_it_does_not_help)
{
    static const struct {
        const char *name;
        bool batches;
        uint64_t interval_ns;
        void (*prepare)(void);
    } cases[] = {
        {"the link has no batches", false, UNIT_US, NULL},
        {"batches do not reach the peer", true, UNIT_US, batches_do_not_arrive},
        {"messages are far apart", true, STREAK_NS / RAWE_PEER_STREAK_MESSAGES, NULL},
        {"nothing coalesces", true, UNIT_US, nothing_coalesces},
        {"the bulk lane is busy", true, UNIT_US, bulk_lane_is_busy},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        unit_case(cases[i].name);
        unit_stop(&net);
        unit_peer_start(cases[i].batches);
        unit_peer_connect();
        if (cases[i].prepare != NULL) {
            cases[i].prepare();
        }
        const unsigned before = unit_peer_frames(RAWE_LANE_BULK);
        send_successive(3 * RAWE_PEER_STREAK_MESSAGES, cases[i].interval_ns);
        assert_false(peer.streak);
        assert_int_equal(unit_peer_frames(RAWE_LANE_BULK), before);
        unit_peer_finish();
    }
}

TEST(streak__ends_with_a_long_message)
{
    begin_streak();
    unit_peer_send(9000, true);
    assert_false(peer.streak);
    unit_peer_finish();
    assert_int_equal(net.node[1].message_count, sent_count);
}

TEST(streak__ends_once_all_of_it_is_acknowledged)
{
    begin_streak();
    send_successive(5, UNIT_US);
    assert_true(peer.streak);
    unit_peer_finish();
    unsigned express = unit_peer_frames(RAWE_LANE_EXPRESS);
    send_successive(1, UNIT_US);
    assert_false(peer.streak);
    assert_int_equal(unit_peer_frames(RAWE_LANE_EXPRESS), express + 1);
    unit_peer_finish();
    assert_int_equal(net.node[1].message_count, sent_count);
}

TEST(streak__begins_with_a_message_that_was_to_be_copied)
{
    for (unsigned i = 0; i < 2 * RAWE_PEER_STREAK_MESSAGES + 1; i++) {
        assert_int_equal(unit_peer_send_copy(COPIED_BYTES), RAWE_STATUS_DONE);
    }
    assert_int_equal(unit_peer_send_copy(COPIED_BYTES), RAWE_STATUS_BUSY);
    assert_true(peer.streak);
    unsigned express = unit_peer_frames(RAWE_LANE_EXPRESS);
    unit_peer_send(COPIED_BYTES, true); /* as a caller does after BUSY */
    assert_true(peer.streak);
    assert_int_equal(unit_peer_frames(RAWE_LANE_EXPRESS), express);
    unit_peer_finish();
    unit_peer_assert_delivered(0, COPIED_BYTES);
}

/** Open the express lane of each rail at host 0. */
static void connect_all(void)
{
    for (unsigned rail = 0; rail < RAILS; rail++) {
        rawe_conn_connect(rails_conn(0, rail, RAWE_LANE_EXPRESS), rails.now_ns);
    }
    unit_settle(&rails.net);
}

/** Assert that a message gets through on each connection in both directions. */
static void assert_works(void)
{
    for (unsigned host = 0; host < 2; host++) {
        unsigned before = rails.host[1 - host].inbox.message_count;
        for (unsigned rail = 0; rail < RAILS; rail++) {
            struct rawe_conn *conn = rails_conn(host, rail, RAWE_LANE_EXPRESS);
            unit_send_copy(conn, (uint8_t)rail, 100);
        }
        unit_run(&rails.net, UNIT_MS, 100 * UNIT_US);
        assert_int_equal(rails.host[1 - host].inbox.message_count, before + RAILS);
    }
}

static const struct unit_fixture with_rails = {rails_set_up, rails_stop};

/** Assert the payload limits of the connections that prefer rails 0, 1 and 2. */
static void assert_carries(uint32_t first_bytes, uint32_t second_bytes, uint32_t third_bytes)
{
    assert_int_equal(rails_conn(0, 0, RAWE_LANE_EXPRESS)->path.payload_max_bytes, first_bytes);
    assert_int_equal(rails_conn(0, 1, RAWE_LANE_EXPRESS)->path.payload_max_bytes, second_bytes);
    assert_int_equal(rails_conn(0, 2, RAWE_LANE_EXPRESS)->path.payload_max_bytes, third_bytes);
}

/** Connections that have moved to a route must learn its new limit, or they would stall. */
TEST_WITH(with_rails, rawe_peer_set_payload_max__of_all_that_use_the_route)
{
    connect_all();
    const uint32_t whole_bytes = rails_conn(0, 2, RAWE_LANE_EXPRESS)->path.payload_max_bytes;
    rawe_peer_set_down(rails_peer(0, 0), rails.now_ns);
    unit_run(&rails.net, UNIT_MS, 100 * UNIT_US);
    rawe_peer_set_payload_max(rails_peer(0, 1), 600);
    assert_carries(600, 600, whole_bytes);
    rails.mtu_payload_bytes[1] = 600;
    assert_works();
    /* The limit of the preferred route has not changed. */
    rawe_peer_set_up(rails_peer(0, 0), rails.now_ns);
    unit_run(&rails.net, UNIT_MS, 100 * UNIT_US);
    assert_carries(whole_bytes, 600, whole_bytes);
    assert_works();
}

/* Long GETs. Node 1 answers; the other peer cannot be reached, so its data never arrives. */

#define GETS 96u
#define GET_BYTES 50000u
#define SHORT_BYTES 16384u
#define INFLOW_BYTES 60000u

static uint8_t source[GET_BYTES], target[GET_BYTES];
static uint32_t source_index;
static uint64_t source_key;
static struct rawe_peer other;
static struct get {
    struct rawe_operation operation; /* must be first: cast back from it */
    unsigned done;
    enum rawe_status status;
} gets[GETS];
static unsigned get_count;

static void note_get_done(struct rawe_operation *operation, enum rawe_status status)
{
    struct get *get = (struct get *)(void *)operation;
    get->done++;
    get->status = status;
}

/** Overwrite the operation, whose memory the caller may reuse. */
static void overwrite(struct rawe_operation *operation, enum rawe_status status)
{
    note_get_done(operation, status);
    memset(operation, 0xEE, sizeof(*operation));
}

static struct get *begin_with(struct rawe_peer *from, uint64_t len_bytes,
                              void (*done)(struct rawe_operation *, enum rawe_status))
{
    struct get *get = &gets[get_count++];
    *get = (struct get){.operation = {.done = done,
                                      .handle_index = source_index,
                                      .handle_key = source_key,
                                      .len_bytes = len_bytes,
                                      .local = target,
                                      .status = RAWE_STATUS_FAILED, /* left from an earlier use */
                                      .refusal = RAWE_REFUSAL_UNKNOWN,
                                      .kind = RAWE_FRAGMENT_GET}};
    assert_true(rawe_balance_operate(from, &get->operation));
    return get;
}

static struct get *begin(struct rawe_peer *from, uint64_t len_bytes)
{
    return begin_with(from, len_bytes, note_get_done);
}

static unsigned under_way(void)
{
    return peer.engine->operations.in_use;
}

/** Filter: let no further connection open. */
static bool drop_connects(struct unit_net *of, const struct net_frame *frame)
{
    return frame->header.type != RAWE_FRAME_CONNECT;
}

static void set_up_other(void)
{
    unit_peer_set_up();
    unit_peer_connect();
    net.filter = drop_connects;
    const struct rawe_peer_config config = unit_peer_config();
    rawe_peer_init(&other, peer.engine, &config);
    rawe_budget_init(&peer.engine->pull.gets, INFLOW_BYTES, &peer.engine->pull.line);
    get_count = 0;
    unit_fill(source, sizeof(source), 3);
    memset(target, 0, sizeof(target));
    assert_true(rawe_handle_register(&net.node[1].handles, source, sizeof(source), &source_index,
                                     &source_key, RAWE_ACCESS_READ));
}

static void tear_down_other(void)
{
    rawe_peer_close(&other);
    unit_run(&net, 2 * UNIT_MS, 10 * UNIT_US);
    for (unsigned i = 0; i < get_count; i++) {
        assert_int_equal(gets[i].done, 1);
    }
    assert_true(rawe_handle_deregister(&net.node[1].handles, source_index, source_key));
    unit_tear_down();
}

static const struct unit_fixture with_other = {set_up_other, tear_down_other};

/** Keep the link busy from now on. */
static void use_link(void)
{
    peer.engine->pull.gets.limit->used_ns = UINT64_MAX / 2;
}

/** Start two GETs from the other peer, which together exceed the limit, and one from this peer. */
static struct get *begin_behind_others(void)
{
    begin(&other, GET_BYTES);
    begin(&other, GET_BYTES);
    assert_int_equal(under_way(), 2);
    struct get *get = begin(&peer, GET_BYTES);
    use_link();
    return get;
}

TEST_WITH(with_other, rawe_peer_operate__may_be_done_before_it_returns)
{
    net.node[0].conn[RAWE_LANE_EXPRESS]->handshake.state = RAWE_CONN_FAILED;
    assert_int_equal(begin_with(&peer, GET_BYTES, overwrite)->status, RAWE_STATUS_FAILED);
}

/** A refused operation gets no completion. */
TEST_WITH(with_other, rawe_peer_operate__without_memory_for_the_connection)
{
    const struct rawe_peer_config config = unit_peer_config();
    struct rawe_operation operation = {.len_bytes = GET_BYTES, .kind = RAWE_FRAGMENT_GET};
    struct rawe_peer third;
    rawe_peer_init(&third, peer.engine, &config);
    begin(&other, GET_BYTES);
    begin(&other, GET_BYTES); /* now a further GET would wait */
    unit_allocations_left = 0;
    assert_false(rawe_peer_operate(&third, &operation));
    unit_allocations_left = -1;
    rawe_peer_close(&third);
}

/** Let node 0 share its budget with another process of its host. Returns the other's budget. */
static struct rawe_budget share_with_another(void)
{
    static struct rawe_budget_host host;
    struct rawe_budget process;
    memset(&host, 0, sizeof(host));
    rawe_budget_init(&process, INFLOW_BYTES, &peer.engine->pull.line);
    rawe_budget_join(&process, &host, 0);
    rawe_budget_join(&peer.engine->pull.gets, &host, 1);
    return process;
}

/** Another process of the host has the whole limit outstanding, and receives nothing. */
TEST_WITH(with_other, rawe_peer_operate__waits_for_other_processes)
{
    struct rawe_budget process = share_with_another();
    rawe_budget_asked(&process, INFLOW_BYTES, net.now_ns);
    struct get *get = begin(&peer, GET_BYTES);
    const uint64_t patience_ns = rawe_budget_patience_ns(&process);
    use_link();
    unit_run(&net, patience_ns / 2, 10 * UNIT_US);
    assert_int_equal(get->operation.asked_bytes, 0);
    /* The other process requests 1000 more bytes: our turn comes only once these are old. */
    rawe_budget_take_off(&process, 1000);
    rawe_budget_asked(&process, 1000, net.now_ns);
    unit_run(&net, patience_ns * 3 / 4, 10 * UNIT_US);
    assert_int_equal(get->operation.asked_bytes, 0);
    unit_run(&net, patience_ns / 2, 10 * UNIT_US);
    assert_int_equal(get->done, 1);
    assert_int_equal(get->status, RAWE_STATUS_DONE);
}

/** Other processes see our outstanding bytes until they arrive. */
TEST_WITH(with_other, rawe_peer_operate__tells_other_processes)
{
    struct rawe_budget process = share_with_another();
    begin(&peer, GET_BYTES);
    assert_int_equal(rawe_budget_others(&process, net.now_ns).bytes, GET_BYTES);
    unit_peer_finish();
    assert_int_equal(rawe_budget_others(&process, net.now_ns).bytes, 0);
}

/** The other peer sends nothing, so this peer gets its turn. */
TEST_WITH(with_other, rawe_peer_begin_waiting__a_peer_that_does_not_run_holds_up_no_other)
{
    struct get *get = begin_behind_others();
    unit_run(&net, rawe_budget_patience_ns(&peer.engine->pull.gets) + 50 * UNIT_US, 10 * UNIT_US);
    assert_int_equal(get->done, 1);
    assert_int_equal(get->status, RAWE_STATUS_DONE);
    assert_memory_equal(target, source, GET_BYTES);
}

TEST_WITH(with_other, rawe_peer_close__gets_that_wait_fail)
{
    const struct rawe_peer_config config = unit_peer_config();
    struct rawe_peer third;
    rawe_peer_init(&third, peer.engine, &config);
    struct get *before = begin_behind_others();
    struct get *get = begin(&third, GET_BYTES);
    struct get *behind = begin(&peer, GET_BYTES);
    rawe_peer_close(&third);
    assert_int_equal(get->done, 1);
    assert_int_equal(get->status, RAWE_STATUS_FAILED);
    assert_int_equal(before->done + behind->done, 0);
    unit_run(&net, 10 * UNIT_MS, 10 * UNIT_US);
    assert_int_equal(behind->status, RAWE_STATUS_DONE);
}

/** A piece that cannot be requested is freed, which the leak sanitizer checks. */
TEST_WITH(with_other, rawe_peer_begin_waiting__a_piece_that_finds_no_room_waits_on)
{
    begin(&other, SHORT_BYTES);
    const uint32_t in_use = under_way();
    peer.engine->operations.in_use = RAWE_OPERATIONS_MAX;
    struct get *get = begin(&peer, GET_BYTES);
    assert_int_equal(get->operation.asked_bytes, 0);
    peer.engine->operations.in_use = in_use;
    unit_run(&net, 10 * UNIT_MS, 10 * UNIT_US);
    assert_int_equal(get->status, RAWE_STATUS_DONE);
}

/** No completion is reported, but the pieces' memory is freed, which the leak sanitizer checks. */
TEST_WITH(with_other, rawe_peer_close__while_the_process_finalizes)
{
    begin_behind_others();
    rawe_budget_wait(&peer.engine->pull.gets, 0);
    rawe_peer_begin_waiting(peer.engine);
    assert_int_equal(under_way(), 3); /* one of them is a piece */
    rawe_engine_finalizing(peer.engine);
    rawe_peer_close(&peer);
    memset(net.node[0].conn, 0, sizeof(net.node[0].conn));
    while (get_count != 0) {
        assert_int_equal(gets[--get_count].done, 0);
    }
}
