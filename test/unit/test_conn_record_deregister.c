/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Tests of memory that is deregistered while it is read.
 */
#include "unit_record.h"

#include <string.h>

#include "unit_alloc.h"

/** A GET of all its memory brings the target's bulk lane up; then replies stay on the wire. */
static void hold_replies(void)
{
    (void)record_get(0, 190000);
    record_run();
    memset(record_result, 0xEE, sizeof(record_result));
    net.node[0].paused = true;
}

static struct access *get_held(uint64_t offset, uint64_t len_bytes)
{
    struct access *access = record_get(offset, len_bytes);
    unit_run(&net, UNIT_MS, 50 * UNIT_US);
    assert_non_null(engine(1)->serving.used);
    return access;
}

/** What is on the wire is lost, and sent again. */
static void lose_and_let_go(void)
{
    unit_wire_clear(&net);
    net.node[0].paused = false;
}

static void assert_refused(const struct access *access)
{
    assert_int_equal(access->done, 1);
    assert_int_equal(access->status, RAWE_STATUS_FAILED);
    assert_int_equal(access->operation.refusal, RAWE_REFUSAL_UNKNOWN);
}

/** Nothing of what the memory holds now has been sent. */
static void assert_nothing_read(uint8_t value)
{
    for (unsigned i = 0; i < sizeof(record_result); i++) {
        assert_true(record_result[i] == value || record_result[i] == 0xEE);
    }
}

FIXTURE(record_set_up, record_tear_down);

TEST(get__memory_deregistered_while_the_reply_is_in_flight)
{
    static uint8_t expected[60000];
    memcpy(expected, record_memory, sizeof(expected));
    hold_replies();
    const struct access *access = get_held(0, sizeof(expected));
    record_revoke();
    assert_int_equal(engine(1)->serving.copied_bytes, sizeof(expected));
    memset(record_memory, 0x11, sizeof(record_memory));
    lose_and_let_go();
    record_run();
    assert_int_equal(access->done, 1);
    assert_int_equal(access->status, RAWE_STATUS_DONE);
    assert_memory_equal(record_result, expected, sizeof(expected));
    assert_int_equal(engine(1)->serving.copied_bytes, 0);
}

TEST(get__memory_deregistered_before_the_reply_is_sent)
{
    const struct access *access = record_get(0, 60000);
    net.filter = drop_all; /* the bulk lane is asked for in vain */
    unit_run(&net, UNIT_MS, 50 * UNIT_US);
    assert_non_null(engine(1)->serving.used);
    record_revoke();
    assert_int_equal(engine(1)->serving.copied_bytes, 0);
    net.filter = NULL;
    record_run();
    assert_refused(access);
    assert_nothing_read(0xEE);
}

TEST(get__memory_deregistered_in_the_midst_of_a_reply)
{
    memset(record_memory, 0x22, sizeof(record_memory));
    hold_replies();
    const struct access *access = get_held(0, 190000);
    const struct access *behind = get_held(0, 100000);
    const struct rawe_conn *bulk = net.node[1].conn[RAWE_LANE_BULK];
    size_t in_flight_bytes = (size_t)bulk->sendwin.in_flight * bulk->payload_max_bytes;
    record_revoke();
    /* However much was asked for. */
    assert_in_range(engine(1)->serving.copied_bytes, 1, in_flight_bytes);
    memset(record_memory, 0x11, sizeof(record_memory));
    lose_and_let_go();
    record_run();
    assert_refused(access);
    assert_refused(behind);
    assert_nothing_read(0x22);
    assert_int_equal(engine(1)->serving.copied_bytes, 0);
    assert_int_equal(bulk->queue.bytes, 0);
    assert_int_equal(bulk->queue.count, 0);
}

TEST(get__memory_stays_registered_without_memory_for_a_copy)
{
    memset(record_memory, 0x22, sizeof(record_memory));
    hold_replies();
    const struct access *access = get_held(0, 190000);
    for (int allowed = 0; allowed < 2; allowed++) {
        unit_allocations_left = allowed;
        assert_false(rawe_engine_before_deregister(engine(1), record_index));
        unit_allocations_left = -1;
    }
    record_revoke();
    memset(record_memory, 0x11, sizeof(record_memory));
    lose_and_let_go();
    record_run();
    assert_refused(access);
    assert_nothing_read(0x22);
}

TEST(get__memory_gone_when_the_target_finalizes)
{
    for (int allowed = -1; allowed <= 0; allowed++) {
        unit_peer_tear_down();
        record_start(true);
        hold_replies();
        const struct access *access = get_held(0, 190000);
        unit_allocations_left = allowed;
        rawe_engine_finalizing(engine(1));
        unit_allocations_left = -1;
        memset(record_memory, 0x11, sizeof(record_memory));
        lose_and_let_go();
        unit_run(&net, 100 * UNIT_MS, 50 * UNIT_US);
        assert_null(engine(1)->serving.used);
        assert_nothing_read(0);
        if (allowed != 0) {
            assert_refused(access);
        } else {
            assert_int_equal(access->done, 0); /* it hears by the end of the connection */
        }
    }
}
