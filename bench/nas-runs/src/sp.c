/* SPDX-License-Identifier: BSD-3-Clause */
/* rawe-sp: the NAS SP pseudo-application, five equations by approximately factored line solves. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "nas.h"

static const struct nas_class classes[] = {
    {'S',
     12,
     100,
     0.015,
     {2.7470315451339479e-02, 1.0360746705285417e-02, 1.6235745065095532e-02,
      1.5840557224455615e-02, 3.4849040609362460e-02},
     {2.7289258557377227e-05, 1.0364446640837285e-05, 1.6154798287166471e-05,
      1.5750704994480102e-05, 3.4177666183390531e-05},
     0},
    {'W',
     36,
     400,
     0.0015,
     {0.1893253733584e-02, 0.1717075447775e-03, 0.2778153350936e-03, 0.2887475409984e-03,
      0.3143611161242e-02},
     {0.7542088599534e-04, 0.6512852253086e-05, 0.1049092285688e-04, 0.1128838671535e-04,
      0.1212845639773e-03},
     0},
    {'A',
     64,
     400,
     0.0015,
     {2.4799822399300195e+00, 1.1276337964368832e+00, 1.5028977888770491e+00,
      1.4217816211695179e+00, 2.1292113035138280e+00},
     {1.0900140297820550e-04, 3.7343951769282091e-05, 5.0092785406541633e-05,
      4.7671093939528255e-05, 1.3621613399213001e-04},
     0},
    {'B',
     102,
     400,
     0.001,
     {0.6903293579998e+02, 0.3095134488084e+02, 0.4103336647017e+02, 0.3864769009604e+02,
      0.5643482272596e+02},
     {0.9810006190188e-02, 0.1022827905670e-02, 0.1720597911692e-02, 0.1694479428231e-02,
      0.1847456263981e-01},
     0},
};

/*
 * With p * p ranks the grid is cut into p * p * p cells, and a rank owns p of them along a
 * diagonal, so that in every stage of a sweep along any axis each rank has exactly one cell to
 * work on.
 */
struct sp_cell {
    struct nas_block grid;
    int place[3]; /* which cell along each axis, 0 .. p-1 */
    double *work; /* rows of the line solver, see struct lines */
};

enum sp_way { SP_BEFORE, SP_AFTER };

struct sp {
    int cells;            /* p */
    struct sp_cell *cell; /* p of them, in order of their place along z */
    int *at[3];           /* at[axis][n]: index of the cell whose place along axis is n */
    int neighbour[3][2];  /* rank owning the next cell, by axis and way */
    double time_step;
    double *face_out[3][2]; /* one message of the face exchange each */
    double *face_in[3][2];
    double *line_out; /* one message of a sweep each */
    double *line_in;
};

/* SP's changes of basis between conserved and characteristic variables of each axis. */

#define SQRT_HALF 0.70710678118654752440

/* One row of inner points along x of all five variables, and the scalars it needs. */
struct row {
    double *r[NAS_VARS];
    const double *u;
    const double *rho_inverse;
    const double *velocity[3];
    const double *kinetic;
    const double *sound;
    int count;
};

static struct row row_at(const struct nas_block *b, int j, int k)
{
    ptrdiff_t at = nas_at(b, b->low[0], j, k), vat = nas_vat(b, b->low[0], j, k);
    struct row row = {
        .u = b->u + vat,
        .rho_inverse = b->rho_inverse + at,
        .velocity = {b->velocity[0] + at, b->velocity[1] + at, b->velocity[2] + at},
        .kinetic = b->kinetic + at,
        .sound = b->sound + at,
        .count = b->high[0] - b->low[0],
    };

    for (int m = 0; m < NAS_VARS; m++) {
        row.r[m] = b->rhs + vat + m * b->next_var;
    }
    return row;
}

