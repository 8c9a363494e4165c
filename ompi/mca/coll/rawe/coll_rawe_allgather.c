/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * MPI_Allgather of little data: the component beneath gathers it in rank 0, which multicasts all of it.
 * MPI_Scan gathers so, too: each rank reduces what it needs of that, in the order of ranks, so the result
 * has the same bits in each run, and the operation need not commute.
 */
#include "coll_rawe.h"

/** Members at least: with fewer, Open MPI's takes as few steps. */
#define MEMBERS_MIN 8

/** Members of an Allgatherv at most: rank 0 receives a message of each. More have not been measured. */
#define MEMBERS_MAX_V 16

/** Of all parts together, at most. */
#define WHOLE_BYTES_MAX 8192

#define ROOT 0

/** Does this call go by multicast? It counts, and may be the one in which the members agree. */
static int choose(mca_coll_rawe_module_t *module, struct ompi_communicator_t *comm,
                  size_t whole_bytes, bool *multicasts)
{
    const bool fits =
        ompi_comm_size(comm) >= MEMBERS_MIN && 0 != whole_bytes && whole_bytes <= WHOLE_BYTES_MAX;
    int status = fits ? mca_coll_rawe_count(module, comm) : MPI_SUCCESS;

    *multicasts =
        fits && MCA_COLL_RAWE_MULTICASTS == module->stage && whole_bytes <= module->limit_bytes;
    return status;
}

/** Where this rank's part is, which it sends in place. */
static const void *own_part(const void *receive, int before, const struct ompi_datatype_t *datatype)
{
    ptrdiff_t lower, extent;

    ompi_datatype_get_extent(datatype, &lower, &extent);
    return (const char *)receive + extent * before;
}

static int gather_all(mca_coll_rawe_module_t *module, const void *send, int send_count,
                      struct ompi_datatype_t *send_type, void *receive, int receive_count,
                      struct ompi_datatype_t *receive_type, struct ompi_communicator_t *comm)
{
    int status = module->gather(send, send_count, send_type, receive, receive_count, receive_type,
                                ROOT, comm, module->gather_module);
    return MPI_SUCCESS == status
               ? mca_coll_rawe_hosts_bcast(module, receive, receive_count * ompi_comm_size(comm),
                                           receive_type, ROOT, comm)
               : status;
}

/* A part is as long in all ranks, so all of them choose alike. */
int mca_coll_rawe_allgather(const void *send, int send_count, struct ompi_datatype_t *send_type,
                            void *receive, int receive_count, struct ompi_datatype_t *receive_type,
                            struct ompi_communicator_t *comm, mca_coll_base_module_t *base)
{
    mca_coll_rawe_module_t *module = (mca_coll_rawe_module_t *)base;
    const int self = ompi_comm_rank(comm);
    size_t type_bytes;
    bool multicasts;

    ompi_datatype_type_size(receive_type, &type_bytes);
    int status =
        choose(module, comm, type_bytes * (size_t)receive_count * (size_t)ompi_comm_size(comm),
               &multicasts);
    if (MPI_SUCCESS != status) {
        return status;
    }
    if (!multicasts) {
        return module->allgather(send, send_count, send_type, receive, receive_count, receive_type,
                                 comm, module->allgather_module);
    }
    if (MPI_IN_PLACE == send && ROOT != self) {
        send = own_part(receive, receive_count * self, receive_type);
        send_count = receive_count;
        send_type = receive_type;
    }
    return gather_all(module, send, send_count, send_type, receive, receive_count, receive_type,
                      comm);
}

/** Multicast from rank 0 what it has gathered. */
static int multicast_parts(mca_coll_rawe_module_t *module, void *receive, const int *counts,
                           const int *displacements, struct ompi_datatype_t *datatype,
                           struct ompi_communicator_t *comm)
{
    struct ompi_datatype_t *whole;
    int status =
        ompi_datatype_create_indexed(ompi_comm_size(comm), counts, displacements, datatype, &whole);
    if (OMPI_SUCCESS != status) {
        return status;
    }
    status = ompi_datatype_commit(&whole);
    if (OMPI_SUCCESS == status) {
        status = mca_coll_rawe_hosts_bcast(module, receive, 1, whole, ROOT, comm);
    }
    ompi_datatype_destroy(&whole);
    return status;
}

