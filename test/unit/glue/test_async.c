/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Tests of the asynchronous progress thread: when it calls MPI's progress.
 */
#define _GNU_SOURCE
#include "btl_rawe_async.h"

#include <poll.h>
#include <sched.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "btl_rawe_compat.h"
#include "btl_rawe_lock.h"
#include "btl_rawe_module.h"
#include "btl_rawe_multicast.h"
#include "btl_rawe_params.h"
#include "fake_ompi.h"

/** A descriptor that differs from all open ones. */
#define GROUP_FD 1000

static _Atomic enum mca_btl_rawe_compat_stage stage;
static atomic_uint polls; /**< polls by the thread */
static atomic_uint calls;
static atomic_uint entries_meanwhile; /**< MPI's entries between two polls */
static atomic_bool group_busy;        /**< a group has a transfer in progress */
static atomic_uint sleeps_on_group;   /**< sleeps that a group's frame would have ended */
static atomic_uint frame_wakes;       /**< sleeps that a frame has ended */
static atomic_uint wakes;             /**< wakeups of the progress thread */
static unsigned local_ranks;

unsigned mca_btl_rawe_compat_local_ranks(void)
{
    return local_ranks;
}

enum mca_btl_rawe_compat_stage mca_btl_rawe_compat_stage(void)
{
    atomic_fetch_add(&polls, 1);
    atomic_fetch_add(&mca_btl_rawe_engines_lock.entries, entries_meanwhile);
    return stage;
}