/* rhs = factor * Tx^-1 * rhs: characteristic variables, at the inner points (RNR-94-007). */
static void to_x_characteristics(struct sp_cell *cell, double factor)
{
    const struct nas_block *b = &cell->grid;

    for (int k = b->low[2]; k < b->high[2]; k++) {
        for (int j = b->low[1]; j < b->high[1]; j++) {
            const struct row row = row_at(b, j, k);
            double *restrict r0 = row.r[0], *restrict r1 = row.r[1], *restrict r2 = row.r[2];
            double *restrict r3 = row.r[3], *restrict r4 = row.r[4];

            for (int i = 0; i < row.count; i++) {
                double u = row.velocity[0][i], v = row.velocity[1][i], w = row.velocity[2][i];
                double inverse = row.rho_inverse[i], a = row.sound[i];
                double mass = factor * r0[i], x = factor * r1[i], y = factor * r2[i];
                double z = factor * r3[i], energy = factor * r4[i];
                /* Pressure change over the squared speed of sound: the part that is not entropy. */
                double acoustic =
                    NAS_C2 / (a * a) * (row.kinetic[i] * mass - u * x - v * y - w * z + energy);
                double even = SQRT_HALF * inverse * a * acoustic;
                double odd = SQRT_HALF * inverse * (x - u * mass);

                r0[i] = mass - acoustic;
                r1[i] = inverse * (z - w * mass);
                r2[i] = inverse * (v * mass - y);
                r3[i] = even + odd;
                r4[i] = even - odd;
            }
        }
    }
}

/* Turn to the next axis: its acoustic pair takes over the shear wave `out`, which the velocity
 * along this axis replaces; the other two waves change places, and one of them its sign. */
static void turn(struct sp_cell *cell, int first, int second, int out)
{
    const struct nas_block *b = &cell->grid;

    for (int k = b->low[2]; k < b->high[2]; k++) {
        for (int j = b->low[1]; j < b->high[1]; j++) {
            const struct row row = row_at(b, j, k);
            double *restrict r0 = row.r[first], *restrict r1 = row.r[second];
            double *restrict r2 = row.r[out];
            double *restrict r3 = row.r[3], *restrict r4 = row.r[4];

            for (int i = 0; i < row.count; i++) {
                double kept = r0[i], odd = SQRT_HALF * r2[i];
                double even = 0.5 * (r3[i] + r4[i]), wave = SQRT_HALF * (r3[i] - r4[i]);

                r0[i] = -r1[i];
                r1[i] = kept;
                r2[i] = wave;
                r3[i] = even - odd;
                r4[i] = even + odd;
            }
        }
    }
}

/* rhs = Tz * rhs, at the inner points (RNR-94-007). */
static void from_z_characteristics(struct sp_cell *cell)
{
    const struct nas_block *b = &cell->grid;

    for (int k = b->low[2]; k < b->high[2]; k++) {
        for (int j = b->low[1]; j < b->high[1]; j++) {
            const struct row row = row_at(b, j, k);
            double *restrict r0 = row.r[0], *restrict r1 = row.r[1], *restrict r2 = row.r[2];
            double *restrict r3 = row.r[3], *restrict r4 = row.r[4];

            for (int i = 0; i < row.count; i++) {
                double u = row.velocity[0][i], v = row.velocity[1][i], w = row.velocity[2][i];
                double rho = row.u[i], a = row.sound[i];
                double even = SQRT_HALF * rho / a * (r3[i] + r4[i]);
                double wave = SQRT_HALF * rho * (r3[i] - r4[i]);
                double mass = r2[i] + even;
                double x = rho * r1[i], y = rho * r0[i];

                r0[i] = mass;
                r1[i] = u * mass - x;
                r2[i] = v * mass + y;
                r3[i] = w * mass + wave;
                r4[i] = row.kinetic[i] * mass + v * y - u * x + w * wave + a * a / NAS_C2 * even;
            }
        }
    }
}

enum { FORWARD_TAG = 200, BACKWARD_TAG = 210 }; /* plus the axis */

/*
 * The convective eigenvalues along an axis are velocity (three times), velocity + sound and
 * velocity - sound, so five variables need three matrices. Row n of an eliminated system reads
 *     x[n] + next * x[n + 1] + far * x[n + 2] = value
 */
enum {
    SYSTEMS = 3,
    ROW_NEXT = 0,
    ROW_FAR = 3,
    ROW_VALUE = 6,
    ROW_SENT = 11, /* items that other cells need */
    /* Before its elimination a row holds its matrix in the same place. */
    ROW_UPPER = ROW_NEXT,
    ROW_LOWER = ROW_FAR,
    ROW_CENTRE = ROW_SENT,
    ROW_ITEMS
};
static const int system_of[NAS_VARS] = {0, 0, 0, 1, 2};

