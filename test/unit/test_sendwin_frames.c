/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Tests of frames to send: their pool, and what batches know of their segments and data.
 */
#include <string.h>

#include "send/rawe_sendwin.h"
#include "unit_test.h"

#define COPY_MAX_BYTES 4000u

static struct rawe_txframe_pool pool;

/** Take frames of a size until there are none. Returns how many, linked through `next`. */
static unsigned drain(size_t payload_bytes, struct rawe_txframe **list)
{
    unsigned count = 0;
    struct rawe_txframe *frame;
    while ((frame = rawe_txframe_take(&pool, payload_bytes)) != NULL) {
        frame->next = *list;
        *list = frame;
        count++;
    }
    return count;
}

static void give_all(struct rawe_txframe *list)
{
    while (list != NULL) {
        struct rawe_txframe *next = list->next;
        rawe_txframe_give(&pool, list);
        list = next;
    }
}

static void set_up(void)
{
    rawe_txframe_pool_init(&pool, COPY_MAX_BYTES, 1000);
}

static void tear_down(void)
{
    rawe_txframe_pool_free(&pool);
    assert_int_equal(pool.allocated, 0);
}

FIXTURE(set_up, tear_down);

/** Time passes in which the pool is looked at, as an engine does. */
static void seconds(unsigned count)
{
    for (uint64_t end_ns = pool.trim_ns + count * 1000000000ull; pool.trim_ns < end_ns;) {
        rawe_txframe_pool_trim(&pool, pool.trim_ns);
    }
}

/** Memory that a burst to many slow peers took. */
TEST(rawe_txframe_pool_trim__gives_back_what_a_burst_took)
{
    static const size_t sizes[] = {10, COPY_MAX_BYTES};
    rawe_txframe_pool_init(&pool, COPY_MAX_BYTES, 100000);
    for (unsigned rounds = 0; rounds < 3; rounds++) {
        struct rawe_txframe *most = NULL, *some = NULL;
        for (unsigned i = 0; i < 5000; i++) {
            struct rawe_txframe *frame = rawe_txframe_take(&pool, sizes[i % 2]);
            assert_non_null(frame);
            struct rawe_txframe **list = &most;
            if (i % 500 == 0) {
                list = &some;
            }
            frame->next = *list;
            *list = frame;
        }
        seconds(10);
        assert_true(pool.allocated >= 5000);
        give_all(most);
        assert_true(pool.allocated >= 5000); /* the next burst may follow at once */
        seconds(5);
        /* Each of the frames in use holds its slab. */
        assert_in_range(pool.allocated, 10, 10 * 64);
        give_all(some);
        seconds(5);
        assert_true(pool.allocated <= 1024);
    }
}

/** One slab of each size is had whatever the limit: also after all of that size were given back. */
TEST(rawe_txframe_pool_trim__a_size_that_was_given_back_is_had_again)
{
    struct rawe_txframe *small = NULL, *large = NULL;
    rawe_txframe_pool_init(&pool, COPY_MAX_BYTES, 2048);
    assert_true(drain(COPY_MAX_BYTES, &large) >= 2048);
    give_all(large);
    seconds(10);
    assert_true(drain(10, &small) >= 1024);
    struct rawe_txframe *frame = rawe_txframe_take(&pool, COPY_MAX_BYTES);
    assert_non_null(frame);
    rawe_txframe_give(&pool, frame);
    give_all(small);
}

TEST(rawe_txframe_pool_trim__keeps_what_is_used_often)
{
    rawe_txframe_pool_init(&pool, COPY_MAX_BYTES, 5000);
    for (unsigned rounds = 0; rounds < 10; rounds++) {
        struct rawe_txframe *list = NULL;
        assert_true(drain(10, &list) >= 5000);
        seconds(1);
        give_all(list);
        seconds(2);
        assert_true(pool.allocated >= 5000);
    }
}

TEST(rawe_txframe_pool_grow__stops_at_the_limit)
{
    rawe_txframe_pool_init(&pool, COPY_MAX_BYTES, 200);
    struct rawe_txframe *list = NULL;
    unsigned count = drain(10, &list);
    /* It grows by the slab: the limit is passed by less than one of them. */
    assert_in_range(count, 200, 200 + 63);
    assert_int_equal(pool.allocated, count);
    assert_false(rawe_txframe_pool_grow(&pool, false));
    struct rawe_txframe *one = list;
    list = list->next;
    rawe_txframe_give(&pool, one);
    assert_ptr_equal(rawe_txframe_take(&pool, 10), one);
    rawe_txframe_give(&pool, one);
    give_all(list);
}

