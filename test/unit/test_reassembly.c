/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Tests of reassembly and of the buffer pool behind it.
 */
#include <string.h>

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

/** The next message in order is whole and is this one. */
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
    rawe_buffer_give(&tiny, buffer); /* writes a pointer: the address sanitizer watches */
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
    /* Back to the limit first, or others would live on what was meant for the urgent. */
    rawe_buffer_give(&pool, buffers[3]);
    assert_int_equal(pool.allocated, 8);
    assert_null(rawe_buffer_take(&pool));
    rawe_buffer_give(&pool, buffers[8]);
    assert_ptr_equal(rawe_buffer_take_urgent(&pool), buffers[8]); /* a free one before a new one */
    assert_int_equal(pool.allocated, 8);
    for (unsigned i = 0; i < 9; i++) {
        if (i != 3) {
            rawe_buffer_give(&pool, buffers[i]);
        }
    }
}

TEST(rawe_reassembly_add__out_of_order_and_interleaved)
{
    assert_int_equal(add(0, 900, 100, 1000), RAWE_REASSEMBLY_MORE);
    assert_int_equal(add(1, 1, 1, 2), RAWE_REASSEMBLY_MORE);
    assert_int_equal(add(0, 0, 500, 1000), RAWE_REASSEMBLY_MORE);
    assert_int_equal(add(1, 0, 1, 2), RAWE_REASSEMBLY_WHOLE);
    assert_nothing_to_take(); /* 1 waits for 0 */
    assert_int_equal(add(0, 500, 400, 1000), RAWE_REASSEMBLY_WHOLE);
    assert_taken(0, 1000);
    assert_taken(1, 2);
    assert_nothing_to_take();
}

TEST(rawe_reassembly_add__all_numbers_of_the_window_backwards)
{
    pool.limit = RAWE_REASSEMBLY_MESSAGES;
    for (uint32_t number = RAWE_REASSEMBLY_MESSAGES; number-- > 0;) {
        assert_nothing_to_take();
        assert_int_equal(add(number, 0, 100, 100), RAWE_REASSEMBLY_WHOLE);
    }
    for (uint32_t number = 0; number < RAWE_REASSEMBLY_MESSAGES; number++) {
        assert_taken(number, 100);
    }
}

TEST(rawe_reassembly_add__numbers_outside_the_window)
{
    reassembly.next = 10;
    assert_int_equal(add(9, 0, 10, 20), RAWE_REASSEMBLY_REFUSED);
    assert_int_equal(add(10 + RAWE_REASSEMBLY_MESSAGES, 0, 10, 20), RAWE_REASSEMBLY_REFUSED);
    assert_int_equal(add(0x80000000, 0, 10, 20), RAWE_REASSEMBLY_REFUSED);
    assert_int_equal(pool.allocated, 0);
    assert_int_equal(add(10 + RAWE_REASSEMBLY_MESSAGES - 1, 0, 10, 20), RAWE_REASSEMBLY_MORE);
}

TEST(rawe_reassembly_add__refuses_contradictions)
{
    assert_int_equal(add(0, 0, 0, 1000), RAWE_REASSEMBLY_REFUSED);  /* carries nothing */
    assert_int_equal(add(0, 0, 10, 1001), RAWE_REASSEMBLY_REFUSED); /* too long */
    assert_int_equal(pool.allocated, 0);
    assert_int_equal(add(0, 0, 600, 1000), RAWE_REASSEMBLY_MORE);
    assert_int_equal(add(0, 600, 10, 999), RAWE_REASSEMBLY_REFUSED); /* another length */
    assert_int_equal(add(0, 400, 401, 1000),
                     RAWE_REASSEMBLY_REFUSED); /* more bytes than the message has */
    struct rawe_fragment other_tag = {.kind = RAWE_FRAGMENT_PART,
                                      .tag = 10,
                                      .data_bytes = 400,
                                      .offset = 600,
                                      .total_bytes = 1000,
                                      .data = message};
    assert_int_equal(rawe_reassembly_add(&reassembly, &pool, &other_tag), RAWE_REASSEMBLY_REFUSED);
    /* None of it has harmed the message. */
    assert_nothing_to_take();
    assert_int_equal(add(0, 600, 400, 1000), RAWE_REASSEMBLY_WHOLE);
    assert_int_equal(add(0, 600, 1, 1000), RAWE_REASSEMBLY_REFUSED); /* it is whole already */
    assert_taken(0, 1000);
}