/*
 * The workspace of a cell holds [sheet][position][item][line]: position runs along the axis and
 * has two rows more on each side (from the cell before, from the cell after); line and sheet run
 * across it, lines along x where possible since those lie together in memory.
 */
struct lines {
    int axis;
    int line_axis, sheet_axis;
    int positions;
    int lines, sheets; /* inner ones */
};

static struct lines lines_of(const struct nas_block *b, int axis)
{
    struct lines l = {.axis = axis, .positions = b->size[axis]};

    l.line_axis = 0 == axis ? 1 : 0;
    l.sheet_axis = 2 == axis ? 1 : 2;
    l.lines = b->high[l.line_axis] - b->low[l.line_axis];
    l.sheets = b->high[l.sheet_axis] - b->low[l.sheet_axis];
    return l;
}

/* Doubles of workspace that a cell of this size needs. */
static size_t work_size(const int size[3])
{
    size_t largest = 0;

    for (int axis = 0; axis < 3; axis++) {
        size_t across = (size_t)size[(axis + 1) % 3] * (size_t)size[(axis + 2) % 3];
        size_t need = across * (size_t)(size[axis] + 4) * ROW_ITEMS;

        largest = need > largest ? need : largest;
    }
    return largest;
}

static double *work_row(const struct sp_cell *cell, const struct lines *l, int sheet, int position)
{
    return cell->work +
           ((ptrdiff_t)sheet * (l->positions + 4) + position + 2) * ROW_ITEMS * l->lines;
}

/* Local coordinates of line 0 of a sheet at a position along the axis. */
static void locate(const struct nas_block *b, const struct lines *l, int sheet, int position,
                   int index[3])
{
    index[l->axis] = position;
    index[l->line_axis] = b->low[l->line_axis];
    index[l->sheet_axis] = b->low[l->sheet_axis] + sheet;
}

/* The coefficients of one position's matrix row. */
struct coefficients {
    double dissipation; /* dt / h^2 times the axis' second-order dissipation */
    double viscous;     /* dt / h^2 times the largest viscous coefficient */
    double convection;  /* dt / 2h */
    double fourth[5];   /* dt times the fourth difference's weights */
};

/* Fill the parts of a row that need no other row: matrix and right-hand side. */
static inline void prepare_row(const struct nas_block *b, const struct lines *l,
                               const struct coefficients *c, const int index[3],
                               double *restrict row, const ptrdiff_t step, const ptrdiff_t vstep)
{
    const ptrdiff_t at = nas_at(b, index[0], index[1], index[2]), along = b->step[l->axis];
    const double *restrict velocity = b->velocity[l->axis] + at;
    const double *restrict sound = b->sound + at;
    const double *restrict rho_inverse = b->rho_inverse + at;
    const double *restrict rhs = b->rhs + nas_vat(b, index[0], index[1], index[2]);
    const int lines = l->lines;

    for (int n = 0; n < lines; n++) {
        const ptrdiff_t p = n * step;
        const double previous = c->dissipation + c->viscous * rho_inverse[p - along];
        const double own = c->dissipation + c->viscous * rho_inverse[p];
        const double following = c->dissipation + c->viscous * rho_inverse[p + along];
        const double lower = -c->convection * velocity[p - along] - previous + c->fourth[1];
        const double upper = c->convection * velocity[p + along] - following + c->fourth[3];
        const double sound_lower = c->convection * sound[p - along];
        const double sound_upper = c->convection * sound[p + along];

        row[ROW_CENTRE * lines + n] = 1.0 + 2.0 * own + c->fourth[2];
        row[(ROW_LOWER + 0) * lines + n] = lower;
        row[(ROW_LOWER + 1) * lines + n] = lower - sound_lower;
        row[(ROW_LOWER + 2) * lines + n] = lower + sound_lower;
        row[(ROW_UPPER + 0) * lines + n] = upper;
        row[(ROW_UPPER + 1) * lines + n] = upper + sound_upper;
        row[(ROW_UPPER + 2) * lines + n] = upper - sound_upper;
    }
    for (int m = 0; m < NAS_VARS; m++) {
        for (int n = 0; n < lines; n++) {
            row[(ROW_VALUE + m) * lines + n] = rhs[m * b->next_var + n * vstep];
        }
    }
}

