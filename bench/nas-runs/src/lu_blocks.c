/* SPDX-License-Identifier: BSD-3-Clause */
/* LU's Jacobian blocks: the 5x5 matrices of one plane of points, for either sweep. */
#include "lu.h"

/* Jacobian entries of a row of points lie `row` apart; entry e of point i is at e * row + i. */
#define ENTRY(block, r, c) (block)[((r)*NAS_VARS + (c)) * row + i]

/* Coefficients of the viscous terms: of momentum a along an axis, and of temperature. */
static double stress(int a, int axis)
{
    return a == axis ? NAS_C3 * NAS_C4 * 4.0 / 3.0 : NAS_C3 * NAS_C4;
}

static const double heat = NAS_C1 * NAS_C3 * NAS_C4 * NAS_C5;

/*
 * Sets, for a row of points starting at the offsets `at` and `vat`,
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

/* Sets I + the viscous terms' Jacobian at the points themselves, twice viscous[axis] each. */
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

void lu_make_blocks(struct lu *lu, int k, int direction)
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
