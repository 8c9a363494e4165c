/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * An MPI program in which ranks die and the others go on: it needs mpirun's --enable-recovery.
 *
 * survivors FILE RANK...   when there is such a file, the ranks named kill themselves; the others
 *                          exchange some rounds more, say so, and end without MPI_Finalize
 */
#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define BLOCK_BYTES 30000
#define ROUNDS 200

static unsigned char out[BLOCK_BYTES], in[BLOCK_BYTES];

/** A round of a ring of these ranks. */
static void exchange(const int *ring, int size, int place, int round)
{
    const int next = ring[(place + 1) % size], previous = ring[(place + size - 1) % size];

    memset(out, ring[place] + round, sizeof out);
    for (int length = 1; length <= BLOCK_BYTES; length += BLOCK_BYTES - 1) {
        MPI_Sendrecv(out, length, MPI_BYTE, next, 1, in, length, MPI_BYTE, previous, 1,
                     MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        for (int i = 0; i < length; i++) {
            if (in[i] != (unsigned char)(previous + round)) {
                fprintf(stderr, "rank %d round %d byte %d is wrong\n", ring[place], round, i);
                _exit(9);
            }
        }
    }
}

int main(int argc, char **argv)
{
    int rank, size, place = 0, survivors = 0;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    int *all = malloc(2 * (size_t)size * sizeof *all), *ring = all + size, dies = 0;
    for (int i = 0; i < size; i++) {
        int one_dies = 0;
        for (int k = 2; k < argc; k++) {
            one_dies = one_dies || atoi(argv[k]) == i;
        }
        if (i == rank) {
            place = survivors;
            dies = one_dies;
        }
        all[i] = i;
        ring[survivors] = i;
        survivors += !one_dies;
    }
    if (survivors < 2) {
        fprintf(stderr, "at least two ranks have to go on\n");
        MPI_Abort(MPI_COMM_WORLD, 2);
        return 2;
    }
    exchange(all, size, rank, 0);
    /* The survivors talk to each other before: none is introduced later. */
    if (!dies) {
        exchange(ring, survivors, place, 1);
    }
    printf("rank %d works\n", rank);
    fflush(stdout);
    while (access(argv[1], F_OK) != 0) {
        usleep(10000);
    }
    if (dies) {
        raise(SIGKILL);
    }
    for (int round = 0; round < ROUNDS; round++) {
        exchange(ring, survivors, place, round);
    }
    printf("rank %d went on\n", rank);
    fflush(stdout);
    /* What it sent last may be lost, and only a process that lives sends it again. */
    for (int i = 0; i < 200; i++) {
        int flag;
        MPI_Iprobe(MPI_ANY_SOURCE, 99, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE);
        usleep(10000);
    }
    _exit(0);
}
