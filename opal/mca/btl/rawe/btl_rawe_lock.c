/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The lock of the engines. See btl_rawe_lock.h.
 */
#define _GNU_SOURCE
#include "btl_rawe_lock.h"

#include <limits.h>
#include <linux/futex.h>
#include <linux/membarrier.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

/** How often MPI yields the processor to the progress thread before it sleeps. */
#define YIELDS_MAX 4u

/** How often a tool yields the processor to MPI before it gives up. */
#define PATIENCE 10000u

struct mca_btl_rawe_biased_lock mca_btl_rawe_biased_lock;
opal_recursive_mutex_t mca_btl_rawe_mutex;

/** Work handed over and not taken yet, the newest first. */
static _Atomic(struct mca_btl_rawe_work *) handed_over;

static long membarrier(int command)
{
    return syscall(SYS_membarrier, command, 0, 0);
}

static uint32_t claimed(void)
{
    return atomic_load_explicit(&mca_btl_rawe_biased_lock.claimed, memory_order_acquire);
}

static bool is_inside(void)
{
    return 0 != atomic_load_explicit(&mca_btl_rawe_biased_lock.inside, memory_order_acquire);
}

static bool is_inside_itself(void)
{
    return is_inside() &&
           mca_btl_rawe_lock_self() ==
               atomic_load_explicit(&mca_btl_rawe_biased_lock.owner, memory_order_relaxed);
}

void mca_btl_rawe_lock_init(void)
{
    /* Without membarrier(2) the biased lock cannot be claimed. */
    bool biased =
        !opal_using_threads() && 0 == membarrier(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED);

    OBJ_CONSTRUCT(&mca_btl_rawe_mutex, opal_recursive_mutex_t);
    atomic_store(&handed_over, NULL);
    atomic_store(&mca_btl_rawe_biased_lock.inside, 0);
    atomic_store(&mca_btl_rawe_biased_lock.claimed,
                 biased ? MCA_BTL_RAWE_LOCK_FREE : MCA_BTL_RAWE_LOCK_RETIRED);
}

void mca_btl_rawe_lock_destroy(void)
{
    OBJ_DESTRUCT(&mca_btl_rawe_mutex);
}

/** Wait until no other thread claims the lock. */
static void wait_unclaimed(void)
{
    for (unsigned i = 0; i < YIELDS_MAX; ++i) {
        sched_yield();
        if (MCA_BTL_RAWE_LOCK_CLAIMED != claimed()) {
            return;
        }
    }
    (void)syscall(SYS_futex, &mca_btl_rawe_biased_lock.claimed, FUTEX_WAIT_PRIVATE,
                  MCA_BTL_RAWE_LOCK_CLAIMED, NULL, NULL, 0);
}

static void end_claim(uint32_t next)
{
    atomic_store_explicit(&mca_btl_rawe_biased_lock.claimed, next, memory_order_release);
    (void)syscall(SYS_futex, &mca_btl_rawe_biased_lock.claimed, FUTEX_WAKE_PRIVATE, INT_MAX, NULL,
                  NULL, 0);
}

/** Claim the biased lock. MPI's thread may still be inside. */
static bool begin_claim(void)
{
    uint32_t free = MCA_BTL_RAWE_LOCK_FREE;

    if (!atomic_compare_exchange_strong(&mca_btl_rawe_biased_lock.claimed, &free,
                                        MCA_BTL_RAWE_LOCK_CLAIMED)) {
        return false;
    }
    /*
     * Either MPI's thread sees the claim, or we see `inside`: the kernel makes it execute a full
     * barrier in between (membarrier(2), "private expedited").
     */
    if (0 != membarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED)) {
        end_claim(MCA_BTL_RAWE_LOCK_FREE);
        return false;
    }
    return true;
}

/** MPI has threads now: once the lock is free, the mutex takes its place. */
static void retire(bool wait)
{
    if (!begin_claim()) {
        return;
    }
    while (wait && is_inside()) {
        sched_yield(); /* a thread that entered before there were others */
    }
    end_claim(is_inside() ? MCA_BTL_RAWE_LOCK_FREE : MCA_BTL_RAWE_LOCK_RETIRED);
}

