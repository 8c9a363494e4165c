/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Congestion window of a connection, in frames: slow start, additive increase, and a reduction by
 * 0.7 (RFC 9438 section 4.6) at most once a round trip when frames were lost (RFC 5681, in frames).
 */
#ifndef RAWE_CONGESTION_H
#define RAWE_CONGESTION_H

#include <stdbool.h>
#include <stdint.h>

#define RAWE_CONGESTION_LEAST_FRAMES 4u

struct rawe_congestion {
    uint32_t window;           /**< frames that may be in flight */
    uint32_t threshold;        /**< slow start ends here */
    uint32_t most;             /**< the connection's window */
    uint32_t credit;           /**< frames acknowledged towards the next additive step */
    uint32_t recover_sequence; /**< losses of frames before this one belong to the last reduction */
    bool reduced;              /**< recover_sequence is valid */
};

void rawe_congestion_init(struct rawe_congestion *congestion, uint32_t first, uint32_t most);

/** `frames` were acknowledged while the window was (`limited`) what held the sender back. */
void rawe_congestion_acked(struct rawe_congestion *congestion, uint32_t frames, bool limited);

/**
 * Frame `sequence` was found lost; `next` is the next sequence number to be sent. Returns true when
 * the window was reduced, false when this loss belongs to the last reduction.
 */
bool rawe_congestion_lost(struct rawe_congestion *congestion, uint32_t sequence, uint32_t next);

#endif
