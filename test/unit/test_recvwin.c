/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Tests of the receive window: which frames have arrived, and the acknowledgements owed for them.
 * Many tests start at several sequence numbers, including some just before the wrap.
 */
#include <stdlib.h>
#include <string.h>

#include "base/rawe_wire.h"
#include "receive/rawe_recvwin.h"
#include "unit_alloc.h"
#include "unit_test.h"

static const uint32_t starts[] = {
    0, 1000, 0x7FFFFFF0, UINT32_MAX, UINT32_MAX - 5, UINT32_MAX - RAWE_WINDOW_FRAMES_MAX + 1};
#define STARTS (sizeof(starts) / sizeof(starts[0]))

static struct rawe_recvwin window;

static void start_at(uint32_t next)
{
    rawe_recvwin_reset(&window, next);
}

static void take(uint32_t sequence)
{
    assert_true(rawe_recvwin_reserve(&window, sequence));
    rawe_recvwin_take(&window, sequence);
}

TEST(rawe_recvwin_check__window_and_what_lies_around_it)
{
    for (size_t s = 0; s < STARTS; s++) {
        uint32_t start = starts[s];
        start_at(start);
        assert_int_equal(rawe_recvwin_check(&window, start), RAWE_RECVWIN_NEW);
        assert_int_equal(rawe_recvwin_check(&window, start + RAWE_WINDOW_FRAMES_MAX - 1),
                         RAWE_RECVWIN_NEW);
        assert_int_equal(rawe_recvwin_check(&window, start + RAWE_WINDOW_FRAMES_MAX),
                         RAWE_RECVWIN_OUTSIDE);
        assert_int_equal(rawe_recvwin_check(&window, start + 0x7FFFFFFF), RAWE_RECVWIN_OUTSIDE);
        assert_int_equal(rawe_recvwin_check(&window, start - 1), RAWE_RECVWIN_DUPLICATE);
        assert_int_equal(rawe_recvwin_check(&window, start - 0x7FFFFFFF), RAWE_RECVWIN_DUPLICATE);
    }
}

TEST(rawe_recvwin_reserve__memory_only_while_something_is_missing)
{
    start_at(10);
    assert_true(rawe_recvwin_reserve(&window, 10));
    assert_null(window.taken);
    take(12);
    const uint64_t *taken = window.taken;
    assert_non_null(taken);
    take(13);
    take(10);
    assert_ptr_equal(window.taken, taken); /* 11 is still missing */
    take(11);
    assert_null(window.taken);
    assert_int_equal(window.next, 14);
}

TEST(rawe_recvwin_reserve__without_memory)
{
    start_at(10);
    unit_allocations_left = 0;
    assert_false(rawe_recvwin_reserve(&window, 11));
    assert_true(rawe_recvwin_reserve(&window, 10));
    assert_int_equal(rawe_recvwin_check(&window, 11), RAWE_RECVWIN_NEW);
    unit_allocations_left = 1;
    take(11);
    take(12); /* reuses the memory */
}

TEST(rawe_recvwin_sack__the_largest_block)
{
    for (size_t s = 0; s < STARTS; s++) {
        uint8_t *out = malloc(RAWE_SACK_BYTES_MAX);
        assert_non_null(out);
        start_at(starts[s]);
        take(starts[s] + RAWE_WINDOW_FRAMES_MAX - 1);
        assert_int_equal(rawe_recvwin_sack(&window, out), RAWE_SACK_BYTES_MAX);
        for (unsigned i = 0; i < RAWE_SACK_BYTES_MAX - 1; i++) {
            assert_int_equal(out[i], 0);
        }
        assert_int_equal(out[RAWE_SACK_BYTES_MAX - 1], 0x40); /* bit 1022 */
        for (uint32_t i = 1; i < RAWE_WINDOW_FRAMES_MAX - 1; i++) {
            take(starts[s] + i);
        }
        assert_int_equal(rawe_recvwin_sack(&window, out), RAWE_SACK_BYTES_MAX);
        for (unsigned i = 0; i < RAWE_SACK_BYTES_MAX - 1; i++) {
            assert_int_equal(out[i], 0xFF);
        }
        assert_int_equal(out[RAWE_SACK_BYTES_MAX - 1], 0x7F);
        free(out);
    }
}

#define FIRST (UINT32_MAX - 1) /* sequence numbers wrap */
#define US 1000ull
#define NOW (1000 * US)
#define DELAY (50 * US)
#define CREDIT 40u

static void set_up(void)
{
    unit_allocations_left = -1;
    memset(&window, 0, sizeof(window));
    rawe_recvwin_reset(&window, FIRST);
}

static void tear_down(void)
{
    unit_allocations_left = -1;
    rawe_recvwin_reset(&window, 0);
}

static void assert_nothing_owed(void)
{
    assert_false(rawe_recvwin_due(&window));
    assert_true(window.ack_deadline_ns == 0);
    assert_int_equal(window.unacked_frames, 0);
    assert_false(rawe_recvwin_expire(&window, UINT64_MAX));
}

/** Make the window owe every kind of acknowledgement. */
static void owe_everything(void)
{
    rawe_recvwin_take_in_order(&window, 1);
    (void)rawe_recvwin_owe(&window, false, CREDIT, DELAY, NOW);
    (void)rawe_recvwin_owe(&window, true, CREDIT, DELAY, NOW);
    rawe_recvwin_owe_answer(&window, 9);
    assert_true(window.ack_now && window.answer_probe && window.ack_deadline_ns != 0 &&
                window.unacked_frames == 1);
}