static struct coefficients coefficients_at(const struct sp *sp, const struct nas_block *b, int axis,
                                           int position)
{
    const double per_h = b->global[axis] - 1, dt = sp->time_step;
    struct coefficients c = {
        .dissipation = dt * per_h * per_h * nas_dissipation[axis],
        /* Heat conduction has the largest of the viscous coefficients: C1 C5 > 4/3 > 1. */
        .viscous = dt * per_h * per_h * NAS_C3 * NAS_C4 * NAS_C1 * NAS_C5,
        .convection = dt * 0.5 * per_h,
    };

    nas_fourth_difference(b->origin[axis] + position, b->global[axis], c.fourth);
    for (int w = 0; w < 5; w++) {
        c.fourth[w] *= dt * NAS_DISSIPATION4;
    }
    return c;
}

static void prepare_sheet(const struct sp *sp, struct sp_cell *cell, const struct lines *l,
                          int sheet)
{
    const struct nas_block *b = &cell->grid;

    for (int n = b->low[l->axis]; n < b->high[l->axis]; n++) {
        const struct coefficients c = coefficients_at(sp, b, l->axis, n);
        double *row = work_row(cell, l, sheet, n);
        int index[3];

        locate(b, l, sheet, n, index);
        if (0 == l->line_axis) {
            prepare_row(b, l, &c, index, row, 1, 1);
        } else {
            prepare_row(b, l, &c, index, row, b->step[1], b->vstep[1]);
        }
    }
}

/* Eliminate the two variables before the diagonal using the two preceding rows. */
static void eliminate_row(const struct coefficients *c, double *restrict row,
                          const double *restrict before, const double *restrict before2, int lines)
{
    const double a = c->fourth[0], e = c->fourth[4];

    for (int n = 0; n < lines; n++) {
        for (int t = 0; t < SYSTEMS; t++) {
            const int next = (ROW_NEXT + t) * lines + n, far = (ROW_FAR + t) * lines + n;
            const double b = row[(ROW_LOWER + t) * lines + n] - a * before2[next];
            const double inverse =
                1.0 / (row[ROW_CENTRE * lines + n] - a * before2[far] - b * before[next]);

            row[next] = (row[(ROW_UPPER + t) * lines + n] - b * before[far]) * inverse;
            row[far] = e * inverse;
            for (int m = 0; m < NAS_VARS; m++) {
                if (system_of[m] == t) {
                    const int item = (ROW_VALUE + m) * lines + n;

                    row[item] = (row[item] - a * before2[item] - b * before[item]) * inverse;
                }
            }
        }
    }
}

static void eliminate_sheet(const struct sp *sp, struct sp_cell *cell, const struct lines *l,
                            int sheet)
{
    const struct nas_block *b = &cell->grid;

    for (int n = 0; n < l->positions; n++) {
        double *row = work_row(cell, l, sheet, n);

        if (n < b->low[l->axis] || n >= b->high[l->axis]) {
            /* Nothing changes on the boundary: x = 0. */
            memset(row, 0, (size_t)(ROW_ITEMS * l->lines) * sizeof *row);
        } else {
            const struct coefficients c = coefficients_at(sp, b, l->axis, n);

            eliminate_row(&c, row, work_row(cell, l, sheet, n - 1), work_row(cell, l, sheet, n - 2),
                          l->lines);
        }
    }
}

