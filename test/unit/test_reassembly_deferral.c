/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Tests of deferral: what is kept while the owner of an engine cannot be called.
 */
#include <string.h>

#include "conn/rawe_conn_state.h"
#include "receive/rawe_reassembly.h"
#include "unit_alloc.h"
#include "unit_test.h"

#define POOL_BYTES 1000u
/** Bytes that an entry with a payload of `len` bytes takes. */
#define ENTRY(len) (sizeof(struct rawe_deferred) + (len))

static struct rawe_deferral deferral;
static struct rawe_buffer_pool pool;
static struct rawe_reassembly reassembly;
static struct rawe_conn conns[3];
static struct rawe_send sends[6];

static void set_up(void)
{
    unit_allocations_left = -1;
    memset(&deferral, 0, sizeof(deferral));
    deferral.limit_bytes = SIZE_MAX;
    memset(&reassembly, 0, sizeof(reassembly));
    memset(sends, 0, sizeof(sends));
    rawe_buffer_pool_init(&pool, POOL_BYTES, 16);
}

static void tear_down(void)
{
    unit_allocations_left = -1;
    struct rawe_deferred *entry;
    while ((entry = rawe_deferral_take(&deferral)) != NULL) {
        rawe_deferral_drop(&deferral, &pool, entry);
    }
    assert_true(deferral.bytes == 0);
    rawe_reassembly_clear(&reassembly, &pool, 0);
    rawe_buffer_pool_free(&pool);
    assert_int_equal(pool.allocated, 0); /* all buffers have come back */
}

/** Keep a payload of `len_bytes`, each of them `content`. */
static bool keep(unsigned conn, uint8_t content, size_t len_bytes)
{
    uint8_t payload[100];
    memset(payload, content, sizeof(payload));
    return rawe_deferral_keep(&deferral, &conns[conn], payload, len_bytes);
}

/** The oldest entry is that payload; drop it. */
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
    rawe_deferral_drop(&deferral, &pool, entry);
}

/** `data_bytes` of a fragmented message arrive. */
static void reassemble(uint32_t number, uint32_t total_bytes, uint16_t data_bytes)
{
    uint8_t data[POOL_BYTES];
    memset(data, (int)number, sizeof(data));
    struct rawe_fragment fragment = {.kind = RAWE_FRAGMENT_PART,
                                     .tag = (uint8_t)(number + 100),
                                     .data_bytes = data_bytes,
                                     .id = number,
                                     .total_bytes = total_bytes,
                                     .data = data};
    assert_in_range(rawe_reassembly_add(&reassembly, &pool, &fragment), RAWE_REASSEMBLY_MORE,
                    RAWE_REASSEMBLY_WHOLE);
}

/** The oldest entry is that fragmented message; drop it. */
static void assert_oldest_fragmented(unsigned conn, uint32_t number, size_t len_bytes)
{
    struct rawe_deferred *entry = rawe_deferral_take(&deferral);
    assert_non_null(entry);
    assert_ptr_equal(entry->conn, &conns[conn]);
    assert_int_equal(entry->len_bytes, len_bytes);
    assert_int_equal(entry->tag, number + 100);
    assert_true(entry->fragmented);
    /* Only a message that fills most of its buffer keeps it. */
    assert_int_equal(entry->whole != NULL, len_bytes >= POOL_BYTES / 2);
    const uint8_t *message = entry->whole != NULL ? entry->whole->content : entry->payload;
    for (size_t i = 0; i < len_bytes; i++) {
        assert_int_equal(message[i], number);
    }
    rawe_deferral_drop(&deferral, &pool, entry);
}

/** A list of `count` sends from sends[first] on. */
static struct rawe_send *list_of(unsigned first, unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        sends[first + i].next = i + 1 < count ? &sends[first + i + 1] : NULL;
    }
    return &sends[first];
}

static void assert_completed(enum rawe_status status, const unsigned *indices, unsigned count)
{
    const struct rawe_send *list = rawe_deferral_take_completed(&deferral, status);
    for (unsigned i = 0; i < count; i++) {
        assert_ptr_equal(list, &sends[indices[i]]);
        list = list->next;
    }
    assert_null(list);
    assert_null(rawe_deferral_take_completed(&deferral, status)); /* once */
}

FIXTURE(set_up, tear_down);

