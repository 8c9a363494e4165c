/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Tests of reassembly and of the buffer pool behind it.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "rawe_reassembly.h"

static struct rawe_buffer_pool pool;
static struct rawe_reassembly reassembly;
static uint8_t message[1000];

static int set_up(void **state)
{
    (void)state;
    memset(&reassembly, 0, sizeof(reassembly));
    rawe_buffer_pool_init(&pool, sizeof(message), 8);
    for (size_t i = 0; i < sizeof(message); i++) {
        message[i] = (uint8_t)(i * 7 + i / 256);
    }
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    rawe_reassembly_clear(&reassembly, &pool);
    rawe_buffer_pool_free(&pool);
    return pool.allocated == 0 ? 0 : -1;
}

static enum rawe_reassembly_result add(uint32_t number, uint32_t offset, uint16_t data_bytes,
                                       uint32_t total_bytes, struct rawe_partial *whole)
{
    struct rawe_chunk chunk = {
        .kind = RAWE_CHUNK_SEGMENT,
        .tag = 9,
        .data_bytes = data_bytes,
        .id = number,
        .offset = offset,
        .total_bytes = total_bytes,
        .data = message + offset,
    };
    return rawe_reassembly_add(&reassembly, &pool, &chunk, whole);
}

static void assert_whole(const struct rawe_partial *whole, uint32_t number, uint32_t total_bytes)
{
    assert_int_equal(whole->number, number);
    assert_int_equal(whole->tag, 9);
    assert_int_equal(whole->total_bytes, total_bytes);
    assert_memory_equal(whole->buffer, message, total_bytes);
    rawe_buffer_give(&pool, whole->buffer);
}

static void rawe_buffer_pool_init__a_buffer_holds_at_least_a_link(void **state)
{
    (void)state;
    struct rawe_buffer_pool tiny;
    rawe_buffer_pool_init(&tiny, 1, 1);
    void *buffer = rawe_buffer_take(&tiny);
    assert_non_null(buffer);
    rawe_buffer_give(&tiny, buffer); /* writes a pointer: the address sanitizer watches */
    rawe_buffer_pool_free(&tiny);
    assert_int_equal(tiny.allocated, 0);
}

static void rawe_buffer_take__up_to_the_limit_and_reuses(void **state)
{
    (void)state;
    void *buffers[8];
    for (unsigned i = 0; i < 8; i++) {
        buffers[i] = rawe_buffer_take(&pool);
        assert_non_null(buffers[i]);
        memset(buffers[i], (int)i, sizeof(message));
    }
    assert_null(rawe_buffer_take(&pool));
    rawe_buffer_give(&pool, buffers[3]);
    assert_ptr_equal(rawe_buffer_take(&pool), buffers[3]);
    assert_int_equal(pool.allocated, 8);
    for (unsigned i = 0; i < 8; i++) {
        rawe_buffer_give(&pool, buffers[i]);
    }
}

static void rawe_reassembly_add__in_order(void **state)
{
    (void)state;
    struct rawe_partial whole = {0};
    assert_int_equal(add(0, 0, 400, 1000, &whole), RAWE_REASSEMBLY_MORE);
    assert_int_equal(add(0, 400, 400, 1000, &whole), RAWE_REASSEMBLY_MORE);
    assert_null(whole.buffer);
    assert_int_equal(add(0, 800, 200, 1000, &whole), RAWE_REASSEMBLY_WHOLE);
    assert_whole(&whole, 0, 1000);
}

static void rawe_reassembly_add__out_of_order_and_interleaved(void **state)
{
    (void)state;
    struct rawe_partial whole = {0};
    assert_int_equal(add(5, 900, 100, 1000, &whole), RAWE_REASSEMBLY_MORE);
    assert_int_equal(add(6, 1, 1, 2, &whole), RAWE_REASSEMBLY_MORE);
    assert_int_equal(add(5, 0, 500, 1000, &whole), RAWE_REASSEMBLY_MORE);
    assert_int_equal(add(6, 0, 1, 2, &whole), RAWE_REASSEMBLY_WHOLE);
    assert_whole(&whole, 6, 2);
    assert_int_equal(add(5, 500, 400, 1000, &whole), RAWE_REASSEMBLY_WHOLE);
    assert_whole(&whole, 5, 1000);
}

static void rawe_reassembly_add__one_segment_is_a_message(void **state)
{
    (void)state;
    struct rawe_partial whole = {0};
    assert_int_equal(add(1, 0, 1000, 1000, &whole), RAWE_REASSEMBLY_WHOLE);
    assert_whole(&whole, 1, 1000);
}

