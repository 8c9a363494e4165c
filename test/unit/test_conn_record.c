/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Accesses to registered memory: short PUT, GET and atomic operations through a peer object.
 */
#include <string.h>

#include "net_message.h"
#include "rawe_conn.h"
#include "rawe_conn_record.h"
#include "unit_alloc.h"
#include "unit_peer.h"

#define MEMORY_BYTES 200000u
#define OPERATIONS 300u

static uint8_t memory[MEMORY_BYTES] __attribute__((aligned(8)));
static uint8_t result[MEMORY_BYTES];
static uint32_t index_of;
static uint64_t key_of;
static bool revoked;

struct access {
    struct rawe_operation operation; /**< first: cast back from it */
    unsigned done;
    enum rawe_status status;
    uint64_t before;
};
static struct access accesses[OPERATIONS];
static unsigned access_count;

static void operation_done(struct rawe_operation *operation, enum rawe_status status)
{
    struct access *access = (struct access *)(void *)operation;
    access->done++;
    access->status = status;
    assert_int_equal(access->done, 1);
}

/** The target's connection for long replies. */
static struct rawe_conn *target_bulk(struct rawe_peer *unused)
{
    (void)unused;
    struct unit_node *node = &net.node[1];
    return node->conn[RAWE_LANE_BULK] != NULL ? node->conn[RAWE_LANE_BULK]
                                              : unit_open(&net, 1, RAWE_LANE_BULK);
}

static void grant(unsigned access)
{
    unit_fill(memory, sizeof(memory), 1);
    memset(result, 0xEE, sizeof(result));
    memset(accesses, 0, sizeof(accesses));
    access_count = 0;
    revoked = false;
    assert_true(rawe_handle_register(&net.node[1].handles, memory, sizeof(memory), &index_of,
                                     &key_of, access));
}

static void revoke(void)
{
    if (!revoked) {
        assert_true(rawe_engine_before_deregister(engine(1), index_of));
        assert_true(rawe_handle_deregister(&net.node[1].handles, index_of, key_of));
        revoked = true;
    }
}

static void start(bool batches)
{
    unit_peer_start(batches);
    unit_peer_connect_lane(RAWE_LANE_EXPRESS);
    net.node[1].conn[RAWE_LANE_EXPRESS]->long_lane = target_bulk;
    grant(RAWE_ACCESS_READ | RAWE_ACCESS_WRITE | RAWE_ACCESS_ATOMIC);
}

static int set_up(void **state)
{
    (void)state;
    start(true);
    return 0;
}

static int tear_down(void **state)
{
    revoke();
    return unit_peer_tear_down(state);
}

static struct access *next_access(uint64_t offset, uint64_t len_bytes)
{
    struct access *access = &accesses[access_count++];
    access->operation = (struct rawe_operation){
        .done = operation_done,
        .handle_index = index_of,
        .handle_key = key_of,
        .offset = offset,
        .len_bytes = len_bytes,
        .to = (uint8_t *)&access->before,
    };
    return access;
}

static struct access *get(uint64_t offset, uint64_t len_bytes)
{
    struct access *access = next_access(offset, len_bytes);
    access->operation.to = result + offset;
    assert_true(rawe_peer_operate(&peer, &access->operation));
    return access;
}

static struct access *atomic(enum rawe_atomic what, uint64_t offset, uint64_t word_bytes,
                             uint64_t operand, uint64_t compare)
{
    struct access *access = next_access(offset, word_bytes);
    access->operation.atomic = (uint8_t)what;
    access->operation.operand = operand;
    access->operation.compare = compare;
    assert_true(rawe_peer_operate(&peer, &access->operation));
    return access;
}

static struct unit_send put_sends[OPERATIONS];

static void put_done(struct rawe_send *send, enum rawe_status status)
{
    struct unit_send *put = (struct unit_send *)(void *)send;
    put->done++;
    put->status = status;
    assert_int_equal(put->done, 1);
}

static bool put(unsigned number, void *data, size_t len_bytes, uint64_t offset)
{
    memset(&put_sends[number], 0, sizeof(put_sends[number]));
    struct rawe_send *send = &put_sends[number].send;
    send->done = put_done;
    send->piece_count = 1;
    send->pieces[0] = (struct rawe_bytes){data, len_bytes};
    send->handle_index = index_of;
    send->handle_key = key_of;
    send->offset = offset;
    return rawe_peer_put_short(&peer, send);
}

