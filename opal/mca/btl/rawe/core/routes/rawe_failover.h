/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Failing over: which routes of a process are in doubt or down, and when they are asked about. Of a
 * route that is down the connections go to another (rawe_peer_set_down), and return when it answers
 * again (rawe_peer_set_up). Four things set it off:
 *
 *   its interface has lost its carrier       it is down at once, and not asked while that lasts
 *   a connection that uses it is silent      it is asked, and the others: down if only they answer
 *                                            while that connection is silent
 *   its interface has its carrier again      it is asked at once, and used when it answers
 *   it loses frames                          it is compared with the others: down if it loses much
 *                                            more, unless none is left
 *
 * Nothing is asked of a process with one route: there is no other to go to.
 */
#ifndef RAWE_FAILOVER_H
#define RAWE_FAILOVER_H

#include <stdbool.h>
#include <stdint.h>

#include "rawe_peer.h"

/** Routes in doubt or down are looked at this often at most. */
#define RAWE_FAILOVER_INTERVAL_NS 10000000u

/** What has become of a route since the user was told of it. */
enum rawe_failover_report {
    RAWE_FAILOVER_NO_REPORT,
    RAWE_FAILOVER_CARRIER_LOST, /**< down: its interface has no carrier */
    RAWE_FAILOVER_UNANSWERED,   /**< down: it does not answer, unlike others */
    RAWE_FAILOVER_LOSSY,        /**< down: it loses many more frames than others */
    RAWE_FAILOVER_ANSWERS,      /**< up again */
    RAWE_FAILOVER_FOLLOWED,     /**< the peer's interface has another address */
};

/** What it needs of its owner. None may close a peer, nor call it but where that is said. */
struct rawe_failover_callbacks {
    /** Ask the peer's responder by this route. May call rawe_failover_follow for it. */
    void (*ask)(void *context, struct rawe_peer *peer);
    /** When the newest answer came by this route; 0: none has. */
    uint64_t (*answered_ns)(void *context, const struct rawe_peer *peer);
    /** Report a change of the route to the user. */
    void (*say)(void *context, const struct rawe_peer *peer, enum rawe_failover_report report);
};

/** Of a process. The two atomic ones may be read by any thread. */
struct rawe_failover {
    struct rawe_failover_callbacks callbacks;
    void *context;               /**< the callbacks' */
    struct rawe_peer *suspected; /**< with routes in doubt, down, or to be reported. Atomic */
    uint64_t checked_ns;         /**< when they were last looked at */
    uint64_t due_ns;             /**< when one of them is to be asked next. Atomic */
};

/** Nothing is in doubt. */
void rawe_failover_init(struct rawe_failover *failover,
                        const struct rawe_failover_callbacks *callbacks, void *context);

/** A connection is silent (rawe_callbacks.silent): perhaps the route that it uses is to blame. */
void rawe_failover_silent(struct rawe_failover *failover, const struct rawe_conn *conn,
                          uint64_t now_ns);

/** Frames were lost (rawe_callbacks.lossy): perhaps the route is worse than others. */
void rawe_failover_lossy(struct rawe_failover *failover, const struct rawe_conn *conn,
                         uint64_t now_ns);

/** An interface's carrier has changed; rawe_failover_heed_carrier follows for each peer. */
void rawe_failover_set_carrier(struct rawe_failover *failover, struct rawe_engine *engine,
                               bool carrier);

/** The same for one of them: its route is down, or is asked whether it is up again. */
void rawe_failover_heed_carrier(struct rawe_failover *failover, struct rawe_peer *peer,
                                uint64_t now_ns);

/** The route leads to another address of the peer from now on, where it has answered. */
void rawe_failover_follow(struct rawe_failover *failover, struct rawe_peer *peer,
                          const uint8_t mac[RAWE_MAC_BYTES], uint64_t now_ns);

/** Look at routes in doubt or down, not too often. `may_say`: report changes as well. */
void rawe_failover_check(struct rawe_failover *failover, bool may_say, uint64_t now_ns);

/** The peer is about to be closed. */
void rawe_failover_forget(struct rawe_failover *failover, struct rawe_peer *peer);

/** Is there anything for rawe_failover_check to look at? */
static inline bool rawe_failover_pending(const struct rawe_failover *failover)
{
    return __atomic_load_n(&failover->suspected, __ATOMIC_RELAXED) != NULL;
}

/** From when on there is, with what is known now; UINT64_MAX: not before that changes. */
static inline uint64_t rawe_failover_due_ns(const struct rawe_failover *failover)
{
    return rawe_failover_pending(failover) ? __atomic_load_n(&failover->due_ns, __ATOMIC_RELAXED)
                                           : UINT64_MAX;
}

#endif
