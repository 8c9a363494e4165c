/* SPDX-License-Identifier: BSD-3-Clause */
/* rawe-sp: the NAS SP pseudo-application, five equations by approximately factored line solves. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "nas.h"
#include "sp.h"

/* SP's diagonal multi-partition of the grid and its exchange of cell faces. */

enum { FACE_TAG = 100 }; /* plus 2 * axis + way */
enum { LEAST_POINTS = 3 };

/* Doubles in one face message: two planes of each cell with a neighbour on that side. */
static int face_count(const struct sp *sp, int axis, enum sp_way way)
{
    int count = 0, none = SP_BEFORE == way ? 0 : sp->cells - 1;

    for (int c = 0; c < sp->cells; c++) {
        const int *size = sp->cell[c].grid.size;

        if (sp->cell[c].place[axis] != none) {
            count += NAS_GHOST * NAS_VARS * size[(axis + 1) % 3] * size[(axis + 2) % 3];
        }
    }
    return count;
}

static int ranks_fit(int processes, int grid_points, int *cells)
{
    int rank, p = 1;

    PMPI_Comm_rank(MPI_COMM_WORLD, &rank);
    while (p * p < processes) {
        p++;
    }
    *cells = p;
    if (p * p != processes) {
        if (0 == rank) {
            fprintf(stderr, "sp: %d ranks; SP needs a square. Start it with -np 1, 4, 9, 16, ...\n",
                    processes);
        }
        return 0;
    }
    if (grid_points / p < LEAST_POINTS) {
        if (0 == rank) {
            fprintf(stderr,
                    "sp: %d ranks leave less than %d of %d points to a cell. Use fewer ranks or a "
                    "larger class.\n",
                    processes, LEAST_POINTS, grid_points);
        }
        return 0;
    }
    return 1;
}

static void create_cells(struct sp *sp, int row, int column, int grid_points)
{
    int p = sp->cells;

    sp->cell = nas_allocate((size_t)p, sizeof *sp->cell);
    for (int axis = 0; axis < 3; axis++) {
        sp->at[axis] = nas_allocate((size_t)p, sizeof *sp->at[axis]);
    }
    for (int c = 0; c < p; c++) {
        struct sp_cell *cell = &sp->cell[c];
        int size[3], origin[3];

        cell->place[0] = (row + c) % p;
        cell->place[1] = (column - c + p) % p;
        cell->place[2] = c;
        for (int axis = 0; axis < 3; axis++) {
            sp->at[axis][cell->place[axis]] = c;
            nas_share(grid_points, p, cell->place[axis], &size[axis], &origin[axis]);
        }
        nas_block_create(&cell->grid, size, origin, grid_points, 1);
        cell->work = nas_allocate(sp_work_size(size), sizeof *cell->work);
    }
}

int sp_create(struct sp *sp, int grid_points, double time_step)
{
    int rank, processes, row, column, p;
    size_t widest;

    memset(sp, 0, sizeof *sp);
    PMPI_Comm_rank(MPI_COMM_WORLD, &rank);
    PMPI_Comm_size(MPI_COMM_WORLD, &processes);
    if (!ranks_fit(processes, grid_points, &sp->cells)) {
        return 0;
    }
    p = sp->cells;
    row = rank % p;
    column = rank / p;
    sp->time_step = time_step;
    create_cells(sp, row, column, grid_points);

    /* Rank (row, column) owns (row + c, column - c, c): one step along z is (-1, +1) in ranks. */
    sp->neighbour[0][SP_BEFORE] = (row - 1 + p) % p + p * column;
    sp->neighbour[0][SP_AFTER] = (row + 1) % p + p * column;
    sp->neighbour[1][SP_BEFORE] = row + p * ((column - 1 + p) % p);
    sp->neighbour[1][SP_AFTER] = row + p * ((column + 1) % p);
    sp->neighbour[2][SP_BEFORE] = (row + 1) % p + p * ((column - 1 + p) % p);
    sp->neighbour[2][SP_AFTER] = (row - 1 + p) % p + p * ((column + 1) % p);

    for (int axis = 0; axis < 3; axis++) {
        for (int way = SP_BEFORE; way <= SP_AFTER; way++) {
            /* A message from one side has the length of the one to that side. */
            size_t count = (size_t)face_count(sp, axis, (enum sp_way)way);

            sp->face_out[axis][way] = nas_allocate(count + 1, sizeof(double));
            sp->face_in[axis][way] = nas_allocate(count + 1, sizeof(double));
        }
    }
    widest = (size_t)(grid_points / p + 1);
    sp->line_out = nas_allocate(22 * widest * widest, sizeof(double));
    sp->line_in = nas_allocate(22 * widest * widest, sizeof(double));
    return 1;
}

void sp_destroy(struct sp *sp)
{
    for (int c = 0; c < sp->cells; c++) {
        nas_block_destroy(&sp->cell[c].grid);
        free(sp->cell[c].work);
    }
    free(sp->cell);
    for (int axis = 0; axis < 3; axis++) {
        free(sp->at[axis]);
        for (int way = SP_BEFORE; way <= SP_AFTER; way++) {
            free(sp->face_out[axis][way]);
            free(sp->face_in[axis][way]);
        }
    }
    free(sp->line_out);
    free(sp->line_in);
}

/* Packs the own planes towards, or unpacks the ghosts from, one side of every cell that has one. */
static void copy_side(struct sp *sp, int axis, enum sp_way way, int pack)
{
    double *buffer = pack ? sp->face_out[axis][way] : sp->face_in[axis][way];
    int none = SP_BEFORE == way ? 0 : sp->cells - 1;

    for (int c = 0; c < sp->cells; c++) {
        struct nas_block *b = &sp->cell[c].grid;
        int first = pack ? 0 : -NAS_GHOST;

        if (SP_AFTER == way) {
            first += pack ? b->size[axis] - NAS_GHOST : b->size[axis] + NAS_GHOST;
        }
        if (sp->cell[c].place[axis] != none) {
            buffer = nas_block_copy_planes(b, axis, first, buffer, pack);
        }
    }
}

void sp_exchange_faces(struct sp *sp)
{
    MPI_Request request[12];
    int requests = 0;

    if (1 == sp->cells) {
        return;
    }
    for (int axis = 0; axis < 3; axis++) {
        copy_side(sp, axis, SP_AFTER, 1);
        copy_side(sp, axis, SP_BEFORE, 1);
    }
    for (int axis = 0; axis < 3; axis++) {
        for (int way = SP_AFTER; way >= SP_BEFORE; way--) {
            MPI_Irecv(sp->face_in[axis][way], face_count(sp, axis, (enum sp_way)way), MPI_DOUBLE,
                      sp->neighbour[axis][way], FACE_TAG + 2 * axis + way, MPI_COMM_WORLD,
                      &request[requests++]);
        }
    }
    for (int axis = 0; axis < 3; axis++) {
        for (int way = SP_AFTER; way >= SP_BEFORE; way--) {
            /* Tags name the receiver's side: this rank's "after" is its neighbour's "before". */
            MPI_Isend(sp->face_out[axis][way], face_count(sp, axis, (enum sp_way)way), MPI_DOUBLE,
                      sp->neighbour[axis][way], FACE_TAG + 2 * axis + (1 - way), MPI_COMM_WORLD,
                      &request[requests++]);
        }
    }
    MPI_Waitall(requests, request, MPI_STATUSES_IGNORE);
    for (int axis = 0; axis < 3; axis++) {
        copy_side(sp, axis, SP_BEFORE, 0);
        copy_side(sp, axis, SP_AFTER, 0);
    }
}

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
