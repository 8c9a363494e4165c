/* SPDX-License-Identifier: BSD-3-Clause */
/* What is fixed by the NAS specification: constants of the equations, problem classes, norms. */
#ifndef NAS_PROBLEM_H
#define NAS_PROBLEM_H

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
    double surface;            /* published surface integral; LU only, 0 for SP */
};

/* The class of that name (either case), or a null pointer when there is none. */
const struct nas_class *nas_lu_class(char name);
const struct nas_class *nas_sp_class(char name);

/* The exact solution at coordinates in [0, 1]^3. */
void nas_exact(double x, double y, double z, double value[NAS_VARS]);

#endif
