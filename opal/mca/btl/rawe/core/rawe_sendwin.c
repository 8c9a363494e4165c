/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Send window: see rawe_sendwin.h.
 */
#include "rawe_sendwin.h"

#include <assert.h>
#include <stdlib.h>

void rawe_sendwin_init(struct rawe_sendwin *window, uint32_t frames, uint32_t first_sequence)
{
    assert(frames != 0 && (frames & (frames - 1)) == 0);
    window->slots = NULL;
    window->mask = frames - 1;
    window->una = window->next = first_sequence;
    rawe_sendwin_reset(window, first_sequence);
}

void rawe_sendwin_reset(struct rawe_sendwin *window, uint32_t first_sequence)
{
    assert(rawe_sendwin_empty(window));
    window->una = window->next = window->transmit_from = first_sequence;
    window->in_flight = window->to_transmit = window->sacked = 0;
    window->newest_delivered = first_sequence;
    window->newest_delivered_ns = window->evidence_ns = 0;
    window->evidence_is_probe = false;
}

bool rawe_sendwin_allocate(struct rawe_sendwin *window)
{
    if (window->slots == NULL) {
        window->slots = calloc((size_t)window->mask + 1, sizeof(*window->slots));
    }
    return window->slots != NULL;
}

void rawe_sendwin_free(struct rawe_sendwin *window)
{
    assert(rawe_sendwin_empty(window));
    free(window->slots);
    window->slots = NULL;
}

struct rawe_txframe *rawe_sendwin_next(struct rawe_sendwin *window)
{
    if (window->to_transmit == 0) {
        return NULL;
    }
    if (rawe_sequence_before(window->transmit_from, window->una)) {
        window->transmit_from = window->una;
    }
    while (window->transmit_from != window->next) {
        struct rawe_txframe *frame = rawe_sendwin_at(window, window->transmit_from);
        window->transmit_from++;
        if (frame->state == RAWE_TXFRAME_WAITING || frame->state == RAWE_TXFRAME_LOST) {
            return frame;
        }
    }
    return NULL;
}

/** A frame sent at `sent_ns` has arrived at the peer. Returns true when it is the newest so far. */
static bool delivered(struct rawe_sendwin *window, uint64_t sent_ns, uint32_t sequence,
                      uint64_t now_ns)
{
    if (sent_ns < window->newest_delivered_ns ||
        (sent_ns == window->newest_delivered_ns &&
         !rawe_sequence_before(window->newest_delivered, sequence))) {
        return false;
    }
    window->newest_delivered_ns = sent_ns;
    window->newest_delivered = sequence;
    window->evidence_ns = now_ns;
    window->evidence_is_probe = false;
    return true;
}

/** Note one frame, SENT or LOST or WAITING until now, as arrived. Returns its round trip or 0. */
static uint64_t arrived(struct rawe_sendwin *window, const struct rawe_txframe *frame,
                        const struct rawe_sendwin_ack *ack)
{
    if (frame->sendings == 0) {
        return 0;
    }
    uint64_t rtt_ns = ack->now_ns > frame->sent_ns ? ack->now_ns - frame->sent_ns : 1;
    /*
     * Sent more than once, the acknowledgement may be for the first sending (Karn): no sample, and
     * no evidence when it comes sooner than any round trip.
     */
    bool again = frame->sendings > 1;
    if (ack->evidence && (!again || rtt_ns >= ack->minimum_rtt_ns)) {
        (void)delivered(window, frame->sent_ns, frame->sequence, ack->now_ns);
    }
    return again ? 0 : rtt_ns;
}

struct rawe_txframe *rawe_sendwin_acknowledge(struct rawe_sendwin *window,
                                              struct rawe_sendwin_ack *ack)
{
    const struct rawe_txframe *oldest = rawe_sendwin_at(window, window->una);
    if (oldest->state != RAWE_TXFRAME_SACKED) {
        uint64_t rtt_ns = arrived(window, oldest, ack);
        ack->rtt_ns = rtt_ns != 0 ? rtt_ns : ack->rtt_ns;
        ack->arrived++;
    }
    return rawe_sendwin_remove(window);
}

void rawe_sendwin_sack(struct rawe_sendwin *window, uint32_t acknowledgement, const uint8_t *bitmap,
                       size_t bitmap_bytes, struct rawe_sendwin_ack *ack)
{
    for (size_t i = 0; i < bitmap_bytes; i++) {
        for (uint8_t bits = bitmap[i]; bits != 0; bits &= (uint8_t)(bits - 1)) {
            uint32_t sequence =
                acknowledgement + 1 + (uint32_t)i * 8 + (uint32_t)__builtin_ctz(bits);
            if (!rawe_sequence_before(sequence, window->next)) {
                return; /* claims what was never sent: the rest is no better */
            }
            struct rawe_txframe *frame = rawe_sendwin_at(window, sequence);
            if (frame->state == RAWE_TXFRAME_SACKED || frame->sendings == 0) {
                continue;
            }
            (void)arrived(window, frame, ack);
            if (frame->state == RAWE_TXFRAME_SENT) {
                window->in_flight--;
            } else {
                window->to_transmit--;
            }
            frame->state = RAWE_TXFRAME_SACKED;
            window->sacked++;
            ack->arrived++;
        }
    }
}

void rawe_sendwin_probe_answered(struct rawe_sendwin *window, uint64_t sent_ns, uint64_t now_ns)
{
    /*
     * The probe was sent after the frames in flight then, and stands for the newest of them; 1 ns
     * earlier, so that frames sent in the same turn, behind the probe, are not meant.
     */
    if (delivered(window, sent_ns - 1, window->next, now_ns)) {
        window->evidence_is_probe = true;
    }
}

bool rawe_sendwin_detect_losses(struct rawe_sendwin *window, uint64_t reorder_ns, uint64_t now_ns,
                                rawe_sendwin_lost_fn *lost, void *context)
{
    bool window_passed = now_ns - window->evidence_ns >= reorder_ns;
    bool undecided = false;
    for (uint32_t sequence = window->una; sequence != window->next; sequence++) {
        struct rawe_txframe *frame = rawe_sendwin_at(window, sequence);
        if (frame->state != RAWE_TXFRAME_SENT) {
            continue;
        }
        /* Of frames sent in the same turn, only first sendings are known to be in order. */
        bool overtaken = frame->sent_ns < window->newest_delivered_ns ||
                         (frame->sent_ns == window->newest_delivered_ns && frame->sendings == 1 &&
                          rawe_sequence_before(sequence, window->newest_delivered));
        if (!overtaken) {
            continue;
        }
        if (!window_passed && frame->sent_ns + reorder_ns > window->newest_delivered_ns) {
            undecided = true;
            continue;
        }
        frame->state = RAWE_TXFRAME_LOST;
        window->in_flight--;
        if (window->to_transmit == 0 || rawe_sequence_before(sequence, window->transmit_from)) {
            window->transmit_from = sequence;
        }
        window->to_transmit++;
        lost(context, frame);
    }
    return undecided;
}