/* Solve an eliminated sheet from its end and store the solution in rhs. */
static void substitute_sheet(struct sp_cell *cell, const struct lines *l, int sheet)
{
    struct nas_block *b = &cell->grid;
    const ptrdiff_t vstep = b->vstep[l->line_axis];

    for (int n = l->positions - 1; n >= 0; n--) {
        double *restrict row = work_row(cell, l, sheet, n);
        const double *restrict after = work_row(cell, l, sheet, n + 1);
        const double *restrict after2 = work_row(cell, l, sheet, n + 2);
        double *rhs;
        int index[3];

        locate(b, l, sheet, n, index);
        rhs = b->rhs + nas_vat(b, index[0], index[1], index[2]);
        for (int m = 0; m < NAS_VARS; m++) {
            const double *restrict next = row + (ROW_NEXT + system_of[m]) * l->lines;
            const double *restrict far = row + (ROW_FAR + system_of[m]) * l->lines;
            const int item = (ROW_VALUE + m) * l->lines;
            double *out = rhs + m * b->next_var;

            for (int x = 0; x < l->lines; x++) {
                double value =
                    row[item + x] - next[x] * after[item + x] - far[x] * after2[item + x];

                row[item + x] = value;
                out[x * vstep] = value;
            }
        }
    }
}

/* Copy items from first_item on of two positions' rows to or from a message; returns its size. */
static int copy_rows(struct sp_cell *cell, int axis, int position, int first_item, double *buffer,
                     int to_buffer)
{
    const struct lines l = lines_of(&cell->grid, axis);
    size_t count = (size_t)((ROW_SENT - first_item) * l.lines);
    double *start = buffer;

    for (int sheet = 0; sheet < l.sheets; sheet++) {
        for (int n = 0; n < 2; n++) {
            double *row = work_row(cell, &l, sheet, position + n) + first_item * l.lines;

            memcpy(to_buffer ? buffer : row, to_buffer ? row : buffer, count * sizeof *row);
            buffer += count;
        }
    }
    return (int)(buffer - start);
}

static int rows_length(const struct sp_cell *cell, int axis, int first_item)
{
    const struct lines l = lines_of(&cell->grid, axis);

    return 2 * (ROW_SENT - first_item) * l.lines * l.sheets;
}

/*
 * Sweep in the order of the cells; each passes its last two rows, 22 numbers per line. Before the
 * first cell and after the last, where nothing has to be awaited, all work on a sheet is done while
 * it is in the cache.
 */
static void sweep_forward(struct sp *sp, int axis)
{
    MPI_Request request[2] = {MPI_REQUEST_NULL, MPI_REQUEST_NULL};

    for (int stage = 0; stage < sp->cells; stage++) {
        struct sp_cell *cell = &sp->cell[sp->at[axis][stage]];
        const struct lines l = lines_of(&cell->grid, axis);

        if (stage > 0) {
            MPI_Irecv(sp->line_in, rows_length(cell, axis, 0), MPI_DOUBLE,
                      sp->neighbour[axis][SP_BEFORE], FORWARD_TAG + axis, MPI_COMM_WORLD,
                      &request[0]);
            /* Set up the matrices while the message is in flight. */
            for (int sheet = 0; sheet < l.sheets; sheet++) {
                prepare_sheet(sp, cell, &l, sheet);
            }
            MPI_Waitall(2, request, MPI_STATUSES_IGNORE);
            copy_rows(cell, axis, -2, 0, sp->line_in, 0);
        }
        for (int sheet = 0; sheet < l.sheets; sheet++) {
            if (0 == stage) {
                prepare_sheet(sp, cell, &l, sheet);
            }
            eliminate_sheet(sp, cell, &l, sheet);
            if (stage == sp->cells - 1) {
                substitute_sheet(cell, &l, sheet);
            }
        }
        if (stage < sp->cells - 1) {
            int count = copy_rows(cell, axis, cell->grid.size[axis] - 2, 0, sp->line_out, 1);

            MPI_Isend(sp->line_out, count, MPI_DOUBLE, sp->neighbour[axis][SP_AFTER],
                      FORWARD_TAG + axis, MPI_COMM_WORLD, &request[1]);
        }
    }
}

static void leave_axis(struct sp_cell *cell, int axis)
{
    if (2 == axis) {
        from_z_characteristics(cell);
    } else {
        turn(cell, axis, axis + 1, (axis + 2) % 3);
    }
}

/*
 * Sweep back from the last cell, which is already solved; each passes its first two solved points,
 * 10 numbers per line.
 */
