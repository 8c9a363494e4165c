/* SPDX-License-Identifier: BSD-3-Clause */
/* What the kernels share: time in communication, arguments, result lines in NPB's layout. */
#include "kernel.h"

#include <errno.h>
#include <limits.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

int kernel_rank;
int kernel_ranks;
static double entered;
static double inside;

void kernel_enter(void)
{
    entered = MPI_Wtime();
}

void kernel_leave(void)
{
    inside += MPI_Wtime() - entered;
}

void kernel_clear(void)
{
    inside = 0.0;
}

void kernel_refuse(const char *text)
{
    if (kernel_rank == 0) {
        fprintf(stderr, "%s\n", text);
    }
    MPI_Finalize();
    exit(2);
}

void kernel_start(int argc, char **argv, const char *usage, int count, long *numbers)
{
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &kernel_rank);
    MPI_Comm_size(MPI_COMM_WORLD, &kernel_ranks);
    if (argc != count + 1) {
        kernel_refuse(usage);
    }
    for (int i = 0; i < count; i++) {
        char *end;
        errno = 0;
        numbers[i] = strtol(argv[i + 1], &end, 10);
        if (errno != 0 || *end != '\0' || numbers[i] < 1 || numbers[i] > INT_MAX) {
            kernel_refuse(usage);
        }
    }
}

void *kernel_allocate(uint64_t bytes)
{
    void *memory = malloc(bytes);
    if (memory == NULL) {
        fprintf(stderr, "rank %d: no memory for %llu bytes; choose a smaller problem\n",
                kernel_rank, (unsigned long long)bytes);
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    return memory;
}

/* SplitMix64 (Steele, Lea, Flood 2014): any element without those before it. */
uint64_t kernel_number(uint64_t n)
{
    uint64_t z = (n + 1) * UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

int kernel_finish(const char *name, const char *size, double seconds, double operations,
                  const char *unit, bool verified)
{
    double mine[2] = {seconds, 100.0 * inside / seconds};
    double longest;
    double share;
    int good = verified;
    MPI_Allreduce(MPI_IN_PLACE, &good, 1, MPI_INT, MPI_LAND, MPI_COMM_WORLD);
    MPI_Reduce(&mine[0], &longest, 1, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
    MPI_Reduce(&mine[1], &share, 1, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
    if (kernel_rank == 0) {
        printf("\n %s Completed.\n", name);
        printf(" Size            = %24s\n", size);
        printf(" Total processes = %24d\n", kernel_ranks);
        printf(" Time in seconds = %24.6f\n", longest);
        printf(" %-15s = %24.3f\n", unit, operations / longest / 1e6);
        printf(" MPI share (%%)   = %24.2f\n", share / kernel_ranks);
        printf(" Verification    = %24s\n", good ? "SUCCESSFUL" : "UNSUCCESSFUL");
    }
    MPI_Finalize();
    return good ? 0 : 1;
}