void rawe_responder_wake(struct rawe_responder *responder, unsigned in_us)
{
    assert_false(mca_btl_rawe_async_works());
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
    const int ready = __real_ppoll(fds, count, timeout, signals);
    atomic_fetch_add(&frame_wakes, ready > 0 && count > 1 && 0 != fds[1].revents);
    return ready;
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

/** Receive the frame that waits, if there is one. */
static void make_progress(void);

#if OPAL_MAJOR_VERSION >= 5
int opal_progress(void);

int opal_progress(void)
{
    make_progress();
    return 0;
}
#else
void opal_progress(void);

void opal_progress(void)
{
    make_progress();
}
#endif

static void begin(void)
{
    fake_ompi_begin();
    stage = MCA_BTL_RAWE_COMPAT_WORKS;
    polls = calls = entries_meanwhile = sleeps_on_group = 0;
    group_busy = false;
    wakes = frame_wakes = 0;
    local_ranks = 1000000; /* more than there are processors */
    mca_btl_rawe_params.progress_thread_ms = 1;
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
static uint32_t link_word;
static struct rawe_port link_fake = {.word = &link_word, .mask = 1};
static struct rawe_port group_fake = {.word = &nothing_waits, .mask = 1, .fd = GROUP_FD};
static struct rawe_handle_table handles;
static mca_btl_rawe_module_t module; /**< idle except for groups */
static atomic_bool brings_data;      /**< the frame that arrives, unlike an acknowledgement */

static void make_progress(void)
{
    atomic_fetch_add(&calls, 1);
    if (__atomic_exchange_n(&link_word, 0, __ATOMIC_RELAXED) != 0) {
        module.engine.counters.frames_received += brings_data;
    }
}

/** Have a frame wait, whether or not its socket wakes the thread. */
static void frame_arrives(void)
{
    __atomic_store_n(&link_word, 1, __ATOMIC_RELAXED);
}

/** Wait for several rounds, in which the thread sees the test's change. */
static void wait_for_rounds(void)
{
    for (unsigned until = calls + 64; calls < until;) {
        mca_btl_rawe_async_wake();
        nanosleep(&(struct timespec){.tv_nsec = 100000}, NULL);
    }
}

static void begin_module(void)
{
    memset(&module, 0, sizeof(module));
    rawe_handle_table_init(&handles, 1);
    unit_module_start(&module, &handles);
    link_word = 0;
    link_fake.fd = eventfd(0, EFD_NONBLOCK);
    module.link = &link_fake;
    module.group_port = &group_fake;
    module.open = true;
    (void)mca_btl_rawe_async_start();
}

static void begin_with_module(void)
{
    begin();
    begin_module();
}

static void end_with_module(void)
{
    end();
    close(link_fake.fd);
    unit_module_stop(&module);
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

/** A frame wakes the thread while MPI is inside, after MPI was absent for a moment. */
static void frame_meets_mpi(void)
{
    eventfd_t ignored;

    entries_meanwhile = 0;
    wait_for_polls(3); /* it sleeps on the sockets now, or is patient */
    entries_meanwhile = 1;
    (void)eventfd_write(link_fake.fd, 1);
    wait_for_polls(2);
    (void)eventfd_read(link_fake.fd, &ignored);
}

/** Do that until the thread has become patient, or would have. */
static void frames_meet_mpi(void)
{
    for (unsigned i = 0; i < 10000 && mca_btl_rawe_async_works() && frame_wakes < 20; ++i) {
        frame_meets_mpi();
    }
}

static void make_patient(void)
{
    frames_meet_mpi();
    assert_false(mca_btl_rawe_async_works());
}

/** Wait until the thread has taken the frame that waits, and has looked again. */
static void wait_for_frame(void)
{
    while (0 != __atomic_load_n(&link_word, __ATOMIC_RELAXED)) {
        wait_for_polls(1);
    }
    wait_for_polls(40); /* a round has at most 19 */
}

TEST_WITH(with_module, async__leaves_progress_to_the_progress_thread_if_frames_meet_mpi)
{
    wait_for_rounds();
    frame_meets_mpi();
    assert_true(mca_btl_rawe_async_works());
    assert_int_equal(wakes, 0);
    make_patient();
    assert_int_not_equal(wakes, 0);
    entries_meanwhile = 0;
    wait_for_polls(3);
    unsigned before = calls;
    wait_for_polls(10);
    assert_int_equal(calls, before);
}

TEST_WITH(with_module, async_wake__wakes_the_progress_thread_in_place_of_a_patient_one)
{
    make_patient();
    unsigned before = wakes;
    wait_for_polls(4);
    assert_int_not_equal(wakes, before);
}

TEST_WITH(with_module, async__resumes_progress_once_it_finds_data)
{
    make_patient();
    entries_meanwhile = 0;
    brings_data = false;
    frame_arrives();
    wait_for_frame();
    assert_false(mca_btl_rawe_async_works());
    brings_data = true;
    frame_arrives();
    wait_for_frame();
    assert_true(mca_btl_rawe_async_works());
}

TEST_WITH(with_module, async__resumes_progress_once_it_finds_deferred_data)
{
    make_patient();
    entries_meanwhile = 0;
    mca_btl_rawe_lock();
    mca_btl_rawe_state.deferral.fragments_wait = mca_btl_rawe_state.deferral.pending = true;
    mca_btl_rawe_unlock();
    wait_for_polls(60);
    assert_true(mca_btl_rawe_async_works());
    mca_btl_rawe_lock();
    mca_btl_rawe_state.deferral.fragments_wait = mca_btl_rawe_state.deferral.pending = false;
    mca_btl_rawe_unlock();
}

TEST(async__is_never_patient_beside_a_slow_progress_thread)
{
    mca_btl_rawe_params.progress_thread_ms = 0;
    begin_module();
    frames_meet_mpi();
    assert_true(frame_wakes >= 20);
    assert_true(mca_btl_rawe_async_works());
    end_with_module();
}

TEST_WITH(with_module, async__leaves_data_to_mpi_while_it_is_inside)
{
    make_patient();
    brings_data = true;
    frame_arrives();
    wait_for_polls(40); /* MPI is inside */
    assert_false(mca_btl_rawe_async_works());
    assert_int_equal(link_word, 1);
}

TEST(async__does_not_leave_progress_to_others_if_it_has_a_core)
{
    cpu_set_t allowed;

    if (0 != sched_getaffinity(0, sizeof(allowed), &allowed) || CPU_COUNT(&allowed) < 2) {
        skip();
    }
    local_ranks = 1;
    begin_module();
    frames_meet_mpi();
    assert_true(mca_btl_rawe_async_works());
    end_with_module();
}
