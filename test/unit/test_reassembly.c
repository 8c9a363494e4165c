/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Tests of reassembly, of its buffer pool, and of deferral: messages kept while an engine's owner
 * cannot be called.
 */
#include <string.h>

#include "conn/rawe_conn_state.h"
#include "receive/rawe_reassembly.h"
#include "unit_test.h"

static struct rawe_buffer_pool pool;
static struct rawe_reassembly reassembly;
static uint8_t message[1000];

static void set_up(void)
{
    memset(&reassembly, 0, sizeof(reassembly));
    rawe_buffer_pool_init(&pool, sizeof(struct rawe_partial) + sizeof(message), 8);
    for (size_t i = 0; i < sizeof(message); i++) {
        message[i] = (uint8_t)(i * 7 + i / 256);
    }
}

static void tear_down(void)
{
    rawe_reassembly_clear(&reassembly, &pool, 0);
    rawe_buffer_pool_free(&pool);
    assert_int_equal(pool.allocated, 0);
}

static enum rawe_reassembly_result add(uint32_t number, uint32_t offset, uint16_t data_bytes,
                                       uint32_t total_bytes)
{
    struct rawe_fragment fragment = {
        .kind = RAWE_FRAGMENT_PART,
        .tag = 9,
        .data_bytes = data_bytes,
        .id = number,
        .offset = offset,
        .total_bytes = total_bytes,
        .data = message + offset,
    };
    return rawe_reassembly_add(&reassembly, &pool, &fragment);
}

/** Assert that the next message in order is complete and has this number and length. */
static void assert_taken(uint32_t number, uint32_t total_bytes)
{
    struct rawe_partial *whole = rawe_reassembly_take(&reassembly);
    assert_non_null(whole);
    assert_int_equal(whole->number, number);
    assert_int_equal(whole->tag, 9);
    assert_int_equal(whole->total_bytes, total_bytes);
    assert_memory_equal(whole->content, message, total_bytes);
    rawe_buffer_give(&pool, whole);
}

static void assert_nothing_to_take(void)
{
    assert_null(rawe_reassembly_take(&reassembly));
}

FIXTURE(set_up, tear_down);

TEST(rawe_buffer_pool_init__a_buffer_holds_at_least_a_link)
{
    struct rawe_buffer_pool tiny;
    rawe_buffer_pool_init(&tiny, 1, 1);
    void *buffer = rawe_buffer_take(&tiny);
    assert_non_null(buffer);
    rawe_buffer_give(&tiny, buffer); /* writes a pointer, which the address sanitizer checks */
    rawe_buffer_pool_free(&tiny);
    assert_int_equal(tiny.allocated, 0);
}

TEST(rawe_buffer_take_urgent__beyond_the_limit)
{
    void *buffers[10];
    for (unsigned i = 0; i < 8; i++) {
        buffers[i] = rawe_buffer_take(&pool);
    }
    assert_null(rawe_buffer_take(&pool));
    buffers[8] = rawe_buffer_take_urgent(&pool);
    assert_non_null(buffers[8]);
    assert_int_equal(pool.allocated, 9);
    assert_null(rawe_buffer_take(&pool));
    /* A buffer beyond the limit is freed at once, so that only urgent requests exceed the limit. */
    rawe_buffer_give(&pool, buffers[3]);
    assert_int_equal(pool.allocated, 8);
    assert_null(rawe_buffer_take(&pool));
    rawe_buffer_give(&pool, buffers[8]);
    assert_ptr_equal(rawe_buffer_take_urgent(&pool), buffers[8]); /* a free buffer comes first */
    assert_int_equal(pool.allocated, 8);
    for (unsigned i = 0; i < 9; i++) {
        if (i != 3) {
            rawe_buffer_give(&pool, buffers[i]);
        }
    }
}

