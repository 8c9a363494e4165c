/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Receive window: see rawe_recvwin.h.
 */
#include "rawe_recvwin.h"

#include <stdlib.h>

void rawe_recvwin_reset(struct rawe_recvwin *window, uint32_t first_sequence)
{
    if (window->acktr != NULL) {
        rawe_acktr_init(window->acktr);
        window->acktr->next = first_sequence;
    }
    window->ack_deadline_ns = 0;
    window->unacked_frames = 0;
    window->ack_now = window->answer_probe = window->duplicate_seen = false;
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