TEST(rawe_deferral_keep__a_copy_in_the_order_of_arrival)
{
    assert_false(deferral.pending);
    for (uint8_t i = 0; i < 10; i++) {
        assert_true(keep(i % 3, i, 10u + i));
        assert_true(deferral.pending);
    }
    assert_true(deferral.bytes == 145 + ENTRY(0) * 10);
    for (uint8_t i = 0; i < 10; i++) {
        assert_oldest(i % 3, i, 10u + i);
    }
    assert_true(deferral.bytes == 0);
    assert_null(rawe_deferral_take(&deferral));
}

TEST(rawe_deferral_keep__nothing_is_a_payload_too)
{
    assert_true(keep(0, 1, 0));
    assert_true(keep(0, 2, 1));
    assert_true(deferral.bytes == ENTRY(0) + ENTRY(1));
    assert_oldest(0, 1, 0);
    assert_oldest(0, 2, 1);
}

TEST(rawe_deferral_keep__without_memory)
{
    unit_allocations_left = 1;
    assert_true(keep(0, 1, 10));
    deferral.pending = false;
    assert_false(keep(0, 2, 20));
    assert_false(deferral.pending);
    assert_false(deferral.fragments_wait); /* the frame is not taken: its sender sends it again */
    assert_true(deferral.bytes == ENTRY(10));
    unit_allocations_left = -1;
    assert_true(keep(0, 3, 30));
    assert_oldest(0, 1, 10);
    assert_oldest(0, 3, 30);
    assert_null(rawe_deferral_take(&deferral));
}

TEST(rawe_deferral_keep_fragmented__those_whose_turn_it_is)
{
    assert_true(keep(1, 7, 10));
    reassemble(0, 300, 300);
    reassemble(1, 700, 700);
    reassemble(2, 500, 499);
    reassemble(3, 600, 600); /* complete, but behind number 2 */
    rawe_deferral_keep_fragmented(&deferral, &pool, &conns[2], &reassembly);
    assert_false(deferral.fragments_wait);
    assert_true(deferral.bytes == ENTRY(10) + ENTRY(300) + ENTRY(0) + POOL_BYTES);
    assert_int_equal(reassembly.next, 2);
    assert_oldest(1, 7, 10);
    assert_oldest_fragmented(2, 0, 300);
    assert_true(deferral.bytes == ENTRY(0) + POOL_BYTES);
    assert_oldest_fragmented(2, 1, 700);
    assert_null(rawe_deferral_take(&deferral));
}

TEST(rawe_deferral_keep_fragmented__a_short_one_gives_its_buffer_back)
{
    for (uint32_t number = 0; number < 2; number++) {
        uint32_t len_bytes = POOL_BYTES / 2 - 1 + number;
        reassemble(number, len_bytes, (uint16_t)len_bytes);
        rawe_deferral_keep_fragmented(&deferral, &pool, &conns[0], &reassembly);
        assert_int_equal(pool.free != NULL, number == 0);
        assert_oldest_fragmented(0, number, len_bytes);
    }
}

static void reassemble_three(void)
{
    for (uint32_t number = 0; number < 3; number++) {
        reassemble(number, 100, 100);
    }
}

TEST(rawe_deferral_keep_fragmented__when_full_they_stay)
{
    deferral.limit_bytes = ENTRY(100) + 1;
    reassemble_three();
    rawe_deferral_keep_fragmented(&deferral, &pool, &conns[0], &reassembly);
    assert_true(deferral.fragments_wait);
    assert_true(rawe_deferral_full(&deferral));
    assert_int_equal(reassembly.next, 2); /* the second exceeds the limit */
    assert_oldest_fragmented(0, 0, 100);
    assert_false(rawe_deferral_full(&deferral));
    rawe_deferral_keep_fragmented(&deferral, &pool, &conns[0], &reassembly);
    assert_oldest_fragmented(0, 1, 100);
    assert_oldest_fragmented(0, 2, 100);
}

TEST(rawe_deferral_keep_fragmented__none_is_ready)
{
    reassemble(0, 500, 499);
    rawe_deferral_keep_fragmented(&deferral, &pool, &conns[0], &reassembly);
    assert_false(deferral.pending);
    assert_null(rawe_deferral_take(&deferral));
}

