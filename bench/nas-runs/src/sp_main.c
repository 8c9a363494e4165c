/* SPDX-License-Identifier: BSD-3-Clause */
/* rawe-sp: the NAS SP pseudo-application, five equations by approximately factored line solves. */
#include <stdio.h>

#include <mpi.h>

#include "nas_operator.h"
#include "nas_report.h"
#include "sp.h"

/* Ghost exchange and right-hand side of all cells. */
static void set_residual(struct sp *sp)
{
    sp_exchange_faces(sp);
    for (int c = 0; c < sp->cells; c++) {
        nas_block_derive(&sp->cell[c].grid);
        nas_block_residual(&sp->cell[c].grid);
    }
}

static void add_update(struct nas_block *b)
{
    for (int k = b->low[2]; k < b->high[2]; k++) {
        for (int j = b->low[1]; j < b->high[1]; j++) {
            for (int m = 0; m < NAS_VARS; m++) {
                ptrdiff_t at = nas_vat(b, b->low[0], j, k) + m * b->next_var;
                double *restrict u = b->u + at;
                const double *restrict update = b->rhs + at;

                for (int i = 0; i < b->high[0] - b->low[0]; i++) {
                    u[i] += update[i];
                }
            }
        }
    }
}

/* One time step. */
static void make_step(struct sp *sp)
{
    set_residual(sp);
    for (int c = 0; c < sp->cells; c++) {
        sp_to_x_characteristics(&sp->cell[c], sp->time_step);
    }
    for (int axis = 0; axis < 3; axis++) {
        sp_solve(sp, axis);
    }
    for (int c = 0; c < sp->cells; c++) {
        add_update(&sp->cell[c].grid);
    }
}

/* Floating point operations of a run, by the formula NPB's SP counts with. */
static double operations(int points, int iterations)
{
    double n = points;

    return iterations * (881.174 * n * n * n - 4683.91 * n * n + 11484.5 * n - 19272.4);
}

static void initialize(struct sp *sp)
{
    for (int c = 0; c < sp->cells; c++) {
        nas_block_initialize(&sp->cell[c].grid);
    }
}

static void run_steps(struct sp *sp, struct nas_run *run)
{
    double start;

    for (int c = 0; c < sp->cells; c++) {
        nas_block_make_forcing(&sp->cell[c].grid);
    }
    /* One untimed step touches all memory and opens all connections. */
    initialize(sp);
    make_step(sp);
    initialize(sp);

    PMPI_Barrier(MPI_COMM_WORLD);
    nas_mpi_clock_start();
    start = PMPI_Wtime();
    for (int step = 0; step < run->iterations; step++) {
        make_step(sp);
    }
    run->seconds = PMPI_Wtime() - start;
    run->usage = nas_mpi_clock_read();
}

static void measure_norms(struct sp *sp, struct nas_run *run)
{
    double error[NAS_VARS] = {0.0}, residual[NAS_VARS] = {0.0};

    set_residual(sp);
    for (int c = 0; c < sp->cells; c++) {
        nas_block_add_error(&sp->cell[c].grid, error);
        nas_block_add_residual(&sp->cell[c].grid, residual);
    }
    nas_norm(error, run->class_data->points, run->error);
    nas_norm(residual, run->class_data->points, run->residual);
}

int main(int argc, char **argv)
{
    struct nas_run run = {0};
    struct sp sp;
    int rank, agrees;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (!nas_run_options(&run, "SP", nas_sp_class, argc, argv) ||
        !sp_create(&sp, run.class_data->points, run.class_data->time_step)) {
        MPI_Finalize();
        return 2;
    }
    if (0 == rank) {
        printf("\n\n rawe: NAS SP (RNR-94-007), own implementation\n\n");
        printf(" Size: %4dx%4dx%4d\n Iterations: %4d    dt: %10.6f\n Processes: %d x %d\n",
               run.class_data->points, run.class_data->points, run.class_data->points,
               run.iterations, run.class_data->time_step, sp.cells, sp.cells);
        fflush(stdout);
    }
    run_steps(&sp, &run);
    measure_norms(&sp, &run);
    run.operations = operations(run.class_data->points, run.iterations);
    agrees = nas_run_report(&run);
    sp_destroy(&sp);
    MPI_Finalize();
    return agrees ? 0 : 1;
}