/** Let time pass until nothing is under way any more. */
static void run(void)
{
    for (unsigned i = 0; i < 400; i++) {
        unit_run(&net, UNIT_MS, 50 * UNIT_US);
    }
    assert_true(unit_peer_drained());
    assert_int_equal(engine(0)->operations.in_use, 0);
    assert_null(engine(1)->serving.used);
}

static void assert_got(const struct access *access, uint64_t offset, size_t len_bytes)
{
    assert_int_equal(access->done, 1);
    assert_int_equal(access->status, RAWE_STATUS_DONE);
    assert_memory_equal(result + offset, memory + offset, len_bytes);
}

/** A filter: every third data frame is lost, the first time it is sent. */
static bool lose_some(struct unit_net *unused, const struct net_frame *frame)
{
    struct rawe_header header;
    (void)unused;
    if (rawe_header_decode(&header, frame->bytes + RAWE_ETH_HEADER_BYTES,
                           frame->len_bytes - RAWE_ETH_HEADER_BYTES) != RAWE_DECODE_OK) {
        return true;
    }
    bool data = header.type == RAWE_FRAME_DATA || header.type == RAWE_FRAME_BULK;
    return !data || (header.flags & RAWE_FLAG_RESENT) != 0 || net.filter_count++ % 3 != 0;
}

static void get__short_ones_share_frames(void **state)
{
    (void)state;
    struct access *access[40];
    unsigned before = net.node[0].sent[RAWE_FRAME_DATA];
    for (unsigned i = 0; i < 40; i++) {
        access[i] = get(16 * i, 8);
    }
    run();
    for (unsigned i = 0; i < 40; i++) {
        assert_got(access[i], 16 * i, 8);
        assert_int_equal(result[16 * i + 8], 0xEE);
    }
    assert_true(net.node[0].sent[RAWE_FRAME_DATA] - before < 12);
    assert_int_equal(counters(0)->operations_sent, 40);
    assert_int_equal(counters(1)->operations_served, 40);
}

static void get__replies_to_the_requests_of_a_frame_share_one(void **state)
{
    (void)state;
    unsigned requests = net.node[0].sent[RAWE_FRAME_DATA];
    unsigned replies = net.node[1].sent[RAWE_FRAME_DATA];
    for (unsigned i = 0; i < 10; i++) {
        (void)get(16 * i, 8);
    }
    assert_int_equal(net.node[0].sent[RAWE_FRAME_DATA] - requests, 1); /* the first one */
    run();
    for (unsigned i = 0; i < 10; i++) {
        assert_got(&accesses[i], 16 * i, 8);
    }
    assert_int_equal(net.node[0].sent[RAWE_FRAME_DATA] - requests, 2);
    assert_true(net.node[1].sent[RAWE_FRAME_DATA] - replies <= 2);
}

static void get__long_ones_come_as_batches(void **state)
{
    (void)state;
    static const size_t lengths[] = {1,    100,   1400,  1412,  1413,   1414,  1438,
                                     1439, 1504,  4096,  9000,  64512,  64513, 70000,
                                     9001, 65536, 70001, 99999, 100000, 150000};
    for (unsigned i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
        memset(result, 0xEE, sizeof(result));
        struct access *access = get(3 * i, lengths[i]);
        run();
        assert_got(access, 3 * i, lengths[i]);
        assert_int_equal(result[3 * i + lengths[i]], 0xEE);
        assert_true(i == 0 || result[3 * i - 1] == 0xEE);
    }
    assert_true(counters(1)->batches_sent != 0);
}

static void get__long_ones_come_as_frames_where_batches_do_not_pass(void **state)
{
    (void)state;
    unit_peer_tear_down(state);
    start(false);
    struct access *one = get(7, 100000), *other = get(120000, 3000);
    run();
    assert_got(one, 7, 100000);
    assert_got(other, 120000, 3000);
    assert_int_equal(counters(1)->batches_sent, 0);
}

static void get__on_the_same_connection_where_there_is_no_other(void **state)
{
    (void)state;
    net.node[1].conn[RAWE_LANE_EXPRESS]->long_lane = NULL;
    struct access *access = get(7, 10000);
    run();
    assert_got(access, 7, 10000);
    assert_null(net.node[1].conn[RAWE_LANE_BULK]);
}

static void get__many_more_than_fit_the_window(void **state)
{
    (void)state;
    struct access *access[OPERATIONS];
    for (unsigned i = 0; i < OPERATIONS; i++) {
        access[i] = get(600 * i, 600);
    }
    run();
    for (unsigned i = 0; i < OPERATIONS; i++) {
        assert_got(access[i], 600 * i, 600);
    }
}

