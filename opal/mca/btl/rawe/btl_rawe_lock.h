/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The lock of the engines. Every call into an engine is between mca_btl_rawe_lock and _unlock, and
 * so are the engine's callbacks into Open MPI; hence the lock nests.
 *
 * In a program with threads it is a recursive mutex. In others, only MPI's thread and, outside MPI,
 * the progress thread use the engines, and the lock is biased towards MPI: entering costs a store,
 * a load and a compiler barrier. The progress thread, which enters rarely, makes up for that with
 * membarrier(2).
 *
 * Open MPI sets opal_using_threads() while engines are in use (btl/tcp's thread, MPI_Session_init),
 * and clears it (MPI_T_init_thread). The lock does not follow it back: it starts biased and becomes
 * a mutex for good once there are threads, at a moment when it is free. `claimed` is RETIRED then.
 *
 * With threads, a call from Open MPI must not wait for the mutex: the caller may hold a lock of
 * Open MPI's that a callback waits for in the thread that has the mutex (btl/base's am-rdma sends
 * with its mutex held, bml/r2 calls del_procs with its own). So it takes the mutex only if it is
 * free, and otherwise hands its work over to the thread that has it, which does the work before it
 * leaves. Registering memory does wait, and so do accesses to windows, whose results are needed at
 * once: osc/rdma calls them with locks of its windows held (of a peer that is looked up, of memory
 * being attached), which neither its completions nor ob1's callbacks take (4.1.4, 5.0.7).
 */
#ifndef MCA_BTL_RAWE_LOCK_H
#define MCA_BTL_RAWE_LOCK_H

#include "btl_rawe_compat.h"

#include "opal/prefetch.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/** Who may enter the biased lock. */
enum {
    MCA_BTL_RAWE_LOCK_FREE,    /**< MPI's thread */
    MCA_BTL_RAWE_LOCK_CLAIMED, /**< another thread, once MPI's has left */
    MCA_BTL_RAWE_LOCK_RETIRED, /**< no thread: the mutex is used */
};

struct mca_btl_rawe_biased_lock {
    _Atomic uint32_t inside;  /**< nesting depth of MPI's thread; only that writes it */
    _Atomic uint32_t claimed; /**< see above; a futex */
    atomic_uintptr_t owner;   /**< the thread that is inside, or was the last one */
};

/**
 * Work handed over to the thread that has the lock. Any thread may call `perform`: once, with the
 * lock held, in the order of handing over. It must not call Open MPI, and may free the memory.
 */
struct mca_btl_rawe_work {
    struct mca_btl_rawe_work *next;
    void (*perform)(struct mca_btl_rawe_work *work);
};

extern struct mca_btl_rawe_biased_lock mca_btl_rawe_biased_lock;
extern opal_recursive_mutex_t mca_btl_rawe_mutex;

void mca_btl_rawe_lock_init(void);
void mca_btl_rawe_lock_destroy(void);

/** For the progress thread, or a tool's. False if another thread has the lock. */
bool mca_btl_rawe_lock_claim(void);
void mca_btl_rawe_lock_unclaim(void);

/** The same, waiting. False if this thread has the lock itself, or MPI keeps it for very long. */
bool mca_btl_rawe_lock_claim_patiently(void);

/** Have work done: now, or by the thread that has the lock. */
void mca_btl_rawe_lock_hand_over(struct mca_btl_rawe_work *work);

/** Do what was handed over. Lock held. */
void mca_btl_rawe_lock_do_work(void);

/** The slow paths of the functions below: the lock is taken, or not biased. */
void mca_btl_rawe_lock_slowly(void);
bool mca_btl_rawe_enter_slowly(void);
bool mca_btl_rawe_trylock_slowly(void);
void mca_btl_rawe_unlock_slowly(void);

/** Identifies the calling thread. */
static inline uintptr_t mca_btl_rawe_lock_self(void)
{
#if defined(__GNUC__) && __GNUC__ >= 11
    return (uintptr_t)__builtin_thread_pointer(); /* an instruction, not a call */
#else
    return (uintptr_t)pthread_self();
#endif
}

/** MPI's thread takes the biased lock. False if another thread has it. */
static inline bool mca_btl_rawe_biased_trylock(void)
{
    struct mca_btl_rawe_biased_lock *lock = &mca_btl_rawe_biased_lock;
    uint32_t nesting = atomic_load_explicit(&lock->inside, memory_order_relaxed);

    if (0 == nesting) {
        atomic_store_explicit(&lock->owner, mca_btl_rawe_lock_self(), memory_order_relaxed);
    }
    atomic_store_explicit(&lock->inside, nesting + 1, memory_order_release);
    atomic_signal_fence(memory_order_seq_cst);
    /* Nested call: this thread already holds it. */
    if (OPAL_UNLIKELY(MCA_BTL_RAWE_LOCK_FREE !=
                      atomic_load_explicit(&lock->claimed, memory_order_acquire)) &&
        0 == nesting) {
        atomic_store_explicit(&lock->inside, 0, memory_order_release);
        return false;
    }
    return true;
}

/** Is the lock biased, and MPI without threads? */
static inline bool mca_btl_rawe_lock_is_biased(void)
{
    return OPAL_LIKELY(
        !opal_using_threads() &&
        MCA_BTL_RAWE_LOCK_RETIRED !=
            atomic_load_explicit(&mca_btl_rawe_biased_lock.claimed, memory_order_relaxed));
}

/** Wait for the lock. The caller holds no lock of Open MPI's. */
static inline void mca_btl_rawe_lock(void)
{
    if (OPAL_UNLIKELY(!mca_btl_rawe_lock_is_biased() || !mca_btl_rawe_biased_trylock())) {
        mca_btl_rawe_lock_slowly();
    }
}

/** Do not wait for a thread of MPI's. False if one has the lock: hand the work over. */
static inline bool mca_btl_rawe_enter(void)
{
    return OPAL_LIKELY(mca_btl_rawe_lock_is_biased() && mca_btl_rawe_biased_trylock()) ||
           mca_btl_rawe_enter_slowly();
}

/** Do not wait. False if another thread has the lock. */
static inline bool mca_btl_rawe_trylock(void)
{
    return OPAL_LIKELY(mca_btl_rawe_lock_is_biased()) ? mca_btl_rawe_biased_trylock()
                                                      : mca_btl_rawe_trylock_slowly();
}

static inline void mca_btl_rawe_unlock(void)
{
    struct mca_btl_rawe_biased_lock *lock = &mca_btl_rawe_biased_lock;

    /* It does not retire while it is held: this is the lock that was taken. */
    if (OPAL_UNLIKELY(MCA_BTL_RAWE_LOCK_RETIRED ==
                      atomic_load_explicit(&lock->claimed, memory_order_relaxed))) {
        mca_btl_rawe_unlock_slowly();
        return;
    }
    uint32_t nesting = atomic_load_explicit(&lock->inside, memory_order_relaxed);
    atomic_store_explicit(&lock->inside, nesting - 1, memory_order_release);
}

#endif
