/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * leaves: processes call MPI_Finalize with unmatched messages and freed requests.
 *
 * leaves COUNT BYTES [PAUSE_MS [receives] [window] [when FILE]]
 *
 * Each rank sends COUNT messages of BYTES to every other rank, which receives none of them, frees
 * the requests, and finalizes; odd ranks do so PAUSE_MS later. With `receives`, each rank also
 * posts COUNT receives that never match. With `window`, it leaves a window within an epoch, after a
 * put. With `when`, it sends once FILE exists. MPI_Finalize must return, although no rank receives.
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/** Return the index of `word` among the arguments after the numbers, or 0 if it is absent. */
static int named(int argc, char **argv, const char *word)
{
    for (int i = 4; i < argc; i++) {
        if (strcmp(argv[i], word) == 0) {
            return i;
        }
    }
    return 0;
}

static void leave_receives(int count, int size)
{
    static char nowhere[8];

    for (int i = 0; i < count; i++) {
        MPI_Request request;
        MPI_Irecv(nowhere, sizeof(nowhere), MPI_BYTE, i % size, 32767, MPI_COMM_WORLD, &request);
        MPI_Request_free(&request);
    }
}

static void leave_window(const unsigned char *buffer, int bytes, int rank, int size)
{
    MPI_Win window;
    /* Open MPI would free a window of its own in MPI_Finalize while puts are still in flight. */
    void *memory = malloc((size_t)bytes + 1);

    MPI_Win_create(memory, bytes + 1, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &window);
    MPI_Win_fence(0, window);
    MPI_Put(buffer, bytes, MPI_BYTE, (rank + 1) % size, 0, bytes, MPI_BYTE, window);
}

int main(int argc, char **argv)
{
    int rank, size;

    if (argc < 3) {
        fprintf(stderr, "usage: leaves COUNT BYTES [PAUSE_MS [receives] [window] [when FILE]]\n");
        return 2;
    }
    const int count = atoi(argv[1]);
    const int bytes = atoi(argv[2]);
    const int pause_ms = argc > 3 ? atoi(argv[3]) : 0;
    unsigned char *buffer = malloc((size_t)bytes + 1);

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    memset(buffer, rank, (size_t)bytes + 1);
    if (named(argc, argv, "window")) {
        leave_window(buffer, bytes, rank, size);
    }
    if (named(argc, argv, "receives")) {
        leave_receives(count, size);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    if (named(argc, argv, "when")) {
        printf("rank %d waits\n", rank);
        fflush(stdout);
        while (access(argv[named(argc, argv, "when") + 1], F_OK) != 0) {
            usleep(1000);
        }
    }
    for (int i = 0; i < count; i++) {
        for (int peer = 0; peer < size; peer++) {
            MPI_Request request;
            if (peer != rank) {
                MPI_Isend(buffer, bytes, MPI_BYTE, peer, i, MPI_COMM_WORLD, &request);
                MPI_Request_free(&request);
            }
        }
    }
    if (rank % 2 == 1) {
        usleep((useconds_t)pause_ms * 1000);
    }
    MPI_Finalize();
    printf("rank %d left\n", rank);
    return 0;
}
