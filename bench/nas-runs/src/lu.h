/* SPDX-License-Identifier: BSD-3-Clause */
/* State of one rank of LU and what its parts do with it. */
#ifndef NAS_LU_H
#define NAS_LU_H

#include "nas_block.h"

/* Over-relaxation factor of the sweeps (RNR-94-007). */
#define LU_OMEGA 1.2

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

/*
 * Divides the x-y plane among the ranks, which must be a power of two; returns 0, having said why
 * on rank 0, when they are not or when a rank would get too few points.
 */
int lu_create(struct lu *lu, int grid_points, double time_step);
void lu_destroy(struct lu *lu);

/* Fills both ghost layers of u in x, then in y. */
void lu_exchange_faces(struct lu *lu);

/* Receives from / sends to the two neighbours of a sweep the updates of one plane's edge lines. */
void lu_receive_lines(struct lu *lu, int k, enum lu_side x_side, enum lu_side y_side);
void lu_send_lines(struct lu *lu, int k, enum lu_side x_side, enum lu_side y_side);

/*
 * Sets the blocks of the inner points of plane k; needs the derived fields. direction is -1 for the
 * lower sweep, whose side blocks belong to the neighbours before a point, and +1 for the upper one.
 */
void lu_make_blocks(struct lu *lu, int k, int direction);

/* Ghost exchange and right-hand side. */
void lu_residual(struct lu *lu);

/* One SSOR step: turns rhs into the update and adds it to u. */
void lu_step(struct lu *lu);

#endif
