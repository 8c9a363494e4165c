/* SPDX-License-Identifier: BSD-3-Clause */
/* rawe-lu: the NAS LU pseudo-application, five equations solved by SSOR with pipelined sweeps. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "nas.h"

/* Over-relaxation factor of the sweeps (RNR-94-007). */
#define LU_OMEGA 1.2

static const struct nas_class classes[] = {
    {'S',
     12,
     50,
     0.5,
     {1.6196343210976702e-02, 2.1976745164821318e-03, 1.5179927653399185e-03,
      1.5029584435994323e-03, 3.4264073155896461e-02},
     {6.4223319957960924e-04, 8.4144342047347926e-05, 5.8588269616485186e-05,
      5.8474222595157350e-05, 1.3103347914111294e-03},
     7.8418928865937083e+00},
    {'W',
     33,
     300,
     1.5e-3,
     {0.1236511638192e+02, 0.1317228477799e+01, 0.2550120713095e+01, 0.2326187750252e+01,
      0.2826799444189e+02},
     {0.4867877144216e+00, 0.5064652880982e-01, 0.9281818101960e-01, 0.8570126542733e-01,
      0.1084277417792e+01},
     0.1161399311023e+02},
    {'A',
     64,
     250,
     2.0,
     {7.7902107606689367e+02, 6.3402765259692870e+01, 1.9499249727292479e+02,
      1.7845301160418537e+02, 1.8384760349464247e+03},
     {2.9964085685471943e+01, 2.8194576365003349e+00, 7.3473412698774742e+00,
      6.7139225687777051e+00, 7.0715315688392578e+01},
     2.6030925604886277e+01},
    {'B',
     102,
     250,
     2.0,
     {3.5532672969982736e+03, 2.6214750795310692e+02, 8.8333721850952190e+02,
      7.7812774739425265e+02, 7.3087969592545314e+03},
     {1.1401176380212709e+02, 8.1098963655421574e+00, 2.8480597317698308e+01,
      2.5905394567832939e+01, 2.6054907504857413e+02},
     4.7887162703308227e+01},
};

enum lu_side { LU_X_BEFORE, LU_X_AFTER, LU_Y_BEFORE, LU_Y_AFTER };

/* The four 5x5 blocks of a point: its own and those of its neighbours on one side. */
enum lu_block { LU_DIAGONAL, LU_TOWARDS_X, LU_TOWARDS_Y, LU_TOWARDS_Z, LU_BLOCKS };

struct lu {
    struct nas_block grid;
    int ranks[2];     /* ranks along x and y */
    int neighbour[4]; /* by enum lu_side; MPI_PROC_NULL at the grid's boundary */
    double time_step;
    double *plane;    /* blocks of one plane of constant z: [y][lu_block][entry][x] */
    double *sums;     /* one row of five-variable vectors: [variable][x] */
    double *line;     /* one message of a sweep */
    double *faces_in; /* one message of the face exchange each */
    double *faces_out;
};

/* The blocks of one kind of a row of inner points; entries lie grid.size[0] apart. */
static inline double *lu_block_row(const struct lu *lu, int j, enum lu_block which)
{
    return lu->plane + ((ptrdiff_t)j * LU_BLOCKS + which) * NAS_VARS * NAS_VARS * lu->grid.size[0];
}

/* How LU divides the grid among ranks, and all its messages. */

enum { FACE_TAG = 1, SWEEP_TAG = 5 }; /* plus the sending side */

/* NPB's LU needs three points per rank: each face message carries two planes of them. */
enum { LEAST_POINTS = 3 };

/* Choose the numbers of ranks along x and y. Prints a message and returns 0 if they do not fit. */
static int divide(struct lu *lu, int processes, int grid_points)
{
    if (0 != (processes & (processes - 1))) {
        return nas_refuse("lu: %d ranks; LU needs a power of two. Start it with -np 1, 2, 4, ...\n",
                          processes);
    }
    /* x gets the larger factor, as in NPB. */
    lu->ranks[0] = lu->ranks[1] = 1;
    while (lu->ranks[0] * lu->ranks[1] < processes) {
        lu->ranks[lu->ranks[0] > lu->ranks[1] ? 1 : 0] *= 2;
    }
    if (grid_points / lu->ranks[0] < LEAST_POINTS) {
        return nas_refuse("lu: %d ranks leave less than %d of %d points to a rank. Use fewer ranks "
                          "or a larger class.\n",
                          processes, LEAST_POINTS, grid_points);
    }
    return 1;
}

