/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Tests of a peer's long GETs, which wait for those of other peers. Node 1 answers; the other peer
 * cannot be reached, so what it is asked for does not come.
 */
#include "unit_alloc.h"
#include "unit_peer.h"

#include <string.h>

#include "conn/rawe_conn.h"
#include "routes/rawe_balance.h"

#define GETS 96u
#define GET_BYTES 50000u
#define SHORT_BYTES 16384u
#define INFLOW_BYTES 60000u

static uint8_t source[GET_BYTES], target[GET_BYTES];
static uint32_t source_index;
static uint64_t source_key;
static struct rawe_peer other;
static struct get {
    struct rawe_operation operation; /* first */
    unsigned done;
    enum rawe_status status;
} gets[GETS];
static unsigned get_count;

static void note_done(struct rawe_operation *operation, enum rawe_status status)
{
    struct get *get = (struct get *)(void *)operation;
    get->done++;
    get->status = status;
}

/** It is its caller's again, who uses it for something else. */
static void overwrite(struct rawe_operation *operation, enum rawe_status status)
{
    note_done(operation, status);
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
                                      .status = RAWE_STATUS_FAILED, /* of an earlier use */
                                      .refusal = RAWE_REFUSAL_UNKNOWN,
                                      .kind = RAWE_FRAGMENT_GET}};
    assert_true(rawe_balance_operate(from, &get->operation));
    return get;
}

static struct get *begin(struct rawe_peer *from, uint64_t len_bytes)
{
    return begin_with(from, len_bytes, note_done);
}

static unsigned under_way(void)
{
    return peer.engine->operations.in_use;
}

/** Node 0's connections of `peer` are up; others are not to be. */
static bool drop_connects(struct unit_net *of, const struct net_frame *frame)
{
    return frame->header.type != RAWE_FRAME_CONNECT;
}

static void set_up(void)
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

static void tear_down(void)
{
    rawe_peer_close(&other);
    unit_run(&net, 2 * UNIT_MS, 10 * UNIT_US);
    for (unsigned i = 0; i < get_count; i++) {
        assert_int_equal(gets[i].done, 1);
    }
    assert_true(rawe_handle_deregister(&net.node[1].handles, source_index, source_key));
    unit_tear_down();
}

FIXTURE(set_up, tear_down);

/** The link is busy from now on. */
static void use_link(void)
{
    peer.engine->pull.gets.limit->used_ns = UINT64_MAX / 2;
}

/** Two of the other peer have asked for more than may be on its way. */
static struct get *begin_behind_others(void)
{
    begin(&other, GET_BYTES);
    begin(&other, GET_BYTES);
    assert_int_equal(under_way(), 2);
    struct get *get = begin(&peer, GET_BYTES);
    use_link();
    return get;
}

TEST(rawe_peer_operate__may_be_done_before_it_returns)
{
    net.node[0].conn[RAWE_LANE_EXPRESS]->handshake.state = RAWE_CONN_FAILED;
    assert_int_equal(begin_with(&peer, GET_BYTES, overwrite)->status, RAWE_STATUS_FAILED);
}

/** Who is told that it cannot be begun need not wait for its end. */
TEST(rawe_peer_operate__without_memory_for_the_connection)
{
    const struct rawe_peer_config config = unit_peer_config();
    struct rawe_operation operation = {.len_bytes = GET_BYTES, .kind = RAWE_FRAGMENT_GET};
    struct rawe_peer third;
    rawe_peer_init(&third, peer.engine, &config);
    begin(&other, GET_BYTES);
    begin(&other, GET_BYTES); /* so that it would have to wait */
    unit_allocations_left = 0;
    assert_false(rawe_peer_operate(&third, &operation));
    unit_allocations_left = -1;
    rawe_peer_close(&third);
}

/** Node 0 shares with another process of its host, which is returned. */
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

