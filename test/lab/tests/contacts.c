/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * contacts FILE RANK: rank 0 sends a long message to each other rank in turn, and has it back: their
 * first contact. Before it turns to RANK it says so, and waits until there is FILE.
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define BYTES 300000

static unsigned char data[BYTES];

/** Send the message to `peer`, and compare what comes back. */
static void contact(int peer)
{
    memset(data, peer, BYTES);
    MPI_Send(data, BYTES, MPI_BYTE, peer, 1, MPI_COMM_WORLD);
    memset(data, 0, BYTES);
    MPI_Recv(data, BYTES, MPI_BYTE, peer, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    for (int i = 0; i < BYTES; i++) {
        if (data[i] != (unsigned char)(peer + 1)) {
            fprintf(stderr, "byte %d of rank %d is wrong\n", i, peer);
            MPI_Abort(MPI_COMM_WORLD, 9);
        }
    }
}

/** Wait for rank 0's message, and send it back, each byte greater by one. */
static void answer(void)
{
    MPI_Recv(data, BYTES, MPI_BYTE, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    for (int i = 0; i < BYTES; i++) {
        data[i]++;
    }
    MPI_Send(data, BYTES, MPI_BYTE, 0, 1, MPI_COMM_WORLD);
}

int main(int argc, char **argv)
{
    int rank, size;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    const int before = atoi(argv[2]);

    printf("rank %d pid %d ready\n", rank, (int)getpid());
    fflush(stdout);
    for (int peer = 1; rank == 0 && peer < size; peer++) {
        if (peer == before) {
            printf("next is rank %d\n", peer);
            fflush(stdout);
            while (access(argv[1], F_OK) != 0) {
                usleep(10000);
            }
        }
        contact(peer);
    }
    if (rank != 0) {
        answer();
    }
    MPI_Finalize();
    return 0;
}
