/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Tests of accesses to registered memory (records, GET, PUT and atomic operations), and of memory
 * that is deregistered during GETs. Node 0's peer object accesses node 1's memory.
 */
#include "net_message.h"
#include "unit_alloc.h"
#include "unit_peer.h"

#include <string.h>

#include "conn/rawe_conn_record.h"
#include "conn/rawe_conn_send.h"

#define RECORD_MEMORY_BYTES 200000u
#define RECORD_ACCESSES 300u

/** A PUT, GET or atomic operation, and its outcome. */
struct access {
    struct rawe_operation operation; /**< must be first: cast back from it */
    unsigned done;
    enum rawe_status status;
    uint64_t before; /**< atomic: previous value of the word */
};

static uint8_t record_memory[RECORD_MEMORY_BYTES] __attribute__((aligned(8)));
/** Target of GETs, at the same offsets as in the source; initially 0xEE. */
static uint8_t record_result[RECORD_MEMORY_BYTES];
static struct unit_memory record_known;
static bool revoked;

/** Accesses made since the memory was registered, in order. */
static struct access record_accesses[RECORD_ACCESSES];
static unsigned access_count;

/** rawe_operation.done of a struct access. */
static void record_operation_done(struct rawe_operation *operation, enum rawe_status status)
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

/**
 * Refill the memory, register it for `access` (bits of RAWE_ACCESS_), and forget all accesses.
 */
static void record_grant(unsigned access)
{
    unit_fill(record_memory, sizeof(record_memory), 1);
    memset(record_result, 0xEE, sizeof(record_result));
    memset(record_accesses, 0, sizeof(record_accesses));
    access_count = 0;
    revoked = false;
    record_known = unit_register_memory(&net, 1, record_memory, sizeof(record_memory), access);
}

/** Deregister the memory if it is registered. */
static void record_revoke(void)
{
    if (!revoked) {
        rawe_conn_serve_forget(engine(1), record_known.index);
        assert_true(
            rawe_handle_deregister(&net.node[1].handles, record_known.index, record_known.key));
        revoked = true;
    }
}

/** Start a peer, with `batches` if true, connect its express lane and register its memory. */
static void record_start(bool batches)
{
    unit_peer_start(batches);
    unit_peer_connect_lane(RAWE_LANE_EXPRESS);
    engine(1)->callbacks.long_reply = long_reply;
    record_grant(RAWE_ACCESS_READ | RAWE_ACCESS_WRITE | RAWE_ACCESS_ATOMIC);
}

/** Set up the fixture with batches; record_tear_down deregisters the memory. */
static void record_set_up(void)
{
    record_start(true);
}

static void record_tear_down(void)
{
    record_revoke();
    unit_tear_down();
}

/** Prepare the next access: a GET that the caller may change before starting it. */
static struct access *record_next(uint64_t offset, uint64_t len_bytes)
{
    struct access *access = &record_accesses[access_count++];
    access->operation = (struct rawe_operation){
        .done = record_operation_done,
        .handle_index = record_known.index,
        .handle_key = record_known.key,
        .offset = offset,
        .len_bytes = len_bytes,
        .local = (uint8_t *)&access->before,
        .kind = RAWE_FRAGMENT_GET,
    };
    return access;
}

/** Start a GET. */
static struct access *record_get(uint64_t offset, uint64_t len_bytes)
{
    struct access *access = record_next(offset, len_bytes);
    access->operation.local = record_result + offset;
    assert_true(rawe_peer_operate(&peer, &access->operation));
    return access;
}

/** Run for 400 ms, then assert that nothing is outstanding. */
static void record_run(void)
{
    for (unsigned i = 0; i < 400; i++) {
        unit_run(&net, UNIT_MS, 50 * UNIT_US);
    }
    assert_true(unit_peer_drained());
    assert_int_equal(engine(0)->operations.in_use, 0);
    assert_true(rawe_list_empty(&engine(1)->serving.used));
}

static void record_assert_ended(const struct access *access, enum rawe_status status)
{
    assert_int_equal(access->done, 1);
    assert_int_equal(access->status, status);
}

/** Short PUTs, indexed by number. */
static struct access record_puts[RECORD_ACCESSES];

