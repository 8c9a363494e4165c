/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Spreading data over several routes: each gets the share with which all of them are done at the
 * same time, by its speed and by what is queued there already.
 */
#ifndef RAWE_SPREAD_H
#define RAWE_SPREAD_H

#include <stdint.h>

/** One route, and what it gets. */
struct rawe_spread {
    uint64_t backlog_bytes; /**< queued or in flight */
    uint64_t rate;          /**< bytes in any unit of time: 1 to 2^20 */
    uint64_t share_bytes;   /**< the result */
};

/**
 * Share out `total_bytes` over `count` routes. Each share but one is a multiple of `grain_bytes`,
 * or 0. At most 16 routes; new data and backlogs are less than 2^39 bytes together.
 */
void rawe_spread(struct rawe_spread *routes, unsigned count, uint64_t total_bytes,
                 uint64_t grain_bytes);

#endif
