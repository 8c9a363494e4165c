/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * An MPI program for hosts whose cables are pulled: pairs of ranks, of the first and the second half,
 * exchange messages of all sizes in both directions, and look at every byte.
 *
 * pulled FILE            until there is a file of this name where rank 0 is, then a regular end
 * pulled FILE BYTES      the same with messages of this length only
 *
 * Rank 0 says every tenth of a second "rounds N begun T": what all ranks have exchanged in the last of
 * N rounds none of them had begun before T, by the machine's monotonic clock. At the end it says how
 * long its longest round took.
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define MESSAGES 8
#define SAY_S 0.1

/** From less than a frame to what is PUT in several pieces. */
static const int lengths[MESSAGES] = {1, 200, 1400, 5000, 40000, 66000, 700000, 9000000};

static unsigned char *out[MESSAGES], *in[MESSAGES];

/** Byte `i` of a message depends on its sender, round and place. */
static unsigned char byte_of(int rank, long round, int message, int i)
{
    return (unsigned char)(i * 31 + i / 4096 + rank * 7 + message * 13 + (int)round * 101);
}

static void fill(unsigned char *data, int rank, long round, int message, int bytes)
{
    for (int i = 0; i < bytes; i++) {
        data[i] = byte_of(rank, round, message, i);
    }
}

static void check(const unsigned char *data, int rank, long round, int message, int bytes)
{
    for (int i = 0; i < bytes; i++) {
        if (data[i] != byte_of(rank, round, message, i)) {
            fprintf(stderr, "round %ld message %d byte %d from rank %d is wrong\n", round, message,
                    i, rank);
            MPI_Abort(MPI_COMM_WORLD, 9);
        }
    }
}

/** Exchange everything with the partner; the time that took. */
static double exchange(int rank, int partner, long round, const int *bytes)
{
    MPI_Request requests[2 * MESSAGES];
    for (int i = 0; i < MESSAGES; i++) {
        fill(out[i], rank, round, i, bytes[i]);
        memset(in[i], 0xEE, (size_t)bytes[i]);
    }
    double begin = MPI_Wtime();
    for (int i = 0; i < MESSAGES; i++) {
        MPI_Irecv(in[i], bytes[i], MPI_BYTE, partner, i, MPI_COMM_WORLD, &requests[i]);
    }
    for (int i = 0; i < MESSAGES; i++) {
        MPI_Isend(out[i], bytes[i], MPI_BYTE, partner, i, MPI_COMM_WORLD, &requests[MESSAGES + i]);
    }
    MPI_Waitall(2 * MESSAGES, requests, MPI_STATUSES_IGNORE);
    double took = MPI_Wtime() - begin;
    for (int i = 0; i < MESSAGES; i++) {
        check(in[i], partner, round, i, bytes[i]);
    }
    return took;
}

/** Seconds on the machine's clock. */
static double now(void)
{
    struct timespec time;

    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

int main(int argc, char **argv)
{
    int rank, size, done = 0, bytes[MESSAGES];
    double longest = 0, said = 0, begun;
    long round = 0;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    for (int i = 0; i < MESSAGES; i++) {
        bytes[i] = argc > 2 ? atoi(argv[2]) : lengths[i];
        out[i] = malloc((size_t)bytes[i]);
        in[i] = malloc((size_t)bytes[i]);
    }
    const int partner = (rank + size / 2) % size;
    begun = now();
    MPI_Barrier(MPI_COMM_WORLD);
    for (; !done; round++) {
        double took = exchange(rank, partner, round, bytes);
        if (round != 0 && took > longest) {
            longest = took;
        }
        /* All have ended this round then, and none has begun the next before. */
        const double ended = now();
        done = rank == 0 && access(argv[1], F_OK) == 0;
        MPI_Allreduce(MPI_IN_PLACE, &done, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
        if (rank == 0 && ended - said > SAY_S) {
            said = ended;
            printf("rounds %ld begun %.6f\n", round + 1, begun);
            fflush(stdout);
        }
        begun = ended;
    }
    if (rank == 0) {
        printf("longest round %.1f ms of %ld\n", longest * 1000, round);
    }
    MPI_Finalize();
    return 0;
}
