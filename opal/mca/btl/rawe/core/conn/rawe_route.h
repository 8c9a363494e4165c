/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Routes: the paths to another process, each from one of our interfaces to one of that process. A
 * connection prefers one, and uses another while that is down (rawe_conn_path.h). The routes to a
 * process form a ring.
 */
#ifndef RAWE_ROUTE_H
#define RAWE_ROUTE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/rawe_wire.h"
#include "send/rawe_order.h"

struct rawe_engine;

struct rawe_route {
    struct rawe_engine *engine; /**< our interface's: its link sends the frames */
    struct rawe_route *next;    /**< in the ring; the route itself if it is the only one. Atomic */
    uint8_t mac[RAWE_MAC_BYTES];
    uint16_t port; /**< the peer's port at that interface, like its session key `key` */
    uint32_t key;
    uint32_t payload_max_bytes; /**< largest frame payload that it carries */
    uint8_t interface;          /**< index of the peer's interface, from 1; 0: unknown */
    uint16_t finalizing;        /**< connections that prefer it and whose peer is finalizing */
    bool down;                  /**< not used unless all routes are down */
    uint32_t arrived, lost;     /**< frames that it carried; counters wrap (rawe_quality.h) */
    uint64_t asked_ns; /**< when a connection that prefers it last probed the process; 0: never */
    struct rawe_order *order; /**< message order to the process, stored in one route of the ring */
    struct rawe_order own_order;
};

/** Make the route a ring of one. The caller sets the other fields. */
void rawe_route_init(struct rawe_route *route);

/**
 * Add a lone route to the ring, before `other`. The ring may be read concurrently, but not written,
 * and no connection that prefers the route may be in use meanwhile.
 */
void rawe_route_join(struct rawe_route *route, struct rawe_route *other);

/** Take a route out of its ring, so that it is alone. The ring must not be read concurrently. */
void rawe_route_remove(struct rawe_route *route);

static inline struct rawe_route *rawe_route_next(const struct rawe_route *route)
{
    return __atomic_load_n(&route->next, __ATOMIC_ACQUIRE);
}

/** Return the next route of a walk that began at `first`; NULL: the walk is complete. */
static inline struct rawe_route *rawe_route_after(const struct rawe_route *route,
                                                  const struct rawe_route *first)
{
    struct rawe_route *next = rawe_route_next(route);
    return next != first ? next : NULL;
}

/**
 * Find the route over which a frame from this address, and port (0: any), reached an engine's link;
 * NULL: none.
 */
struct rawe_route *rawe_route_from(struct rawe_route *preferred, const struct rawe_engine *engine,
                                   const uint8_t source_mac[RAWE_MAC_BYTES], uint16_t source_port);

/** Count one connection more, or fewer, that prefers this route and has a finalizing peer. */
static inline void rawe_route_note_finalizing(struct rawe_route *preferred, bool finalizing)
{
    preferred->finalizing = (uint16_t)(preferred->finalizing + (finalizing ? 1 : -1));
}

/** Return true if the process has announced, on any connection, that it is finalizing. */
bool rawe_route_finalizing(const struct rawe_route *preferred);

/** Note that a connection preferring this route probes the process. */
static inline void rawe_route_note_asked(struct rawe_route *preferred, uint64_t now_ns)
{
    preferred->asked_ns = now_ns;
}

/** Check a route after this many losses. */
#define RAWE_ROUTE_LOSSES 2u

/** Note the loss of a frame that the route carried. True: it is time to check the route. */
static inline bool rawe_route_note_lost(struct rawe_route *route)
{
    return ++route->lost % RAWE_ROUTE_LOSSES == 0;
}

/** Return when any connection to the process last probed it; 0: never. */
uint64_t rawe_route_asked_ns(const struct rawe_route *preferred);

/** Return the preferred route, or another that is up; NULL: all are down. */
struct rawe_route *rawe_route_best(struct rawe_route *preferred);

#endif
