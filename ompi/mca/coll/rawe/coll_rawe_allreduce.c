/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * MPI_Barrier, and MPI_Allreduce and MPI_Reduce_scatter of little data: the ranks of a host reduce
 * what they contribute, each leader sends a message to rank 0, and this the result to all by one
 * multicast frame. The order is fixed, so the result has the same bits in all ranks and in each
 * run.
 *
 * All ranks have to choose alike, and a rank knows only its own handles: what others call the type of
 * the same signature, or an operation that they say does not commute, may have another handle there.
 * So only operations of MPI's own are chosen. These commute, take types of MPI's own alone, and a call
 * has the same one in all ranks.
 */
#include "coll_rawe.h"

/** Hosts at most: rank 0 receives a frame of each. More have not been measured. */
#define HOSTS_MAX 16

/** Members of a Barrier: with fewer, Open MPI's goes to rank 0 and back as well, as fast. */
#define BARRIER_MEMBERS_MIN 8

/** What a member contributes at most: a line of 1 Gb/s brings rank 0 sixteen of them in 40 us. */
#define CONTRIBUTED_BYTES_MAX 256

#define ROOT 0

/** Send what this host contributes; as root, receive that of others: of the last one to `last`. */
static int gather(const mca_coll_rawe_hosts_t *hosts, const void *send, char *slots,
                  size_t slot_bytes, void *last, int count, struct ompi_datatype_t *datatype,
                  struct ompi_communicator_t *comm)
{
    ompi_request_t *requests[HOSTS_MAX];
    int status = MPI_SUCCESS, begun = 0;

    if (ROOT != ompi_comm_rank(comm)) {
        return MCA_PML_CALL(send(send, (size_t)count, datatype, ROOT, MCA_COLL_BASE_TAG_ALLREDUCE,
                                 MCA_PML_BASE_SEND_STANDARD, comm));
    }
    for (int i = 1; i < hosts->count && MPI_SUCCESS == status; ++i) {
        void *slot = i == hosts->count - 1 ? last : slots + slot_bytes * (size_t)i;
        status = MCA_PML_CALL(irecv(slot, (size_t)count, datatype, hosts->leaders[i],
                                    MCA_COLL_BASE_TAG_ALLREDUCE, comm, &requests[begun]));
        begun += MPI_SUCCESS == status;
    }
    int waited = ompi_request_wait_all((size_t)begun, requests, MPI_STATUSES_IGNORE);
    return MPI_SUCCESS == status ? waited : status;
}

/** As root, have the result in `receive`. */
static int reduce(const mca_coll_rawe_hosts_t *hosts, const void *send, void *receive,
                  size_t slot_bytes, int count, struct ompi_datatype_t *datatype,
                  struct ompi_op_t *op, struct ompi_communicator_t *comm)
{
    _Alignas(16) char slots[HOSTS_MAX * CONTRIBUTED_BYTES_MAX];
    void *const two[] = {slots, slots + slot_bytes};
    const bool is_root = ROOT == ompi_comm_rank(comm);
    const void *mine = MPI_IN_PLACE == send ? receive : send;

    int status = mca_coll_rawe_hosts_reduce(hosts, &mine, two, count, datatype, op, comm);
    if (MPI_SUCCESS != status || 0 != hosts->position) {
        return status;
    }
    if (is_root && 0 != count && send != mine && slots != mine) {
        ompi_datatype_copy_content_same_ddt(datatype, count, slots, (char *)mine);
        mine = slots;
    }
    status = gather(hosts, mine, slots, slot_bytes, receive, count, datatype, comm);
    for (int i = hosts->count - 2; is_root && 0 != count && i >= 0 && MPI_SUCCESS == status; --i) {
        status = comm->c_coll->coll_reduce_local(0 == i ? mine : slots + slot_bytes * (size_t)i,
                                                 receive, count, datatype, op,
                                                 comm->c_coll->coll_reduce_local_module);
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
    status = reduce(module->hosts, NULL, NULL, 0, 0, MPI_BYTE, MPI_OP_NULL, comm);
    return MPI_SUCCESS == status ? mca_coll_rawe_hosts_bcast(module, NULL, 0, MPI_BYTE, ROOT, comm)
                                 : status;
}

/** Return true of MPI's own operations; ompi/op/op.h, which knows as well, is not installed whole. */
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

/** Return what elements take in memory if the call can go by multicast, else 0. */
static size_t plain_bytes(size_t count, const struct ompi_datatype_t *datatype,
                          struct ompi_op_t *op)
{
    ptrdiff_t lower, extent;

    ompi_datatype_get_extent(datatype, &lower, &extent);
    return is_mpis_own(op) && ompi_datatype_is_predefined(datatype) ? (size_t)extent * count : 0;
}

/** Have the result in all ranks, if this call goes by multicast: `*done`. */
static int try_allreduce(mca_coll_rawe_module_t *module, const void *send, void *receive,
                         size_t elements, struct ompi_datatype_t *datatype, struct ompi_op_t *op,
                         struct ompi_communicator_t *comm, bool *done)
{
    const size_t bytes = plain_bytes(elements, datatype, op);
    const int count = (int)elements; /* as it is little */

    int status =
        mca_coll_rawe_choose(module, comm, 0 != bytes && bytes <= CONTRIBUTED_BYTES_MAX, done);
    if (!*done || module->hosts->count > HOSTS_MAX || bytes > module->payload_bytes) {
        *done = false;
        return status;
    }
    status = reduce(module->hosts, send, receive, bytes, count, datatype, op, comm);
    return MPI_SUCCESS == status
               ? mca_coll_rawe_hosts_bcast(module, receive, count, datatype, ROOT, comm)
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

/** The same, of which this rank takes `count` elements behind the first `before` of `whole`. */
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
    const size_t elements = (size_t)count; /* of all ranks they may be more than an int holds */
    bool done;

    int status =
        try_reduce_scatter(module, send, receive, elements * (size_t)ompi_comm_rank(comm), count,
                           elements * (size_t)ompi_comm_size(comm), datatype, op, comm, &done);
    return MPI_SUCCESS != status || done
               ? status
               : module->reduce_scatter_block(send, receive, count, datatype, op, comm,
                                              module->reduce_scatter_block_module);
}