TEST(rawe_reassembly_add__numbers_outside_the_window)
{
    reassembly.next = 10;
    assert_int_equal(add(9, 0, 10, 20), RAWE_REASSEMBLY_REFUSED);
    assert_int_equal(add(10 + RAWE_REASSEMBLY_MESSAGES, 0, 10, 20), RAWE_REASSEMBLY_REFUSED);
    assert_int_equal(add(0x80000000, 0, 10, 20), RAWE_REASSEMBLY_REFUSED);
    assert_int_equal(pool.allocated, 0);
    assert_int_equal(add(10 + RAWE_REASSEMBLY_MESSAGES - 1, 0, 10, 20), RAWE_REASSEMBLY_TAKEN);
}

TEST(rawe_reassembly_add__refuses_contradictions)
{
    assert_int_equal(add(0, 0, 0, 1000), RAWE_REASSEMBLY_REFUSED);  /* empty */
    assert_int_equal(add(0, 0, 10, 1001), RAWE_REASSEMBLY_REFUSED); /* too long */
    assert_int_equal(pool.allocated, 0);
    assert_int_equal(add(0, 0, 600, 1000), RAWE_REASSEMBLY_TAKEN);
    assert_int_equal(add(0, 600, 10, 999), RAWE_REASSEMBLY_REFUSED); /* contradicts the length */
    assert_int_equal(add(0, 400, 401, 1000),
                     RAWE_REASSEMBLY_REFUSED); /* more bytes than are missing */
    struct rawe_fragment other_tag = {.kind = RAWE_FRAGMENT_PART,
                                      .tag = 10,
                                      .data_bytes = 400,
                                      .offset = 600,
                                      .total_bytes = 1000,
                                      .data = message};
    assert_int_equal(rawe_reassembly_add(&reassembly, &pool, &other_tag), RAWE_REASSEMBLY_REFUSED);
    /* The message is unharmed. */
    assert_nothing_to_take();
    assert_int_equal(add(0, 600, 400, 1000), RAWE_REASSEMBLY_TAKEN);
    assert_int_equal(add(0, 600, 1, 1000), RAWE_REASSEMBLY_REFUSED); /* already complete */
    assert_taken(0, 1000);
}

/** The second part of a message. */
static const struct rawe_fragment second_part = {
    .kind = RAWE_FRAGMENT_PART, .tag = 9, .data_bytes = 900, .offset = 100, .total_bytes = 1000};

TEST(rawe_reassembly_place__then_add_finds_it_there)
{
    struct rawe_fragment fragment = second_part;
    uint8_t *place = rawe_reassembly_place(&reassembly, &pool, &fragment);
    assert_non_null(place);
    memcpy(place, message + 100, 900);
    fragment.data = place;
    assert_int_equal(rawe_reassembly_add(&reassembly, &pool, &fragment), RAWE_REASSEMBLY_TAKEN);
    assert_nothing_to_take();
    assert_int_equal(add(0, 0, 100, 1000), RAWE_REASSEMBLY_TAKEN);
    assert_taken(0, 1000);
}

TEST(rawe_reassembly_place__only_of_messages_that_may_be)
{
    struct rawe_fragment fragment = second_part;
    fragment.total_bytes = 1001; /* longer than a message may be */
    assert_null(rawe_reassembly_place(&reassembly, &pool, &fragment));
    fragment.total_bytes = 1000;
    fragment.id = RAWE_REASSEMBLY_MESSAGES;
    assert_null(rawe_reassembly_place(&reassembly, &pool, &fragment));
    assert_int_equal(add(0, 0, 100, 500), RAWE_REASSEMBLY_TAKEN);
    fragment.id = 0; /* contradicts message 0's first part */
    assert_null(rawe_reassembly_place(&reassembly, &pool, &fragment));
}

