/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * An MPI program for bad days: says that it works, then exchanges messages until it is ended.
 *
 * endless            rounds of a ring forever
 * endless abort      the last rank calls MPI_Abort(7) in the middle
 * endless rounds N   N rounds, then a regular end; -1 is forever
 * endless rounds N SALT   the same with other contents: those of another SALT are noticed
 * endless until FILE      until there is a file of this name where rank 0 is, then a regular end
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define BLOCK_BYTES 20000
#define ROUNDS_BEFORE_ABORT 50
#define ROUNDS_BETWEEN_LOOKS 100

/** Whether rank 0 sees the file; every rank gets the same answer. */
static int is_there(const char *file, int rank)
{
    int there = rank == 0 && access(file, F_OK) == 0;
    MPI_Bcast(&there, 1, MPI_INT, 0, MPI_COMM_WORLD);
    return there;
}

int main(int argc, char **argv)
{
    static unsigned char out[BLOCK_BYTES], in[BLOCK_BYTES];
    int rank, size;
    const int aborts = argc > 1 && strcmp(argv[1], "abort") == 0;
    const long rounds = argc > 2 && strcmp(argv[1], "rounds") == 0 ? atol(argv[2]) : -1;
    const char *end_file = argc > 2 && strcmp(argv[1], "until") == 0 ? argv[2] : NULL;
    const int salt = argc > 3 ? atoi(argv[3]) : 0;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    const int next = (rank + 1) % size;
    const int previous = (rank + size - 1) % size;

    for (long round = 0; round != rounds; round++) {
        memset(out, (int)(rank + round + salt), sizeof out);
        MPI_Sendrecv(out, BLOCK_BYTES, MPI_BYTE, next, 1, in, BLOCK_BYTES, MPI_BYTE, previous, 1,
                     MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        for (int i = 0; i < BLOCK_BYTES; i++) {
            if (in[i] != (unsigned char)(previous + round + salt)) {
                fprintf(stderr, "rank %d round %ld byte %d is wrong\n", rank, round, i);
                MPI_Abort(MPI_COMM_WORLD, 9);
            }
        }
        if (round == 0) {
            /* The tests wait for this line: from here on the ranks have talked to each other. */
            printf("rank %d pid %d works\n", rank, (int)getpid());
            fflush(stdout);
        }
        if (aborts && round == ROUNDS_BEFORE_ABORT && rank == size - 1) {
            MPI_Abort(MPI_COMM_WORLD, 7);
        }
        if (end_file != NULL && round % ROUNDS_BETWEEN_LOOKS == 0 && is_there(end_file, rank)) {
            break;
        }
    }
    MPI_Finalize();
    return 0;
}
