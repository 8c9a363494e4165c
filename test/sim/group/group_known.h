/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Records when a member learned that a frame was sent, to check that its NACKs ask only for frames
 * that have been missing for a while, not for late ones.
 */
#ifndef GROUP_KNOWN_H
#define GROUP_KNOWN_H

#include "group/rawe_group.h"
#include "group_sim.h"

/** Knowledge of one member; all zero in groups that are too large to track. */
struct known {
    uint32_t window_frames;
    uint32_t *end;      /**< by root: all frames before this one were sent */
    uint64_t *since_ns; /**< time of learning so, by root and number modulo the window */
};

/** Allocate the arrays, which the caller frees. */
void known_init(struct known *known, const struct plan *plan);

/** Record that a member learns that a root has sent all frames before `end`. */
void known_learn(struct known *known, uint32_t root, uint32_t end, uint64_t now_ns);

/** Return true if a NACK asks for a frame too early. */
bool known_too_early(const struct known *known, const struct rawe_group_control *nack,
                     uint64_t now_ns);

#endif
