/* SPDX-License-Identifier: BSD-3-Clause */
#include "rawe_route.h"

#include <string.h>

void rawe_route_init(struct rawe_route *route)
{
    route->finalizing = 0;
    route->asked_ns = 0;
    rawe_order_init(&route->own_order, RAWE_ORDER_MOST);
    route->order = &route->own_order;
    __atomic_store_n(&route->next, route, __ATOMIC_RELEASE);
}

/** Return the predecessor of `route` in the ring. */
static struct rawe_route *find_previous(struct rawe_route *route)
{
    struct rawe_route *last = route;
    while (rawe_route_next(last) != route) {
        last = rawe_route_next(last);
    }
    return last;
}

void rawe_route_join(struct rawe_route *route, struct rawe_route *other)
{
    struct rawe_route *last = find_previous(other);
    rawe_order_merge(other->order, &route->own_order);
    route->order = other->order;
    __atomic_store_n(&route->next, other, __ATOMIC_RELEASE);
    __atomic_store_n(&last->next, route, __ATOMIC_RELEASE);
}

/** Move the message order to the next route if other routes share it. */
static void hand_on_order(struct rawe_route *route)
{
    struct rawe_route *heir = rawe_route_next(route);
    if (heir == route || heir->order != &route->own_order) {
        return;
    }
    rawe_order_merge(&heir->own_order, &route->own_order);
    for (struct rawe_route *each = heir; each != route; each = rawe_route_next(each)) {
        each->order = &heir->own_order;
    }
}

void rawe_route_remove(struct rawe_route *route)
{
    hand_on_order(route);
    __atomic_store_n(&find_previous(route)->next, rawe_route_next(route), __ATOMIC_RELEASE);
    rawe_route_init(route);
}

struct rawe_route *rawe_route_from(struct rawe_route *preferred, const struct rawe_engine *engine,
                                   const uint8_t source_mac[RAWE_MAC_BYTES], uint16_t source_port)
{
    struct rawe_route *route = preferred;
    while (route != NULL &&
           (route->engine != engine || memcmp(route->mac, source_mac, RAWE_MAC_BYTES) != 0 ||
            (source_port != 0 && route->port != source_port))) {
        route = rawe_route_after(route, preferred);
    }
    return route;
}

struct rawe_route *rawe_route_best(struct rawe_route *preferred)
{
    struct rawe_route *route = preferred;
    while (route != NULL && route->down) {
        route = rawe_route_after(route, preferred);
    }
    return route;
}

bool rawe_route_finalizing(const struct rawe_route *preferred)
{
    const struct rawe_route *route = preferred;
    while (route != NULL && route->finalizing == 0) {
        route = rawe_route_after(route, preferred);
    }
    return route != NULL;
}

uint64_t rawe_route_asked_ns(const struct rawe_route *preferred)
{
    uint64_t newest_ns = 0;
    for (const struct rawe_route *route = preferred; route != NULL;
         route = rawe_route_after(route, preferred)) {
        newest_ns = route->asked_ns > newest_ns ? route->asked_ns : newest_ns;
    }
    return newest_ns;
}
