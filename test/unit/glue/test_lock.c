/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Tests of the lock of the engines, above all while Open MPI learns that there are threads.
 */
#define _GNU_SOURCE
#include "btl_rawe_lock.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>

#include "unit_test.h"

#define ROUNDS 20000u

static bool membarrier_refused;
static unsigned long counted; /**< by the holder of the lock */
static atomic_uint claims;

/** membarrier(2) and futex(2), which take no more arguments than that. */
long __wrap_syscall(long number, long a, long b, long c, long d, long e, long f);
long __real_syscall(long number, ...);

long __wrap_syscall(long number, long a, long b, long c, long d, long e, long f)
{
    return number == SYS_membarrier && membarrier_refused
               ? -1
               : __real_syscall(number, a, b, c, d, e, f);
}

/** Work that another thread hands over before the mutex is unlocked next. */
static struct mca_btl_rawe_work *comes_late;
int __wrap_pthread_mutex_unlock(pthread_mutex_t *mutex);
int __real_pthread_mutex_unlock(pthread_mutex_t *mutex);

static void set_up(void)
{
    membarrier_refused = false;
    counted = 0;
    atomic_store(&claims, 0);
    opal_set_using_threads(false);
    mca_btl_rawe_lock_init();
}

static void tear_down(void)
{
    assert_int_equal(mca_btl_rawe_biased_lock.inside, 0);
    opal_set_using_threads(false);
    mca_btl_rawe_lock_destroy();
}

/** Can another thread enter now? */
static void *try_main(void *context)
{
    bool *entered = context;

    *entered = mca_btl_rawe_trylock();
    if (*entered) {
        mca_btl_rawe_unlock();
    }
    return NULL;
}

static bool another_may_enter(void)
{
    pthread_t thread;
    bool entered;

    assert_int_equal(pthread_create(&thread, NULL, try_main, &entered), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    return entered;
}

/** As a thread of MPI: with a callback inside that locks, too. */
static void *count_main(void *context)
{
    for (unsigned i = 0; i < ROUNDS; ++i) {
        mca_btl_rawe_lock();
        unsigned long before = counted;
        mca_btl_rawe_lock();
        counted = before + 1;
        mca_btl_rawe_unlock();
        mca_btl_rawe_unlock();
    }
    return NULL;
}

/** As a tool, until it has been inside a few times and MPI is done. */
static void *claim_main(void *context)
{
    const atomic_bool *done = context;

    do {
        if (mca_btl_rawe_lock_claim_patiently()) {
            ++counted;
            atomic_fetch_add(&claims, 1);
            mca_btl_rawe_lock_unclaim();
        }
    } while (!atomic_load(done) || atomic_load(&claims) < 10);
    return NULL;
}

FIXTURE(set_up, tear_down);

TEST(mca_btl_rawe_lock_init__a_mutex_where_there_are_threads)
{
    mca_btl_rawe_lock_destroy();
    opal_set_using_threads(true);
    mca_btl_rawe_lock_init();
    mca_btl_rawe_lock();
    assert_false(another_may_enter());
    mca_btl_rawe_unlock();
    assert_true(another_may_enter());
}

TEST(mca_btl_rawe_lock_init__a_mutex_where_membarrier_is_refused)
{
    mca_btl_rawe_lock_destroy();
    membarrier_refused = true; /* as a seccomp filter may */
    mca_btl_rawe_lock_init();
    mca_btl_rawe_lock();
    assert_false(another_may_enter());
    mca_btl_rawe_unlock();
    assert_true(mca_btl_rawe_lock_claim());
    assert_false(another_may_enter());
    mca_btl_rawe_lock_unclaim();
}

TEST(mca_btl_rawe_lock__threads_appear_while_it_is_held)
{
    mca_btl_rawe_lock();
    mca_btl_rawe_lock();
    opal_set_using_threads(true);
    assert_false(another_may_enter());
    assert_true(mca_btl_rawe_trylock()); /* this one is inside */
    mca_btl_rawe_lock();
    mca_btl_rawe_unlock();
    mca_btl_rawe_unlock();
    mca_btl_rawe_unlock();
    assert_false(another_may_enter());
    mca_btl_rawe_unlock();
    assert_true(another_may_enter());
    mca_btl_rawe_lock();
    assert_false(another_may_enter());
    mca_btl_rawe_unlock();
}

TEST(mca_btl_rawe_lock__threads_are_denied_while_it_is_held)
{
    opal_set_using_threads(true);
    mca_btl_rawe_lock();
    opal_set_using_threads(false); /* MPI_T_init_thread does that in the midst of a program */
    assert_false(another_may_enter());
    mca_btl_rawe_lock();
    mca_btl_rawe_unlock();
    assert_false(another_may_enter());
    mca_btl_rawe_unlock();
    assert_true(another_may_enter());
    assert_true(mca_btl_rawe_lock_claim());
    assert_false(another_may_enter());
    mca_btl_rawe_lock_unclaim();
}

TEST(mca_btl_rawe_lock__many_threads_after_one)
{
    pthread_t threads[3];

    assert_int_equal(pthread_create(&threads[0], NULL, count_main, NULL), 0);
    sched_yield();
    opal_set_using_threads(true); /* the first is at it already */
    for (unsigned i = 1; i < 3; ++i) {
        assert_int_equal(pthread_create(&threads[i], NULL, count_main, NULL), 0);
    }
    for (unsigned i = 0; i < 3; ++i) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    }
    assert_int_equal(counted, 3 * ROUNDS);
}

