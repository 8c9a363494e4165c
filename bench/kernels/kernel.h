/* SPDX-License-Identifier: BSD-3-Clause */
/* What the kernels share: time in communication, arguments, result lines in NPB's layout. */
#ifndef RAWE_KERNEL_H
#define RAWE_KERNEL_H

#include <stdbool.h>
#include <stdint.h>

/* Rank and number of ranks of MPI_COMM_WORLD, set by kernel_start(). */
extern int kernel_rank;
extern int kernel_ranks;

/* The time in communication is what passes between kernel_enter() and kernel_leave(); clear() sets
 * it to zero. */
void kernel_enter(void);
void kernel_leave(void);
void kernel_clear(void);

/* MPI_Init; ends the job with status 2 and the usage unless there are `count` numbers, each from 1
 * to 2^31 - 1, behind the program's name; they are written to `numbers`. */
void kernel_start(int argc, char **argv, const char *usage, int count, long *numbers);

/* Print `text` on rank 0 and end the job with status 2: the arguments cannot be served. */
_Noreturn void kernel_refuse(const char *text);

/* Memory or an abort that says how much was missing. */
void *kernel_allocate(uint64_t bytes);

/* The n-th number of a pseudo-random sequence that every rank knows. */
uint64_t kernel_number(uint64_t n);

/* Result lines on rank 0, MPI_Finalize; the exit status: 0 when verified on all ranks.
 * `seconds` of this rank; operations of all ranks in one `unit` ("Mkey/s") a second. */
int kernel_finish(const char *name, const char *size, double seconds, double operations,
                  const char *unit, bool verified);

#endif
