/* SPDX-License-Identifier: BSD-3-Clause */
#include "rawe_recvwin.h"

#include <stdlib.h>
#include <string.h>

_Static_assert(RAWE_SACK_BYTES_MAX * 8 >= RAWE_WINDOW_FRAMES_MAX, "a SACK block covers the window");

#define RING_MASK (RAWE_WINDOW_FRAMES_MAX - 1u)
#define RING_BYTES (RAWE_WINDOW_FRAMES_MAX / 8u)

static bool ring_test(const struct rawe_recvwin *window, uint32_t sequence)
{
    uint32_t bit = sequence & RING_MASK;
    return (window->taken[bit / 64] >> (bit % 64)) & 1;
}

void rawe_recvwin_reset(struct rawe_recvwin *window, uint32_t first_sequence)
{
    free(window->taken);
    *window = (struct rawe_recvwin){.next = first_sequence};
}

__attribute__((hot)) enum rawe_recvwin_verdict rawe_recvwin_check(const struct rawe_recvwin *window,
                                                                  uint32_t sequence)
{
    uint32_t ahead = sequence - window->next;
    if (ahead < RAWE_WINDOW_FRAMES_MAX) {
        return window->beyond != 0 && ring_test(window, sequence) ? RAWE_RECVWIN_DUPLICATE
                                                                  : RAWE_RECVWIN_NEW;
    }
    return rawe_sequence_before(sequence, window->next) ? RAWE_RECVWIN_DUPLICATE
                                                        : RAWE_RECVWIN_OUTSIDE;
}

bool rawe_recvwin_reserve(struct rawe_recvwin *window, uint32_t sequence)
{
    if (sequence != window->next && window->taken == NULL) {
        window->taken = calloc(1, RING_BYTES);
        return window->taken != NULL;
    }
    return true;
}

void rawe_recvwin_take(struct rawe_recvwin *window, uint32_t sequence)
{
    uint32_t bit = sequence & RING_MASK;
    window->unacked_frames++;
    if (sequence != window->next) {
        window->taken[bit / 64] |= 1ull << (bit % 64);
        if (window->beyond == 0 || rawe_sequence_before(window->highest, sequence)) {
            window->highest = sequence;
        }
        window->beyond++;
        return;
    }
    window->next++;
    while (window->beyond != 0 && ring_test(window, window->next)) {
        bit = window->next & RING_MASK;
        window->taken[bit / 64] &= ~(1ull << (bit % 64));
        window->beyond--;
        window->next++;
    }
    if (window->beyond == 0) {
        free(window->taken);
        window->taken = NULL;
    }
}

size_t rawe_recvwin_sack(const struct rawe_recvwin *window, uint8_t *out)
{
    if (window->beyond == 0) {
        return 0;
    }
    uint32_t bits = window->highest - window->next;
    size_t len_bytes = (bits + 7) / 8;
    memset(out, 0, len_bytes);
    for (uint32_t i = 0; i < bits; i++) {
        if (ring_test(window, window->next + 1 + i)) {
            out[i / 8] |= (uint8_t)(1u << (i % 8));
        }
    }
    return len_bytes;
}
