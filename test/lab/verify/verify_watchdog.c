/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The watchdog: a thread that sleeps until a group ends, and ends the process when one does not.
 *
 * A thread and not SIGALRM, because it may print and because a signal would interrupt the system
 * calls under test. It calls no MPI function: the process leaves by _exit and mpirun, seeing a
 * process end without MPI_Finalize, ends the job.
 */
#include "verify.h"

#include <pthread.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

/* Exit code of a hang, as timeout(1) has it, to tell it from a failed check (1). */
#define EXIT_HANG 124

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed;
static pthread_t thread;
static bool running;
static struct timespec deadline;

static void deadline_renew(void)
{
    clock_gettime(CLOCK_MONOTONIC, &deadline);
    deadline.tv_sec += (time_t)verify.timeout_seconds;
    deadline.tv_nsec += (long)((verify.timeout_seconds - (time_t)verify.timeout_seconds) * 1e9);
    if (deadline.tv_nsec >= 1000000000) {
        deadline.tv_sec++;
        deadline.tv_nsec -= 1000000000;
    }
}

static bool deadline_passed(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec > deadline.tv_sec ||
           (now.tv_sec == deadline.tv_sec && now.tv_nsec >= deadline.tv_nsec);
}

static void *watch(void *unused)
{
    pthread_mutex_lock(&lock);
    while (running) {
        struct timespec until = deadline;

        pthread_cond_timedwait(&changed, &lock, &until);
        if (running && deadline_passed()) {
            fprintf(stderr,
                    "rawe-verify: HANG rank %d of %d, pid %ld: no end within %.0f s (--timeout) "
                    "of %s\n",
                    verify.rank, verify.size, (long)getpid(), verify.timeout_seconds,
                    verify_where());
            fflush(stderr);
            _exit(EXIT_HANG);
        }
    }
    pthread_mutex_unlock(&lock);
    return NULL;
}

void verify_watchdog_start(void)
{
    pthread_condattr_t attributes;

    if (verify.timeout_seconds <= 0) {
        return;
    }
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&changed, &attributes);
    pthread_condattr_destroy(&attributes);
    running = true;
    deadline_renew();
    if (pthread_create(&thread, NULL, watch, NULL) != 0) {
        running = false;
        verify_fail("cannot start the watchdog thread: raise the limit of processes (ulimit -u)");
    }
}

void verify_watchdog_renew(void)
{
    if (running) {
        pthread_mutex_lock(&lock);
        deadline_renew();
        pthread_cond_signal(&changed);
        pthread_mutex_unlock(&lock);
    }
}

void verify_watchdog_stop(void)
{
    if (running) {
        pthread_mutex_lock(&lock);
        running = false;
        pthread_cond_signal(&changed);
        pthread_mutex_unlock(&lock);
        pthread_join(thread, NULL);
    }
}