/** Start an atomic operation. */
static struct access *record_atomic(enum rawe_atomic what, uint64_t offset, uint64_t word_bytes,
                                    uint64_t operand, uint64_t compare)
{
    struct access *access = record_next(offset, word_bytes);
    access->operation.kind = RAWE_FRAGMENT_ATOMIC;
    access->operation.atomic = (uint8_t)what;
    access->operation.operand = operand;
    access->operation.compare = compare;
    assert_true(rawe_peer_operate(&peer, &access->operation));
    return access;
}

/** Start short PUT `number`. Returns false if the data is too long. */
static bool record_put(unsigned number, void *data, size_t len_bytes, uint64_t offset)
{
    record_puts[number] = (struct access){.operation = {
                                              .done = record_operation_done,
                                              .handle_index = record_known.index,
                                              .handle_key = record_known.key,
                                              .offset = offset,
                                              .len_bytes = len_bytes,
                                              .local = data,
                                              .kind = RAWE_FRAGMENT_PUT,
                                          }};
    return rawe_peer_operate(&peer, &record_puts[number].operation);
}

/** Assert that a GET is complete and returned the target's bytes. */
static void record_assert_got(const struct access *access, uint64_t offset, size_t len_bytes)
{
    record_assert_ended(access, RAWE_STATUS_DONE);
    assert_memory_equal(record_result + offset, record_memory + offset, len_bytes);
}

/** Assert that the first `count` GETs, at multiples of `step_bytes`, are complete. */
static void record_assert_all_got(unsigned count, uint64_t step_bytes, size_t len_bytes)
{
    for (unsigned i = 0; i < count; i++) {
        record_assert_got(&record_accesses[i], step_bytes * i, len_bytes);
    }
}

static void record_assert_puts_ended(unsigned count, enum rawe_status status)
{
    for (unsigned i = 0; i < count; i++) {
        assert_int_equal(record_puts[i].done, 1);
        assert_int_equal(record_puts[i].status, status);
    }
}

/** Start short PUTs to `count` consecutive words from `offset` on. */
static void record_put_words(unsigned count, uint64_t offset)
{
    static uint64_t word = 5;
    for (unsigned i = 0; i < count; i++) {
        assert_true(record_put(i, &word, sizeof(word), offset + sizeof(word) * i));
    }
}

FIXTURE(record_set_up, record_tear_down);

TEST(operate__at_the_limit)
{
    static struct access many[RAWE_OPERATIONS_MAX];
    const unsigned most = RAWE_OPERATIONS_MAX / 2; /* for one peer */
    const struct access *next = record_next(0, 8);
    net.filter = drop_all;
    for (unsigned i = 0; i < RAWE_OPERATIONS_MAX; i++) {
        many[i] = *next;
        assert_int_equal(rawe_peer_operate(&peer, &many[i].operation), i < most);
    }
    net.filter = NULL;
    record_run();
    for (unsigned i = 0; i < most; i++) {
        record_assert_ended(&many[i], RAWE_STATUS_DONE);
    }
    assert_int_equal(many[most].done, 0);
}

TEST(records__of_a_failed_connection_fail_when_the_owner_is_back)
{
    net.node[0].conn[RAWE_LANE_EXPRESS]->handshake.state = RAWE_CONN_FAILED;
    rawe_engine_defer_begin(engine(0)); /* as in another thread: completions are deferred */
    const struct access *access = record_get(0, 8);
    record_put_words(1, 0);
    assert_int_equal(access->done, 0);
    assert_int_equal(record_puts[0].done, 0);
    rawe_engine_defer_end(engine(0));
    rawe_engine_deliver_deferred(engine(0));
    record_assert_ended(access, RAWE_STATUS_FAILED);
    assert_int_equal(access->operation.refusal, RAWE_REFUSAL_NONE);
    record_assert_puts_ended(1, RAWE_STATUS_FAILED);
    assert_int_equal(engine(0)->operations.in_use, 0);
}