static void rawe_reassembly_add__message_numbers_wrap(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < 200; i++) {
        uint32_t number = UINT32_MAX - 100 + i;
        struct rawe_partial whole = {0};
        assert_int_equal(add(number, 10, 10, 20, &whole), RAWE_REASSEMBLY_MORE);
        assert_int_equal(add(number, 0, 10, 20, &whole), RAWE_REASSEMBLY_WHOLE);
        assert_whole(&whole, number, 20);
    }
    assert_int_equal(pool.allocated, 1);
}

static void rawe_reassembly_add__refuses_contradictions(void **state)
{
    (void)state;
    struct rawe_partial whole = {0};
    assert_int_equal(add(3, 0, 0, 1000, &whole), RAWE_REASSEMBLY_REFUSED); /* carries nothing */
    assert_int_equal(add(3, 0, 10, 1001, &whole), RAWE_REASSEMBLY_REFUSED); /* too long */
    assert_int_equal(pool.allocated, 0);
    assert_int_equal(add(3, 0, 600, 1000, &whole), RAWE_REASSEMBLY_MORE);
    assert_int_equal(add(3, 600, 10, 999, &whole), RAWE_REASSEMBLY_REFUSED); /* other length */
    assert_int_equal(add(3 + RAWE_REASSEMBLY_MESSAGES, 600, 10, 1000, &whole),
                     RAWE_REASSEMBLY_REFUSED); /* the slot is taken */
    assert_int_equal(add(3, 400, 401, 1000, &whole),
                     RAWE_REASSEMBLY_REFUSED); /* more bytes than the message has */
    struct rawe_chunk other_tag = {.kind = RAWE_CHUNK_SEGMENT,
                                   .tag = 10,
                                   .data_bytes = 400,
                                   .id = 3,
                                   .offset = 600,
                                   .total_bytes = 1000,
                                   .data = message};
    assert_int_equal(rawe_reassembly_add(&reassembly, &pool, &other_tag, &whole),
                     RAWE_REASSEMBLY_REFUSED);
    /* None of it has harmed the message. */
    assert_null(whole.buffer);
    assert_int_equal(add(3, 600, 400, 1000, &whole), RAWE_REASSEMBLY_WHOLE);
    assert_whole(&whole, 3, 1000);
}

static void rawe_reassembly_add__without_a_buffer_nothing_is_taken(void **state)
{
    (void)state;
    struct rawe_partial whole = {0};
    for (uint32_t number = 0; number < 8; number++) {
        assert_int_equal(add(number, 0, 500, 1000, &whole), RAWE_REASSEMBLY_MORE);
    }
    assert_int_equal(add(8, 0, 500, 1000, &whole), RAWE_REASSEMBLY_NO_BUFFER);
    assert_int_equal(add(2, 500, 500, 1000, &whole), RAWE_REASSEMBLY_WHOLE);
    assert_whole(&whole, 2, 1000);
    assert_int_equal(add(8, 0, 500, 1000, &whole), RAWE_REASSEMBLY_MORE);
    assert_int_equal(add(8, 500, 500, 1000, &whole), RAWE_REASSEMBLY_WHOLE);
    assert_whole(&whole, 8, 1000);
}

static void rawe_reassembly_clear__gives_all_buffers_back(void **state)
{
    (void)state;
    struct rawe_partial whole = {0};
    for (uint32_t number = 0; number < 8; number++) {
        assert_int_equal(add(number, 0, 500, 1000, &whole), RAWE_REASSEMBLY_MORE);
    }
    rawe_reassembly_clear(&reassembly, &pool);
    rawe_reassembly_clear(&reassembly, &pool);
    rawe_buffer_pool_free(&pool);
    assert_int_equal(pool.allocated, 0);
    /* What was half there is forgotten. */
    assert_int_equal(add(0, 500, 500, 1000, &whole), RAWE_REASSEMBLY_MORE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rawe_buffer_pool_init__a_buffer_holds_at_least_a_link),
        cmocka_unit_test_setup_teardown(rawe_buffer_take__up_to_the_limit_and_reuses, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(rawe_reassembly_add__in_order, set_up, tear_down),
        cmocka_unit_test_setup_teardown(rawe_reassembly_add__out_of_order_and_interleaved, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(rawe_reassembly_add__one_segment_is_a_message, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(rawe_reassembly_add__message_numbers_wrap, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(rawe_reassembly_add__refuses_contradictions, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(rawe_reassembly_add__without_a_buffer_nothing_is_taken,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(rawe_reassembly_clear__gives_all_buffers_back, set_up,
                                        tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
