/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * overlap: does a message move while a rank computes?
 *
 * overlap WHO BYTES SECONDS
 *
 * Rank 0 sends a message to rank 1, both without blocking. WHO (sender, receiver, both) computes for
 * COMPUTE_S meanwhile, then waits. Measured is how long the message takes for the rank that does not
 * compute, or, when both do, how long it makes rank 1 wait after its computation. Rounds with and
 * without computing alternate.
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const double COMPUTE_S = 0.04;

enum { SENDER, RECEIVER, BOTH, SIDES, ROUNDS_MAX = 1000 };

static const char *const names[SIDES] = {"sender", "receiver", "both"};

static void compute(void)
{
    double end = MPI_Wtime() + COMPUTE_S;

    while (MPI_Wtime() < end) {
    }
}

/* Seconds of one message, as rank `judge` sees it. */
static double round_of(int rank, int computes, char *data, int bytes)
{
    MPI_Request request;
    double begin;

    MPI_Barrier(MPI_COMM_WORLD);
    begin = MPI_Wtime();
    if (rank == 0) {
        MPI_Isend(data, bytes, MPI_BYTE, 1, 0, MPI_COMM_WORLD, &request);
    } else {
        MPI_Irecv(data, bytes, MPI_BYTE, 0, 0, MPI_COMM_WORLD, &request);
    }
    if (computes) {
        compute();
    }
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    return MPI_Wtime() - begin - (computes ? COMPUTE_S : 0);
}

static int by_value(const void *a, const void *b)
{
    double left = *(const double *)a, right = *(const double *)b;

    return (left > right) - (left < right);
}

int main(int argc, char **argv)
{
    static double times[2][ROUNDS_MAX];
    int rank, size, who = 0, rounds = 0, go = 1;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    int bytes = argc > 2 ? atoi(argv[2]) : 0;
    while (argc > 1 && who < SIDES && strcmp(argv[1], names[who]) != 0) {
        who++;
    }
    if (argc != 4 || size != 2 || who == SIDES || bytes < 1) {
        fprintf(stderr, "usage: mpirun -np 2 overlap sender|receiver|both BYTES SECONDS\n");
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    char *data = calloc(1, (size_t)bytes);
    int judge = who == RECEIVER ? 0 : 1;
    for (int i = 0; i < 3; i++) {
        (void)round_of(rank, 0, data, bytes); /* connections are there */
    }
    double end = MPI_Wtime() + atof(argv[3]);
    while (go) {
        for (int computing = 0; computing < 2; computing++) {
            times[computing][rounds] =
                round_of(rank, computing && (who == BOTH || rank == who), data, bytes);
        }
        go = ++rounds < ROUNDS_MAX && MPI_Wtime() < end;
        MPI_Bcast(&go, 1, MPI_INT, judge, MPI_COMM_WORLD);
    }
    if (rank == judge) {
        for (int computing = 0; computing < 2; computing++) {
            qsort(times[computing], (size_t)rounds, sizeof(double), by_value);
            printf("%s: %.1f us, at most %.1f\n", computing ? "computing" : "waiting",
                   times[computing][rounds / 2] * 1e6, times[computing][rounds - 1] * 1e6);
        }
    }
    free(data);
    MPI_Finalize();
    return 0;
}
