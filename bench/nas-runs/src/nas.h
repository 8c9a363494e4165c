/* SPDX-License-Identifier: BSD-3-Clause */
/* Shared by LU and SP: the specification, a box of the grid, its operator, the report. */
#ifndef NAS_H
#define NAS_H

#include <stddef.h>

enum { NAS_VARS = 5 };

/* The equations' constants (RNR-94-007); the names C1..C5 are the report's. */
#define NAS_C1 1.4 /* ratio of specific heats */
#define NAS_C2 0.4
#define NAS_C3 0.1 /* viscosity */
#define NAS_C4 1.0
#define NAS_C5 1.4

/* Second-order dissipation along x, y, z; the report gives all five variables the same value. */
extern const double nas_dissipation[3];
/* Fourth-order dissipation: a quarter of the largest of the above. */
#define NAS_DISSIPATION4 0.25

/* Largest relative difference from a published norm that still counts as agreement. */
#define NAS_TOLERANCE 1e-8

struct nas_class {
    char name;      /* S, W, A, B */
    int points;     /* grid points along each axis */
    int iterations; /* time steps of an official run */
    double time_step;
    double residual[NAS_VARS]; /* published root-mean-square of the right-hand side */
    double error[NAS_VARS];    /* published root-mean-square of (solution - exact) */
    double surface;            /* published surface integral; SP has none: 0 */
};

/* The fourth-order dissipation reaches two points away. */
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
    ptrdiff_t vstep[3]; /* ... in five-variable fields */
    ptrdiff_t next_var; /* from one variable to the next */
    size_t points;      /* with ghosts */

    double *u;       /* density, momentum x 3, energy */
    double *rhs;     /* right-hand side, then the update */
    double *forcing; /* makes the exact solution stationary */

    double *rho_inverse;
    double *velocity[3];
    double *kinetic; /* half the squared velocity */
    double *pressure;
    double *sound; /* speed of sound; NULL unless requested */
};

/* Allocate `count` zeroed elements of `size` bytes. Aborts the job if out of memory. */
void *nas_allocate(size_t count, size_t size);

/* Set size and origin of part `index` of `parts` of `points`; the first parts get the remainder. */
void nas_share(int points, int parts, int index, int *size, int *origin);

/* Allocate the fields; u is 1 everywhere, rhs and forcing 0. Ends the job if out of memory. */
void nas_block_create(struct nas_block *block, const int size[3], const int origin[3],
                      int grid_points, int with_sound);

/* Return the offset of a local point in a scalar field, and of its first variable in a field of
 * five. */
static inline ptrdiff_t nas_at(const struct nas_block *b, int i, int j, int k)
{
    return (i + NAS_GHOST) + (j + NAS_GHOST) * b->step[1] + (k + NAS_GHOST) * b->step[2];
}

static inline ptrdiff_t nas_vat(const struct nas_block *b, int i, int j, int k)
{
    return (i + NAS_GHOST) + (j + NAS_GHOST) * b->vstep[1] + (k + NAS_GHOST) * b->vstep[2];
}

/* Set u: exact on the boundary, transfinite interpolation of it inside (RNR-94-007). */
void nas_block_initialize(struct nas_block *block);

/* Set the derived scalar fields from u, the nearest ghost layer included. */
void nas_block_derive(struct nas_block *block);

/* Copy the planes `first` and `first` + 1 of u across the axis, which may be ghosts, to or from the
 * buffer. Returns the rest of the buffer. */
double *nas_block_copy_planes(struct nas_block *block, int axis, int first, double *buffer,
                              int to_buffer);

/* Add to `sum` the squares of a field over the inner points, after the exact solution has been
 * subtracted from it if asked to. */
void nas_block_add_squares(const struct nas_block *block, const double *field, int minus_exact,
                           double sum[NAS_VARS]);

/* Set `to` to keep * to + factor * from, at the inner points. */
void nas_block_scale(const struct nas_block *block, const double *from, double *to, double factor,
                     double keep);

/* Set forcing from the exact solution; overwrites u and rhs. */
void nas_block_make_forcing(struct nas_block *block);

/* rhs = forcing + spatial operator applied to u; needs the derived fields and ghosts of u. */
void nas_block_residual(struct nas_block *block);

/*
 * Weights of the fourth difference at an inner global position; one-sided next to the boundary:
 *     1: 5 -4 1    2: -4 6 -4 1    ...    n-3: 1 -4 6 -4    n-2: 1 -4 5
 */
void nas_fourth_difference(int position, int points, double weight[5]);

/* A stopwatch over the MPI calls of this program, through MPI's profiling interface. */
struct nas_mpi_usage {
    double seconds;         /* inside MPI calls */
    unsigned long messages; /* sent point to point */
    double bytes;           /* sent point to point */
};

/* Set the counters to zero; every later MPI call of the program adds to them. */
void nas_mpi_clock_start(void);
struct nas_mpi_usage nas_mpi_clock_read(void);

struct nas_run {
    const char *benchmark; /* "LU" or "SP" */
    const struct nas_class *class_data;
    int iterations;
    double seconds;    /* of the time steps, this rank's */
    double operations; /* floating point, by NPB's formula, for `iterations` steps */
    double residual[NAS_VARS];
    double error[NAS_VARS];
    double surface; /* LU only */
    struct nas_mpi_usage usage;
};

/* Print a message on rank 0. Returns 0. */
int nas_refuse(const char *format, ...) __attribute__((format(printf, 1, 2)));

/*
 * Read "CLASS [ITERATIONS]" into class_data and iterations of a zeroed *run. Returns 1, or 0 after
 * a message if they are wrong.
 */
int nas_run_options(struct nas_run *run, const char *benchmark, const struct nas_class classes[4],
                    int argc, char **argv);

/*
 * Sum the squares over all ranks, divide by the number of inner points, and take the root.
 * Collective.
 */
void nas_norm(const double sum[NAS_VARS], int grid_points, double norm[NAS_VARS]);

/*
 * Print the result on rank 0. Collective. Returns 1 on every rank if the norms agree with the
 * published ones, or if none are published for this number of iterations.
 */
int nas_run_report(const struct nas_run *run);

#endif
