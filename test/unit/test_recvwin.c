/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Tests of the receive window: what is owed for what has come.
 */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "receive/rawe_recvwin.h"
#include "unit_alloc.h"
#include "unit_test.h"

#define FIRST (UINT32_MAX - 1) /* the numbers wrap */
#define US 1000ull
#define NOW (1000 * US)
#define DELAY (50 * US)
#define CREDIT 40u

static struct rawe_recvwin window;

static void set_up(void)
{
    unit_allocations_left = -1;
    memset(&window, 0, sizeof(window));
    rawe_recvwin_reset(&window, FIRST);
    assert_true(rawe_recvwin_allocate(&window, FIRST));
}

static void tear_down(void)
{
    unit_allocations_left = -1;
    rawe_recvwin_free(&window);
    assert_null(window.acktr);
}

static void assert_nothing_owed(void)
{
    assert_false(rawe_recvwin_due(&window));
    assert_true(window.ack_deadline_ns == 0);
    assert_int_equal(window.unacked_frames, 0);
    assert_false(rawe_recvwin_expire(&window, UINT64_MAX));
}

/** Everything that can be owed is owed. */
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

TEST(rawe_recvwin_reset__before_there_is_memory)
{
    struct rawe_recvwin other;
    memset(&other, 0xEE, sizeof(other));
    other.acktr = NULL;
    rawe_recvwin_reset(&other, 7);
    assert_null(other.acktr);
    assert_int_equal(rawe_recvwin_next(&other), 0);
    assert_false(other.ack_now);
    assert_false(other.answer_probe);
    assert_true(other.ack_deadline_ns == 0);
    assert_int_equal(other.unacked_frames, 0);
}

TEST(rawe_recvwin_reset__forgets_what_came_and_what_is_owed)
{
    const struct rawe_acktr *acktr = window.acktr;
    owe_everything();
    rawe_recvwin_take(&window, FIRST + 5);
    assert_true(rawe_recvwin_has_gap(&window));
    rawe_recvwin_reset(&window, 77);
    assert_ptr_equal(window.acktr, acktr);
    assert_int_equal(rawe_recvwin_next(&window), 77);
    assert_false(rawe_recvwin_has_gap(&window));
    for (uint32_t sequence = 77; sequence < 77 + RAWE_WINDOW_FRAMES_MAX; sequence++) {
        assert_int_equal(rawe_acktr_check(window.acktr, sequence), RAWE_ACKTR_NEW);
    }
    assert_nothing_owed();
}

TEST(rawe_recvwin_allocate__once)
{
    const struct rawe_acktr *acktr = window.acktr;
    assert_int_equal(rawe_recvwin_next(&window), FIRST);
    rawe_recvwin_take_in_order(&window, 1);
    assert_true(rawe_recvwin_allocate(&window, 1000));
    assert_ptr_equal(window.acktr, acktr);
    assert_int_equal(rawe_recvwin_next(&window), FIRST + 1);
}

TEST(rawe_recvwin_allocate__without_memory)
{
    rawe_recvwin_free(&window);
    unit_allocations_left = 0;
    assert_false(rawe_recvwin_allocate(&window, 5));
    assert_int_equal(rawe_recvwin_next(&window), 0);
    unit_allocations_left = -1;
    assert_true(rawe_recvwin_allocate(&window, 5));
    assert_int_equal(rawe_recvwin_next(&window), 5);
    assert_false(rawe_recvwin_has_gap(&window));
}

TEST(rawe_recvwin_take__in_order_and_beyond_a_gap)
{
    rawe_recvwin_take(&window, FIRST);
    assert_int_equal(rawe_recvwin_next(&window), UINT32_MAX);
    assert_int_equal(window.unacked_frames, 1);
    assert_false(rawe_recvwin_has_gap(&window));
    rawe_recvwin_take(&window, 0); /* UINT32_MAX is missing */
    assert_int_equal(rawe_recvwin_next(&window), UINT32_MAX);
    assert_int_equal(window.unacked_frames, 2);
    assert_true(rawe_recvwin_has_gap(&window));
    rawe_recvwin_take(&window, UINT32_MAX);
    assert_int_equal(rawe_recvwin_next(&window), 1);
    assert_int_equal(window.unacked_frames, 3);
    assert_false(rawe_recvwin_has_gap(&window));
}