/** Work of several threads, each in its order. */
struct item {
    struct mca_btl_rawe_work work;
    unsigned thread, number;
};

static unsigned items_done[3];
static unsigned others[3];
static atomic_bool release;

static void do_item(struct mca_btl_rawe_work *work)
{
    const struct item *item = (const struct item *)work;

    assert_int_equal(item->number, items_done[item->thread]);
    items_done[item->thread]++;
}

/** As a thread of MPI: it does what it can, and hands over the rest. */
static void *work_main(void *context)
{
    struct item *items = context;

    for (unsigned i = 0; i < ROUNDS; ++i) {
        if (mca_btl_rawe_enter()) {
            do_item(&items[i].work);
            mca_btl_rawe_unlock();
        } else {
            others[items[i].thread]++;
            items[i].work.perform = do_item;
            mca_btl_rawe_lock_hand_over(&items[i].work);
        }
    }
    return NULL;
}

/** Inside until it is told to leave. */
static void *stay_main(void *context)
{
    pthread_barrier_t *entered = context;

    mca_btl_rawe_lock();
    pthread_barrier_wait(entered);
    while (!atomic_load(&release)) {
        sched_yield();
    }
    mca_btl_rawe_unlock();
    return NULL;
}

TEST(mca_btl_rawe_enter__not_beside_another_thread)
{
    struct item item = {.work = {.perform = do_item}};
    pthread_barrier_t entered;
    pthread_t thread;

    memset(items_done, 0, sizeof(items_done));
    atomic_store(&release, false);
    pthread_barrier_init(&entered, NULL, 2);
    opal_set_using_threads(true);
    assert_int_equal(pthread_create(&thread, NULL, stay_main, &entered), 0);
    pthread_barrier_wait(&entered);
    assert_false(mca_btl_rawe_enter());
    mca_btl_rawe_lock_hand_over(&item.work);
    assert_int_equal(items_done[0], 0);
    atomic_store(&release, true);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(items_done[0], 1);
    assert_true(mca_btl_rawe_enter());
    assert_true(mca_btl_rawe_enter()); /* this one is inside */
    mca_btl_rawe_unlock();
    mca_btl_rawe_unlock();
    pthread_barrier_destroy(&entered);
}

static void *enter_main(void *context)
{
    bool *entered = context;

    atomic_store(&release, true);
    *entered = mca_btl_rawe_enter();
    if (*entered) {
        mca_btl_rawe_unlock();
    }
    return NULL;
}

/** The progress thread would not see work handed over while the lock is biased, either. */
TEST(mca_btl_rawe_enter__waits_for_the_progress_thread_when_threads_appear)
{
    pthread_t thread;
    bool entered = false;

    atomic_store(&release, false);
    assert_true(mca_btl_rawe_lock_claim());
    opal_set_using_threads(true);
    assert_int_equal(pthread_create(&thread, NULL, enter_main, &entered), 0);
    while (!atomic_load(&release)) {
        sched_yield();
    }
    for (unsigned i = 0; i < 100; ++i) {
        sched_yield();
    }
    mca_btl_rawe_lock_unclaim();
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_true(entered);
}

/** Another thread is inside, and then it leaves. */
static pthread_t begin_stay(void)
{
    pthread_barrier_t entered;
    pthread_t thread;

    memset(items_done, 0, sizeof(items_done));
    atomic_store(&release, false);
    pthread_barrier_init(&entered, NULL, 2);
    assert_int_equal(pthread_create(&thread, NULL, stay_main, &entered), 0);
    pthread_barrier_wait(&entered);
    pthread_barrier_destroy(&entered);
    return thread;
}

static void end_stay(pthread_t thread)
{
    atomic_store(&release, true);
    assert_int_equal(pthread_join(thread, NULL), 0);
}

/** The thread inside entered when there were no others, and leaves without checking. */
TEST(mca_btl_rawe_lock_hand_over__to_one_that_began_alone)
{
    struct item item = {.work = {.perform = do_item}};
    pthread_t thread = begin_stay();

    opal_set_using_threads(true);
    assert_false(mca_btl_rawe_enter());
    mca_btl_rawe_lock_hand_over(&item.work);
    assert_int_equal(items_done[0], 0);
    end_stay(thread);
    assert_true(mca_btl_rawe_lock_claim());
    mca_btl_rawe_lock_unclaim();
    assert_int_equal(items_done[0], 1);
}

