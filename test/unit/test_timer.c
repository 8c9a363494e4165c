/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Tests of the timer wheel: single cases, and random operations against a model that keeps a plain
 * list.
 */
#include <string.h>

#include "base/rawe_timer.h"
#include "unit_test.h"

#define TICK_NS (1ull << RAWE_TIMER_TICK_SHIFT)
#define WHEEL_NS (TICK_NS << (RAWE_TIMER_LEVELS * RAWE_TIMER_SLOT_BITS))

/** A timer and the tests' record of it. */
struct watched {
    struct rawe_timer timer; /* must be first: cast back from it */
    unsigned expired;
    uint64_t expired_ns;
    struct rawe_timer_wheel *wheel;
    struct watched *victim;  /**< cancelled when this one expires */
    uint64_t again_after_ns; /**< rearmed this long after it expires; 0: not rearmed */
    uint64_t model_tick;     /**< the model expires it when an advance reaches this tick */
    bool model_armed;
};

static void expired(struct rawe_timer *timer, uint64_t now_ns)
{
    struct watched *watched = (struct watched *)(void *)timer;
    assert_false(rawe_timer_armed(timer));
    assert_true(now_ns >= timer->deadline_ns);
    watched->expired++;
    watched->expired_ns = now_ns;
    if (watched->victim != NULL) {
        rawe_timer_cancel(watched->wheel, &watched->victim->timer);
    }
    if (watched->again_after_ns != 0) {
        rawe_timer_arm(watched->wheel, timer, now_ns + watched->again_after_ns);
    }
}

static void watch(struct watched *watched, struct rawe_timer_wheel *by)
{
    memset(watched, 0, sizeof(*watched));
    watched->wheel = by;
    rawe_timer_init(&watched->timer, expired);
}

static struct rawe_timer_wheel wheel;
static struct watched one;

static void set_up(void)
{
    rawe_timer_wheel_init(&wheel, 0);
    watch(&one, &wheel);
}

FIXTURE(set_up, NULL);

TEST(rawe_timer_arm__beyond_the_wheel)
{
    struct watched far, never;
    rawe_timer_wheel_init(&wheel, 7 * TICK_NS);
    watch(&far, &wheel);
    watch(&never, &wheel);
    uint64_t deadline_ns = 3 * WHEEL_NS + 12345;
    rawe_timer_arm(&wheel, &far.timer, deadline_ns);
    rawe_timer_arm(&wheel, &never.timer, UINT64_MAX);
    /* Advance in steps below the jump limit, so that the timer is parked and checked again. */
    for (uint64_t now_ns = 0; now_ns < deadline_ns; now_ns += 250 * TICK_NS) {
        rawe_timer_wheel_advance(&wheel, now_ns);
        assert_int_equal(far.expired, 0);
    }
    rawe_timer_wheel_advance(&wheel, deadline_ns + TICK_NS);
    assert_int_equal(far.expired, 1);
    assert_int_equal(never.expired, 0);
    assert_true(rawe_timer_armed(&never.timer));
}

TEST(rawe_timer_arm_by__keeps_the_earlier_deadline)
{
    rawe_timer_arm_by(&wheel, &one.timer, 100 * TICK_NS);
    assert_true(one.timer.deadline_ns == 100 * TICK_NS);
    rawe_timer_arm_by(&wheel, &one.timer, 200 * TICK_NS);
    assert_true(one.timer.deadline_ns == 100 * TICK_NS);
    rawe_timer_arm_by(&wheel, &one.timer, 50 * TICK_NS);
    assert_true(one.timer.deadline_ns == 50 * TICK_NS);
    rawe_timer_wheel_advance(&wheel, 52 * TICK_NS);
    assert_int_equal(one.expired, 1);
}

TEST(rawe_timer_wheel_advance__a_callback_arms_again)
{
    one.again_after_ns = 10 * TICK_NS;
    rawe_timer_arm(&wheel, &one.timer, 10 * TICK_NS);
    for (uint64_t tick = 0; tick <= 1000; tick++) {
        rawe_timer_wheel_advance(&wheel, tick * TICK_NS);
    }
    /* A period is ten ticks, plus at most one for rounding. */
    assert_true(one.expired >= 1000 / 11 && one.expired <= 100);
    assert_int_equal(wheel.armed, 1);
    /* A single advance, however long, calls it once: the timer is rearmed from the current time. */
    unsigned before = one.expired;
    rawe_timer_wheel_advance(&wheel, 2000 * TICK_NS);
    assert_int_equal(one.expired, before + 1);
}

