/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * MPI_Scatter of little data: one multicast has all parts; each leader takes its own, and sends
 * those of the other ranks on its host. MPI_Allgather: the underlying component gathers the parts
 * in rank 0, which multicasts them. A part has the same length in all ranks, so all choose alike.
 */
#include "coll_rawe.h"

/** Minimum members: with fewer, a frame to each, or Open MPI's Allgather, is as fast. */
#define MEMBERS_MIN 8

/** Maximum of all parts together: one frame at MTU 1500. Longer ones lose (doc/performance.md). */
#define SCATTERED_BYTES_MAX 1468
#define GATHERED_BYTES_MAX 8192

#define TAG MCA_COLL_BASE_TAG_SCATTER

/** The root of an Allgather's Bcast. */
#define ROOT 0

/** Call mca_coll_rawe_choose according to the length of all parts together. */
static int choose(mca_coll_rawe_module_t *module, struct ompi_communicator_t *comm,
                  size_t whole_bytes, size_t most_bytes, bool *multicasts)
{
    return mca_coll_rawe_choose(module, comm,
                                ompi_comm_size(comm) >= MEMBERS_MIN && 0 != whole_bytes &&
                                    whole_bytes <= most_bytes,
                                multicasts);
}

/** As leader, take part in the multicast of all parts; send the host's other ranks theirs. */
static int lead(mca_coll_rawe_module_t *module, char *whole, int part_bytes, int root,
                struct ompi_communicator_t *comm)
{
    const mca_coll_rawe_hosts_t *hosts = module->hosts;
    const int self = ompi_comm_rank(comm), sender = hosts->leaders[hosts->of[root]];
    const int whole_bytes = part_bytes * ompi_comm_size(comm);
    int status = MPI_SUCCESS;

    if (sender == self && root != self) {
        status = MCA_PML_CALL(
            recv(whole, (size_t)whole_bytes, MPI_BYTE, root, TAG, comm, MPI_STATUS_IGNORE));
    }
    if (MPI_SUCCESS == status) {
        status = mca_coll_rawe_multicast(module, whole, whole_bytes, MPI_BYTE, sender, comm);
    }
    for (int i = 1; i < hosts->here && MPI_SUCCESS == status; ++i) {
        const int to = hosts->ranks[i];
        if (to != root) {
            status = MCA_PML_CALL(send(whole + part_bytes * to, (size_t)part_bytes, MPI_BYTE, to,
                                       TAG, MCA_PML_BASE_SEND_STANDARD, comm));
        }
    }
    return status;
}

int mca_coll_rawe_scatter(const void *send, int send_count, struct ompi_datatype_t *send_type,
                          void *receive, int receive_count, struct ompi_datatype_t *receive_type,
                          int root, struct ompi_communicator_t *comm, mca_coll_base_module_t *base)
{
    mca_coll_rawe_module_t *module = (mca_coll_rawe_module_t *)base;
    const int self = ompi_comm_rank(comm), members = ompi_comm_size(comm);
    char whole[SCATTERED_BYTES_MAX];
    size_t type_bytes;

    ompi_datatype_type_size(self == root ? send_type : receive_type, &type_bytes);
    const size_t part_bytes = type_bytes * (size_t)(self == root ? send_count : receive_count);
    const size_t whole_bytes = part_bytes * (size_t)members;
    bool multicasts;
    int status = choose(module, comm, whole_bytes, SCATTERED_BYTES_MAX, &multicasts);
    if (MPI_SUCCESS != status) {
        return status;
    }
    if (!multicasts || whole_bytes > module->payload_bytes) {
        return module->scatter(send, send_count, send_type, receive, receive_count, receive_type,
                               root, comm, module->scatter_module);
    }
    const bool leads = 0 == module->hosts->position;
    const int leader = module->hosts->ranks[0];
    if (self == root) {
        status = ompi_datatype_sndrcv(send, send_count * members, send_type, whole,
                                      (int)whole_bytes, MPI_PACKED);
    } else if (!leads) {
        return MCA_PML_CALL(recv(receive, (size_t)receive_count, receive_type, leader, TAG, comm,
                                 MPI_STATUS_IGNORE));
    }
    if (MPI_SUCCESS == status) {
        status = leads ? lead(module, whole, (int)part_bytes, root, comm)
                       : MCA_PML_CALL(send(whole, whole_bytes, MPI_BYTE, leader, TAG,
                                           MCA_PML_BASE_SEND_STANDARD, comm));
    }
    return MPI_SUCCESS == status && MPI_IN_PLACE != receive
               ? ompi_datatype_sndrcv(whole + part_bytes * (size_t)self, (int)part_bytes,
                                      MPI_PACKED, receive, receive_count, receive_type)
               : status;
}

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
    bool multicasts;
    int status = choose(module, comm, whole_bytes, GATHERED_BYTES_MAX, &multicasts);
    if (MPI_SUCCESS != status) {
        return status;
    }
    if (!multicasts || whole_bytes > module->limit_bytes) {
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
    return MPI_SUCCESS == status ? mca_coll_rawe_to_all(module, receive, receive_count * members,
                                                        receive_type, ROOT, comm)
                                 : status;
}
