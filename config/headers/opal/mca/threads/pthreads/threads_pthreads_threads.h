/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Stands in for the header of this name of Open MPI 5.0 and later, as threads_pthreads_mutex.h
 * beside it does: how a thread that waits gives way to others.
 */
#ifndef RAWE_THREADS_PTHREADS_THREADS_H
#define RAWE_THREADS_PTHREADS_THREADS_H

#include "opal_config.h"

#include <pthread.h>

/** What the user has chosen: nothing, sched_yield() or nanosleep(). */
OPAL_DECLSPEC extern void (*opal_threads_pthreads_yield_fn)(void);

static inline void opal_thread_yield(void)
{
    opal_threads_pthreads_yield_fn();
}

#endif