TEST(rawe_reassembly_clear__gives_all_buffers_back)
{
    for (uint32_t number = 0; number < 8; number++) {
        assert_int_equal(add(number, 0, 500, 1000), RAWE_REASSEMBLY_TAKEN);
    }
    rawe_reassembly_clear(&reassembly, &pool, 0);
    rawe_reassembly_clear(&reassembly, &pool, 0);
    rawe_buffer_pool_free(&pool);
    assert_int_equal(pool.allocated, 0);
    /* Incomplete messages are forgotten, and numbers start at 0 again. */
    assert_int_equal(reassembly.next, 0);
    assert_int_equal(add(0, 500, 500, 1000), RAWE_REASSEMBLY_TAKEN);
}

/** Size of an entry with a payload of `len` bytes. */
#define ENTRY(len) (sizeof(struct rawe_deferred) + (len))

static struct rawe_deferral deferral;
static struct rawe_conn conns[3];
static struct rawe_send sends[6];

static void set_up_deferral(void)
{
    set_up();
    rawe_deferral_init(&deferral, SIZE_MAX);
    memset(sends, 0, sizeof(sends));
    rawe_buffer_pool_init(&pool, sizeof(message), 16);
}

static void tear_down_deferral(void)
{
    struct rawe_deferred *entry;
    while ((entry = rawe_deferral_take(&deferral)) != NULL) {
        rawe_deferral_drop(&deferral, entry);
    }
    assert_true(deferral.bytes == 0);
    tear_down();
}

/** Keep a payload of `len_bytes` bytes, each with the value `content`. */
static bool keep(unsigned conn, uint8_t content, size_t len_bytes)
{
    uint8_t payload[100];
    memset(payload, content, sizeof(payload));
    return rawe_deferral_keep(&deferral, &conns[conn], payload, len_bytes);
}

/** Assert that the oldest entry is this payload, and drop it. */
static void assert_oldest(unsigned conn, uint8_t content, size_t len_bytes)
{
    struct rawe_deferred *entry = rawe_deferral_take(&deferral);
    assert_non_null(entry);
    assert_ptr_equal(entry->conn, &conns[conn]);
    assert_int_equal(entry->len_bytes, len_bytes);
    assert_null(entry->whole);
    assert_false(entry->fragmented);
    for (size_t i = 0; i < len_bytes; i++) {
        assert_int_equal(entry->payload[i], content);
    }
    rawe_deferral_drop(&deferral, entry);
}

/** Receive `data_bytes` of a fragmented message. */
static void reassemble(uint32_t number, uint32_t total_bytes, uint16_t data_bytes)
{
    uint8_t data[sizeof(message)];
    memset(data, (int)number, sizeof(data));
    struct rawe_fragment fragment = {.kind = RAWE_FRAGMENT_PART,
                                     .tag = (uint8_t)(number + 100),
                                     .data_bytes = data_bytes,
                                     .id = number,
                                     .total_bytes = total_bytes,
                                     .data = data};
    assert_int_equal(rawe_reassembly_add(&reassembly, &pool, &fragment), RAWE_REASSEMBLY_TAKEN);
}

/** Assert that the oldest entry is this fragmented message, and drop it. */
static void assert_oldest_fragmented(unsigned conn, uint32_t number, size_t len_bytes)
{
    struct rawe_deferred *entry = rawe_deferral_take(&deferral);
    assert_non_null(entry);
    assert_ptr_equal(entry->conn, &conns[conn]);
    assert_int_equal(entry->len_bytes, len_bytes);
    assert_int_equal(entry->tag, number + 100);
    assert_true(entry->fragmented);
    /* A message keeps its buffer only if it fills at least half of the buffer. */
    assert_int_equal(entry->whole != NULL, len_bytes >= sizeof(message) / 2);
    const uint8_t *content = entry->whole != NULL ? entry->whole->content : entry->payload;
    for (size_t i = 0; i < len_bytes; i++) {
        assert_int_equal(content[i], number);
    }
    rawe_deferral_drop(&deferral, entry);
}

static const struct unit_fixture deferring = {set_up_deferral, tear_down_deferral};

