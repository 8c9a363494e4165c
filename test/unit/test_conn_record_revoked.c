/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Tests of memory that is deregistered while GETs of it are under way.
 */
#include "unit_record.h"
#include "unit_alloc.h"

#include <string.h>

FIXTURE(record_set_up, record_tear_down);

/** Again: a GET of all its memory brings the target's bulk lane up; then replies stay on the wire. */
static void hold_replies(void)
{
    unit_peer_tear_down();
    record_start(true);
    (void)record_get(0, 190000);
    record_run();
    memset(record_result, 0xEE, sizeof(record_result));
    net.node[0].paused = true;
}

static struct access *get_held(uint64_t offset, uint64_t len_bytes)
{
    struct access *access = record_get(offset, len_bytes);
    unit_run(&net, UNIT_MS, 50 * UNIT_US);
    assert_false(rawe_list_empty(&engine(1)->serving.used));
    return access;
}

/** The memory goes, and is used for something else. Replies on the wire arrive, or are `lost`. */
static void revoke_and_go_on(bool lost)
{
    record_revoke();
    memset(record_memory, 0x11, sizeof(record_memory));
    if (lost) {
        unit_wire_clear(&net);
    }
    net.node[0].paused = false;
    record_run();
}

static void assert_refused(const struct access *access)
{
    record_assert_ended(access, RAWE_STATUS_FAILED);
    assert_int_equal(access->operation.refusal, RAWE_REFUSAL_UNKNOWN);
}

/** Nothing of what the memory holds now has been sent. */
static void assert_nothing_read(uint8_t value)
{
    for (unsigned i = 0; i < sizeof(record_result); i++) {
        assert_true(record_result[i] == value || record_result[i] == 0xEE);
    }
}

/** The memory goes while the initiator has some of what is in flight to it, or none: `lost`. */
TEST(get__memory_deregistered_while_the_reply_is_in_flight)
{
    static uint8_t expected[20000]; /* within the first window */
    for (int lost = 0; lost < 2; lost++) {
        hold_replies();
        memcpy(expected, record_memory, sizeof(expected));
        const struct access *access = get_held(0, sizeof(expected));
        revoke_and_go_on(lost != 0);
        assert_true(rawe_list_empty(&engine(1)->serving.used));
        if (lost) {
            assert_refused(access);
            assert_nothing_read(0xEE);
        } else {
            record_assert_ended(access, RAWE_STATUS_DONE);
            assert_memory_equal(record_result, expected, sizeof(expected));
        }
    }
}

static bool drop_acknowledgements(struct unit_net *unused, const struct net_frame *frame)
{
    return frame->header.type != RAWE_FRAME_ACK;
}

TEST(get__memory_deregistered_while_an_acknowledgement_is_missing)
{
    static uint8_t expected[20000];
    memcpy(expected, record_memory, sizeof(expected));
    (void)record_get(0, 190000); /* the bulk lane is there */
    record_run();
    const struct access *access = record_get(0, sizeof(expected));
    net.filter = drop_acknowledgements;
    unit_run(&net, 2 * UNIT_MS, 50 * UNIT_US);
    assert_int_equal(access->done, 1);
    assert_false(rawe_list_empty(&engine(1)->serving.used));
    record_revoke();
    net.filter = NULL;
    record_run();
    assert_true(rawe_list_empty(&engine(1)->serving.used));
    assert_int_equal(access->status, RAWE_STATUS_DONE);
    assert_memory_equal(record_result, expected, sizeof(expected));
}

TEST(get__memory_deregistered_before_the_reply_is_sent)
{
    const struct access *access = record_get(0, 60000);
    net.filter = drop_all; /* the bulk lane is asked for in vain */
    unit_run(&net, UNIT_MS, 50 * UNIT_US);
    assert_false(rawe_list_empty(&engine(1)->serving.used));
    record_revoke();
    net.filter = NULL;
    record_run();
    assert_refused(access);
    assert_nothing_read(0xEE);
}

TEST(get__memory_deregistered_in_the_midst_of_a_reply)
{
    for (int lost = 0; lost < 2; lost++) {
        hold_replies();
        memset(record_memory, 0x22, sizeof(record_memory));
        const struct access *access = get_held(0, 190000);
        const struct access *behind = get_held(0, 100000);
        const struct rawe_conn *bulk = net.node[1].conn[RAWE_LANE_BULK];
        revoke_and_go_on(lost != 0);
        assert_refused(access);
        assert_refused(behind);
        assert_nothing_read(0x22);
        assert_int_equal(bulk->queue.bytes, 0);
        assert_int_equal(bulk->queue.count, 0);
    }
}

TEST(get__memory_gone_when_the_target_finalizes)
{
    for (int allowed = -1; allowed <= 0; allowed++) {
        hold_replies();
        const struct access *access = get_held(0, 190000);
        unit_allocations_left = allowed;
        rawe_engine_finalizing(engine(1));
        unit_allocations_left = -1;
        memset(record_memory, 0x11, sizeof(record_memory));
        unit_wire_clear(&net);
        net.node[0].paused = false;
        unit_run(&net, 100 * UNIT_MS, 50 * UNIT_US);
        assert_true(rawe_list_empty(&engine(1)->serving.used));
        assert_nothing_read(0xEE);
        assert_refused(access);
    }
}
