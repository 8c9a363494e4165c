/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * MPI_Barrier, and MPI_Allreduce and MPI_Reduce_scatter of little data: the ranks of each host
 * reduce their contributions, each leader sends a message to rank 0, which sends the result to all
 * in one multicast frame. The order is fixed, so the result is bitwise the same in all ranks and
 * runs.
 *
 * All ranks must choose alike, but a rank knows only its own handles: other ranks may use other
 * handles for a type of the same signature, or for an operation that they declare not to commute.
 * So only MPI's own operations qualify. They commute, take only MPI's own types, and are the same
 * in all ranks of a call.
 */
#include "coll_rawe.h"

/** Maximum number of hosts: rank 0 receives a frame from each. More have not been measured. */
#define HOSTS_MAX 16

/** Minimum members of a Barrier: with fewer, Open MPI's also goes to rank 0 and back, as fast. */
#define BARRIER_MEMBERS_MIN 8

/** Maximum contribution of a member: at 1 Gb/s, rank 0 receives sixteen of them in 40 us. */
#define CONTRIBUTED_BYTES_MAX 256

#define ROOT 0

/** Reduce all contributions into the root's `receive`. */
static int reduce(const mca_coll_rawe_hosts_t *hosts, const void *send, void *receive, int count,
                  struct ompi_datatype_t *datatype, struct ompi_op_t *op,
                  struct ompi_communicator_t *comm)
{
    _Alignas(16) char memory[3][CONTRIBUTED_BYTES_MAX];
    void *const slots[] = {memory[0], memory[1], memory[2]};
    const mca_coll_rawe_tree_t here = mca_coll_rawe_hosts_here(hosts, ROOT);
    const mca_coll_rawe_tree_t leaders = mca_coll_rawe_hosts_leaders(hosts, ROOT);
    const void *mine = MPI_IN_PLACE == send ? receive : send;

    int status = mca_coll_rawe_tree_reduce(&here, &mine, slots, count, datatype, op, comm);
    if (MPI_SUCCESS == status && 0 == hosts->position) {
        status = mca_coll_rawe_tree_reduce(&leaders, &mine, slots, count, datatype, op, comm);
    }
    if (MPI_SUCCESS == status && ROOT == ompi_comm_rank(comm) && 0 != count) {
        ompi_datatype_copy_content_same_ddt(datatype, count, receive, (char *)mine);
    }
    return status;
}

int mca_coll_rawe_barrier(struct ompi_communicator_t *comm, mca_coll_base_module_t *base)
{
    mca_coll_rawe_module_t *module = (mca_coll_rawe_module_t *)base;
    bool multicasts;

    int status = mca_coll_rawe_choose(module, comm, ompi_comm_size(comm) >= BARRIER_MEMBERS_MIN,
                                      &multicasts);
    if (MPI_SUCCESS != status) {
        return status;
    }
    if (!multicasts || module->hosts->count > HOSTS_MAX) {
        return module->barrier(comm, module->barrier_module);
    }
    status = reduce(module->hosts, NULL, NULL, 0, MPI_BYTE, MPI_OP_NULL, comm);
    return MPI_SUCCESS == status ? mca_coll_rawe_to_all(module, NULL, 0, MPI_BYTE, ROOT, comm)
                                 : status;
}

/** Return true for MPI's own operations; ompi/op/op.h, which can tell, is not fully installed. */
static bool is_mpis_own(struct ompi_op_t *op)
{
    struct ompi_op_t *const all[] = {MPI_SUM,  MPI_PROD, MPI_MAX, MPI_MIN,  MPI_LAND,   MPI_LOR,
                                     MPI_LXOR, MPI_BAND, MPI_BOR, MPI_BXOR, MPI_MINLOC, MPI_MAXLOC};
    bool found = false;

    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]) && !found; ++i) {
        found = op == all[i];
    }
    return found;
}

/** Return the elements' bytes in memory if the call can use multicast, else 0. */
static size_t plain_bytes(size_t count, const struct ompi_datatype_t *datatype,
                          struct ompi_op_t *op)
{
    ptrdiff_t lower, extent;

    ompi_datatype_get_extent(datatype, &lower, &extent);
    return is_mpis_own(op) && ompi_datatype_is_predefined(datatype) ? (size_t)extent * count : 0;
}

