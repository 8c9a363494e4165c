/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Who may use the engines: MPI, or, while MPI is away, the progress thread.
 *
 * MPI programs compute, and wait outside of MPI progress, for as long as they like. Frames lost
 * just before, acknowledgements owed and messages held back must not wait for them. So each
 * module's responder thread has a second duty: when no progress has been made for a while, it takes
 * the engine over for a moment (rawe_engine_defer_begin).
 *
 * The lock between the two is biased towards MPI: entering costs a store, a load and a compiler
 * barrier. The progress thread, which enters rarely, makes up for it with membarrier(2).
 */
#ifndef MCA_BTL_RAWE_THREAD_H
#define MCA_BTL_RAWE_THREAD_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "opal/prefetch.h"

struct mca_btl_rawe_module;

struct mca_btl_rawe_thread {
    _Atomic uint32_t inside;  /**< MPI's thread is in an engine, so deep; written by it alone */
    _Atomic uint32_t claimed; /**< the progress thread is, or would like to be; a futex */
    _Atomic uint32_t rounds;  /**< calls of progress so far, wrapping */
    bool ready;               /**< the progress thread may take over: membarrier works */
};

extern struct mca_btl_rawe_thread mca_btl_rawe_thread;

/** Before the first module is opened. */
void mca_btl_rawe_thread_init(void);

/** Wait until the progress thread is out. */
void mca_btl_rawe_thread_wait(void);

/** Enter without waiting. False when the progress thread is inside. Single-threaded programs only. */
static inline bool mca_btl_rawe_thread_try_enter(void)
{
    uint32_t depth = atomic_load_explicit(&mca_btl_rawe_thread.inside, memory_order_relaxed);
    atomic_store_explicit(&mca_btl_rawe_thread.inside, depth + 1, memory_order_relaxed);
    atomic_signal_fence(memory_order_seq_cst);
    /* Deeper down it cannot be inside, and does not get in. */
    if (OPAL_UNLIKELY(
            0 != atomic_load_explicit(&mca_btl_rawe_thread.claimed, memory_order_acquire))
        && 0 == depth) {
        atomic_store_explicit(&mca_btl_rawe_thread.inside, 0, memory_order_release);
        return false;
    }
    return true;
}

static inline void mca_btl_rawe_thread_enter(void)
{
    while (OPAL_UNLIKELY(!mca_btl_rawe_thread_try_enter())) {
        mca_btl_rawe_thread_wait();
    }
}

static inline void mca_btl_rawe_thread_leave(void)
{
    uint32_t depth = atomic_load_explicit(&mca_btl_rawe_thread.inside, memory_order_relaxed);
    atomic_store_explicit(&mca_btl_rawe_thread.inside, depth - 1, memory_order_release);
}

/** rawe_responder's second duty; context is the module. */
int mca_btl_rawe_thread_service(void *context, bool asked);

/**
 * rawe_responder's question with each PING; context is the module. Has MPI been in progress often
 * enough lately to have read all that had come? The progress thread's takeovers do not count: it
 * refuses unknown peers, and gives nobody up.
 */
bool mca_btl_rawe_thread_serviced(void *context);

/** How the progress thread looks after a module. */
enum {
    MCA_BTL_RAWE_THREAD_IDLE = 0, /**< nothing is under way */
    MCA_BTL_RAWE_THREAD_POLLS,
    MCA_BTL_RAWE_THREAD_POLLS_FAST, /**< messages are held back: more often */
};

/** Something of the module is under way: the progress thread shall look after it so. Lock held. */
void mca_btl_rawe_thread_wake(struct mca_btl_rawe_module *module, unsigned how);

#endif
