/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Tests of the send window with batches: entries of several numbers, of which some are sent, have
 * arrived or are lost.
 */
#include "unit_sendwin.h"

static struct rawe_txframe *send_batch(unsigned index, unsigned segments, uint64_t sent_ns)
{
    struct rawe_txframe *batch = enter_batch(index, segments);
    rawe_sendwin_sent(&window, batch, rawe_txframe_all(batch), sent_ns);
    return batch;
}

/** Acknowledge all before FIRST + index; returns the frames that have arrived whole. */
static unsigned acknowledge(unsigned index, struct rawe_ack *ack)
{
    unsigned whole = 0;
    while (window.una != FIRST + index) {
        whole += rawe_sendwin_acknowledge(&window, FIRST + index, ack) != NULL;
    }
    return whole;
}

FIXTURE(set_up, tear_down);

TEST(rawe_sendwin_enter__a_batch_takes_consecutive_numbers)
{
    struct rawe_txframe *first = enter_batch(0, 5);
    struct rawe_txframe *second = enter_batch(1, 1);
    struct rawe_txframe *third = enter_batch(2, WINDOW - 6);
    assert_int_equal(first->sequence, FIRST);
    assert_int_equal(second->sequence, FIRST + 5);
    assert_int_equal(third->sequence, FIRST + 6);
    assert_true(first->to_send == 0x1F);
    for (unsigned i = 0; i < WINDOW; i++) {
        assert_ptr_equal(frame_at(FIRST + i), i < 5 ? first : i == 5 ? second : third);
    }
    assert_int_equal(rawe_sendwin_free_numbers(&window), 0);
    assert_counts(0, WINDOW, 0);
}

TEST(rawe_sendwin_enter__the_longest_batch)
{
    struct rawe_sendwin wide;
    struct rawe_txframe batch = {.segments = RAWE_BATCH_FRAMES_MAX};
    rawe_sendwin_init(&wide, RAWE_BATCH_FRAMES_MAX, FIRST);
    rawe_sendwin_enter(&wide, &batch);
    assert_true(batch.to_send == UINT64_MAX);
    rawe_sendwin_sent(&wide, &batch, UINT64_MAX, NOW);
    assert_int_equal(wide.in_flight, RAWE_BATCH_FRAMES_MAX);
    struct rawe_ack ack = ack_at(NOW + US);
    assert_null(rawe_sendwin_acknowledge(&wide, FIRST + RAWE_BATCH_FRAMES_MAX - 1, &ack));
    assert_int_equal(wide.in_flight, 1);
    assert_ptr_equal(rawe_sendwin_acknowledge(&wide, FIRST + RAWE_BATCH_FRAMES_MAX, &ack), &batch);
    assert_int_equal(ack.arrived, RAWE_BATCH_FRAMES_MAX);
    assert_int_equal(wide.in_flight, 0);
}

TEST(rawe_sendwin_sent__some_of_a_batch)
{
    struct rawe_txframe *batch = enter_batch(0, 6);
    rawe_sendwin_sent(&window, batch, 0x07, NOW);
    assert_counts(3, 3, 0);
    assert_int_equal(state_of(FIRST + 2), SENT);
    assert_int_equal(state_of(FIRST + 3), WAITING);
    assert_true(batch->first.oldest_ns == NOW);
    rawe_sendwin_rewind(&window, batch);
    assert_ptr_equal(rawe_sendwin_next(&window), batch);
    assert_true(batch->to_send == 0x38);
    rawe_sendwin_sent(&window, batch, 0x38, NOW + US);
    assert_counts(6, 0, 0);
    assert_true(batch->first.oldest_ns == NOW);
    assert_true(batch->first.newest_ns == NOW + US);
    assert_true(batch->resent == 0);
    assert_null(rawe_sendwin_next(&window));
}

TEST(rawe_sendwin_next__hands_out_a_batch_once)
{
    struct rawe_txframe *first = enter_batch(0, 4);
    struct rawe_txframe *second = enter_batch(1, 3);
    assert_ptr_equal(rawe_sendwin_next(&window), first);
    assert_ptr_equal(rawe_sendwin_next(&window), second);
    assert_null(rawe_sendwin_next(&window));
    rawe_sendwin_rewind(&window, second);
    assert_ptr_equal(rawe_sendwin_next(&window), second);
}

