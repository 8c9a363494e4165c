/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * coll/rawe: MPI_Bcast by one multicast frame, or batches of frames, to a process of each host, and
 * MPI_Scatter, MPI_Barrier and results of collectives of little data likewise. All else, and all that it
 * cannot do for a communicator, is the component's beneath, of lower priority.
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

/* What differs between Open MPI 4.1 and 5.0: that has counted its interface's version... */
#ifdef MCA_COLL_BASE_VERSION_2_4_0
#define MCA_COLL_RAWE_COMPAT_VERSION MCA_COLL_BASE_VERSION_2_4_0
#else
#define MCA_COLL_RAWE_COMPAT_VERSION MCA_COLL_BASE_VERSION_2_0_0
#endif

/* ... and has only the general word for what the loader is to see of a component. */
#ifndef OMPI_MODULE_DECLSPEC
#define OMPI_MODULE_DECLSPEC OMPI_DECLSPEC
#endif

/** A line for users who set coll_base_verbose. */
#define MCA_COLL_RAWE_SAY(comm, text)                                  \
    opal_output_verbose(10, ompi_coll_base_framework.framework_output, \
                        "coll:rawe: communicator %s: %s", (comm)->c_name, (text))

/** Hosts of a communicator, at least: with fewer, frames to each are as fast. */
#define MCA_COLL_RAWE_HOSTS_MIN 4

/** How a communicator's calls go. */
enum mca_coll_rawe_stage {
    MCA_COLL_RAWE_COUNTS,     /**< by the component beneath, until it is worth a group */
    MCA_COLL_RAWE_MULTICASTS, /**< by multicast, if they fit */
    MCA_COLL_RAWE_PASSES,     /**< by the component beneath, for good */
};

/** The hosts of a communicator's members, numbered in the order of their lowest ranks. */
typedef struct mca_coll_rawe_hosts {
    int count;
    int *of;      /**< the host of each rank */
    int *leaders; /**< the lowest rank of each host: as many, and so numbered, are the group */
    int *ranks;   /**< those of this host, ascending */
    int here;     /**< how many they are */
    int position; /**< of this process among them; 0: it is the leader */
} mca_coll_rawe_hosts_t;

/** Ranks that messages of the PML go between, see coll_rawe_hosts.c; root and self are positions. */
typedef struct mca_coll_rawe_tree {
    const int *ranks;
    int count, self, root;
    int radix; /**< at most MCA_COLL_RAWE_RADIX_MAX */
} mca_coll_rawe_tree_t;

/** Of the leaders' tree: flat with as many as have been measured. */
#define MCA_COLL_RAWE_RADIX_MAX 16

/** The collectives that it does, each by mca_coll_rawe_<collective>. */
#define MCA_COLL_RAWE_OWN(DO) \
    DO(allgather)             \
    DO(allreduce)             \
    DO(barrier)               \
    DO(bcast)                 \
    DO(reduce_scatter)        \
    DO(reduce_scatter_block)  \
    DO(scatter)

/** What it calls of the component's beneath. */
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
    unsigned counted;                     /**< calls while it counts */
    uint32_t payload_bytes;               /**< of a frame, for all members */
    size_t limit_bytes;                   /**< of a Bcast by multicast */
    bool batches;                         /**< they pass to all members */
    mca_coll_rawe_hosts_t *hosts;         /**< once the members have agreed */
    struct mca_btl_rawe_multicast *group; /**< NULL: none, or another rank is the host's leader */
    bool ended; /**< it was there: leaders pass messages on from one to the other now */
} mca_coll_rawe_module_t;
OBJ_CLASS_DECLARATION(mca_coll_rawe_module_t);

/** What btl/rawe offers; NULL: it has no module, or is another version. */
const struct mca_btl_rawe_offer *mca_coll_rawe_offer(void);

/**
 * Does a call go by multicast, if it could? All members say alike whether it could; in the call that makes a
 * group worth it they agree.
 */
int mca_coll_rawe_choose(mca_coll_rawe_module_t *module, struct ompi_communicator_t *comm,
                         bool could, bool *multicasts);

/** Make progress until the transfer does not wait any more, or for about as long: false. */
bool mca_coll_rawe_wait(const struct mca_btl_rawe_transfer *transfer, uint64_t most_ns);

/** Send up to limit_bytes from a leader to all others; leaders call it. */
int mca_coll_rawe_multicast(mca_coll_rawe_module_t *module, void *buffer, int count,
                            struct ompi_datatype_t *datatype, int root,
                            struct ompi_communicator_t *comm);

/** Send up to limit_bytes from a rank to all others: to its leader, to all leaders, to their hosts. */
int mca_coll_rawe_to_all(mca_coll_rawe_module_t *module, void *buffer, int count,
                         struct ompi_datatype_t *datatype, int rank,
                         struct ompi_communicator_t *comm);

/** Memory for as many members, to free(); NULL without. The caller fills in `of`. */
mca_coll_rawe_hosts_t *mca_coll_rawe_hosts_new(int members);

/** Fill in the rest from `of`. */
void mca_coll_rawe_hosts_arrange(mca_coll_rawe_hosts_t *hosts, int members, int self);

/**
 * The processes of the leaders, in memory to free(), introduced by Open MPI: paths to all of them are
 * searched for at a time. NULL without memory.
 */
opal_proc_t **mca_coll_rawe_hosts_introduce(const mca_coll_rawe_hosts_t *hosts,
                                            struct ompi_communicator_t *comm);

/** The tree of this host's ranks; its root is that rank, or the leader if that is on another host. */
mca_coll_rawe_tree_t mca_coll_rawe_hosts_here(const mca_coll_rawe_hosts_t *hosts, int rank);

/** The tree of the leaders, for a leader; its root is the leader of that rank. */
mca_coll_rawe_tree_t mca_coll_rawe_hosts_leaders(const mca_coll_rawe_hosts_t *hosts, int rank);

/** Receive what the root sends, unless this is the root; then send it on to those below. */
int mca_coll_rawe_tree_receive(const mca_coll_rawe_tree_t *tree, void *buffer, int count,
                               struct ompi_datatype_t *datatype, struct ompi_communicator_t *comm);
int mca_coll_rawe_tree_send(const mca_coll_rawe_tree_t *tree, void *buffer, int count,
                            struct ompi_datatype_t *datatype, struct ompi_communicator_t *comm);

/**
 * Reduce what the ranks of a tree contribute, in their order from the last one on, if its root is the
 * first. `*mine` is what this one does, not in slots[1]; in the root it becomes the result, in
 * slots[0] or [1], or stays, if there is no other rank.
 */
int mca_coll_rawe_tree_reduce(const mca_coll_rawe_tree_t *tree, const void **mine,
                              void *const slots[3], int count, struct ompi_datatype_t *datatype,
                              struct ompi_op_t *op, struct ompi_communicator_t *comm);

/** Have all members of the communicator enter a group, or none; the module's stage says which. */
int mca_coll_rawe_agree(mca_coll_rawe_module_t *module, struct ompi_communicator_t *comm);

/** A group has ended, as multicast is lost to a member: later ones find out anew what passes. */
void mca_coll_rawe_forget_network(void);

#endif