TEST(rawe_recvwin_take_in_order__many_at_once)
{
    rawe_recvwin_take_in_order(&window, 30);
    rawe_recvwin_take_in_order(&window, 12);
    assert_int_equal(rawe_recvwin_next(&window), FIRST + 42);
    assert_int_equal(window.unacked_frames, 42);
    assert_int_equal(rawe_acktr_check(window.acktr, FIRST + 41), RAWE_ACKTR_DUPLICATE);
    assert_int_equal(rawe_acktr_check(window.acktr, FIRST + 42), RAWE_ACKTR_NEW);
}

TEST(rawe_recvwin_owe__after_the_delay_of_the_first_frame)
{
    rawe_recvwin_take_in_order(&window, 1);
    assert_false(rawe_recvwin_owe(&window, false, CREDIT, DELAY, NOW));
    assert_true(window.ack_deadline_ns == NOW + DELAY);
    rawe_recvwin_take_in_order(&window, 1);
    assert_false(rawe_recvwin_owe(&window, false, CREDIT, DELAY, NOW + 20 * US));
    assert_true(window.ack_deadline_ns == NOW + DELAY); /* later frames do not put it off */
    assert_false(rawe_recvwin_due(&window));
}

TEST(rawe_recvwin_owe__at_once_when_asked_for)
{
    rawe_recvwin_take_in_order(&window, 1);
    assert_true(rawe_recvwin_owe(&window, true, CREDIT, DELAY, NOW));
    assert_true(rawe_recvwin_due(&window));
    assert_true(window.ack_now);
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
            rawe_recvwin_take(&window, sequence++);
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
    rawe_recvwin_owe_answer(&window, 0); /* asks for any acknowledgement */
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
    rawe_recvwin_take_in_order(&window, 1); /* counting and waiting begin again */
    assert_false(rawe_recvwin_owe(&window, false, 8, DELAY, NOW + 500 * US));
    assert_true(window.ack_deadline_ns == NOW + 500 * US + DELAY);
}

TEST(rawe_recvwin_carried__no_sack_block_and_no_answer)
{
    rawe_recvwin_take(&window, FIRST + 1);
    (void)rawe_recvwin_owe(&window, false, CREDIT, DELAY, NOW);
    (void)rawe_recvwin_owe(&window, true, CREDIT, DELAY, NOW);
    rawe_recvwin_carried(&window);
    assert_true(window.ack_now);
    assert_int_equal(window.unacked_frames, 1);
    assert_true(window.ack_deadline_ns == NOW + DELAY);
    rawe_recvwin_take(&window, FIRST);
    rawe_recvwin_owe_answer(&window, 9);
    rawe_recvwin_carried(&window);
    assert_false(window.ack_now);
    assert_true(rawe_recvwin_due(&window)); /* a data frame has no place for the answer */
}

TEST(rawe_recvwin_acknowledged__nothing_is_owed)
{
    owe_everything();
    rawe_recvwin_acknowledged(&window);
    assert_nothing_owed();
    /* Also while something is missing: the SACK block went with it. */
    rawe_recvwin_take(&window, FIRST + 9);
    (void)rawe_recvwin_owe(&window, true, CREDIT, DELAY, NOW);
    rawe_recvwin_acknowledged(&window);
    assert_nothing_owed();
}

TEST(rawe_recvwin_expire__at_the_deadline_once)
{
    assert_false(rawe_recvwin_expire(&window, NOW)); /* none is owed */
    rawe_recvwin_take_in_order(&window, 1);
    (void)rawe_recvwin_owe(&window, false, CREDIT, DELAY, NOW);
    assert_false(rawe_recvwin_expire(&window, NOW + DELAY - 1));
    assert_false(rawe_recvwin_due(&window));
    assert_true(rawe_recvwin_expire(&window, NOW + DELAY));
    assert_true(rawe_recvwin_due(&window));
    assert_false(rawe_recvwin_expire(&window, NOW + 2 * DELAY));
    assert_true(rawe_recvwin_due(&window)); /* still, until it is sent */
}
