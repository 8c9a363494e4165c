/* SPDX-License-Identifier: BSD-3-Clause */
/* SP's changes of basis between conserved and characteristic variables of each axis. */
#include "sp.h"

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
