/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Tests of the engines' lock: it nests, excludes other threads, and passes on work.
 */
#include "btl_rawe_lock.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "unit_test.h"

#define ROUNDS 20000u

static unsigned long counted; /**< incremented by the lock's holder */
static atomic_uint claims;
static atomic_bool release;

/** An item of work, and its number in the order in which its thread hands over items. */
struct item {
    struct mca_btl_rawe_work work;
    unsigned thread, number;
};

static struct item one_item;
static unsigned items_done[3], others[3];

static void do_item(struct mca_btl_rawe_work *work)
{
    const struct item *one = (const struct item *)work;

    assert_int_equal(one->number, items_done[one->thread]);
    items_done[one->thread]++;
}

static void set_up(void)
{
    counted = 0;
    atomic_store(&claims, 0);
    atomic_store(&release, false);
    memset(items_done, 0, sizeof(items_done));
    memset(others, 0, sizeof(others));
    one_item = (struct item){.work = {.perform = do_item}};
    opal_set_using_threads(true);
}

static void tear_down(void)
{
    assert_int_equal(mca_btl_rawe_engines_lock.owner, 0);
    assert_null(mca_btl_rawe_engines_lock.handed_over);
    opal_set_using_threads(false);
}

FIXTURE(set_up, tear_down);

static pthread_t begin(void *(*thread_main)(void *), void *context)
{
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, thread_main, context), 0);
    return thread;
}

static void end(pthread_t thread)
{
    assert_int_equal(pthread_join(thread, NULL), 0);
}

/** Store in `*context` whether this thread can take the lock. */
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
    bool entered;
    end(begin(try_main, &entered));
    return entered;
}

/** Hold the lock until `release` is set. */
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

static pthread_t begin_stay(void)
{
    pthread_barrier_t entered;

    pthread_barrier_init(&entered, NULL, 2);
    pthread_t thread = begin(stay_main, &entered);
    pthread_barrier_wait(&entered);
    pthread_barrier_destroy(&entered);
    return thread;
}

static void end_stay(pthread_t thread)
{
    atomic_store(&release, true);
    end(thread);
}

/** Act as an MPI thread whose callback also takes the lock. */
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

/** Act as an MPI thread: do each item of work if the lock is free, otherwise hand it over. */
static void *work_main(void *context)
{
    struct item *items = context;

    for (unsigned i = 0; i < ROUNDS; ++i) {
        if (mca_btl_rawe_enter()) {
            do_item(&items[i].work);
            mca_btl_rawe_unlock();
        } else {
            others[items[i].thread]++;
            mca_btl_rawe_lock_hand_over(&items[i].work);
        }
    }
    return NULL;
}

/** Act as a tool that claims the lock until MPI is done and ten claims have succeeded. */
static void *claim_main(void *context)
{
    const atomic_bool *done = context;

    do {
        if (mca_btl_rawe_lock_claim_patiently()) {
            ++counted;
            atomic_fetch_add(&claims, 1);
            mca_btl_rawe_unlock();
        }
    } while (!atomic_load(done) || atomic_load(&claims) < 10);
    return NULL;
}

static struct item *items_new(unsigned threads)
{
    struct item *items = calloc(threads * (size_t)ROUNDS, sizeof(*items));

    for (unsigned i = 0; i < threads * ROUNDS; ++i) {
        items[i] = (struct item){{.perform = do_item}, i / ROUNDS, i % ROUNDS};
    }
    return items;
}

TEST(mca_btl_rawe_trylock__nests)
{
    mca_btl_rawe_lock();
    assert_true(mca_btl_rawe_trylock());
    assert_true(mca_btl_rawe_enter());
    for (unsigned i = 0; i < 3; ++i) {
        assert_false(another_may_enter());
        mca_btl_rawe_unlock();
    }
    assert_true(another_may_enter());
}

/** Sends count as calls, like progress: a program that keeps sending messages is inside MPI. */
TEST(mca_btl_rawe_lock_entries__counts_calls_from_open_mpi)
{
    uint32_t before = mca_btl_rawe_lock_entries();

    mca_btl_rawe_lock();
    assert_true(mca_btl_rawe_enter());
    mca_btl_rawe_unlock();
    mca_btl_rawe_unlock();
    assert_int_equal(mca_btl_rawe_lock_entries(), before + 1);
    assert_true(mca_btl_rawe_lock_claim());
    mca_btl_rawe_unlock();
    assert_int_equal(mca_btl_rawe_lock_entries(), before + 1);
}

TEST(mca_btl_rawe_lock__waits_for_other_threads)
{
    pthread_t threads[3];

    for (unsigned i = 0; i < 3; ++i) {
        threads[i] = begin(count_main, NULL);
    }
    for (unsigned i = 0; i < 3; ++i) {
        end(threads[i]);
    }
    assert_int_equal(counted, 3 * ROUNDS);
}

