/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * What this component offers to coll/rawe, which is a component of its own and links with nothing
 * of this one: a table of functions, which it finds behind the component's struct of Open MPI's.
 *
 * All functions but `takes_part` are for one thread of a communicator at a time; none calls Open
 * MPI back. Nothing is delivered but into a message that is expected: what comes before waits. Those
 * that a transfer waits for are sent something now and then, so that a death is noticed and reported.
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

/** Announces the table: an older component has something else there. */
#define MCA_BTL_RAWE_OFFER_MAGIC 0x7261776500C011ECull

/** Changes when the functions, or what they are given, do. */
#define MCA_BTL_RAWE_OFFER_VERSION 5u

/** A group of processes that multicast messages to each other. Each is on a host of its own. */
struct mca_btl_rawe_multicast;

/** What a process, or all members of a group, can do: numbers of which the least counts. */
struct mca_btl_rawe_place {
    uint32_t segment_bytes; /**< of a frame in a batch; 0: it has no batches */
    uint32_t payload_bytes; /**< of a frame; 0: it cannot take part */
    uint32_t batch_frames;  /**< in batches, that its port holds at least */
};

enum mca_btl_rawe_transfer_state {
    MCA_BTL_RAWE_TRANSFER_WAITS,
    MCA_BTL_RAWE_TRANSFER_DONE,
    MCA_BTL_RAWE_TRANSFER_LENGTH, /**< the message has another length: nothing was copied */
};

/** A message. The caller's, until it does not wait any more. */
struct mca_btl_rawe_transfer {
    void *data;
    size_t len_bytes;
    atomic_int state; /**< enum mca_btl_rawe_transfer_state */
    bool heard;       /**< received: something of its root has come by multicast */
    bool batches;     /**< to send: goes in batches; received: batches of its root have come */
    bool last;        /**< out: the group's last message, as some member hears no multicast */
};

struct mca_btl_rawe_offer {
    uint32_t version; /**< first, in all versions */
    /**
     * The caller is there: publish that this process takes part, if it does. Once the component is
     * open, before processes exchange what they publish.
     */
    void (*announce)(void);
    /**
     * Has the process published that it takes part? Waits for the runtime, which may have a limit, so
     * that other processes may get another answer; but yes is true. Writes what differs between hosts.
     */
    bool (*takes_part)(opal_process_name_t name, uint64_t *host);
    /** Open what is needed to receive frames of groups, if it is not open. */
    struct mca_btl_rawe_place (*place)(void);
    /**
     * Enter a group, `id` being random, with what `all` can do. Open MPI has introduced the members'
     * processes. NULL: one of them cannot be reached, or there is no memory. Copied.
     */
    struct mca_btl_rawe_multicast *(*open)(uint64_t id, uint32_t members, uint32_t self,
                                           const struct mca_btl_rawe_place *all,
                                           opal_proc_t *const *procs);
    /** Send to all others. False without memory: nothing was taken. */
    bool (*send)(struct mca_btl_rawe_multicast *group, struct mca_btl_rawe_transfer *message);
    /** The next message of this root is expected. */
    void (*expect)(struct mca_btl_rawe_multicast *group, uint32_t root,
                   struct mca_btl_rawe_transfer *message);
    /**
     * The communicator goes. `complete`: all members have all messages, or will, so what they need of
     * this one is still sent; if not, the group was never used.
     */
    void (*close)(struct mca_btl_rawe_multicast *group, bool complete);
};

/** The component, opened before coll/rawe in all releases. */
struct mca_btl_rawe_component {
    mca_btl_base_component_3_0_0_t super;
    uint64_t magic;
    const struct mca_btl_rawe_offer *offer;
};

#endif
