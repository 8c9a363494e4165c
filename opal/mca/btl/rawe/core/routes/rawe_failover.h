/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Failover: tracks which routes to a process are in doubt or down, and when to ping them.
 * Connections move off a route that is down (rawe_peer_set_down), and return when it answers again
 * (rawe_peer_set_up). Four events trigger a change:
 *
 *   its interface has lost its carrier       down at once, and not pinged meanwhile
 *   a connection that uses it is silent      all routes are pinged: down if only others answer
 *                                            while that connection is silent
 *   its interface has its carrier again      pinged at once, and used when it answers
 *   it loses frames                          compared with other routes: down if it loses many
 *                                            more, unless no other is left
 *
 * A process with a single route is never pinged, because there is no other route to use.
 */
#ifndef RAWE_FAILOVER_H
#define RAWE_FAILOVER_H

#include <stdbool.h>
#include <stdint.h>

#include "rawe_peer.h"

/** Shortest interval between checks of routes in doubt or down, in ns. */
#define RAWE_FAILOVER_INTERVAL_NS 10000000u

/** A change of a route that must still be reported to the user. */
enum rawe_failover_report {
    RAWE_FAILOVER_NO_REPORT,
    RAWE_FAILOVER_CARRIER_LOST, /**< down: its interface has no carrier */
    RAWE_FAILOVER_UNANSWERED,   /**< down: it does not answer, unlike others */
    RAWE_FAILOVER_LOSSY,        /**< down: it loses many more frames than others */
    RAWE_FAILOVER_ANSWERS,      /**< up again */
    RAWE_FAILOVER_FOLLOWED,     /**< the peer's interface has a new address */
};

/** Callbacks to the owner. They must not close a peer, nor call this module except as stated. */
struct rawe_failover_callbacks {
    /** Send a PING over this route. May call rawe_failover_follow for it. */
    void (*ask)(void *context, struct rawe_peer *peer);
    /** Return when the newest answer arrived over this route; 0: never. */
    uint64_t (*answered_ns)(void *context, const struct rawe_peer *peer);
    /** Report a change of the route to the user. */
    void (*say)(void *context, const struct rawe_peer *peer, enum rawe_failover_report report);
};

/** Failover state of a process. Any thread may read the atomic fields. */
struct rawe_failover {
    struct rawe_failover_callbacks callbacks;
    void *context;               /**< the callbacks' */
    struct rawe_peer *suspected; /**< routes in doubt, down, or to be reported. Atomic */
    uint64_t checked_ns;         /**< when they were last checked */
    uint64_t due_ns;             /**< when the next PING over one of them is due. Atomic */
};

/** Initialize, with no route in doubt. */
void rawe_failover_init(struct rawe_failover *failover,
                        const struct rawe_failover_callbacks *callbacks, void *context);

/** Suspect the route of a connection whose peer is silent (rawe_callbacks.silent). */
void rawe_failover_silent(struct rawe_failover *failover, const struct rawe_conn *conn,
                          uint64_t now_ns);

/** Measure all routes to a process to which frames were lost (rawe_callbacks.lossy). */
void rawe_failover_lossy(struct rawe_failover *failover, const struct rawe_conn *conn,
                         uint64_t now_ns);

/** Note a carrier change. Call rawe_failover_heed_carrier for each peer afterwards. */
void rawe_failover_set_carrier(struct rawe_failover *failover, struct rawe_engine *engine,
                               bool carrier);

/** Apply a carrier change to a peer's route: set it down, or ping it to learn if it is up. */
void rawe_failover_heed_carrier(struct rawe_failover *failover, struct rawe_peer *peer,
                                uint64_t now_ns);

/** Direct the route to the new address from which the peer has answered. */
void rawe_failover_follow(struct rawe_failover *failover, struct rawe_peer *peer,
                          const uint8_t mac[RAWE_MAC_BYTES], uint64_t now_ns);

/**
 * Check routes in doubt or down, at most once per RAWE_FAILOVER_INTERVAL_NS. `may_say`: also report
 * changes.
 */
void rawe_failover_check(struct rawe_failover *failover, bool may_say, uint64_t now_ns);

/** Forget a peer that is about to be closed. */
void rawe_failover_forget(struct rawe_failover *failover, struct rawe_peer *peer);

/** Return true if rawe_failover_check has any route to check. */
static inline bool rawe_failover_pending(const struct rawe_failover *failover)
{
    return __atomic_load_n(&failover->suspected, __ATOMIC_RELAXED) != NULL;
}

/** Return when the next check is due, as far as known now; UINT64_MAX: none is planned. */
static inline uint64_t rawe_failover_due_ns(const struct rawe_failover *failover)
{
    return rawe_failover_pending(failover) ? __atomic_load_n(&failover->due_ns, __ATOMIC_RELAXED)
                                           : UINT64_MAX;
}

#endif
