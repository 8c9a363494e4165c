/* SPDX-License-Identifier: BSD-3-Clause */
/* Cannon's matrix multiplication, as in Chang et al. 1996: rawe-cannon N REPETITIONS multiplies two
 * N x N matrices of doubles on a square grid of ranks, and checks the product. */
#include "kernel.h"

#include <math.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define USAGE "usage: rawe-cannon N REPETITIONS (N rows and columns, a multiple of the grid's edge)"

/* Elements are whole numbers from -8 to 8: products and sums of them, also those of the check, stay
 * below 2^53 for every N that fits in memory, so doubles are exact and the check is equality. */
#define LARGEST 8

enum { A, B, C };

static int edge;  /* ranks along an edge of the grid */
static int block; /* rows and columns of a rank's blocks */
static MPI_Comm grid;
static int place[2]; /* row and column in the grid */

static double element(int matrix, long row, long column)
{
    uint64_t n = ((uint64_t)matrix << 62) | ((uint64_t)row << 31) | (uint64_t)column;
    return (double)(kernel_number(n) % (2 * LARGEST + 1)) - LARGEST;
}

static void fill(double *to, int matrix)
{
    for (int i = 0; i < block; i++) {
        for (int j = 0; j < block; j++) {
            to[i * block + j] =
                element(matrix, (long)place[0] * block + i, (long)place[1] * block + j);
        }
    }
}

/* Pass a block on by `distance` places: along the row (dimension 1) left, along the column up. */
static void shift(double *of, int dimension, int distance)
{
    int from;
    int to;
    MPI_Cart_shift(grid, dimension, -distance, &from, &to);
    kernel_enter();
    MPI_Sendrecv_replace(of, block * block, MPI_DOUBLE, to, 0, from, 0, grid, MPI_STATUS_IGNORE);
    kernel_leave();
}

static void multiply(const double *a, const double *b, double *c)
{
    for (int i = 0; i < block; i++) {
        for (int k = 0; k < block; k++) {
            double factor = a[i * block + k];
            for (int j = 0; j < block; j++) {
                c[i * block + j] += factor * b[k * block + j];
            }
        }
    }
}

static void cannon(double *a, double *b, double *c)
{
    memset(c, 0, (size_t)block * (size_t)block * sizeof *c);
    shift(a, 1, place[0]);
    shift(b, 0, place[1]);
    for (int step = 0; step < edge; step++) {
        multiply(a, b, c);
        if (step + 1 < edge) {
            shift(a, 1, 1);
            shift(b, 0, 1);
        }
    }
}

/* to = matrix * from, all N rows of it on every rank, out of the element() function or of C. */
static void apply(const double *product, int matrix, const double *from, double *to, long n)
{
    memset(to, 0, (size_t)n * sizeof *to);
    for (int i = 0; i < block; i++) {
        long row = (long)place[0] * block + i;
        for (int j = 0; j < block; j++) {
            long column = (long)place[1] * block + j;
            double value = product ? product[i * block + j] : element(matrix, row, column);
            to[row] += value * from[column];
        }
    }
    MPI_Allreduce(MPI_IN_PLACE, to, (int)n, MPI_DOUBLE, MPI_SUM, grid);
}

/* Freivalds 1977: C x == A (B x) for a pseudo-random x; a wrong C passes only by chance. */
static bool right(const double *c, long n)
{
    double *x = kernel_allocate((uint64_t)n * sizeof *x);
    double *bx = kernel_allocate((uint64_t)n * sizeof *bx);
    double *abx = kernel_allocate((uint64_t)n * sizeof *abx);
    double *cx = kernel_allocate((uint64_t)n * sizeof *cx);
    for (long i = 0; i < n; i++) {
        x[i] = element(C, i, 0);
    }
    apply(NULL, B, x, bx, n);
    apply(NULL, A, bx, abx, n);
    apply(c, C, x, cx, n);
    bool equal = true;
    for (long i = 0; i < n; i++) {
        equal = equal && abx[i] == cx[i];
    }
    free(x);
    free(bx);
    free(abx);
    free(cx);
    return equal;
}

static void make_grid(long n)
{
    edge = (int)lround(sqrt(kernel_ranks));
    if (edge * edge != kernel_ranks) {
        kernel_refuse("rawe-cannon needs a square as number of ranks");
    }
    if (n % edge || n / edge > 32768) {
        kernel_refuse(USAGE);
    }
    block = (int)(n / edge);
    int sizes[2] = {edge, edge};
    int periods[2] = {1, 1};
    MPI_Cart_create(MPI_COMM_WORLD, 2, sizes, periods, 0, &grid);
    MPI_Cart_coords(grid, kernel_rank, 2, place);
}

int main(int argc, char **argv)
{
    long numbers[2];
    kernel_start(argc, argv, USAGE, 2, numbers);
    long n = numbers[0];
    make_grid(n);
    uint64_t bytes = (uint64_t)block * (uint64_t)block * sizeof(double);
    double *a = kernel_allocate(bytes);
    double *b = kernel_allocate(bytes);
    double *c = kernel_allocate(bytes);
    bool good = true;
    double seconds = 0.0;
    for (long run = 0; run < numbers[1]; run++) {
        fill(a, A);
        fill(b, B);
        MPI_Barrier(grid);
        double begun = MPI_Wtime();
        cannon(a, b, c);
        seconds += MPI_Wtime() - begun;
        if (run == 0 || run + 1 == numbers[1]) {
            bool same = right(c, n); /* every rank takes part */
            good = good && same;
        }
    }
    char size[32];
    snprintf(size, sizeof size, "%ld x %ld", n, n);
    double operations = 2.0 * (double)n * (double)n * (double)n * (double)numbers[1];
    MPI_Comm_free(&grid);
    return kernel_finish("Cannon's multiplication", size, seconds, operations, "Mflop/s", good);
}
