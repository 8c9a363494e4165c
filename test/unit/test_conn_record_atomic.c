/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Tests of atomic operations on registered memory.
 */
#include "unit_record.h"

#include <string.h>

#include "net_message.h"

FIXTURE(record_set_up, record_tear_down);

TEST(atomic__each_operation)
{
    static const struct {
        enum rawe_atomic what;
        uint64_t operand, compare, after;
    } cases[] = {
        {RAWE_ATOMIC_ADD, 0x1111111111111111, 0, 0x1123456789ABCDF0 + 0x1111111111111111},
        {RAWE_ATOMIC_ADD, UINT64_MAX, 0, 0x1123456789ABCDEF},
        {RAWE_ATOMIC_AND, 0xFF00FF00FF00FF00, 0, 0},
        {RAWE_ATOMIC_OR, 0xF, 0, 0x1123456789ABCDFF},
        {RAWE_ATOMIC_XOR, UINT64_MAX, 0, ~0x1123456789ABCDF0},
        {RAWE_ATOMIC_SWAP, 77, 0, 77},
        {RAWE_ATOMIC_COMPARE_SWAP, 77, 0x1123456789ABCDF0, 77},
        {RAWE_ATOMIC_COMPARE_SWAP, 77, 0x1123456789ABCDF1, 0x1123456789ABCDF0},
    };
    const uint64_t begin = 0x1123456789ABCDF0;
    for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        uint64_t after =
            cases[i].what == RAWE_ATOMIC_AND ? begin & cases[i].operand : cases[i].after;
        uint64_t words[3] = {1, begin, 2};
        memcpy(record_memory + 16, words, sizeof(words));
        const struct access *access =
            record_atomic(cases[i].what, 24, 8, cases[i].operand, cases[i].compare);
        record_run();
        assert_int_equal(access->done, 1);
        assert_int_equal(access->status, RAWE_STATUS_DONE);
        assert_true(access->before == begin);
        memcpy(words, record_memory + 16, sizeof(words));
        assert_true(words[0] == 1 && words[2] == 2);
        assert_true(words[1] == after);
    }
}

TEST(atomic__of_four_bytes)
{
    uint32_t words[3] = {UINT32_MAX, UINT32_MAX, UINT32_MAX};
    memcpy(record_memory + 4, words, sizeof(words));
    const struct access *add = record_atomic(RAWE_ATOMIC_ADD, 8, 4, 3, 0);
    record_run();
    memcpy(words, record_memory + 4, sizeof(words));
    assert_int_equal(words[0], UINT32_MAX);
    assert_int_equal(words[1], 2);
    assert_int_equal(words[2], UINT32_MAX);
    assert_true(add->before == UINT32_MAX);
}

TEST(atomic__each_once_whatever_is_lost)
{
    bool seen[RECORD_ACCESSES] = {false};
    memset(record_memory, 0, 8);
    net.filter = record_lose_some;
    for (unsigned i = 0; i < RECORD_ACCESSES; i++) {
        (void)record_atomic(RAWE_ATOMIC_ADD, 0, 8, 1, 0);
    }
    record_run();
    for (unsigned i = 0; i < RECORD_ACCESSES; i++) {
        assert_int_equal(record_accesses[i].done, 1);
        assert_true(record_accesses[i].before < RECORD_ACCESSES);
        assert_false(seen[record_accesses[i].before]);
        seen[record_accesses[i].before] = true;
    }
    uint64_t sum;
    memcpy(&sum, record_memory, sizeof(sum));
    assert_int_equal(sum, RECORD_ACCESSES);
    assert_true(counters(0)->frames_resent != 0);
}

TEST(atomic__refused)
{
    struct access *access = record_atomic(RAWE_ATOMIC_ADD, 4, 8, 1, 0);
    record_run();
    assert_int_equal(access->operation.refusal, RAWE_REFUSAL_ALIGNMENT);
    access = record_atomic(RAWE_ATOMIC_ADD, 0, 2, 1, 0);
    record_run();
    assert_int_equal(access->operation.refusal, RAWE_REFUSAL_OPERATION);
    access = record_atomic(99, 0, 8, 1, 0);
    record_run();
    assert_int_equal(access->operation.refusal, RAWE_REFUSAL_OPERATION);
    access = record_atomic(RAWE_ATOMIC_ADD, RECORD_MEMORY_BYTES - 4, 8, 1, 0);
    record_run();
    assert_int_equal(access->operation.refusal, RAWE_REFUSAL_BOUNDS);
    record_revoke();
    record_grant(RAWE_ACCESS_READ | RAWE_ACCESS_WRITE);
    access = record_atomic(RAWE_ATOMIC_ADD, 0, 8, 1, 0);
    record_run();
    assert_int_equal(access->operation.refusal, RAWE_REFUSAL_ACCESS);
    assert_int_equal(access->status, RAWE_STATUS_FAILED);
    assert_int_equal(
        net_content_compare(record_memory, net_content_seed(0, 1), 0, sizeof(record_memory)),
        sizeof(record_memory));
}

TEST(atomic__leaves_at_once)
{
    uint64_t word = 5;
    unsigned before = net.node[0].sent[RAWE_FRAME_DATA];
    const struct rawe_conn *conn = unit_peer_end(RAWE_LANE_EXPRESS);
    for (unsigned i = 0; i < 3; i++) {
        assert_true(record_put(i, &word, 8, 8 * i));
    }
    assert_int_equal(net.node[0].sent[RAWE_FRAME_DATA] - before, 1);
    net.now_ns += 10 * UNIT_US;
    (void)record_atomic(RAWE_ATOMIC_ADD, 0, 8, 1, 0); /* and what was held back with it */
    assert_int_equal(net.node[0].sent[RAWE_FRAME_DATA] - before, 2);
    assert_true(rawe_sendwin_at(&conn->sendwin, conn->sendwin.next - 1)->first.oldest_ns ==
                net.now_ns);
    (void)record_atomic(RAWE_ATOMIC_ADD, 0, 8, 1, 0);
    assert_int_equal(net.node[0].sent[RAWE_FRAME_DATA] - before, 3);
    record_run();
    assert_int_equal(record_accesses[0].before, 5);
    assert_int_equal(record_accesses[1].before, 6);
}
