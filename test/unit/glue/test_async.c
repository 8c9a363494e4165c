/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Tests of the asynchronous progress thread: when it calls MPI's progress.
 */
#include "btl_rawe_async.h"

#include <time.h>

#include "btl_rawe_compat.h"
#include "btl_rawe_lock.h"
#include "btl_rawe_state.h"
#include "fake_ompi.h"

static _Atomic enum mca_btl_rawe_compat_stage stage;
static atomic_uint polls; /**< the thread's */
static atomic_uint calls;
static atomic_uint entries_meanwhile; /**< MPI's, between two looks */

enum mca_btl_rawe_compat_stage mca_btl_rawe_compat_stage(void)
{
    atomic_fetch_add(&polls, 1);
    atomic_fetch_add(&mca_btl_rawe_engines_lock.entries, entries_meanwhile);
    return stage;
}

#if OPAL_MAJOR_VERSION >= 5
int opal_progress(void);

int opal_progress(void)
{
    atomic_fetch_add(&calls, 1);
    return 0;
}
#else
void opal_progress(void);

void opal_progress(void)
{
    atomic_fetch_add(&calls, 1);
}
#endif

static void begin(void)
{
    fake_ompi_begin();
    stage = MCA_BTL_RAWE_COMPAT_WORKS;
    polls = calls = entries_meanwhile = 0;
    opal_set_using_threads(false);
}

/** Until the thread has looked, and seen what the test has changed, as it did before. */
static void wait_for_polls(unsigned count)
{
    for (unsigned until = polls + count; polls < until;) {
        mca_btl_rawe_async_wake();
        nanosleep(&(struct timespec){.tv_nsec = 100000}, NULL);
    }
}

static void end(void)
{
    mca_btl_rawe_async_stop();
}

FIXTURE(begin, end);

TEST(async_start__has_open_mpi_take_its_locks)
{
    assert_false(opal_using_threads());
    assert_int_equal(mca_btl_rawe_async_start(), 0);
    assert_true(mca_btl_rawe_async_active());
    assert_true(opal_using_threads());
}

TEST(async__calls_while_mpi_is_absent)
{
    (void)mca_btl_rawe_async_start();
    wait_for_polls(3);
    assert_int_not_equal(calls, 0);
}

TEST(async__leaves_to_mpi_what_mpi_does)
{
    entries_meanwhile = 1;
    (void)mca_btl_rawe_async_start();
    wait_for_polls(5);
    assert_int_equal(calls, 0);
    entries_meanwhile = 0;
    wait_for_polls(3);
    assert_int_not_equal(calls, 0);
}

/** MPI has made no new round, as it is still in the last one. */
TEST(async__does_not_disturb_a_call_under_way)
{
    mca_btl_rawe_lock();
    (void)mca_btl_rawe_async_start();
    wait_for_polls(5);
    assert_int_equal(calls, 0);
    mca_btl_rawe_unlock();
    wait_for_polls(3);
    assert_int_not_equal(calls, 0);
}

TEST(async__waits_for_the_end_of_init)
{
    stage = MCA_BTL_RAWE_COMPAT_BEGINS;
    (void)mca_btl_rawe_async_start();
    wait_for_polls(3);
    assert_int_equal(calls, 0);
    stage = MCA_BTL_RAWE_COMPAT_WORKS;
    wait_for_polls(3);
    assert_int_not_equal(calls, 0);
}

TEST(async__calls_nothing_once_finalize_has_begun)
{
    stage = MCA_BTL_RAWE_COMPAT_ENDS;
    (void)mca_btl_rawe_async_start();
    mca_btl_rawe_async_stop();
    assert_int_equal(calls, 0);
    assert_false(mca_btl_rawe_async_active());
}
