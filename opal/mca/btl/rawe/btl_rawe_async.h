/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The asynchronous progress thread; btl_rawe_progress.h has the rules for all drivers of progress.
 */
#ifndef MCA_BTL_RAWE_ASYNC_H
#define MCA_BTL_RAWE_ASYNC_H

#include "btl_rawe_module.h"

/** Make Open MPI take its locks, and start the thread. Returns 0 or an errno value. */
int mca_btl_rawe_async_start(void);

/** End the thread, if there is one and the caller is not that thread. No lock may be held. */
void mca_btl_rawe_async_stop(void);

/** Return true if the thread exists. */
static inline bool mca_btl_rawe_async_active(void)
{
    return atomic_load_explicit(&mca_btl_rawe_state.async_active, memory_order_relaxed);
}

/**
 * End the thread if MPI_Finalize has begun. MPI_Finalize makes progress, while it waits for all
 * processes, before it destroys anything that the thread uses.
 */
static inline void mca_btl_rawe_async_end(void)
{
    if (OPAL_UNLIKELY(mca_btl_rawe_async_active()) &&
        MCA_BTL_RAWE_COMPAT_ENDS == mca_btl_rawe_compat_stage()) {
        mca_btl_rawe_async_stop();
    }
}

/**
 * Return true if the thread replaces the progress thread. It does so from MPI_Init to MPI_Finalize
 * unless it is patient, but not in a program that uses only sessions.
 */
static inline bool mca_btl_rawe_async_works(void)
{
    return OPAL_UNLIKELY(mca_btl_rawe_async_active()) &&
           !atomic_load_explicit(&mca_btl_rawe_state.async_patient, memory_order_relaxed) &&
           MCA_BTL_RAWE_COMPAT_WORKS == mca_btl_rawe_compat_stage();
}

/** Make the thread look for work that no frame announces. May be called from any thread. */
void mca_btl_rawe_async_wake(void);

#endif