static void get__loss(void **state)
{
    (void)state;
    struct access *access[OPERATIONS];
    net.filter = lose_some;
    for (unsigned i = 0; i < OPERATIONS; i++) {
        access[i] = get(500 * i, i % 7 == 0 ? 3000 : 200);
    }
    run();
    for (unsigned i = 0; i < OPERATIONS; i++) {
        assert_got(access[i], 500 * i, i % 7 == 0 ? 3000 : 200);
    }
    assert_true(counters(0)->frames_resent + counters(1)->frames_resent != 0);
    assert_int_equal(counters(1)->operations_served, OPERATIONS);
}

static void get__is_served_while_the_target_computes(void **state)
{
    (void)state;
    rawe_engine_defer_begin(engine(1));
    struct access *one = get(0, 8), *other = get(100, 20000);
    run();
    assert_got(one, 0, 8);
    assert_got(other, 100, 20000);
    assert_false(rawe_engine_has_deferred(engine(1)));
    rawe_engine_defer_end(engine(1));
}

static void get__is_complete_when_the_initiator_is_back(void **state)
{
    (void)state;
    struct access *one = get(0, 8);
    rawe_engine_defer_begin(engine(0));
    unit_run(&net, 20 * UNIT_MS, 50 * UNIT_US);
    assert_int_equal(one->done, 0);
    rawe_engine_defer_end(engine(0));
    rawe_engine_deliver_deferred(engine(0));
    assert_got(one, 0, 8);
}

/** A GET of all its memory brings the target's bulk lane up; then replies stay on the wire. */
static void hold_replies(void)
{
    (void)get(0, 190000);
    run();
    memset(result, 0xEE, sizeof(result));
    net.node[0].paused = true;
}

static struct access *get_held(uint64_t offset, uint64_t len_bytes)
{
    struct access *access = get(offset, len_bytes);
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
    for (unsigned i = 0; i < sizeof(result); i++) {
        assert_true(result[i] == value || result[i] == 0xEE);
    }
}

static void get__memory_deregistered_while_the_reply_is_in_flight(void **state)
{
    (void)state;
    static uint8_t expected[60000];
    memcpy(expected, memory, sizeof(expected));
    hold_replies();
    const struct access *access = get_held(0, sizeof(expected));
    revoke();
    assert_int_equal(engine(1)->serving.copied_bytes, sizeof(expected));
    memset(memory, 0x11, sizeof(memory));
    lose_and_let_go();
    run();
    assert_int_equal(access->done, 1);
    assert_int_equal(access->status, RAWE_STATUS_DONE);
    assert_memory_equal(result, expected, sizeof(expected));
    assert_int_equal(engine(1)->serving.copied_bytes, 0);
}

static void get__memory_deregistered_before_the_reply_is_sent(void **state)
{
    (void)state;
    const struct access *access = get(0, 60000);
    net.filter = drop_all; /* the bulk lane is asked for in vain */
    unit_run(&net, UNIT_MS, 50 * UNIT_US);
    assert_non_null(engine(1)->serving.used);
    revoke();
    assert_int_equal(engine(1)->serving.copied_bytes, 0);
    net.filter = NULL;
    run();
    assert_refused(access);
    assert_nothing_read(0xEE);
}

static void get__memory_deregistered_in_the_midst_of_a_reply(void **state)
{
    (void)state;
    memset(memory, 0x22, sizeof(memory));
    hold_replies();
    const struct access *access = get_held(0, 190000);
    const struct access *behind = get_held(0, 100000);
    const struct rawe_conn *bulk = net.node[1].conn[RAWE_LANE_BULK];
    size_t in_flight_bytes = (size_t)bulk->sendwin.in_flight * bulk->payload_max_bytes;
    revoke();
    /* However much was asked for. */
    assert_in_range(engine(1)->serving.copied_bytes, 1, in_flight_bytes);
    memset(memory, 0x11, sizeof(memory));
    lose_and_let_go();
    run();
    assert_refused(access);
    assert_refused(behind);
    assert_nothing_read(0x22);
    assert_int_equal(engine(1)->serving.copied_bytes, 0);
    assert_int_equal(bulk->queue.bytes, 0);
    assert_int_equal(bulk->queue.count, 0);
}

