/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Distributes long PUTs, and replies to GETs, over all routes to a process. Each is queued on the
 * bulk lane of one route. Other routes with empty queues take over enough for all routes to finish
 * together (rawe_balance_share), both when the send is queued and whenever a route runs out of data
 * (doc/architecture.md).
 *
 *   queue of route 0   [framed|        stays        |  taken over  ]
 *   queue of route 1   (empty)                                ^ its last batches are in flight
 */
#ifndef RAWE_BALANCE_H
#define RAWE_BALANCE_H

#include <stdint.h>

#include "rawe_peer.h"

/** One route and its share. */
struct rawe_balance_route {
    uint64_t backlog_bytes; /**< queued or in flight */
    uint64_t rate;          /**< bytes per unit of time, any unit: 1 to 2^20 */
    uint64_t share_bytes;   /**< the result */
};

/**
 * Divide `total_bytes` among `count` routes, at most 16. Every share except one is a multiple of
 * `grain_bytes`, or 0. New data and backlogs together must be less than 2^39 bytes.
 */
void rawe_balance_share(struct rawe_balance_route *routes, unsigned count, uint64_t total_bytes,
                        uint64_t grain_bytes);

/** Begin an operation; `done` may be called at once. Returns false when out of memory. */
bool rawe_balance_operate(struct rawe_peer *peer, struct rawe_operation *operation);

/** rawe_callbacks.long_reply: distribute the reply to a GET, for connections of peer objects. */
bool rawe_balance_reply(void *context, struct rawe_conn *conn, struct rawe_send *send);

#endif
