/* SPDX-License-Identifier: BSD-3-Clause */
/* A stopwatch over the MPI calls of this program, through MPI's profiling interface. */
#ifndef NAS_MPI_CLOCK_H
#define NAS_MPI_CLOCK_H

struct nas_mpi_usage {
    double seconds;         /* inside MPI calls */
    unsigned long messages; /* sent point to point */
    double bytes;           /* sent point to point */
};

/* Sets the counters to zero; every later MPI call of the program adds to them. */
void nas_mpi_clock_start(void);
struct nas_mpi_usage nas_mpi_clock_read(void);

#endif
