/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The hosts of a communicator, and the trees along which its ranks pass PML messages. The lowest
 * rank on each host is its leader; the leaders are the group. A tree is flat for up to `radix`
 * ranks. A number's parent is found by replacing its last nonzero digit, in this base, with 0. So
 * each subtree has consecutive numbers, as ordered reduction requires. In base 8:
 *
 *     0 - 1 to 7, 8, 16, ...      8 - 9 to 15      16 - 17 to 23
 *
 * Hosts and leaders have no communicators. Creating one inside a collective may wait
 * for a communicator that the program creates at the same time, because ids are agreed on in
 * sequence; and each communicator of the program would cost three.
 */
#include "coll_rawe.h"

#include "ompi/mca/bml/base/base.h"
#include "ompi/mca/coll/base/coll_tags.h"
#include "ompi/mca/coll/coll.h"
#include "ompi/mca/pml/pml.h"
#include "ompi/proc/proc.h"
#include "ompi/request/request.h"
#include "opal/class/opal_bitmap.h"

#include <stdlib.h>

/** Radix within a host: sending one more message costs less than waiting for one more rank. */
#define RADIX 8

/** Return the place value of a number's last nonzero digit; for 0, one beyond all numbers. */
static int place_of(const mca_coll_rawe_tree_t *tree, int number)
{
    int place = 1;

    while (0 == number % (tree->radix * place) && place < tree->count) {
        place *= tree->radix;
    }
    return place;
}

static int number_in_tree(const mca_coll_rawe_tree_t *tree)
{
    return (tree->self - tree->root + tree->count) % tree->count;
}

/** Return the rank that has a number. */
static int rank_of(const mca_coll_rawe_tree_t *tree, int number)
{
    return tree->ranks[(number + tree->root) % tree->count];
}

/** Return the parent's rank. The root has no parent. */
static int parent_of(const mca_coll_rawe_tree_t *tree)
{
    const int number = number_in_tree(tree);

    return rank_of(tree, number - number % (tree->radix * place_of(tree, number)));
}

mca_coll_rawe_hosts_t *mca_coll_rawe_hosts_new(int members)
{
    size_t ints = 3 * (size_t)members;
    mca_coll_rawe_hosts_t *hosts = calloc(1, sizeof(*hosts) + ints * sizeof(int));

    if (NULL != hosts) {
        hosts->of = (int *)(hosts + 1);
        hosts->leaders = hosts->of + members;
        hosts->ranks = hosts->leaders + members;
    }
    return hosts;
}

mca_coll_rawe_tree_t mca_coll_rawe_hosts_here(const mca_coll_rawe_hosts_t *hosts, int rank)
{
    mca_coll_rawe_tree_t tree = {hosts->ranks, hosts->here, hosts->position, 0, RADIX};

    for (int i = 0; i < hosts->here; ++i) {
        tree.root = hosts->ranks[i] == rank ? i : tree.root;
    }
    return tree;
}

mca_coll_rawe_tree_t mca_coll_rawe_hosts_leaders(const mca_coll_rawe_hosts_t *hosts, int rank)
{
    return (mca_coll_rawe_tree_t){hosts->leaders, hosts->count, hosts->of[hosts->ranks[0]],
                                  hosts->of[rank], MCA_COLL_RAWE_RADIX_MAX};
}

void mca_coll_rawe_hosts_arrange(mca_coll_rawe_hosts_t *hosts, int members, int self)
{
    hosts->count = 0;
    hosts->here = 0;
    for (int i = 0; i < members; ++i) {
        if (hosts->of[i] == hosts->count) {
            hosts->leaders[hosts->count++] = i;
        }
        if (hosts->of[i] == hosts->of[self]) {
            hosts->position = i == self ? hosts->here : hosts->position;
            hosts->ranks[hosts->here++] = i;
        }
    }
}

opal_proc_t **mca_coll_rawe_hosts_introduce(const mca_coll_rawe_hosts_t *hosts,
                                            struct ompi_communicator_t *comm)
{
    ompi_proc_t **procs = calloc((size_t)hosts->count, sizeof(*procs));
    opal_bitmap_t reachable;

