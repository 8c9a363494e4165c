/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Tests of the acknowledgement tracker, with most cases run at the start and across the wrap of
 * the sequence numbers.
 */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "receive/rawe_acktr.h"
#include "base/rawe_wire.h"
#include "unit_test.h"

static const uint32_t starts[] = {
    0, 1000, 0x7FFFFFF0, UINT32_MAX, UINT32_MAX - 5, UINT32_MAX - RAWE_WINDOW_FRAMES_MAX + 1};
#define STARTS (sizeof(starts) / sizeof(starts[0]))

static void start_at(struct rawe_acktr *acktr, uint32_t next)
{
    rawe_acktr_init(acktr);
    acktr->next = next;
}

TEST(rawe_sequence_shortly_before__by_a_window_at_most)
{
    for (unsigned i = 0; i < STARTS; i++) {
        uint32_t end = starts[i];
        assert_true(rawe_sequence_shortly_before(end - 1, end));
        assert_true(rawe_sequence_shortly_before(end - RAWE_WINDOW_FRAMES_MAX, end));
        assert_false(rawe_sequence_shortly_before(end - RAWE_WINDOW_FRAMES_MAX - 1, end));
        assert_false(rawe_sequence_shortly_before(end, end));
        assert_false(rawe_sequence_shortly_before(end + 0x80000000, end));
        assert_false(rawe_sequence_shortly_before(end + 0x80000001, end));
    }
}

TEST(rawe_acktr_init__expects_sequence_zero)
{
    struct rawe_acktr acktr;
    memset(&acktr, 0xEE, sizeof(acktr));
    rawe_acktr_init(&acktr);
    assert_int_equal(acktr.next, 0);
    assert_int_equal(acktr.beyond, 0);
    assert_int_equal(rawe_acktr_check(&acktr, 0), RAWE_ACKTR_NEW);
}

TEST(rawe_acktr_check__window_and_what_lies_around_it)
{
    for (size_t s = 0; s < STARTS; s++) {
        struct rawe_acktr acktr;
        uint32_t start = starts[s];
        start_at(&acktr, start);
        assert_int_equal(rawe_acktr_check(&acktr, start), RAWE_ACKTR_NEW);
        assert_int_equal(rawe_acktr_check(&acktr, start + RAWE_WINDOW_FRAMES_MAX - 1),
                         RAWE_ACKTR_NEW);
        assert_int_equal(rawe_acktr_check(&acktr, start + RAWE_WINDOW_FRAMES_MAX),
                         RAWE_ACKTR_OUTSIDE);
        assert_int_equal(rawe_acktr_check(&acktr, start + 0x7FFFFFFF), RAWE_ACKTR_OUTSIDE);
        assert_int_equal(rawe_acktr_check(&acktr, start - 1), RAWE_ACKTR_DUPLICATE);
        assert_int_equal(rawe_acktr_check(&acktr, start - 0x7FFFFFFF), RAWE_ACKTR_DUPLICATE);
    }
}

TEST(rawe_acktr_check__changes_nothing)
{
    struct rawe_acktr acktr, before;
    start_at(&acktr, 10);
    rawe_acktr_take(&acktr, 13);
    before = acktr;
    for (uint32_t sequence = 0; sequence < 2000; sequence++) {
        (void)rawe_acktr_check(&acktr, sequence);
    }
    assert_memory_equal(&acktr, &before, sizeof(acktr));
}

TEST(rawe_acktr_take__in_order)
{
    for (size_t s = 0; s < STARTS; s++) {
        struct rawe_acktr acktr;
        start_at(&acktr, starts[s]);
        for (uint32_t i = 0; i < 3000; i++) {
            assert_int_equal(rawe_acktr_check(&acktr, starts[s] + i), RAWE_ACKTR_NEW);
            rawe_acktr_take(&acktr, starts[s] + i);
            assert_int_equal(rawe_acktr_check(&acktr, starts[s] + i), RAWE_ACKTR_DUPLICATE);
            assert_int_equal(acktr.next, starts[s] + i + 1);
            assert_int_equal(acktr.beyond, 0);
        }
    }
}

TEST(rawe_acktr_take__a_hole_is_filled)
{
    for (size_t s = 0; s < STARTS; s++) {
        struct rawe_acktr acktr;
        uint32_t start = starts[s];
        start_at(&acktr, start);
        rawe_acktr_take(&acktr, start + 1);
        rawe_acktr_take(&acktr, start + 2);
        rawe_acktr_take(&acktr, start + 4);
        assert_int_equal(acktr.next, start);
        assert_int_equal(acktr.beyond, 3);
        assert_int_equal(rawe_acktr_check(&acktr, start), RAWE_ACKTR_NEW);
        assert_int_equal(rawe_acktr_check(&acktr, start + 2), RAWE_ACKTR_DUPLICATE);
        assert_int_equal(rawe_acktr_check(&acktr, start + 3), RAWE_ACKTR_NEW);
        rawe_acktr_take(&acktr, start);
        assert_int_equal(acktr.next, start + 3);
        assert_int_equal(acktr.beyond, 1);
        rawe_acktr_take(&acktr, start + 3);
        assert_int_equal(acktr.next, start + 5);
        assert_int_equal(acktr.beyond, 0);
    }
}

