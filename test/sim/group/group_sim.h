/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Group delivery in virtual time: all members of a group, a network, and faults that a seed decides.
 */
#ifndef GROUP_SIM_H
#define GROUP_SIM_H

#include <stdbool.h>
#include <stdint.h>

#define NS_PER_US UINT64_C(1000)
#define NS_PER_MS UINT64_C(1000000)
#define NS_PER_S UINT64_C(1000000000)

#define NEVER UINT64_MAX

/** A run begins then: 0 means "none" in places. */
#define BEGIN_NS NS_PER_S

/** A message to send. */
struct order {
    uint64_t at_ns;
    uint32_t root;
    uint32_t len_bytes;
    bool may_wait; /**< to share a frame */
    bool batches;  /**< in batches */
};

/** What happens to a member. */
struct fate {
    uint64_t starts_ns;                     /**< it is not there before */
    uint64_t pause_from_ns, pause_until_ns; /**< it does nothing; what arrives waits */
    uint64_t refuses_until_ns;              /**< it takes nothing that is delivered */
    uint64_t deaf_from_ns, deaf_until_ns;   /**< it hears no multicast */
    uint64_t dies_ns;                       /**< it is gone from then on; 0: it lives */
};

/** One run; all of it follows from the seed. */
struct plan {
    uint64_t seed;
    uint64_t id; /**< of the group; its lower half is the first sequence number */
    uint32_t members;
    uint32_t payload_bytes;
    uint32_t segment_bytes; /**< 0: no batches */
    uint32_t batch_bytes;   /**< of data, at most */
    uint32_t window_frames;
    uint32_t share_from;
    uint64_t delay_ns; /**< of each frame to each receiver; `jitter_ns` at most comes on top */
    uint64_t jitter_ns;
    uint32_t loss_ppm;   /**< of a copy of a frame */
    uint32_t shared_ppm; /**< of all copies of a frame: the root's own link */
    uint32_t burst_ppm;  /**< from such a frame on, the receiver loses up to 50 */
    uint32_t duplicate_ppm;
    uint32_t corrupt_ppm; /**< a bit of a frame is wrong */
    uint32_t full_ppm;    /**< the link takes nothing for a while */
    uint32_t refuse_ppm;  /**< a part is not taken at once */
    uint32_t forge_ppm;   /**< a forged frame comes beside another */
    uint32_t late_ppm;    /**< a control message is late, as its connection has lost something... */
    uint64_t late_ns;     /**< ... by this much at most */
    uint32_t asks;        /**< times that a member asks, having waited for long */
    bool unfenced;        /**< a member leaves when it may: there is no fence */
    bool dies;            /**< a member dies: not all comes */
    bool deaf;            /**< a member hears nothing for long */
    bool quiet;           /**< nothing is lost or late */
    uint32_t orders;
    struct order *order; /**< by time */
    struct fate *fate;
};

/** What happened. */
struct outcome {
    char violation[200]; /**< empty: none */
    uint64_t end_ns;
    uint64_t frames, repairs, control, nacks; /**< sent by all members */
    uint64_t missed; /**< copies of DATA that were lost, late, or not taken */
};

/* group_plan.c */
void plan_make(struct plan *plan, uint64_t seed);
void plan_free(struct plan *plan);

/* group_run.c */
void plan_run(const struct plan *plan, struct outcome *outcome, bool trace);

#endif
