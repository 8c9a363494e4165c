/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Tests of how the progress thread serves one module.
 */
#include "unit_module.h"

#include <string.h>

#include "btl_rawe_compat.h"
#include "btl_rawe_lock.h"
#include "btl_rawe_multicast.h"
#include "btl_rawe_params.h"

static struct rawe_peer suspected; /**< a peer whose route is in doubt */
static unsigned entries_meanwhile; /**< MPI's entries while the thread checks for them */

static unsigned sent_by_flush; /**< batches sent per flush */

static enum mca_btl_rawe_compat_stage stage = MCA_BTL_RAWE_COMPAT_WORKS;

enum mca_btl_rawe_compat_stage mca_btl_rawe_compat_stage(void)
{
    return stage;
}

int __wrap_nanosleep(const struct timespec *time, struct timespec *left);
void __wrap_rawe_engine_flush(struct rawe_engine *engine, uint64_t now_ns);

void __wrap_rawe_engine_flush(struct rawe_engine *engine, uint64_t now_ns)
{
    engine->counters.batches_sent += sent_by_flush;
    engine->counters.frames_sent += sent_by_flush;
}

int __wrap_nanosleep(const struct timespec *time, struct timespec *left)
{
    mca_btl_rawe_engines_lock.entries += entries_meanwhile;
    return 0;
}

static bool group_busy;       /**< a group has a transfer in progress */
static unsigned group_rounds; /**< calls of the groups' progress */

unsigned mca_btl_rawe_multicast_progress(const mca_btl_rawe_module_t *of, bool poll_clock,
                                         bool deferring)
{
    assert_true(of == &module && poll_clock && deferring);
    group_rounds++;
    return 0;
}

unsigned mca_btl_rawe_multicast_busy(const mca_btl_rawe_module_t *of)
{
    return group_busy;
}

/** Run the thread once, in fast polling mode, with no call from MPI since its last check. */
static void take_over(void)
{
    module.thread_mode = MCA_BTL_RAWE_THREAD_POLLS_FAST;
    mca_btl_rawe_state.thread_entries = mca_btl_rawe_engines_lock.entries;
    (void)mca_btl_rawe_thread_service(&module, false);
}

/** Start with no call from MPI since the thread's last check. */
static void thread_set_up(void)
{
    fake_set_up();
    mca_btl_rawe_state.thread_entries = mca_btl_rawe_engines_lock.entries;
}

/** Have the thread poll early, as after the program left MPI with messages queued. */
static void poll_early(void)
{
    atomic_store(&mca_btl_rawe_state.early_polls, 8);
}

FIXTURE(thread_set_up, fake_tear_down);

TEST(thread_service__takes_no_more_than_a_little)
{
    fake_wait_in_bulk(QUEUE_PACKETS);
    take_over();
    assert_int_not_equal(fake.bulk_received, 0);
    assert_in_range(fake.bulk_received * PACKET_FRAMES, 1, 1024);
    assert_int_equal(module.thread_mode, MCA_BTL_RAWE_THREAD_POLLS); /* there is more to do */
}

TEST(thread_service__serves_groups_until_they_are_done)
{
    struct rawe_port port;

    module.group_port = &port;
    group_rounds = 0;
    group_busy = true;
    take_over();
    assert_int_equal(group_rounds, 1);
    assert_int_equal(module.thread_mode, MCA_BTL_RAWE_THREAD_POLLS);
    group_busy = false;
    take_over();
    assert_int_equal(group_rounds, 2);
    assert_int_equal(module.thread_mode, MCA_BTL_RAWE_THREAD_IDLE);
    module.group_port = NULL;
}

TEST(thread_service__goes_on_with_no_memory_left_for_messages)
{
    fake_arm(&module.engine, 100 * US);
    module.engine.deferral->bytes = 8u << 20;
    fake.link_refill = 1000;
    fake_wait_in_link(1000);
    for (unsigned i = 0; i < 10; i++) {
        fake_ompi.now_ns += MS;
        take_over();
    }
    assert_int_not_equal(fake.link_received, 0); /* acknowledgements may be among the frames */
    assert_int_equal(fake.expired_calls, 1);
    module.engine.deferral->bytes = 0;
}

