/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * coll/rawe: its module for a communicator, and how the members agree on a group (coll_rawe_agree.c).
 *
 * It performs MPI_Bcast with one multicast frame, or with batches, to one process per host,
 * and likewise MPI_Scatter, MPI_Barrier and the results of collectives with little data. All else,
 * and all it cannot do for a communicator, is left to the underlying component of lower priority.
 */
#ifndef MCA_COLL_RAWE_H
#define MCA_COLL_RAWE_H

#include "ompi_config.h"

#include "mpi.h"
#include "ompi/mca/coll/base/base.h"
#include "ompi/mca/coll/coll.h"
#include "opal/mca/btl/rawe/btl_rawe_compat.h"
#include "opal/mca/btl/rawe/btl_rawe_offer.h"
#include "opal/util/output.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "coll_rawe_hosts.h"

/** A line for users who set coll_base_verbose. */
#define MCA_COLL_RAWE_SAY(comm, text)                                  \
    opal_output_verbose(10, ompi_coll_base_framework.framework_output, \
                        "coll:rawe: communicator %s: %s", (comm)->c_name, (text))

/** Minimum number of hosts of a communicator: with fewer, a frame to each is as fast. */
#define MCA_COLL_RAWE_HOSTS_MIN 4

/** How a communicator's calls are performed. */
enum mca_coll_rawe_stage {
    MCA_COLL_RAWE_COUNTS,     /**< by the underlying component, until it is worth a group */
    MCA_COLL_RAWE_MULTICASTS, /**< by multicast, if they fit */
    MCA_COLL_RAWE_PASSES,     /**< by the underlying component, for good */
};

/** The collectives it implements. */
#define MCA_COLL_RAWE_OWN(DO) \
    DO(allgather)             \
    DO(allreduce)             \
    DO(barrier)               \
    DO(bcast)                 \
    DO(reduce_scatter)        \
    DO(reduce_scatter_block)  \
    DO(scatter)

/** The functions it calls in the underlying component. */
#define MCA_COLL_RAWE_BENEATH(DO) MCA_COLL_RAWE_OWN(DO) DO(gather)

#define MCA_COLL_RAWE_DECLARE(NAME)          \
    mca_coll_base_module_##NAME##_fn_t NAME; \
    mca_coll_base_module_t *NAME##_module;

/**
 * A communicator's module. "call": in a collective call, of which a communicator has one at a time.
 */
typedef struct mca_coll_rawe_module {
    /* coll_rawe_component: set-up */
    mca_coll_base_module_t super;
    MCA_COLL_RAWE_BENEATH(MCA_COLL_RAWE_DECLARE)
    const struct mca_btl_rawe_offer *offer;
    /* coll_rawe_component: call */
    unsigned counted; /**< calls so far in stage COUNTS */
    bool ended;       /**< the group has ended: leaders now pass messages along their tree */
    /* coll_rawe, coll_rawe_component: call */
    enum mca_coll_rawe_stage stage;
    struct mca_btl_rawe_multicast *group; /**< NULL: none, or this is not its host's leader */
    /* coll_rawe: call */
    uint32_t payload_bytes;       /**< of a frame, common to all members */
    size_t limit_bytes;           /**< of a multicast Bcast */
    bool batches;                 /**< batches reach all members */
    mca_coll_rawe_hosts_t *hosts; /**< once the members have agreed */
} mca_coll_rawe_module_t;

/** Have all members of the communicator enter a group, or none; module->stage holds the result. */
int mca_coll_rawe_agree(mca_coll_rawe_module_t *module, struct ompi_communicator_t *comm);

/** Note that a group ended because a member lost multicast: later ones test the network again. */
void mca_coll_rawe_forget_network(void);

/** Make progress until the transfer no longer waits; after about `most_ns` return false. */
bool mca_coll_rawe_wait(const struct mca_btl_rawe_transfer *transfer, uint64_t most_ns);

#endif
