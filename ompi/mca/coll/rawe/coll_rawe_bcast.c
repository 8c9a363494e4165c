/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * MPI_Bcast. All members make the same calls in the same order, and know the root of each: so the
 * next message of a root is the one of its next call, and needs no number.
 */
#include "coll_rawe.h"

#include <stdlib.h>
#include <time.h>

/** A group costs its members about as much as this many calls: it has to be worth that. */
#define COUNTED 8u

/** Rounds of progress between two readings of the clock. */
#define ROUNDS_PER_CLOCK_READ 1024u

uint64_t mca_coll_rawe_now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

bool mca_coll_rawe_wait(const struct mca_btl_rawe_transfer *transfer, uint64_t deadline_ns)
{
    for (unsigned round = 1; MCA_BTL_RAWE_TRANSFER_WAITS ==
                             atomic_load_explicit(&transfer->state, memory_order_acquire);
         ++round) {
        opal_progress();
        if (0 == round % ROUNDS_PER_CLOCK_READ && mca_coll_rawe_now_ns() > deadline_ns) {
            return false;
        }
    }
    return true;
}

/** Other members leave the group after the same message, too. */
static void end_group(mca_coll_rawe_module_t *module, struct ompi_communicator_t *comm)
{
    MCA_COLL_RAWE_SAY(comm, "a member hears no multicast any more");
    module->offer->close(module->group, true);
    module->group = NULL;
    module->ended = true;
    if (module->hosts->count == ompi_comm_size(comm)) {
        module->stage = MCA_COLL_RAWE_PASSES; /* all members know */
    }
}

/** Pack the caller's buffer into `packed`, or the other way. */
static int convert(void *packed, opal_convertor_t *convertor, size_t len_bytes, bool pack)
{
    struct iovec iov = {.iov_base = packed, .iov_len = len_bytes};
    uint32_t pieces = 1;
    size_t bytes = len_bytes;

    (void)(pack ? opal_convertor_pack(convertor, &iov, &pieces, &bytes)
                : opal_convertor_unpack(convertor, &iov, &pieces, &bytes));
    return bytes == len_bytes ? MPI_SUCCESS : MPI_ERR_TRUNCATE;
}

/** Send a message that lies in one piece, or receive it there. */
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

/** The same of one with gaps, through memory in one piece. */
static int transfer_packed(mca_coll_rawe_module_t *module, opal_convertor_t *convertor,
                           size_t len_bytes, int root, struct ompi_communicator_t *comm)
{
    bool is_root = ompi_comm_rank(comm) == root;
    void *packed = malloc(len_bytes);
    int status = NULL == packed ? OMPI_ERR_OUT_OF_RESOURCE : MPI_SUCCESS;

    if (MPI_SUCCESS == status && is_root) {
        status = convert(packed, convertor, len_bytes, true);
    }
    if (MPI_SUCCESS == status) {
        status = transfer(module, packed, len_bytes, root, comm);
    }
    if (MPI_SUCCESS == status && !is_root) {
        status = convert(packed, convertor, len_bytes, false);
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
        return mca_coll_rawe_hosts_pass(module->hosts, buffer, count, datatype, root, comm);
    }
    ompi_datatype_type_size(datatype, &type_bytes);
    const size_t len_bytes = type_bytes * (size_t)count;
    OBJ_CONSTRUCT(&convertor, opal_convertor_t);
    int status =
        ompi_comm_rank(comm) == root
            ? opal_convertor_copy_and_prepare_for_send(ompi_mpi_local_convertor, &datatype->super,
                                                       (size_t)count, buffer, 0, &convertor)
            : opal_convertor_copy_and_prepare_for_recv(ompi_mpi_local_convertor, &datatype->super,
                                                       (size_t)count, buffer, 0, &convertor);
    if (OPAL_SUCCESS == status) {
        void *data;
        opal_convertor_get_current_pointer(&convertor, &data);
        status = mca_btl_rawe_compat_must_pack(&convertor)
                     ? transfer_packed(module, &convertor, len_bytes, root, comm)
                     : transfer(module, data, len_bytes, root, comm);
    }
    OBJ_DESTRUCT(&convertor);
    return status;
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
               ? mca_coll_rawe_hosts_bcast(module, buffer, count, datatype, root, comm)
               : module->bcast(buffer, count, datatype, root, comm, module->bcast_module);
}
