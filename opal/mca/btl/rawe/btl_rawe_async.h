/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The asynchronous progress thread (btl_rawe_async_progress): calls opal_progress() while the
 * program computes, so that messages are matched and fetched and collectives go on. It is to Open
 * MPI what another thread of a program with MPI_THREAD_MULTIPLE is. While it works, the progress
 * thread (btl_rawe_thread.h) takes nothing over.
 */
#ifndef MCA_BTL_RAWE_ASYNC_H
#define MCA_BTL_RAWE_ASYNC_H

#include "btl_rawe_state.h"

/** Make Open MPI take its locks, and start the thread. Returns 0 or an errno value. */
int mca_btl_rawe_async_start(void);

/** End it, unless this is the thread itself. Nothing if there is none. No lock is held. */
void mca_btl_rawe_async_stop(void);

/** Is there such a thread? */
static inline bool mca_btl_rawe_async_active(void)
{
    return atomic_load_explicit(&mca_btl_rawe_state.async_active, memory_order_relaxed);
}

/** Does it work? Not before MPI_Init has returned, nor in a program that has sessions alone. */
static inline bool mca_btl_rawe_async_works(void)
{
    return OPAL_UNLIKELY(mca_btl_rawe_async_active()) &&
           MCA_BTL_RAWE_COMPAT_WORKS == mca_btl_rawe_compat_stage();
}

/**
 * End it if MPI_Finalize has begun, before that destroys what the thread uses: as it waits for all
 * processes it makes progress, and only then destroys communicators, the first of all.
 */
static inline void mca_btl_rawe_async_end(void)
{
    if (OPAL_UNLIKELY(mca_btl_rawe_async_active()) &&
        MCA_BTL_RAWE_COMPAT_ENDS == mca_btl_rawe_compat_stage()) {
        mca_btl_rawe_async_stop();
    }
}

/** Something is under way that no frame announces: have the thread look. From any thread. */
void mca_btl_rawe_async_wake(void);

#endif
