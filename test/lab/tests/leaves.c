/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * leaves: processes that finalize while messages are unmatched and requests have been freed.
 *
 * leaves COUNT BYTES [PAUSE_MS]
 *
 * Each rank sends COUNT messages of BYTES to every other rank, which receives none of them, frees
 * the requests, and finalizes; odd ranks PAUSE_MS later. MPI_Finalize has to return: what was sent
 * is nobody's then.
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    int rank, size;

    if (argc < 3) {
        fprintf(stderr, "usage: leaves COUNT BYTES [PAUSE_MS]\n");
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
    MPI_Barrier(MPI_COMM_WORLD);
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