static void get__memory_stays_registered_without_memory_for_a_copy(void **state)
{
    (void)state;
    memset(memory, 0x22, sizeof(memory));
    hold_replies();
    const struct access *access = get_held(0, 190000);
    for (int allowed = 0; allowed < 2; allowed++) {
        unit_allocations_left = allowed;
        assert_false(rawe_engine_before_deregister(engine(1), index_of));
        unit_allocations_left = -1;
    }
    revoke();
    memset(memory, 0x11, sizeof(memory));
    lose_and_let_go();
    run();
    assert_refused(access);
    assert_nothing_read(0x22);
}

static void get__memory_gone_when_the_target_finalizes(void **state)
{
    (void)state;
    for (int allowed = -1; allowed <= 0; allowed++) {
        unit_peer_tear_down(state);
        start(true);
        hold_replies();
        const struct access *access = get_held(0, 190000);
        unit_allocations_left = allowed;
        rawe_engine_finalizing(engine(1));
        unit_allocations_left = -1;
        memset(memory, 0x11, sizeof(memory));
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

static void get__refused(void **state)
{
    (void)state;
    static const struct {
        unsigned access;
        uint64_t offset, len_bytes, key_xor;
        enum rawe_refusal refusal;
    } cases[] = {
        {RAWE_ACCESS_WRITE | RAWE_ACCESS_ATOMIC, 0, 8, 0, RAWE_REFUSAL_ACCESS},
        {RAWE_ACCESS_READ, MEMORY_BYTES, 1, 0, RAWE_REFUSAL_BOUNDS},
        {RAWE_ACCESS_READ, MEMORY_BYTES - 7, 8, 0, RAWE_REFUSAL_BOUNDS},
        {RAWE_ACCESS_READ, 8, UINT64_MAX - 4, 0, RAWE_REFUSAL_BOUNDS},
        {RAWE_ACCESS_READ, 0, 8, 1, RAWE_REFUSAL_UNKNOWN},
        {RAWE_ACCESS_READ, MEMORY_BYTES - 8, 8, 0, RAWE_REFUSAL_NONE},
    };
    for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        revoke();
        grant(cases[i].access);
        struct access *access = next_access(cases[i].offset, cases[i].len_bytes);
        access->operation.handle_key ^= cases[i].key_xor;
        access->operation.to = result;
        assert_true(rawe_peer_operate(&peer, &access->operation));
        run();
        bool allowed = cases[i].refusal == RAWE_REFUSAL_NONE;
        assert_int_equal(access->done, 1);
        assert_int_equal(access->status, allowed ? RAWE_STATUS_DONE : RAWE_STATUS_FAILED);
        assert_int_equal(access->operation.refusal, cases[i].refusal);
        assert_int_equal(result[0] == 0xEE, !allowed);
    }
    assert_int_equal(counters(1)->operations_refused, 5);
}

static void atomic__each_operation(void **state)
{
    (void)state;
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
        memcpy(memory + 16, words, sizeof(words));
        const struct access *access =
            atomic(cases[i].what, 24, 8, cases[i].operand, cases[i].compare);
        run();
        assert_int_equal(access->done, 1);
        assert_int_equal(access->status, RAWE_STATUS_DONE);
        assert_true(access->before == begin);
        memcpy(words, memory + 16, sizeof(words));
        assert_true(words[0] == 1 && words[2] == 2);
        assert_true(words[1] == after);
    }
}

static void atomic__of_four_bytes(void **state)
{
    (void)state;
    uint32_t words[3] = {UINT32_MAX, UINT32_MAX, UINT32_MAX};
    memcpy(memory + 4, words, sizeof(words));
    const struct access *add = atomic(RAWE_ATOMIC_ADD, 8, 4, 3, 0);
    run();
    memcpy(words, memory + 4, sizeof(words));
    assert_int_equal(words[0], UINT32_MAX);
    assert_int_equal(words[1], 2);
    assert_int_equal(words[2], UINT32_MAX);
    assert_true(add->before == UINT32_MAX);
}

static void atomic__each_once_whatever_is_lost(void **state)
{
    (void)state;
    bool seen[OPERATIONS] = {false};
    memset(memory, 0, 8);
    net.filter = lose_some;
    for (unsigned i = 0; i < OPERATIONS; i++) {
        (void)atomic(RAWE_ATOMIC_ADD, 0, 8, 1, 0);
    }
    run();
    for (unsigned i = 0; i < OPERATIONS; i++) {
        assert_int_equal(accesses[i].done, 1);
        assert_true(accesses[i].before < OPERATIONS);
        assert_false(seen[accesses[i].before]);
        seen[accesses[i].before] = true;
    }
    uint64_t sum;
    memcpy(&sum, memory, sizeof(sum));
    assert_int_equal(sum, OPERATIONS);
    assert_true(counters(0)->frames_resent != 0);
}