TEST(rawe_timer_wheel_advance__time_that_jumps_back)
{
    rawe_timer_wheel_init(&wheel, 1000 * TICK_NS);
    rawe_timer_arm(&wheel, &one.timer, 1010 * TICK_NS);
    rawe_timer_wheel_advance(&wheel, 1005 * TICK_NS);
    rawe_timer_wheel_advance(&wheel, 3 * TICK_NS);
    rawe_timer_wheel_advance(&wheel, 0);
    assert_int_equal(one.expired, 0);
    rawe_timer_wheel_advance(&wheel, 1011 * TICK_NS);
    assert_int_equal(one.expired, 1);
}

TEST(rawe_timer_wheel_due__a_tick_has_passed)
{
    rawe_timer_arm(&wheel, &one.timer, 100 * TICK_NS);
    rawe_timer_wheel_advance(&wheel, 5 * TICK_NS);
    assert_false(rawe_timer_wheel_due(&wheel, 5 * TICK_NS));
    assert_false(rawe_timer_wheel_due(&wheel, 6 * TICK_NS - 1));
    assert_true(rawe_timer_wheel_due(&wheel, 6 * TICK_NS));
    rawe_timer_cancel(&wheel, &one.timer);
    assert_false(rawe_timer_wheel_due(&wheel, 6 * TICK_NS));
}

#define MODEL_TIMERS 200u

static uint64_t random_state;

static uint64_t random_below(uint64_t bound)
{
    random_state = random_state * 6364136223846793005ull + 1442695040888963407ull;
    return (random_state >> 24) % bound;
}

/** Return a duration whose magnitude is spread evenly over all levels. */
static uint64_t random_span_ns(void)
{
    unsigned bits = (unsigned)random_below(RAWE_TIMER_TICK_SHIFT + 27) + 1;
    return random_below(1ull << bits);
}

static void model_arm(struct watched *watched, uint64_t next_tick)
{
    uint64_t tick = (watched->timer.deadline_ns >> RAWE_TIMER_TICK_SHIFT) + 1;
    watched->model_tick = tick < next_tick ? next_tick : tick;
    watched->model_armed = true;
}

TEST(wheel__random_operations_match_a_plain_list)
{
    for (unsigned seed = 1; seed <= 20; seed++) {
        random_state = seed;
        static struct watched timers[MODEL_TIMERS];
        uint64_t now_ns = random_span_ns();
        uint64_t next_tick = now_ns >> RAWE_TIMER_TICK_SHIFT;
        rawe_timer_wheel_init(&wheel, now_ns);
        for (unsigned i = 0; i < MODEL_TIMERS; i++) {
            watch(&timers[i], &wheel);
        }
        for (unsigned step = 0; step < 5000; step++) {
            struct watched *any = &timers[random_below(MODEL_TIMERS)];
            unsigned operation = (unsigned)random_below(10);
            if (operation < 6) {
                uint64_t deadline_ns = now_ns + random_span_ns();
                if (random_below(10) == 0) {
                    deadline_ns = random_below(now_ns + 1); /* in the past */
                }
                if (operation < 4) {
                    rawe_timer_arm(&wheel, &any->timer, deadline_ns);
                    model_arm(any, next_tick);
                } else if (!any->model_armed || any->timer.deadline_ns > deadline_ns) {
                    rawe_timer_arm_by(&wheel, &any->timer, deadline_ns);
                    model_arm(any, next_tick);
                } else {
                    rawe_timer_arm_by(&wheel, &any->timer, deadline_ns);
                }
            } else if (operation == 6) {
                rawe_timer_cancel(&wheel, &any->timer);
                any->model_armed = false;
            } else {
                /* Mostly take small steps, but sometimes jump over several levels. */
                now_ns += random_below(8) == 0 ? random_span_ns() : random_below(300 * TICK_NS);
                rawe_timer_wheel_advance(&wheel, now_ns);
                uint64_t last = now_ns >> RAWE_TIMER_TICK_SHIFT;
                next_tick = last >= next_tick ? last + 1 : next_tick;
                unsigned armed = 0;
                for (unsigned i = 0; i < MODEL_TIMERS; i++) {
                    unsigned expected = timers[i].model_armed && timers[i].model_tick <= last;
                    assert_int_equal(timers[i].expired, expected);
                    timers[i].expired = 0;
                    if (expected != 0) {
                        timers[i].model_armed = false;
                    }
                    assert_int_equal(rawe_timer_armed(&timers[i].timer), timers[i].model_armed);
                    armed += timers[i].model_armed;
                }
                assert_int_equal(wheel.armed, armed);
            }
        }
    }
}
