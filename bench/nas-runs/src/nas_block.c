/* SPDX-License-Identifier: BSD-3-Clause */
/* A box of the grid, and LU's and SP's spatial operator: convection, viscosity, dissipation. */
#include <math.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "nas.h"

const double nas_dissipation[3] = {0.75, 0.75, 1.0};

/* Coefficients of 1; x, y, z; their squares; cubes; fourth powers (RNR-94-007). */
static const double exact_coefficient[NAS_VARS][13] = {
    {2.0, 0.0, 0.0, 4.0, 5.0, 3.0, 0.5, 0.02, 0.01, 0.03, 0.5, 0.4, 0.3},
    {1.0, 0.0, 0.0, 0.0, 1.0, 2.0, 3.0, 0.01, 0.03, 0.02, 0.4, 0.3, 0.5},
    {2.0, 2.0, 0.0, 0.0, 0.0, 2.0, 3.0, 0.04, 0.03, 0.05, 0.3, 0.5, 0.4},
    {2.0, 2.0, 0.0, 0.0, 0.0, 2.0, 3.0, 0.03, 0.05, 0.04, 0.2, 0.1, 0.3},
    {5.0, 4.0, 3.0, 2.0, 0.1, 0.4, 0.3, 0.05, 0.04, 0.03, 0.1, 0.3, 0.2},
};

/* Set `value` to the exact solution at coordinates in [0, 1]^3. */
static void exact_at(double x, double y, double z, double value[NAS_VARS])
{
    for (int m = 0; m < NAS_VARS; m++) {
        const double *c = exact_coefficient[m];

        value[m] = c[0] + x * (c[1] + x * (c[4] + x * (c[7] + x * c[10]))) +
                   y * (c[2] + y * (c[5] + y * (c[8] + y * c[11]))) +
                   z * (c[3] + z * (c[6] + z * (c[9] + z * c[12])));
    }
}

void *nas_allocate(size_t count, size_t size)
{
    void *memory = calloc(count, size);

    if (NULL == memory) {
        fprintf(stderr, "nas: no memory for %zu bytes. Use more ranks or a smaller class.\n",
                count * size);
        MPI_Abort(MPI_COMM_WORLD, 1);
        abort();
    }
    return memory;
}

void nas_share(int points, int parts, int index, int *size, int *origin)
{
    int least = points / parts, more = points % parts;

    *size = least + (index < more ? 1 : 0);
    *origin = index * least + (index < more ? index : more);
}

static double *field_create(size_t count, double value)
{
    double *field = nas_allocate(count, sizeof *field);

    for (size_t n = 0; n < count; n++) {
        field[n] = value;
    }
    return field;
}

void nas_block_create(struct nas_block *block, const int size[3], const int origin[3],
                      int grid_points, int with_sound)
{
    ptrdiff_t extent[3];

    memset(block, 0, sizeof *block);
    for (int axis = 0; axis < 3; axis++) {
        int last = grid_points - 1 - origin[axis];

        block->size[axis] = size[axis];
        block->origin[axis] = origin[axis];
        block->global[axis] = grid_points;
        block->low[axis] = 0 == origin[axis] ? 1 : 0;
        block->high[axis] = size[axis] > last ? last : size[axis];
        extent[axis] = size[axis] + 2 * NAS_GHOST;
    }
    block->next_var = extent[0];
    block->step[0] = 1;
    block->step[1] = extent[0];
    block->step[2] = extent[0] * extent[1];
    block->vstep[0] = 1;
    block->vstep[1] = extent[0] * NAS_VARS;
    block->vstep[2] = extent[0] * NAS_VARS * extent[1];
    block->points = (size_t)(extent[0] * extent[1] * extent[2]);

    /* Ghosts outside the grid are multiplied by zero: any finite value does. 1 divides safely. */
    block->u = field_create(block->points * NAS_VARS, 1.0);
    block->rhs = field_create(block->points * NAS_VARS, 0.0);
    block->forcing = field_create(block->points * NAS_VARS, 0.0);
    block->rho_inverse = field_create(block->points, 1.0);
    for (int axis = 0; axis < 3; axis++) {
        block->velocity[axis] = field_create(block->points, 0.0);
    }
    block->kinetic = field_create(block->points, 0.0);
    block->pressure = field_create(block->points, 0.0);
    if (with_sound) {
        block->sound = field_create(block->points, 0.0);
    }
}

static double coordinate(const struct nas_block *block, int axis, int index)
{
    return (block->origin[axis] + index) / (double)(block->global[axis] - 1);
}

static void block_exact(const struct nas_block *block, int i, int j, int k, double value[NAS_VARS])
{
    exact_at(coordinate(block, 0, i), coordinate(block, 1, j), coordinate(block, 2, k), value);
}