/** Another process of the host has asked for as much as may be on its way; none of its comes. */
TEST(rawe_peer_operate__waits_for_other_processes)
{
    struct rawe_budget process = share_with_another();
    rawe_budget_asked(&process, INFLOW_BYTES, net.now_ns);
    struct get *get = begin(&peer, GET_BYTES);
    const uint64_t patience_ns = rawe_budget_patience_ns(&process);
    use_link();
    unit_run(&net, patience_ns / 2, 10 * UNIT_US);
    assert_int_equal(get->operation.asked_bytes, 0);
    /* Another 1000 bytes have come, so it gets no turn before they are old, too. */
    rawe_budget_take_off(&process, 1000);
    rawe_budget_asked(&process, 1000, net.now_ns);
    unit_run(&net, patience_ns * 3 / 4, 10 * UNIT_US);
    assert_int_equal(get->operation.asked_bytes, 0);
    unit_run(&net, patience_ns / 2, 10 * UNIT_US);
    assert_int_equal(get->done, 1);
    assert_int_equal(get->status, RAWE_STATUS_DONE);
}

/** What it asks for itself, other processes see until it has come. */
TEST(rawe_peer_operate__tells_other_processes)
{
    struct rawe_budget process = share_with_another();
    begin(&peer, GET_BYTES);
    assert_int_equal(rawe_budget_others(&process, net.now_ns).bytes, GET_BYTES);
    unit_peer_finish();
    assert_int_equal(rawe_budget_others(&process, net.now_ns).bytes, 0);
}

/** Nothing comes from the other peer, so it has its turn. */
TEST(rawe_peer_begin_waiting__a_peer_that_does_not_run_holds_up_no_other)
{
    struct get *get = begin_behind_others();
    unit_run(&net, rawe_budget_patience_ns(&peer.engine->pull.gets) + 50 * UNIT_US, 10 * UNIT_US);
    assert_int_equal(get->done, 1);
    assert_int_equal(get->status, RAWE_STATUS_DONE);
    assert_memory_equal(target, source, GET_BYTES);
}

TEST(rawe_peer_operate__a_single_peer_is_asked_for_all)
{
    for (unsigned i = 0; i < 85; i++) {
        struct get *get = begin(&peer, GET_BYTES);
        assert_ptr_equal(get->operation.table, i < 84 ? &peer.engine->operations : NULL);
    }
    assert_false(rawe_list_empty(&peer.engine->pull.waiting)); /* 4 MiB are under way */
    unit_peer_finish();
    assert_true(rawe_list_empty(&peer.engine->pull.waiting));
}

TEST(rawe_peer_close__gets_that_wait_fail)
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

/** The progress thread finds the connection closed: the caller hears of it when MPI is back. */
TEST(rawe_peer_begin_waiting__fails_no_get_while_the_engine_defers)
{
    begin(&peer, GET_BYTES);
    begin(&peer, GET_BYTES);
    struct get *get = begin(&other, GET_BYTES);
    assert_int_equal(get->operation.asked_bytes, 0);
    rawe_engine_defer_begin(peer.engine);
    rawe_conn_close(other.conn[RAWE_LANE_EXPRESS], net.now_ns);
    other.conn[RAWE_LANE_EXPRESS] = NULL;
    net.now_ns += UNIT_MS;
    rawe_engine_flush(peer.engine, net.now_ns);
    assert_true(rawe_list_empty(&peer.engine->pull.waiting));
    assert_int_equal(get->done, 0);
    rawe_engine_defer_end(peer.engine);
    rawe_engine_deliver_deferred(peer.engine);
    assert_int_equal(get->status, RAWE_STATUS_FAILED);
}

/** The memory was deregistered: the first refusal ends it. */
TEST(rawe_peer_begin_waiting__a_piece_is_refused)
{
    begin(&other, GET_BYTES);
    struct get *get = begin(&peer, GET_BYTES);
    get->operation.handle_key++;
    unit_run(&net, 10 * UNIT_MS, 10 * UNIT_US);
    assert_int_equal(get->done, 1);
    assert_int_equal(get->status, RAWE_STATUS_FAILED);
    assert_int_equal(get->operation.refusal, RAWE_REFUSAL_UNKNOWN);
}

/** A piece that cannot be asked for is given back: the leak sanitizer watches. */
TEST(rawe_peer_begin_waiting__a_piece_that_finds_no_room_waits_on)
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

/** No caller is told, but the memory of pieces is freed: the leak sanitizer watches. */
TEST(rawe_peer_close__while_the_process_finalizes)
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
