/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Stands in for the header of this name of Open MPI 5.0 and later, which the installation leaves
 * out although opal/mca/threads/mutex.h includes it. It has what Open MPI's other headers use:
 * an opal_mutex_t holds a pthread_mutex_t, and that is all there is to its layout.
 */
#ifndef RAWE_THREADS_PTHREADS_MUTEX_H
#define RAWE_THREADS_PTHREADS_MUTEX_H

#include "opal_config.h"

#include "opal/class/opal_object.h"
#include "opal/constants.h"

#include <pthread.h>
#include <stdbool.h>

typedef pthread_mutex_t opal_thread_internal_mutex_t;
typedef pthread_cond_t opal_thread_internal_cond_t;

#define OPAL_THREAD_INTERNAL_MUTEX_INITIALIZER PTHREAD_MUTEX_INITIALIZER
#define OPAL_THREAD_INTERNAL_COND_INITIALIZER PTHREAD_COND_INITIALIZER

/** OPAL_SUCCESS, or OPAL_ERR_IN_ERRNO. */
static inline int opal_thread_internal_mutex_init(opal_thread_internal_mutex_t *mutex,
                                                  bool recursive)
{
    pthread_mutexattr_t attributes;

    if (0 != pthread_mutexattr_init(&attributes)) {
        return OPAL_ERR_IN_ERRNO;
    }
    (void)pthread_mutexattr_settype(&attributes,
                                    recursive ? PTHREAD_MUTEX_RECURSIVE : PTHREAD_MUTEX_DEFAULT);
    int status = pthread_mutex_init(mutex, &attributes);
    (void)pthread_mutexattr_destroy(&attributes);
    return 0 == status ? OPAL_SUCCESS : OPAL_ERR_IN_ERRNO;
}

/** 0: taken, 1: another thread has it. */
static inline int opal_thread_internal_mutex_trylock(opal_thread_internal_mutex_t *mutex)
{
    return 0 != pthread_mutex_trylock(mutex);
}

static inline void opal_thread_internal_mutex_lock(opal_thread_internal_mutex_t *mutex)
{
    (void)pthread_mutex_lock(mutex);
}

static inline void opal_thread_internal_mutex_unlock(opal_thread_internal_mutex_t *mutex)
{
    (void)pthread_mutex_unlock(mutex);
}

static inline void opal_thread_internal_mutex_destroy(opal_thread_internal_mutex_t *mutex)
{
    (void)pthread_mutex_destroy(mutex);
}

static inline int opal_thread_internal_cond_init(opal_thread_internal_cond_t *condition)
{
    return 0 == pthread_cond_init(condition, NULL) ? OPAL_SUCCESS : OPAL_ERR_IN_ERRNO;
}

static inline void opal_thread_internal_cond_wait(opal_thread_internal_cond_t *condition,
                                                  opal_thread_internal_mutex_t *mutex)
{
    (void)pthread_cond_wait(condition, mutex);
}

static inline void opal_thread_internal_cond_signal(opal_thread_internal_cond_t *condition)
{
    (void)pthread_cond_signal(condition);
}

static inline void opal_thread_internal_cond_broadcast(opal_thread_internal_cond_t *condition)
{
    (void)pthread_cond_broadcast(condition);
}

static inline void opal_thread_internal_cond_destroy(opal_thread_internal_cond_t *condition)
{
    (void)pthread_cond_destroy(condition);
}

#endif
