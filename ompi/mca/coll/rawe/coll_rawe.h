/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * coll/rawe: a communicator's module, and how the members agree on a group (coll_rawe_agree.c).
 *
 * It multicasts one frame, or batches, to one process per host, for MPI_Bcast, MPI_Scatter,
 * MPI_Barrier, and the results of collectives with little data. Other calls
 * and unsuitable communicators are left to the underlying component of lower priority.
 */
#ifndef MCA_COLL_RAWE_H
#define MCA_COLL_RAWE_H

#include "ompi_config.h"

#include "mpi.h"
#include "ompi/communicator/communicator.h"
#include "ompi/datatype/ompi_datatype.h"
#include "ompi/mca/coll/base/base.h"
#include "ompi/mca/coll/coll.h"
#include "opal/mca/btl/rawe/btl_rawe_compat.h"
#include "opal/mca/btl/rawe/btl_rawe_offer.h"
#include "opal/util/output.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

/** A line for users who set coll_base_verbose. */
#define MCA_COLL_RAWE_SAY(comm, text)                                  \
    opal_output_verbose(10, ompi_coll_base_framework.framework_output, \
                        "coll:rawe: communicator %s: %s", (comm)->c_name, (text))

/** Minimum number of hosts in a communicator: with fewer, a frame to each is as fast. */
#define MCA_COLL_RAWE_HOSTS_MIN 4

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

/** Maximum radix of the leaders' tree: it is flat for as many hosts as have been measured. */
#define MCA_COLL_RAWE_RADIX_MAX 16

/** How a communicator's calls are performed. */
enum mca_coll_rawe_stage {
    MCA_COLL_RAWE_COUNTS,     /**< by the underlying component, until a group is worthwhile */
    MCA_COLL_RAWE_MULTICASTS, /**< by multicast, if they fit */
    MCA_COLL_RAWE_PASSES,     /**< by the underlying component, permanently */
};

/** The collectives that coll/rawe implements. */
#define MCA_COLL_RAWE_OWN(DO) \
    DO(allgather)             \
    DO(allreduce)             \
    DO(barrier)               \
    DO(bcast)                 \
    DO(reduce_scatter)        \
    DO(reduce_scatter_block)  \
    DO(scatter)

/** The functions that coll/rawe calls in the underlying component. */
#define MCA_COLL_RAWE_BENEATH(DO) MCA_COLL_RAWE_OWN(DO) DO(gather)

#define MCA_COLL_RAWE_DECLARE(NAME)          \
    mca_coll_base_module_##NAME##_fn_t NAME; \
    mca_coll_base_module_t *NAME##_module;

/**
 * A communicator's module. "call": in a collective call; a communicator has only one at a time.
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
    uint32_t payload_bytes;       /**< frame payload, the same for all members */
    size_t limit_bytes;           /**< longest multicast Bcast */
    bool batches;                 /**< batches reach all members */
    mca_coll_rawe_hosts_t *hosts; /**< once the members have agreed */
} mca_coll_rawe_module_t;

/* ---- coll_rawe_hosts.c ---- */

/** Allocate for `members`; release with free(). NULL: out of memory. The caller fills in `of`. */
mca_coll_rawe_hosts_t *mca_coll_rawe_hosts_new(int members);

/** Fill in the other members from `of`. */
void mca_coll_rawe_hosts_arrange(mca_coll_rawe_hosts_t *hosts, int members, int self);

/**
 * Return the leaders' processes, in memory to be released with free(). Open MPI introduces all at
 * once, so that their paths are searched in parallel. Returns NULL when out of memory.
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
 * Reduce the contributions of a tree's ranks, in order from the last rank to the first, which must
 * be its root. `*mine` is this rank's contribution, not in slots[1]. In the root it becomes the
 * result, in slots[0] or [1], or stays unchanged if there is no other rank.
 */
int mca_coll_rawe_tree_reduce(const mca_coll_rawe_tree_t *tree, const void **mine,
                              void *const slots[3], int count, struct ompi_datatype_t *datatype,
                              struct ompi_op_t *op, struct ompi_communicator_t *comm);

/* ---- coll_rawe_vote.c ---- */

enum mca_coll_rawe_verdict {
    MCA_COLL_RAWE_GROUP,     /**< all members take part, on enough hosts */
    MCA_COLL_RAWE_NO_PART,   /**< a member takes no part */
    MCA_COLL_RAWE_FEW_HOSTS, /**< the members are on fewer than MCA_COLL_RAWE_HOSTS_MIN hosts */
    MCA_COLL_RAWE_UNKNOWN, /**< between two members: one does not know that the other takes part */
};

/**
 * Vote. `*verdict` is the same for all members that take part; in member 0, with
 * MCA_COLL_RAWE_GROUP, module->hosts->of has the host of each member.
 */
int mca_coll_rawe_vote(const mca_coll_rawe_module_t *module, struct ompi_communicator_t *comm,
                       int *verdict);

/** Forget all votes, when the component is closed. */
void mca_coll_rawe_vote_close(void);

/** Return true if a member is known to take part. Writes its host, see mca_btl_rawe_offer. */
static inline bool mca_coll_rawe_takes_part(const mca_coll_rawe_module_t *module,
                                            struct ompi_communicator_t *comm, int member, bool wait,
                                            uint64_t *host)
{
    return module->offer->takes_part(ompi_group_get_proc_name(comm->c_local_group, member), wait,
                                     host);
}

/** Return the time, accurate to a few ms. */
static inline uint64_t mca_coll_rawe_time_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* ---- coll_rawe_agree.c ---- */

/** Make all members of the communicator enter a group, or none; module->stage has the result. */
int mca_coll_rawe_agree(mca_coll_rawe_module_t *module, struct ompi_communicator_t *comm);

/** Note that a group ended because a member lost multicast: later ones test the network again. */
void mca_coll_rawe_forget_network(void);

/** Make progress until the transfer no longer waits; after about `most_ns` return false. */
bool mca_coll_rawe_wait(const struct mca_btl_rawe_transfer *transfer, uint64_t most_ns);

#endif