TEST_WITH(deferring, rawe_deferral_keep__nothing_is_a_payload_too)
{
    assert_true(keep(0, 1, 0));
    assert_true(keep(0, 2, 1));
    assert_true(deferral.bytes == ENTRY(0) + ENTRY(1));
    assert_oldest(0, 1, 0);
    assert_oldest(0, 2, 1);
}

TEST_WITH(deferring, rawe_deferral_keep_fragmented__those_whose_turn_it_is)
{
    assert_true(keep(1, 7, 10));
    reassemble(0, 300, 300);
    reassemble(1, 700, 700);
    reassemble(2, 500, 499);
    reassemble(3, 600, 600); /* complete, but number 2 is missing */
    rawe_deferral_keep_fragmented(&deferral, &conns[2], &reassembly, &pool, false);
    assert_false(deferral.fragments_wait);
    assert_true(deferral.bytes == ENTRY(10) + ENTRY(300) + ENTRY(0) + sizeof(message));
    assert_int_equal(reassembly.next, 2);
    assert_oldest(1, 7, 10);
    assert_oldest_fragmented(2, 0, 300);
    assert_true(deferral.bytes == ENTRY(0) + sizeof(message));
    assert_oldest_fragmented(2, 1, 700);
    assert_null(rawe_deferral_take(&deferral));
}

TEST_WITH(deferring, rawe_deferral_keep_fragmented__a_short_one_gives_its_buffer_back)
{
    for (uint32_t number = 0; number < 2; number++) {
        uint32_t len_bytes = sizeof(message) / 2 - 1 + number;
        reassemble(number, len_bytes, (uint16_t)len_bytes);
        rawe_deferral_keep_fragmented(&deferral, &conns[0], &reassembly, &pool, false);
        assert_int_equal(pool.free != NULL, number == 0);
        assert_oldest_fragmented(0, number, len_bytes);
    }
}

TEST_WITH(deferring, rawe_deferral_discard__drops_what_is_kept_and_what_follows)
{
    assert_true(keep(0, 1, 10));
    reassemble(0, 800, 800);
    rawe_deferral_keep_fragmented(&deferral, &conns[0], &reassembly, &pool, false);
    assert_true(deferral.pending);
    rawe_deferral_discard(&deferral);
    for (unsigned i = 0; i < 2; i++) {
        assert_false(deferral.pending);
        assert_true(deferral.bytes == 0);
        assert_null(rawe_deferral_take(&deferral));
        assert_int_equal(pool.allocated, 1);
        assert_non_null(pool.free); /* the buffer has been returned */
        assert_true(keep(0, 1, 10));
        reassemble(1 + i, 800, 800);
        rawe_deferral_keep_fragmented(&deferral, &conns[0], &reassembly, &pool, false);
    }
    reassemble(3, 800, 800);
    rawe_deferral_keep_fragmented(&deferral, &conns[0], &reassembly, &pool, true);
    assert_null(rawe_deferral_take(&deferral));
    assert_non_null(pool.free);
}

TEST_WITH(deferring, rawe_deferral_forget__fragmented_messages_too)
{
    assert_true(keep(0, 1, 10));
    reassemble(0, 600, 600);
    rawe_deferral_keep_fragmented(&deferral, &conns[1], &reassembly, &pool, false);
    assert_true(keep(0, 2, 10));
    rawe_deferral_forget(&deferral, &conns[1]);
    assert_non_null(pool.free);
    assert_true(deferral.bytes == 2 * ENTRY(10));
    assert_oldest(0, 1, 10);
    assert_oldest(0, 2, 10);
}

TEST_WITH(deferring, rawe_deferral_forget__what_is_kept_next_follows_what_is_left)
{
    assert_true(keep(0, 1, 10));
    assert_true(keep(1, 2, 10));
    rawe_deferral_forget(&deferral, &conns[1]);
    assert_true(keep(0, 3, 10));
    assert_oldest(0, 1, 10);
    assert_oldest(0, 3, 10);
}
