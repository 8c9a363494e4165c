/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Receive window: see rawe_recvwin.h.
 */
#include "rawe_recvwin.h"

#include <stdlib.h>

/** While something is missing, acknowledge every so many frames, for the sender to see what. */
#define ACK_EVERY_WITH_GAP 4u

/** However small the credit, a single frame's acknowledgement may wait for a frame to carry it. */
#define ACK_EVERY_LEAST 2u

void rawe_recvwin_reset(struct rawe_recvwin *window, uint32_t first_sequence)
{
    if (window->acktr != NULL) {
        rawe_acktr_init(window->acktr);
        window->acktr->next = first_sequence;
    }
    window->ack_deadline_ns = 0;
    window->unacked_frames = 0;
    window->ack_now = window->answer_probe = false;
}

bool rawe_recvwin_allocate(struct rawe_recvwin *window, uint32_t first_sequence)
{
    if (window->acktr == NULL) {
        window->acktr = calloc(1, sizeof(*window->acktr));
        if (window->acktr != NULL) {
            window->acktr->next = first_sequence;
        }
    }
    return window->acktr != NULL;
}

void rawe_recvwin_free(struct rawe_recvwin *window)
{
    free(window->acktr);
    window->acktr = NULL;
}

bool rawe_recvwin_owe(struct rawe_recvwin *window, bool at_once, uint32_t credit_frames,
                      uint64_t delay_ns, uint64_t now_ns)
{
    uint32_t every = rawe_recvwin_has_gap(window) ? ACK_EVERY_WITH_GAP : credit_frames / 4;
    every = every < ACK_EVERY_LEAST ? ACK_EVERY_LEAST : every;
    if (at_once || window->unacked_frames >= every) {
        window->ack_now = true;
        return true;
    }
    if (window->ack_deadline_ns == 0) {
        window->ack_deadline_ns = now_ns + delay_ns;
    }
    return false;
}

void rawe_recvwin_owe_answer(struct rawe_recvwin *window, uint32_t probe_number)
{
    window->answer_probe = true;
    window->answer_number = probe_number;
}

void rawe_recvwin_acknowledged(struct rawe_recvwin *window)
{
    window->ack_now = window->answer_probe = false;
    window->unacked_frames = 0;
    window->ack_deadline_ns = 0;
}

bool rawe_recvwin_expire(struct rawe_recvwin *window, uint64_t now_ns)
{
    if (window->ack_deadline_ns == 0 || now_ns < window->ack_deadline_ns) {
        return false;
    }
    window->ack_deadline_ns = 0;
    window->ack_now = true;
    return true;
}