TEST(thread_service__polls_again_after_something_came)
{
    fake_wait_in_link(1);
    take_over();
    assert_int_equal(fake.link_received, 1);
    assert_int_equal(module.thread_mode, MCA_BTL_RAWE_THREAD_POLLS);
    take_over();
    assert_int_equal(module.thread_mode, MCA_BTL_RAWE_THREAD_IDLE);
}

TEST(thread_service__a_probe_wakes_it)
{
    fake_wait_in_link(1);
    assert_int_equal(mca_btl_rawe_thread_service(&module, false), -1);
    assert_int_equal(fake.link_received, 0);
    (void)mca_btl_rawe_thread_service(&module, true);
    assert_int_equal(fake.link_received, 1);
}

/** If a peer sends a PING only because MPI is slow, the thread leaves the frames to MPI. */
TEST(thread_service__leaves_alone_what_mpi_serves)
{
    fake_wait_in_link(1);
    entries_meanwhile = 1;
    mca_btl_rawe_engines_lock.entries = 7;
    assert_in_range(mca_btl_rawe_thread_service(&module, true), 1, 16);
    assert_int_equal(fake.link_received, 0);
    entries_meanwhile = 0;
    (void)mca_btl_rawe_thread_service(&module, false);
    assert_int_equal(fake.link_received, 1); /* MPI has left */
}

/** Receive a frame outside MPI; `readable`: number of registrations that peers may GET from. */
static void mpi_is_absent(unsigned readable)
{
    mca_btl_rawe_state.handles.readable = readable;
    fake_wait_in_link(1);
    take_over();
    assert_int_equal(fake.link_received, 1);
}

TEST(thread_service__frames_wake_it_while_peers_may_get)
{
    mpi_is_absent(1);
    assert_true(fake.listens);
    module.thread_mode = MCA_BTL_RAWE_THREAD_IDLE;
    fake_wait_in_link(1);
    (void)mca_btl_rawe_thread_service(&module, false);
    assert_int_equal(fake.link_received, 2);
    assert_true(fake.listens);
}

TEST(thread_service__frames_do_not_wake_it_for_anything_else)
{
    mpi_is_absent(0);
    assert_false(fake.listens);
}

TEST(thread_service__frames_do_not_wake_it_when_mpi_is_back)
{
    mpi_is_absent(1);
    entries_meanwhile = 1;
    mca_btl_rawe_engines_lock.entries++;
    fake_wait_in_link(1);
    (void)mca_btl_rawe_thread_service(&module, false);
    entries_meanwhile = 0;
    assert_int_equal(fake.link_received, 1);
    assert_false(fake.listens);
}

/** If the interface is down, for example, its descriptor stays readable without any frames. */
TEST(thread_service__does_not_spin_on_what_it_cannot_read)
{
    mpi_is_absent(1);
    (void)mca_btl_rawe_thread_service(&module, false);
    assert_false(fake.listens);
}

/** Run the thread with data queued; the link accepts `batches` batches of it. */
static void have_more_to_send(unsigned batches)
{
    static struct rawe_conn conn;

    sent_by_flush = batches;
    rawe_list_init(&module.engine.pending);
    rawe_list_append(&module.engine.pending, &conn.pending);
    take_over();
    rawe_list_remove(&conn.pending);
    sent_by_flush = 0;
}

TEST(thread_service__room_for_a_batch_wakes_it_while_there_is_more_to_send)
{
    have_more_to_send(1);
    assert_true(fake.listens_for_room);
    assert_false(fake.listens);
    take_over();
    assert_false(fake.listens_for_room);
}

/** If the link drops outgoing batches, its descriptor stays ready to send. */
TEST(thread_service__does_not_spin_on_room_that_is_none)
{
    have_more_to_send(0);
    assert_false(fake.listens_for_room);
}

