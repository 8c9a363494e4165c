/* SPDX-License-Identifier: BSD-3-Clause */
/* State of one rank of SP and what its parts do with it. */
#ifndef NAS_SP_H
#define NAS_SP_H

#include "nas.h"

/*
 * With p * p ranks the grid is cut into p * p * p cells, and a rank owns p of them along a
 * diagonal, so that in every stage of a sweep along any axis each rank has exactly one cell to
 * work on.
 */
struct sp_cell {
    struct nas_block grid;
    int place[3]; /* which cell along each axis, 0 .. p-1 */
    double *work; /* rows of the line solver, see sp_solve.c */
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

/*
 * Divides the grid among the ranks, whose number must be a square; returns 0, having said why on
 * rank 0, when it is not or when a cell would get too few points.
 */
int sp_create(struct sp *sp, int grid_points, double time_step);
void sp_destroy(struct sp *sp);

/* Fills both ghost layers of u on all six sides of every cell. */
void sp_exchange_faces(struct sp *sp);

/* Characteristic variables, at the inner points of a cell (RNR-94-007); rhs in place. */
void sp_to_x_characteristics(struct sp_cell *cell, double factor); /* factor * Tx^-1 * rhs */
void sp_turn_x_to_y(struct sp_cell *cell);                         /* Ty^-1 Tx */
void sp_turn_y_to_z(struct sp_cell *cell);                         /* Tz^-1 Ty */
void sp_from_z_characteristics(struct sp_cell *cell);              /* Tz */

/* Doubles of line solver workspace a cell of this size needs. */
size_t sp_work_size(const int size[3]);

/* Solves the scalar pentadiagonal systems along an axis through all ranks' cells. */
void sp_solve(struct sp *sp, int axis);

#endif
