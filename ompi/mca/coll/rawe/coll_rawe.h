/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * coll/rawe performs MPI_Bcast with one multicast frame, or with batches, to one process per host,
 * and likewise MPI_Scatter, MPI_Barrier and the results of collectives with little data. All else,
 * and all it cannot do for a communicator, is left to the underlying component of lower priority.
 */
#ifndef MCA_COLL_RAWE_H
#define MCA_COLL_RAWE_H

#include "ompi_config.h"

#include "mpi.h"
#include "ompi/communicator/communicator.h"
#include "ompi/datatype/ompi_datatype.h"
#include "ompi/mca/bml/base/base.h"
#include "ompi/mca/coll/base/base.h"
#include "ompi/mca/coll/base/coll_tags.h"
#include "ompi/mca/coll/coll.h"
#include "ompi/mca/pml/pml.h"
#include "ompi/proc/proc.h"
#include "ompi/request/request.h"
#include "opal/class/opal_bitmap.h"
#include "opal/mca/btl/rawe/btl_rawe_compat.h"
#include "opal/mca/btl/rawe/btl_rawe_offer.h"
#include "opal/runtime/opal_progress.h"
#include "opal/util/output.h"
#include "opal/version.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Open MPI 5.0 differs from 4.1: it has counted its interface's version... */
#ifdef MCA_COLL_BASE_VERSION_2_4_0
#define MCA_COLL_RAWE_COMPAT_VERSION MCA_COLL_BASE_VERSION_2_4_0
#else
#define MCA_COLL_RAWE_COMPAT_VERSION MCA_COLL_BASE_VERSION_2_0_0
#endif

/* ... and has only the general macro that makes a component's symbol visible to the loader. */
#ifndef OMPI_MODULE_DECLSPEC
#define OMPI_MODULE_DECLSPEC OMPI_DECLSPEC
#endif

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

/** The hosts of a communicator's members, in the order of their lowest ranks. */
typedef struct mca_coll_rawe_hosts {
    int count;
    int *of;      /**< the host of each rank */
    int *leaders; /**< each host's lowest rank; member i of the group is leaders[i] */
    int *ranks;   /**< this host's ranks, ascending */
    int here;     /**< number of ranks on this host */
    int position; /**< this process's index in `ranks`; 0: it is the leader */
} mca_coll_rawe_hosts_t;

/** Ranks that exchange PML messages, see coll_rawe_hosts.c; root and self are indices. */
typedef struct mca_coll_rawe_tree {
    const int *ranks;
    int count, self, root;
    int radix; /**< at most MCA_COLL_RAWE_RADIX_MAX */
} mca_coll_rawe_tree_t;

/** Maximum radix of the leaders' tree: flat for as many as have been measured. */
#define MCA_COLL_RAWE_RADIX_MAX 16

/** The collectives it implements, each by mca_coll_rawe_<collective>. */
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