TEST(rawe_txframe_pool_grow__one_size_cannot_starve_the_other)
{
    for (unsigned large_first = 0; large_first < 2; large_first++) {
        struct rawe_txframe *list = NULL, *others = NULL;
        rawe_txframe_pool_init(&pool, COPY_MAX_BYTES, 100);
        drain(large_first ? COPY_MAX_BYTES : 10, &list);
        unsigned count = drain(large_first ? 10 : COPY_MAX_BYTES, &others);
        assert_true(count > 0);
        assert_false(rawe_txframe_pool_grow(&pool, false));
        assert_false(rawe_txframe_pool_grow(&pool, true));
        give_all(list);
        give_all(others);
        rawe_txframe_pool_free(&pool);
    }
}

TEST(rawe_txframe_take__buffer_holds_what_was_asked_for)
{
    static const size_t sizes[] = {0, 1, RAWE_TXFRAME_SMALL_BYTES, RAWE_TXFRAME_SMALL_BYTES + 1,
                                   COPY_MAX_BYTES};
    enum { EACH = 150 }; /* more than two slabs */
    static struct rawe_txframe *frames[sizeof(sizes) / sizeof(sizes[0])][EACH];
    for (size_t s = 0; s < sizeof(sizes) / sizeof(sizes[0]); s++) {
        for (unsigned i = 0; i < EACH; i++) {
            struct rawe_txframe *frame = rawe_txframe_take(&pool, sizes[s]);
            assert_non_null(frame);
            assert_int_equal(frame->large, sizes[s] > RAWE_TXFRAME_SMALL_BYTES);
            assert_int_equal((uintptr_t)(frame->buffer + RAWE_ETH_HEADER_BYTES) % 8, 0);
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
}

TEST(rawe_txframe_take__comes_clean)
{
    struct rawe_txframe *frame = rawe_txframe_take(&pool, 10);
    assert_non_null(frame);
    frame->send = (struct rawe_send *)(void *)&pool;
    frame->external_count = 2;
    frame->sendings = 7;
    frame->flags = RAWE_FLAG_ACK_NOW;
    frame->segments = RAWE_BATCH_FRAMES_MAX;
    frame->segment_bytes = 1000;
    rawe_txframe_give(&pool, frame);
    assert_ptr_equal(rawe_txframe_take(&pool, 10), frame);
    assert_null(frame->send);
    assert_int_equal(frame->external_count, 0);
    assert_int_equal(frame->sendings, 0);
    assert_int_equal(frame->flags, 0);
    assert_int_equal(frame->segments, 1); /* no batch */
    assert_int_equal(frame->segment_bytes, 0);
    rawe_txframe_give(&pool, frame);
}

TEST(rawe_txframe_in_flight__sent_and_neither_arrived_nor_lost)
{
    const struct rawe_txframe frame = {
        .segments = 6, .sent = 0x1F, .arrived = 0x05, .to_send = 0x28, /* lost, and never sent */
    };
    assert_true(rawe_txframe_in_flight(&frame) == 0x12);
}

TEST(rawe_txframe_sent_ns__of_the_newest_sending)
{
    struct rawe_txframe frame = {.segments = 4, .first = {10, 20}, .again = {30, 40}};
    assert_true(rawe_txframe_sent_ns(&frame) == 20); /* nothing of this life was sent again */
    frame.resent = 1;
    assert_true(rawe_txframe_sent_ns(&frame) == 40);
    frame.first.newest_ns = 50;
    assert_true(rawe_txframe_sent_ns(&frame) == 50);
}

/** Every range of data in pieces of these lengths is found, and nothing else. */
static void check_ranges(size_t first_bytes, size_t second_bytes)
{
    uint8_t first[8];
    uint8_t second[8];
    size_t total_bytes = first_bytes + second_bytes;
    struct rawe_txframe frame = {.external = {{first, first_bytes}, {second, second_bytes}}};
    frame.external_count = second_bytes != 0 ? 2 : first_bytes != 0;
    for (size_t at = 0; at <= total_bytes; at++) {
        for (size_t len_bytes = 0; at + len_bytes <= total_bytes; len_bytes++) {
            struct rawe_bytes pieces[2];
            unsigned count =
                rawe_bytes_range(frame.external, frame.external_count, at, len_bytes, pieces);
            size_t found_bytes = 0;
            for (unsigned i = 0; i < count; i++) {
                assert_int_not_equal(pieces[i].len_bytes, 0);
                for (size_t k = 0; k < pieces[i].len_bytes; k++, found_bytes++) {
                    size_t index = at + found_bytes;
                    assert_ptr_equal((uint8_t *)pieces[i].base + k,
                                     index < first_bytes ? &first[index]
                                                         : &second[index - first_bytes]);
                }
            }
            assert_int_equal(found_bytes, len_bytes);
        }
    }
}

TEST(rawe_bytes_range__every_range_of_two_pieces)
{
    check_ranges(0, 0);
    for (size_t first_bytes = 1; first_bytes <= 5; first_bytes++) {
        for (size_t second_bytes = 0; second_bytes <= 5; second_bytes++) {
            check_ranges(first_bytes, second_bytes);
        }
    }
}
