/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Processes in which runs happen: what goes wrong there is their parent's to report.
 */
#ifndef SIM_WORKER_H
#define SIM_WORKER_H

#include <sys/types.h>

/**
 * Fork. Returns the process's id, and 0 in that process: it is killed when its parent ends, and its
 * standard error goes nowhere. Ends the program where that is not possible.
 */
pid_t sim_worker_fork(void);

/**
 * In that process: have it ended by SIGPROF when it has used so much of a processor from now on,
 * without regard to what else the machine does.
 */
void sim_worker_limit(unsigned processor_seconds);

#endif
