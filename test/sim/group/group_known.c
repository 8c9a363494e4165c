/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Records when each member learned that a frame was sent, to check that its NACKs request only
 * frames that have been missing for a while, not frames that are merely late.
 */
#include "group_sim.h"

#include "net_harness.h"

/** Larger groups are not tracked. */
#define MEMBERS_MAX 12u

void known_init(struct known *known, const struct plan *plan)
{
    if (plan->members > MEMBERS_MAX) {
        return;
    }
    known->window_frames = plan->window_frames;
    known->end = net_new(plan->members * sizeof *known->end);
    known->since_ns = net_zeroed(plan->members * plan->window_frames * sizeof *known->since_ns);
    for (uint32_t root = 0; root < plan->members; root++) {
        known->end[root] = (uint32_t)plan->id;
    }
}

static uint64_t *since_ns(const struct known *known, uint32_t root, uint32_t sequence)
{
    return &known->since_ns[root * known->window_frames + sequence % known->window_frames];
}

void known_learn(struct known *known, uint32_t root, uint32_t end, uint64_t now_ns)
{
    uint32_t *before = known->end == NULL ? NULL : &known->end[root];
    while (before != NULL && rawe_sequence_before(*before, end)) {
        *since_ns(known, root, (*before)++) = now_ns;
    }
}

bool known_too_early(const struct known *known, const struct rawe_group_control *nack,
                     uint64_t now_ns)
{
    for (uint32_t i = 0; known->end != NULL && i < nack->data_bytes * 8u; i++) {
        if ((nack->data[i / 8] & 1u << i % 8) != 0 &&
            now_ns - *since_ns(known, nack->root, nack->sequence + i) < RAWE_GROUP_NACK_NS) {
            return true;
        }
    }
    return false;
}