/** Assert that the thread's sleeps grow from the first poll on, up to 64 ms. */
static void assert_sleeps_grow(void)
{
    int rest_ms = 1;

    mca_btl_rawe_params.progress_thread_ms = 1;
    fake_arm(&module.engine, 1000 * MS);
    module.thread_mode = MCA_BTL_RAWE_THREAD_POLLS;
    for (unsigned i = 0; i < 8; i++) {
        const int before_ms = rest_ms;
        mca_btl_rawe_state.thread_entries = mca_btl_rawe_engines_lock.entries;
        rest_ms = mca_btl_rawe_thread_service(&module, false);
        assert_int_equal(rest_ms, before_ms < 64 ? 2 * before_ms : 64);
    }
}

/** A rank may be waiting for this processor. */
TEST(thread_service__sleeps_longer_and_longer_while_polls_achieve_nothing)
{
    assert_sleeps_grow();
}

/** MPI may wait for the kernel with the lock, for seconds: to open a ring, or to register memory. */
TEST(thread_service__sleeps_longer_and_longer_while_mpi_has_the_lock)
{
    mca_btl_rawe_engines_lock.owner = 2; /* another thread */
    assert_sleeps_grow();
    mca_btl_rawe_engines_lock.owner = 0;
}

/** While the program computes, only the progress thread can reopen the links. */
TEST(thread_service__reopens_links_when_the_group_broke)
{
    atomic_store(&mca_btl_rawe_state.fanout_repair, 1);
    (void)mca_btl_rawe_thread_service(&module, false);
    assert_int_equal(fake.repairs, 0); /* nothing is in progress */
    (void)mca_btl_rawe_thread_service(&module, true);
    assert_int_equal(fake.repairs, 1);
    (void)mca_btl_rawe_thread_service(&module, true);
    assert_int_equal(fake.repairs, 1);
}

/** While a cable is unplugged, its route is rarely checked. */
TEST(thread_service__sleeps_until_a_route_is_to_be_asked)
{
    mca_btl_rawe_state.failover.suspected = &suspected;
    int rest_ms = mca_btl_rawe_thread_service(&module, false);
    assert_int_equal(fake.routes_checks, 1);
    assert_in_range(rest_ms, 200, 210);
    assert_int_equal(module.thread_mode, MCA_BTL_RAWE_THREAD_IDLE);
    /* When woken for another reason, the thread goes back to sleep. */
    fake_ompi.now_ns += 100 * MS;
    assert_in_range(mca_btl_rawe_thread_service(&module, false), 100, 110);
    assert_int_equal(fake.routes_checks, 1);
    fake_ompi.now_ns += 110 * MS;
    rest_ms = mca_btl_rawe_thread_service(&module, false);
    assert_int_equal(fake.routes_checks, 2);
    assert_in_range(rest_ms, 200, 210);
}

/** Without a carrier no PING can be sent; the kernel reports when the carrier is back. */
TEST(thread_service__sleeps_until_a_carrier_changes)
{
    mca_btl_rawe_state.failover.suspected = &suspected;
    mca_btl_rawe_state.failover.due_ns = UINT64_MAX;
    assert_int_equal(mca_btl_rawe_thread_service(&module, false), -1);
    assert_int_equal(fake.routes_checks, 0);
    atomic_store(&mca_btl_rawe_state.interfaces_changed, true);
    assert_in_range(mca_btl_rawe_thread_service(&module, false), 200, 210);
    assert_int_equal(fake.routes_checks, 1);
}

