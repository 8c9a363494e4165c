/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * overlap: does a message move while a rank computes?
 *
 * overlap WHAT BYTES SECONDS
 *
 * sender, receiver, both: rank 0 sends a message to rank 1 without blocking. Meanwhile WHAT
 * computes for COMPUTE_S, then waits. The result is the time of the message on the rank that does
 * not compute or, if both do, the time that rank 1 waits after its computation.
 *
 * bcast, alltoall, allreduce: both ranks start the nonblocking collective, compute for as long as
 * it takes alone, then wait. The result is the overlap as IMB-NBC defines it: (alone + computing -
 * together) / min(alone, computing), with the time of the last rank in each round.
 *
 * Blocks of ten rounds with and without computing alternate.
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const double COMPUTE_S = 0.04;

enum {
    SENDER,
    RECEIVER,
    BOTH,
    BCAST,
    ALLTOALL,
    ALLREDUCE,
    KINDS,
    BLOCK = 10,
    ROUNDS_MAX = 100 * BLOCK
};

static const char *const names[KINDS] = {"sender", "receiver", "both",
                                         "bcast",  "alltoall", "allreduce"};

static void compute(double seconds)
{
    double end = MPI_Wtime() + seconds;

    while (MPI_Wtime() < end) {
    }
}

/* Start an operation. `to` and `from` have room for two messages. */
static MPI_Request start(int kind, int rank, char *to, char *from, int bytes)
{
    MPI_Comm world = MPI_COMM_WORLD;
    MPI_Request request;

    if (kind == BCAST) {
        MPI_Ibcast(to, bytes, MPI_BYTE, 0, world, &request);
    } else if (kind == ALLTOALL) {
        MPI_Ialltoall(from, bytes, MPI_BYTE, to, bytes, MPI_BYTE, world, &request);
    } else if (kind == ALLREDUCE) {
        MPI_Iallreduce(from, to, bytes / (int)sizeof(float), MPI_FLOAT, MPI_SUM, world, &request);
    } else if (rank == 0) {
        MPI_Isend(from, bytes, MPI_BYTE, 1, 0, world, &request);
    } else {
        MPI_Irecv(to, bytes, MPI_BYTE, 0, 0, world, &request);
    }
    return request;
}

/* Return the seconds of one round; of a collective, those of the last rank. */
static double round_of(int kind, int rank, double compute_s, char *to, char *from, int bytes)
{
    MPI_Barrier(MPI_COMM_WORLD);
    double begin = MPI_Wtime();
    MPI_Request request = start(kind, rank, to, from, bytes);
    if (compute_s > 0) {
        compute(compute_s);
    }
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    double mine = MPI_Wtime() - begin, longest = mine;
    if (kind >= BCAST) {
        MPI_Allreduce(&mine, &longest, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    }
    return longest;
}

static int by_value(const void *a, const void *b)
{
    double left = *(const double *)a, right = *(const double *)b;

    return (left > right) - (left < right);
}

static double median(double *times, int rounds)
{
    qsort(times, (size_t)rounds, sizeof(double), by_value);
    return times[rounds / 2];
}

int main(int argc, char **argv)
{
    static double times[2][ROUNDS_MAX];
    int rank, size, kind = 0, rounds = 0, go = 1;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    int bytes = argc > 2 ? atoi(argv[2]) : 0;
    while (argc > 1 && kind < KINDS && strcmp(argv[1], names[kind]) != 0) {
        kind++;
    }
    if (argc != 4 || size != 2 || kind == KINDS || bytes < 1) {
        fprintf(stderr, "usage: mpirun -np 2 overlap "
                        "sender|receiver|both|bcast|alltoall|allreduce BYTES SECONDS\n");
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    char *to = calloc(2, (size_t)bytes), *from = calloc(2, (size_t)bytes);
    int judge = kind == RECEIVER ? 0 : 1;
    int computes = kind >= BOTH || rank == kind;
    double compute_s = COMPUTE_S;
    for (int i = 0; i < 20; i++) {
        times[0][i] = round_of(kind, rank, 0, to, from, bytes); /* open connections */
    }
    if (kind >= BCAST) {
        compute_s = median(times[0], 20); /* equal on both ranks */
    }
    double end = MPI_Wtime() + atof(argv[3]);
    while (go) {
        for (int computing = 0; computing < 2; computing++) {
            double pause_s = computing && computes ? compute_s : 0;
            for (int i = rounds; i < rounds + BLOCK; i++) {
                times[computing][i] = round_of(kind, rank, pause_s, to, from, bytes);
            }
        }
        rounds += BLOCK;
        go = rounds < ROUNDS_MAX && MPI_Wtime() < end;
        MPI_Bcast(&go, 1, MPI_INT, judge, MPI_COMM_WORLD);
    }
    if (rank == judge) {
        double alone = median(times[0], rounds), together = median(times[1], rounds);
        if (kind >= BCAST) {
            double overlap =
                (alone + compute_s - together) / (alone < compute_s ? alone : compute_s);
            overlap = overlap < 0 ? 0 : overlap > 1 ? 1 : overlap;
            printf("waiting: %.1f us\noverlap: %.3f us\n", alone * 1e6, overlap);
        } else {
            double before = computes ? compute_s : 0;
            printf("waiting: %.1f us\ncomputing: %.1f us, at most %.1f\n", alone * 1e6,
                   (together - before) * 1e6, (times[1][rounds - 1] - before) * 1e6);
        }
    }
    free(to);
    free(from);
    MPI_Finalize();
    return 0;
}
