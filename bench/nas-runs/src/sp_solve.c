/* SPDX-License-Identifier: BSD-3-Clause */
/* SP's implicit step: scalar pentadiagonal systems along lines that cross p ranks' cells. */
#include <mpi.h>
#include <string.h>

#include "nas.h"
#include "sp.h"

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

void sp_to_x_characteristics(struct sp_cell *cell, double factor)
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
                /* Pressure change over the squared speed of sound: what is not entropy. */
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

/* To the next axis: its acoustic pair takes up the shear wave `out`, in whose place comes the
 * velocity along this axis; the other two waves change places, and one its sign. */
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

void sp_turn_x_to_y(struct sp_cell *cell)
{
    turn(cell, 0, 1, 2);
}

void sp_turn_y_to_z(struct sp_cell *cell)
{
    turn(cell, 1, 2, 0);
}

void sp_from_z_characteristics(struct sp_cell *cell)
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

size_t sp_work_size(const int size[3])
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

/* What one position's matrix row is made of. */
struct coefficients {
    double dissipation; /* dt / h^2 times the axis' second-order dissipation */
    double viscous;     /* dt / h^2 times the largest viscous coefficient */
    double convection;  /* dt / 2h */
    double fourth[5];   /* dt times the fourth difference's weights */
};

/* Fills a row's parts that need no other row: matrix and right-hand side. */
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

/* Eliminates the two variables before the diagonal with the help of the two rows before. */
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
            /* On the boundary nothing changes: x = 0. */
            memset(row, 0, (size_t)(ROW_ITEMS * l->lines) * sizeof *row);
        } else {
            const struct coefficients c = coefficients_at(sp, b, l->axis, n);

            eliminate_row(&c, row, work_row(cell, l, sheet, n - 1), work_row(cell, l, sheet, n - 2),
                          l->lines);
        }
    }
}

/* Solves an eliminated sheet from its end and stores the solution in rhs. */
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

/* Copies items from first_item on of two positions' rows to or from a message; returns its size. */
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
 * Sweeps in the order of the cells; each passes its last two rows, 22 numbers a line. Where there
 * is nothing to wait for, before the first cell and behind the last, a sheet goes through all its
 * work while it is in the cache.
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
            /* Setting up the matrices hides the message's way. */
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
    if (0 == axis) {
        sp_turn_x_to_y(cell);
    } else if (1 == axis) {
        sp_turn_y_to_z(cell);
    } else {
        sp_from_z_characteristics(cell);
    }
}

/*
 * Sweeps back from the last cell, which is solved already; each passes its first two solved points,
 * 10 numbers a line.
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
            /* Work on the previous cell overlaps, too. */
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

void sp_solve(struct sp *sp, int axis)
{
    sweep_forward(sp, axis);
    sweep_backward(sp, axis);
}
