/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Group delivery in virtual time: a seed determines a group's members, the network and its faults.
 */
#ifndef GROUP_SIM_H
#define GROUP_SIM_H

#include <stdbool.h>
#include <stdint.h>

#include "group/rawe_group.h"

#define NS_PER_US UINT64_C(1000)
#define NS_PER_MS UINT64_C(1000000)
#define NS_PER_S UINT64_C(1000000000)

#define NEVER UINT64_MAX

/** Interval at which a root that lacks acknowledgements asks, if memory is short. */
#define ASK_NS NS_PER_S

/** Start time of a run; not 0, which means "none" in places. */
#define BEGIN_NS NS_PER_S

/** A message to send. */
struct order {
    uint64_t at_ns;
    uint32_t root;
    uint32_t len_bytes;
    bool may_wait; /**< it may wait to share a frame */
    bool batches;  /**< it is sent in batches */
};

/** Events in the life of a member. */
struct fate {
    uint64_t starts_ns;                     /**< it is absent before */
    uint64_t pause_from_ns, pause_until_ns; /**< it is suspended; arriving frames wait */
    uint64_t refuses_until_ns;              /**< it refuses deliveries */
    uint64_t deaf_from_ns, deaf_until_ns;   /**< it receives no multicast */
    uint64_t dies_ns;                       /**< time of its death; 0: it survives */
};

/** One run, entirely determined by the seed. */
struct plan {
    uint64_t seed;
    uint64_t id; /**< of the group; its lower half is the first sequence number */
    uint32_t members;
    uint32_t payload_bytes;
    uint32_t segment_bytes; /**< 0: no batches */
    uint32_t batch_bytes;   /**< most data in a batch */
    uint32_t window_frames;
    uint32_t share_from;
    uint64_t delay_ns; /**< delay of each frame to each receiver, plus up to `jitter_ns` */
    uint64_t jitter_ns;
    uint32_t loss_ppm;   /**< loss of a single copy of a frame */
    uint32_t shared_ppm; /**< loss of all copies of a frame, on the root's own link */
    uint32_t burst_ppm;  /**< frames that start a burst of up to 50 lost by a receiver */
    uint32_t duplicate_ppm;
    uint32_t corrupt_ppm; /**< a bit of a frame is wrong */
    uint32_t full_ppm;    /**< the link is full for a while */
    uint32_t refuse_ppm;  /**< a part is refused on the first attempt */
    uint32_t forge_ppm;   /**< a forged frame accompanies another */
    uint32_t late_ppm;    /**< a control message is late because of loss on its connection, ... */
    uint64_t late_ns;     /**< ... by up to this time */
    uint32_t poor_ppm;    /**< a member lacks memory for a control message; roots ask again */
    uint32_t asks;        /**< requests by a member that has waited for long */
    bool unfenced;        /**< members leave when allowed to, without a fence */
    bool dies;            /**< a member dies, so some data may be lost */
    bool deaf;            /**< a member receives no multicast for a long time */
    bool quiet;           /**< no frame is lost or late */
    uint32_t orders;
    struct order *order; /**< by time */
    struct fate *fate;
};

/** Outcome of a run. */
struct outcome {
    char violation[200]; /**< empty: none */
    uint64_t end_ns;
    uint64_t frames, repairs, control, nacks; /**< sent by all members */
    uint64_t missed; /**< copies of DATA that were lost, late, or refused */
};

/** What one member knows about sent frames; all zero in groups too large to track. */
struct known {
    uint32_t window_frames;
    uint32_t *end;      /**< by root: all frames before this one were sent */
    uint64_t *since_ns; /**< when it learned of each, by root and number modulo the window */
};

/* group_main.c */
void plan_make(struct plan *plan, uint64_t seed);
void plan_free(struct plan *plan);

/* group_run.c */
void plan_run(const struct plan *plan, struct outcome *outcome, bool trace);

/* group_known.c */
/** Allocate the arrays, which the caller frees. */
void known_init(struct known *known, const struct plan *plan);
/** Record that a member learns that a root has sent all frames before `end`. */
void known_learn(struct known *known, uint32_t root, uint32_t end, uint64_t now_ns);
/** Return true if a NACK requests a frame too early. */
bool known_too_early(const struct known *known, const struct rawe_group_control *nack,
                     uint64_t now_ns);

#endif
