/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Tests of core/pull/rawe_pull.c: the amounts that long GETs may request. Peers are dummies.
 */
#include <string.h>

#include "pull/rawe_pull.h"
#include "unit_test.h"

#define MS 1000000ull
#define GET_BYTES 200000u
/** Length of a piece: the minimum, because a quarter of the 100 kB limit is less. */
#define PIECE_BYTES 32768u

/** Limit on outstanding data from one peer. */
#define PEER_BYTES (1u << 22)

static struct rawe_operation_table table;
static struct rawe_operation operations[RAWE_OPERATIONS_MAX];
static unsigned count;
static struct rawe_pull pull;
static uint64_t now_ns;
static char peers[2];

static void start(uint64_t port_bytes, struct rawe_pull_host *host)
{
    const struct rawe_pull_config config = {
        .port_bytes = port_bytes,
        .link_mbps = 25000,
        .frame_bytes = 1500,
        .ring_frames = 1000,
        .window_frames = 512,
        .host = host,
        .host_index = 1,
        .operations = &table,
    };
    count = 0;
    now_ns = MS;
    rawe_operation_table_init(&table, 0);
    rawe_pull_init(&pull, &config, now_ns);
}

static void set_up(void)
{
    start(100000, NULL);
}

FIXTURE(set_up, NULL);

static struct rawe_operation *make(unsigned peer, uint64_t len_bytes)
{
    struct rawe_operation *get = &operations[count++];
    *get = (struct rawe_operation){
        .kind = RAWE_FRAGMENT_GET,
        .len_bytes = len_bytes,
        .peer = (struct rawe_peer *)(void *)&peers[peer],
    };
    return get;
}

/** Make a GET that has requested all of its data. */
static struct rawe_operation *request(unsigned peer, uint64_t len_bytes)
{
    struct rawe_operation *get = make(peer, len_bytes);
    (void)rawe_pull_may_begin(&pull, get, now_ns);
    assert_true(rawe_operation_enter(&table, get));
    get->left_bytes = len_bytes;
    get->progress_ns = now_ns;
    if (get->budget != NULL) {
        rawe_budget_asked(&pull.gets, len_bytes, now_ns);
    }
    return get;
}

static struct rawe_operation *wait(unsigned peer, uint64_t len_bytes)
{
    struct rawe_operation *get = make(peer, len_bytes);
    rawe_pull_wait(&pull, get, now_ns);
    return get;
}

static bool may_get(unsigned peer)
{
    return rawe_pull_may_begin(&pull, make(peer, GET_BYTES), now_ns);
}

static void assert_next(const struct rawe_operation *expected, uint64_t expected_bytes)
{
    uint64_t len_bytes = 0;
    assert_ptr_equal(rawe_pull_next(&pull, &len_bytes, now_ns), expected);
    assert_int_equal(len_bytes, expected_bytes);
}

TEST(rawe_pull_init__the_hosts_page_has_what_is_outstanding)
{
    static struct rawe_pull_host host;
    memset(&host, 0, sizeof(host));
    start(100000, &host);
    request(0, GET_BYTES);
    assert_int_equal(host.gets.shares[1].asked_bytes, GET_BYTES);
    assert_int_equal(host.gets.used, 2);
    assert_int_equal(host.grants.used, 2);
    assert_ptr_equal(pull.line.host, &host.line);
}

TEST(rawe_pull_may_begin__gets_to_one_peer_only)
{
    static const struct {
        uint64_t port_bytes, len_bytes;
        unsigned peer;
        bool may;
    } cases[] = {
        {100000, GET_BYTES, 0, true},  /* the same peer */
        {100000, GET_BYTES, 1, false}, /* another peer */
        {100000, 4095, 1, true},       /* another peer, but a short GET */
        {100000, 4096, 1, false},      /* another peer, and just long enough */
        {100000, 1u << 22, 0, false},  /* one peer's maximum is outstanding */
        {0, GET_BYTES, 1, true},       /* no limit */
    };
    for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        start(cases[i].port_bytes, NULL);
        assert_true(may_get(0));
        request(0, cases[i].len_bytes);
        assert_int_equal(may_get(cases[i].peer), cases[i].may);
    }
}

TEST(rawe_pull_may_begin__not_before_those_that_wait)
{
    wait(0, GET_BYTES);
    assert_false(may_get(0));
    assert_true(rawe_pull_may_begin(&pull, make(0, 4095), now_ns)); /* short GETs need not wait */
}

TEST(rawe_pull_next__all_of_a_single_peer)
{
    struct rawe_operation *get = wait(0, GET_BYTES);
    assert_true(rawe_pull_pending(&pull));
    assert_next(get, GET_BYTES);
    assert_false(rawe_pull_pending(&pull));
    assert_next(NULL, 0);
}

