/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The progress thread keeps a module's engine going while the program is outside MPI, so that lost
 * frames, due acknowledgements and held-back messages do not wait. It is the service thread, which
 * also serves the responders. When MPI has made no progress for a while, it takes the engine over
 * for a moment (rawe_engine_defer_begin).
 */
#ifndef MCA_BTL_RAWE_THREAD_H
#define MCA_BTL_RAWE_THREAD_H

#include "btl_rawe_module.h"
#include "btl_rawe_params.h"

/** rawe_responder_duty.service; context is the module. */
int mca_btl_rawe_thread_service(void *context, bool asked);

/** Intervals (btl_rawe_progress_thread_ms) between polls while MPI makes progress. */
#define MCA_BTL_RAWE_THREAD_SLOW_FACTOR 16u

/** Convert intervals to microseconds. */
static inline unsigned mca_btl_rawe_thread_us(unsigned intervals)
{
    return 1000u * intervals * (unsigned)mca_btl_rawe_params.progress_thread_ms;
}

/** Have the thread serve the module in mode `how`, first after `in_us`. Lock held. */
void mca_btl_rawe_thread_wake(mca_btl_rawe_module_t *module, unsigned how, unsigned in_us);

/** Have the thread serve the module at least in mode `how`, unless it already does. Lock held. */
static inline void mca_btl_rawe_thread_attend(mca_btl_rawe_module_t *module, unsigned how,
                                              unsigned in_us)
{
    if (OPAL_UNLIKELY(atomic_load_explicit(&module->thread_mode, memory_order_relaxed) < how)) {
        mca_btl_rawe_thread_wake(module, how, in_us);
    }
}

/**
 * Have the progress thread serve the module, soon if something is held back. Not at once: the
 * thread would take the processor from the message that wakes it (1000 B after a pause: 20 us, not
 * 3). In a virtual machine, a timer costs 4 us if it expires before the kernel's next tick, 0.6 us
 * later. Lock held.
 */
static inline void mca_btl_rawe_thread_watch_for(mca_btl_rawe_module_t *module, bool held_back)
{
    if (held_back) {
        mca_btl_rawe_thread_attend(module, MCA_BTL_RAWE_THREAD_POLLS_FAST,
                                   mca_btl_rawe_thread_us(1));
    } else {
        mca_btl_rawe_thread_attend(module, MCA_BTL_RAWE_THREAD_POLLS,
                                   mca_btl_rawe_thread_us(MCA_BTL_RAWE_THREAD_SLOW_FACTOR));
    }
}

/** Have the thread poll soon: part of a message waits for acknowledgements. Lock held. */
static inline void mca_btl_rawe_thread_watch_queue(mca_btl_rawe_module_t *module)
{
    mca_btl_rawe_thread_attend(module, MCA_BTL_RAWE_THREAD_POLLS_SOON,
                               mca_btl_rawe_thread_us(1) / 2);
}

/** Have the progress thread serve frames in flight. Lock held. */
static inline void mca_btl_rawe_thread_watch(mca_btl_rawe_module_t *module)
{
    mca_btl_rawe_thread_watch_for(module, rawe_engine_pending(&module->engine));
}

/**
 * rawe_responder_duty.serviced: return true if MPI has lately made enough progress to have read
 * what arrived. The thread's takeovers do not count, because they refuse unknown peers.
 */
bool mca_btl_rawe_thread_serviced(void *context);

#endif