TEST(rawe_acktr_take__a_whole_window_backwards)
{
    for (size_t s = 0; s < STARTS; s++) {
        struct rawe_acktr acktr;
        start_at(&acktr, starts[s]);
        for (uint32_t i = RAWE_WINDOW_FRAMES_MAX; i-- > 0;) {
            assert_int_equal(rawe_acktr_check(&acktr, starts[s] + i), RAWE_ACKTR_NEW);
            rawe_acktr_take(&acktr, starts[s] + i);
        }
        assert_int_equal(acktr.next, starts[s] + RAWE_WINDOW_FRAMES_MAX);
        assert_int_equal(acktr.beyond, 0);
        /* Nothing of it must stick in the ring for the next round. */
        for (uint32_t i = RAWE_WINDOW_FRAMES_MAX; i < 2 * RAWE_WINDOW_FRAMES_MAX; i++) {
            assert_int_equal(rawe_acktr_check(&acktr, starts[s] + i), RAWE_ACKTR_NEW);
        }
    }
}

TEST(rawe_acktr_take__random_order_accepts_each_once)
{
    enum { COUNT = 20000, SPAN = 1000 };
    for (size_t s = 0; s < STARTS; s++) {
        struct rawe_acktr acktr;
        uint8_t *seen = calloc(COUNT + SPAN, 1);
        assert_non_null(seen);
        uint32_t random = (uint32_t)s + 1, base = 0;
        start_at(&acktr, starts[s]);
        while (base < COUNT) {
            random = random * 1664525u + 1013904223u;
            uint32_t at = base + (random >> 8) % SPAN;
            if (at - base > SPAN / 2 && base > SPAN && (random & 1) != 0) {
                at = base - SPAN / 2; /* long past */
            }
            enum rawe_acktr_verdict verdict = rawe_acktr_check(&acktr, starts[s] + at);
            assert_int_equal(verdict, seen[at] ? RAWE_ACKTR_DUPLICATE : RAWE_ACKTR_NEW);
            if (verdict == RAWE_ACKTR_NEW) {
                rawe_acktr_take(&acktr, starts[s] + at);
                seen[at] = 1;
            }
            if ((random >> 4) % 16 == 0 && !seen[base]) {
                rawe_acktr_take(&acktr, starts[s] + base);
                seen[base] = 1;
            }
            while (base < COUNT + SPAN && seen[base]) {
                base++;
            }
            assert_int_equal(acktr.next, starts[s] + base);
        }
        free(seen);
    }
}

TEST(rawe_acktr_sack__nothing_missing)
{
    struct rawe_acktr acktr;
    uint8_t out[RAWE_SACK_BYTES_MAX];
    start_at(&acktr, 5);
    assert_int_equal(rawe_acktr_sack(&acktr, out), 0);
    rawe_acktr_take(&acktr, 5);
    assert_int_equal(rawe_acktr_sack(&acktr, out), 0);
}

TEST(rawe_acktr_sack__bit_zero_is_the_one_behind_the_missing)
{
    for (size_t s = 0; s < STARTS; s++) {
        struct rawe_acktr acktr;
        uint8_t out[RAWE_SACK_BYTES_MAX];
        start_at(&acktr, starts[s]);
        rawe_acktr_take(&acktr, starts[s] + 1);
        assert_int_equal(rawe_acktr_sack(&acktr, out), 1);
        assert_int_equal(out[0], 0x01);
        rawe_acktr_take(&acktr, starts[s] + 8);
        assert_int_equal(rawe_acktr_sack(&acktr, out), 1);
        assert_int_equal(out[0], 0x81);
        rawe_acktr_take(&acktr, starts[s] + 9);
        assert_int_equal(rawe_acktr_sack(&acktr, out), 2);
        assert_int_equal(out[0], 0x81);
        assert_int_equal(out[1], 0x01);
    }
}

TEST(rawe_acktr_sack__the_largest_block)
{
    for (size_t s = 0; s < STARTS; s++) {
        struct rawe_acktr acktr;
        uint8_t *out = malloc(RAWE_SACK_BYTES_MAX);
        assert_non_null(out);
        start_at(&acktr, starts[s]);
        rawe_acktr_take(&acktr, starts[s] + RAWE_WINDOW_FRAMES_MAX - 1);
        assert_int_equal(rawe_acktr_sack(&acktr, out), RAWE_SACK_BYTES_MAX);
        for (unsigned i = 0; i < RAWE_SACK_BYTES_MAX - 1; i++) {
            assert_int_equal(out[i], 0);
        }
        assert_int_equal(out[RAWE_SACK_BYTES_MAX - 1], 0x40); /* bit 1022 */
        for (uint32_t i = 1; i < RAWE_WINDOW_FRAMES_MAX - 1; i++) {
            rawe_acktr_take(&acktr, starts[s] + i);
        }
        assert_int_equal(rawe_acktr_sack(&acktr, out), RAWE_SACK_BYTES_MAX);
        for (unsigned i = 0; i < RAWE_SACK_BYTES_MAX - 1; i++) {
            assert_int_equal(out[i], 0xFF);
        }
        assert_int_equal(out[RAWE_SACK_BYTES_MAX - 1], 0x7F);
        free(out);
    }
}

TEST(rawe_acktr_sack__follows_the_moving_acknowledgement)
{
    struct rawe_acktr acktr;
    uint8_t out[RAWE_SACK_BYTES_MAX];
    start_at(&acktr, UINT32_MAX - 1);
    rawe_acktr_take(&acktr, UINT32_MAX); /* + 1 */
    rawe_acktr_take(&acktr, 3);          /* + 5 */
    assert_int_equal(rawe_acktr_sack(&acktr, out), 1);
    assert_int_equal(out[0], 0x11);
    rawe_acktr_take(&acktr, UINT32_MAX - 1); /* next is 0 now */
    assert_int_equal(acktr.next, 0);
    assert_int_equal(rawe_acktr_sack(&acktr, out), 1);
    assert_int_equal(out[0], 0x04);
}
