/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Replaces Open MPI's header of this name (5.0 and later), like threads_pthreads_mutex.h. It lets a
 * waiting thread yield the processor.
 */
#ifndef RAWE_THREADS_PTHREADS_THREADS_H
#define RAWE_THREADS_PTHREADS_THREADS_H

#include "opal_config.h"

#include <pthread.h>

/** The user's choice: nothing, sched_yield() or nanosleep(). */
OPAL_DECLSPEC extern void (*opal_threads_pthreads_yield_fn)(void);

static inline void opal_thread_yield(void)
{
    opal_threads_pthreads_yield_fn();
}

#endif
