/* SPDX-License-Identifier: BSD-3-Clause */
/* Bitonic merge sort over ranks, as in Chang et al. 1996: rawe-bitonic KEYS REPETITIONS sorts KEYS
 * 64-bit keys per rank, REPETITIONS times, and checks order and contents. */
#include "kernel.h"

#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define USAGE "usage: rawe-bitonic KEYS REPETITIONS (KEYS a rank; both from 1 on)"

static long keys;
static uint64_t *mine;   /* this rank's keys, ascending between the steps */
static uint64_t *theirs; /* those of the rank it exchanges with */
static uint64_t *merged;

static int compare(const void *left, const void *right)
{
    uint64_t a = *(const uint64_t *)left;
    uint64_t b = *(const uint64_t *)right;
    return (a > b) - (a < b);
}

/* The lower or the upper half of the union of two ascending runs, ascending. */
static void keep_low(void)
{
    long i = 0;
    long j = 0;
    for (long k = 0; k < keys; k++) {
        merged[k] = mine[i] <= theirs[j] ? mine[i++] : theirs[j++];
    }
}

static void keep_high(void)
{
    long i = keys - 1;
    long j = keys - 1;
    for (long k = keys - 1; k >= 0; k--) {
        merged[k] = mine[i] > theirs[j] ? mine[i--] : theirs[j--];
    }
}

static void exchange(int partner, bool low)
{
    kernel_enter();
    MPI_Sendrecv(mine, (int)keys, MPI_UINT64_T, partner, 0, theirs, (int)keys, MPI_UINT64_T,
                 partner, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    kernel_leave();
    low ? keep_low() : keep_high();
    uint64_t *old = mine;
    mine = merged;
    merged = old;
}

/* Batcher's network with ranks for wires and merge-splits for comparators: log p stages of 1, 2,
 * ... log p exchanges, each of the whole run of keys. */
static void sort(void)
{
    qsort(mine, (size_t)keys, sizeof *mine, compare);
    for (int stage = 2; stage <= kernel_ranks; stage *= 2) {
        bool ascending = (kernel_rank & stage) == 0;
        for (int bit = stage / 2; bit > 0; bit /= 2) {
            exchange(kernel_rank ^ bit, ((kernel_rank & bit) == 0) == ascending);
        }
    }
}

/* Sum and sum of squares modulo 2^64: they show whether a key was lost, doubled or changed. */
static void weigh(const uint64_t *run, uint64_t sums[2])
{
    sums[0] = 0;
    sums[1] = 0;
    for (long k = 0; k < keys; k++) {
        sums[0] += run[k];
        sums[1] += run[k] * run[k];
    }
}

static bool sorted(void)
{
    for (long k = 1; k < keys; k++) {
        if (mine[k - 1] > mine[k]) {
            return false;
        }
    }
    uint64_t before = 0; /* no rank precedes rank 0 */
    int next = kernel_rank + 1 < kernel_ranks ? kernel_rank + 1 : MPI_PROC_NULL;
    int previous = kernel_rank > 0 ? kernel_rank - 1 : MPI_PROC_NULL;
    MPI_Sendrecv(&mine[keys - 1], 1, MPI_UINT64_T, next, 1, &before, 1, MPI_UINT64_T, previous, 1,
                 MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    return before <= mine[0];
}

static bool complete(const uint64_t wanted[2])
{
    uint64_t found[2];
    weigh(mine, found);
    MPI_Allreduce(MPI_IN_PLACE, found, 2, MPI_UINT64_T, MPI_SUM, MPI_COMM_WORLD);
    return found[0] == wanted[0] && found[1] == wanted[1];
}

int main(int argc, char **argv)
{
    long numbers[2];
    kernel_start(argc, argv, USAGE, 2, numbers);
    if (kernel_ranks & (kernel_ranks - 1)) {
        kernel_refuse("rawe-bitonic needs a power of two as number of ranks");
    }
    keys = numbers[0];
    uint64_t bytes = (uint64_t)keys * sizeof *mine;
    uint64_t *start = kernel_allocate(bytes);
    mine = kernel_allocate(bytes);
    theirs = kernel_allocate(bytes);
    merged = kernel_allocate(bytes);
    for (long k = 0; k < keys; k++) {
        start[k] = kernel_number((uint64_t)kernel_rank * (uint64_t)keys + (uint64_t)k);
    }
    uint64_t wanted[2];
    weigh(start, wanted);
    MPI_Allreduce(MPI_IN_PLACE, wanted, 2, MPI_UINT64_T, MPI_SUM, MPI_COMM_WORLD);

    bool good = true;
    double seconds = 0.0;
    for (long run = 0; run < numbers[1]; run++) {
        memcpy(mine, start, bytes);
        MPI_Barrier(MPI_COMM_WORLD);
        double begun = MPI_Wtime();
        sort();
        seconds += MPI_Wtime() - begun;
        bool in_order = sorted(); /* every rank takes part in both checks */
        bool whole = complete(wanted);
        good = good && in_order && whole;
    }
    char size[32];
    snprintf(size, sizeof size, "%ld keys a rank", keys);
    double sorted_keys = (double)keys * kernel_ranks * (double)numbers[1];
    return kernel_finish("Bitonic merge sort", size, seconds, sorted_keys, "Mkey/s", good);
}
