/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Health of a route, by the answers of the peer's responder: a route is down when it does not
 * answer while another one to the same process does, and up again when it answers several times in
 * a row. A route without doubt is not asked. One that fails again soon after it has recovered has
 * to answer for longer each time (hold-down): where many senders share a port, PINGs are lost, too.
 *
 * One that loses frames is left in the same way (rawe_quality.h), and has to answer 24 times in a row,
 * 192 at last: with 30 % lost that hardly happens.
 *
 *   UP ──a connection is silent──> SUSPECT ──no answer, but by another route──> DOWN
 *    ^                                │                                          │ ^
 *    ├─ an answer, or silence ends ───┘                        the carrier is lost │ │
 *    └──────────────────────── answers in a row ─────────────────────────────────┘ └── (any state)
 */
#ifndef RAWE_HEALTH_H
#define RAWE_HEALTH_H

#include <stdbool.h>
#include <stdint.h>

enum rawe_health_state {
    RAWE_HEALTH_UP,
    RAWE_HEALTH_SUSPECT,
    RAWE_HEALTH_DOWN,
};

struct rawe_health {
    uint64_t since_ns;     /**< it is in this state */
    uint64_t asked_ns;     /**< when it was last asked in this state; 0: not yet */
    uint64_t recovered_ns; /**< when it was last UP after having been DOWN; 0: never */
    uint8_t state;         /**< enum rawe_health_state */
    uint8_t answers;       /**< DOWN: in a row */
    uint8_t relapses;      /**< how often it has failed again soon after it had recovered */
    bool lossy;            /**< DOWN: not dead, but left as another one loses less */
};

/** What to do about a route. */
enum rawe_health_verdict {
    RAWE_HEALTH_NOTHING,
    RAWE_HEALTH_ASK,       /**< send it a PING, and the others, if it is SUSPECT */
    RAWE_HEALTH_FAILED,    /**< it is DOWN from now on */
    RAWE_HEALTH_RECOVERED, /**< it is UP from now on, and was DOWN */
};

/** A connection that uses the route is silent: is it the route? */
void rawe_health_doubt(struct rawe_health *health, uint64_t now_ns);

/** The interface has lost its carrier; or has it again, so that the route is asked at once. */
void rawe_health_lose(struct rawe_health *health, uint64_t now_ns);

/** The route loses much more than another: it is DOWN, until it has answered for longer. */
void rawe_health_avoid(struct rawe_health *health, uint64_t now_ns);

/** It is all that is left: it is UP again, if it loses frames only. False: it is down, or up. */
bool rawe_health_revive(struct rawe_health *health, uint64_t now_ns);

/** From when on rawe_health_check has a question to ask; UINT64_MAX: never, it is UP. */
uint64_t rawe_health_due_ns(const struct rawe_health *health);

/**
 * Time has passed; to be called every 10 ms or so, unless it is UP. `pong_ns` is when its newest
 * answer came (now, if no connection that uses it is silent any more), `other_pong_ns` the same of all other routes to the process; 0: never.
 */
enum rawe_health_verdict rawe_health_check(struct rawe_health *health, uint64_t pong_ns,
                                           uint64_t other_pong_ns, uint64_t now_ns);

#endif