TEST(rawe_deferral_keep_fragmented__without_memory_they_stay)
{
    reassemble_three();
    unit_allocations_left = 0;
    rawe_deferral_keep_fragmented(&deferral, &pool, &conns[0], &reassembly);
    assert_true(deferral.pending);
    assert_true(deferral.fragments_wait);
    assert_int_equal(reassembly.next, 0);
    unit_allocations_left = 1;
    rawe_deferral_keep_fragmented(&deferral, &pool, &conns[0], &reassembly);
    assert_int_equal(reassembly.next, 1);
    assert_true(deferral.bytes == ENTRY(100));
    unit_allocations_left = -1;
    rawe_deferral_keep_fragmented(&deferral, &pool, &conns[0], &reassembly);
    for (uint32_t number = 0; number < 3; number++) {
        assert_oldest_fragmented(0, number, 100);
    }
}

TEST(rawe_deferral_keep_completed__each_status_in_order)
{
    assert_null(rawe_deferral_take_completed(&deferral, RAWE_STATUS_DONE));
    rawe_deferral_keep_completed(&deferral, list_of(0, 2), RAWE_STATUS_DONE);
    assert_true(deferral.pending);
    rawe_deferral_keep_completed(&deferral, list_of(2, 1), RAWE_STATUS_FAILED);
    rawe_deferral_keep_completed(&deferral, list_of(3, 1), RAWE_STATUS_DONE);
    rawe_deferral_keep_completed(&deferral, list_of(4, 2), RAWE_STATUS_FAILED);
    static const unsigned done[] = {0, 1, 3}, failed[] = {2, 4, 5};
    assert_completed(RAWE_STATUS_DONE, done, 3);
    assert_completed(RAWE_STATUS_FAILED, failed, 3);
    assert_true(deferral.bytes == 0); /* they are the callers' memory */
}

TEST(rawe_deferral_discard__drops_what_is_kept_and_what_follows)
{
    assert_true(keep(0, 1, 10));
    reassemble(0, 800, 800);
    rawe_deferral_keep_fragmented(&deferral, &pool, &conns[0], &reassembly);
    assert_true(deferral.pending);
    rawe_deferral_discard(&deferral, &pool);
    for (unsigned i = 0; i < 2; i++) {
        assert_false(deferral.pending);
        assert_true(deferral.bytes == 0);
        assert_null(rawe_deferral_take(&deferral));
        assert_int_equal(pool.allocated, 1);
        assert_non_null(pool.free); /* it has come back */
        assert_true(keep(0, 1, 10));
        reassemble(1 + i, 800, 800);
        rawe_deferral_keep_fragmented(&deferral, &pool, &conns[0], &reassembly);
    }
    reassemble(3, 800, 800);
    rawe_deferral_rescue_fragmented(&deferral, &pool, &conns[0], &reassembly);
    assert_null(rawe_deferral_take(&deferral));
    assert_non_null(pool.free);
}

TEST(rawe_deferral_forget__any_subset)
{
    for (unsigned subset = 0; subset < 32; subset++) {
        size_t left = 0;
        for (uint8_t i = 0; i < 5; i++) {
            bool forgotten = (subset >> i & 1) != 0;
            assert_true(keep(forgotten, i, 10u + i));
            left += forgotten ? 0 : ENTRY(10u + i);
        }
        rawe_deferral_forget(&deferral, &pool, &conns[1]);
        assert_true(deferral.bytes == left);
        assert_true(keep(2, 99, 50)); /* the tail is where the next one belongs */
        for (uint8_t i = 0; i < 5; i++) {
            if ((subset >> i & 1) == 0) {
                assert_oldest(0, i, 10u + i);
            }
        }
        assert_oldest(2, 99, 50);
        assert_null(rawe_deferral_take(&deferral));
    }
}

TEST(rawe_deferral_forget__fragmented_messages_too)
{
    assert_true(keep(0, 1, 10));
    reassemble(0, 600, 600);
    rawe_deferral_keep_fragmented(&deferral, &pool, &conns[1], &reassembly);
    assert_true(keep(0, 2, 10));
    rawe_deferral_forget(&deferral, &pool, &conns[1]);
    assert_non_null(pool.free);
    assert_true(deferral.bytes == 2 * ENTRY(10));
    assert_oldest(0, 1, 10);
    assert_oldest(0, 2, 10);
}
