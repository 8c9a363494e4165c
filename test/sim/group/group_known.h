/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Since when a member has known that a frame was sent: what it asks for in a NACK has been missing
 * for a while, and is not merely late.
 */
#ifndef GROUP_KNOWN_H
#define GROUP_KNOWN_H

#include "group/rawe_group.h"
#include "group_sim.h"

/** What one member knows; all zero in groups that are too large to remember it. */
struct known {
    uint32_t window_frames;
    uint32_t *end;      /**< by root: the frames before this one... */
    uint64_t *since_ns; /**< ... are known since then, by root and number modulo the window */
};

/** Allocates the arrays, which the caller frees. */
void known_init(struct known *known, const struct plan *plan);

/** A member learns that a root has sent frames before `end`. */
void known_learn(struct known *known, uint32_t root, uint32_t end, uint64_t now_ns);

/** Does a NACK name a frame before its time? */
bool known_too_early(const struct known *known, const struct rawe_group_control *nack,
                     uint64_t now_ns);

#endif