TEST(get__replies_to_the_requests_of_a_frame_share_one)
{
    unsigned requests = net.node[0].sent[RAWE_FRAME_DATA];
    unsigned replies = net.node[1].sent[RAWE_FRAME_DATA];
    for (unsigned i = 0; i < 10; i++) {
        (void)record_get(16 * i, 8);
    }
    assert_int_equal(net.node[0].sent[RAWE_FRAME_DATA] - requests, 1); /* carries the first GET */
    record_run();
    record_assert_all_got(10, 16, 8);
    assert_int_equal(net.node[0].sent[RAWE_FRAME_DATA] - requests, 2);
    assert_true(net.node[1].sent[RAWE_FRAME_DATA] - replies <= 2);
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

/** rawe_output.transmit of a target whose program writes to the memory while frames are sent. */
static unsigned transmit_amid_writes(void *context, const struct rawe_frame *frames, unsigned count)
{
    static unsigned seed = 1;
    unit_fill(record_memory, sizeof(record_memory), ++seed);
    return net_link_transmit(context, frames, count);
}

/** Set up the fixture without batches. */
static void record_set_up_plain(void)
{
    record_start(false);
}

static const struct unit_fixture plain = {record_set_up_plain, record_tear_down};

TEST_WITH(plain, get__of_memory_that_the_program_writes_to)
{
    engine(1)->output.transmit = transmit_amid_writes;
    const struct access *access = record_get(0, sizeof(record_memory));
    record_run();
    record_assert_ended(access, RAWE_STATUS_DONE);
    assert_int_equal(counters(0)->dropped_checksum, 0);
    assert_int_equal(counters(1)->frames_resent, 0);
}

/** Hand node 0 a forged data frame with node 1's next sequence number. */
static void forge_data(const uint8_t *payload, size_t payload_bytes)
{
    unit_receive_forged(
        &net, 1, RAWE_LANE_EXPRESS,
        (struct rawe_header){.type = RAWE_FRAME_DATA, .sequence = end(0)->rx.window.next}, payload,
        payload_bytes);
}

static struct unit_memory own;

/** Append a GET of node 0's memory to a payload. Returns the payload's new length. */
static size_t add_get(uint8_t *payload, size_t at, uint64_t len_bytes)
{
    uint8_t *out = payload + at;
    out += rawe_fragment_encode(out, &(struct rawe_fragment){.kind = RAWE_FRAGMENT_GET,
                                                             .data_bytes = RAWE_REQUEST_BYTES,
                                                             .id = own.index,
                                                             .key = own.key});
    rawe_request_encode(out, &(struct rawe_request){.operand = len_bytes});
    return (size_t)(out - payload) + RAWE_REQUEST_BYTES;
}

/** rawe_operation.done: makes progress, and so receives another GET. */
static void done_in_the_midst(struct rawe_operation *operation, enum rawe_status status)
{
    uint8_t payload[100];
    record_operation_done(operation, status);
    rawe_engine_defer_begin(engine(0));
    forge_data(payload, add_get(payload, 0, sizeof(record_memory)));
    rawe_engine_defer_end(engine(0));
}

TEST(get__another_comes_while_a_callback_makes_progress)
{
    uint8_t payload[200];
    unit_peer_connect_lane(RAWE_LANE_BULK); /* carries the replies */
    own = unit_register_memory(&net, 0, record_memory, sizeof(record_memory), RAWE_ACCESS_READ);
    struct access *access = record_get(0, 8);
    access->operation.done = done_in_the_midst;
    net_queue_clear(&net.queue);
    size_t bytes =
        rawe_fragment_encode(payload, &(struct rawe_fragment){.kind = RAWE_FRAGMENT_REPLY,
                                                              .data_bytes = 8,
                                                              .id = access->operation.index,
                                                              .key = access->operation.key});
    memset(payload + bytes, 0, 8);
    forge_data(payload, add_get(payload, bytes + 8, sizeof(record_memory)));
    assert_int_equal(access->done, 1);
    assert_int_equal(counters(0)->operations_served, 2);
    assert_int_equal(engine(0)->serving.reserved, 0);
    assert_true(rawe_handle_deregister(&net.node[0].handles, own.index, own.key));
}

/** Entries that were reserved when node 0 last sent a frame. */
static unsigned reserved_amid;

/** rawe_output.transmit of node 0. */
static unsigned transmit_noting_reserved(void *context, const struct rawe_frame *frames,
                                         unsigned count)
{
    reserved_amid = engine(0)->serving.reserved;
    return net_link_transmit(context, frames, count);
}

/** A reply that does not join the held-back frame sends it first, and may so call back. */
TEST(get__an_entry_stays_reserved_until_its_reply_needs_it_or_not)
{
    uint8_t payload[100];
    own = unit_register_memory(&net, 0, record_memory, sizeof(record_memory), RAWE_ACCESS_READ);
    record_put_words(2, 0); /* one in flight, one held back */
    assert_non_null(end(0)->tx.window.held);
    engine(0)->output.transmit = transmit_noting_reserved;
    forge_data(payload, add_get(payload, 0, engine(0)->config.copy_max_bytes));
    assert_int_equal(reserved_amid, 1);
    assert_int_equal(engine(0)->serving.reserved, 0);
    assert_true(rawe_handle_deregister(&net.node[0].handles, own.index, own.key));
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
        access->operation.local = record_result;
        assert_true(rawe_peer_operate(&peer, &access->operation));
        record_run();
        bool allowed = cases[i].refusal == RAWE_REFUSAL_NONE;
        record_assert_ended(access, allowed ? RAWE_STATUS_DONE : RAWE_STATUS_FAILED);
        assert_int_equal(access->operation.refusal, cases[i].refusal);
        assert_int_equal(record_result[0] == 0xEE, !allowed);
    }
    assert_int_equal(counters(1)->operations_refused, 5);
}

