/* SPDX-License-Identifier: BSD-3-Clause */
#include "rawe_recvwin.h"

#include <stdlib.h>
#include <string.h>

_Static_assert(RAWE_SACK_BYTES_MAX * 8 >= RAWE_WINDOW_FRAMES_MAX, "a SACK block covers the window");

#define RING_MASK (RAWE_WINDOW_FRAMES_MAX - 1u)
#define RING_BYTES (RAWE_WINDOW_FRAMES_MAX / 8u)

static bool ring_test(const struct rawe_acktr *acktr, uint32_t sequence)
{
    uint32_t bit = sequence & RING_MASK;
    return (acktr->taken[bit / 64] >> (bit % 64)) & 1;
}

void rawe_acktr_reset(struct rawe_acktr *acktr, uint32_t next)
{
    free(acktr->taken);
    *acktr = (struct rawe_acktr){.next = next};
}

enum rawe_acktr_verdict rawe_acktr_check(const struct rawe_acktr *acktr, uint32_t sequence)
{
    uint32_t ahead = sequence - acktr->next;
    if (ahead < RAWE_WINDOW_FRAMES_MAX) {
        return acktr->beyond != 0 && ring_test(acktr, sequence) ? RAWE_ACKTR_DUPLICATE
                                                                : RAWE_ACKTR_NEW;
    }
    return rawe_sequence_before(sequence, acktr->next) ? RAWE_ACKTR_DUPLICATE : RAWE_ACKTR_OUTSIDE;
}

bool rawe_acktr_reserve(struct rawe_acktr *acktr, uint32_t sequence)
{
    if (sequence != acktr->next && acktr->taken == NULL) {
        acktr->taken = calloc(1, RING_BYTES);
        return acktr->taken != NULL;
    }
    return true;
}

void rawe_acktr_take(struct rawe_acktr *acktr, uint32_t sequence)
{
    uint32_t bit = sequence & RING_MASK;
    if (sequence != acktr->next) {
        acktr->taken[bit / 64] |= 1ull << (bit % 64);
        if (acktr->beyond == 0 || rawe_sequence_before(acktr->highest, sequence)) {
            acktr->highest = sequence;
        }
        acktr->beyond++;
        return;
    }
    acktr->next++;
    while (acktr->beyond != 0 && ring_test(acktr, acktr->next)) {
        bit = acktr->next & RING_MASK;
        acktr->taken[bit / 64] &= ~(1ull << (bit % 64));
        acktr->beyond--;
        acktr->next++;
    }
    if (acktr->beyond == 0) {
        free(acktr->taken);
        acktr->taken = NULL;
    }
}

size_t rawe_acktr_sack(const struct rawe_acktr *acktr, uint8_t *out)
{
    if (acktr->beyond == 0) {
        return 0;
    }
    uint32_t bits = acktr->highest - acktr->next;
    size_t len_bytes = (bits + 7) / 8;
    memset(out, 0, len_bytes);
    for (uint32_t i = 0; i < bits; i++) {
        if (ring_test(acktr, acktr->next + 1 + i)) {
            out[i / 8] |= (uint8_t)(1u << (i % 8));
        }
    }
    return len_bytes;
}

void rawe_recvwin_reset(struct rawe_recvwin *window, uint32_t first_sequence)
{
    rawe_acktr_reset(&window->acktr, first_sequence);
    window->ack_deadline_ns = window->arrived_ns = 0;
    window->unacked_frames = 0;
    window->ack_now = window->answer_probe = window->duplicate_seen = false;
}
