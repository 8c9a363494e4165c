/* SPDX-License-Identifier: BSD-3-Clause */
#include "rawe_health.h"

#define MS 1000000ull

/** How long to wait after another route has answered: one responder serves all interfaces. */
#define PATIENCE_NS (40 * MS)

/** Consecutive answers before a route is used again: a connector bounces when plugged in. */
#define ANSWERS_WANTED 3u

/** A failure this soon after a recovery doubles ANSWERS_WANTED, up to 24, some three seconds. */
#define RELAPSE_NS (10000 * MS)
#define DOUBLINGS_MAX 3u

/** Consecutive answers before a lossy route is used again: it always answers some PINGs. */
#define LOSSY_ANSWERS_WANTED 24u

/** Interval between PINGs: 1/PARTS of the time since the state began, within these bounds. */
#define SUSPECT_LEAST_NS (10 * MS)
#define SUSPECT_MOST_NS (250 * MS)
#define DOWN_LEAST_NS (50 * MS)
#define DOWN_MOST_NS (250 * MS)
#define PARTS 16u

static void enter_state(struct rawe_health *health, enum rawe_health_state state, uint64_t now_ns)
{
    *health = (struct rawe_health){.since_ns = now_ns,
                                   .recovered_ns = health->recovered_ns,
                                   .state = (uint8_t)state,
                                   .relapses = health->relapses};
}

void rawe_health_doubt(struct rawe_health *health, uint64_t now_ns)
{
    if (health->state == RAWE_HEALTH_UP) {
        enter_state(health, RAWE_HEALTH_SUSPECT, now_ns);
    }
}

void rawe_health_lose(struct rawe_health *health, uint64_t now_ns)
{
    enter_state(health, RAWE_HEALTH_DOWN, now_ns);
}

/** Return the number of failures that soon followed recoveries, including the current one. */
static uint8_t count_relapses(const struct rawe_health *health, uint64_t now_ns)
{
    bool soon = health->recovered_ns != 0 && now_ns - health->recovered_ns < RELAPSE_NS;
    return !soon ? 0 : (uint8_t)(health->relapses + (health->relapses < DOUBLINGS_MAX));
}

void rawe_health_avoid(struct rawe_health *health, uint64_t now_ns)
{
    uint8_t count = count_relapses(health, now_ns);
    enter_state(health, RAWE_HEALTH_DOWN, now_ns);
    health->relapses = count;
    health->lossy = true;
}

bool rawe_health_revive(struct rawe_health *health, uint64_t now_ns)
{
    bool lossy = health->state == RAWE_HEALTH_DOWN && health->lossy;
    if (lossy) {
        enter_state(health, RAWE_HEALTH_UP, now_ns);
    }
    return lossy;
}

uint64_t rawe_health_due_ns(const struct rawe_health *health)
{
    bool down = health->state == RAWE_HEALTH_DOWN;
    uint64_t least_ns = down ? DOWN_LEAST_NS : SUSPECT_LEAST_NS;
    uint64_t most_ns = down ? DOWN_MOST_NS : SUSPECT_MOST_NS;
    if (health->state == RAWE_HEALTH_UP) {
        return UINT64_MAX;
    }
    if (health->asked_ns == 0) {
        return health->since_ns;
    }
    /* The interval is then 1/PARTS of the next PING's time since the state began. */
    uint64_t interval_ns = (health->asked_ns - health->since_ns) / (PARTS - 1);
    interval_ns = interval_ns < least_ns ? least_ns : interval_ns;
    return health->asked_ns + (interval_ns > most_ns ? most_ns : interval_ns);
}

static enum rawe_health_verdict check_suspect(struct rawe_health *health, uint64_t pong_ns,
                                              uint64_t other_pong_ns, uint64_t now_ns)
{
    if (pong_ns >= health->since_ns) {
        enter_state(health, RAWE_HEALTH_UP, now_ns);
        return RAWE_HEALTH_NOTHING;
    }
    if (now_ns - health->since_ns >= PATIENCE_NS && other_pong_ns >= health->since_ns) {
        uint8_t count = count_relapses(health, now_ns);
        enter_state(health, RAWE_HEALTH_DOWN, now_ns);
        health->relapses = count;
        return RAWE_HEALTH_FAILED;
    }
    if (now_ns < rawe_health_due_ns(health)) {
        return RAWE_HEALTH_NOTHING;
    }
    health->asked_ns = now_ns;
    return RAWE_HEALTH_ASK;
}

static enum rawe_health_verdict check_down(struct rawe_health *health, uint64_t pong_ns,
                                           uint64_t now_ns)
{
    const uint64_t due_ns = rawe_health_due_ns(health);
    if (now_ns < due_ns) {
        return RAWE_HEALTH_NOTHING;
    }
    health->since_ns += now_ns - due_ns; /* do not count time when we did not run */
    bool answered = health->asked_ns != 0 && pong_ns >= health->asked_ns;
    health->answers = answered ? (uint8_t)(health->answers + 1) : 0;
    unsigned wanted = health->lossy ? LOSSY_ANSWERS_WANTED : ANSWERS_WANTED;
    if (health->answers >= wanted << health->relapses) {
        enter_state(health, RAWE_HEALTH_UP, now_ns);
        health->recovered_ns = now_ns;
        return RAWE_HEALTH_RECOVERED;
    }
    health->asked_ns = now_ns;
    return RAWE_HEALTH_ASK;
}

enum rawe_health_verdict rawe_health_check(struct rawe_health *health, uint64_t pong_ns,
                                           uint64_t other_pong_ns, uint64_t now_ns)
{
    switch (health->state) {
    case RAWE_HEALTH_SUSPECT:
        return check_suspect(health, pong_ns, other_pong_ns, now_ns);
    case RAWE_HEALTH_DOWN:
        return check_down(health, pong_ns, now_ns);
    default:
        return RAWE_HEALTH_NOTHING;
    }
}