static void atomic__refused(void **state)
{
    (void)state;
    struct access *access = atomic(RAWE_ATOMIC_ADD, 4, 8, 1, 0);
    run();
    assert_int_equal(access->operation.refusal, RAWE_REFUSAL_ALIGNMENT);
    access = atomic(RAWE_ATOMIC_ADD, 0, 2, 1, 0);
    run();
    assert_int_equal(access->operation.refusal, RAWE_REFUSAL_OPERATION);
    access = atomic(99, 0, 8, 1, 0);
    run();
    assert_int_equal(access->operation.refusal, RAWE_REFUSAL_OPERATION);
    access = atomic(RAWE_ATOMIC_ADD, MEMORY_BYTES - 4, 8, 1, 0);
    run();
    assert_int_equal(access->operation.refusal, RAWE_REFUSAL_BOUNDS);
    revoke();
    grant(RAWE_ACCESS_READ | RAWE_ACCESS_WRITE);
    access = atomic(RAWE_ATOMIC_ADD, 0, 8, 1, 0);
    run();
    assert_int_equal(access->operation.refusal, RAWE_REFUSAL_ACCESS);
    assert_int_equal(access->status, RAWE_STATUS_FAILED);
    assert_int_equal(net_content_compare(memory, net_content_seed(0, 1), 0, sizeof(memory)),
                     sizeof(memory));
}

static void atomic__leaves_at_once(void **state)
{
    (void)state;
    uint64_t word = 5;
    unsigned before = net.node[0].sent[RAWE_FRAME_DATA];
    const struct rawe_conn *conn = unit_peer_end(RAWE_LANE_EXPRESS);
    for (unsigned i = 0; i < 3; i++) {
        assert_true(put(i, &word, 8, 8 * i));
    }
    assert_int_equal(net.node[0].sent[RAWE_FRAME_DATA] - before, 1);
    net.now_ns += 10 * UNIT_US;
    (void)atomic(RAWE_ATOMIC_ADD, 0, 8, 1, 0); /* and what was held back with it */
    assert_int_equal(net.node[0].sent[RAWE_FRAME_DATA] - before, 2);
    assert_true(rawe_sendwin_at(&conn->sendwin, conn->sendwin.next - 1)->first.oldest_ns ==
                net.now_ns);
    (void)atomic(RAWE_ATOMIC_ADD, 0, 8, 1, 0);
    assert_int_equal(net.node[0].sent[RAWE_FRAME_DATA] - before, 3);
    run();
    assert_int_equal(accesses[0].before, 5);
    assert_int_equal(accesses[1].before, 6);
}

static void put_short__gather_behind_the_first(void **state)
{
    (void)state;
    uint64_t word = 5;
    unsigned before = net.node[0].sent[RAWE_FRAME_DATA];
    unsigned acknowledgements = net.node[1].sent[RAWE_FRAME_ACK];
    for (unsigned i = 0; i < 10; i++) {
        assert_true(put(i, &word, 8, 8 * i));
        assert_int_equal(net.node[0].sent[RAWE_FRAME_DATA] - before, 1);
    }
    run();
    for (unsigned i = 0; i < 10; i++) {
        assert_int_equal(put_sends[i].done, 1);
    }
    assert_int_equal(net.node[0].sent[RAWE_FRAME_DATA] - before, 2);
    assert_true(net.node[1].sent[RAWE_FRAME_ACK] - acknowledgements <= 2);
}

static void put_short__is_complete_when_acknowledged(void **state)
{
    (void)state;
    uint64_t words[64];
    for (unsigned i = 0; i < 64; i++) {
        words[i] = i * 0x0101010101010101;
        assert_true(put(i, &words[i], 8, 8 * i));
        assert_int_equal(put_sends[i].done, 0);
        words[i] ^= UINT64_MAX; /* it has been copied */
    }
    unsigned frames = net.node[0].sent[RAWE_FRAME_DATA];
    run();
    for (unsigned i = 0; i < 64; i++) {
        uint64_t word;
        memcpy(&word, memory + 8 * i, sizeof(word));
        assert_true(word == i * 0x0101010101010101);
        assert_int_equal(put_sends[i].done, 1);
        assert_int_equal(put_sends[i].status, RAWE_STATUS_DONE);
    }
    assert_true(net.node[0].sent[RAWE_FRAME_DATA] - frames < 8);
    assert_int_equal(counters(0)->puts_sent, 64);
    assert_null(net.node[0].conn[RAWE_LANE_BULK]);
}