int mca_coll_rawe_allgatherv(const void *send, int send_count, struct ompi_datatype_t *send_type,
                             void *receive, const int *counts, const int *displacements,
                             struct ompi_datatype_t *receive_type, struct ompi_communicator_t *comm,
                             mca_coll_base_module_t *base)
{
    mca_coll_rawe_module_t *module = (mca_coll_rawe_module_t *)base;
    const int members = ompi_comm_size(comm), self = ompi_comm_rank(comm);
    size_t type_bytes, whole_bytes = 0;
    bool multicasts = false;

    ompi_datatype_type_size(receive_type, &type_bytes);
    for (int i = 0; i < members; ++i) {
        whole_bytes += type_bytes * (size_t)counts[i];
    }
    int status =
        members <= MEMBERS_MAX_V ? choose(module, comm, whole_bytes, &multicasts) : MPI_SUCCESS;
    if (MPI_SUCCESS != status) {
        return status;
    }
    if (!multicasts) {
        return module->allgatherv(send, send_count, send_type, receive, counts, displacements,
                                  receive_type, comm, module->allgatherv_module);
    }
    if (MPI_IN_PLACE == send && ROOT != self) {
        send = own_part(receive, displacements[self], receive_type);
        send_count = counts[self];
        send_type = receive_type;
    }
    status = module->gatherv(send, send_count, send_type, receive, counts, displacements,
                             receive_type, ROOT, comm, module->gatherv_module);
    return MPI_SUCCESS == status
               ? multicast_parts(module, receive, counts, displacements, receive_type, comm)
               : status;
}

/** Have `receive` reduced of what the first `ranks` contribute, if this call goes by multicast: `*done`. */
static int try_scan(mca_coll_rawe_module_t *module, const void *send, void *receive, int ranks,
                    int count, struct ompi_datatype_t *datatype, struct ompi_op_t *op,
                    struct ompi_communicator_t *comm, bool *done)
{
    _Alignas(16) char parts[WHOLE_BYTES_MAX];
    const size_t bytes = mca_coll_rawe_plain_bytes((size_t)count, datatype);
    const void *mine = MPI_IN_PLACE == send ? receive : send;

    int status = choose(module, comm, bytes * (size_t)ompi_comm_size(comm), done);
    if (MPI_SUCCESS != status || !*done) {
        return status;
    }
    status = gather_all(module, mine, count, datatype, parts, count, datatype, comm);
    if (MPI_SUCCESS == status && 0 != ranks) {
        ompi_datatype_copy_content_same_ddt(datatype, count, receive,
                                            parts + bytes * (size_t)(ranks - 1));
    }
    for (int i = ranks - 2; i >= 0 && MPI_SUCCESS == status; --i) {
        status =
            comm->c_coll->coll_reduce_local(parts + bytes * (size_t)i, receive, count, datatype, op,
                                            comm->c_coll->coll_reduce_local_module);
    }
    return status;
}

int mca_coll_rawe_scan(const void *send, void *receive, int count, struct ompi_datatype_t *datatype,
                       struct ompi_op_t *op, struct ompi_communicator_t *comm,
                       mca_coll_base_module_t *base)
{
    mca_coll_rawe_module_t *module = (mca_coll_rawe_module_t *)base;
    bool done;

    int status =
        try_scan(module, send, receive, ompi_comm_rank(comm) + 1, count, datatype, op, comm, &done);
    return MPI_SUCCESS != status || done
               ? status
               : module->scan(send, receive, count, datatype, op, comm, module->scan_module);
}

int mca_coll_rawe_exscan(const void *send, void *receive, int count,
                         struct ompi_datatype_t *datatype, struct ompi_op_t *op,
                         struct ompi_communicator_t *comm, mca_coll_base_module_t *base)
{
    mca_coll_rawe_module_t *module = (mca_coll_rawe_module_t *)base;
    bool done;

    int status =
        try_scan(module, send, receive, ompi_comm_rank(comm), count, datatype, op, comm, &done);
    return MPI_SUCCESS != status || done
               ? status
               : module->exscan(send, receive, count, datatype, op, comm, module->exscan_module);
}