/** Another module's connection has left the route and must tell its peer. */
TEST(thread_service__serves_those_that_left_a_route)
{
    static mca_btl_rawe_module_t other;

    memset(&other, 0, sizeof(other));
    rawe_timer_wheel_init(&other.engine.timers, fake_ompi.now_ns);
    fake_arm(&other.engine, MS);
    other.open = true;
    mca_btl_rawe_state.modules[mca_btl_rawe_state.module_count++] = &module;
    mca_btl_rawe_state.modules[mca_btl_rawe_state.module_count++] = &other;
    atomic_store(&mca_btl_rawe_state.interfaces_changed, true);
    (void)mca_btl_rawe_thread_service(&module, false);
    assert_int_equal(fake.routes_checks, 1);
    assert_int_equal(other.thread_mode, MCA_BTL_RAWE_THREAD_POLLS);
    assert_int_equal(fake.wake_us, 0);
    assert_int_equal(module.thread_mode, MCA_BTL_RAWE_THREAD_IDLE);
}

/** The thread is not woken for routes that it cannot check. */
TEST(thread_service__leaves_routes_to_modules_that_are_open)
{
    module.open = false;
    mca_btl_rawe_state.failover.suspected = &suspected;
    assert_int_equal(mca_btl_rawe_thread_service(&module, false), -1);
    assert_int_equal(fake.routes_checks, 0);
}

/** While MPI makes progress, each wakeup takes processor time from a computing process. */
TEST(thread_service__is_rarer_where_others_use_the_processor)
{
    fake.shared = true;
    mca_btl_rawe_params.progress_thread_ms = 2;
    assert_int_equal(mca_btl_rawe_thread_service(&module, true), -1);
    mca_btl_rawe_thread_watch_as(&module, MCA_BTL_RAWE_THREAD_POLLS_FAST);
    assert_int_equal(fake.wake_us, 2 * 16 * 1000);
    entries_meanwhile = 1;
    mca_btl_rawe_engines_lock.entries++;
    assert_int_equal(mca_btl_rawe_thread_service(&module, false), 2 * 16);
    entries_meanwhile = 0;
    fake_wait_in_link(1);
    assert_int_equal(mca_btl_rawe_thread_service(&module, false), 2);
}

TEST(thread_service__not_when_off)
{
    mca_btl_rawe_params.progress_thread_ms = 0;
    assert_int_equal(mca_btl_rawe_thread_service(&module, true), -1);
}

/** The asynchronous thread waits for MPI_Init, which programs that use only sessions never call. */
TEST(thread_service__goes_on_until_the_asynchronous_thread_does)
{
    atomic_store(&mca_btl_rawe_state.async_active, true);
    stage = MCA_BTL_RAWE_COMPAT_BEGINS;
    poll_early();
    mca_btl_rawe_thread_watch_as(&module, MCA_BTL_RAWE_THREAD_POLLS_FAST);
    assert_int_equal(fake.wake_us, 1000);
    mpi_is_absent(1);
    assert_true(fake.listens);
    stage = MCA_BTL_RAWE_COMPAT_WORKS;
    fake_wait_in_link(1);
    assert_int_equal(mca_btl_rawe_thread_service(&module, true), -1);
    assert_int_equal(fake.link_received, 1);
    assert_false(fake.listens);
    fake.wake_us = -1;
    module.thread_mode = MCA_BTL_RAWE_THREAD_IDLE;
    mca_btl_rawe_thread_watch_as(&module, MCA_BTL_RAWE_THREAD_POLLS_FAST);
    assert_int_equal(fake.wake_us, -1);
}

/** Do not wake the thread at once: it would interrupt its waker, and MPI may leave only later. */
TEST(thread_watch__wakes_it_after_an_interval)
{
    mca_btl_rawe_params.progress_thread_ms = 2;
    poll_early();
    mca_btl_rawe_thread_watch_as(&module, MCA_BTL_RAWE_THREAD_POLLS);
    assert_int_equal(fake.wake_us, 2 * 16 * 1000);
    mca_btl_rawe_thread_watch_as(&module, MCA_BTL_RAWE_THREAD_POLLS_FAST);
    assert_int_equal(fake.wake_us, 2000);
    fake.wake_us = -1;
    mca_btl_rawe_thread_watch_as(&module, MCA_BTL_RAWE_THREAD_POLLS_FAST);
    mca_btl_rawe_thread_watch_as(&module, MCA_BTL_RAWE_THREAD_POLLS);
    mca_btl_rawe_thread_watch_as(&module, MCA_BTL_RAWE_THREAD_POLLS_SOON);
    assert_int_equal(fake.wake_us, -1); /* the thread is already polling */
}

