/* SPDX-License-Identifier: BSD-3-Clause */
/* LU's SSOR step: Jacobian blocks of a plane, then the lower and the upper triangular sweep. */
#include "lu.h"
#include "nas_operator.h"

/*
 * Factors the diagonal blocks of a row of points in place into L (without its unit diagonal) and U
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

/* Solves L U x = x for one point of a factored row. */
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
 * What a row of the plane gets from its neighbours in y and z is a product of whole rows; only the
 * chain along x has to be followed point by point.
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
 * In plane k, rhs and v in the same place: (D + omega L) v = rhs upwards (`direction` -1: what is
 * needed lies before a point), (I + omega D^-1 U) v = rhs downwards (1).
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

void lu_residual(struct lu *lu)
{
    lu_exchange_faces(lu);
    nas_block_derive(&lu->grid);
    nas_block_residual(&lu->grid);
}

static void scale(struct nas_block *b, const double *from, double *to, double factor, double keep)
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

void lu_step(struct lu *lu)
{
    struct nas_block *b = &lu->grid;

    scale(b, b->rhs, b->rhs, lu->time_step, 0.0);
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
    scale(b, b->rhs, b->u, 1.0 / (LU_OMEGA * (2.0 - LU_OMEGA)), 1.0);
    lu_residual(lu);
}
