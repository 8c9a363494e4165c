/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * MPI_Allgather of little data: the component beneath gathers it in rank 0, which multicasts all of it.
 * A part is as long in all ranks, so all of them choose alike.
 */
#include "coll_rawe.h"

/** Members at least: with fewer, Open MPI's takes as few steps. */
#define MEMBERS_MIN 8

/** Of all parts together, at most. */
#define WHOLE_BYTES_MAX 8192

#define ROOT 0

int mca_coll_rawe_allgather(const void *send, int send_count, struct ompi_datatype_t *send_type,
                            void *receive, int receive_count, struct ompi_datatype_t *receive_type,
                            struct ompi_communicator_t *comm, mca_coll_base_module_t *base)
{
    mca_coll_rawe_module_t *module = (mca_coll_rawe_module_t *)base;
    const int members = ompi_comm_size(comm), self = ompi_comm_rank(comm);
    size_t type_bytes;
    ptrdiff_t lower, extent;

    ompi_datatype_type_size(receive_type, &type_bytes);
    const size_t whole_bytes = type_bytes * (size_t)receive_count * (size_t)members;
    const bool fits = members >= MEMBERS_MIN && 0 != whole_bytes && whole_bytes <= WHOLE_BYTES_MAX;
    int status = fits ? mca_coll_rawe_count(module, comm) : MPI_SUCCESS;
    if (MPI_SUCCESS != status) {
        return status;
    }
    if (!fits || MCA_COLL_RAWE_MULTICASTS != module->stage || whole_bytes > module->limit_bytes) {
        return module->allgather(send, send_count, send_type, receive, receive_count, receive_type,
                                 comm, module->allgather_module);
    }
    if (MPI_IN_PLACE == send && ROOT != self) {
        ompi_datatype_get_extent(receive_type, &lower, &extent);
        send = (const char *)receive + extent * receive_count * self;
        send_count = receive_count;
        send_type = receive_type;
    }
    status = module->gather(send, send_count, send_type, receive, receive_count, receive_type, ROOT,
                            comm, module->gather_module);
    return MPI_SUCCESS == status
               ? mca_coll_rawe_hosts_bcast(module, receive, receive_count * members, receive_type,
                                           ROOT, comm)
               : status;
}
