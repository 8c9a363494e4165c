/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The progress thread; btl_rawe_progress.h has the rules for all drivers of progress.
 */
#ifndef MCA_BTL_RAWE_THREAD_H
#define MCA_BTL_RAWE_THREAD_H

#include "btl_rawe_module.h"

/** rawe_responder_duty.service; context is the module. */
int mca_btl_rawe_thread_service(void *context, bool asked);

/**
 * rawe_responder_duty.serviced: return true if MPI has lately made enough progress to have read
 * what arrived. The thread's takeovers do not count, because they refuse unknown peers.
 */
bool mca_btl_rawe_thread_serviced(void *context);

/** Have the thread serve the module in mode `how`, after that mode's delay. Lock held. */
void mca_btl_rawe_thread_wake(mca_btl_rawe_module_t *module, unsigned how);

/** Have the thread serve the module at least in mode `how`, unless it already does. Lock held. */
static inline void mca_btl_rawe_thread_watch_as(mca_btl_rawe_module_t *module, unsigned how)
{
    if (OPAL_UNLIKELY(atomic_load_explicit(&module->thread_mode, memory_order_relaxed) < how)) {
        mca_btl_rawe_thread_wake(module, how);
    }
}

/** Return the mode for frames in flight and, if `held_back`, messages held back. */
static inline unsigned mca_btl_rawe_thread_mode(bool held_back)
{
    return held_back ? MCA_BTL_RAWE_THREAD_POLLS_FAST : MCA_BTL_RAWE_THREAD_POLLS;
}

/** Have the progress thread serve frames in flight. Lock held. */
static inline void mca_btl_rawe_thread_watch(mca_btl_rawe_module_t *module)
{
    mca_btl_rawe_thread_watch_as(module,
                                 mca_btl_rawe_thread_mode(rawe_engine_pending(&module->engine)));
}

#endif