TEST(put__gather_behind_the_first)
{
    unsigned before = net.node[0].sent[RAWE_FRAME_DATA];
    unsigned acknowledgements = net.node[1].sent[RAWE_FRAME_ACK];
    record_put_words(10, 0);
    assert_int_equal(net.node[0].sent[RAWE_FRAME_DATA] - before, 1);
    record_run();
    record_assert_puts_ended(10, RAWE_STATUS_DONE);
    assert_int_equal(net.node[0].sent[RAWE_FRAME_DATA] - before, 2);
    assert_true(net.node[1].sent[RAWE_FRAME_ACK] - acknowledgements <= 2);
}

/** PUTs that had to wait for a full link still request an acknowledgement. */
TEST(put__an_acknowledgement_is_asked_for)
{
    net.node[0].link_room = 0;
    record_put_words(4, 0);
    net.node[0].link_room = UINT32_MAX;
    rawe_engine_flush(engine(0), net.now_ns);
    while (net.wire != NULL) { /* no time passes */
        unit_receive_next(&net);
        rawe_engine_flush(engine(1), net.now_ns);
    }
    record_assert_puts_ended(4, RAWE_STATUS_DONE);
}

TEST(put__not_when_it_fits_no_frame)
{
    uint32_t most =
        net.node[0].conn[RAWE_LANE_EXPRESS]->path.payload_max_bytes - RAWE_FRAGMENT_PUT_BYTES;
    most = most < engine(0)->config.copy_max_bytes ? most : engine(0)->config.copy_max_bytes;
    assert_false(record_put(0, record_result, most + 1, 0));
    assert_true(record_put(0, record_result, most, 0));
    record_run();
    record_assert_puts_ended(1, RAWE_STATUS_DONE);
}

TEST(atomic__refused)
{
    enum { all = RAWE_ACCESS_READ | RAWE_ACCESS_WRITE | RAWE_ACCESS_ATOMIC };
    static const struct {
        unsigned access, what;
        uint64_t offset, word_bytes;
        enum rawe_refusal refusal;
    } cases[] = {
        {all, RAWE_ATOMIC_ADD, 4, 8, RAWE_REFUSAL_ALIGNMENT},
        {all, RAWE_ATOMIC_ADD, 0, 2, RAWE_REFUSAL_OPERATION},
        {all, 99, 0, 8, RAWE_REFUSAL_OPERATION},
        {all, RAWE_ATOMIC_ADD, RECORD_MEMORY_BYTES - 4, 8, RAWE_REFUSAL_BOUNDS},
        {RAWE_ACCESS_READ | RAWE_ACCESS_WRITE, RAWE_ATOMIC_ADD, 0, 8, RAWE_REFUSAL_ACCESS},
    };
    for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        record_revoke();
        record_grant(cases[i].access);
        const struct access *access = record_atomic((enum rawe_atomic)cases[i].what,
                                                    cases[i].offset, cases[i].word_bytes, 1, 0);
        record_run();
        assert_int_equal(access->operation.refusal, cases[i].refusal);
        record_assert_ended(access, RAWE_STATUS_FAILED);
        assert_int_equal(
            net_content_compare(record_memory, net_content_seed(0, 1), 0, sizeof(record_memory)),
            sizeof(record_memory));
    }
}

