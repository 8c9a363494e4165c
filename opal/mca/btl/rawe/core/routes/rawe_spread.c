/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Spreading: see rawe_spread.h.
 */
#include "rawe_spread.h"

#include <stdbool.h>

/** Would the route, with its backlog alone, take as long as `bytes` at `rate` do, or longer? */
static bool is_behind(const struct rawe_spread *route, uint64_t bytes, uint64_t rate)
{
    return route->backlog_bytes * rate >= bytes * route->rate;
}

void rawe_spread(struct rawe_spread *routes, unsigned count, uint64_t total_bytes,
                 uint64_t grain_bytes)
{
    uint64_t bytes = total_bytes, rate = 0, left = total_bytes;
    unsigned last = 0;
    bool changed = true;
    for (unsigned i = 0; i < count; i++) {
        bytes += routes[i].backlog_bytes;
        rate += routes[i].rate;
        routes[i].share_bytes = 1; /* takes part */
    }
    /* All backlogs and the new data in one queue: a route that is behind without new data gets none. */
    while (changed) {
        changed = false;
        for (unsigned i = 0; i < count; i++) {
            struct rawe_spread *route = &routes[i];
            if (route->share_bytes != 0 && rate != route->rate && is_behind(route, bytes, rate)) {
                route->share_bytes = 0;
                bytes -= route->backlog_bytes;
                rate -= route->rate;
                changed = true;
            }
        }
    }
    for (unsigned i = 0; i < count; i++) {
        struct rawe_spread *route = &routes[i];
        if (route->share_bytes == 0) {
            continue;
        }
        uint64_t share_bytes = bytes * route->rate / rate;
        share_bytes = share_bytes > route->backlog_bytes ? share_bytes - route->backlog_bytes : 0;
        share_bytes = share_bytes < left ? share_bytes : left;
        route->share_bytes = share_bytes / grain_bytes * grain_bytes;
        left -= route->share_bytes;
        last = route->rate >= routes[last].rate || routes[last].share_bytes == 0 ? i : last;
    }
    routes[last].share_bytes += left;
}
