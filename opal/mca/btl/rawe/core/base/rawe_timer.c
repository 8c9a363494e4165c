/* SPDX-License-Identifier: BSD-3-Clause */
#include "rawe_timer.h"

#include <stddef.h>
#include <string.h>

#define SLOT_MASK (RAWE_TIMER_SLOTS - 1u)
/** The wheel jumps over longer gaps (4 ms: the process computed): as many ticks as slots. */
#define JUMP_TICKS (RAWE_TIMER_LEVELS * RAWE_TIMER_SLOTS)
#define WHEEL_TICKS (1ull << (RAWE_TIMER_LEVELS * RAWE_TIMER_SLOT_BITS))

void rawe_timer_wheel_init(struct rawe_timer_wheel *wheel, uint64_t now_ns)
{
    memset(wheel, 0, sizeof(*wheel));
    wheel->tick = now_ns >> RAWE_TIMER_TICK_SHIFT;
}

void rawe_timer_init(struct rawe_timer *timer, rawe_timer_fn *expired)
{
    memset(timer, 0, sizeof(*timer));
    timer->expired = expired;
}

static void insert(struct rawe_timer_wheel *wheel, struct rawe_timer *timer)
{
    uint64_t tick = (timer->deadline_ns >> RAWE_TIMER_TICK_SHIFT) + 1; /* the deadline has passed */
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
    struct rawe_timer **head =
        &wheel->slots[level][(tick >> (level * RAWE_TIMER_SLOT_BITS)) & SLOT_MASK];
    timer->next = *head;
    if (timer->next != NULL) {
        timer->next->link = &timer->next;
    }
    timer->link = head;
    *head = timer;
}

static void unlink_timer(struct rawe_timer *timer)
{
    *timer->link = timer->next;
    if (timer->next != NULL) {
        timer->next->link = timer->link;
    }
    timer->next = NULL;
    timer->link = NULL;
}

void rawe_timer_arm(struct rawe_timer_wheel *wheel, struct rawe_timer *timer, uint64_t deadline_ns)
{
    if (timer->link != NULL) {
        unlink_timer(timer);
    } else {
        wheel->armed++;
    }
    timer->deadline_ns = deadline_ns;
    insert(wheel, timer);
}

void rawe_timer_cancel(struct rawe_timer_wheel *wheel, struct rawe_timer *timer)
{
    if (timer->link != NULL) {
        unlink_timer(timer);
        wheel->armed--;
    }
}

/** Move a slot's timers to where they belong by now: a finer level, or the same slot again. */
static void cascade(struct rawe_timer_wheel *wheel, unsigned level)
{
    struct rawe_timer **head =
        &wheel->slots[level][(wheel->tick >> (level * RAWE_TIMER_SLOT_BITS)) & SLOT_MASK];
    struct rawe_timer *timer = *head;
    *head = NULL;
    while (timer != NULL) {
        struct rawe_timer *next = timer->next;
        insert(wheel, timer);
        timer = next;
    }
}

/** Sort all timers again around `tick`: cheaper than stepping over a long gap. */
static void jump(struct rawe_timer_wheel *wheel, uint64_t tick)
{
    struct rawe_timer *all = NULL;
    for (unsigned level = 0; level < RAWE_TIMER_LEVELS; level++) {
        for (unsigned slot = 0; slot < RAWE_TIMER_SLOTS; slot++) {
            struct rawe_timer *timer = wheel->slots[level][slot];
            wheel->slots[level][slot] = NULL;
            while (timer != NULL) {
                struct rawe_timer *next = timer->next;
                timer->next = all;
                all = timer;
                timer = next;
            }
        }
    }
    wheel->tick = tick;
    while (all != NULL) {
        struct rawe_timer *next = all->next;
        insert(wheel, all);
        all = next;
    }
}

void rawe_timer_wheel_advance(struct rawe_timer_wheel *wheel, uint64_t now_ns)
{
    uint64_t last = now_ns >> RAWE_TIMER_TICK_SHIFT;
    if (last > wheel->tick && last - wheel->tick > JUMP_TICKS && wheel->armed != 0) {
        jump(wheel, last);
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
            cascade(wheel, level);
        }
        struct rawe_timer *expired = wheel->slots[0][wheel->tick & SLOT_MASK];
        wheel->slots[0][wheel->tick & SLOT_MASK] = NULL;
        if (expired != NULL) {
            expired->link = &expired;
        }
        wheel->tick++;
        while (expired != NULL) {
            struct rawe_timer *timer = expired;
            unlink_timer(timer);
            if (timer->deadline_ns > now_ns) {
                insert(wheel, timer);
                continue;
            }
            wheel->armed--;
            timer->expired(timer, now_ns);
        }
    }
}
