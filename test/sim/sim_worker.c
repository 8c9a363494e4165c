/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Processes in which runs happen. See sim_worker.h.
 */
#include "sim_worker.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/time.h>
#include <unistd.h>

pid_t sim_worker_fork(void)
{
    const pid_t parent = getpid();

    fflush(NULL);
    const pid_t pid = fork();
    if (pid < 0) {
        perror("rawe-sim: fork");
        exit(2);
    }
    /* The engine's assertions would be heard out of place; they are reported as crashes. */
    if (pid == 0 && (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0 || getppid() != parent ||
                     freopen("/dev/null", "w", stderr) == NULL)) {
        _exit(2);
    }
    return pid;
}

void sim_worker_limit(unsigned processor_seconds)
{
    const struct itimerval limit = {.it_value = {.tv_sec = processor_seconds}};

    if (setitimer(ITIMER_PROF, &limit, NULL) != 0) {
        _exit(2);
    }
}
