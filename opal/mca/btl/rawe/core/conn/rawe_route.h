/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Routes: the ways to another process, each from one of our interfaces to one of its. A connection
 * prefers one, and uses another while that is down (rawe_conn_path.h). The routes to a process form
 * a ring.
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
    struct rawe_engine *engine; /**< of our interface: what is sent goes through its link */
    struct rawe_route *next;    /**< in the ring; itself: the process has no other. Atomic */
    uint8_t mac[RAWE_MAC_BYTES];
    uint16_t port; /**< the peer's at that interface, and its session key */
    uint32_t key;
    uint32_t payload_max_bytes; /**< frame payload that the way carries */
    uint8_t interface;          /**< where it ends, in the peer's list, from 1; 0: not known */
    uint16_t finalizing; /**< connections that prefer it on which the peer said that it finalizes */
    bool down;           /**< it is not used as long as another one is not down */
    uint32_t arrived, lost; /**< of the frames that it carried, wrapping: rawe_quality.h */
    uint64_t asked_ns; /**< when a connection that prefers it last probed the process; 0: never */
    struct rawe_order *order; /**< of messages to the process: that of one route of the ring */
    struct rawe_order own_order;
};

/** A ring of its own. The other fields are the caller's to set. */
void rawe_route_init(struct rawe_route *route);

/**
 * Add a lone route to the ring before `other`. Readers may be there, writers not, and no connection
 * that prefers the route may be in use at the same time.
 */
void rawe_route_join(struct rawe_route *route, struct rawe_route *other);

/** Take a route out of its ring: it is alone then. The ring is not read at the same time. */
void rawe_route_remove(struct rawe_route *route);

static inline struct rawe_route *rawe_route_next(const struct rawe_route *route)
{
    return __atomic_load_n(&route->next, __ATOMIC_ACQUIRE);
}

/** The same on a walk that began at `first`; NULL: it has been all the way round. */
static inline struct rawe_route *rawe_route_after(const struct rawe_route *route,
                                                  const struct rawe_route *first)
{
    struct rawe_route *next = rawe_route_next(route);
    return next != first ? next : NULL;
}

/** The route by which a frame from this address has come to an engine's link; NULL: none. */
struct rawe_route *rawe_route_from(struct rawe_route *preferred, const struct rawe_engine *engine,
                                   const uint8_t source_mac[RAWE_MAC_BYTES]);

/** One more connection that prefers this route has heard that the peer finalizes, or one fewer. */
static inline void rawe_route_note_finalizing(struct rawe_route *preferred, bool finalizing)
{
    preferred->finalizing = (uint16_t)(preferred->finalizing + (finalizing ? 1 : -1));
}

/** Has any connection to the process heard that it finalizes? */
bool rawe_route_finalizing(const struct rawe_route *preferred);

/** A connection that prefers this route probes the process. */
static inline void rawe_route_note_asked(struct rawe_route *preferred, uint64_t now_ns)
{
    preferred->asked_ns = now_ns;
}

/** That many losses are worth a look at the route. */
#define RAWE_ROUTE_LOSSES 2u

/** A frame that it carried was lost. True: look at it. */
static inline bool rawe_route_note_lost(struct rawe_route *route)
{
    return ++route->lost % RAWE_ROUTE_LOSSES == 0;
}

/** When any connection to the process last probed it; 0: never. */
uint64_t rawe_route_asked_ns(const struct rawe_route *preferred);

/** The preferred route, or another that is up; NULL: all are down. */
struct rawe_route *rawe_route_best(struct rawe_route *preferred);

#endif
