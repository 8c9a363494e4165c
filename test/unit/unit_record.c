/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Accesses to registered memory: see unit_record.h.
 */
#include "unit_record.h"

#include <string.h>

#include "conn/rawe_conn_record.h"
#include "conn/rawe_conn_send.h"

uint8_t record_memory[RECORD_MEMORY_BYTES] __attribute__((aligned(8)));
uint8_t record_result[RECORD_MEMORY_BYTES];
uint32_t record_index;
uint64_t record_key;
static bool revoked;

struct access record_accesses[RECORD_ACCESSES];
static unsigned access_count;
void record_operation_done(struct rawe_operation *operation, enum rawe_status status)
{
    struct access *access = (struct access *)(void *)operation;
    access->done++;
    access->status = status;
    assert_int_equal(access->done, 1);
}

/** rawe_callbacks.long_reply of the target, which has no peer object. */
static bool long_reply(void *context, struct rawe_conn *conn, struct rawe_send *send)
{
    struct unit_node *node = context;
    assert_int_equal(conn->lane, RAWE_LANE_EXPRESS);
    if (node->conn[RAWE_LANE_BULK] == NULL) {
        (void)unit_open(&net, 1, RAWE_LANE_BULK);
    }
    rawe_conn_send(node->conn[RAWE_LANE_BULK], send, net.now_ns);
    return true;
}

void record_grant(unsigned access)
{
    unit_fill(record_memory, sizeof(record_memory), 1);
    memset(record_result, 0xEE, sizeof(record_result));
    memset(record_accesses, 0, sizeof(record_accesses));
    access_count = 0;
    revoked = false;
    assert_true(rawe_handle_register(&net.node[1].handles, record_memory, sizeof(record_memory),
                                     &record_index, &record_key, access));
}

void record_revoke(void)
{
    if (!revoked) {
        rawe_conn_serve_forget(engine(1), record_index);
        assert_true(rawe_handle_deregister(&net.node[1].handles, record_index, record_key));
        revoked = true;
    }
}

void record_start(bool batches)
{
    unit_peer_start(batches);
    unit_peer_connect_lane(RAWE_LANE_EXPRESS);
    engine(1)->callbacks.long_reply = long_reply;
    record_grant(RAWE_ACCESS_READ | RAWE_ACCESS_WRITE | RAWE_ACCESS_ATOMIC);
}

void record_set_up(void)
{
    record_start(true);
}

void record_tear_down(void)
{
    record_revoke();
    unit_peer_tear_down();
}

struct access *record_next(uint64_t offset, uint64_t len_bytes)
{
    struct access *access = &record_accesses[access_count++];
    access->operation = (struct rawe_operation){
        .done = record_operation_done,
        .handle_index = record_index,
        .handle_key = record_key,
        .offset = offset,
        .len_bytes = len_bytes,
        .local = (uint8_t *)&access->before,
        .kind = RAWE_FRAGMENT_GET,
    };
    return access;
}

struct access *record_get(uint64_t offset, uint64_t len_bytes)
{
    struct access *access = record_next(offset, len_bytes);
    access->operation.local = record_result + offset;
    assert_true(rawe_peer_operate(&peer, &access->operation));
    return access;
}

void record_run(void)
{
    for (unsigned i = 0; i < 400; i++) {
        unit_run(&net, UNIT_MS, 50 * UNIT_US);
    }
    assert_true(unit_peer_drained());
    assert_int_equal(engine(0)->operations.in_use, 0);
    assert_true(rawe_list_empty(&engine(1)->serving.used));
}

void record_assert_ended(const struct access *access, enum rawe_status status)
{
    assert_int_equal(access->done, 1);
    assert_int_equal(access->status, status);
}
