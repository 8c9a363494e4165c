/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * An MPI program for hosts whose cables are pulled: ranks r and r + n/2 exchange messages of many
 * sizes, and check every byte.
 *
 * pulled FILE            exchange until rank 0 sees this file, then end normally
 * pulled FILE BYTES      use messages of this length only
 *
 * Every tenth of a second, rank 0 prints "rounds N begun T": N rounds are complete, and no rank
 * started the last of them before T on the monotonic clock. At the end, rank 0 prints the duration
 * of its longest round.
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define MESSAGES 8
#define SAY_S 0.1

/** Message sizes, from less than a frame to a message that is PUT in several pieces. */
static const int lengths[MESSAGES] = {1, 200, 1400, 5000, 40000, 66000, 700000, 9000000};

static unsigned char *out[MESSAGES], *in[MESSAGES];

/** Return byte `i` of a message, computed from sender, round and offset. */
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

/** Exchange one round of messages with the partner. Returns its duration in seconds. */
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

/** Return the monotonic time in seconds. */
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
        /* The Allreduce separates rounds: all ranks end this round before any starts the next. */
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
