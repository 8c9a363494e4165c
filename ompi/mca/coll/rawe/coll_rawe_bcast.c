/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * MPI_Bcast. All members make the same calls in the same order, and know the root of each, so a
 * root's next message belongs to its next call, and needs no number.
 */
#include "coll_rawe.h"

#include <stdlib.h>

/** Calls before a group is formed, because it costs its members about as much as these. */
#define COUNTED 8u

/** Leave the group. The other members leave it after the same message. */
static void end_group(mca_coll_rawe_module_t *module, struct ompi_communicator_t *comm)
{
    MCA_COLL_RAWE_SAY(comm, "a member hears no multicast any more");
    module->offer->close(module->group, true);
    module->group = NULL;
    module->ended = true;
    mca_coll_rawe_forget_network();
    if (module->hosts->count == ompi_comm_size(comm)) {
        module->stage = MCA_COLL_RAWE_PASSES; /* all members know */
    }
}

/** Send or receive a contiguous message. */
static int transfer(mca_coll_rawe_module_t *module, void *data, size_t len_bytes, int root,
                    struct ompi_communicator_t *comm)
{
    const struct mca_btl_rawe_offer *offer = module->offer;
    struct mca_btl_rawe_transfer message = {
        .data = data,
        .len_bytes = len_bytes,
        .batches = module->batches && len_bytes > module->payload_bytes,
    };

    if (ompi_comm_rank(comm) != root) {
        offer->expect(module->group, (uint32_t)module->hosts->of[root], &message);
    } else if (!offer->send(module->group, &message)) {
        return OMPI_ERR_OUT_OF_RESOURCE;
    }
    (void)mca_coll_rawe_wait(&message, UINT64_MAX);
    if (message.last) {
        end_group(module, comm);
    }
    return MCA_BTL_RAWE_TRANSFER_DONE == atomic_load(&message.state) ? MPI_SUCCESS
                                                                     : MPI_ERR_TRUNCATE;
}

/** Send or receive a message with gaps, or on a device, through contiguous memory. */
static int transfer_packed(mca_coll_rawe_module_t *module, void *buffer, int count,
                           struct ompi_datatype_t *datatype, size_t len_bytes, int root,
                           struct ompi_communicator_t *comm)
{
    const bool is_root = ompi_comm_rank(comm) == root;
    const int packed_bytes = (int)len_bytes;
    void *packed = malloc(len_bytes);
    int status = NULL == packed ? OMPI_ERR_OUT_OF_RESOURCE : MPI_SUCCESS;

    if (MPI_SUCCESS == status && is_root) {
        status = ompi_datatype_sndrcv(buffer, count, datatype, packed, packed_bytes, MPI_PACKED);
    }
    if (MPI_SUCCESS == status) {
        status = transfer(module, packed, len_bytes, root, comm);
    }
    if (MPI_SUCCESS == status && !is_root) {
        status = ompi_datatype_sndrcv(packed, packed_bytes, MPI_PACKED, buffer, count, datatype);
    }
    free(packed);
    return status;
}

int mca_coll_rawe_choose(mca_coll_rawe_module_t *module, struct ompi_communicator_t *comm,
                         bool could, bool *multicasts)
{
    bool agrees = could && MCA_COLL_RAWE_COUNTS == module->stage && ++module->counted == COUNTED;
    int status = agrees ? mca_coll_rawe_agree(module, comm) : MPI_SUCCESS;

    *multicasts = could && MCA_COLL_RAWE_MULTICASTS == module->stage;
    return status;
}

int mca_coll_rawe_multicast(mca_coll_rawe_module_t *module, void *buffer, int count,
                            struct ompi_datatype_t *datatype, int root,
                            struct ompi_communicator_t *comm)
{
    opal_convertor_t convertor;
    size_t type_bytes;

    if (module->ended) {
        const mca_coll_rawe_tree_t leaders = mca_coll_rawe_hosts_leaders(module->hosts, root);
        int passed = mca_coll_rawe_tree_receive(&leaders, buffer, count, datatype, comm);
        return MPI_SUCCESS == passed
                   ? mca_coll_rawe_tree_send(&leaders, buffer, count, datatype, comm)
                   : passed;
    }
    ompi_datatype_type_size(datatype, &type_bytes);
    const size_t len_bytes = type_bytes * (size_t)count;
    OBJ_CONSTRUCT(&convertor, opal_convertor_t);
    int status = opal_convertor_copy_and_prepare_for_recv(
        ompi_mpi_local_convertor, &datatype->super, (size_t)count, buffer, 0, &convertor);
    if (OPAL_SUCCESS == status) {
        void *data;
        opal_convertor_get_current_pointer(&convertor, &data);
        status = mca_btl_rawe_compat_must_pack(&convertor)
                     ? transfer_packed(module, buffer, count, datatype, len_bytes, root, comm)
                     : transfer(module, data, len_bytes, root, comm);
    }
    OBJ_DESTRUCT(&convertor);
    return status;
}

int mca_coll_rawe_to_all(mca_coll_rawe_module_t *module, void *buffer, int count,
                         struct ompi_datatype_t *datatype, int rank,
                         struct ompi_communicator_t *comm)
{
    const mca_coll_rawe_hosts_t *hosts = module->hosts;
    const mca_coll_rawe_tree_t here = mca_coll_rawe_hosts_here(hosts, rank);

    int status = mca_coll_rawe_tree_receive(&here, buffer, count, datatype, comm);
    if (MPI_SUCCESS == status && 0 == hosts->position) {
        status = mca_coll_rawe_multicast(module, buffer, count, datatype,
                                         hosts->leaders[hosts->of[rank]], comm);
    }
    return MPI_SUCCESS == status ? mca_coll_rawe_tree_send(&here, buffer, count, datatype, comm)
                                 : status;
}

int mca_coll_rawe_bcast(void *buffer, int count, struct ompi_datatype_t *datatype, int root,
                        struct ompi_communicator_t *comm, mca_coll_base_module_t *base)
{
    mca_coll_rawe_module_t *module = (mca_coll_rawe_module_t *)base;
    size_t type_bytes;

    ompi_datatype_type_size(datatype, &type_bytes);
    const size_t len_bytes = type_bytes * (size_t)count;
    bool multicasts;
    int status = mca_coll_rawe_choose(module, comm, true, &multicasts);
    if (MPI_SUCCESS != status) {
        return status;
    }
    return multicasts && 0 != len_bytes && len_bytes <= module->limit_bytes
               ? mca_coll_rawe_to_all(module, buffer, count, datatype, root, comm)
               : module->bcast(buffer, count, datatype, root, comm, module->bcast_module);
}
