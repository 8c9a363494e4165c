/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Timer wheel: many timers, each armed and cancelled in constant time. None expires early.
 *
 * It is hierarchical, after Varghese and Lauck (1987): four levels of 64 slots; a slot of level n
 * covers 64^n ticks. A tick is 2^14 ns = 16.4 µs, the whole wheel 275 s. Later deadlines are parked
 * in the last slot and sorted again when that slot is reached.
 */
#ifndef RAWE_TIMER_H
#define RAWE_TIMER_H

#include <stdbool.h>
#include <stdint.h>

#include "rawe_list.h"

#define RAWE_TIMER_TICK_SHIFT 14u
#define RAWE_TIMER_LEVELS 4u
#define RAWE_TIMER_SLOT_BITS 6u
#define RAWE_TIMER_SLOTS (1u << RAWE_TIMER_SLOT_BITS)

struct rawe_timer;

/** Called when a timer expires. The timer is no longer armed, and may be rearmed. */
typedef void rawe_timer_fn(struct rawe_timer *timer, uint64_t now_ns);

struct rawe_timer {
    struct rawe_link link; /**< in a slot's list; in none if not armed */
    uint64_t deadline_ns;
    rawe_timer_fn *expired;
};

struct rawe_timer_wheel {
    uint64_t tick;  /**< all ticks before this one have been processed */
    unsigned armed; /**< how many timers are armed */
    /** A bit for each slot that may have timers, so that empty slots are skipped unread. */
    uint64_t occupied[RAWE_TIMER_LEVELS];
    struct rawe_link slots[RAWE_TIMER_LEVELS][RAWE_TIMER_SLOTS];
};

void rawe_timer_wheel_init(struct rawe_timer_wheel *wheel, uint64_t now_ns);

void rawe_timer_init(struct rawe_timer *timer, rawe_timer_fn *expired);

static inline bool rawe_timer_armed(const struct rawe_timer *timer)
{
    return rawe_list_has(&timer->link);
}

/** Arm a timer, or change its deadline. It expires at `deadline_ns` or later. */
void rawe_timer_arm(struct rawe_timer_wheel *wheel, struct rawe_timer *timer, uint64_t deadline_ns);

/** Arm a timer, cheaply, unless it expires earlier: the owner then checks its real deadline. */
static inline void rawe_timer_arm_by(struct rawe_timer_wheel *wheel, struct rawe_timer *timer,
                                     uint64_t deadline_ns)
{
    if (!rawe_timer_armed(timer) || timer->deadline_ns > deadline_ns) {
        rawe_timer_arm(wheel, timer, deadline_ns);
    }
}

/** Disarm a timer. Does nothing if it is not armed. */
void rawe_timer_cancel(struct rawe_timer_wheel *wheel, struct rawe_timer *timer);

/** Call `expired` for every timer whose deadline has passed. Ignores backward jumps in time. */
void rawe_timer_wheel_advance(struct rawe_timer_wheel *wheel, uint64_t now_ns);

/** Return true if a tick has passed since the last advance, and a timer is armed. */
static inline bool rawe_timer_wheel_due(const struct rawe_timer_wheel *wheel, uint64_t now_ns)
{
    return wheel->armed != 0 && (now_ns >> RAWE_TIMER_TICK_SHIFT) >= wheel->tick;
}

#endif
