/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Tests of the pool of frames to send.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "rawe_txframe.h"

#define COPY_MAX_BYTES 4000u

/** Take frames of a size until there are none. Returns how many, linked through `next`. */
static unsigned drain(struct rawe_txframe_pool *pool, size_t payload_bytes,
                      struct rawe_txframe **list)
{
    unsigned count = 0;
    struct rawe_txframe *frame;
    while ((frame = rawe_txframe_take(pool, payload_bytes)) != NULL) {
        frame->next = *list;
        *list = frame;
        count++;
    }
    return count;
}

static void give_all(struct rawe_txframe_pool *pool, struct rawe_txframe *list)
{
    while (list != NULL) {
        struct rawe_txframe *next = list->next;
        rawe_txframe_give(pool, list);
        list = next;
    }
}

static void rawe_txframe_pool_init__allocates_nothing(void **state)
{
    (void)state;
    struct rawe_txframe_pool pool;
    rawe_txframe_pool_init(&pool, COPY_MAX_BYTES, 1000);
    assert_int_equal(pool.allocated, 0);
    rawe_txframe_pool_free(&pool);
}

static void rawe_txframe_pool_free__frees_every_slab(void **state)
{
    (void)state;
    struct rawe_txframe_pool pool;
    struct rawe_txframe *list = NULL;
    rawe_txframe_pool_init(&pool, COPY_MAX_BYTES, 1000);
    assert_true(drain(&pool, 10, &list) >= 1000);
    give_all(&pool, list);
    rawe_txframe_pool_free(&pool); /* the leak sanitizer counts */
    assert_int_equal(pool.allocated, 0);
    /* And it can be used again. */
    struct rawe_txframe *frame = rawe_txframe_take(&pool, COPY_MAX_BYTES);
    assert_non_null(frame);
    rawe_txframe_give(&pool, frame);
    rawe_txframe_pool_free(&pool);
}

static void rawe_txframe_pool_grow__stops_at_the_limit(void **state)
{
    (void)state;
    struct rawe_txframe_pool pool;
    rawe_txframe_pool_init(&pool, COPY_MAX_BYTES, 200);
    struct rawe_txframe *list = NULL;
    unsigned count = drain(&pool, 10, &list);
    /* It grows by the slab: the limit is passed by less than one of them. */
    assert_in_range(count, 200, 200 + 63);
    assert_int_equal(pool.allocated, count);
    assert_false(rawe_txframe_pool_grow(&pool, false));
    struct rawe_txframe *one = list;
    list = list->next;
    rawe_txframe_give(&pool, one);
    assert_ptr_equal(rawe_txframe_take(&pool, 10), one);
    rawe_txframe_give(&pool, one);
    give_all(&pool, list);
    rawe_txframe_pool_free(&pool);
}

static void rawe_txframe_pool_grow__one_size_cannot_starve_the_other(void **state)
{
    (void)state;
    for (unsigned large_first = 0; large_first < 2; large_first++) {
        struct rawe_txframe_pool pool;
        struct rawe_txframe *list = NULL, *others = NULL;
        rawe_txframe_pool_init(&pool, COPY_MAX_BYTES, 100);
        drain(&pool, large_first ? COPY_MAX_BYTES : 10, &list);
        unsigned count = drain(&pool, large_first ? 10 : COPY_MAX_BYTES, &others);
        assert_true(count > 0);
        assert_false(rawe_txframe_pool_grow(&pool, false));
        assert_false(rawe_txframe_pool_grow(&pool, true));
        give_all(&pool, list);
        give_all(&pool, others);
        rawe_txframe_pool_free(&pool);
    }
}

static void rawe_txframe_take__buffer_holds_what_was_asked_for(void **state)
{
    (void)state;
    static const size_t sizes[] = {0, 1, RAWE_TXFRAME_SMALL_BYTES, RAWE_TXFRAME_SMALL_BYTES + 1,
                                   COPY_MAX_BYTES};
    struct rawe_txframe_pool pool;
    rawe_txframe_pool_init(&pool, COPY_MAX_BYTES, 1000);
    enum { EACH = 150 }; /* more than two slabs */
    static struct rawe_txframe *frames[sizeof(sizes) / sizeof(sizes[0])][EACH];
    for (size_t s = 0; s < sizeof(sizes) / sizeof(sizes[0]); s++) {
        for (unsigned i = 0; i < EACH; i++) {
            struct rawe_txframe *frame = rawe_txframe_take(&pool, sizes[s]);
            assert_non_null(frame);
            assert_int_equal(frame->large, sizes[s] > RAWE_TXFRAME_SMALL_BYTES);
            frame->sequence = (uint32_t)(s * EACH + i);
            memset(frame->buffer, (int)(s * 50 + i), RAWE_PAYLOAD_OFFSET + sizes[s]);
            frames[s][i] = frame;
        }
    }
    /* None lies over another. */
    for (size_t s = 0; s < sizeof(sizes) / sizeof(sizes[0]); s++) {
        for (unsigned i = 0; i < EACH; i++) {
            const struct rawe_txframe *frame = frames[s][i];
            assert_int_equal(frame->sequence, s * EACH + i);
            for (size_t at = 0; at < RAWE_PAYLOAD_OFFSET + sizes[s]; at++) {
                assert_int_equal(frame->buffer[at], (uint8_t)(s * 50 + i));
            }
            rawe_txframe_give(&pool, frames[s][i]);
        }
    }
    rawe_txframe_pool_free(&pool);
}

static void rawe_txframe_take__header_behind_ethernet_is_aligned(void **state)
{
    (void)state;
    struct rawe_txframe_pool pool;
    rawe_txframe_pool_init(&pool, COPY_MAX_BYTES, 1000);
    for (unsigned large = 0; large < 2; large++) {
        struct rawe_txframe *frame = rawe_txframe_take(&pool, large ? COPY_MAX_BYTES : 1);
        assert_non_null(frame);
        assert_int_equal((uintptr_t)(frame->buffer + RAWE_ETH_HEADER_BYTES) % 8, 0);
        rawe_txframe_give(&pool, frame);
    }
    rawe_txframe_pool_free(&pool);
}

static void rawe_txframe_take__comes_clean(void **state)
{
    (void)state;
    struct rawe_txframe_pool pool;
    rawe_txframe_pool_init(&pool, COPY_MAX_BYTES, 64);
    struct rawe_txframe *frame = rawe_txframe_take(&pool, 10);
    assert_non_null(frame);
    frame->send = (struct rawe_send *)(void *)&pool;
    frame->external_count = 2;
    frame->sendings = 7;
    frame->flags = RAWE_FLAG_ACK_NOW;
    rawe_txframe_give(&pool, frame);
    assert_ptr_equal(rawe_txframe_take(&pool, 10), frame);
    assert_null(frame->send);
    assert_int_equal(frame->external_count, 0);
    assert_int_equal(frame->sendings, 0);
    assert_int_equal(frame->flags, 0);
    rawe_txframe_give(&pool, frame);
    rawe_txframe_pool_free(&pool);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rawe_txframe_pool_init__allocates_nothing),
        cmocka_unit_test(rawe_txframe_pool_free__frees_every_slab),
        cmocka_unit_test(rawe_txframe_pool_grow__stops_at_the_limit),
        cmocka_unit_test(rawe_txframe_pool_grow__one_size_cannot_starve_the_other),
        cmocka_unit_test(rawe_txframe_take__buffer_holds_what_was_asked_for),
        cmocka_unit_test(rawe_txframe_take__header_behind_ethernet_is_aligned),
        cmocka_unit_test(rawe_txframe_take__comes_clean),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
