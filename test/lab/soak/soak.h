/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * rawe-soak: what its files share. Every rank draws the same plan from the same seed.
 */
#ifndef SOAK_H
#define SOAK_H

#include <mpi.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

/** What one thread of a rank does: rounds with the same thread of all other ranks. */
struct soak {
    MPI_Comm comm; /* the thread's own */
    int rank, size;
    uint64_t seed;
    size_t max_bytes; /* longest message */
    uint64_t round;
    _Atomic uint64_t bytes;  /* received and checked by this thread */
    unsigned char *out, *in; /* room for size messages of max_bytes each */
};

/** One round of traffic between all ranks, on the thread's communicator; ends the job with a message if a byte is wrong. */
void soak_round(struct soak *soak);

/** Resident memory in kB and open descriptors of this process. */
struct soak_footprint {
    long resident_kb;
    long descriptors;
};

struct soak_footprint soak_footprint_read(void);

#endif
