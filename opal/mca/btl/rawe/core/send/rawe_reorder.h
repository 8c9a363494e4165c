/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Reordering window of a connection: how long a frame may be overtaken before it counts as lost. It
 * adapts as RACK's does (RFC 8985 section 6.2 step 4): frames that were sent again and had arrived
 * all the same make it wider, losses without such duplicates narrow again.
 */
#ifndef RAWE_REORDER_H
#define RAWE_REORDER_H

#include <stdbool.h>
#include <stdint.h>

#include "rawe_rtt.h"

struct rawe_reorder {
    uint32_t steps;     /**< width, in steps; 1: as configured */
    uint32_t persist;   /**< recoveries without duplicates until it is narrow again */
    uint32_t round_end; /**< duplicates before this frame is acknowledged count once */
    bool in_round;      /**< round_end is valid */
    bool resent;        /**< frames were sent again since the last reported duplicate */
};

void rawe_reorder_init(struct rawe_reorder *reorder);

/** A frame was sent again. */
static inline void rawe_reorder_resent(struct rawe_reorder *reorder)
{
    reorder->resent = true;
}

/**
 * The peer reports that it dropped a duplicate. `una` is the oldest frame not acknowledged, `next`
 * the next to be sent. Without anything sent again the network made the duplicate: no sign.
 */
void rawe_reorder_duplicate(struct rawe_reorder *reorder, uint32_t una, uint32_t next);

/** Frames were lost, for the first time in this round trip. */
void rawe_reorder_recovery(struct rawe_reorder *reorder);

/** Width, when `least_ns` is configured. */
uint64_t rawe_reorder_window_ns(const struct rawe_reorder *reorder, uint64_t least_ns,
                                const struct rawe_rtt *rtt);

#endif
