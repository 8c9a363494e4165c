/* SPDX-License-Identifier: BSD-3-Clause */
/* rawe-lu: the NAS LU pseudo-application, five equations solved by SSOR with pipelined sweeps. */
#include <stdio.h>

#include <mpi.h>

#include "lu.h"
#include "nas_operator.h"
#include "nas_report.h"

/*
 * Trapezoidal sum of the pressure over the two faces across `axis` of the box from..to (global
 * indices): a point in the middle of a face belongs to four cells, on an edge to two, in a corner
 * to one. Points of other ranks are left to them.
 */
static double faces_integral(const struct lu *lu, int axis, const int from[3], const int to[3])
{
    const struct nas_block *b = &lu->grid;
    int first[3], last[3];
    double sum = 0.0;

    for (int side = 0; side < 2; side++) {
        for (int a = 0; a < 3; a++) {
            first[a] = a == axis ? (side ? to[a] : from[a]) : from[a];
            last[a] = a == axis ? first[a] : to[a];
        }
        for (int k = 0; k < b->size[2]; k++) {
            for (int j = 0; j < b->size[1]; j++) {
                for (int i = 0; i < b->size[0]; i++) {
                    const int local[3] = {i, j, k};
                    double cells = 1.0;

                    for (int a = 0; a < 3; a++) {
                        int position = b->origin[a] + local[a];

                        if (position < first[a] || position > last[a]) {
                            cells = 0.0;
                        } else if (a != axis) {
                            cells *= position == first[a] || position == last[a] ? 1.0 : 2.0;
                        }
                    }
                    if (cells > 0.0) {
                        sum += cells * b->pressure[nas_at(b, i, j, k)];
                    }
                }
            }
        }
    }
    return sum;
}

/* The pressure integrated over the surface of the inner box (RNR-94-007). Collective. */
static double surface_integral(const struct lu *lu)
{
    int n = lu->grid.global[0];
    double h = 1.0 / (n - 1), own = 0.0, all = 0.0;
    /* The box the report fixes, in indices that run from 0. */
    const int from[3] = {1, 1, 2}, to[3] = {n - 2, n - 3, n - 2};

    for (int axis = 0; axis < 3; axis++) {
        own += faces_integral(lu, axis, from, to) * h * h;
    }
    MPI_Allreduce(&own, &all, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    return 0.25 * all;
}

/* Floating point operations of a run, by the formula NPB's LU counts with. */
static double operations(int points, int iterations)
{
    double n = points;

    return iterations * (1984.77 * n * n * n - 10923.3 * n * n + 27770.9 * n - 144010.0);
}

static void run_steps(struct lu *lu, struct nas_run *run)
{
    double sum[NAS_VARS] = {0.0}, start;

    /* One untimed step touches all memory and opens all connections. */
    nas_block_make_forcing(&lu->grid);
    nas_block_initialize(&lu->grid);
    lu_residual(lu);
    lu_step(lu);

    nas_block_initialize(&lu->grid);
    lu_residual(lu);
    nas_block_add_residual(&lu->grid, sum);
    nas_norm(sum, lu->grid.global[0], run->residual);

    PMPI_Barrier(MPI_COMM_WORLD);
    nas_mpi_clock_start();
    start = PMPI_Wtime();
    for (int step = 0; step < run->iterations; step++) {
        lu_step(lu);
    }
    for (int m = 0; m < NAS_VARS; m++) {
        sum[m] = 0.0;
    }
    nas_block_add_residual(&lu->grid, sum);
    nas_norm(sum, lu->grid.global[0], run->residual);
    run->seconds = PMPI_Wtime() - start;
    run->usage = nas_mpi_clock_read();
}

int main(int argc, char **argv)
{
    struct nas_run run = {0};
    struct lu lu;
    double sum[NAS_VARS] = {0.0};
    int rank, agrees;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (!nas_run_options(&run, "LU", nas_lu_class, argc, argv) ||
        !lu_create(&lu, run.class_data->points, run.class_data->time_step)) {
        MPI_Finalize();
        return 2;
    }
    if (0 == rank) {
        printf("\n\n rawe: NAS LU (RNR-94-007), own implementation\n\n");
        printf(" Size: %4dx%4dx%4d\n Iterations: %4d\n Processes: %d x %d\n",
               run.class_data->points, run.class_data->points, run.class_data->points,
               run.iterations, lu.ranks[0], lu.ranks[1]);
        fflush(stdout);
    }
    run_steps(&lu, &run);
    nas_block_add_error(&lu.grid, sum);
    nas_norm(sum, run.class_data->points, run.error);
    nas_block_derive(&lu.grid);
    run.surface = surface_integral(&lu);
    run.operations = operations(run.class_data->points, run.iterations);
    agrees = nas_run_report(&run);
    lu_destroy(&lu);
    MPI_Finalize();
    return agrees ? 0 : 1;
}
