/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The lock of the engines: every call into an engine is between mca_btl_rawe_lock and _unlock, also
 * while the engine calls back into Open MPI, which is why they nest.
 *
 * In a program with threads that is a recursive mutex. In others only MPI and, outside MPI,
 * the progress thread use the engines, and the lock between the two is biased towards MPI: entering
 * costs a store, a load and a compiler barrier. The progress thread, which enters rarely, makes up
 * for it with membarrier(2).
 */
#ifndef MCA_BTL_RAWE_LOCK_H
#define MCA_BTL_RAWE_LOCK_H

#include "btl_rawe_compat.h"

#include "opal/prefetch.h"
#include "opal/threads/mutex.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct mca_btl_rawe_biased_lock {
    _Atomic uint32_t inside;  /**< MPI's thread is in an engine, so deep; written by it alone */
    _Atomic uint32_t claimed; /**< the progress thread is, or would like to be; a futex */
    bool claimable;           /**< the progress thread may enter: membarrier works */
};

extern struct mca_btl_rawe_biased_lock mca_btl_rawe_biased_lock;
extern opal_recursive_mutex_t mca_btl_rawe_mutex;

void mca_btl_rawe_lock_init(void);
void mca_btl_rawe_lock_destroy(void);

/** Can the progress thread ever enter? If not, nothing goes on outside MPI. */
bool mca_btl_rawe_lock_claimable(void);

/** The progress thread enters. False when MPI is inside, or another thread. */
bool mca_btl_rawe_lock_claim(void);
void mca_btl_rawe_lock_unclaim(void);

/** MPI waits until the progress thread is out. */
void mca_btl_rawe_lock_wait(void);

/** Without waiting; single-threaded programs. False when the progress thread is inside. */
static inline bool mca_btl_rawe_biased_trylock(void)
{
    struct mca_btl_rawe_biased_lock *lock = &mca_btl_rawe_biased_lock;
    uint32_t nesting = atomic_load_explicit(&lock->inside, memory_order_relaxed);

    atomic_store_explicit(&lock->inside, nesting + 1, memory_order_relaxed);
    atomic_signal_fence(memory_order_seq_cst);
    /* Deeper down it cannot be inside, and does not get in. */
    if (OPAL_UNLIKELY(0 != atomic_load_explicit(&lock->claimed, memory_order_acquire)) &&
        0 == nesting) {
        atomic_store_explicit(&lock->inside, 0, memory_order_release);
        return false;
    }
    return true;
}

static inline void mca_btl_rawe_lock(void)
{
    if (OPAL_UNLIKELY(opal_using_threads())) {
        opal_mutex_lock(&mca_btl_rawe_mutex);
        return;
    }
    while (OPAL_UNLIKELY(!mca_btl_rawe_biased_trylock())) {
        mca_btl_rawe_lock_wait();
    }
}

/** Without waiting. False when somebody else is inside. */
static inline bool mca_btl_rawe_trylock(void)
{
    if (OPAL_UNLIKELY(opal_using_threads())) {
        return 0 == opal_mutex_trylock(&mca_btl_rawe_mutex);
    }
    return mca_btl_rawe_biased_trylock();
}

static inline void mca_btl_rawe_unlock(void)
{
    if (OPAL_UNLIKELY(opal_using_threads())) {
        opal_mutex_unlock(&mca_btl_rawe_mutex);
        return;
    }
    struct mca_btl_rawe_biased_lock *lock = &mca_btl_rawe_biased_lock;
    uint32_t nesting = atomic_load_explicit(&lock->inside, memory_order_relaxed);
    atomic_store_explicit(&lock->inside, nesting - 1, memory_order_release);
}

#endif
