/* SPDX-License-Identifier: BSD-3-Clause */
/* The spatial operator of LU and SP on a box of the grid. */
#ifndef NAS_OPERATOR_H
#define NAS_OPERATOR_H

#include "nas_block.h"

/* Sets forcing from the exact solution; overwrites u and rhs. */
void nas_block_make_forcing(struct nas_block *block);

/* rhs = forcing + spatial operator applied to u; needs the derived fields and ghosts of u. */
void nas_block_residual(struct nas_block *block);

/*
 * Weights of the fourth difference at an inner global position; one-sided next to the boundary:
 *     1: 5 -4 1    2: -4 6 -4 1    ...    n-3: 1 -4 6 -4    n-2: 1 -4 5
 */
void nas_fourth_difference(int position, int points, double weight[5]);

#endif