static void put_short__not_when_it_fits_no_frame(void **state)
{
    (void)state;
    uint32_t most = unit_peer_end(RAWE_LANE_EXPRESS)->payload_max_bytes - RAWE_FRAGMENT_PUT_BYTES;
    most = most < engine(0)->config.copy_max_bytes ? most : engine(0)->config.copy_max_bytes;
    assert_false(put(0, result, most + 1, 0));
    assert_true(put(0, result, most, 0));
    run();
    assert_int_equal(put_sends[0].done, 1);
}

static void put_short__loss_and_a_full_window(void **state)
{
    (void)state;
    static uint8_t data[OPERATIONS * 600];
    unit_fill(data, sizeof(data), 9);
    net.filter = lose_some;
    for (unsigned i = 0; i < OPERATIONS; i++) {
        assert_true(put(i, data + 600 * i, 600, 600 * i));
    }
    run();
    for (unsigned i = 0; i < OPERATIONS; i++) {
        assert_int_equal(put_sends[i].done, 1);
        assert_int_equal(put_sends[i].status, RAWE_STATUS_DONE);
    }
    assert_memory_equal(memory, data, sizeof(data));
}

static void records__do_not_share_frames_with_messages(void **state)
{
    (void)state;
    uint64_t word = 5;
    struct access *access[10];
    for (unsigned i = 0; i < 10; i++) {
        assert_int_equal(unit_peer_send_copy(50), RAWE_STATUS_DONE);
        access[i] = get(8 * i, 8);
        assert_int_equal(unit_peer_send_copy(50), RAWE_STATUS_DONE);
        assert_true(put(i, &word, 8, 1000 + 8 * i));
    }
    run();
    assert_int_equal(net.node[1].message_count, 20);
    for (unsigned i = 0; i < 10; i++) {
        assert_got(access[i], 8 * i, 8);
        assert_int_equal(put_sends[i].done, 1);
    }
    assert_int_equal(counters(1)->dropped_length, 0);
}

static void records__fail_with_their_connection(void **state)
{
    (void)state;
    uint64_t word = 5;
    net.filter = drop_all;
    for (unsigned i = 0; i < 100; i++) {
        (void)get(1500 * i, 8);
        assert_true(put(i, &word, 8, 8 * i));
    }
    (void)get(0, 10000);
    unit_close(&net, 0, RAWE_LANE_EXPRESS);
    peer.conn[RAWE_LANE_EXPRESS] = NULL;
    for (unsigned i = 0; i < 100; i++) {
        assert_int_equal(accesses[i].done, 1);
        assert_int_equal(accesses[i].status, RAWE_STATUS_FAILED);
        assert_int_equal(accesses[i].operation.refusal, RAWE_REFUSAL_NONE);
        assert_int_equal(put_sends[i].done, 1);
        assert_int_equal(put_sends[i].status, RAWE_STATUS_FAILED);
    }
    assert_int_equal(engine(0)->operations.in_use, 0);
}

static void records__of_a_failed_connection_fail_when_the_owner_is_back(void **state)
{
    (void)state;
    uint64_t word = 5;
    unit_peer_end(RAWE_LANE_EXPRESS)->handshake.state = RAWE_CONN_FAILED;
    rawe_engine_defer_begin(engine(0)); /* who sends is not the owner: what is done has to wait */
    const struct access *access = get(0, 8);
    assert_true(put(0, &word, 8, 0));
    assert_int_equal(access->done, 0);
    assert_int_equal(put_sends[0].done, 0);
    rawe_engine_defer_end(engine(0));
    rawe_engine_deliver_deferred(engine(0));
    assert_int_equal(access->done, 1);
    assert_int_equal(access->status, RAWE_STATUS_FAILED);
    assert_int_equal(access->operation.refusal, RAWE_REFUSAL_NONE);
    assert_int_equal(put_sends[0].done, 1);
    assert_int_equal(put_sends[0].status, RAWE_STATUS_FAILED);
    assert_int_equal(engine(0)->operations.in_use, 0);
}

/** Hand node 0 a frame of node 1's, made up. */
static void forge(struct rawe_header header, const uint8_t *payload, size_t payload_bytes)
{
    struct net_frame *frame =
        unit_forge(&net, 1, RAWE_LANE_EXPRESS, header, payload, payload_bytes);
    unit_receive(&net, frame);
    net_frame_free(frame);
}

