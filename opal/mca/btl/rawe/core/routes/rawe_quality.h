/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Quality of a route: the fraction of its frames that is lost, over some time and enough frames. A
 * route that loses many, while another to the same process loses few, is the slower one: each loss
 * costs at least a round trip and, with most short messages, a probe. If both lose many, the cause
 * is congestion or the network as a whole.
 */
#ifndef RAWE_QUALITY_H
#define RAWE_QUALITY_H

#include <stdbool.h>
#include <stdint.h>

/** A poor route loses this many of 1000 frames while another loses at most a quarter as many. */
#define RAWE_QUALITY_POOR_PERMILLE 100u

/** Minimum length of a measurement, in ns. */
#define RAWE_QUALITY_TIME_NS 100000000ull

struct rawe_quality {
    uint64_t since_ns;             /**< start of the current measurement; 0: none */
    uint32_t arrived, lost;        /**< the route's counts at that time */
    uint64_t asked_ns;             /**< when an uncounted PING was sent over the route; 0: none */
    uint32_t answered, unanswered; /**< PINGs since then, which count as frames */
    uint16_t permille;             /**< lost in the last measurement, of 1000 frames */
    uint8_t poor;                  /**< measurements in a row with too many losses */
    bool measured;                 /**< at least one measurement is complete */
};

/** Start a measurement. The arguments are the route's total arrivals and losses; they wrap. */
void rawe_quality_begin(struct rawe_quality *quality, uint32_t arrived, uint32_t lost,
                        uint64_t now_ns);

/** Return true if too few frames are sent to measure: a sender waiting for losses sends few. */
bool rawe_quality_wants_ping(const struct rawe_quality *quality, uint32_t arrived, uint32_t lost);

/** Count a PING sent over the route, and whether it was answered. */
void rawe_quality_note_ping(struct rawe_quality *quality, bool answered);

/** Return true if many frames were lost since the start, but not all. */
bool rawe_quality_is_poor(const struct rawe_quality *quality, uint32_t arrived, uint32_t lost);

/** Advance the time. Returns true if a measurement is complete, and the next one has begun. */
bool rawe_quality_measure(struct rawe_quality *quality, uint32_t arrived, uint32_t lost,
                          uint64_t now_ns);

/** Return the route's losses per 1000 frames; 0: none, or not known. */
uint32_t rawe_quality_permille(const struct rawe_quality *quality, uint32_t arrived, uint32_t lost);

/**
 * Judge a complete measurement; call this for each. `other_permille` is the loss of the best other
 * route. Returns true if connections must leave the route.
 */
bool rawe_quality_judge(struct rawe_quality *quality, uint32_t other_permille);

#endif