TEST(mca_btl_rawe_enter__not_beside_another_thread)
{
    pthread_t thread = begin_stay();

    assert_false(mca_btl_rawe_enter());
    mca_btl_rawe_lock_hand_over(&one_item.work);
    assert_int_equal(items_done[0], 0);
    end_stay(thread);
    assert_int_equal(items_done[0], 1);
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

/** Waiting for a claim is safe: its holder calls nothing that could wait for this thread. */
TEST(mca_btl_rawe_enter__waits_for_a_claim)
{
    bool entered = false;

    assert_true(mca_btl_rawe_lock_claim());
    pthread_t thread = begin(enter_main, &entered);
    while (!atomic_load(&release)) {
        sched_yield();
    }
    for (unsigned i = 0; i < 100; ++i) {
        sched_yield();
    }
    mca_btl_rawe_unlock();
    end(thread);
    assert_true(entered);
}

TEST(mca_btl_rawe_enter__what_was_handed_over_comes_first)
{
    mca_btl_rawe_engines_lock.handed_over = &one_item.work;
    assert_true(mca_btl_rawe_enter());
    assert_int_equal(items_done[0], 1);
    mca_btl_rawe_unlock();
}

/** A callback may send, but work that other threads handed over waits until it returns. */
TEST(mca_btl_rawe_enter__leaves_what_was_handed_over_in_a_callback)
{
    mca_btl_rawe_lock();
    mca_btl_rawe_engines_lock.handed_over = &one_item.work;
    assert_true(mca_btl_rawe_enter());
    assert_int_equal(items_done[0], 0);
    mca_btl_rawe_unlock();
    assert_int_equal(items_done[0], 0);
    mca_btl_rawe_unlock();
    assert_int_equal(items_done[0], 1);
}

/** In a callback, a call that must not overtake that work hands over its own. */
TEST(mca_btl_rawe_enter_in_order__not_past_what_was_handed_over)
{
    struct item later = {.work = {.perform = do_item}, .number = 1};

    mca_btl_rawe_lock();
    assert_true(mca_btl_rawe_enter_in_order());
    mca_btl_rawe_engines_lock.handed_over = &one_item.work;
    mca_btl_rawe_unlock();
    assert_false(mca_btl_rawe_enter_in_order());
    mca_btl_rawe_lock_hand_over(&later.work);
    assert_int_equal(items_done[0], 0);
    mca_btl_rawe_unlock();
    assert_int_equal(items_done[0], 2);
}

TEST(mca_btl_rawe_lock_hand_over__no_thread_is_inside_any_more)
{
    pthread_t thread = begin_stay();

    assert_false(mca_btl_rawe_enter());
    end_stay(thread);
    mca_btl_rawe_lock_hand_over(&one_item.work);
    assert_int_equal(items_done[0], 1);
}

TEST(mca_btl_rawe_lock_hand_over__all_is_done_once_and_in_order)
{
    struct item *items = items_new(3);
    pthread_t threads[3];

    for (unsigned i = 0; i < 3; ++i) {
        threads[i] = begin(work_main, &items[i * ROUNDS]);
    }
    for (unsigned i = 0; i < 3; ++i) {
        end(threads[i]);
    }
    for (unsigned i = 0; i < 3; ++i) {
        assert_int_equal(items_done[i], ROUNDS); /* although no thread enters again */
    }
    free(items);
}

TEST(mca_btl_rawe_unlock__does_what_was_handed_over)
{
    struct item *items = items_new(1);

    mca_btl_rawe_lock();
    mca_btl_rawe_lock();
    end(begin(work_main, items));
    assert_int_equal(others[0], ROUNDS);
    mca_btl_rawe_unlock();
    assert_int_equal(items_done[0], 0);
    mca_btl_rawe_unlock();
    assert_int_equal(items_done[0], ROUNDS);
    free(items);
}

TEST(mca_btl_rawe_lock_claim__not_beside_another_thread)
{
    pthread_t thread = begin_stay();

    assert_false(mca_btl_rawe_lock_claim());
    end_stay(thread);
    assert_true(mca_btl_rawe_lock_claim());
    assert_false(another_may_enter());
    assert_false(mca_btl_rawe_lock_claim());
    mca_btl_rawe_unlock();
}

TEST(mca_btl_rawe_lock_claim_patiently__beside_mpi)
{
    pthread_t tools[2];
    atomic_bool done;

    atomic_init(&done, false);
    opal_set_using_threads(false); /* tools enter even in programs without threads */
    for (unsigned i = 0; i < 2; ++i) {
        tools[i] = begin(claim_main, &done);
    }
    count_main(NULL);
    atomic_store(&done, true);
    for (unsigned i = 0; i < 2; ++i) {
        end(tools[i]);
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
    mca_btl_rawe_unlock();
}
