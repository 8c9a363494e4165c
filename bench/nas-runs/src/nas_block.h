/* SPDX-License-Identifier: BSD-3-Clause */
/* A box of the grid with its ghost layers: what a rank of LU holds once and one of SP per cell. */
#ifndef NAS_BLOCK_H
#define NAS_BLOCK_H

#include <stddef.h>

#include "nas_problem.h"

/* The fourth-order dissipation reaches two points far. */
enum { NAS_GHOST = 2 };

/*
 * Five-variable fields are stored [z][y][variable][x], scalar fields [z][y][x]; both with
 * NAS_GHOST layers on every side, so that local indices run from -NAS_GHOST.
 */
struct nas_block {
    int size[3];   /* own points along x, y, z */
    int origin[3]; /* global index of the first own point */
    int global[3]; /* points of the whole grid */
    int low[3];    /* own points that are not on the grid's boundary: low <= index < high */
    int high[3];
    ptrdiff_t step[3];  /* to the next point along an axis, scalar fields */
    ptrdiff_t vstep[3]; /* the same, five-variable fields */
    ptrdiff_t next_var; /* from one variable to the next */
    size_t points;      /* with ghosts */

    double *u;       /* density, momentum x 3, energy */
    double *rhs;     /* right-hand side, then the update */
    double *forcing; /* makes the exact solution stationary */

    double *rho_inverse;
    double *velocity[3];
    double *kinetic; /* half the squared velocity */
    double *pressure;
    double *sound; /* speed of sound; null unless asked for */
};

/* Zeroed memory for `count` things of `size` bytes; ends the job when there is none. */
void *nas_allocate(size_t count, size_t size);

/* Part `index` of `parts` of `points`; the first parts take one more when it does not divide. */
void nas_share(int points, int parts, int index, int *size, int *origin);

/* Allocates the fields; u is 1 everywhere, rhs and forcing 0. Ends the job when memory is short. */
void nas_block_create(struct nas_block *block, const int size[3], const int origin[3],
                      int grid_points, int with_sound);
void nas_block_destroy(struct nas_block *block);

/* Offset of a local point in a scalar field, and of its first variable in a five-variable field. */
static inline ptrdiff_t nas_at(const struct nas_block *b, int i, int j, int k)
{
    return (i + NAS_GHOST) + (j + NAS_GHOST) * b->step[1] + (k + NAS_GHOST) * b->step[2];
}

static inline ptrdiff_t nas_vat(const struct nas_block *b, int i, int j, int k)
{
    return (i + NAS_GHOST) + (j + NAS_GHOST) * b->vstep[1] + (k + NAS_GHOST) * b->vstep[2];
}

/* The exact solution at a local point; ghosts included. */
void nas_block_exact(const struct nas_block *block, int i, int j, int k, double value[NAS_VARS]);

/* Sets u: exact on the boundary, transfinite interpolation of it inside (RNR-94-007). */
void nas_block_initialize(struct nas_block *block);

/* Sets the derived scalar fields from u, the nearest ghost layer included. */
void nas_block_derive(struct nas_block *block);

/* Copies the planes `first` and `first` + 1 of u across the axis, ghosts' indices allowed, to or from
 * the buffer; returns what is behind them in it. */
double *nas_block_copy_planes(struct nas_block *block, int axis, int first, double *buffer,
                              int to_buffer);

/* Adds this block's sum of squares of (u - exact) and of rhs over inner points. */
void nas_block_add_error(const struct nas_block *block, double sum[NAS_VARS]);
void nas_block_add_residual(const struct nas_block *block, double sum[NAS_VARS]);

#endif