void mca_btl_rawe_lock_do_work(void)
{
    struct mca_btl_rawe_work *newest = atomic_exchange(&handed_over, NULL), *oldest = NULL;

    while (NULL != newest) {
        struct mca_btl_rawe_work *before = newest->next;
        newest->next = oldest;
        oldest = newest;
        newest = before;
    }
    while (NULL != oldest) {
        struct mca_btl_rawe_work *next = oldest->next;
        oldest->perform(oldest);
        oldest = next;
    }
}

/** Release the mutex, after doing what was handed over meanwhile. */
void mca_btl_rawe_unlock_slowly(void)
{
    do {
        mca_btl_rawe_lock_do_work();
        opal_mutex_unlock(&mca_btl_rawe_mutex);
        /* A thread hands over before it tries the mutex: either it gets it, or we see the work. */
        atomic_thread_fence(memory_order_seq_cst);
    } while (NULL != atomic_load(&handed_over) && 0 == opal_mutex_trylock(&mca_btl_rawe_mutex));
}

void mca_btl_rawe_lock_hand_over(struct mca_btl_rawe_work *work)
{
    work->next = atomic_load(&handed_over);
    while (!atomic_compare_exchange_weak(&handed_over, &work->next, work)) {
    }
    atomic_thread_fence(memory_order_seq_cst); /* see mca_btl_rawe_unlock_slowly */
    if (mca_btl_rawe_trylock_slowly()) {
        mca_btl_rawe_unlock();
    }
}

void mca_btl_rawe_lock_slowly(void)
{
    for (;;) {
        if (MCA_BTL_RAWE_LOCK_RETIRED == claimed()) {
            opal_mutex_lock(&mca_btl_rawe_mutex);
            return;
        }
        if (opal_using_threads() && !is_inside_itself()) {
            retire(true);
        } else if (mca_btl_rawe_biased_trylock()) {
            return;
        }
        if (MCA_BTL_RAWE_LOCK_CLAIMED == claimed()) {
            wait_unclaimed();
        }
    }
}

bool mca_btl_rawe_enter_slowly(void)
{
    if (!opal_using_threads() && MCA_BTL_RAWE_LOCK_RETIRED != claimed()) {
        mca_btl_rawe_lock_slowly(); /* the progress thread, or a tool, has it: not for long */
        return true;
    }
    while (!mca_btl_rawe_trylock_slowly()) {
        if (MCA_BTL_RAWE_LOCK_CLAIMED != claimed() || is_inside()) {
            return false;
        }
        wait_unclaimed(); /* the same; neither is in a callback */
    }
    mca_btl_rawe_lock_do_work(); /* this thread may have handed over work before */
    return true;
}

bool mca_btl_rawe_trylock_slowly(void)
{
    if (MCA_BTL_RAWE_LOCK_RETIRED != claimed()) {
        if (is_inside_itself()) {
            return mca_btl_rawe_biased_trylock();
        }
        retire(false);
    }
    return MCA_BTL_RAWE_LOCK_RETIRED == claimed() && 0 == opal_mutex_trylock(&mca_btl_rawe_mutex);
}

bool mca_btl_rawe_lock_claim(void)
{
    if (MCA_BTL_RAWE_LOCK_RETIRED == claimed()) {
        return 0 == opal_mutex_trylock(&mca_btl_rawe_mutex);
    }
    if (!begin_claim()) {
        return false;
    }
    if (is_inside()) {
        end_claim(MCA_BTL_RAWE_LOCK_FREE);
        return false;
    }
    return true;
}

void mca_btl_rawe_lock_unclaim(void)
{
    /* A claimed lock does not retire. */
    if (MCA_BTL_RAWE_LOCK_RETIRED == claimed()) {
        mca_btl_rawe_unlock_slowly();
    } else {
        mca_btl_rawe_lock_do_work(); /* handed over while the lock was biased */
        end_claim(MCA_BTL_RAWE_LOCK_FREE);
    }
}

bool mca_btl_rawe_lock_claim_patiently(void)
{
    for (unsigned i = 0; i < PATIENCE && !is_inside_itself(); ++i) {
        if (mca_btl_rawe_lock_claim()) {
            return true;
        }
        sched_yield();
    }
    return false;
}
