/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The lock of the engines. Every call into an engine is made between mca_btl_rawe_lock and _unlock,
 * and so are the engine's callbacks into Open MPI, so the lock nests. It is taken whenever MPI
 * polls, usually without contention, and then costs one atomic instruction and one store.
 *
 * A call from Open MPI must not wait for another of MPI's threads. The caller may hold one of Open
 * MPI's locks, and a callback in the thread inside may be waiting for it (btl/base's am-rdma sends
 * with its mutex held, bml/r2 calls del_procs with its own). So the call takes this lock only if it
 * is free, and otherwise hands its work over to the thread inside. The progress thread and tools
 * *claim* the lock; they never call Open MPI, so others may wait for them. Memory registration and
 * window accesses do wait, because neither osc/rdma's completions nor ob1's callbacks take the
 * locks that osc/rdma then holds (4.1.4, 5.0.7).
 */
#ifndef MCA_BTL_RAWE_LOCK_H
#define MCA_BTL_RAWE_LOCK_H

#include "btl_rawe_compat.h"

#include "opal/prefetch.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/** A bit of `owner`: the thread inside does not call Open MPI. */
#define MCA_BTL_RAWE_CLAIMED ((uintptr_t)1)

/**
 * Work handed over to the thread that has the lock. `perform` is called once, by any thread, with
 * the lock held, and in the order of handing over: outside an engine's callback, or in one that
 * makes progress, which may be waiting for the work. It must not call Open MPI, and may free the
 * memory.
 */
struct mca_btl_rawe_work {
    struct mca_btl_rawe_work *next;
    void (*perform)(struct mca_btl_rawe_work *work);
};

struct mca_btl_rawe_engines_lock {
    atomic_uintptr_t owner;   /**< the thread inside; 0: none */
    unsigned nested;          /**< the owner's further entries */
    _Atomic uint32_t entries; /**< calls from Open MPI so far, except nested ones; wrapping */
    _Atomic(struct mca_btl_rawe_work *) handed_over; /**< newest first */
};

extern struct mca_btl_rawe_engines_lock mca_btl_rawe_engines_lock;

/** Take the lock for the progress thread. False: another thread has it. Unlock as usual. */
bool mca_btl_rawe_lock_claim(void);

/** Wait for the lock, for tools. False: this thread is inside, or MPI holds it for too long. */
bool mca_btl_rawe_lock_claim_patiently(void);

/** Have work done now, or by the thread that has the lock; it may be this one, in a callback. */
void mca_btl_rawe_lock_hand_over(struct mca_btl_rawe_work *work);

/** Do the work handed over, if any. Lock held. */
void mca_btl_rawe_lock_do_work(void);

/** Slow paths of the functions below. */
void mca_btl_rawe_lock_slowly(void);
bool mca_btl_rawe_enter_slowly(void);
void mca_btl_rawe_unlocked_with_work(void);

/** Return an even number that identifies the calling thread. */
static inline uintptr_t mca_btl_rawe_lock_self(void)
{
#if defined(__GNUC__) && __GNUC__ >= 11
    return (uintptr_t)__builtin_thread_pointer(); /* an instruction, not a call */
#else
    return (uintptr_t)pthread_self();
#endif
}

static inline bool mca_btl_rawe_lock_has_work(void)
{
    return NULL !=
           atomic_load_explicit(&mca_btl_rawe_engines_lock.handed_over, memory_order_relaxed);
}

/** Return the number of calls from Open MPI so far, constant while the program is outside MPI. */
static inline uint32_t mca_btl_rawe_lock_entries(void)
{
    return atomic_load_explicit(&mca_btl_rawe_engines_lock.entries, memory_order_relaxed);
}

/** Take the lock without waiting. Returns false if another thread has it. */
static inline bool mca_btl_rawe_trylock(void)
{
    struct mca_btl_rawe_engines_lock *lock = &mca_btl_rawe_engines_lock;
    uintptr_t thread = mca_btl_rawe_lock_self();
    uintptr_t owner = atomic_load_explicit(&lock->owner, memory_order_relaxed);

    if (owner == thread) {
        ++lock->nested;
        return true;
    }
    if (OPAL_UNLIKELY(0 != owner || !atomic_compare_exchange_strong_explicit(
                                        &lock->owner, &owner, thread, memory_order_acquire,
                                        memory_order_relaxed))) {
        return false;
    }
    atomic_store_explicit(&lock->entries, mca_btl_rawe_lock_entries() + 1, memory_order_relaxed);
    return true;
}

/** Wait for the lock. The caller must not hold any of Open MPI's locks. */
static inline void mca_btl_rawe_lock(void)
{
    if (OPAL_UNLIKELY(!mca_btl_rawe_trylock())) {
        mca_btl_rawe_lock_slowly();
    }
}

/** Take the lock without waiting for MPI's threads. False if one has it: hand the work over. */
static inline bool mca_btl_rawe_enter(void)
{
    if (OPAL_UNLIKELY(!mca_btl_rawe_trylock() && !mca_btl_rawe_enter_slowly())) {
        return false;
    }
    if (OPAL_UNLIKELY(mca_btl_rawe_lock_has_work() && 0 == mca_btl_rawe_engines_lock.nested)) {
        mca_btl_rawe_lock_do_work(); /* this thread may have handed over work before */
    }
    return true;
}

static inline void mca_btl_rawe_unlock(void)
{
    struct mca_btl_rawe_engines_lock *lock = &mca_btl_rawe_engines_lock;

    if (0 != lock->nested) {
        --lock->nested;
        return;
    }
    atomic_store_explicit(&lock->owner, 0, memory_order_release);
    /* Other threads hand over work, then try the lock: they get it, or we see their work. */
    if (OPAL_UNLIKELY(opal_using_threads())) {
        atomic_thread_fence(memory_order_seq_cst);
    }
    if (OPAL_UNLIKELY(mca_btl_rawe_lock_has_work())) {
        mca_btl_rawe_unlocked_with_work();
    }
}

/** Like mca_btl_rawe_enter; also false in a callback while work that was handed over waits. */
static inline bool mca_btl_rawe_enter_in_order(void)
{
    if (OPAL_UNLIKELY(!mca_btl_rawe_enter())) {
        return false;
    }
    if (OPAL_UNLIKELY(mca_btl_rawe_lock_has_work() && 0 != mca_btl_rawe_engines_lock.nested)) {
        mca_btl_rawe_unlock();
        return false;
    }
    return true;
}

#endif