static int is_on_boundary(const struct nas_block *block, int i, int j, int k)
{
    const int index[3] = {i, j, k};

    for (int axis = 0; axis < 3; axis++) {
        if (index[axis] < block->low[axis] || index[axis] >= block->high[axis]) {
            return 1;
        }
    }
    return 0;
}

/* Interpolate the exact values of the six faces at one inner point. */
static void interpolate(const double position[3], double value[NAS_VARS])
{
    double along[3][NAS_VARS];

    for (int axis = 0; axis < 3; axis++) {
        double first[NAS_VARS], last[NAS_VARS], face[3];

        memcpy(face, position, sizeof face);
        face[axis] = 0.0;
        exact_at(face[0], face[1], face[2], first);
        face[axis] = 1.0;
        exact_at(face[0], face[1], face[2], last);
        for (int m = 0; m < NAS_VARS; m++) {
            along[axis][m] = (1.0 - position[axis]) * first[m] + position[axis] * last[m];
        }
    }
    for (int m = 0; m < NAS_VARS; m++) {
        double x = along[0][m], y = along[1][m], z = along[2][m];

        value[m] = x + y + z - x * y - y * z - z * x + x * y * z;
    }
}

static void set_u(struct nas_block *block, int i, int j, int k, const double value[NAS_VARS])
{
    double *u = block->u + nas_vat(block, i, j, k);

    for (int m = 0; m < NAS_VARS; m++) {
        u[m * block->next_var] = value[m];
    }
}

void nas_block_initialize(struct nas_block *block)
{
    memset(block->rhs, 0, block->points * NAS_VARS * sizeof *block->rhs);
    for (size_t n = 0; n < block->points * NAS_VARS; n++) {
        block->u[n] = 1.0;
    }
    for (int k = 0; k < block->size[2]; k++) {
        for (int j = 0; j < block->size[1]; j++) {
            for (int i = 0; i < block->size[0]; i++) {
                double value[NAS_VARS];

                if (is_on_boundary(block, i, j, k)) {
                    block_exact(block, i, j, k, value);
                } else {
                    const double position[3] = {coordinate(block, 0, i), coordinate(block, 1, j),
                                                coordinate(block, 2, k)};

                    interpolate(position, value);
                }
                set_u(block, i, j, k, value);
            }
        }
    }
}

void nas_block_derive(struct nas_block *block)
{
    const ptrdiff_t var = block->next_var;
    const int row = block->size[0] + 2;

    for (int k = -1; k <= block->size[2]; k++) {
        for (int j = -1; j <= block->size[1]; j++) {
            const double *restrict u = block->u + nas_vat(block, -1, j, k);
            ptrdiff_t at = nas_at(block, -1, j, k);
            double *restrict rho_inverse = block->rho_inverse + at;
            double *restrict vx = block->velocity[0] + at;
            double *restrict vy = block->velocity[1] + at;
            double *restrict vz = block->velocity[2] + at;
            double *restrict kinetic = block->kinetic + at;
            double *restrict pressure = block->pressure + at;

            for (int i = 0; i < row; i++) {
                double inverse = 1.0 / u[i];
                double x = u[i + var] * inverse;
                double y = u[i + 2 * var] * inverse;
                double z = u[i + 3 * var] * inverse;
                double q = 0.5 * (x * x + y * y + z * z);

                rho_inverse[i] = inverse;
                vx[i] = x;
                vy[i] = y;
                vz[i] = z;
                kinetic[i] = q;
                pressure[i] = NAS_C2 * (u[i + 4 * var] - q * u[i]);
            }
            if (NULL != block->sound) {
                double *restrict sound = block->sound + at;

                /* fabs: ghosts outside the grid may hold meaningless values. */
                for (int i = 0; i < row; i++) {
                    sound[i] = sqrt(fabs(NAS_C1 * pressure[i] * rho_inverse[i]));
                }
            }
        }
    }
}

double *nas_block_copy_planes(struct nas_block *b, int axis, int first, double *buffer,
                              int to_buffer)
{
    int from[3] = {0, 0, 0}, to[3] = {b->size[0], b->size[1], b->size[2]};

    from[axis] = first;
    to[axis] = first + NAS_GHOST;
    for (int k = from[2]; k < to[2]; k++) {
        for (int j = from[1]; j < to[1]; j++) {
            for (int m = 0; m < NAS_VARS; m++) {
                double *u = b->u + nas_vat(b, from[0], j, k) + m * b->next_var;
                int count = to[0] - from[0];

                for (int n = 0; n < count; n++) {
                    if (to_buffer) {
                        buffer[n] = u[n];
                    } else {
                        u[n] = buffer[n];
                    }
                }
                buffer += count;
            }
        }
    }
    return buffer;
}

