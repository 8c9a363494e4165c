/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Accesses to registered memory: see unit_record.h.
 */
#include "unit_record.h"

#include <string.h>

uint8_t record_memory[RECORD_MEMORY_BYTES] __attribute__((aligned(8)));
uint8_t record_result[RECORD_MEMORY_BYTES];
uint32_t record_index;
uint64_t record_key;
static bool revoked;

struct access record_accesses[RECORD_ACCESSES];
static unsigned access_count;
struct unit_send record_puts[RECORD_ACCESSES];

void record_operation_done(struct rawe_operation *operation, enum rawe_status status)
{
    struct access *access = (struct access *)(void *)operation;
    access->done++;
    access->status = status;
    assert_int_equal(access->done, 1);
}

/** The target's connection for long replies. */
static struct rawe_conn *target_bulk(struct rawe_peer *unused)
{
    struct unit_node *node = &net.node[1];
    return node->conn[RAWE_LANE_BULK] != NULL ? node->conn[RAWE_LANE_BULK]
                                              : unit_open(&net, 1, RAWE_LANE_BULK);
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
        assert_true(rawe_engine_before_deregister(engine(1), record_index));
        assert_true(rawe_handle_deregister(&net.node[1].handles, record_index, record_key));
        revoked = true;
    }
}

void record_start(bool batches)
{
    unit_peer_start(batches);
    unit_peer_connect_lane(RAWE_LANE_EXPRESS);
    net.node[1].conn[RAWE_LANE_EXPRESS]->long_lane = target_bulk;
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
        .to = (uint8_t *)&access->before,
    };
    return access;
}

struct access *record_get(uint64_t offset, uint64_t len_bytes)
{
    struct access *access = record_next(offset, len_bytes);
    access->operation.to = record_result + offset;
    assert_true(rawe_peer_operate(&peer, &access->operation));
    return access;
}

struct access *record_atomic(enum rawe_atomic what, uint64_t offset, uint64_t word_bytes,
                             uint64_t operand, uint64_t compare)
{
    struct access *access = record_next(offset, word_bytes);
    access->operation.atomic = (uint8_t)what;
    access->operation.operand = operand;
    access->operation.compare = compare;
    assert_true(rawe_peer_operate(&peer, &access->operation));
    return access;
}

bool record_put(unsigned number, void *data, size_t len_bytes, uint64_t offset)
{
    memset(&record_puts[number], 0, sizeof(record_puts[number]));
    struct rawe_send *send = &record_puts[number].send;
    send->done = unit_send_done;
    send->piece_count = 1;
    send->pieces[0] = (struct rawe_bytes){data, len_bytes};
    send->handle_index = record_index;
    send->handle_key = record_key;
    send->offset = offset;
    return rawe_peer_put_short(&peer, send);
}

void record_run(void)
{
    for (unsigned i = 0; i < 400; i++) {
        unit_run(&net, UNIT_MS, 50 * UNIT_US);
    }
    assert_true(unit_peer_drained());
    assert_int_equal(engine(0)->operations.in_use, 0);
    assert_null(engine(1)->serving.used);
}

void record_assert_got(const struct access *access, uint64_t offset, size_t len_bytes)
{
    assert_int_equal(access->done, 1);
    assert_int_equal(access->status, RAWE_STATUS_DONE);
    assert_memory_equal(record_result + offset, record_memory + offset, len_bytes);
}

bool record_lose_some(struct unit_net *unused, const struct net_frame *frame)
{
    struct rawe_header header;
    if (rawe_header_decode(&header, frame->bytes + RAWE_ETH_HEADER_BYTES,
                           frame->len_bytes - RAWE_ETH_HEADER_BYTES) != RAWE_DECODE_OK) {
        return true;
    }
    bool data = header.type == RAWE_FRAME_DATA || header.type == RAWE_FRAME_BULK;
    return !data || (header.flags & RAWE_FLAG_RESENT) != 0 || net.filter_count++ % 3 != 0;
}
