/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Tests of GET: how requests and replies travel.
 */
#include "unit_record.h"

#include <string.h>

FIXTURE(record_set_up, record_tear_down);

TEST(get__short_ones_share_frames)
{
    struct access *access[40];
    unsigned before = net.node[0].sent[RAWE_FRAME_DATA];
    for (unsigned i = 0; i < 40; i++) {
        access[i] = record_get(16 * i, 8);
    }
    record_run();
    for (unsigned i = 0; i < 40; i++) {
        record_assert_got(access[i], 16 * i, 8);
        assert_int_equal(record_result[16 * i + 8], 0xEE);
    }
    assert_true(net.node[0].sent[RAWE_FRAME_DATA] - before < 12);
    assert_int_equal(counters(0)->operations_sent, 40);
    assert_int_equal(counters(1)->operations_served, 40);
}

TEST(get__replies_to_the_requests_of_a_frame_share_one)
{
    unsigned requests = net.node[0].sent[RAWE_FRAME_DATA];
    unsigned replies = net.node[1].sent[RAWE_FRAME_DATA];
    for (unsigned i = 0; i < 10; i++) {
        (void)record_get(16 * i, 8);
    }
    assert_int_equal(net.node[0].sent[RAWE_FRAME_DATA] - requests, 1); /* the first one */
    record_run();
    for (unsigned i = 0; i < 10; i++) {
        record_assert_got(&record_accesses[i], 16 * i, 8);
    }
    assert_int_equal(net.node[0].sent[RAWE_FRAME_DATA] - requests, 2);
    assert_true(net.node[1].sent[RAWE_FRAME_DATA] - replies <= 2);
}

TEST(get__long_ones_come_as_batches)
{
    static const size_t lengths[] = {1,    100,   1400,  1412,  1413,   1414,  1438,
                                     1439, 1504,  4096,  9000,  64512,  64513, 70000,
                                     9001, 65536, 70001, 99999, 100000, 150000};
    for (unsigned i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
        memset(record_result, 0xEE, sizeof(record_result));
        struct access *access = record_get(3 * i, lengths[i]);
        record_run();
        record_assert_got(access, 3 * i, lengths[i]);
        assert_int_equal(record_result[3 * i + lengths[i]], 0xEE);
        assert_true(i == 0 || record_result[3 * i - 1] == 0xEE);
    }
    assert_true(counters(1)->batches_sent != 0);
}

TEST(get__long_ones_come_as_frames_where_batches_do_not_pass)
{
    unit_peer_tear_down();
    record_start(false);
    struct access *one = record_get(7, 100000), *other = record_get(120000, 3000);
    record_run();
    record_assert_got(one, 7, 100000);
    record_assert_got(other, 120000, 3000);
    assert_int_equal(counters(1)->batches_sent, 0);
}

TEST(get__on_the_same_connection_where_there_is_no_other)
{
    net.node[1].conn[RAWE_LANE_EXPRESS]->long_lane = NULL;
    struct access *access = record_get(7, 10000);
    record_run();
    record_assert_got(access, 7, 10000);
    assert_null(net.node[1].conn[RAWE_LANE_BULK]);
}

TEST(get__many_more_than_fit_the_window)
{
    struct access *access[RECORD_ACCESSES];
    for (unsigned i = 0; i < RECORD_ACCESSES; i++) {
        access[i] = record_get(600 * i, 600);
    }
    record_run();
    for (unsigned i = 0; i < RECORD_ACCESSES; i++) {
        record_assert_got(access[i], 600 * i, 600);
    }
}

TEST(get__loss)
{
    struct access *access[RECORD_ACCESSES];
    net.filter = record_lose_some;
    for (unsigned i = 0; i < RECORD_ACCESSES; i++) {
        access[i] = record_get(500 * i, i % 7 == 0 ? 3000 : 200);
    }
    record_run();
    for (unsigned i = 0; i < RECORD_ACCESSES; i++) {
        record_assert_got(access[i], 500 * i, i % 7 == 0 ? 3000 : 200);
    }
    assert_true(counters(0)->frames_resent + counters(1)->frames_resent != 0);
    assert_int_equal(counters(1)->operations_served, RECORD_ACCESSES);
}

TEST(get__is_served_while_the_target_computes)
{
    rawe_engine_defer_begin(engine(1));
    struct access *one = record_get(0, 8), *other = record_get(100, 20000);
    record_run();
    record_assert_got(one, 0, 8);
    record_assert_got(other, 100, 20000);
    assert_false(rawe_engine_has_deferred(engine(1)));
    rawe_engine_defer_end(engine(1));
}

TEST(get__is_complete_when_the_initiator_is_back)
{
    struct access *one = record_get(0, 8);
    rawe_engine_defer_begin(engine(0));
    unit_run(&net, 20 * UNIT_MS, 50 * UNIT_US);
    assert_int_equal(one->done, 0);
    rawe_engine_defer_end(engine(0));
    rawe_engine_deliver_deferred(engine(0));
    record_assert_got(one, 0, 8);
}

