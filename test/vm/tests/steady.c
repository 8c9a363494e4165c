/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * steady FILE: exchanges messages of many lengths, checks every byte, and prints each round, until
 * rank 0 sees FILE; then it ends regularly.
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define BYTES_MOST (512 << 10)

static const int lengths[] = {1, 100, 1400, 8000, 20000, 65536, 200000, BYTES_MOST};
#define LENGTHS ((int)(sizeof lengths / sizeof lengths[0]))

/** Return the byte at an offset of a message, which depends on the rank and the round. */
static unsigned char content(int rank, int round, int place)
{
    return (unsigned char)(place * 7 + (place >> 8) + round * 31 + rank * 101);
}

int main(int argc, char **argv)
{
    static unsigned char out[LENGTHS][BYTES_MOST], in[LENGTHS][BYTES_MOST];
    MPI_Request requests[2 * LENGTHS];
    int rank, size, ended = 0;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    const int next = (rank + 1) % size;
    const int previous = (rank + size - 1) % size;

    for (int round = 1; !ended; round++) {
        for (int m = 0; m < LENGTHS; m++) {
            for (int i = 0; i < lengths[m]; i++) {
                out[m][i] = content(rank, round + m, i);
            }
            MPI_Irecv(in[m], lengths[m], MPI_BYTE, previous, m, MPI_COMM_WORLD, &requests[2 * m]);
            MPI_Isend(out[m], lengths[m], MPI_BYTE, next, m, MPI_COMM_WORLD, &requests[2 * m + 1]);
        }
        MPI_Waitall(2 * LENGTHS, requests, MPI_STATUSES_IGNORE);
        for (int m = 0; m < LENGTHS; m++) {
            for (int i = 0; i < lengths[m]; i++) {
                if (in[m][i] != content(previous, round + m, i)) {
                    fprintf(stderr, "rank %d round %d length %d byte %d is wrong\n", rank, round,
                            lengths[m], i);
                    MPI_Abort(MPI_COMM_WORLD, 9);
                }
            }
        }
        ended = rank == 0 && argc > 1 && access(argv[1], F_OK) == 0;
        MPI_Bcast(&ended, 1, MPI_INT, 0, MPI_COMM_WORLD);
        if (rank == 0) {
            printf("round %d\n", round);
            fflush(stdout);
        }
    }
    MPI_Finalize();
    return 0;
}
