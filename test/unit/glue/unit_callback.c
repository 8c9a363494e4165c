/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * A thread whose callback takes an Open MPI lock: see unit_callback.h.
 */
#include "unit_callback.h"

#include <pthread.h>
#include <stddef.h>
#include <stdint.h>
#include <unistd.h>

#include "btl_rawe_lock.h"
#include "unit_test.h"

#define HANG_SECONDS 20u

static pthread_mutex_t upper = PTHREAD_MUTEX_INITIALIZER; /**< Open MPI's lock */
static pthread_barrier_t inside;
static bool leaving;

void unit_callback_begin(void)
{
    opal_set_using_threads(true);
    pthread_barrier_init(&inside, NULL, 2);
    leaving = false;
    alarm(HANG_SECONDS);
}

void unit_callback_end(void)
{
    alarm(0);
    pthread_barrier_destroy(&inside);
    opal_set_using_threads(false);
}

static void *callback_main(void *context)
{
    mca_btl_rawe_lock();
    pthread_barrier_wait(&inside);
    pthread_mutex_lock(&upper);
    pthread_mutex_unlock(&upper);
    leaving = true;
    mca_btl_rawe_unlock();
    leaving = false;
    return NULL;
}

void unit_callback_beside(void (*call)(void))
{
    pthread_t thread;

    pthread_mutex_lock(&upper);
    assert_int_equal(pthread_create(&thread, NULL, callback_main, NULL), 0);
    pthread_barrier_wait(&inside);
    call();
    pthread_mutex_unlock(&upper);
    assert_int_equal(pthread_join(thread, NULL), 0);
}

bool unit_callback_leaving(void)
{
    return leaving;
}
