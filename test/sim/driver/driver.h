/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Main program of a simulator that runs one seed after another: options, totals, exit status.
 */
#ifndef DRIVER_H
#define DRIVER_H

#include <stdbool.h>
#include <stdint.h>

/* Defined by the simulator. */
extern const char simulator_help[];
extern const char *const simulator_counted[2]; /**< names of the counts of its runs; NULL: none */
/**
 * Run a seed, add to the counts; describe the run on failure or if `show`. Returns true on failure.
 */
bool simulator_run(uint64_t seed, bool trace, bool show, uint64_t counts[2]);

#endif