TEST(get__short_replies_never_take_the_other_lane)
{
    engine(1)->config.copy_max_bytes = 0;
    const struct access *access = record_get(0, RAWE_OPERATION_SHORT_BYTES);
    record_run();
    record_assert_got(access, 0, RAWE_OPERATION_SHORT_BYTES);
    assert_null(net.node[1].conn[RAWE_LANE_BULK]);
    access = record_get(100, RAWE_OPERATION_SHORT_BYTES + 1);
    record_run();
    record_assert_got(access, 100, RAWE_OPERATION_SHORT_BYTES + 1);
    assert_non_null(net.node[1].conn[RAWE_LANE_BULK]);
}

/** Hand node 0 the next data frame of node 1's, made up. */
static void forge(const uint8_t *payload, size_t payload_bytes)
{
    unit_receive_forged(
        &net, 1, RAWE_LANE_EXPRESS,
        (struct rawe_header){.type = RAWE_FRAME_DATA, .sequence = end(0)->recvwin.acktr->next},
        payload, payload_bytes);
}

static uint32_t own_index;
static uint64_t own_key;

/** Add a GET of all of node 0's memory to a payload; returns its new length. */
static size_t add_get(uint8_t *payload, size_t at)
{
    uint8_t *out = payload + at;
    out += rawe_fragment_encode(out, &(struct rawe_fragment){.kind = RAWE_FRAGMENT_GET,
                                                             .data_bytes = RAWE_REQUEST_BYTES,
                                                             .id = own_index,
                                                             .key = own_key});
    rawe_request_encode(out, &(struct rawe_request){.operand = sizeof(record_memory)});
    return (size_t)(out - payload) + RAWE_REQUEST_BYTES;
}

/** rawe_operation.done: makes progress, and gets a request by it. */
static void done_in_the_midst(struct rawe_operation *operation, enum rawe_status status)
{
    uint8_t payload[100];
    record_operation_done(operation, status);
    rawe_engine_defer_begin(engine(0));
    forge(payload, add_get(payload, 0));
    rawe_engine_defer_end(engine(0));
}

TEST(get__another_comes_while_a_callback_makes_progress)
{
    uint8_t payload[200];
    unit_peer_connect_lane(RAWE_LANE_BULK); /* where the replies go */
    assert_true(rawe_handle_register(&net.node[0].handles, record_memory, sizeof(record_memory),
                                     &own_index, &own_key, RAWE_ACCESS_READ));
    struct access *access = record_get(0, 8);
    access->operation.done = done_in_the_midst;
    unit_wire_clear(&net);
    size_t bytes =
        rawe_fragment_encode(payload, &(struct rawe_fragment){.kind = RAWE_FRAGMENT_REPLY,
                                                              .data_bytes = 8,
                                                              .id = access->operation.index,
                                                              .key = access->operation.key});
    memset(payload + bytes, 0, 8);
    forge(payload, add_get(payload, bytes + 8));
    assert_int_equal(access->done, 1);
    assert_int_equal(counters(0)->operations_served, 2);
    assert_int_equal(engine(0)->serving.reserved, 0);
    assert_true(rawe_handle_deregister(&net.node[0].handles, own_index, own_key));
}

TEST(get__refused)
{
    static const struct {
        unsigned access;
        uint64_t offset, len_bytes, key_xor;
        enum rawe_refusal refusal;
    } cases[] = {
        {RAWE_ACCESS_WRITE | RAWE_ACCESS_ATOMIC, 0, 8, 0, RAWE_REFUSAL_ACCESS},
        {RAWE_ACCESS_READ, RECORD_MEMORY_BYTES, 1, 0, RAWE_REFUSAL_BOUNDS},
        {RAWE_ACCESS_READ, RECORD_MEMORY_BYTES - 7, 8, 0, RAWE_REFUSAL_BOUNDS},
        {RAWE_ACCESS_READ, 8, UINT64_MAX - 4, 0, RAWE_REFUSAL_BOUNDS},
        {RAWE_ACCESS_READ, 0, 8, 1, RAWE_REFUSAL_UNKNOWN},
        {RAWE_ACCESS_READ, RECORD_MEMORY_BYTES - 8, 8, 0, RAWE_REFUSAL_NONE},
    };
    for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        record_revoke();
        record_grant(cases[i].access);
        struct access *access = record_next(cases[i].offset, cases[i].len_bytes);
        access->operation.handle_key ^= cases[i].key_xor;
        access->operation.to = record_result;
        assert_true(rawe_peer_operate(&peer, &access->operation));
        record_run();
        bool allowed = cases[i].refusal == RAWE_REFUSAL_NONE;
        assert_int_equal(access->done, 1);
        assert_int_equal(access->status, allowed ? RAWE_STATUS_DONE : RAWE_STATUS_FAILED);
        assert_int_equal(access->operation.refusal, cases[i].refusal);
        assert_int_equal(record_result[0] == 0xEE, !allowed);
    }
    assert_int_equal(counters(1)->operations_refused, 5);
}
