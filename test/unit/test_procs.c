/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Tests of taking processes back. bml/r2 does so with its lock held, for which a callback may be
 * waiting inside of an engine.
 */
#include "btl_rawe_procs.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "btl_rawe_endpoint.h"
#include "btl_rawe_lock.h"
#include "btl_rawe_module.h"
#include "btl_rawe_state.h"

#define HANG_SECONDS 20u

struct mca_btl_rawe_state mca_btl_rawe_state;
static mca_btl_rawe_module_t module;
static mca_btl_base_endpoint_t endpoint;
static bool drained;
static unsigned closed;

static pthread_mutex_t upper = PTHREAD_MUTEX_INITIALIZER; /**< Open MPI's */
static pthread_barrier_t inside;

bool mca_btl_rawe_endpoint_drained(const mca_btl_base_endpoint_t *which)
{
    assert_ptr_equal(which, &endpoint);
    return drained;
}

void mca_btl_rawe_endpoint_close(mca_btl_base_endpoint_t *which)
{
    assert_ptr_equal(which, &endpoint);
    closed++;
}

static int set_up(void **state)
{
    (void)state;
    memset(&mca_btl_rawe_state, 0, sizeof(mca_btl_rawe_state));
    memset(&module, 0, sizeof(module));
    memset(&endpoint, 0, sizeof(endpoint));
    endpoint.module = &module;
    endpoint.in_use = true;
    drained = true;
    closed = 0;
    opal_set_using_threads(true);
    mca_btl_rawe_lock_init();
    pthread_barrier_init(&inside, NULL, 2);
    alarm(HANG_SECONDS);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    alarm(0);
    pthread_barrier_destroy(&inside);
    mca_btl_rawe_lock_destroy();
    opal_set_using_threads(false);
    return 0;
}

static void del(void)
{
    mca_btl_base_endpoint_t *endpoints[] = {NULL, &endpoint};
    assert_int_equal(mca_btl_rawe_del_procs(&module.super, 2, NULL, endpoints), OPAL_SUCCESS);
    assert_false(endpoint.in_use);
}

/** A thread inside of an engine, whose callback wants the lock that who deletes holds. */
static void *callback_main(void *context)
{
    (void)context;
    mca_btl_rawe_lock();
    pthread_barrier_wait(&inside);
    pthread_mutex_lock(&upper);
    pthread_mutex_unlock(&upper);
    mca_btl_rawe_unlock();
    return NULL;
}

static void mca_btl_rawe_del_procs__closes_what_is_drained(void **state)
{
    (void)state;
    del();
    assert_int_equal(closed, 1);
}

static void mca_btl_rawe_del_procs__leaves_to_finalize_what_is_not(void **state)
{
    (void)state;
    drained = false;
    del();
    assert_int_equal(closed, 0);
}

/** What goes by another of the process's endpoints is reported with this one. */
static void mca_btl_rawe_del_procs__leaves_to_finalize_what_is_awaited(void **state)
{
    (void)state;
    endpoint.awaited = 1;
    del();
    assert_int_equal(closed, 0);
}

static void mca_btl_rawe_del_procs__does_not_wait_for_a_callback(void **state)
{
    (void)state;
    pthread_t thread;

    pthread_mutex_lock(&upper);
    assert_int_equal(pthread_create(&thread, NULL, callback_main, NULL), 0);
    pthread_barrier_wait(&inside);
    del();
    pthread_mutex_unlock(&upper);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(closed, 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(mca_btl_rawe_del_procs__closes_what_is_drained),
        TEST(mca_btl_rawe_del_procs__leaves_to_finalize_what_is_not),
        TEST(mca_btl_rawe_del_procs__leaves_to_finalize_what_is_awaited),
        TEST(mca_btl_rawe_del_procs__does_not_wait_for_a_callback),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