static void allocate_buffers(struct lu *lu)
{
    const int *size = lu->grid.size;
    size_t row = (size_t)size[0];
    size_t longest = (size_t)(size[0] > size[1] ? size[0] : size[1]);
    size_t face = NAS_GHOST * NAS_VARS * longest * (size_t)size[2];

    /* Zeroed, because entries that are 0 in every Jacobian are never set. */
    lu->plane =
        nas_allocate(row * (size_t)size[1] * LU_BLOCKS * NAS_VARS * NAS_VARS, sizeof *lu->plane);
    lu->sums = nas_allocate(NAS_VARS * row, sizeof *lu->sums);
    lu->line = nas_allocate(NAS_VARS * longest, sizeof *lu->line);
    lu->faces_in = nas_allocate(face, sizeof *lu->faces_in);
    lu->faces_out = nas_allocate(face, sizeof *lu->faces_out);
}

/* Divide the x-y plane among the ranks. Prints a message and returns 0 if they do not fit. */
static int lu_create(struct lu *lu, int grid_points, double time_step)
{
    int rank, processes, place[2];
    int size[3] = {0, 0, grid_points}, origin[3] = {0, 0, 0};

    memset(lu, 0, sizeof *lu);
    PMPI_Comm_rank(MPI_COMM_WORLD, &rank);
    PMPI_Comm_size(MPI_COMM_WORLD, &processes);
    if (!divide(lu, processes, grid_points)) {
        return 0;
    }
    lu->time_step = time_step;
    place[0] = rank % lu->ranks[0];
    place[1] = rank / lu->ranks[0];
    lu->neighbour[LU_X_BEFORE] = place[0] > 0 ? rank - 1 : MPI_PROC_NULL;
    lu->neighbour[LU_X_AFTER] = place[0] < lu->ranks[0] - 1 ? rank + 1 : MPI_PROC_NULL;
    lu->neighbour[LU_Y_BEFORE] = place[1] > 0 ? rank - lu->ranks[0] : MPI_PROC_NULL;
    lu->neighbour[LU_Y_AFTER] = place[1] < lu->ranks[1] - 1 ? rank + lu->ranks[0] : MPI_PROC_NULL;
    for (int axis = 0; axis < 2; axis++) {
        nas_share(grid_points, lu->ranks[axis], place[axis], &size[axis], &origin[axis]);
    }
    nas_block_create(&lu->grid, size, origin, grid_points, 0);
    allocate_buffers(lu);
    return 1;
}

/* Send the planes next to side `to`; the neighbour there keeps them as ghosts of side `from`. */
static void shift_planes(struct lu *lu, int axis, enum lu_side from, enum lu_side to)
{
    struct nas_block *b = &lu->grid;
    int upwards = LU_X_AFTER == to || LU_Y_AFTER == to;
    int count = NAS_GHOST * NAS_VARS * b->size[1 - axis] * b->size[2];
    int tag = FACE_TAG + (int)from;
    MPI_Request request;

    if (MPI_PROC_NULL != lu->neighbour[from]) {
        MPI_Irecv(lu->faces_in, count, MPI_DOUBLE, lu->neighbour[from], tag, MPI_COMM_WORLD,
                  &request);
    }
    if (MPI_PROC_NULL != lu->neighbour[to]) {
        nas_block_copy_planes(b, axis, upwards ? b->size[axis] - NAS_GHOST : 0, lu->faces_out, 1);
        MPI_Send(lu->faces_out, count, MPI_DOUBLE, lu->neighbour[to], tag, MPI_COMM_WORLD);
    }
    if (MPI_PROC_NULL != lu->neighbour[from]) {
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        nas_block_copy_planes(b, axis, upwards ? -NAS_GHOST : b->size[axis], lu->faces_in, 0);
    }
}

/* Fill both ghost layers of u in x, then in y. */
static void lu_exchange_faces(struct lu *lu)
{
    shift_planes(lu, 0, LU_X_BEFORE, LU_X_AFTER);
    shift_planes(lu, 0, LU_X_AFTER, LU_X_BEFORE);
    shift_planes(lu, 1, LU_Y_BEFORE, LU_Y_AFTER);
    shift_planes(lu, 1, LU_Y_AFTER, LU_Y_BEFORE);
}

/*
 * Copy one line of updates, the inner points of constant x or y in plane k, to or from the
 * message buffer. `outside` selects the ghost line beyond the side, not this rank's edge line.
 */
