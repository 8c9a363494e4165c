/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Health of a route, judged by answers from the peer's responder. A route is down when it does not
 * answer while another one to the same process does, and up again after several in a row. A route
 * that is not in doubt is not pinged. A route that fails again soon after recovering must answer
 * for longer each time (hold-down), because PINGs are also lost when many senders share a port.
 *
 * A route that loses frames is abandoned in the same way (rawe_quality.h), and must answer 24 times
 * in a row, up to 192. With 30 % loss that hardly ever happens.
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
    uint64_t since_ns;     /**< start of this state */
    uint64_t asked_ns;     /**< time of the last PING in this state; 0: none yet */
    uint64_t recovered_ns; /**< when the route last became UP after being DOWN; 0: never */
    uint8_t state;         /**< enum rawe_health_state */
    uint8_t answers;       /**< DOWN: answers in a row */
    uint8_t relapses;      /**< how often the route failed soon after recovering */
    bool lossy;            /**< DOWN: not dead, but abandoned for a route that loses less */
};

/** What to do about a route. */
enum rawe_health_verdict {
    RAWE_HEALTH_NOTHING,
    RAWE_HEALTH_ASK,       /**< ping it; if it is SUSPECT, ping the others as well */
    RAWE_HEALTH_FAILED,    /**< the route is DOWN from now on */
    RAWE_HEALTH_RECOVERED, /**< the route was DOWN, and is UP from now on */
};

/** Find out whether the route is to blame for the silence of a connection that uses it. */
void rawe_health_doubt(struct rawe_health *health, uint64_t now_ns);

/** Make the route DOWN and due for a PING: its interface lost or regained its carrier. */
void rawe_health_lose(struct rawe_health *health, uint64_t now_ns);

/** Make a route DOWN that loses many more frames than another, until it answers reliably. */
void rawe_health_avoid(struct rawe_health *health, uint64_t now_ns);

/** Make the last route UP if it only loses frames. False: it is dead, or already UP. */
bool rawe_health_revive(struct rawe_health *health, uint64_t now_ns);

/** Return when rawe_health_check next sends a PING; UINT64_MAX: never, because it is UP. */
uint64_t rawe_health_due_ns(const struct rawe_health *health);

/**
 * Advance the time; call every 10 ms or so unless the route is UP. `pong_ns` is the time of its
 * newest answer (now, if no connection that uses it is silent), `other_pong_ns` that of
 * the newest answer over any other route to the process; 0: never.
 */
enum rawe_health_verdict rawe_health_check(struct rawe_health *health, uint64_t pong_ns,
                                           uint64_t other_pong_ns, uint64_t now_ns);

#endif