TEST(atomic__leaves_at_once)
{
    unsigned before = net.node[0].sent[RAWE_FRAME_DATA];
    const struct rawe_conn *conn = net.node[0].conn[RAWE_LANE_EXPRESS];
    record_put_words(3, 0);
    assert_int_equal(net.node[0].sent[RAWE_FRAME_DATA] - before, 1);
    net.now_ns += 10 * UNIT_US;
    (void)record_atomic(RAWE_ATOMIC_ADD, 0, 8, 1, 0); /* also sends the held records */
    assert_int_equal(net.node[0].sent[RAWE_FRAME_DATA] - before, 2);
    assert_true(conn->tx.window.newest->first.oldest_ns == net.now_ns);
    (void)record_atomic(RAWE_ATOMIC_ADD, 0, 8, 1, 0);
    assert_int_equal(net.node[0].sent[RAWE_FRAME_DATA] - before, 3);
    record_run();
    assert_int_equal(record_accesses[0].before, 5);
    assert_int_equal(record_accesses[1].before, 6);
}

/** Held back, it would wait until a long GET of the peer, received in this round, is served. */
TEST(get__a_long_one_leaves_at_once)
{
    unsigned before = net.node[0].sent[RAWE_FRAME_DATA];
    record_put_words(1, 0);
    assert_int_equal(net.node[0].sent[RAWE_FRAME_DATA] - before, 1);
    record_get(0, 8);
    assert_int_equal(net.node[0].sent[RAWE_FRAME_DATA] - before, 1);
    record_get(0, RAWE_OPERATION_PROMPT_BYTES); /* also sends the held request */
    assert_int_equal(net.node[0].sent[RAWE_FRAME_DATA] - before, 2);
    record_get(0, RAWE_OPERATION_PROMPT_BYTES);
    assert_int_equal(net.node[0].sent[RAWE_FRAME_DATA] - before, 3);
}

static bool drop_bulk(struct unit_net *unused, const struct net_frame *frame)
{
    return frame->header.type != RAWE_FRAME_BULK;
}

/** The PROBE is sent probe_least_ns / 4 after the GET, long before the reply is overdue. */
TEST(get__a_target_that_is_away_is_asked_soon)
{
    record_get(0, 8);
    record_run(); /* an RTT is known */
    uint64_t before = engine(0)->counters.probes_sent;
    net.node[1].paused = true;
    (void)record_get(0, 60000);
    unit_run(&net, net.config.liveness.probe_least_ns / 2, 10 * UNIT_US);
    assert_int_equal(engine(0)->counters.probes_sent - before, 1);
    net.node[1].paused = false;
    record_run();
}

/** The target acknowledged the GET, then left MPI for a while: only its thread answers PROBEs. */
TEST(get__a_reply_that_does_not_come_is_asked_for_ever_more_rarely)
{
    (void)record_get(0, 190000); /* opens the bulk lane */
    record_run();
    const struct access *access = record_get(0, 100000);
    net.filter = drop_bulk;
    uint64_t before = engine(0)->counters.probes_sent;
    unit_run(&net, 2 * UNIT_MS, 50 * UNIT_US);
    assert_in_range(engine(0)->counters.probes_sent - before, 2, 4);
    before = engine(0)->counters.probes_sent;
    unit_run(&net, 30 * UNIT_MS, 50 * UNIT_US);
    assert_in_range(engine(0)->counters.probes_sent - before, 3, 5);
    unit_run(&net, 10 * net.config.liveness.probe_most_ns, 50 * UNIT_US);
    before = engine(0)->counters.probes_sent;
    unit_run(&net, 10 * net.config.liveness.probe_most_ns, 50 * UNIT_US);
    assert_in_range(engine(0)->counters.probes_sent - before, 9, 11); /* at the lowest rate */
    assert_int_equal(access->done, 0);
    net.filter = NULL;
    record_run();
    assert_int_equal(access->status, RAWE_STATUS_DONE);
}

