/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * window-rate: one-sided operations a second of rank 0 on the memory of rank 1.
 *
 * window-rate OPERATION BYTES SECONDS
 *
 * OPERATION is put, get, accumulate, or fetch (MPI_Fetch_and_op, 8 bytes). The operations of a
 * burst use different places, and are then flushed together. Rank 1 waits in a barrier.
 */
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WINDOW_BYTES = 4 << 20, PLACES = 32 };

enum operation { PUT, GET, ACCUMULATE, FETCH, OPERATIONS };

static const char *const names[OPERATIONS] = {"put", "get", "accumulate", "fetch"};

/* Return the number of operations between two flushes. */
static int burst_of(enum operation operation, int bytes)
{
    int burst = bytes > 4096 ? 16 : 256;

    return operation == PUT || operation == GET ? burst : burst / 8 + 2;
}

static void operate(enum operation operation, int bytes, int number, char *data, MPI_Win win)
{
    MPI_Aint at = (MPI_Aint)(number % PLACES) * 2 * bytes % (WINDOW_BYTES - bytes);

    switch (operation) {
    case PUT:
        MPI_Put(data + at, bytes, MPI_BYTE, 1, at, bytes, MPI_BYTE, win);
        break;
    case GET:
        MPI_Get(data + at, bytes, MPI_BYTE, 1, at, bytes, MPI_BYTE, win);
        break;
    case ACCUMULATE:
        MPI_Accumulate(data + at, bytes / 8, MPI_INT64_T, 1, at, bytes / 8, MPI_INT64_T, MPI_SUM,
                       win);
        break;
    default:
        MPI_Fetch_and_op(data, data + 64, MPI_INT64_T, 1, 0, MPI_SUM, win);
        break;
    }
}

/* Return the operations a second. */
static double measure(enum operation operation, int bytes, double seconds, char *data, MPI_Win win)
{
    int burst = burst_of(operation, bytes);
    double done = 0, begin, passed;

    MPI_Win_lock(MPI_LOCK_SHARED, 1, 0, win);
    begin = MPI_Wtime();
    do {
        for (int i = 0; i < burst; i++) {
            operate(operation, bytes, i, data, win);
        }
        MPI_Win_flush(1, win);
        done += burst;
        passed = MPI_Wtime() - begin;
    } while (passed < seconds);
    MPI_Win_unlock(1, win);
    return done / passed;
}

int main(int argc, char **argv)
{
    enum operation operation = PUT;
    int rank, size;
    char *memory, *data;
    MPI_Win win;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    int bytes = argc > 2 ? atoi(argv[2]) : 0;
    while (argc > 1 && operation < OPERATIONS && strcmp(argv[1], names[operation]) != 0) {
        operation++;
    }
    if (argc != 4 || size != 2 || operation == OPERATIONS || bytes < 8 ||
        bytes > WINDOW_BYTES / 2 || bytes % 8 != 0) {
        fprintf(stderr, "usage: mpirun -np 2 window-rate put|get|accumulate|fetch BYTES SECONDS\n");
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    MPI_Win_allocate(WINDOW_BYTES, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &win);
    memset(memory, 0, WINDOW_BYTES);
    data = calloc(1, WINDOW_BYTES);
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0) {
        (void)measure(operation, bytes, atof(argv[3]) / 4, data, win); /* open connections */
        printf("operations a second: %.0f\n", measure(operation, bytes, atof(argv[3]), data, win));
    }
    MPI_Barrier(MPI_COMM_WORLD);
    free(data);
    MPI_Win_free(&win);
    MPI_Finalize();
    return 0;
}