void nas_block_add_squares(const struct nas_block *block, const double *field, int minus_exact,
                           double sum[NAS_VARS])
{
    for (int k = block->low[2]; k < block->high[2]; k++) {
        for (int j = block->low[1]; j < block->high[1]; j++) {
            for (int i = block->low[0]; i < block->high[0]; i++) {
                double exact[NAS_VARS] = {0.0};
                const double *value = field + nas_vat(block, i, j, k);

                if (minus_exact) {
                    block_exact(block, i, j, k, exact);
                }
                for (int m = 0; m < NAS_VARS; m++) {
                    double difference = value[m * block->next_var] - exact[m];

                    sum[m] += difference * difference;
                }
            }
        }
    }
}

/* The spatial operator of LU and SP: convection, viscosity and dissipation along each axis. */

/* One row of points along x, with the values that the operator needs. */
struct row {
    double *rhs;
    const double *u;
    const double *rho_inverse;
    const double *velocity[3];
    const double *kinetic;
    const double *pressure;
    ptrdiff_t var; /* from one variable to the next */
    int count;
};

/*
 * Add the terms of one axis to a row. s and v are the distances to the neighbour along the axis
 * in scalar and five-variable fields. Central differences throughout (RNR-94-007):
 *     - dF/dx, F the convective flux
 *     + second differences of velocity, kinetic energy and temperature (viscous terms)
 *     + second differences of u (dissipation)
 */
static inline void add_axis(const struct row *row, const int axis, const ptrdiff_t s,
                            const ptrdiff_t v, const int intervals)
{
    const double per_h = intervals;
    const double convection = 0.5 * per_h;
    const double dissipation = nas_dissipation[axis] * per_h * per_h;
    const double viscous = NAS_C3 * NAS_C4 * per_h * per_h;
    const double of_kinetic = viscous * (1.0 - NAS_C1 * NAS_C5);
    const double of_normal = viscous / 6.0;
    const double of_energy = viscous * NAS_C1 * NAS_C5;
    const ptrdiff_t var = row->var;
    double *restrict rhs = row->rhs;
    const double *restrict u = row->u;
    const double *restrict w = row->velocity[axis];
    const double *restrict kinetic = row->kinetic;
    const double *restrict pressure = row->pressure;
    const double *restrict rho_inverse = row->rho_inverse;
    const double *restrict energy = u + 4 * var;
    double *restrict rhs_energy = rhs + 4 * var;
    const double *restrict normal = u + (1 + axis) * var;

    for (int i = 0; i < row->count; i++) {
        rhs[i] += dissipation * (u[i + v] - 2.0 * u[i] + u[i - v]) -
                  convection * (normal[i + v] - normal[i - v]);
    }
    for (int a = 0; a < 3; a++) {
        const double *restrict momentum = u + (1 + a) * var;
        const double *restrict velocity = row->velocity[a];
        double *restrict out = rhs + (1 + a) * var;
        const double stress = a == axis ? viscous * 4.0 / 3.0 : viscous;
        const double push = a == axis ? 1.0 : 0.0;

        for (int i = 0; i < row->count; i++) {
            out[i] += dissipation * (momentum[i + v] - 2.0 * momentum[i] + momentum[i - v]) +
                      stress * (velocity[i + s] - 2.0 * velocity[i] + velocity[i - s]) -
                      convection * (momentum[i + v] * w[i + s] - momentum[i - v] * w[i - s] +
                                    push * (pressure[i + s] - pressure[i - s]));
        }
    }
    for (int i = 0; i < row->count; i++) {
        rhs_energy[i] +=
            dissipation * (energy[i + v] - 2.0 * energy[i] + energy[i - v]) +
            of_kinetic * (kinetic[i + s] - 2.0 * kinetic[i] + kinetic[i - s]) +
            of_normal * (w[i + s] * w[i + s] - 2.0 * w[i] * w[i] + w[i - s] * w[i - s]) +
            of_energy * (energy[i + v] * rho_inverse[i + s] - 2.0 * energy[i] * rho_inverse[i] +
                         energy[i - v] * rho_inverse[i - s]) -
            convection * ((energy[i + v] + pressure[i + s]) * w[i + s] -
                          (energy[i - v] + pressure[i - s]) * w[i - s]);
    }
}

void nas_fourth_difference(int position, int points, double weight[5])
{
    weight[0] = position >= 3 ? 1.0 : 0.0;
    weight[1] = position >= 2 ? -4.0 : 0.0;
    weight[2] = 1 == position || points - 2 == position ? 5.0 : 6.0;
    weight[3] = position <= points - 3 ? -4.0 : 0.0;
    weight[4] = position <= points - 4 ? 1.0 : 0.0;
}

