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

/** Turns in which MPI yields the processor to the progress thread before it sleeps. */
#define YIELDS_MAX 4u

struct mca_btl_rawe_biased_lock mca_btl_rawe_biased_lock;
opal_recursive_mutex_t mca_btl_rawe_mutex;

static long membarrier(int command)
{
    return syscall(SYS_membarrier, command, 0, 0);
}

void mca_btl_rawe_lock_init(void)
{
    OBJ_CONSTRUCT(&mca_btl_rawe_mutex, opal_recursive_mutex_t);
    mca_btl_rawe_biased_lock.claimable = 0 == membarrier(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED);
}

void mca_btl_rawe_lock_destroy(void)
{
    OBJ_DESTRUCT(&mca_btl_rawe_mutex);
}

bool mca_btl_rawe_lock_claimable(void)
{
    return mca_btl_rawe_biased_lock.claimable || opal_using_threads();
}

void mca_btl_rawe_lock_wait(void)
{
    for (unsigned i = 0; i < YIELDS_MAX; ++i) {
        sched_yield();
        if (0 == atomic_load_explicit(&mca_btl_rawe_biased_lock.claimed, memory_order_acquire)) {
            return;
        }
    }
    (void)syscall(SYS_futex, &mca_btl_rawe_biased_lock.claimed, FUTEX_WAIT_PRIVATE, 1, NULL, NULL,
                  0);
}

static void biased_unclaim(void)
{
    atomic_store_explicit(&mca_btl_rawe_biased_lock.claimed, 0, memory_order_release);
    (void)syscall(SYS_futex, &mca_btl_rawe_biased_lock.claimed, FUTEX_WAKE_PRIVATE, INT_MAX, NULL,
                  NULL, 0);
}

bool mca_btl_rawe_lock_claim(void)
{
    uint32_t free = 0;

    if (opal_using_threads()) {
        return 0 == opal_mutex_trylock(&mca_btl_rawe_mutex);
    }
    if (!mca_btl_rawe_biased_lock.claimable ||
        !atomic_compare_exchange_strong(&mca_btl_rawe_biased_lock.claimed, &free, 1)) {
        return false;
    }
    /*
     * MPI's thread either sees the claim, or its being inside is seen here: the kernel has it pass
     * a full barrier in between (membarrier(2), "private expedited").
     */
    if (0 != membarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED) ||
        0 != atomic_load_explicit(&mca_btl_rawe_biased_lock.inside, memory_order_acquire)) {
        biased_unclaim();
        return false;
    }
    return true;
}

void mca_btl_rawe_lock_unclaim(void)
{
    if (opal_using_threads()) {
        opal_mutex_unlock(&mca_btl_rawe_mutex);
    } else {
        biased_unclaim();
    }
}
