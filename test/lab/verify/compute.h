/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Computation without MPI calls, as between the communication of an application.
 */
#ifndef COMPUTE_H
#define COMPUTE_H

#include <time.h>

/** Keep the processor busy for `seconds`. */
static inline void compute_for(double seconds)
{
    struct timespec start, now;
    volatile double x = 1;

    clock_gettime(CLOCK_MONOTONIC, &start);
    do {
        for (int i = 0; i < 100000; i++) {
            x = x * 1.0000001 + 1e-9;
        }
        clock_gettime(CLOCK_MONOTONIC, &now);
    } while ((double)(now.tv_sec - start.tv_sec) + (double)(now.tv_nsec - start.tv_nsec) * 1e-9 <
             seconds);
}

#endif
