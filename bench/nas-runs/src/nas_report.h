/* SPDX-License-Identifier: BSD-3-Clause */
/* Command line, verification and the result lines in the layout NPB's programs print. */
#ifndef NAS_REPORT_H
#define NAS_REPORT_H

#include "nas_mpi_clock.h"
#include "nas_problem.h"

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

/*
 * Reads "CLASS [ITERATIONS]". Fills class_data and iterations of *run and returns 1; prints what is
 * wrong (on rank 0) and returns 0 otherwise.
 */
int nas_run_options(struct nas_run *run, const char *benchmark,
                    const struct nas_class *(*find)(char), int argc, char **argv);

/*
 * Divides the summed squares of all ranks by the number of inner points and takes the root.
 * Collective over all ranks.
 */
void nas_norm(const double sum[NAS_VARS], int grid_points, double norm[NAS_VARS]);

/*
 * Prints the result on rank 0. Collective over all ranks. Returns 1 on every rank when the norms
 * agree with the published ones, or when nothing was published for this number of iterations.
 */
int nas_run_report(const struct nas_run *run);

#endif
