/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The program of a simulator that runs one seed after the other: options, totals, exit status.
 */
#ifndef DRIVER_H
#define DRIVER_H

#include <stdbool.h>
#include <stdint.h>

/* What a simulator defines. */
extern const char simulator_help[];
extern const char *const simulator_counted[2]; /**< what its runs count; NULL: nothing */
/** Run a seed, add to the counts, describe the run if it failed or `show` is set. True: it failed. */
bool simulator_run(uint64_t seed, bool trace, bool show, uint64_t counts[2]);

#endif