/** After a pause, part of a message is queued; the preceding barrier has set the slow timer. */
TEST(thread_watch_queue__wakes_it_soon_once_in_some_slow_polls)
{
    mca_btl_rawe_params.progress_thread_ms = 2;
    mca_btl_rawe_thread_watch_as(&module, MCA_BTL_RAWE_THREAD_POLLS);
    assert_int_equal(fake.wake_us, 2 * 16 * 1000);
    for (unsigned i = 0; i < 3; ++i) {
        poll_early();
        mca_btl_rawe_thread_watch_as(&module, MCA_BTL_RAWE_THREAD_POLLS_SOON);
        assert_int_equal(fake.wake_us, 1000);
        fake.wake_us = -1;
        entries_meanwhile = 1;
        for (unsigned polls = 0; polls < 2; ++polls) {
            mca_btl_rawe_thread_watch_as(&module, MCA_BTL_RAWE_THREAD_POLLS_SOON);
            mca_btl_rawe_engines_lock.entries++;
            assert_int_equal(mca_btl_rawe_thread_service(&module, false), 2 * 16);
        }
        assert_int_equal(fake.wake_us, -1);
        entries_meanwhile = 0;
    }
}

/** MPI queues messages, and sends them itself before the program computes. */
TEST(thread_watch_queue__sets_no_timer_while_the_thread_polls)
{
    mca_btl_rawe_thread_watch_as(&module, MCA_BTL_RAWE_THREAD_POLLS);
    assert_int_equal(fake.wake_us, 16 * 1000);
    fake.wake_us = -1;
    for (unsigned i = 0; i < 20; ++i) {
        mca_btl_rawe_thread_watch_as(&module, MCA_BTL_RAWE_THREAD_POLLS);
        mca_btl_rawe_thread_watch_as(&module, MCA_BTL_RAWE_THREAD_POLLS_SOON);
        mca_btl_rawe_thread_watch_as(&module, MCA_BTL_RAWE_THREAD_POLLS_FAST);
        mca_btl_rawe_engines_lock.entries++;
        fake_ompi.now_ns += 16 * MS;
        assert_int_equal(mca_btl_rawe_thread_service(&module, false), 16);
    }
    assert_int_equal(fake.wake_us, -1);
}

TEST(thread_service__stops_polling_when_the_program_computes)
{
    unsigned polls = 0;

    mca_btl_rawe_engines_lock.entries++;
    mca_btl_rawe_thread_watch_as(&module, MCA_BTL_RAWE_THREAD_POLLS);
    while (mca_btl_rawe_thread_service(&module, false) != -1) {
        fake_ompi.now_ns += 16 * MS;
        assert_in_range(++polls, 1, 10);
    }
    assert_int_equal(module.thread_mode, MCA_BTL_RAWE_THREAD_IDLE);
    assert_in_range(polls, 5, 10);
}

TEST(thread_watch_queue__wakes_it_soon_in_programs_that_poll_early)
{
    unsigned false_alarms = 0;

    mca_btl_rawe_thread_watch_as(&module, MCA_BTL_RAWE_THREAD_POLLS_SOON);
    assert_int_equal(fake.wake_us, 16 * 1000);
    have_more_to_send(1); /* which the thread finds */
    do {
        fake.wake_us = -1;
        mca_btl_rawe_thread_watch_as(&module, MCA_BTL_RAWE_THREAD_POLLS_SOON);
        (void)mca_btl_rawe_thread_service(&module, false);
        module.thread_mode = MCA_BTL_RAWE_THREAD_POLLS;
    } while (fake.wake_us == 500 && ++false_alarms < 20);
    assert_int_equal(false_alarms, 8);
}