TEST(rawe_reassembly_add__without_a_buffer_nothing_is_taken)
{
    for (uint32_t number = 1; number <= 8; number++) {
        assert_int_equal(add(number, 0, 500, 1000), RAWE_REASSEMBLY_MORE);
    }
    assert_int_equal(add(9, 0, 500, 1000), RAWE_REASSEMBLY_NO_BUFFER);
    /* The one that all others wait for has a buffer in any case. */
    assert_int_equal(add(0, 0, 500, 1000), RAWE_REASSEMBLY_MORE);
    assert_int_equal(add(0, 500, 500, 1000), RAWE_REASSEMBLY_WHOLE);
    assert_taken(0, 1000);
    assert_int_equal(add(1, 500, 500, 1000), RAWE_REASSEMBLY_WHOLE);
    assert_taken(1, 1000);
    assert_int_equal(add(9, 0, 500, 1000), RAWE_REASSEMBLY_MORE);
}

/** Of a batch that begins in the message's 100th byte. */
static const struct rawe_fragment first_part = {
    .kind = RAWE_FRAGMENT_PART, .tag = 9, .data_bytes = 300, .offset = 100, .total_bytes = 1000};

TEST(rawe_reassembly_place__then_add_finds_it_there)
{
    struct rawe_fragment first = first_part;
    uint8_t *place = rawe_reassembly_place(&reassembly, &pool, &first, 900);
    assert_non_null(place);
    memcpy(place, message + 100, 900);
    for (uint32_t offset = 100; offset < 1000; offset += 300) {
        struct rawe_fragment fragment = first;
        fragment.offset = offset;
        fragment.data = place + offset - 100;
        assert_int_equal(rawe_reassembly_add(&reassembly, &pool, &fragment), RAWE_REASSEMBLY_MORE);
    }
    assert_int_equal(add(0, 0, 100, 1000), RAWE_REASSEMBLY_WHOLE);
    assert_taken(0, 1000);
}

TEST(rawe_reassembly_place__only_inside_the_message)
{
    struct rawe_fragment first = first_part;
    assert_null(rawe_reassembly_place(&reassembly, &pool, &first, 901));
    assert_null(rawe_reassembly_place(&reassembly, &pool, &first, UINT64_MAX));
    first.total_bytes = 1001; /* longer than any message may be */
    assert_null(rawe_reassembly_place(&reassembly, &pool, &first, 300));
    first.total_bytes = 1000;
    first.id = RAWE_REASSEMBLY_MESSAGES;
    assert_null(rawe_reassembly_place(&reassembly, &pool, &first, 300));
    assert_int_equal(add(0, 0, 100, 500), RAWE_REASSEMBLY_MORE);
    first.id = 0; /* contradicts what is known of it */
    assert_null(rawe_reassembly_place(&reassembly, &pool, &first, 300));
}

TEST(rawe_reassembly_clear__gives_all_buffers_back)
{
    for (uint32_t number = 0; number < 8; number++) {
        assert_int_equal(add(number, 0, 500, 1000), RAWE_REASSEMBLY_MORE);
    }
    rawe_reassembly_clear(&reassembly, &pool, 0);
    rawe_reassembly_clear(&reassembly, &pool, 0);
    rawe_buffer_pool_free(&pool);
    assert_int_equal(pool.allocated, 0);
    /* What was half there is forgotten, and numbers begin again. */
    assert_int_equal(reassembly.next, 0);
    assert_int_equal(add(0, 500, 500, 1000), RAWE_REASSEMBLY_MORE);
}
