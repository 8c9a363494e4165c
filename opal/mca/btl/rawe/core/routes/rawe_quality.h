/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Quality of a route: which part of what it carries is lost, over some time and enough frames. One that
 * loses much, while another to the same process loses little, is slower than that: each loss costs
 * a round trip at least, and most short messages a probe. Where both lose it is congestion, or a
 * network as it is.
 */
#ifndef RAWE_QUALITY_H
#define RAWE_QUALITY_H

#include <stdbool.h>
#include <stdint.h>

/** A route is poor that loses this much of a thousand frames, if another loses a quarter of that. */
#define RAWE_QUALITY_POOR_PERMILLE 100u

/** What a route loses is known after this time, ... */
#define RAWE_QUALITY_TIME_NS 100000000ull

struct rawe_quality {
    uint64_t since_ns;      /**< the measurement under way began; 0: none is */
    uint32_t arrived, lost; /**< the route's counts then */
    uint64_t asked_ns; /**< when a PING was sent by it whose answer is not counted; 0: none is */
    uint32_t answered, unanswered; /**< PINGs since, which count as frames */
    uint16_t permille;             /**< lost in the last measurement */
    uint8_t poor;                  /**< measurements in a row in which it lost too much */
    bool measured;                 /**< there was one */
};

/** Measure from now on. The counts are all that ever arrived or was lost by the route, wrapping. */
void rawe_quality_begin(struct rawe_quality *quality, uint32_t arrived, uint32_t lost,
                        uint64_t now_ns);

/** Are there too few frames to measure? One that waits for each lost one carries few. */
bool rawe_quality_wants_ping(const struct rawe_quality *quality, uint32_t arrived, uint32_t lost);

/** A PING was sent by the route, and answered or not. */
void rawe_quality_note_ping(struct rawe_quality *quality, bool answered);

/** Has it lost much since, and does something arrive? */
bool rawe_quality_is_poor(const struct rawe_quality *quality, uint32_t arrived, uint32_t lost);

/** Time has passed. True: another measurement is complete, and the next one has begun. */
bool rawe_quality_measure(struct rawe_quality *quality, uint32_t arrived, uint32_t lost,
                          uint64_t now_ns);

/** What the route loses of a thousand frames, as far as is known; 0: nothing is. */
uint32_t rawe_quality_permille(const struct rawe_quality *quality, uint32_t arrived, uint32_t lost);

/**
 * A measurement is complete; `other_permille` is what the best of the other routes loses. True: the
 * route is to be left. Called for each.
 */
bool rawe_quality_judge(struct rawe_quality *quality, uint32_t other_permille);

#endif