/** Get the result to all ranks, if this call uses multicast: `*done`. */
static int try_allreduce(mca_coll_rawe_module_t *module, const void *send, void *receive,
                         size_t elements, struct ompi_datatype_t *datatype, struct ompi_op_t *op,
                         struct ompi_communicator_t *comm, bool *done)
{
    const size_t bytes = plain_bytes(elements, datatype, op);
    const int count = (int)elements; /* it fits, because it is little */

    int status =
        mca_coll_rawe_choose(module, comm, 0 != bytes && bytes <= CONTRIBUTED_BYTES_MAX, done);
    if (!*done || module->hosts->count > HOSTS_MAX || bytes > module->payload_bytes) {
        *done = false;
        return status;
    }
    status = reduce(module->hosts, send, receive, count, datatype, op, comm);
    return MPI_SUCCESS == status
               ? mca_coll_rawe_to_all(module, receive, count, datatype, ROOT, comm)
               : status;
}

int mca_coll_rawe_allreduce(const void *send, void *receive, int count,
                            struct ompi_datatype_t *datatype, struct ompi_op_t *op,
                            struct ompi_communicator_t *comm, mca_coll_base_module_t *base)
{
    mca_coll_rawe_module_t *module = (mca_coll_rawe_module_t *)base;
    bool done;

    int status = try_allreduce(module, send, receive, (size_t)count, datatype, op, comm, &done);
    return MPI_SUCCESS != status || done ? status
                                         : module->allreduce(send, receive, count, datatype, op,
                                                             comm, module->allreduce_module);
}

/** Allreduce `whole` elements; this rank takes `count` behind the first `before`. */
static int try_reduce_scatter(mca_coll_rawe_module_t *module, const void *send, void *receive,
                              size_t before, int count, size_t whole,
                              struct ompi_datatype_t *datatype, struct ompi_op_t *op,
                              struct ompi_communicator_t *comm, bool *done)
{
    _Alignas(16) char result[CONTRIBUTED_BYTES_MAX];
    const void *mine = MPI_IN_PLACE == send ? receive : send;

    int status = try_allreduce(module, mine, result, whole, datatype, op, comm, done);
    if (*done && MPI_SUCCESS == status && 0 != count) {
        const char *part = result + plain_bytes(before, datatype, op);
        ompi_datatype_copy_content_same_ddt(datatype, count, receive, (char *)part);
    }
    return status;
}

int mca_coll_rawe_reduce_scatter(const void *send, void *receive, const int *counts,
                                 struct ompi_datatype_t *datatype, struct ompi_op_t *op,
                                 struct ompi_communicator_t *comm, mca_coll_base_module_t *base)
{
    mca_coll_rawe_module_t *module = (mca_coll_rawe_module_t *)base;
    const int members = ompi_comm_size(comm), self = ompi_comm_rank(comm);
    size_t before = 0, whole = 0;
    bool done;

    for (int i = 0; i < members; ++i) {
        before += i < self ? (size_t)counts[i] : 0;
        whole += (size_t)counts[i];
    }
    int status = try_reduce_scatter(module, send, receive, before, counts[self], whole, datatype,
                                    op, comm, &done);
    return MPI_SUCCESS != status || done
               ? status
               : module->reduce_scatter(send, receive, counts, datatype, op, comm,
                                        module->reduce_scatter_module);
}

int mca_coll_rawe_reduce_scatter_block(const void *send, void *receive, int count,
                                       struct ompi_datatype_t *datatype, struct ompi_op_t *op,
                                       struct ompi_communicator_t *comm,
                                       mca_coll_base_module_t *base)
{
    mca_coll_rawe_module_t *module = (mca_coll_rawe_module_t *)base;
    const size_t elements = (size_t)count; /* the total over all ranks may exceed an int */
    bool done;

    int status =
        try_reduce_scatter(module, send, receive, elements * (size_t)ompi_comm_rank(comm), count,
                           elements * (size_t)ompi_comm_size(comm), datatype, op, comm, &done);
    return MPI_SUCCESS != status || done
               ? status
               : module->reduce_scatter_block(send, receive, count, datatype, op, comm,
                                              module->reduce_scatter_block_module);
}
