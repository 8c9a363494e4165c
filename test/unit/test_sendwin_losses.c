/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Tests of loss detection in the send window: evidence, the reordering window, what is resent
 * first.
 */
#include "unit_sendwin.h"

FIXTURE(set_up, tear_down);

TEST(rawe_sendwin_probe_answered__stands_for_what_was_in_flight)
{
    send_frames(3, NOW);
    send_frames(1, NOW + 99 * US);
    send_frames(1, NOW + 100 * US); /* in the same turn as the probe */
    rawe_sendwin_probe_answered(&window, NOW + 100 * US, NOW + 110 * US);
    assert_true(window.evidence_is_probe);
    assert_true(detect(NOW + 110 * US)); /* the fourth is undecided */
    assert_int_equal(lost_count, 3);
    assert_false(detect(NOW + 110 * US + REORDER));
    assert_int_equal(lost_count, 1);
    assert_int_equal(lost_indices[0], 3);
    assert_int_equal(state_of(FIRST + 4), SENT);
}

TEST(rawe_sendwin_probe_answered__counts_frames_sent_just_before)
{
    send_frames(2, NOW - 1);
    rawe_sendwin_probe_answered(&window, NOW, NOW + 10 * US);
    assert_false(detect(NOW + 10 * US + REORDER));
    assert_int_equal(lost_count, 2);
}

TEST(rawe_sendwin_probe_answered__an_older_answer_changes_nothing)
{
    send_frames(1, NOW);
    rawe_sendwin_probe_answered(&window, NOW + 20 * US, NOW + 30 * US);
    send_frames(1, NOW + 40 * US);
    rawe_sendwin_probe_answered(&window, NOW + 10 * US, NOW + 50 * US);
    assert_true(window.evidence_is_probe);
}

TEST(rawe_sendwin_probe_answered__a_frame_behind_it_is_better_evidence)
{
    send_frames(1, NOW);
    send_frames(1, NOW + 50 * US);
    struct rawe_sendwin_ack ack = ack_at(NOW + 60 * US);
    sack(1, 1, &ack);
    rawe_sendwin_probe_answered(&window, NOW + 20 * US, NOW + 70 * US);
    assert_false(window.evidence_is_probe);
    assert_int_equal(window.newest_delivered, FIRST + 1);
    assert_true(window.evidence_ns == NOW + 60 * US);
    rawe_sendwin_probe_answered(&window, NOW + 80 * US, NOW + 90 * US);
    assert_true(window.evidence_is_probe);
    send_frames(1, NOW + 100 * US);
    sack(2, 1, &ack);
    assert_false(window.evidence_is_probe);
}

TEST(rawe_sendwin_detect_losses__time_alone_is_no_evidence)
{
    send_frames(5, NOW);
    assert_false(detect(NOW + 1000000 * US));
    assert_int_equal(lost_count, 0);
    assert_counts(5, 0, 0);
}

TEST(rawe_sendwin_detect_losses__waits_for_the_reordering_window)
{
    send_frames(3, NOW);
    struct rawe_sendwin_ack ack = ack_at(NOW + 10 * US);
    sack(2, 1, &ack);
    assert_true(detect(NOW + 10 * US));
    assert_true(detect(NOW + 10 * US + REORDER - 1));
    assert_int_equal(lost_count, 0);
    assert_counts(2, 0, 1);
    assert_false(detect(NOW + 10 * US + REORDER));
    assert_int_equal(lost_count, 2);
    assert_int_equal(lost_indices[0], 0);
    assert_int_equal(lost_indices[1], 1);
    assert_counts(0, 2, 1);
    assert_false(detect(NOW + 1000 * US)); /* each is found once */
    assert_int_equal(lost_count, 0);
}

TEST(rawe_sendwin_detect_losses__at_once_when_sent_a_window_earlier)
{
    send_frames(1, NOW);
    send_frames(1, NOW + 1);
    send_frames(1, NOW + REORDER);
    struct rawe_sendwin_ack ack = ack_at(NOW + REORDER + 10 * US);
    sack(2, 1, &ack);
    assert_true(detect(NOW + REORDER + 10 * US));
    assert_int_equal(lost_count, 1);
    assert_int_equal(lost_indices[0], 0);
    assert_counts(1, 1, 1);
}

