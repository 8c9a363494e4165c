/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * rawe-watch: uses Open MPI's interfaces below MPI, on two ranks.
 *
 * rawe-watch dump N FILE   rank 1 stays outside MPI while N messages from rank 0 are in flight and
 *                          rank 0 has the PML dump its state. Rank 0 then creates FILE, which both
 *                          must see, to call rank 1 back. When all messages have been received,
 *                          both ranks dump the state
 * rawe-watch uncalled N    rank 0 sends N descriptors that the BTL owns and that have no completion
 *                          callback, as Open MPI 5.0 does for windows. Rank 1 counts them
 */
#include <mpi.h>

#include "opal_config.h"

#include "ompi/communicator/communicator.h"
#include "ompi/mca/bml/bml.h"
#include "ompi/mca/pml/pml.h"
#include "ompi/proc/proc.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MESSAGE_BYTES 1000
#define TAG MCA_BTL_TAG_USR

/** Rank 1 stays outside MPI for at least this time, which is many round trips. */
#define AWAY_US 200000

static int rank, size;
static const char *path;

static void fail(const char *what)
{
    fprintf(stderr, "rawe-watch: rank %d: %s failed\n", rank, what);
    MPI_Abort(MPI_COMM_WORLD, 2);
}

static void call_back(void)
{
    FILE *file = fopen(path, "w");

    if (file == NULL || fclose(file) != 0) {
        fail("making the file");
    }
}

static void stay_away(void)
{
    while (access(path, F_OK) != 0) {
        usleep(1000);
    }
}

static void send_all(int count)
{
    static char block[MESSAGE_BYTES];

    for (int i = 0; i < count; i++) {
        MPI_Send(block, MESSAGE_BYTES, MPI_BYTE, 1, 1, MPI_COMM_WORLD);
    }
}

static void receive_all(int from, int count)
{
    static char block[MESSAGE_BYTES];

    for (int i = 0; i < count; i++) {
        MPI_Recv(block, MESSAGE_BYTES, MPI_BYTE, from, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
}

/**
 * Have the PML and its BTLs dump the state of all peers to FILE.dump.RANK, between two marks. The
 * mpirun of 4.1.4 would lose part of that much output.
 */
static void dump(const char *mark)
{
    char name[4096];

    snprintf(name, sizeof name, "%s.dump.%d", path, rank);
    const int file = open(name, O_WRONLY | O_CREAT | O_APPEND, 0644), before = dup(STDERR_FILENO);
    if (file < 0 || before < 0 || dup2(file, STDERR_FILENO) < 0) {
        fail("opening the file for the dump");
        return;
    }
    fprintf(stderr, "begin of %s\n", mark);
    mca_pml.pml_dump((struct ompi_communicator_t *)MPI_COMM_WORLD, 1);
    fprintf(stderr, "end of %s\n", mark);
    (void)dup2(before, STDERR_FILENO);
    close(before);
    close(file);
}

static void watch_dump(int count)
{
    MPI_Barrier(MPI_COMM_WORLD); /* connects both ranks */
    if (rank == 0) {
        send_all(count);
        dump("dump while the peer is away");
        usleep(AWAY_US);
        call_back();
        receive_all(1, 1);
    } else if (rank == 1) {
        static char block[MESSAGE_BYTES];
        stay_away();
        receive_all(0, count);
        MPI_Send(block, MESSAGE_BYTES, MPI_BYTE, 0, 1, MPI_COMM_WORLD);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    dump("dump after all");
    MPI_Barrier(MPI_COMM_WORLD); /* keep connections open until here */
}

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

/** Send (rank 0) or count (rank 1) descriptors without a callback. */
static void watch_uncalled(int count)
{
    mca_btl_base_active_message_trigger[TAG].cbfunc = arrive;
    /* Connect the ranks. Both have set their callbacks. */
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
}

int main(int argc, char **argv)
{
    const int dumps = argc == 4 && strcmp(argv[1], "dump") == 0;
    const int count = argc > 2 ? atoi(argv[2]) : 0;

    path = dumps ? argv[3] : "";
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (count <= 0 || size < 2) {
        fail("reading the arguments (two ranks and: dump NUMBER FILE, or uncalled NUMBER)");
    }
    if (dumps) {
        watch_dump(count);
    } else {
        watch_uncalled(count);
    }
    MPI_Finalize();
    return 0;
}
