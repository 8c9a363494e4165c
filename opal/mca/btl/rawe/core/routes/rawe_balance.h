/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Long PUTs, and replies to GETs, over all routes to a process. One is queued on the bulk lane of one
 * of them; another that has nothing queued takes over as much as makes all of them end at the same
 * time (rawe_balance_share): when it is queued, and each time it runs out (doc/architecture.md).
 *
 *   queue of route 0   [framed|        stays        |  taken over  ]
 *   queue of route 1   (empty)                                ^ its last batches are in flight
 */
#ifndef RAWE_BALANCE_H
#define RAWE_BALANCE_H

#include <stdint.h>

#include "rawe_peer.h"

/** One route, and what it gets. */
struct rawe_balance_route {
    uint64_t backlog_bytes; /**< queued or in flight */
    uint64_t rate;          /**< bytes in any unit of time: 1 to 2^20 */
    uint64_t share_bytes;   /**< the result */
};

/**
 * Share out `total_bytes` over `count` routes. Each share but one is a multiple of `grain_bytes`,
 * or 0. At most 16 routes; new data and backlogs are less than 2^39 bytes together.
 */
void rawe_balance_share(struct rawe_balance_route *routes, unsigned count, uint64_t total_bytes,
                        uint64_t grain_bytes);

/** Begin an operation; `done` may come at once. False without memory. */
bool rawe_balance_operate(struct rawe_peer *peer, struct rawe_operation *operation);

/** rawe_callbacks.long_reply: the same for the reply to a GET, for connections of peer objects. */
bool rawe_balance_reply(void *context, struct rawe_conn *conn, struct rawe_send *send);

#endif
