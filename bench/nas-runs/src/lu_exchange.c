/* SPDX-License-Identifier: BSD-3-Clause */
/* LU's division of the grid among ranks and all its messages. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <mpi.h>

#include "lu.h"

enum { FACE_TAG = 1, SWEEP_TAG = 5 }; /* plus the side the message comes from */

/* NPB's LU needs three points a rank: each face message carries two planes of them. */
enum { LEAST_POINTS = 3 };

/* Chooses the ranks along x and y; 0 with a message on rank 0 when there is none. */
static int divide(struct lu *lu, int rank, int processes, int grid_points)
{
    if (0 != (processes & (processes - 1))) {
        if (0 == rank) {
            fprintf(stderr,
                    "lu: %d ranks; LU needs a power of two. Start it with -np 1, 2, 4, ...\n",
                    processes);
        }
        return 0;
    }
    /* x gets the larger factor, as in NPB. */
    lu->ranks[0] = lu->ranks[1] = 1;
    while (lu->ranks[0] * lu->ranks[1] < processes) {
        lu->ranks[lu->ranks[0] > lu->ranks[1] ? 1 : 0] *= 2;
    }
    if (grid_points / lu->ranks[0] < LEAST_POINTS) {
        if (0 == rank) {
            fprintf(stderr,
                    "lu: %d ranks leave less than %d of %d points to a rank. Use fewer ranks or a "
                    "larger class.\n",
                    processes, LEAST_POINTS, grid_points);
        }
        return 0;
    }
    return 1;
}

static void allocate_buffers(struct lu *lu)
{
    const int *size = lu->grid.size;
    size_t row = (size_t)size[0];
    size_t longest = (size_t)(size[0] > size[1] ? size[0] : size[1]);
    size_t face = NAS_GHOST * NAS_VARS * longest * (size_t)size[2];

    /* Zeroed, for entries that no Jacobian has are never set. */
    lu->plane =
        nas_allocate(row * (size_t)size[1] * LU_BLOCKS * NAS_VARS * NAS_VARS, sizeof *lu->plane);
    lu->sums = nas_allocate(NAS_VARS * row, sizeof *lu->sums);
    lu->line = nas_allocate(NAS_VARS * longest, sizeof *lu->line);
    lu->faces_in = nas_allocate(face, sizeof *lu->faces_in);
    lu->faces_out = nas_allocate(face, sizeof *lu->faces_out);
}

int lu_create(struct lu *lu, int grid_points, double time_step)
{
    int rank, processes, place[2];
    int size[3] = {0, 0, grid_points}, origin[3] = {0, 0, 0};

    memset(lu, 0, sizeof *lu);
    PMPI_Comm_rank(MPI_COMM_WORLD, &rank);
    PMPI_Comm_size(MPI_COMM_WORLD, &processes);
    if (!divide(lu, rank, processes, grid_points)) {
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

void lu_destroy(struct lu *lu)
{
    nas_block_destroy(&lu->grid);
    free(lu->plane);
    free(lu->sums);
    free(lu->line);
    free(lu->faces_in);
    free(lu->faces_out);
}

/* Sends the planes next to side `to`; the neighbour there keeps them as ghosts of side `from`. */
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

void lu_exchange_faces(struct lu *lu)
{
    shift_planes(lu, 0, LU_X_BEFORE, LU_X_AFTER);
    shift_planes(lu, 0, LU_X_AFTER, LU_X_BEFORE);
    shift_planes(lu, 1, LU_Y_BEFORE, LU_Y_AFTER);
    shift_planes(lu, 1, LU_Y_AFTER, LU_Y_BEFORE);
}

/*
 * Copies one line of updates, the inner points of constant x or y in plane k, to or from the
 * message buffer. outside selects the ghost line beyond the side instead of the own edge line.
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

void lu_receive_lines(struct lu *lu, int k, enum lu_side x_side, enum lu_side y_side)
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

void lu_send_lines(struct lu *lu, int k, enum lu_side x_side, enum lu_side y_side)
{
    const enum lu_side sides[2] = {x_side, y_side};

    for (int n = 0; n < 2; n++) {
        if (MPI_PROC_NULL != lu->neighbour[sides[n]]) {
            /* The tag is the receiver's side: what is after this rank is before that one. */
            int tag = SWEEP_TAG + ((int)sides[n] ^ 1);

            copy_line(lu, k, sides[n], 0, 1);
            MPI_Send(lu->line, line_length(lu, sides[n]), MPI_DOUBLE, lu->neighbour[sides[n]], tag,
                     MPI_COMM_WORLD);
        }
    }
}