TEST(rawe_sendwin_next__of_a_batch_acknowledged_in_part)
{
    struct rawe_ack ack = ack_at(NOW + US);
    struct rawe_txframe *batch = enter_batch(0, 4);
    rawe_sendwin_sent(&window, batch, 0x3, NOW);
    assert_int_equal(acknowledge(2, &ack), 0);
    rawe_sendwin_rewind(&window, batch); /* before una */
    assert_ptr_equal(rawe_sendwin_next(&window), batch);
    assert_true(batch->to_send == 0xC);
    assert_counts(0, 2, 0);
}

TEST(rawe_sendwin_acknowledge__a_part_of_a_batch_keeps_it)
{
    struct rawe_ack ack = ack_at(NOW + 10 * US);
    struct rawe_txframe *batch = send_batch(0, 6, NOW);
    assert_null(rawe_sendwin_acknowledge(&window, FIRST + 4, &ack));
    assert_int_equal(window.una, FIRST + 4);
    assert_int_equal(ack.arrived, 4);
    assert_true(ack.rtt_ns == 10 * US);
    assert_counts(2, 0, 0);
    ack = ack_at(NOW + 20 * US);
    assert_null(rawe_sendwin_acknowledge(&window, FIRST + 5, &ack));
    assert_int_equal(ack.arrived, 1);
    assert_true(ack.rtt_ns == 20 * US);
    assert_counts(1, 0, 0);
    assert_ptr_equal(rawe_sendwin_acknowledge(&window, FIRST + 6, &ack), batch);
    assert_int_equal(ack.arrived, 2);
    assert_true(rawe_sendwin_empty(&window));
}

TEST(rawe_sendwin_acknowledge__goes_on_into_the_next_batch)
{
    struct rawe_ack ack = ack_at(NOW + 10 * US);
    (void)send_batch(0, 3, NOW);
    (void)send_batch(1, 1, NOW);
    struct rawe_txframe *third = send_batch(2, 4, NOW);
    assert_int_equal(acknowledge(6, &ack), 2);
    assert_int_equal(ack.arrived, 6);
    assert_ptr_equal(window.oldest, third);
    assert_counts(2, 0, 0);
}

/**
 * Numbers of a batch that are acknowledged are free for others, while the rest of it is under way.
 */
TEST(rawe_sendwin_acknowledge__leaves_the_new_owner_of_its_numbers)
{
    struct rawe_ack ack = ack_at(NOW + 10 * US);
    (void)send_batch(0, WINDOW, NOW);
    assert_int_equal(acknowledge(3, &ack), 0);
    assert_int_equal(rawe_sendwin_free_numbers(&window), 3);
    struct rawe_txframe *later = send_batch(1, 2, NOW);
    assert_int_equal(acknowledge(WINDOW, &ack), 1);
    assert_ptr_equal(frame_at(FIRST + WINDOW), later);
    assert_ptr_equal(frame_at(FIRST + WINDOW + 1), later);
    assert_counts(2, 0, 0);
    assert_int_equal(acknowledge(WINDOW + 2, &ack), 1);
}

TEST(rawe_sendwin_remove__leaves_the_new_owner_of_its_numbers)
{
    struct rawe_ack ack = ack_at(NOW + 10 * US);
    struct rawe_txframe *batch = send_batch(0, WINDOW, NOW);
    assert_int_equal(acknowledge(5, &ack), 0);
    struct rawe_txframe *later = enter_batch(1, 5);
    assert_counts(WINDOW - 5, 5, 0);
    assert_ptr_equal(rawe_sendwin_remove(&window), batch);
    assert_counts(0, 5, 0);
    assert_ptr_equal(rawe_sendwin_remove(&window), later);
    assert_true(rawe_sendwin_empty(&window));
}