TEST(rawe_pull_next__pieces_of_several)
{
    static const struct {
        uint64_t len_bytes, next_bytes;
    } cases[] = {
        {GET_BYTES, PIECE_BYTES},
        {PIECE_BYTES * 3 / 2, PIECE_BYTES},
        {PIECE_BYTES * 3 / 2 - 1, PIECE_BYTES * 3 / 2 - 1}, /* includes a short remainder */
        {4096, 4096},
    };
    for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        start(100000, NULL);
        request(0, 50000);
        assert_next(wait(1, cases[i].len_bytes), cases[i].next_bytes);
    }
}

TEST(rawe_pull_next__the_peer_that_owes_least)
{
    request(0, 50000);
    wait(0, GET_BYTES);
    assert_next(wait(1, GET_BYTES), PIECE_BYTES);
}

TEST(rawe_pull_next__none_beyond_the_limit)
{
    request(0, 100000);
    wait(1, GET_BYTES);
    assert_next(NULL, 0);
    assert_true(rawe_pull_pending(&pull));
    rawe_operation_remove(&operations[0]);
    assert_next(&operations[1], GET_BYTES);
    assert_true(rawe_budget_limit_bytes(&pull.gets) > 100000); /* the link was idle */
}

/** Let waiting GETs take their turns for 1000 ms without arrivals. Returns the requested bytes. */
static uint64_t request_in_silence(void)
{
    uint64_t total_bytes = 0;
    for (unsigned i = 0; i < 1000; i++, now_ns += MS) {
        struct rawe_operation *next;
        uint64_t len_bytes;
        while ((next = rawe_pull_next(&pull, &len_bytes, now_ns)) != NULL) {
            assert_true(rawe_operation_enter(&table, next));
            next->left_bytes = len_bytes;
            next->progress_ns = now_ns;
            next->budget = &pull.gets;
            rawe_budget_asked(&pull.gets, len_bytes, now_ns);
            total_bytes += len_bytes;
        }
    }
    return total_bytes;
}

/** Start many GETs on a silent peer, then one on another, which must not wait for them. */
static void assert_silent_peer_blocks_none(uint64_t len_bytes, uint64_t expected_bytes)
{
    start(100000, NULL);
    request(1, 4096);
    for (unsigned i = 0; i < 700; i++) {
        wait(0, len_bytes);
    }
    assert_int_equal(request_in_silence(), expected_bytes);
    const struct rawe_operation *other = wait(1, PIECE_BYTES); /* behind more than 16 others */
    assert_int_equal(request_in_silence(), PIECE_BYTES);
    assert_int_equal(other->left_bytes, PIECE_BYTES);
}

TEST(rawe_pull_next__a_silent_peer_blocks_no_other)
{
    assert_silent_peer_blocks_none(PIECE_BYTES, PEER_BYTES);
    assert_silent_peer_blocks_none(4096, RAWE_OPERATIONS_MAX / 2 * 4096);
}

/** Short operations do not count as outstanding data, but leave the peer no room for others. */
TEST(rawe_pull_next__no_room_for_operations_is_no_reason_to_raise_the_limit)
{
    for (unsigned i = 0; i < RAWE_OPERATIONS_MAX / 2; i++) {
        assert_true(rawe_operation_enter(&table, make(0, 8)));
    }
    wait(0, GET_BYTES);
    assert_int_equal(request_in_silence(), 0);
    assert_int_equal(rawe_budget_limit_bytes(&pull.gets), 100000);
    assert_true(rawe_pull_pending(&pull));
    const struct rawe_operation *other = wait(1, GET_BYTES);
    assert_int_equal(request_in_silence(), GET_BYTES);
    assert_int_equal(other->left_bytes, GET_BYTES);
    rawe_operation_remove(&operations[0]);
    assert_int_equal(request_in_silence(), PIECE_BYTES);
}

TEST(rawe_pull_next__a_silent_single_peer_blocks_no_other)
{
    for (unsigned i = 0; i < 200; i++) {
        wait(0, PIECE_BYTES);
    }
    const struct rawe_operation *other = wait(1, PIECE_BYTES);
    wait(0, PIECE_BYTES); /* with GETs from peer 0 at both ends, it seems to be the only one */
    assert_int_equal(request_in_silence(), PEER_BYTES + PIECE_BYTES);
    assert_int_equal(other->left_bytes, PIECE_BYTES);
}

TEST(rawe_pull_next__no_more_of_a_single_peer_that_is_silent)
{
    for (unsigned i = 0; i < 6; i++) {
        wait(0, 1u << 20);
    }
    assert_int_equal(request_in_silence(), PEER_BYTES);
}