static void sweep_backward(struct sp *sp, int axis)
{
    MPI_Request request[2] = {MPI_REQUEST_NULL, MPI_REQUEST_NULL};

    for (int stage = sp->cells - 1; stage >= 0; stage--) {
        struct sp_cell *cell = &sp->cell[sp->at[axis][stage]];
        const struct lines l = lines_of(&cell->grid, axis);

        if (stage < sp->cells - 1) {
            MPI_Irecv(sp->line_in, rows_length(cell, axis, ROW_VALUE), MPI_DOUBLE,
                      sp->neighbour[axis][SP_AFTER], BACKWARD_TAG + axis, MPI_COMM_WORLD,
                      &request[0]);
            /* Work on the previous cell overlaps with the message. */
            leave_axis(&sp->cell[sp->at[axis][stage + 1]], axis);
            MPI_Waitall(2, request, MPI_STATUSES_IGNORE);
            copy_rows(cell, axis, cell->grid.size[axis], ROW_VALUE, sp->line_in, 0);
            for (int sheet = 0; sheet < l.sheets; sheet++) {
                substitute_sheet(cell, &l, sheet);
            }
        }
        if (stage > 0) {
            int count = copy_rows(cell, axis, 0, ROW_VALUE, sp->line_out, 1);

            MPI_Isend(sp->line_out, count, MPI_DOUBLE, sp->neighbour[axis][SP_BEFORE],
                      BACKWARD_TAG + axis, MPI_COMM_WORLD, &request[1]);
        }
    }
    leave_axis(&sp->cell[sp->at[axis][0]], axis);
}

/* Solve the scalar pentadiagonal systems along an axis through all ranks' cells. */
static void solve(struct sp *sp, int axis)
{
    sweep_forward(sp, axis);
    sweep_backward(sp, axis);
}

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

/* Set *cells to the cells along an axis. Prints a message and returns 0 if the ranks do not fit. */
static int divide(int processes, int grid_points, int *cells)
{
    int p = 1;

    while (p * p < processes) {
        p++;
    }
    *cells = p;
    if (p * p != processes) {
        return nas_refuse("sp: %d ranks; SP needs a square. Start it with -np 1, 4, 9, 16, ...\n",
                          processes);
    }
    if (grid_points / p < LEAST_POINTS) {
        return nas_refuse("sp: %d ranks leave less than %d of %d points to a cell. Use fewer ranks "
                          "or a larger class.\n",
                          processes, LEAST_POINTS, grid_points);
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
        cell->work = nas_allocate(work_size(size), sizeof *cell->work);
    }
}

/* Divide the grid among the ranks. Prints a message and returns 0 if they do not fit. */
static int sp_create(struct sp *sp, int grid_points, double time_step)
{
    int rank, processes, row, column, p;
    size_t widest;

    memset(sp, 0, sizeof *sp);
    PMPI_Comm_rank(MPI_COMM_WORLD, &rank);
    PMPI_Comm_size(MPI_COMM_WORLD, &processes);
    if (!divide(processes, grid_points, &sp->cells)) {
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
            /* Messages from and to a side have the same length. */
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

/* For each cell with a neighbour on this side, pack its planes or unpack the ghost planes. */
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

/* Fill both ghost layers of u on all six sides of every cell. */
static void exchange_faces(struct sp *sp)
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
    exchange_faces(sp);
    for (int c = 0; c < sp->cells; c++) {
        nas_block_derive(&sp->cell[c].grid);
        nas_block_residual(&sp->cell[c].grid);
    }
}

/* One time step. */
static void make_step(struct sp *sp)
{
    set_residual(sp);
    for (int c = 0; c < sp->cells; c++) {
        to_x_characteristics(&sp->cell[c], sp->time_step);
    }
    for (int axis = 0; axis < 3; axis++) {
        solve(sp, axis);
    }
    for (int c = 0; c < sp->cells; c++) {
        struct nas_block *b = &sp->cell[c].grid;

        nas_block_scale(b, b->rhs, b->u, 1.0, 1.0);
    }
}

/* Floating point operations of a run, by the formula of NPB's SP. */
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
        const struct nas_block *b = &sp->cell[c].grid;

        nas_block_add_squares(b, b->u, 1, error);
        nas_block_add_squares(b, b->rhs, 0, residual);
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
    if (!nas_run_options(&run, "SP", classes, argc, argv) ||
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
    MPI_Finalize();
    return agrees ? 0 : 1;
}