#define MCA_COLL_RAWE_PROTOTYPE(NAME) \
    __typeof__(*(mca_coll_base_module_##NAME##_fn_t)NULL) mca_coll_rawe_##NAME;
MCA_COLL_RAWE_OWN(MCA_COLL_RAWE_PROTOTYPE)

#define MCA_COLL_RAWE_DECLARE(NAME)          \
    mca_coll_base_module_##NAME##_fn_t NAME; \
    mca_coll_base_module_t *NAME##_module;

typedef struct mca_coll_rawe_module {
    mca_coll_base_module_t super;
    MCA_COLL_RAWE_BENEATH(MCA_COLL_RAWE_DECLARE)
    const struct mca_btl_rawe_offer *offer;
    enum mca_coll_rawe_stage stage;
    unsigned counted;                     /**< calls so far in stage COUNTS */
    uint32_t payload_bytes;               /**< of a frame, common to all members */
    size_t limit_bytes;                   /**< of a multicast Bcast */
    bool batches;                         /**< batches reach all members */
    mca_coll_rawe_hosts_t *hosts;         /**< once the members have agreed */
    struct mca_btl_rawe_multicast *group; /**< NULL: none, or this is not its host's leader */
    bool ended; /**< the group has ended: leaders now pass messages along their tree */
} mca_coll_rawe_module_t;
OBJ_CLASS_DECLARATION(mca_coll_rawe_module_t);

/** Return what btl/rawe offers; NULL: it has no module, or another version. */
const struct mca_btl_rawe_offer *mca_coll_rawe_offer(void);

/**
 * Decide whether a call uses multicast, if it could. All members pass the same `could`; they agree
 * on a group in the call that makes it worthwhile.
 */
int mca_coll_rawe_choose(mca_coll_rawe_module_t *module, struct ompi_communicator_t *comm,
                         bool could, bool *multicasts);

/** Make progress until the transfer no longer waits; after about `most_ns` return false. */
bool mca_coll_rawe_wait(const struct mca_btl_rawe_transfer *transfer, uint64_t most_ns);

/** Send up to limit_bytes from one leader to all others; called by leaders only. */
int mca_coll_rawe_multicast(mca_coll_rawe_module_t *module, void *buffer, int count,
                            struct ompi_datatype_t *datatype, int root,
                            struct ompi_communicator_t *comm);

/** Send up to limit_bytes from a rank to all others: to its leader, all leaders, their hosts. */
int mca_coll_rawe_to_all(mca_coll_rawe_module_t *module, void *buffer, int count,
                         struct ompi_datatype_t *datatype, int rank,
                         struct ompi_communicator_t *comm);

/** Allocate for `members`, to free(); NULL when out of memory. The caller fills in `of`. */
mca_coll_rawe_hosts_t *mca_coll_rawe_hosts_new(int members);

/** Fill in the other members from `of`. */
void mca_coll_rawe_hosts_arrange(mca_coll_rawe_hosts_t *hosts, int members, int self);

/**
 * Return the leaders' processes, in memory to free(). Open MPI has introduced them, so that paths
 * to all are searched for at the same time. Returns NULL when out of memory.
 */
opal_proc_t **mca_coll_rawe_hosts_introduce(const mca_coll_rawe_hosts_t *hosts,
                                            struct ompi_communicator_t *comm);

/** Return the tree of this host's ranks, with root `rank`, or the leader if `rank` is elsewhere. */
mca_coll_rawe_tree_t mca_coll_rawe_hosts_here(const mca_coll_rawe_hosts_t *hosts, int rank);

/** Return the tree of the leaders, for a leader; its root is the leader of `rank`. */
mca_coll_rawe_tree_t mca_coll_rawe_hosts_leaders(const mca_coll_rawe_hosts_t *hosts, int rank);

/** Receive the root's data, unless this is the root; then send it to the children. */
int mca_coll_rawe_tree_receive(const mca_coll_rawe_tree_t *tree, void *buffer, int count,
                               struct ompi_datatype_t *datatype, struct ompi_communicator_t *comm);
int mca_coll_rawe_tree_send(const mca_coll_rawe_tree_t *tree, void *buffer, int count,
                            struct ompi_datatype_t *datatype, struct ompi_communicator_t *comm);

/**
 * Reduce the contributions of a tree's ranks, in order from the last one on, if its root is the
 * first. `*mine` is this rank's contribution, not in slots[1]. In the root it becomes the result,
 * in slots[0] or [1], or stays unchanged if there is no other rank.
 */
int mca_coll_rawe_tree_reduce(const mca_coll_rawe_tree_t *tree, const void **mine,
                              void *const slots[3], int count, struct ompi_datatype_t *datatype,
                              struct ompi_op_t *op, struct ompi_communicator_t *comm);

/** Have all members of the communicator enter a group, or none; module->stage holds the result. */
int mca_coll_rawe_agree(mca_coll_rawe_module_t *module, struct ompi_communicator_t *comm);

/** Note that a group ended because a member lost multicast: later ones test the network again. */
void mca_coll_rawe_forget_network(void);

#endif