/** Restart, open the target's bulk lane with a long GET, then leave later replies on the wire. */
static void hold_replies(void)
{
    unit_tear_down();
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

/** Assert that GETs read none of the memory's new content: only `value`, or the initial 0xEE. */
static void assert_nothing_read(uint8_t value)
{
    for (unsigned i = 0; i < sizeof(record_result); i++) {
        assert_true(record_result[i] == value || record_result[i] == 0xEE);
    }
}

/** Assert that an access is still waiting, or has failed together with its connection. */
static void assert_not_read(const struct access *access)
{
    assert_int_equal(access->operation.refusal, RAWE_REFUSAL_NONE);
    assert_true(access->done == 0 || access->status == RAWE_STATUS_FAILED);
}

/** Open receives of ob1 read from a process that finalizes: that is no program error. */
TEST(get__memory_gone_when_the_target_finalizes)
{
    for (int allowed = -1; allowed <= 0; allowed++) {
        hold_replies();
        const struct access *access = get_held(0, 190000);
        unit_allocations_left = allowed;
        rawe_engine_finalizing(engine(1));
        unit_allocations_left = -1;
        memset(record_memory, 0x11, sizeof(record_memory));
        net_queue_clear(&net.queue);
        net.node[0].paused = false;
        unit_run(&net, 100 * UNIT_MS, 50 * UNIT_US);
        assert_true(rawe_list_empty(&engine(1)->serving.used));
        assert_nothing_read(0xEE);
        /* The initiator may have passed the fence as well: no error of the program. */
        assert_not_read(access);
        struct access *late = record_next(0, 64);
        late->operation.handle_key ^= 1; /* in the glue no memory is registered any more */
        late->operation.local = record_result;
        assert_true(rawe_peer_operate(&peer, &late->operation));
        unit_run(&net, 100 * UNIT_MS, 50 * UNIT_US);
        assert_int_equal(counters(1)->operations_refused, 1);
        assert_not_read(late);
    }
}

/** Control messages received by node 1: number, last channel and total length. */
static struct {
    unsigned count;
    uint64_t channel;
    size_t bytes;
    bool deferring, finalizing;
} controlled;

/** rawe_callbacks.control */
static void note_control(void *context, struct rawe_conn *conn, uint64_t channel,
                         const uint8_t *data, size_t len_bytes)
{
    uint8_t expected[RAWE_PEER_CONTROL_BYTES];
    assert_ptr_equal(context, &net.node[1]);
    unit_fill(expected, sizeof(expected), 7);
    assert_memory_equal(data, expected, len_bytes);
    controlled.count++;
    controlled.channel = channel;
    controlled.bytes += len_bytes;
    controlled.deferring = conn->engine->deferral->active;
    controlled.finalizing = conn->engine->finalizing;
}

static void control(size_t len_bytes)
{
    uint8_t data[RAWE_PEER_CONTROL_BYTES];
    unit_fill(data, sizeof(data), 7);
    assert_true(rawe_peer_send_control(&peer, 0x1122334455667788, data, len_bytes));
}

static void control_begin(void)
{
    memset(&controlled, 0, sizeof(controlled));
    engine(1)->callbacks.control = note_control;
}

TEST(control__is_given_to_the_owner_at_once)
{
    for (unsigned state = 0; state < 3; state++) {
        record_tear_down();
        record_set_up();
        control_begin();
        if (state == 1) {
            rawe_engine_defer_begin(engine(1));
        } else if (state == 2) {
            rawe_engine_finalizing(engine(1));
        }
        const uint64_t messages = counters(1)->messages_received;
        control(8);
        control(RAWE_PEER_CONTROL_BYTES);
        unit_peer_finish();
        assert_int_equal(controlled.count, 2);
        assert_int_equal(controlled.bytes, 8 + RAWE_PEER_CONTROL_BYTES);
        assert_true(controlled.channel == 0x1122334455667788);
        assert_int_equal(controlled.deferring, state != 0);
        assert_int_equal(controlled.finalizing, state == 2);
        assert_int_equal(counters(1)->messages_received, messages); /* none was passed up */
        assert_int_equal(engine(1)->deferral->bytes, 0);
        if (state == 1) {
            rawe_engine_defer_end(engine(1));
        }
    }
}

TEST(control__without_memory_or_callback)
{
    uint8_t data[8] = {0};
    control_begin();
    engine(1)->callbacks.control = NULL;
    control(8);
    unit_peer_finish();
    unit_peer_connect();
    /* Control messages do not use the owner's memory, which may already be freed. */
    rawe_engine_finalizing(engine(0));
    control(8);
    unit_peer_finish();
    assert_int_equal(controlled.count, 0);
    assert_false(rawe_peer_send_control(&peer, 1, data, engine(0)->config.copy_max_bytes + 1));
}