static void add_fourth(double *restrict rhs, const double *restrict u, ptrdiff_t v, int from,
                       int to, const double weight[5])
{
    const double a = NAS_DISSIPATION4 * weight[0], b = NAS_DISSIPATION4 * weight[1];
    const double c = NAS_DISSIPATION4 * weight[2], d = NAS_DISSIPATION4 * weight[3];
    const double e = NAS_DISSIPATION4 * weight[4];

    for (int i = from; i < to; i++) {
        rhs[i] -= a * u[i - 2 * v] + b * u[i - v] + c * u[i] + d * u[i + v] + e * u[i + 2 * v];
    }
}

/* Along x the weights change within the row: do the inner part at once, the edges one by one. */
static void add_fourth_x(double *rhs, const double *u, int count, int first, int points)
{
    double weight[5];
    int from = 0;

    while (from < count) {
        int position = first + from;
        int to = from + 1;

        if (position >= 3 && position <= points - 4) {
            to = points - 3 - first < count ? points - 3 - first : count;
        }
        nas_fourth_difference(position, points, weight);
        add_fourth(rhs, u, 1, from, to, weight);
        from = to;
    }
}

static void add_row(const struct nas_block *b, const struct row *row, int j, int k)
{
    const int position[3] = {b->origin[0] + b->low[0], b->origin[1] + j, b->origin[2] + k};
    double weight[5];

    add_axis(row, 0, b->step[0], b->vstep[0], b->global[0] - 1);
    add_axis(row, 1, b->step[1], b->vstep[1], b->global[1] - 1);
    add_axis(row, 2, b->step[2], b->vstep[2], b->global[2] - 1);
    for (int m = 0; m < NAS_VARS; m++) {
        double *rhs = row->rhs + m * row->var;
        const double *u = row->u + m * row->var;

        add_fourth_x(rhs, u, row->count, position[0], b->global[0]);
        for (int axis = 1; axis < 3; axis++) {
            nas_fourth_difference(position[axis], b->global[axis], weight);
            add_fourth(rhs, u, b->vstep[axis], 0, row->count, weight);
        }
    }
}

void nas_block_residual(struct nas_block *b)
{
    memcpy(b->rhs, b->forcing, b->points * NAS_VARS * sizeof *b->rhs);
    for (int k = b->low[2]; k < b->high[2]; k++) {
        for (int j = b->low[1]; j < b->high[1]; j++) {
            ptrdiff_t at = nas_at(b, b->low[0], j, k);
            ptrdiff_t vat = nas_vat(b, b->low[0], j, k);
            struct row row = {
                .rhs = b->rhs + vat,
                .u = b->u + vat,
                .rho_inverse = b->rho_inverse + at,
                .velocity = {b->velocity[0] + at, b->velocity[1] + at, b->velocity[2] + at},
                .kinetic = b->kinetic + at,
                .pressure = b->pressure + at,
                .var = b->next_var,
                .count = b->high[0] - b->low[0],
            };

            add_row(b, &row, j, k);
        }
    }
}

void nas_block_make_forcing(struct nas_block *block)
{
    size_t bytes = block->points * NAS_VARS * sizeof *block->forcing;

    /* The exact solution is known in the ghost layers, so no exchange is needed. */
    for (int k = -NAS_GHOST; k < block->size[2] + NAS_GHOST; k++) {
        for (int j = -NAS_GHOST; j < block->size[1] + NAS_GHOST; j++) {
            for (int i = -NAS_GHOST; i < block->size[0] + NAS_GHOST; i++) {
                double value[NAS_VARS];

                block_exact(block, i, j, k, value);
                set_u(block, i, j, k, value);
            }
        }
    }
    memset(block->forcing, 0, bytes);
    nas_block_derive(block);
    nas_block_residual(block);
    for (size_t n = 0; n < block->points * NAS_VARS; n++) {
        block->forcing[n] = -block->rhs[n];
    }
}

void nas_block_scale(const struct nas_block *b, const double *from, double *to, double factor,
                     double keep)
{
    for (int k = b->low[2]; k < b->high[2]; k++) {
        for (int j = b->low[1]; j < b->high[1]; j++) {
            ptrdiff_t at = nas_vat(b, b->low[0], j, k);

            for (int m = 0; m < NAS_VARS; m++) {
                const double *in = from + at + m * b->next_var;
                double *out = to + at + m * b->next_var;

                for (int i = 0; i < b->high[0] - b->low[0]; i++) {
                    out[i] = keep * out[i] + factor * in[i];
                }
            }
        }
    }
}
