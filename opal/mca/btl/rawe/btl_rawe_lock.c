/* SPDX-License-Identifier: BSD-3-Clause */
#include "btl_rawe_lock.h"

#include <sched.h>
#include <time.h>

/** How many times a thread yields the processor to the one inside before it sleeps. */
#define YIELDS_MAX 4u
#define SLEEP_NS 50000

/** How many times a tool yields the processor to MPI before it gives up. */
#define PATIENCE 10000u

struct mca_btl_rawe_engines_lock mca_btl_rawe_engines_lock;

/** Wait briefly for the thread inside: first yield, then sleep in case its priority is lower. */
static void wait_a_little(unsigned tries)
{
    const struct timespec pause = {.tv_nsec = SLEEP_NS};

    if (tries < YIELDS_MAX) {
        sched_yield();
    } else {
        (void)nanosleep(&pause, NULL);
    }
}

void mca_btl_rawe_lock_slowly(void)
{
    for (unsigned tries = 0; !mca_btl_rawe_trylock(); ++tries) {
        wait_a_little(tries);
    }
}

bool mca_btl_rawe_enter_slowly(void)
{
    for (unsigned tries = 0; !mca_btl_rawe_trylock(); ++tries) {
        uintptr_t owner = atomic_load(&mca_btl_rawe_engines_lock.owner);
        if (0 != owner && 0 == (owner & MCA_BTL_RAWE_CLAIMED)) {
            return false;
        }
        wait_a_little(tries);
    }
    return true;
}

bool mca_btl_rawe_lock_claim(void)
{
    uintptr_t free = 0;

    return atomic_compare_exchange_strong(&mca_btl_rawe_engines_lock.owner, &free,
                                          mca_btl_rawe_lock_self() | MCA_BTL_RAWE_CLAIMED);
}

bool mca_btl_rawe_lock_claim_patiently(void)
{
    for (unsigned i = 0;
         i < PATIENCE && mca_btl_rawe_lock_self() != atomic_load(&mca_btl_rawe_engines_lock.owner);
         ++i) {
        if (mca_btl_rawe_lock_claim()) {
            return true;
        }
        sched_yield();
    }
    return false;
}

void mca_btl_rawe_lock_do_work(void)
{
    struct mca_btl_rawe_work *newest =
        atomic_exchange(&mca_btl_rawe_engines_lock.handed_over, NULL);
    struct mca_btl_rawe_work *oldest = NULL;

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

void mca_btl_rawe_unlocked_with_work(void)
{
    if (mca_btl_rawe_trylock()) {
        if (0 == mca_btl_rawe_engines_lock.nested) { /* otherwise when the callback returns */
            mca_btl_rawe_lock_do_work();
        }
        mca_btl_rawe_unlock();
    }
}

void mca_btl_rawe_lock_hand_over(struct mca_btl_rawe_work *work)
{
    struct mca_btl_rawe_engines_lock *lock = &mca_btl_rawe_engines_lock;

    work->next = atomic_load(&lock->handed_over);
    while (!atomic_compare_exchange_weak(&lock->handed_over, &work->next, work)) {
    }
    atomic_thread_fence(memory_order_seq_cst); /* see mca_btl_rawe_unlock */
    mca_btl_rawe_unlocked_with_work();
}