TEST(rawe_sendwin_acknowledge__of_what_is_waiting)
{
    struct rawe_ack ack = ack_at(NOW + 10 * US);
    struct rawe_txframe *batch = enter_batch(0, 4);
    rawe_sendwin_sent(&window, batch, 0x1, NOW);
    assert_int_equal(acknowledge(3, &ack), 0);
    assert_int_equal(ack.arrived, 3);
    assert_true(ack.rtt_ns == 10 * US);
    assert_counts(0, 1, 0);
    assert_true(batch->to_send == 0x8);
}

TEST(rawe_sendwin_sack__inside_a_batch)
{
    struct rawe_ack ack = ack_at(NOW + 10 * US);
    struct rawe_txframe *first = send_batch(0, 5, NOW);
    struct rawe_txframe *second = send_batch(1, 5, NOW);
    sack(3, 4, &ack);
    assert_int_equal(ack.arrived, 4);
    assert_true(first->arrived == 0x18);
    assert_true(second->arrived == 0x03);
    assert_counts(6, 0, 4);
    sack(3, 5, &ack); /* repeated, and one more */
    assert_int_equal(ack.arrived, 5);
    assert_counts(5, 0, 5);
}

TEST(rawe_sendwin_acknowledge__passes_what_was_sacked_inside_a_batch)
{
    struct rawe_ack ack = ack_at(NOW + 10 * US);
    (void)send_batch(0, 6, NOW);
    sack(2, 3, &ack);
    assert_counts(3, 0, 3);
    ack = ack_at(NOW + 20 * US);
    assert_int_equal(acknowledge(4, &ack), 0);
    assert_int_equal(ack.arrived, 2);
    assert_counts(1, 0, 1);
    assert_int_equal(acknowledge(6, &ack), 1);
    assert_int_equal(ack.arrived, 3);
}

TEST(rawe_sendwin_remove__of_a_batch_in_all_states)
{
    struct rawe_ack ack = ack_at(NOW + 10 * US);
    struct rawe_txframe *batch = enter_batch(0, 8);
    rawe_sendwin_sent(&window, batch, 0x3F, NOW);
    assert_int_equal(acknowledge(1, &ack), 0);
    sack(3, 2, &ack);
    assert_false(detect(NOW + 10 * US + REORDER));
    assert_int_equal(lost_count, 2);
    (void)send_batch(1, 2, NOW + US);
    assert_counts(1 + 2, 2 + 2, 2); /* 5; 1, 2 lost, 6, 7 waiting; 3, 4 */
    assert_ptr_equal(rawe_sendwin_remove(&window), batch);
    assert_counts(2, 0, 0);
    assert_int_equal(window.una, FIRST + 8);
}

TEST(rawe_sendwin_detect_losses__overtaken_inside_a_batch)
{
    struct rawe_ack ack = ack_at(NOW + 10 * US);
    struct rawe_txframe *batch = send_batch(0, 6, NOW);
    sack(1, 1, &ack);
    sack(4, 1, &ack);
    assert_true(detect(NOW + 10 * US)); /* the reordering window has not passed */
    assert_int_equal(lost_count, 0);
    assert_false(detect(NOW + 10 * US + REORDER));
    assert_int_equal(lost_count, 3);
    assert_int_equal(lost_indices[0], 0);
    assert_int_equal(lost_indices[1], 2);
    assert_int_equal(lost_indices[2], 3); /* 5 was sent behind what has arrived */
    assert_counts(1, 3, 2);
    assert_ptr_equal(rawe_sendwin_next(&window), batch);
    assert_true(batch->to_send == 0x0D);
}

TEST(rawe_sendwin_detect_losses__overtaken_by_another_batch)
{
    struct rawe_ack ack = ack_at(NOW + 100 * US);
    struct rawe_txframe *first = send_batch(0, 3, NOW);
    struct rawe_txframe *second = send_batch(1, 3, NOW + 2 * REORDER);
    sack(4, 1, &ack);
    assert_false(detect(NOW + 100 * US + REORDER));
    assert_int_equal(lost_count, 4); /* all of the first, and the one before it in the second */
    assert_true(first->to_send == 0x7);
    assert_true(second->to_send == 0x1);
    assert_ptr_equal(rawe_sendwin_next(&window), first);
    assert_ptr_equal(rawe_sendwin_next(&window), second);
    assert_null(rawe_sendwin_next(&window));
}