static void operate__target_dies_without_a_reply(void **state)
{
    (void)state;
    struct access *access = get(0, 8);
    unit_wire_clear(&net);
    forge((struct rawe_header){.type = RAWE_FRAME_ACK, .acknowledgement = 1}, NULL, 0);
    net.node[1].paused = true;
    unit_run(&net, 2 * net.config.liveness.peer_timeout_ns, UNIT_MS);
    assert_int_equal(access->done, 1);
    assert_int_equal(access->status, RAWE_STATUS_FAILED);
    assert_int_equal(net.node[0].failed_calls, 1);
}

static void operate__target_closes_without_a_reply(void **state)
{
    (void)state;
    struct access *access = get(0, 8);
    unit_wire_clear(&net);
    forge((struct rawe_header){.type = RAWE_FRAME_CLOSE, .acknowledgement = 1}, NULL, 0);
    assert_int_equal(access->done, 1);
    assert_int_equal(access->status, RAWE_STATUS_FAILED);
    assert_int_equal(net.node[0].lost_calls, 1); /* somebody has to hear of it */
}

static void get__short_replies_never_take_the_other_lane(void **state)
{
    (void)state;
    engine(1)->config.copy_max_bytes = 0;
    const struct access *access = get(0, RAWE_OPERATION_SHORT_BYTES);
    run();
    assert_got(access, 0, RAWE_OPERATION_SHORT_BYTES);
    assert_null(net.node[1].conn[RAWE_LANE_BULK]);
    access = get(100, RAWE_OPERATION_SHORT_BYTES + 1);
    run();
    assert_got(access, 100, RAWE_OPERATION_SHORT_BYTES + 1);
    assert_non_null(net.node[1].conn[RAWE_LANE_BULK]);
}

/** The target's bulk lane ends; that is known before the reply comes. */
static struct access *get_while_bulk_ends(uint64_t len_bytes)
{
    unit_peer_connect_lane(RAWE_LANE_BULK);
    struct access *access = get(0, len_bytes);
    unit_close(&net, 1, RAWE_LANE_BULK);
    run();
    return access;
}

static void operate__goes_on_when_the_other_lane_begins_anew(void **state)
{
    (void)state;
    const struct access *access = get_while_bulk_ends(8);
    assert_got(access, 0, 8);
    assert_int_equal(net.node[0].lost_calls, 0);
}

static void operate__fails_with_the_lane_that_its_reply_may_take(void **state)
{
    (void)state;
    const struct access *access = get_while_bulk_ends(10000);
    assert_int_equal(access->done, 1);
    assert_int_equal(access->status, RAWE_STATUS_FAILED);
    assert_int_equal(net.node[0].lost_calls, 1);
}

static void operate__goes_on_when_the_lane_that_its_reply_takes_had_ended_before(void **state)
{
    (void)state;
    unit_peer_connect_lane(RAWE_LANE_BULK);
    unit_close(&net, 1, RAWE_LANE_BULK);
    unit_settle(&net);
    assert_int_equal(unit_peer_end(RAWE_LANE_BULK)->handshake.state, RAWE_CONN_PEER_CLOSED);
    const struct access *access = get(0, 10000);
    run();
    assert_got(access, 0, 10000);
    assert_int_equal(net.node[0].lost_calls, 0);
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
    rawe_request_encode(out, &(struct rawe_request){.operand = sizeof(memory)});
    return (size_t)(out - payload) + RAWE_REQUEST_BYTES;
}

/** rawe_operation.done: makes progress, and gets a request by it. */
static void done_in_the_midst(struct rawe_operation *operation, enum rawe_status status)
{
    uint8_t payload[100];
    operation_done(operation, status);
    rawe_engine_defer_begin(engine(0));
    struct rawe_header header = {.type = RAWE_FRAME_DATA};
    header.sequence = peer.conn[RAWE_LANE_EXPRESS]->recvwin.acktr->next;

    forge(header, payload, add_get(payload, 0));
    rawe_engine_defer_end(engine(0));
}

