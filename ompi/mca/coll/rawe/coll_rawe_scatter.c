/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * MPI_Scatter of little data: one multicast has all parts, of which each leader takes its own, and
 * sends the other ranks of its host theirs. A part is as long in all ranks, so all of them choose alike.
 */
#include "coll_rawe.h"

/** Members at least: with fewer, as many frames of the root are as fast. */
#define MEMBERS_MIN 8

/** Of all parts together, at most: a frame's, at MTU 1500. Longer ones lose (doc/performance.md). */
#define WHOLE_BYTES_MAX 1468

#define TAG MCA_COLL_BASE_TAG_SCATTER

/** As leader: send the other ranks of this host, but the root, their parts, which are so far apart. */
static int pass_on(const mca_coll_rawe_hosts_t *hosts, const char *parts, ptrdiff_t stride,
                   int count, struct ompi_datatype_t *datatype, int root,
                   struct ompi_communicator_t *comm)
{
    int status = MPI_SUCCESS;

    for (int i = 1; i < hosts->here && MPI_SUCCESS == status; ++i) {
        const int to = hosts->ranks[i];
        if (to != root) {
            status = MCA_PML_CALL(send(parts + stride * to, (size_t)count, datatype, to, TAG,
                                       MCA_PML_BASE_SEND_STANDARD, comm));
        }
    }
    return status;
}

/** As root, which may be a leader: send all parts but its own. */
static int send_parts(mca_coll_rawe_module_t *module, const void *parts, ptrdiff_t stride,
                      int count, struct ompi_datatype_t *datatype, struct ompi_communicator_t *comm)
{
    const mca_coll_rawe_hosts_t *hosts = module->hosts;
    const int self = ompi_comm_rank(comm), all = count * ompi_comm_size(comm);

    if (0 != hosts->position) {
        return MCA_PML_CALL(send(parts, (size_t)all, datatype, hosts->ranks[0], TAG,
                                 MCA_PML_BASE_SEND_STANDARD, comm));
    }
    int status = mca_coll_rawe_multicast(module, (void *)parts, all, datatype, self, comm);
    return MPI_SUCCESS == status
               ? pass_on(hosts, (const char *)parts, stride, count, datatype, self, comm)
               : status;
}

/** As a leader that is not the root. */
static int lead(mca_coll_rawe_module_t *module, int part_bytes, void *receive, int count,
                struct ompi_datatype_t *datatype, int root, struct ompi_communicator_t *comm)
{
    const mca_coll_rawe_hosts_t *hosts = module->hosts;
    const int self = ompi_comm_rank(comm), sender = hosts->leaders[hosts->of[root]];
    const int whole_bytes = part_bytes * ompi_comm_size(comm);
    char whole[WHOLE_BYTES_MAX];
    int status = MPI_SUCCESS;

    if (sender == self) {
        status = MCA_PML_CALL(
            recv(whole, (size_t)whole_bytes, MPI_BYTE, root, TAG, comm, MPI_STATUS_IGNORE));
    }
    if (MPI_SUCCESS == status) {
        status = mca_coll_rawe_multicast(module, whole, whole_bytes, MPI_BYTE, sender, comm);
    }
    if (MPI_SUCCESS == status) {
        status = pass_on(hosts, whole, part_bytes, part_bytes, MPI_BYTE, root, comm);
    }
    return MPI_SUCCESS == status ? ompi_datatype_sndrcv(whole + part_bytes * self, part_bytes,
                                                        MPI_PACKED, receive, count, datatype)
                                 : status;
}

int mca_coll_rawe_scatter(const void *send, int send_count, struct ompi_datatype_t *send_type,
                          void *receive, int receive_count, struct ompi_datatype_t *receive_type,
                          int root, struct ompi_communicator_t *comm, mca_coll_base_module_t *base)
{
    mca_coll_rawe_module_t *module = (mca_coll_rawe_module_t *)base;
    const bool is_root = ompi_comm_rank(comm) == root;
    size_t type_bytes;
    ptrdiff_t lower, stride;

    ompi_datatype_type_size(is_root ? send_type : receive_type, &type_bytes);
    const size_t part_bytes = type_bytes * (size_t)(is_root ? send_count : receive_count);
    const size_t whole_bytes = part_bytes * (size_t)ompi_comm_size(comm);
    const bool fits =
        ompi_comm_size(comm) >= MEMBERS_MIN && 0 != whole_bytes && whole_bytes <= WHOLE_BYTES_MAX;
    int status = fits ? mca_coll_rawe_count(module, comm) : MPI_SUCCESS;
    if (MPI_SUCCESS != status) {
        return status;
    }
    if (!fits || MCA_COLL_RAWE_MULTICASTS != module->stage || whole_bytes > module->payload_bytes) {
        return module->scatter(send, send_count, send_type, receive, receive_count, receive_type,
                               root, comm, module->scatter_module);
    }
    if (!is_root) {
        return 0 == module->hosts->position
                   ? lead(module, (int)part_bytes, receive, receive_count, receive_type, root, comm)
                   : MCA_PML_CALL(recv(receive, (size_t)receive_count, receive_type,
                                       module->hosts->ranks[0], TAG, comm, MPI_STATUS_IGNORE));
    }
    ompi_datatype_get_extent(send_type, &lower, &stride);
    stride *= send_count;
    status = send_parts(module, send, stride, send_count, send_type, comm);
    return MPI_SUCCESS == status && MPI_IN_PLACE != receive
               ? ompi_datatype_sndrcv((const char *)send + stride * root, send_count, send_type,
                                      receive, receive_count, receive_type)
               : status;
}