TEST(rawe_sendwin_acknowledge__of_segments_sent_again_no_round_trip)
{
    struct rawe_ack ack = ack_at(NOW + 10 * US);
    struct rawe_txframe *batch = send_batch(0, 4, NOW);
    sack(3, 1, &ack);
    assert_false(detect(NOW + 10 * US + REORDER));
    assert_int_equal(lost_count, 3);
    rawe_sendwin_sent(&window, batch, 0x6, NOW + 100 * US);
    rawe_sendwin_sent(&window, batch, 0x1, NOW + 200 * US);
    assert_true(batch->resent == 0x7);
    assert_true(batch->first.newest_ns == NOW);
    assert_true(batch->again.oldest_ns == NOW + 100 * US);
    assert_true(batch->again.newest_ns == NOW + 200 * US);
    assert_int_equal(batch->sendings, 3);
    ack = ack_at(NOW + 210 * US);
    assert_int_equal(acknowledge(3, &ack), 0);
    assert_true(ack.rtt_ns == 0);
    assert_int_equal(ack.arrived, 3);
    assert_counts(0, 0, 1);
}

/** Only segments sent once give an RTT sample (Karn). */
TEST(rawe_sendwin_acknowledge__of_segments_sent_once_beside_others)
{
    struct rawe_ack ack = ack_at(NOW + 10 * US);
    struct rawe_txframe *batch = send_batch(0, 4, NOW);
    sack(1, 1, &ack);
    assert_false(detect(NOW + 10 * US + REORDER));
    assert_int_equal(lost_count, 1);
    rawe_sendwin_sent(&window, batch, 0x1, NOW + 100 * US);
    ack = ack_at(NOW + 130 * US);
    assert_int_equal(acknowledge(4, &ack), 1);
    assert_int_equal(ack.arrived, 3);
    assert_true(ack.rtt_ns == 130 * US);
}

TEST(rawe_sendwin_detect_losses__of_segments_sent_again_in_one_turn)
{
    struct rawe_ack ack = ack_at(NOW + 10 * US);
    struct rawe_txframe *batch = send_batch(0, 4, NOW);
    sack(3, 1, &ack);
    assert_false(detect(NOW + 10 * US + REORDER));
    rawe_sendwin_sent(&window, batch, 0x7, NOW + 100 * US);
    ack = ack_at(NOW + 110 * US);
    sack(2, 1, &ack);
    /* Resent in the same turn, in no certain order: the others may still be on their way. */
    assert_false(detect(NOW + 1000 * US));
    assert_int_equal(lost_count, 0);
    assert_counts(2, 0, 2);
    /* What was sent later decides. */
    (void)send_batch(1, 1, NOW + 300 * US);
    ack = ack_at(NOW + 310 * US);
    sack(4, 1, &ack);
    assert_false(detect(NOW + 310 * US + REORDER));
    assert_int_equal(lost_count, 2);
}

TEST(rawe_sendwin_detect_losses__not_by_the_late_arrival_of_a_lost_segment)
{
    struct rawe_ack ack = ack_at(NOW + 10 * US);
    struct rawe_txframe *batch = enter_batch(0, 3);
    rawe_sendwin_sent(&window, batch, 0x3, NOW);
    sack(1, 1, &ack);
    assert_false(detect(NOW + 10 * US + REORDER));
    assert_int_equal(lost_count, 1);
    (void)send_batch(1, 1, NOW + 100 * US);
    rawe_sendwin_sent(&window, batch, 0x4, NOW + 200 * US);
    ack = ack_at(NOW + 210 * US);
    assert_int_equal(acknowledge(1, &ack), 0); /* sent at NOW, whatever was sent since */
    assert_false(detect(NOW + 210 * US + REORDER));
    assert_int_equal(lost_count, 0);
}
