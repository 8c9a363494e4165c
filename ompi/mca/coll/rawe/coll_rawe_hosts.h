/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The hosts of a communicator, and the trees along which its ranks pass PML messages. The lowest
 * rank on each host is its leader; the leaders are the group. A tree is flat for up to `radix`
 * ranks. A number's parent is the number with its last nonzero digit, in this base, replaced by 0.
 * So each subtree has consecutive numbers, as reducing in order requires. In base 8:
 *
 *     0 - 1 to 7, 8, 16, ...      8 - 9 to 15      16 - 17 to 23
 *
 * Hosts and leaders have no communicators of their own. Creating one inside a collective may wait
 * for a communicator that the program creates at the same time, because ids are agreed on in
 * sequence; and each communicator of the program would cost three.
 */
#ifndef MCA_COLL_RAWE_HOSTS_H
#define MCA_COLL_RAWE_HOSTS_H

#include "ompi_config.h"

#include "ompi/communicator/communicator.h"
#include "ompi/datatype/ompi_datatype.h"

/** The hosts of a communicator's members, in the order of their lowest ranks. */
typedef struct mca_coll_rawe_hosts {
    int count;
    int *of;      /**< the host of each rank */
    int *leaders; /**< each host's lowest rank; member i of the group is leaders[i] */
    int *ranks;   /**< this host's ranks, ascending */
    int here;     /**< number of ranks on this host */
    int position; /**< this process's index in `ranks`; 0: it is the leader */
} mca_coll_rawe_hosts_t;

/** Ranks that exchange PML messages, see above; root and self are indices. */
typedef struct mca_coll_rawe_tree {
    const int *ranks;
    int count, self, root;
    int radix; /**< at most MCA_COLL_RAWE_RADIX_MAX */
} mca_coll_rawe_tree_t;

/** Maximum radix of the leaders' tree: flat for as many as have been measured. */
#define MCA_COLL_RAWE_RADIX_MAX 16

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

#endif
