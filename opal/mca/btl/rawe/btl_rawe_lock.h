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
 *
 * Which of the two it is does not follow opal_using_threads() back and forth: Open MPI sets it while
 * engines are in use (btl/tcp's thread, MPI_Session_init), and clears it (MPI_T_init_thread). The
 * lock begins biased and is a mutex from when there have been threads: `claimed` is then RETIRED,
 * which it becomes while nobody is inside.
 *
 * With threads, who comes from Open MPI must not wait for the mutex: it may hold a lock of Open
 * MPI's for which a callback waits, in the thread that is inside (btl/base's am-rdma sends with its
 * mutex held, bml/r2 calls del_procs with its own). So it enters only if nobody else is inside, and
 * hands its work over otherwise: who is inside does it before leaving. What waits is registering
 * memory, and accesses to windows, whose results are wanted at once: osc/rdma calls them with locks
 * of its windows held (of a peer that is looked up, of memory being attached), none of which its
 * completions take, nor ob1's callbacks (4.1.4, 5.0.7).
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
    MCA_BTL_RAWE_LOCK_CLAIMED, /**< another thread is inside, or would like to be */
    MCA_BTL_RAWE_LOCK_RETIRED, /**< nobody any more: the mutex is used */
};

struct mca_btl_rawe_biased_lock {
    _Atomic uint32_t inside;  /**< MPI's thread is in an engine, so deep; written by it alone */
    _Atomic uint32_t claimed; /**< see above; a futex */
    atomic_uintptr_t owner;   /**< the thread that is inside, or was last */
};

/**
 * Work for who is inside. `perform` is called once, with the lock held, in the order of handing over,
 * by any thread: it must not call Open MPI. From then on the memory is its owner's again.
 */
struct mca_btl_rawe_work {
    struct mca_btl_rawe_work *next;
    void (*perform)(struct mca_btl_rawe_work *work);
};

extern struct mca_btl_rawe_biased_lock mca_btl_rawe_biased_lock;
extern opal_recursive_mutex_t mca_btl_rawe_mutex;

void mca_btl_rawe_lock_init(void);
void mca_btl_rawe_lock_destroy(void);

/**
 * Another thread than MPI's enters: the progress thread, or a tool's. False when MPI is inside, or
 * another thread.
 */
bool mca_btl_rawe_lock_claim(void);
void mca_btl_rawe_lock_unclaim(void);

/** The same, waiting. False when this thread is inside already, or MPI is for very long. */
bool mca_btl_rawe_lock_claim_patiently(void);

/** The work is done now, or by who is inside. */
void mca_btl_rawe_lock_hand_over(struct mca_btl_rawe_work *work);

/** Do what was handed over. Lock held. */
void mca_btl_rawe_lock_do_work(void);

/** Where the functions below go on when the lock is not simply free, or not biased. */
void mca_btl_rawe_lock_slowly(void);
bool mca_btl_rawe_enter_slowly(void);
bool mca_btl_rawe_trylock_slowly(void);
void mca_btl_rawe_unlock_slowly(void);

/** A number for the calling thread. */
static inline uintptr_t mca_btl_rawe_lock_self(void)
{
#if defined(__GNUC__) && __GNUC__ >= 11
    return (uintptr_t)__builtin_thread_pointer(); /* an instruction, not a call */
#else
    return (uintptr_t)pthread_self();
#endif
}

/** MPI's thread enters the biased lock. False when another thread is inside. */
static inline bool mca_btl_rawe_biased_trylock(void)
{
    struct mca_btl_rawe_biased_lock *lock = &mca_btl_rawe_biased_lock;
    uint32_t nesting = atomic_load_explicit(&lock->inside, memory_order_relaxed);

    if (0 == nesting) {
        atomic_store_explicit(&lock->owner, mca_btl_rawe_lock_self(), memory_order_relaxed);
    }
    atomic_store_explicit(&lock->inside, nesting + 1, memory_order_release);
    atomic_signal_fence(memory_order_seq_cst);
    /* Deeper down nobody else can be inside, nor gets in. */
    if (OPAL_UNLIKELY(MCA_BTL_RAWE_LOCK_FREE !=
                      atomic_load_explicit(&lock->claimed, memory_order_acquire)) &&
        0 == nesting) {
        atomic_store_explicit(&lock->inside, 0, memory_order_release);
        return false;
    }
    return true;
}

/** Is the lock biased, and nothing known of other threads of MPI? */
static inline bool mca_btl_rawe_lock_is_biased(void)
{
    return OPAL_LIKELY(
        !opal_using_threads() &&
        MCA_BTL_RAWE_LOCK_RETIRED !=
            atomic_load_explicit(&mca_btl_rawe_biased_lock.claimed, memory_order_relaxed));
}

/** For who holds no lock of Open MPI's. */
static inline void mca_btl_rawe_lock(void)
{
    if (OPAL_UNLIKELY(!mca_btl_rawe_lock_is_biased() || !mca_btl_rawe_biased_trylock())) {
        mca_btl_rawe_lock_slowly();
    }
}

/** Without waiting for a thread of MPI's. False when one is inside: hand over what is to be done. */
static inline bool mca_btl_rawe_enter(void)
{
    return OPAL_LIKELY(mca_btl_rawe_lock_is_biased() && mca_btl_rawe_biased_trylock()) ||
           mca_btl_rawe_enter_slowly();
}

/** Without waiting. False when somebody else is inside. */
static inline bool mca_btl_rawe_trylock(void)
{
    return OPAL_LIKELY(mca_btl_rawe_lock_is_biased()) ? mca_btl_rawe_biased_trylock()
                                                      : mca_btl_rawe_trylock_slowly();
}

static inline void mca_btl_rawe_unlock(void)
{
    struct mca_btl_rawe_biased_lock *lock = &mca_btl_rawe_biased_lock;

    /* It does not retire while anybody is inside: this is what it was when it was locked. */
    if (OPAL_UNLIKELY(MCA_BTL_RAWE_LOCK_RETIRED ==
                      atomic_load_explicit(&lock->claimed, memory_order_relaxed))) {
        mca_btl_rawe_unlock_slowly();
        return;
    }
    uint32_t nesting = atomic_load_explicit(&lock->inside, memory_order_relaxed);
    atomic_store_explicit(&lock->inside, nesting - 1, memory_order_release);
}

#endif