static void copy_line(struct lu *lu, int k, enum lu_side side, int outside, int to_buffer)
{
    struct nas_block *b = &lu->grid;
    int axis = side >= LU_Y_BEFORE ? 1 : 0, other = 1 - axis;
    int after = LU_X_AFTER == side || LU_Y_AFTER == side;
    int edge = after ? b->size[axis] - 1 + outside : -outside;
    int count = b->high[other] - b->low[other];
    double *rhs =
        b->rhs + (0 == axis ? nas_vat(b, edge, b->low[1], k) : nas_vat(b, b->low[0], edge, k));
    double *buffer = lu->line;

    for (int n = 0; n < count; n++) {
        for (int m = 0; m < NAS_VARS; m++) {
            double *value = rhs + n * b->vstep[other] + m * b->next_var;

            if (to_buffer) {
                buffer[m] = *value;
            } else {
                *value = buffer[m];
            }
        }
        buffer += NAS_VARS;
    }
}

static int line_length(const struct lu *lu, enum lu_side side)
{
    int other = side >= LU_Y_BEFORE ? 0 : 1;

    return NAS_VARS * (lu->grid.high[other] - lu->grid.low[other]);
}

/* Exchange the updates of a plane's edge lines with a sweep's two neighbours: receive or send. */
static void lu_receive_lines(struct lu *lu, int k, enum lu_side x_side, enum lu_side y_side)
{
    const enum lu_side sides[2] = {x_side, y_side};

    for (int n = 0; n < 2; n++) {
        if (MPI_PROC_NULL != lu->neighbour[sides[n]]) {
            MPI_Recv(lu->line, line_length(lu, sides[n]), MPI_DOUBLE, lu->neighbour[sides[n]],
                     SWEEP_TAG + (int)sides[n], MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            copy_line(lu, k, sides[n], 1, 0);
        }
    }
}

static void lu_send_lines(struct lu *lu, int k, enum lu_side x_side, enum lu_side y_side)
{
    const enum lu_side sides[2] = {x_side, y_side};

    for (int n = 0; n < 2; n++) {
        if (MPI_PROC_NULL != lu->neighbour[sides[n]]) {
            /* Tags name the receiver's side: this rank's "after" is its neighbour's "before". */
            int tag = SWEEP_TAG + ((int)sides[n] ^ 1);

            copy_line(lu, k, sides[n], 0, 1);
            MPI_Send(lu->line, line_length(lu, sides[n]), MPI_DOUBLE, lu->neighbour[sides[n]], tag,
                     MPI_COMM_WORLD);
        }
    }
}

/* LU's Jacobian blocks: the 5x5 matrices of one plane of points, for either sweep. */

/* Jacobian entries of a row of points lie `row` apart; entry e of point i is at e * row + i. */
#define ENTRY(block, r, c) (block)[((r)*NAS_VARS + (c)) * row + i]

/* Coefficients of the viscous terms: of momentum a along an axis, and of temperature. */
static double stress(int a, int axis)
{
    return a == axis ? NAS_C3 * NAS_C4 * 4.0 / 3.0 : NAS_C3 * NAS_C4;
}

static const double heat = NAS_C1 * NAS_C3 * NAS_C4 * NAS_C5;

/*
 * Set, for a row of points starting at the offsets `at` and `vat`,
 *     convective * (Jacobian of the axis' flux) - viscous * (Jacobian of its viscous terms)
 */
static inline void fill_side(const struct nas_block *b, double *restrict block, ptrdiff_t at,
                             ptrdiff_t vat, int count, const int axis, double convective,
                             double viscous)
{
    const ptrdiff_t row = b->size[0];
    const double *restrict rho_inverse = b->rho_inverse + at;
    const double *restrict kinetic = b->kinetic + at;
    const double *restrict vx = b->velocity[0] + at;
    const double *restrict vy = b->velocity[1] + at;
    const double *restrict vz = b->velocity[2] + at;
    const double *restrict total_energy = b->u + vat + 4 * b->next_var;
    const double diagonal = -viscous * nas_dissipation[axis];

    for (int i = 0; i < count; i++) {
        const double v[3] = {vx[i], vy[i], vz[i]};
        const double w = v[axis];
        const double energy = total_energy[i] * rho_inverse[i];
        const double enthalpy = NAS_C1 * energy - NAS_C2 * kinetic[i];
        const double friction = -viscous * rho_inverse[i];
        double work = heat * energy;

        ENTRY(block, 0, 0) = diagonal;
        ENTRY(block, 0, 1 + axis) = convective;
        for (int a = 0; a < 3; a++) {
            const double normal = a == axis ? 1.0 : 0.0;

            ENTRY(block, 1 + a, 0) = convective * (normal * NAS_C2 * kinetic[i] - v[a] * w) -
                                     friction * stress(a, axis) * v[a];
            for (int c = 0; c < 3; c++) {
                ENTRY(block, 1 + a, 1 + c) =
                    convective * ((c == axis ? v[a] : 0.0) - normal * NAS_C2 * v[c]) +
                    (a == c ? convective * w + friction * stress(a, axis) + diagonal : 0.0);
            }
            ENTRY(block, 1 + a, 4) = normal * convective * NAS_C2;
            ENTRY(block, 4, 1 + a) = convective * (normal * enthalpy - NAS_C2 * v[a] * w) +
                                     friction * (stress(a, axis) - heat) * v[a];
            work += (stress(a, axis) - heat) * v[a] * v[a];
        }
        ENTRY(block, 4, 0) = convective * (NAS_C2 * kinetic[i] - enthalpy) * w - friction * work;
        ENTRY(block, 4, 4) = convective * NAS_C1 * w + friction * heat + diagonal;
    }
}

/* Set I + the viscous terms' Jacobian at the points themselves, twice viscous[axis] each. */
static void fill_diagonal(const struct nas_block *b, double *restrict block, ptrdiff_t at,
                          ptrdiff_t vat, int count, const double viscous[3])
{
    const ptrdiff_t row = b->size[0];
    const double *restrict rho_inverse = b->rho_inverse + at;
    const double *restrict total_energy = b->u + vat + 4 * b->next_var;
    double diagonal = 1.0, shear[3] = {0.0}, warmth = 0.0;

    for (int axis = 0; axis < 3; axis++) {
        diagonal += 2.0 * viscous[axis] * nas_dissipation[axis];
        warmth += 2.0 * viscous[axis] * heat;
        for (int a = 0; a < 3; a++) {
            shear[a] += 2.0 * viscous[axis] * stress(a, axis);
        }
    }
    for (int i = 0; i < count; i++) {
        ENTRY(block, 0, 0) = diagonal;
        ENTRY(block, 4, 0) = -rho_inverse[i] * rho_inverse[i] * warmth * total_energy[i];
        ENTRY(block, 4, 4) = diagonal + rho_inverse[i] * warmth;
    }
    for (int a = 0; a < 3; a++) {
        const double *restrict v = b->velocity[a] + at;

        for (int i = 0; i < count; i++) {
            const double work = rho_inverse[i] * (shear[a] - warmth) * v[i];

            ENTRY(block, 1 + a, 0) = -rho_inverse[i] * shear[a] * v[i];
            ENTRY(block, 1 + a, 1 + a) = diagonal + rho_inverse[i] * shear[a];
            ENTRY(block, 4, 1 + a) = work;
            ENTRY(block, 4, 0) -= work * v[i];
        }
    }
}

/*
 * Set the blocks of the inner points of plane k; needs the derived fields. direction is -1 for the
 * lower sweep, whose side blocks belong to the neighbours before a point, and +1 for the upper one.
 */
static void lu_make_blocks(struct lu *lu, int k, int direction)
{
    const struct nas_block *b = &lu->grid;
    const int count = b->high[0] - b->low[0];
    double viscous[3], convective[3];

    for (int axis = 0; axis < 3; axis++) {
        double per_h = b->global[axis] - 1;

        viscous[axis] = lu->time_step * per_h * per_h;
        convective[axis] = direction * lu->time_step * 0.5 * per_h;
    }
    for (int j = b->low[1]; j < b->high[1]; j++) {
        const ptrdiff_t at = nas_at(b, b->low[0], j, k), vat = nas_vat(b, b->low[0], j, k);
        const ptrdiff_t s1 = direction * b->step[1], s2 = direction * b->step[2];
        const ptrdiff_t v1 = direction * b->vstep[1], v2 = direction * b->vstep[2];

        fill_diagonal(b, lu_block_row(lu, j, LU_DIAGONAL), at, vat, count, viscous);
        fill_side(b, lu_block_row(lu, j, LU_TOWARDS_X), at + direction, vat + direction, count, 0,
                  convective[0], viscous[0]);
        fill_side(b, lu_block_row(lu, j, LU_TOWARDS_Y), at + s1, vat + v1, count, 1, convective[1],
                  viscous[1]);
        fill_side(b, lu_block_row(lu, j, LU_TOWARDS_Z), at + s2, vat + v2, count, 2, convective[2],
                  viscous[2]);
    }
}

/* LU's SSOR step: Jacobian blocks of a plane, then the lower and the upper triangular sweep. */

/*
 * Factor the diagonal blocks of a row of points in place into L (without its unit diagonal) and U
 * (with the inverses of its pivots); no pivoting, the blocks are diagonally heavy.
 */
static void factor_row(double *restrict block, ptrdiff_t row, int count)
{
    for (int p = 0; p < NAS_VARS; p++) {
        double *restrict pivot = block + (p * NAS_VARS + p) * row;

        for (int i = 0; i < count; i++) {
            pivot[i] = 1.0 / pivot[i];
        }
        for (int m = p + 1; m < NAS_VARS; m++) {
            double *restrict factor = block + (m * NAS_VARS + p) * row;

            for (int i = 0; i < count; i++) {
                factor[i] *= pivot[i];
            }
            for (int n = p + 1; n < NAS_VARS; n++) {
                double *restrict to = block + (m * NAS_VARS + n) * row;
                const double *restrict from = block + (p * NAS_VARS + n) * row;

                for (int i = 0; i < count; i++) {
                    to[i] -= factor[i] * from[i];
                }
            }
        }
    }
}

/* Solve L U x = x for one point of a factored row. */
static inline void solve_point(const double *restrict block, ptrdiff_t row, double x[NAS_VARS])
{
    for (int m = 1; m < NAS_VARS; m++) {
        for (int p = 0; p < m; p++) {
            x[m] -= block[(m * NAS_VARS + p) * row] * x[p];
        }
    }
    for (int m = NAS_VARS - 1; m >= 0; m--) {
        for (int p = m + 1; p < NAS_VARS; p++) {
            x[m] -= block[(m * NAS_VARS + p) * row] * x[p];
        }
        x[m] *= block[(m * NAS_VARS + m) * row];
    }
}

/* sums = y_block * y_vector + z_block * z_vector for a row; vectors' variables lie var apart. */
static void multiply_rows(double *restrict sums, const double *restrict y_block,
                          const double *restrict y_vector, const double *restrict z_block,
                          const double *restrict z_vector, ptrdiff_t row, ptrdiff_t var, int count)
{
    for (int m = 0; m < NAS_VARS; m++) {
        double *restrict sum = sums + m * row;
        const double *restrict y = y_block + m * NAS_VARS * row;
        const double *restrict z = z_block + m * NAS_VARS * row;

        for (int i = 0; i < count; i++) {
            double total = 0.0;

            for (int n = 0; n < NAS_VARS; n++) {
                total +=
                    y[n * row + i] * y_vector[n * var + i] + z[n * row + i] * z_vector[n * var + i];
            }
            sum[i] = total;
        }
    }
}

/* x += block * vector at one point. */
static inline void multiply_point(double x[NAS_VARS], const double *restrict block, ptrdiff_t row,
                                  const double *restrict vector, ptrdiff_t var)
{
    for (int m = 0; m < NAS_VARS; m++) {
        for (int n = 0; n < NAS_VARS; n++) {
            x[m] += block[(m * NAS_VARS + n) * row] * vector[n * var];
        }
    }
}

/*
 * Add the contributions of the neighbours in y and z, which are products of whole rows. Only the
 * chain along x has to be computed point by point.
 */
static void start_row(struct lu *lu, int j, int k, int direction)
{
    struct nas_block *b = &lu->grid;
    const double *rhs = b->rhs + nas_vat(b, b->low[0], j, k);
    const int count = b->high[0] - b->low[0];

    multiply_rows(lu->sums, lu_block_row(lu, j, LU_TOWARDS_Y), rhs + direction * b->vstep[1],
                  lu_block_row(lu, j, LU_TOWARDS_Z), rhs + direction * b->vstep[2], b->size[0],
                  b->next_var, count);
    factor_row(lu_block_row(lu, j, LU_DIAGONAL), b->size[0], count);
}

/*
 * Solve in plane k, in place: (D + omega L) v = rhs upwards (`direction` -1: a point depends on
 * those before it), (I + omega D^-1 U) v = rhs downwards (1).
 */
static void sweep_plane(struct lu *lu, int k, int direction)
{
    struct nas_block *b = &lu->grid;
    const ptrdiff_t var = b->next_var, row = b->size[0];
    const int rows = b->high[1] - b->low[1], count = b->high[0] - b->low[0];

    for (int n = 0; n < rows; n++) {
        const int j = direction < 0 ? b->low[1] + n : b->high[1] - 1 - n;
        const double *diagonal = lu_block_row(lu, j, LU_DIAGONAL);
        const double *side = lu_block_row(lu, j, LU_TOWARDS_X);
        double *rhs = b->rhs + nas_vat(b, b->low[0], j, k);

        start_row(lu, j, k, direction);
        for (int along = 0; along < count; along++) {
            const int i = direction < 0 ? along : count - 1 - along;
            double x[NAS_VARS];

            for (int m = 0; m < NAS_VARS; m++) {
                x[m] = lu->sums[m * row + i];
            }
            multiply_point(x, side + i, row, rhs + i + direction, var);
            for (int m = 0; m < NAS_VARS && direction < 0; m++) {
                x[m] = rhs[m * var + i] - LU_OMEGA * x[m];
            }
            solve_point(diagonal + i, row, x);
            for (int m = 0; m < NAS_VARS; m++) {
                rhs[m * var + i] = direction < 0 ? x[m] : rhs[m * var + i] - LU_OMEGA * x[m];
            }
        }
    }
}

/* Ghost exchange and right-hand side. */
static void lu_residual(struct lu *lu)
{
    lu_exchange_faces(lu);
    nas_block_derive(&lu->grid);
    nas_block_residual(&lu->grid);
}

/* One SSOR step: turns rhs into the update and adds it to u. */
static void lu_step(struct lu *lu)
{
    struct nas_block *b = &lu->grid;

    nas_block_scale(b, b->rhs, b->rhs, lu->time_step, 0.0);
    for (int k = b->low[2]; k < b->high[2]; k++) {
        lu_make_blocks(lu, k, -1);
        lu_receive_lines(lu, k, LU_X_BEFORE, LU_Y_BEFORE);
        sweep_plane(lu, k, -1);
        lu_send_lines(lu, k, LU_X_AFTER, LU_Y_AFTER);
    }
    for (int k = b->high[2] - 1; k >= b->low[2]; k--) {
        lu_make_blocks(lu, k, 1);
        lu_receive_lines(lu, k, LU_X_AFTER, LU_Y_AFTER);
        sweep_plane(lu, k, 1);
        lu_send_lines(lu, k, LU_X_BEFORE, LU_Y_BEFORE);
    }
    nas_block_scale(b, b->rhs, b->u, 1.0 / (LU_OMEGA * (2.0 - LU_OMEGA)), 1.0);
    lu_residual(lu);
}

/*
 * Trapezoidal sum of the pressure over the two faces across `axis` of the box from..to (global
 * indices): a point in the middle of a face belongs to four cells, one on an edge to two, one in a
 * corner to one. Points of other ranks are left to them.
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
    /* The report's box, with indices from 0. */
    const int from[3] = {1, 1, 2}, to[3] = {n - 2, n - 3, n - 2};

    for (int axis = 0; axis < 3; axis++) {
        own += faces_integral(lu, axis, from, to) * h * h;
    }
    MPI_Allreduce(&own, &all, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    return 0.25 * all;
}

/* Floating point operations of a run, by the formula of NPB's LU. */
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
    nas_block_add_squares(&lu->grid, lu->grid.rhs, 0, sum);
    nas_norm(sum, lu->grid.global[0], run->residual);

    PMPI_Barrier(MPI_COMM_WORLD);
    nas_mpi_clock_start();
    start = PMPI_Wtime();
    for (int step = 0; step < run->iterations; step++) {
        lu_step(lu);
    }
    memset(sum, 0, sizeof sum);
    nas_block_add_squares(&lu->grid, lu->grid.rhs, 0, sum);
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
    if (!nas_run_options(&run, "LU", classes, argc, argv) ||
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
    nas_block_add_squares(&lu.grid, lu.grid.u, 1, sum);
    nas_norm(sum, run.class_data->points, run.error);
    nas_block_derive(&lu.grid);
    run.surface = surface_integral(&lu);
    run.operations = operations(run.class_data->points, run.iterations);
    agrees = nas_run_report(&run);
    MPI_Finalize();
    return agrees ? 0 : 1;
}