TEST(mca_btl_rawe_enter__what_was_handed_over_comes_first)
{
    struct item item = {.work = {.perform = do_item}};
    pthread_t thread = begin_stay();

    opal_set_using_threads(true);
    mca_btl_rawe_lock_hand_over(&item.work);
    end_stay(thread);
    assert_true(mca_btl_rawe_enter());
    assert_int_equal(items_done[0], 1);
    mca_btl_rawe_unlock();
}

TEST(mca_btl_rawe_lock_hand_over__no_thread_is_inside_any_more)
{
    struct item item = {.work = {.perform = do_item}};

    opal_set_using_threads(true);
    pthread_t thread = begin_stay();
    assert_false(mca_btl_rawe_enter());
    end_stay(thread);
    mca_btl_rawe_lock_hand_over(&item.work);
    assert_int_equal(items_done[0], 1);
}

static void *hand_over_main(void *work)
{
    mca_btl_rawe_lock_hand_over(work);
    return NULL;
}

/** Handed over when the thread inside has looked for the last time, and not left yet. */
TEST(mca_btl_rawe_unlock__looks_again_when_it_has_left)
{
    struct item item = {.work = {.perform = do_item}};

    memset(items_done, 0, sizeof(items_done));
    opal_set_using_threads(true);
    mca_btl_rawe_lock();
    comes_late = &item.work;
    mca_btl_rawe_unlock();
    assert_null(comes_late);
    assert_int_equal(items_done[0], 1);
}

int __wrap_pthread_mutex_unlock(pthread_mutex_t *mutex)
{
    struct mca_btl_rawe_work *work = comes_late;
    pthread_t thread;

    if (NULL != work) {
        comes_late = NULL;
        assert_int_equal(pthread_create(&thread, NULL, hand_over_main, work), 0);
        assert_int_equal(pthread_join(thread, NULL), 0);
        assert_int_equal(items_done[0], 0);
    }
    return __real_pthread_mutex_unlock(mutex);
}

/** The progress thread does it too. */
TEST(mca_btl_rawe_lock_unclaim__does_what_was_handed_over)
{
    struct item item = {.work = {.perform = do_item}};
    pthread_t thread;

    memset(items_done, 0, sizeof(items_done));
    opal_set_using_threads(true);
    mca_btl_rawe_lock();
    mca_btl_rawe_unlock();
    assert_true(mca_btl_rawe_lock_claim());
    struct item *items = calloc(ROUNDS, sizeof(*items));
    for (unsigned i = 0; i < ROUNDS; ++i) {
        items[i].number = i + 1;
    }
    mca_btl_rawe_lock_hand_over(&item.work);
    assert_int_equal(pthread_create(&thread, NULL, work_main, items), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(others[0], ROUNDS);
    mca_btl_rawe_lock_unclaim();
    assert_int_equal(items_done[0], ROUNDS + 1);
    free(items);
}

TEST(mca_btl_rawe_lock_hand_over__all_is_done_once_and_in_order)
{
    struct item *items = calloc(3 * (size_t)ROUNDS, sizeof(*items));
    pthread_t threads[3];

    memset(items_done, 0, sizeof(items_done));
    opal_set_using_threads(true);
    for (unsigned i = 0; i < 3 * ROUNDS; ++i) {
        items[i].thread = i / ROUNDS;
        items[i].number = i % ROUNDS;
    }
    for (unsigned i = 0; i < 3; ++i) {
        assert_int_equal(pthread_create(&threads[i], NULL, work_main, &items[i * ROUNDS]), 0);
    }
    for (unsigned i = 0; i < 3; ++i) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    }
    for (unsigned i = 0; i < 3; ++i) {
        assert_int_equal(items_done[i], ROUNDS); /* although no thread enters again */
    }
    free(items);
}

TEST(mca_btl_rawe_lock_claim_patiently__beside_mpi)
{
    pthread_t tools[2];
    atomic_bool done;

    atomic_init(&done, false);
    for (unsigned i = 0; i < 2; ++i) {
        assert_int_equal(pthread_create(&tools[i], NULL, claim_main, &done), 0);
    }
    count_main(NULL);
    atomic_store(&done, true);
    for (unsigned i = 0; i < 2; ++i) {
        assert_int_equal(pthread_join(tools[i], NULL), 0);
    }
    assert_int_equal(counted, ROUNDS + atomic_load(&claims));
}

TEST(mca_btl_rawe_lock_claim_patiently__not_from_inside)
{
    mca_btl_rawe_lock();
    assert_false(mca_btl_rawe_lock_claim_patiently());
    assert_false(mca_btl_rawe_lock_claim());
    mca_btl_rawe_unlock();
    assert_true(mca_btl_rawe_lock_claim_patiently());
    assert_false(mca_btl_rawe_lock_claim());
    mca_btl_rawe_lock_unclaim();
}
