/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Test of the send window with batches: random operations, compared with a model that has one state
 * for each number.
 */
#include "unit_sendwin.h"

#include <string.h>

/* What a simple window would know: one state a number. */
static struct {
    enum segment_state state;
    bool again;
    uint64_t sent_ns;
} model[8192];
static uint32_t model_una, model_next;
static uint64_t model_newest_ns; /**< when the newest of what has arrived was sent, at the latest */

/** A number has arrived. */
static void arrived(uint32_t index)
{
    bool sent = model[index].state == SENT || model[index].state == LOST;
    if (sent && model[index].sent_ns > model_newest_ns) {
        model_newest_ns = model[index].sent_ns;
    }
}

static uint32_t draw(uint32_t *seed, uint32_t below)
{
    *seed = *seed * 1664525u + 1013904223u;
    return (*seed >> 8) % below;
}

static void compare(void)
{
    unsigned counts[LOST + 1] = {0};
    assert_int_equal(window.una, FIRST + model_una);
    assert_int_equal(window.next, FIRST + model_next);
    for (uint32_t i = model_una; i < model_next; i++) {
        const struct rawe_txframe *frame = rawe_sendwin_at(&window, FIRST + i);
        uint64_t segment = 1ull << (FIRST + i - frame->sequence);
        assert_int_equal(state_of(FIRST + i), model[i].state);
        assert_int_equal((frame->resent & segment) != 0, model[i].again);
        counts[model[i].state]++;
    }
    assert_counts(counts[SENT], counts[WAITING] + counts[LOST], counts[SACKED]);
}

/** Send some of what is to be sent, in runs, as a link with little room makes it happen. */
static void send_some(uint32_t *seed, uint64_t now_ns)
{
    struct rawe_txframe *frame = rawe_sendwin_next(&window);
    if (frame == NULL) {
        for (uint32_t i = model_una; i < model_next; i++) {
            assert_true(model[i].state == SENT || model[i].state == SACKED);
        }
        return;
    }
    uint64_t segments = 0;
    for (unsigned i = 0; i < frame->segments; i++) {
        uint32_t index = frame->sequence + i - FIRST;
        if ((frame->to_send >> i & 1) != 0 && draw(seed, 4) != 0) {
            segments |= 1ull << i;
            model[index].again = model[index].state == LOST;
            model[index].state = SENT;
            model[index].sent_ns = now_ns;
        }
    }
    if (segments != 0) {
        rawe_sendwin_sent(&window, frame, segments, now_ns);
    }
    if (frame->to_send != 0) {
        rawe_sendwin_rewind(&window, frame->sequence);
    }
}

static void acknowledge_some(uint32_t *seed, uint64_t now_ns)
{
    struct rawe_sendwin_ack ack = ack_at(now_ns);
    uint32_t expected = 0;
    uint32_t to = model_una + draw(seed, model_next - model_una + 1);
    for (; model_una != to; model_una++) {
        expected += model[model_una].state != SACKED;
        arrived(model_una);
    }
    while (window.una != FIRST + to) {
        struct rawe_txframe *whole = rawe_sendwin_acknowledge(&window, FIRST + to, &ack);
        if (whole != NULL) {
            whole->segments = 0; /* free */
        }
    }
    assert_int_equal(ack.arrived, expected);
}

static void sack_some(uint32_t *seed, uint64_t now_ns)
{
    uint8_t bitmap[WINDOW / 8] = {0};
    struct rawe_sendwin_ack ack = ack_at(now_ns);
    uint32_t expected = 0;
    for (uint32_t i = model_una + 1; i < model_next; i++) {
        bool sent = model[i].state == SENT || model[i].state == LOST;
        if (draw(seed, 4) == 0) {
            bitmap[(i - model_una - 1) / 8] |= (uint8_t)(1u << ((i - model_una - 1) % 8));
            expected += sent;
            arrived(i);
            model[i].state = sent ? SACKED : model[i].state;
        }
    }
    rawe_sendwin_sack(&window, window.una, bitmap, sizeof(bitmap), &ack);
    assert_int_equal(ack.arrived, expected);
}

static void detect_some(uint64_t now_ns)
{
    (void)detect(now_ns);
    for (unsigned i = 0; i < lost_count; i++) {
        uint32_t index = lost_indices[i];
        assert_int_equal(model[index].state, SENT);
        assert_true(model[index].sent_ns <= model_newest_ns); /* something sent later arrived */
        assert_true(i == 0 || lost_indices[i - 1] < index);
        model[index].state = LOST;
    }
}

FIXTURE(set_up, tear_down);

TEST(rawe_sendwin__batches_at_random_beside_a_model)
{
    unsigned lost = 0;
    unsigned parts = 0;
    for (uint32_t seed = 1; seed <= 400; seed++) {
        uint32_t random = seed * 7919;
        uint64_t now_ns = NOW;
        memset(model, 0, sizeof(model));
        while (!rawe_sendwin_empty(&window)) {
            (void)rawe_sendwin_remove(&window);
        }
        rawe_sendwin_reset(&window, FIRST);
        model_una = model_next = 0;
        model_newest_ns = 0;
        for (unsigned i = 0; i < WINDOW; i++) {
            frames[i].segments = 0;
        }
        for (unsigned step = 0; step < 2000 && model_next < 8000; step++) {
            now_ns += draw(&random, 3) * 20 * US;
            switch (draw(&random, 6)) {
            case 0:
            case 1: {
                uint32_t room = rawe_sendwin_free_numbers(&window);
                unsigned index = 0;
                while (index < WINDOW && frames[index].segments != 0) {
                    index++;
                }
                if (room != 0 && index < WINDOW) {
                    struct rawe_txframe *batch = enter_batch(index, 1 + draw(&random, room));
                    model_next += batch->segments;
                }
                break;
            }
            case 2:
                send_some(&random, now_ns);
                break;
            case 3:
                acknowledge_some(&random, now_ns);
                parts += !rawe_sendwin_empty(&window) &&
                         rawe_sendwin_at(&window, window.una)->sequence != window.una;
                break;
            case 4:
                sack_some(&random, now_ns);
                break;
            default:
                detect_some(now_ns);
                lost += lost_count;
                break;
            }
            compare();
        }
    }
    assert_true(lost > 1000);
    assert_true(parts > 1000);
}