TEST(rawe_sendwin_detect_losses__in_one_turn_the_number_decides)
{
    send_frames(9, NOW);
    struct rawe_sendwin_ack ack = ack_at(NOW + 10 * US);
    sack(4, 1, &ack); /* across the wrap: frames before have numbers 2^32 - 3 to 0 */
    assert_false(detect(NOW + 10 * US + REORDER));
    assert_int_equal(lost_count, 4);
    for (unsigned i = 5; i < 9; i++) {
        assert_int_equal(state_of(FIRST + i), SENT);
    }
}

TEST(rawe_sendwin_detect_losses__a_resent_frame_of_that_turn_is_not_overtaken)
{
    send_frames(4, NOW);
    frames[1].resent = 1; /* may have left behind frames[3] */
    frames[1].again = frames[1].first;
    struct rawe_sendwin_ack ack = ack_at(NOW + 10 * US);
    sack(3, 1, &ack);
    assert_false(detect(NOW + 10 * US + REORDER));
    assert_int_equal(lost_count, 2);
    assert_int_equal(state_of(FIRST + 1), SENT);
    /* What was sent later than both decides. */
    send_frames(1, NOW + 500 * US);
    ack = ack_at(NOW + 510 * US);
    sack(4, 1, &ack);
    assert_false(detect(NOW + 510 * US));
    assert_int_equal(lost_count, 1);
    assert_int_equal(lost_indices[0], 1);
}

TEST(rawe_sendwin_detect_losses__older_evidence_does_not_replace_newer)
{
    send_frames(4, NOW);
    struct rawe_sendwin_ack ack = ack_at(NOW + 10 * US);
    sack(3, 1, &ack);
    ack = ack_at(NOW + 40 * US);
    sack(2, 1, &ack); /* sent in the same turn, before it */
    assert_int_equal(window.newest_delivered, FIRST + 3);
    assert_false(detect(NOW + 10 * US + REORDER));
    assert_int_equal(lost_count, 2);
}

TEST(rawe_sendwin_detect_losses__an_old_place_to_transmit_from_is_forgotten)
{
    send_frames(3, NOW);
    struct rawe_sendwin_ack ack = ack_at(NOW + 10 * US);
    (void)rawe_sendwin_acknowledge(&window, window.una + 1, &ack);
    sack(2, 1, &ack);
    rawe_sendwin_rewind(&window, FIRST); /* nothing is to be transmitted from there */
    assert_false(detect(NOW + 10 * US + REORDER));
    assert_int_equal(window.transmit_from, FIRST + 1);
}

TEST(rawe_sendwin_detect_losses__transmits_the_oldest_lost_frame_first)
{
    send_frames(4, NOW);
    send_frames(4, NOW + 200 * US);
    enter(2);
    assert_ptr_equal(rawe_sendwin_next(&window), &frames[8]);
    rawe_sendwin_rewind(&window, FIRST + 8); /* the link is full */
    struct rawe_sendwin_ack ack = ack_at(NOW + 210 * US);
    sack(7, 1, &ack);
    assert_true(detect(NOW + 210 * US));
    assert_int_equal(lost_count, 4);
    assert_counts(3, 6, 1);
    assert_ptr_equal(rawe_sendwin_next(&window), &frames[0]);
    rawe_sendwin_sent(&window, &frames[0], 1, NOW + 211 * US);
    /* More are found behind those that still wait: the order stays. */
    assert_false(detect(NOW + 210 * US + REORDER));
    assert_int_equal(lost_count, 3);
    for (unsigned i = 1; i < 10; i += i == 6 ? 2 : 1) {
        assert_ptr_equal(rawe_sendwin_next(&window), &frames[i]);
    }
    assert_null(rawe_sendwin_next(&window));
}