static void get__another_comes_while_a_callback_makes_progress(void **state)
{
    (void)state;
    uint8_t payload[200];
    unit_peer_connect_lane(RAWE_LANE_BULK); /* where the replies go */
    assert_true(rawe_handle_register(&net.node[0].handles, memory, sizeof(memory), &own_index,
                                     &own_key, RAWE_ACCESS_READ));
    struct access *access = get(0, 8);
    access->operation.done = done_in_the_midst;
    unit_wire_clear(&net);
    size_t bytes =
        rawe_fragment_encode(payload, &(struct rawe_fragment){.kind = RAWE_FRAGMENT_REPLY,
                                                              .data_bytes = 8,
                                                              .id = access->operation.index,
                                                              .key = access->operation.key});
    memset(payload + bytes, 0, 8);
    struct rawe_header header = {.type = RAWE_FRAME_DATA};
    header.sequence = peer.conn[RAWE_LANE_EXPRESS]->recvwin.acktr->next;

    forge(header, payload, add_get(payload, bytes + 8));
    assert_int_equal(access->done, 1);
    assert_int_equal(counters(0)->operations_served, 2);
    assert_int_equal(engine(0)->serving.reserved, 0);
    assert_true(rawe_handle_deregister(&net.node[0].handles, own_index, own_key));
}

static void records__are_put_off_where_nothing_may_be_held_back(void **state)
{
    (void)state;
    uint64_t word = 5;
    engine(0)->config.coalesce_from_frames = 0;
    net.node[0].link_room = 3;
    for (unsigned i = 0; i < 10; i++) {
        (void)get(8 * i, 8);
        assert_true(put(i, &word, 8, 1000 + 8 * i));
    }
    net.node[0].link_room = UINT32_MAX;
    run();
    for (unsigned i = 0; i < 10; i++) {
        assert_got(&accesses[i], 8 * i, 8);
        assert_int_equal(put_sends[i].done, 1);
    }
    assert_int_equal(counters(0)->puts_sent, 10);
}

static void operate__at_the_limit(void **state)
{
    (void)state;
    static struct access many[RAWE_OPERATIONS_MAX + 1];
    net.filter = drop_all;
    for (unsigned i = 0; i <= RAWE_OPERATIONS_MAX; i++) {
        many[i].operation = (struct rawe_operation){
            .done = operation_done,
            .handle_index = index_of,
            .handle_key = key_of,
            .len_bytes = 8,
            .to = (uint8_t *)&many[i].before,
        };
        assert_int_equal(rawe_peer_operate(&peer, &many[i].operation), i < RAWE_OPERATIONS_MAX);
    }
    net.filter = NULL;
    run();
    for (unsigned i = 0; i < RAWE_OPERATIONS_MAX; i++) {
        assert_int_equal(many[i].status, RAWE_STATUS_DONE);
        assert_int_equal(many[i].done, 1);
    }
    assert_int_equal(many[RAWE_OPERATIONS_MAX].done, 0);
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(get__short_ones_share_frames),
        TEST(get__replies_to_the_requests_of_a_frame_share_one),
        TEST(get__long_ones_come_as_batches),
        TEST(get__long_ones_come_as_frames_where_batches_do_not_pass),
        TEST(get__on_the_same_connection_where_there_is_no_other),
        TEST(get__many_more_than_fit_the_window),
        TEST(get__loss),
        TEST(get__is_served_while_the_target_computes),
        TEST(get__is_complete_when_the_initiator_is_back),
        TEST(get__memory_deregistered_while_the_reply_is_in_flight),
        TEST(get__memory_deregistered_before_the_reply_is_sent),
        TEST(get__memory_deregistered_in_the_midst_of_a_reply),
        TEST(get__memory_stays_registered_without_memory_for_a_copy),
        TEST(get__memory_gone_when_the_target_finalizes),
        TEST(get__short_replies_never_take_the_other_lane),
        TEST(operate__goes_on_when_the_other_lane_begins_anew),
        TEST(operate__fails_with_the_lane_that_its_reply_may_take),
        TEST(operate__goes_on_when_the_lane_that_its_reply_takes_had_ended_before),
        TEST(operate__target_dies_without_a_reply),
        TEST(operate__target_closes_without_a_reply),
        TEST(get__another_comes_while_a_callback_makes_progress),
        TEST(get__refused),
        TEST(atomic__each_operation),
        TEST(atomic__of_four_bytes),
        TEST(atomic__each_once_whatever_is_lost),
        TEST(atomic__refused),
        TEST(atomic__leaves_at_once),
        TEST(put_short__gather_behind_the_first),
        TEST(put_short__is_complete_when_acknowledged),
        TEST(put_short__not_when_it_fits_no_frame),
        TEST(put_short__loss_and_a_full_window),
        TEST(records__do_not_share_frames_with_messages),
        TEST(records__fail_with_their_connection),
        TEST(records__of_a_failed_connection_fail_when_the_owner_is_back),
        TEST(records__are_put_off_where_nothing_may_be_held_back),
        TEST(operate__at_the_limit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
