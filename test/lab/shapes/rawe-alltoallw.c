/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Times MPI_Alltoallw with large blocks, a shape that is hard for transports which let everybody
 * send to everybody at once. The contents of the last call are checked.
 *
 * rawe-alltoallw [BYTES-A-PAIR [REPETITIONS]]     default 1000000 and 5
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static unsigned char content(int from, int to)
{
    return (unsigned char)(from * 31 + to * 7 + 1);
}

/* Everything a call needs; blocks lie one behind the other. */
struct shape {
    int rank, size, bytes;
    unsigned char *out, *in;
    int *counts, *places;
    MPI_Datatype *types;
};

static void make(struct shape *shape)
{
    size_t size = (size_t)shape->size, bytes = (size_t)shape->bytes;

    shape->out = malloc(size * bytes);
    shape->in = malloc(size * bytes);
    shape->counts = malloc(size * sizeof(int));
    shape->places = malloc(size * sizeof(int));
    shape->types = malloc(size * sizeof(MPI_Datatype));
    if (!shape->out || !shape->in || !shape->counts || !shape->places || !shape->types) {
        fprintf(stderr, "rawe-alltoallw: no memory for %d blocks of %d bytes\n", shape->size,
                shape->bytes);
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    for (int peer = 0; peer < shape->size; peer++) {
        shape->counts[peer] = shape->bytes;
        shape->places[peer] = peer * shape->bytes;
        shape->types[peer] = MPI_BYTE;
        memset(shape->out + (size_t)peer * bytes, content(shape->rank, peer), bytes);
    }
    memset(shape->in, 0, size * bytes);
}

static void check(const struct shape *shape)
{
    for (int i = 0; i < shape->size * shape->bytes; i++) {
        if (shape->in[i] != content(i / shape->bytes, shape->rank)) {
            fprintf(stderr, "rawe-alltoallw: byte %d from rank %d to rank %d is wrong\n",
                    i % shape->bytes, i / shape->bytes, shape->rank);
            MPI_Abort(MPI_COMM_WORLD, 1);
        }
    }
}

int main(int argc, char **argv)
{
    struct shape shape = {.bytes = argc > 1 ? atoi(argv[1]) : 1000000};
    int repetitions = argc > 2 ? atoi(argv[2]) : 5;
    double *seconds;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &shape.rank);
    MPI_Comm_size(MPI_COMM_WORLD, &shape.size);
    if (shape.bytes < 1 || repetitions < 1 || shape.bytes > 2000000000 / shape.size) {
        fprintf(stderr, "usage: rawe-alltoallw [BYTES-A-PAIR [REPETITIONS]]: both from 1 on\n");
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    make(&shape);
    seconds = calloc((size_t)repetitions, sizeof *seconds);
    for (int i = -1; i < repetitions; i++) { /* the first opens connections and is not counted */
        double start, mine, slowest;

        MPI_Barrier(MPI_COMM_WORLD);
        start = MPI_Wtime();
        MPI_Alltoallw(shape.out, shape.counts, shape.places, shape.types, shape.in, shape.counts,
                      shape.places, shape.types, MPI_COMM_WORLD);
        mine = MPI_Wtime() - start;
        MPI_Allreduce(&mine, &slowest, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
        if (i >= 0) {
            seconds[i] = slowest;
        }
    }
    check(&shape);
    if (shape.rank == 0) {
        qsort(seconds, (size_t)repetitions, sizeof *seconds, compare);
        printf("alltoallw ranks=%d bytes=%d median_ms=%.3f\n", shape.size, shape.bytes,
               1e3 * seconds[repetitions / 2]);
    }
    free(seconds);
    free(shape.out);
    free(shape.in);
    free(shape.counts);
    free(shape.places);
    free(shape.types);
    MPI_Finalize();
    return 0;
}
