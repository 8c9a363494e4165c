/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Tests of the asynchronous progress thread: when it calls MPI's progress.
 */
#define _GNU_SOURCE
#include "btl_rawe_async.h"

#include <poll.h>
#include <string.h>
#include <time.h>

#include "btl_rawe_compat.h"
#include "btl_rawe_lock.h"
#include "btl_rawe_module.h"
#include "btl_rawe_multicast.h"
#include "fake_ompi.h"

/** A descriptor that differs from all open ones. */
#define GROUP_FD 1000

static _Atomic enum mca_btl_rawe_compat_stage stage;
static atomic_uint polls; /**< polls by the thread */
static atomic_uint calls;
static atomic_uint entries_meanwhile; /**< MPI's entries between two polls */
static atomic_bool group_busy;        /**< a group has a transfer in progress */
static atomic_uint sleeps_on_group;   /**< sleeps that a group's frame would have ended */
static unsigned wakes;                /**< wakeups of the progress thread */

enum mca_btl_rawe_compat_stage mca_btl_rawe_compat_stage(void)
{
    atomic_fetch_add(&polls, 1);
    atomic_fetch_add(&mca_btl_rawe_engines_lock.entries, entries_meanwhile);
    return stage;
}

void rawe_responder_wake(struct rawe_responder *responder, unsigned in_us)
{
    assert_false(mca_btl_rawe_async_active());
    assert_int_equal(in_us, 0);
    wakes++;
}

unsigned mca_btl_rawe_multicast_busy(const mca_btl_rawe_module_t *module)
{
    return group_busy;
}

int __real_ppoll(struct pollfd *fds, nfds_t count, const struct timespec *timeout,
                 const sigset_t *signals);
int __wrap_ppoll(struct pollfd *fds, nfds_t count, const struct timespec *timeout,
                 const sigset_t *signals);

int __wrap_ppoll(struct pollfd *fds, nfds_t count, const struct timespec *timeout,
                 const sigset_t *signals)
{
    for (nfds_t i = 0; i < count; ++i) {
        if (GROUP_FD == fds[i].fd) {
            atomic_fetch_add(&sleeps_on_group, POLLIN == fds[i].events);
            fds[i].fd = -1;
        }
    }
    return __real_ppoll(fds, count, timeout, signals);
}

int __wrap___ppoll_chk(struct pollfd *fds, nfds_t count, const struct timespec *timeout,
                       const sigset_t *signals, size_t room_bytes);

/** ppoll, in builds with _FORTIFY_SOURCE, as distributions make them. */
int __wrap___ppoll_chk(struct pollfd *fds, nfds_t count, const struct timespec *timeout,
                       const sigset_t *signals, size_t room_bytes)
{
    assert_true(count * sizeof(*fds) <= room_bytes);
    return __wrap_ppoll(fds, count, timeout, signals);
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
    polls = calls = entries_meanwhile = sleeps_on_group = 0;
    group_busy = false;
    wakes = 0;
    opal_set_using_threads(false);
}

/** Wait until the thread has polled again and seen the test's change. */
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

/** MPI starts no new round of progress because the last one is still running. */
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

static const uint32_t nothing_waits;
static struct rawe_port link_fake = {.word = &nothing_waits, .mask = 1, .fd = -1};
static struct rawe_port group_fake = {.word = &nothing_waits, .mask = 1, .fd = GROUP_FD};
static struct rawe_handle_table handles;
static mca_btl_rawe_module_t module; /**< idle except for groups */

/** Wait for several rounds, in which the thread sees the test's change. */
static void wait_for_rounds(void)
{
    for (unsigned until = calls + 64; calls < until;) {
        mca_btl_rawe_async_wake();
        nanosleep(&(struct timespec){.tv_nsec = 100000}, NULL);
    }
}

static void begin_with_module(void)
{
    begin();
    memset(&module, 0, sizeof(module));
    rawe_handle_table_init(&handles, 1);
    unit_engine_start(&module.engine, &handles, &module, 0);
    module.link = &link_fake;
    module.group_port = &group_fake;
    module.open = true;
    mca_btl_rawe_state.modules[mca_btl_rawe_state.module_count++] = &module;
    (void)mca_btl_rawe_async_start();
}

static void end_with_module(void)
{
    end();
    rawe_engine_free(&module.engine);
    rawe_handle_table_free(&handles);
}

static const struct unit_fixture with_module = {begin_with_module, end_with_module};

TEST_WITH(with_module, async__serves_groups_until_they_are_done)
{
    group_busy = true;
    wait_for_rounds();
    module.thread_mode = MCA_BTL_RAWE_THREAD_POLLS;
    wait_for_rounds();
    assert_int_equal(module.thread_mode, MCA_BTL_RAWE_THREAD_POLLS);
    group_busy = false;
    wait_for_rounds();
    assert_int_equal(module.thread_mode, MCA_BTL_RAWE_THREAD_IDLE);
}

TEST_WITH(with_module, async__frames_of_groups_wake_it)
{
    wait_for_rounds();
    assert_int_not_equal(sleeps_on_group, 0);
}

TEST_WITH(with_module, async_stop__leaves_the_rest_to_the_progress_thread)
{
    wait_for_rounds();
    assert_int_equal(wakes, 0);
    mca_btl_rawe_async_stop();
    assert_int_equal(wakes, 1);
}