FIXTURE(set_up, tear_down);

TEST(rawe_recvwin_reset__forgets_what_came_and_what_is_owed)
{
    owe_everything();
    take(FIRST + 5);
    assert_true(rawe_recvwin_has_gap(&window));
    rawe_recvwin_reset(&window, 77);
    assert_null(window.taken);
    assert_int_equal(window.next, 77);
    assert_false(rawe_recvwin_has_gap(&window));
    for (uint32_t sequence = 77; sequence < 77 + RAWE_WINDOW_FRAMES_MAX; sequence++) {
        assert_int_equal(rawe_recvwin_check(&window, sequence), RAWE_RECVWIN_NEW);
    }
    assert_nothing_owed();
}

TEST(rawe_recvwin_take_in_order__many_at_once)
{
    rawe_recvwin_take_in_order(&window, 30);
    rawe_recvwin_take_in_order(&window, 12);
    assert_int_equal(window.next, FIRST + 42);
    assert_int_equal(window.unacked_frames, 42);
    assert_int_equal(rawe_recvwin_check(&window, FIRST + 41), RAWE_RECVWIN_DUPLICATE);
    assert_int_equal(rawe_recvwin_check(&window, FIRST + 42), RAWE_RECVWIN_NEW);
}

TEST(rawe_recvwin_owe__every_quarter_of_the_credit)
{
    static const uint32_t credits[] = {0, 4, 8, 11, 12, 16, 40, 256};
    static const uint32_t every[] = {2, 2, 2, 2, 3, 4, 10, 64};
    for (unsigned i = 0; i < sizeof(credits) / sizeof(credits[0]); i++) {
        rawe_recvwin_take_in_order(&window, every[i] - 1);
        assert_false(rawe_recvwin_owe(&window, false, credits[i], DELAY, NOW));
        assert_false(rawe_recvwin_due(&window));
        rawe_recvwin_take_in_order(&window, 1);
        assert_true(rawe_recvwin_owe(&window, false, credits[i], DELAY, NOW));
        assert_true(rawe_recvwin_due(&window));
        rawe_recvwin_acknowledged(&window);
    }
}

TEST(rawe_recvwin_owe__every_fourth_frame_while_one_is_missing)
{
    static const uint32_t credits[] = {4, 16, 256};
    uint32_t sequence = FIRST + 1;
    for (unsigned i = 0; i < sizeof(credits) / sizeof(credits[0]); i++) {
        for (unsigned frame = 1; frame <= 4; frame++) {
            take(sequence++);
            assert_int_equal(rawe_recvwin_owe(&window, false, credits[i], DELAY, NOW), frame == 4);
        }
        rawe_recvwin_acknowledged(&window);
    }
}

TEST(rawe_recvwin_owe_answer__to_the_newest_probe)
{
    rawe_recvwin_owe_answer(&window, 4);
    assert_true(rawe_recvwin_due(&window));
    assert_false(window.ack_now);
    rawe_recvwin_owe_answer(&window, 5);
    assert_int_equal(window.answer_number, 5);
    rawe_recvwin_owe_answer(&window, 0); /* any acknowledgement will do */
    assert_int_equal(window.answer_number, 5);
    window.duplicate_seen = true;
    rawe_recvwin_acknowledged(&window);
    assert_false(window.duplicate_seen);
    rawe_recvwin_owe_answer(&window, 0);
    assert_int_equal(window.answer_number, 0);
    rawe_recvwin_acknowledged(&window);
    assert_nothing_owed();
}

TEST(rawe_recvwin_carried__by_a_data_frame)
{
    rawe_recvwin_take_in_order(&window, 3);
    (void)rawe_recvwin_owe(&window, false, CREDIT, DELAY, NOW);
    (void)rawe_recvwin_owe(&window, true, CREDIT, DELAY, NOW);
    rawe_recvwin_carried(&window);
    assert_nothing_owed();
    rawe_recvwin_take_in_order(&window, 1); /* count and delay start again */
    assert_false(rawe_recvwin_owe(&window, false, 8, DELAY, NOW + 500 * US));
    assert_true(window.ack_deadline_ns == NOW + 500 * US + DELAY);
}

TEST(rawe_recvwin_carried__no_sack_block_and_no_answer)
{
    take(FIRST + 1);
    (void)rawe_recvwin_owe(&window, false, CREDIT, DELAY, NOW);
    (void)rawe_recvwin_owe(&window, true, CREDIT, DELAY, NOW);
    rawe_recvwin_carried(&window);
    assert_true(window.ack_now);
    assert_int_equal(window.unacked_frames, 1);
    assert_true(window.ack_deadline_ns == NOW + DELAY);
    take(FIRST);
    rawe_recvwin_owe_answer(&window, 9);
    rawe_recvwin_carried(&window);
    assert_false(window.ack_now);
    assert_true(rawe_recvwin_due(&window)); /* a data frame cannot carry the answer */
}

TEST(rawe_recvwin_acknowledged__nothing_is_owed)
{
    owe_everything();
    rawe_recvwin_acknowledged(&window);
    assert_nothing_owed();
    /* Nothing is owed for a gap, either: the acknowledgement carried the SACK block. */
    take(FIRST + 9);
    (void)rawe_recvwin_owe(&window, true, CREDIT, DELAY, NOW);
    rawe_recvwin_acknowledged(&window);
    assert_nothing_owed();
}
