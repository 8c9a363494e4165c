/* SPDX-License-Identifier: BSD-3-Clause */
#include "rawe_timer.h"

#include <string.h>

#define SLOT_MASK (RAWE_TIMER_SLOTS - 1u)
#define WHEEL_TICKS (1ull << (RAWE_TIMER_LEVELS * RAWE_TIMER_SLOT_BITS))

void rawe_timer_wheel_init(struct rawe_timer_wheel *wheel, uint64_t now_ns)
{
    memset(wheel, 0, sizeof(*wheel));
    for (unsigned i = 0; i < RAWE_TIMER_LEVELS * RAWE_TIMER_SLOTS; i++) {
        rawe_list_init(&wheel->slots[i / RAWE_TIMER_SLOTS][i % RAWE_TIMER_SLOTS]);
    }
    wheel->tick = now_ns >> RAWE_TIMER_TICK_SHIFT;
}

void rawe_timer_init(struct rawe_timer *timer, rawe_timer_fn *expired)
{
    memset(timer, 0, sizeof(*timer));
    timer->expired = expired;
}

static struct rawe_timer *timer_of(struct rawe_link *link)
{
    return link == NULL ? NULL : RAWE_OWNER(link, struct rawe_timer, link);
}

/** Return the index of the slot of a level that holds the timers of a tick. */
static unsigned slot_index(unsigned level, uint64_t tick)
{
    return (unsigned)(tick >> (level * RAWE_TIMER_SLOT_BITS)) & SLOT_MASK;
}

static void insert_timer(struct rawe_timer_wheel *wheel, struct rawe_timer *timer)
{
    uint64_t tick = (timer->deadline_ns >> RAWE_TIMER_TICK_SHIFT) + 1; /* past the deadline */
    if (tick < wheel->tick) {
        tick = wheel->tick;
    }
    uint64_t distance = tick - wheel->tick;
    if (distance >= WHEEL_TICKS) {
        distance = WHEEL_TICKS - 1;
        tick = wheel->tick + distance;
    }
    unsigned level = 0;
    while (distance >= RAWE_TIMER_SLOTS) {
        distance >>= RAWE_TIMER_SLOT_BITS;
        level++;
    }
    unsigned index = slot_index(level, tick);
    rawe_list_append(&wheel->slots[level][index], &timer->link);
    wheel->occupied[level] |= 1ull << index;
}

void rawe_timer_arm(struct rawe_timer_wheel *wheel, struct rawe_timer *timer, uint64_t deadline_ns)
{
    wheel->armed += !rawe_timer_armed(timer);
    rawe_list_remove(&timer->link);
    timer->deadline_ns = deadline_ns;
    insert_timer(wheel, timer);
}

void rawe_timer_cancel(struct rawe_timer_wheel *wheel, struct rawe_timer *timer)
{
    wheel->armed -= rawe_timer_armed(timer);
    rawe_list_remove(&timer->link);
}

/** Empty the slot that holds the current tick into `timers`. */
static void take_slot(struct rawe_timer_wheel *wheel, unsigned level, struct rawe_link *timers)
{
    unsigned index = slot_index(level, wheel->tick);
    rawe_list_init(timers);
    rawe_list_append_all(timers, &wheel->slots[level][index]);
    wheel->occupied[level] &= ~(1ull << index);
}

/** Move a slot's timers to a finer level, or back to the same slot. */
static void cascade_timers(struct rawe_timer_wheel *wheel, unsigned level)
{
    struct rawe_link timers;
    struct rawe_timer *timer;
    take_slot(wheel, level, &timers);
    while ((timer = timer_of(rawe_list_take(&timers))) != NULL) {
        insert_timer(wheel, timer);
    }
}

/** Return the first tick, from the current one on, at which an occupied slot is due. */
static uint64_t next_tick(const struct rawe_timer_wheel *wheel)
{
    uint64_t next = UINT64_MAX;
    for (unsigned level = 0; level < RAWE_TIMER_LEVELS; level++) {
        uint64_t occupied = wheel->occupied[level];
        if (occupied == 0) {
            continue;
        }
        unsigned shift = level * RAWE_TIMER_SLOT_BITS;
        uint64_t first = (wheel->tick + (1ull << shift) - 1) >> shift; /* slots begin at a tick */
        unsigned turn = (unsigned)first & SLOT_MASK;
        uint64_t ahead = turn == 0 ? occupied : occupied >> turn | occupied << (64u - turn);
        uint64_t tick = (first + (unsigned)__builtin_ctzll(ahead)) << shift;
        next = tick < next ? tick : next;
    }
    return next;
}

__attribute__((hot)) void rawe_timer_wheel_advance(struct rawe_timer_wheel *wheel, uint64_t now_ns)
{
    uint64_t last = now_ns >> RAWE_TIMER_TICK_SHIFT, next;
    while (wheel->tick <= last) {
        if (wheel->armed == 0 || (next = next_tick(wheel)) > last) {
            wheel->tick = last + 1;
            return;
        }
        wheel->tick = next;
        for (unsigned level = 1; level < RAWE_TIMER_LEVELS; level++) {
            if ((next & ((1ull << (level * RAWE_TIMER_SLOT_BITS)) - 1)) != 0) {
                break;
            }
            cascade_timers(wheel, level);
        }
        struct rawe_link expired;
        struct rawe_timer *timer;
        take_slot(wheel, 0, &expired);
        wheel->tick++;
        while ((timer = timer_of(rawe_list_take(&expired))) != NULL) {
            if (timer->deadline_ns > now_ns) {
                insert_timer(wheel, timer);
                continue;
            }
            wheel->armed--;
            timer->expired(timer, now_ns);
        }
    }
}
