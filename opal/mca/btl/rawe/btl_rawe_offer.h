/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The table of functions that this component offers to coll/rawe, which does not link with it, but
 * finds the table behind Open MPI's component struct.
 *
 * All functions except `takes_part` are for one thread per communicator at a time; none calls back
 * into Open MPI. Data is delivered only into expected messages; earlier arrivals wait. Peers that a
 * transfer depends on are sent something now and then, so that a death is noticed and reported.
 */
#ifndef MCA_BTL_RAWE_OFFER_H
#define MCA_BTL_RAWE_OFFER_H

#include "opal_config.h"

#include "opal/mca/btl/btl.h"
#include "opal/util/proc.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/** Marks the table: older components have other data in its place. */
#define MCA_BTL_RAWE_OFFER_MAGIC 0x7261776500C011ECull

/** Changes with the functions or their arguments. */
#define MCA_BTL_RAWE_OFFER_VERSION 6u

/** A group of processes, each on a different host, that multicast messages to each other. */
struct mca_btl_rawe_multicast;

/** Limits of a process, or of a group, which are the minimum over its members. */
struct mca_btl_rawe_place {
    uint32_t segment_bytes; /**< payload of a frame in a batch; 0: no batches */
    uint32_t payload_bytes; /**< payload of a frame; 0: cannot take part */
    uint32_t batch_frames;  /**< minimum capacity of its port, in frames of batches */
};

enum mca_btl_rawe_transfer_state {
    MCA_BTL_RAWE_TRANSFER_WAITS,
    MCA_BTL_RAWE_TRANSFER_DONE,
    MCA_BTL_RAWE_TRANSFER_LENGTH, /**< the message has another length; nothing was copied */
};

/** A message. The caller keeps it until its state is no longer WAITS. */
struct mca_btl_rawe_transfer {
    void *data;
    size_t len_bytes;
    atomic_int state; /**< enum mca_btl_rawe_transfer_state */
    bool heard;       /**< received: a frame of its root has arrived by multicast, not in a batch */
    bool batches;     /**< sent: in batches; received: batches from its root have arrived */
    bool last;        /**< sent: the group's last message, because a member gets no multicast */
};

struct mca_btl_rawe_offer {
    uint32_t version; /**< first, in all versions */
    /**
     * Note that coll/rawe is present, and publish that this process takes part, if it does. Call it
     * between opening the component and the exchange of published data.
     */
    void (*announce)(void);
    /**
     * Return true if the process has published that it takes part. With `wait`, waits for the
     * runtime, perhaps for a limited time, so processes may disagree; but true is reliable, and so
     * is the answer about this process. Writes a number that differs between hosts.
     */
    bool (*takes_part)(opal_process_name_t name, bool wait, uint64_t *host);
    /** Open the ports for group frames, if they are not open yet, and return their limits. */
    struct mca_btl_rawe_place (*place)(void);
    /**
     * Enter a group with a random `id` and the limits `all`, which is copied. Open MPI has
     * introduced the members' processes. Returns NULL if one cannot be reached, or when out of
     * memory.
     */
    struct mca_btl_rawe_multicast *(*open)(uint64_t id, uint32_t members, uint32_t self,
                                           const struct mca_btl_rawe_place *all,
                                           opal_proc_t *const *procs);
    /** Send to all other members. Returns false when out of memory; nothing was taken. */
    bool (*send)(struct mca_btl_rawe_multicast *group, struct mca_btl_rawe_transfer *message);
    /** Expect the next message of this root. */
    void (*expect)(struct mca_btl_rawe_multicast *group, uint32_t root,
                   struct mca_btl_rawe_transfer *message);
    /**
     * Leave a group whose communicator is freed. `complete`: all members have all messages, or will
     * get them, because this process still serves them. Otherwise the group was never used.
     */
    void (*close)(struct mca_btl_rawe_multicast *group, bool complete);
};

/** The component. In all releases it is opened before coll/rawe. */
struct mca_btl_rawe_component {
    mca_btl_base_component_3_0_0_t super;
    uint64_t magic;
    const struct mca_btl_rawe_offer *offer;
};

#endif
