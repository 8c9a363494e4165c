/* SPDX-License-Identifier: BSD-3-Clause */
/* Common parts of the kernels: time in communication, arguments, result lines in NPB's layout. */
#ifndef RAWE_KERNEL_H
#define RAWE_KERNEL_H

#include <errno.h>
#include <limits.h>
#include <mpi.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

/* Rank and number of ranks of MPI_COMM_WORLD, set by kernel_start(). */
static int kernel_rank;
static int kernel_ranks;

/* The seconds between kernel_enter() and kernel_leave() are the time in MPI. */
static double entered;
static double inside;

static void kernel_enter(void)
{
    entered = MPI_Wtime();
}

static void kernel_leave(void)
{
    inside += MPI_Wtime() - entered;
}

/* Print `text` on rank 0, and end the job with status 2. */
_Noreturn static void kernel_refuse(const char *text)
{
    if (kernel_rank == 0) {
        fprintf(stderr, "%s\n", text);
    }
    MPI_Finalize();
    exit(2);
}

/* MPI_Init; read `count` numbers, each from 1 to 2^31 - 1, after the program's name. Refuses other
 * arguments with the usage. */
static void kernel_start(int argc, char **argv, const char *usage, int count, long *numbers)
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

/* Return memory, or abort the job with a message that says how much was missing. */
static void *kernel_allocate(uint64_t bytes)
{
    void *memory = malloc(bytes);
    if (memory == NULL) {
        fprintf(stderr, "rank %d: no memory for %llu bytes; choose a smaller problem\n",
                kernel_rank, (unsigned long long)bytes);
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    return memory;
}

/* Return the n-th number of a pseudo-random sequence that every rank knows: SplitMix64 (Steele,
 * Lea, Flood 2014), which yields any element without those before it. */
static uint64_t kernel_number(uint64_t n)
{
    uint64_t z = (n + 1) * UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

/* Print the result lines on rank 0, and finalize MPI. Returns the exit status: 0 if verified on all
 * ranks. `seconds` are this rank's; `operations` are those of all ranks, in `unit` per second. */
static int kernel_finish(const char *name, const char *size, double seconds, double operations,
                         const char *unit, bool verified)
{
    double own[2] = {seconds, 100.0 * inside / seconds};
    double longest;
    double share;
    int good = verified;
    MPI_Allreduce(MPI_IN_PLACE, &good, 1, MPI_INT, MPI_LAND, MPI_COMM_WORLD);
    MPI_Reduce(&own[0], &longest, 1, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
    MPI_Reduce(&own[1], &share, 1, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
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

#endif
