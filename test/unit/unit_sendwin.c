/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * A send window alone: see unit_sendwin.h.
 */
#include "unit_sendwin.h"

#include <string.h>

struct rawe_sendwin window;
struct rawe_txframe frames[WINDOW];

void set_up(void)
{
    memset(frames, 0, sizeof(frames));
    for (unsigned i = 0; i < WINDOW; i++) {
        frames[i].segments = 1;
    }
    rawe_sendwin_init(&window, WINDOW, FIRST);
}

void tear_down(void)
{
    while (!rawe_sendwin_empty(&window)) {
        (void)rawe_sendwin_remove(&window);
    }
    assert_int_equal(window.in_flight, 0);
    assert_int_equal(window.to_transmit, 0);
    assert_int_equal(window.sacked, 0);
    assert_null(window.oldest);
}

struct rawe_txframe *frame_at(uint32_t sequence)
{
    struct rawe_txframe *frame = window.oldest;
    while (frame != NULL && sequence - frame->sequence >= frame->segments) {
        assert_true(frame->next == NULL || frame->next->previous == frame);
        frame = frame->next;
    }
    assert_non_null(frame);
    return frame;
}

void enter(unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        rawe_sendwin_enter(&window, &frames[window.next - FIRST]);
    }
}

struct rawe_txframe *enter_batch(unsigned index, unsigned segments)
{
    struct rawe_txframe *batch = &frames[index];
    batch->segments = (uint8_t)segments;
    batch->sendings = 0;
    rawe_sendwin_enter(&window, batch);
    return batch;
}

void transmit_all(uint64_t sent_ns)
{
    struct rawe_txframe *frame;
    while ((frame = rawe_sendwin_next(&window)) != NULL) {
        rawe_sendwin_sent(&window, frame, frame->to_send, sent_ns);
    }
}

void send_frames(unsigned count, uint64_t sent_ns)
{
    enter(count);
    transmit_all(sent_ns);
}

struct rawe_ack ack_at(uint64_t now_ns)
{
    return (struct rawe_ack){.evidence = true, .now_ns = now_ns};
}

void sack(unsigned index, unsigned count, struct rawe_ack *ack)
{
    uint8_t bitmap[WINDOW / 8] = {0};
    unsigned una = window.una - FIRST;
    for (unsigned i = index; i < index + count; i++) {
        bitmap[(i - una - 1) / 8] |= (uint8_t)(1u << ((i - una - 1) % 8));
    }
    rawe_sendwin_sack(&window, window.una, bitmap, sizeof(bitmap), ack);
}

enum segment_state state_of(uint32_t sequence)
{
    const struct rawe_txframe *frame = frame_at(sequence);
    uint64_t segment = 1ull << (sequence - frame->sequence);
    if ((frame->to_send & segment) != 0) {
        assert_int_equal(frame->arrived & segment, 0);
        return (frame->sent & segment) != 0 ? LOST : WAITING;
    }
    assert_int_not_equal((frame->sent | frame->arrived) & segment, 0);
    return (frame->arrived & segment) != 0 ? SACKED : SENT;
}

void assert_counts(unsigned in_flight, unsigned to_transmit, unsigned sacked)
{
    unsigned counts[LOST + 1] = {0};
    for (uint32_t sequence = window.una; sequence != window.next; sequence++) {
        counts[state_of(sequence)]++;
    }
    assert_int_equal(counts[SENT], in_flight);
    assert_int_equal(counts[WAITING] + counts[LOST], to_transmit);
    assert_int_equal(counts[SACKED], sacked);
    assert_int_equal(window.in_flight, in_flight);
    assert_int_equal(window.to_transmit, to_transmit);
    assert_int_equal(window.sacked, sacked);
}

unsigned lost_indices[WINDOW];
unsigned lost_count;

static void note_lost(void *context, const struct rawe_txframe *frame, uint32_t sequence)
{
    assert_ptr_equal(context, &lost_count);
    assert_ptr_equal(frame, frame_at(sequence));
    assert_int_equal(state_of(sequence), LOST);
    lost_indices[lost_count++] = sequence - FIRST;
}

bool detect(uint64_t now_ns)
{
    lost_count = 0;
    return rawe_sendwin_detect_losses(&window, REORDER, now_ns, note_lost, &lost_count);
}
