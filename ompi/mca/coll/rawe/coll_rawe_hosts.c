/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The hosts of a communicator. The lowest rank on each is its leader; the leaders are the group.
 * Within a host, messages of the PML go along a tree. It is flat for up to RADIX ranks; in general a
 * number's parent has its last digit that is not 0, to this base, replaced by 0. So a number and those
 * below it follow one another, as reducing in order demands:
 *
 *     0 - 1 to 7, 8, 16, ...      8 - 9 to 15      16 - 17 to 23
 *
 * There are no communicators of the hosts and of the leaders: to make one in the midst of a
 * collective may wait for a communicator that the program makes at the same time, as ids are agreed
 * on one after the other; and each communicator of the program would cost three.
 */
#include "coll_rawe.h"

#include <stdlib.h>

/** Of the tree: one more message to send costs less than one more rank to wait for. */
#define RADIX 8

/** The place of a number's last digit that is not 0; for 0 a place beyond all numbers. */
static int place_of(int number, int numbers)
{
    int place = 1;

    while (0 == number % (RADIX * place) && place < numbers) {
        place *= RADIX;
    }
    return place;
}

static int parent_of(int number, int place)
{
    return number - number % (RADIX * place);
}

/** The rank that has a number when the tree's root is at this position. */
static int rank_of(const mca_coll_rawe_hosts_t *hosts, int number, int root)
{
    return hosts->ranks[(number + root) % hosts->here];
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

int mca_coll_rawe_hosts_pass(const mca_coll_rawe_hosts_t *hosts, void *buffer, int count,
                             struct ompi_datatype_t *datatype, int root,
                             struct ompi_communicator_t *comm)
{
    const int hosts_count = hosts->count, first = hosts->of[root];
    const int self = (hosts->of[ompi_comm_rank(comm)] + hosts_count - first) % hosts_count;
    int bit = 1, status = MPI_SUCCESS;

    while (bit < hosts_count && 0 == (self & bit)) {
        bit *= 2;
    }
    if (0 != self) {
        status = MCA_PML_CALL(recv(buffer, (size_t)count, datatype,
                                   hosts->leaders[(self - bit + first) % hosts_count],
                                   MCA_COLL_BASE_TAG_BCAST, comm, MPI_STATUS_IGNORE));
    }
    while (0 != (bit /= 2) && MPI_SUCCESS == status) {
        if (self + bit < hosts_count) {
            status = MCA_PML_CALL(send(buffer, (size_t)count, datatype,
                                       hosts->leaders[(self + bit + first) % hosts_count],
                                       MCA_COLL_BASE_TAG_BCAST, MCA_PML_BASE_SEND_STANDARD, comm));
        }
    }
    return status;
}

int mca_coll_rawe_hosts_bcast(mca_coll_rawe_module_t *module, void *buffer, int count,
                              struct ompi_datatype_t *datatype, int rank,
                              struct ompi_communicator_t *comm)
{
    const mca_coll_rawe_hosts_t *hosts = module->hosts;
    const int tag = MCA_COLL_BASE_TAG_BCAST, leader = hosts->leaders[hosts->of[rank]];
    int status = MPI_SUCCESS, root = 0;

    if (leader == hosts->ranks[0]) {
        while (hosts->ranks[root] != rank) {
            ++root;
        }
    }
    const int number = (hosts->position - root + hosts->here) % hosts->here;
    int place = place_of(number, hosts->here);
    if (0 != number) {
        status = MCA_PML_CALL(recv(buffer, (size_t)count, datatype,
                                   rank_of(hosts, parent_of(number, place), root), tag, comm,
                                   MPI_STATUS_IGNORE));
    }
    if (MPI_SUCCESS == status && 0 == hosts->position) {
        status = mca_coll_rawe_multicast(module, buffer, count, datatype, leader, comm);
    }
    while (1 != place && MPI_SUCCESS == status) {
        ompi_request_t *requests[RADIX];
        const int end = number + place;
        int begun = 0, waited;
        place /= RADIX;
        for (int to = number + place; to < end && to < hosts->here && MPI_SUCCESS == status;
             to += place) {
            status = MCA_PML_CALL(isend(buffer, (size_t)count, datatype, rank_of(hosts, to, root),
                                        tag, MCA_PML_BASE_SEND_STANDARD, comm, &requests[begun]));
            begun += MPI_SUCCESS == status;
        }
        waited = ompi_request_wait_all((size_t)begun, requests, MPI_STATUSES_IGNORE);
        status = MPI_SUCCESS == status ? waited : status;
    }
    return status;
}

int mca_coll_rawe_hosts_reduce(const mca_coll_rawe_hosts_t *hosts, const void **mine,
                               void *const slots[2], int count, struct ompi_datatype_t *datatype,
                               struct ompi_op_t *op, struct ompi_communicator_t *comm)
{
    const int self = hosts->position, tag = MCA_COLL_BASE_TAG_ALLREDUCE;
    const int own = place_of(self, hosts->here);
    int status = MPI_SUCCESS;

    for (int place = 1; place < own; place *= RADIX) {
        for (int from = self + place; from < self + RADIX * place && from < hosts->here;
             from += place) {
            void *slot = slots[*mine == slots[0]];
            status = MCA_PML_CALL(recv(slot, (size_t)count, datatype, hosts->ranks[from], tag, comm,
                                       MPI_STATUS_IGNORE));
            if (MPI_SUCCESS == status && 0 != count) {
                status = comm->c_coll->coll_reduce_local(*mine, slot, count, datatype, op,
                                                         comm->c_coll->coll_reduce_local_module);
            }
            if (MPI_SUCCESS != status) {
                return status;
            }
            *mine = slot;
        }
    }
    return 0 == self ? status
                     : MCA_PML_CALL(send(*mine, (size_t)count, datatype,
                                         hosts->ranks[parent_of(self, own)], tag,
                                         MCA_PML_BASE_SEND_STANDARD, comm));
}