    OBJ_CONSTRUCT(&reachable, opal_bitmap_t);
    if (NULL != procs && OPAL_SUCCESS != opal_bitmap_init(&reachable, hosts->count)) {
        free(procs);
        procs = NULL;
    }
    if (NULL != procs) {
        for (int i = 0; i < hosts->count; ++i) {
            procs[i] = ompi_comm_peer_lookup(comm, hosts->leaders[i]);
        }
        (void)mca_bml.bml_add_procs((size_t)hosts->count, procs, &reachable);
    }
    OBJ_DESTRUCT(&reachable);
    return (opal_proc_t **)procs;
}

int mca_coll_rawe_tree_receive(const mca_coll_rawe_tree_t *tree, void *buffer, int count,
                               struct ompi_datatype_t *datatype, struct ompi_communicator_t *comm)
{
    return 0 == number_in_tree(tree)
               ? MPI_SUCCESS
               : MCA_PML_CALL(recv(buffer, (size_t)count, datatype, parent_of(tree),
                                   MCA_COLL_BASE_TAG_BCAST, comm, MPI_STATUS_IGNORE));
}

int mca_coll_rawe_tree_send(const mca_coll_rawe_tree_t *tree, void *buffer, int count,
                            struct ompi_datatype_t *datatype, struct ompi_communicator_t *comm)
{
    const int number = number_in_tree(tree);
    int status = MPI_SUCCESS;

    for (int place = place_of(tree, number); 1 != place && MPI_SUCCESS == status;) {
        ompi_request_t *requests[MCA_COLL_RAWE_RADIX_MAX];
        const int end = number + place;
        int begun = 0, waited;
        place /= tree->radix;
        for (int to = number + place; to < end && to < tree->count && MPI_SUCCESS == status;
             to += place) {
            status = MCA_PML_CALL(isend(buffer, (size_t)count, datatype, rank_of(tree, to),
                                        MCA_COLL_BASE_TAG_BCAST, MCA_PML_BASE_SEND_STANDARD, comm,
                                        &requests[begun]));
            begun += MPI_SUCCESS == status;
        }
        waited = ompi_request_wait_all((size_t)begun, requests, MPI_STATUSES_IGNORE);
        status = MPI_SUCCESS == status ? waited : status;
    }
    return status;
}

int mca_coll_rawe_tree_reduce(const mca_coll_rawe_tree_t *tree, const void **mine,
                              void *const slots[3], int count, struct ompi_datatype_t *datatype,
                              struct ompi_op_t *op, struct ompi_communicator_t *comm)
{
    mca_coll_base_module_t *local = comm->c_coll->coll_reduce_local_module;
    const int self = number_in_tree(tree), own = place_of(tree, self);
    void *const result = slots[*mine == slots[0]];
    bool first = true;
    int status = MPI_SUCCESS;

    for (int place = own / tree->radix; 0 != place && MPI_SUCCESS == status; place /= tree->radix) {
        for (int from = self + (tree->radix - 1) * place; from != self && MPI_SUCCESS == status;
             from -= place) {
            if (from >= tree->count) {
                continue;
            }
            void *slot = first ? result : slots[2];
            status = MCA_PML_CALL(recv(slot, (size_t)count, datatype, rank_of(tree, from),
                                       MCA_COLL_BASE_TAG_ALLREDUCE, comm, MPI_STATUS_IGNORE));
            if (MPI_SUCCESS == status && !first && 0 != count) {
                status = comm->c_coll->coll_reduce_local(slot, result, count, datatype, op, local);
            }
            first = false;
        }
    }
    if (MPI_SUCCESS == status && !first && 0 != count) {
        status = comm->c_coll->coll_reduce_local(*mine, result, count, datatype, op, local);
        *mine = result;
    }
    return MPI_SUCCESS != status || 0 == self
               ? status
               : MCA_PML_CALL(send(*mine, (size_t)count, datatype, parent_of(tree),
                                   MCA_COLL_BASE_TAG_ALLREDUCE, MCA_PML_BASE_SEND_STANDARD, comm));
}
