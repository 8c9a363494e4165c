/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * after-computing: how long a program waits for MPI between its computations.
 *
 * after-computing WHAT COMPUTE_US TOUCH_BYTES SECONDS BYTES...
 *
 * For SECONDS per size, all ranks repeatedly compute for COMPUTE_US, reading and writing
 * TOUCH_BYTES of memory, and then communicate. WHAT is
 *
 * exchange    MPI_Sendrecv with the other rank of a pair (ranks 0 and 1, 2 and 3, ...)
 * halo        MPI_Irecv from and MPI_Isend to the two neighbours of a ring, three messages each, of
 *             BYTES, a half and an eighth of them, then MPI_Waitall
 * allreduce   MPI_Allreduce of BYTES, as doubles
 * put         MPI_Put to the other rank of the pair, and MPI_Win_fence
 *
 * Prints, for each size, median, mean and 90th percentile of rank 0's time in communication.
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { EXCHANGE, HALO, ALLREDUCE, PUT, KINDS, WARM_UP = 20, ROUNDS_MAX = 100000, HALO_PARTS = 3 };

static const char *const names[KINDS] = {"exchange", "halo", "allreduce", "put"};

static int rank, size, other;
static char *to, *from, *touched;
static size_t touch_bytes;
static double compute_s;
static MPI_Win window;

/* Read and write all of the memory, one cache line at a time, until the time is up. */
static void compute(void)
{
    double end = MPI_Wtime() + compute_s;
    size_t at = 0;

    do {
        for (size_t i = 0; i < 64 && touch_bytes != 0; i++) {
            touched[at] = (char)(touched[at] + 1);
            at = at + 64 < touch_bytes ? at + 64 : 0;
        }
    } while (MPI_Wtime() < end);
}

static void exchange_halo(int bytes)
{
    MPI_Request requests[4 * HALO_PARTS];
    int left = (rank + size - 1) % size, right = (rank + 1) % size, count = 0;
    const int parts[HALO_PARTS] = {bytes, (bytes + 1) / 2, (bytes + 7) / 8};

    for (int side = 0; side < 2; side++) {
        for (int part = 0; part < HALO_PARTS; part++) {
            char *place = to + ((size_t)side * HALO_PARTS + (size_t)part) * (size_t)bytes;
            MPI_Irecv(place, parts[part], MPI_BYTE, side ? left : right, side * HALO_PARTS + part,
                      MPI_COMM_WORLD, &requests[count++]);
        }
    }
    for (int side = 0; side < 2; side++) {
        for (int part = 0; part < HALO_PARTS; part++) {
            char *place = from + ((size_t)side * HALO_PARTS + (size_t)part) * (size_t)bytes;
            MPI_Isend(place, parts[part], MPI_BYTE, side ? right : left, side * HALO_PARTS + part,
                      MPI_COMM_WORLD, &requests[count++]);
        }
    }
    MPI_Waitall(count, requests, MPI_STATUSES_IGNORE);
}

static void communicate(int kind, int bytes)
{
    switch (kind) {
    case EXCHANGE:
        MPI_Sendrecv(from, bytes, MPI_BYTE, other, 0, to, bytes, MPI_BYTE, other, 0, MPI_COMM_WORLD,
                     MPI_STATUS_IGNORE);
        break;
    case HALO:
        exchange_halo(bytes);
        break;
    case ALLREDUCE:
        MPI_Allreduce(from, to, bytes / (int)sizeof(double), MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
        break;
    default:
        MPI_Put(from, bytes, MPI_BYTE, other, 0, bytes, MPI_BYTE, window);
        MPI_Win_fence(0, window);
        break;
    }
}

static int by_value(const void *a, const void *b)
{
    double left = *(const double *)a, right = *(const double *)b;

    return (left > right) - (left < right);
}

static void measure(int kind, int bytes, double seconds)
{
    static double times[ROUNDS_MAX];
    double sum = 0, round_s;
    int rounds, count = 0;

    for (int i = 0; i < WARM_UP; i++) {
        compute();
        communicate(kind, bytes);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    round_s = MPI_Wtime();
    compute();
    communicate(kind, bytes);
    round_s = MPI_Wtime() - round_s;
    rounds = seconds / round_s < ROUNDS_MAX ? (int)(seconds / round_s) : ROUNDS_MAX;
    rounds = rounds < 10 ? 10 : rounds;
    MPI_Bcast(&rounds, 1, MPI_INT, 0, MPI_COMM_WORLD);
    while (count < rounds) {
        compute();
        double begin = MPI_Wtime();
        communicate(kind, bytes);
        times[count] = MPI_Wtime() - begin;
        sum += times[count++];
    }
    if (rank == 0) {
        qsort(times, (size_t)count, sizeof times[0], by_value);
        printf("%10d %10d %10.2f %10.2f %10.2f\n", bytes, count, times[count / 2] * 1e6,
               sum / count * 1e6, times[count * 9 / 10] * 1e6);
        fflush(stdout);
    }
}

int main(int argc, char **argv)
{
    int kind = 0, most = 8;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    while (argc > 1 && kind < KINDS && strcmp(argv[1], names[kind]) != 0) {
        kind++;
    }
    for (int i = 5; i < argc; i++) {
        int bytes = atoi(argv[i]);
        most = bytes < 1 ? -1 : most > 0 && bytes > most ? bytes : most;
    }
    if (argc < 6 || kind == KINDS || most < 0 || (size % 2 != 0 && kind != ALLREDUCE)) {
        fprintf(stderr, "usage: mpirun -np RANKS after-computing exchange|halo|allreduce|put "
                        "COMPUTE_US TOUCH_BYTES SECONDS BYTES...\n");
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    compute_s = atof(argv[2]) * 1e-6;
    touch_bytes = (size_t)atoll(argv[3]) / 64 * 64;
    other = rank ^ 1;
    to = calloc(2 * HALO_PARTS, (size_t)most);
    from = calloc(2 * HALO_PARTS, (size_t)most);
    touched = calloc(1, touch_bytes + 64);
    if (to == NULL || from == NULL || touched == NULL) {
        fprintf(stderr, "after-computing: out of memory\n");
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    if (kind == PUT) {
        MPI_Win_create(to, most, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &window);
        MPI_Win_fence(0, window);
    }
    if (rank == 0) {
        printf("# %s after %.0f us of computing over %zu bytes, %d ranks\n", names[kind],
               compute_s * 1e6, touch_bytes, size);
        printf("#%9s %10s %10s %10s %10s\n", "bytes", "rounds", "median_us", "mean_us", "p90_us");
    }
    for (int i = 5; i < argc; i++) {
        measure(kind, atoi(argv[i]), atof(argv[4]));
    }
    if (kind == PUT) {
        MPI_Win_free(&window);
    }
    free(touched);
    free(from);
    free(to);
    MPI_Finalize();
    return 0;
}
