/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * rawe-uncalled COUNT: rank 0 sends COUNT descriptors through the BTL that the BTL owns and that
 * have no completion callback, as Open MPI 5.0 does for windows. Rank 1 counts them.
 */
#include <mpi.h>

#include "opal_config.h"

#include "ompi/communicator/communicator.h"
#include "ompi/mca/bml/bml.h"
#include "ompi/proc/proc.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MESSAGE_BYTES 1000
#define TAG MCA_BTL_TAG_USR

static int arrived;

#if BTL_VERSION >= 330
static void arrive(struct mca_btl_base_module_t *btl,
                   const mca_btl_base_receive_descriptor_t *descriptor)
{
    arrived += MESSAGE_BYTES == descriptor->des_segments[0].seg_len;
}
#else
static void arrive(struct mca_btl_base_module_t *btl, mca_btl_base_tag_t tag,
                   mca_btl_base_descriptor_t *descriptor, void *context)
{
    arrived += MESSAGE_BYTES == descriptor->des_segments[0].seg_len;
}
#endif

static void progress(void)
{
    int flag;

    MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE);
}

static void send_one(mca_bml_base_btl_t *way)
{
    mca_btl_base_module_t *btl = way->btl;
    mca_btl_base_descriptor_t *descriptor;

    while (NULL == (descriptor = btl->btl_alloc(btl, way->btl_endpoint, MCA_BTL_NO_ORDER,
                                                MESSAGE_BYTES, MCA_BTL_DES_FLAGS_BTL_OWNERSHIP))) {
        progress();
    }
    memset(descriptor->des_segments[0].seg_addr.pval, 1, MESSAGE_BYTES);
    descriptor->des_cbfunc = NULL;
    while (btl->btl_send(btl, way->btl_endpoint, descriptor, TAG) < 0) {
        progress();
    }
}

int main(int argc, char **argv)
{
    const int count = argc == 2 ? atoi(argv[1]) : 0;
    int rank;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    mca_btl_base_active_message_trigger[TAG].cbfunc = arrive;
    /* Connects the ranks, after both have set the callback. */
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0) {
        ompi_proc_t *peer = ompi_comm_peer_lookup((ompi_communicator_t *)MPI_COMM_WORLD, 1);
        mca_bml_base_endpoint_t *endpoint = peer->proc_endpoints[OMPI_PROC_ENDPOINT_TAG_BML];
        for (int i = 0; i < count; i++) {
            send_one(mca_bml_base_btl_array_get_index(&endpoint->btl_eager, 0));
        }
    } else {
        while (arrived < count) {
            progress();
        }
        printf("%d arrived\n", arrived);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Finalize();
    return 0;
}
