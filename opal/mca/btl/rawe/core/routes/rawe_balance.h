/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Long PUTs over all routes to a process. A PUT is queued on the bulk lane of one of them; another
 * that has nothing queued takes over as much as makes all of them end at the same time
 * (rawe_spread.h): when the PUT is queued, and each time it runs out. So a share that was wrong,
 * because a rate was not known yet or has changed, is put right before anybody waits for it, and
 * what is queued on a route that gets slow or silent goes by the others.
 *
 *   queue of route 0   [framed|        stays        |  taken over  ]
 *   queue of route 1   (empty)                                ^ its last batches are in flight
 */
#ifndef RAWE_BALANCE_H
#define RAWE_BALANCE_H

#include "rawe_peer.h"

/**
 * Send PUT data in one piece by the routes to a process; those take part that have
 * `peer.takes_part`. `split` is rawe_send's, and not NULL; the rest is as with rawe_peer_put.
 */
bool rawe_balance_put(struct rawe_peer *peer, struct rawe_send *send,
                      struct rawe_send *(*split)(struct rawe_send *send));

#endif
