/* SPDX-License-Identifier: BSD-3-Clause */
/* Shared parts of bcasts.c and reductions.c. */
#ifndef BCASTS_H
#define BCASTS_H

#include <mpi.h>

#define RANKS_MAX 32

extern int rank, ranks;

void fail(const char *what, int at);
/** Call enough collectives for the communicator to use multicast. */
void warm_up(void);
/** Run "bcasts types" and "bcasts handles". */
void types(void);
void handles(void);

#endif
