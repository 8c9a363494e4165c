/* SPDX-License-Identifier: BSD-3-Clause */
#include "rawe_timer.h"

#include <string.h>

#define SLOT_MASK (RAWE_TIMER_SLOTS - 1u)
/** The wheel skips gaps of more ticks than it has slots (4 ms, while the process computed). */
#define JUMP_TICKS (RAWE_TIMER_LEVELS * RAWE_TIMER_SLOTS)
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

/** Return the slot of a level that holds the timers of a tick. */
static struct rawe_link *slot_of_tick(struct rawe_timer_wheel *wheel, unsigned level, uint64_t tick)
{
    return &wheel->slots[level][(tick >> (level * RAWE_TIMER_SLOT_BITS)) & SLOT_MASK];
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
    rawe_list_append(slot_of_tick(wheel, level, tick), &timer->link);
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

/** Reinsert timers, relative to the current tick. */
static void insert_all(struct rawe_timer_wheel *wheel, struct rawe_link *timers)
{
    struct rawe_timer *timer;
    while ((timer = timer_of(rawe_list_take(timers))) != NULL) {
        insert_timer(wheel, timer);
    }
}

/** Move a slot's timers to a finer level, or back to the same slot. */
static void cascade_timers(struct rawe_timer_wheel *wheel, unsigned level)
{
    struct rawe_link timers;
    rawe_list_init(&timers);
    rawe_list_append_all(&timers, slot_of_tick(wheel, level, wheel->tick));
    insert_all(wheel, &timers);
}

/** Advance the wheel to `tick` and reinsert all timers, which is cheaper than stepping. */
static void jump_to_tick(struct rawe_timer_wheel *wheel, uint64_t tick)
{
    struct rawe_link all;
    rawe_list_init(&all);
    for (unsigned i = 0; i < RAWE_TIMER_LEVELS * RAWE_TIMER_SLOTS; i++) {
        rawe_list_append_all(&all, &wheel->slots[i / RAWE_TIMER_SLOTS][i % RAWE_TIMER_SLOTS]);
    }
    wheel->tick = tick;
    insert_all(wheel, &all);
}

void rawe_timer_wheel_advance(struct rawe_timer_wheel *wheel, uint64_t now_ns)
{
    uint64_t last = now_ns >> RAWE_TIMER_TICK_SHIFT;
    if (last > wheel->tick && last - wheel->tick > JUMP_TICKS && wheel->armed != 0) {
        jump_to_tick(wheel, last);
    }
    while (wheel->tick <= last) {
        if (wheel->armed == 0) {
            wheel->tick = last + 1;
            return;
        }
        for (unsigned level = 1; level < RAWE_TIMER_LEVELS; level++) {
            if ((wheel->tick & ((1ull << (level * RAWE_TIMER_SLOT_BITS)) - 1)) != 0) {
                break;
            }
            cascade_timers(wheel, level);
        }
        struct rawe_link *slot = slot_of_tick(wheel, 0, wheel->tick++);
        if (rawe_list_empty(slot)) {
            continue; /* the usual case */
        }
        struct rawe_link expired;
        struct rawe_timer *timer;
        rawe_list_init(&expired);
        rawe_list_append_all(&expired, slot);
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
