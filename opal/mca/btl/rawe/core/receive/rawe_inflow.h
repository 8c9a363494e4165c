/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * How much of long messages a process may have asked for, over all peers that send it some. What
 * has been asked for and has not come meets in the switch port of this host, which drops what it
 * cannot buffer. No host is told how much that is. So there is no limit before more than a quarter
 * of what comes was lost; then it is learned: it grows slowly while it is what holds the process
 * back, and falls to 0.7 of it with each loss. Fewer losses cost less than a limit does, where
 * ranks share cores.
 *
 * The receiver does here, for all of its senders together, what congestion control does for one sender:
 * with a window for each of them, their least windows are more than a port holds. No clock, no socket.
 */
#ifndef RAWE_INFLOW_H
#define RAWE_INFLOW_H

#include <stdbool.h>
#include <stdint.h>

/** rawe_inflow_init: whatever is lost. */
#define RAWE_INFLOW_UNLIMITED (1ull << 30)

struct rawe_inflow {
    uint64_t limit_bytes;  /**< RAWE_INFLOW_UNLIMITED: none */
    uint64_t excess_bytes; /**< while there is no limit: 4 times what was lost, less what came */
    uint64_t known_bytes;  /**< the limit when something was lost last, or to begin with */
    uint64_t reduced_ns;   /**< losses of what was asked for until then are known */
    bool learns;           /**< losses change the limit */
    bool limits;           /**< more would have been asked for */
};

/** Begin with a limit of `first_bytes`; 0: with none, until too much is lost. */
void rawe_inflow_init(struct rawe_inflow *inflow, uint64_t first_bytes);
/** Bytes that were asked for have come. */
void rawe_inflow_arrived(struct rawe_inflow *inflow, uint64_t bytes);
/** Some bytes of what was asked for at `asked_ns`, of several peers, came again after they were lost. */
void rawe_inflow_lost(struct rawe_inflow *inflow, uint64_t bytes, uint64_t asked_ns,
                      uint64_t now_ns);

static inline bool rawe_inflow_is_limited(const struct rawe_inflow *inflow)
{
    return inflow->limit_bytes != RAWE_INFLOW_UNLIMITED;
}

#endif
