/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Progress: receive waiting frames, expire timers, send what is due. Three drivers make it:
 *
 *   MPI's calls           component_progress (btl_rawe_component.c)
 *   progress thread       btl_rawe_thread.c: the service thread, which also serves responders. It
 *                         keeps engines going while the program is outside MPI, so that lost
 *                         frames, due acknowledgements and held-back messages do not wait
 *   asynchronous thread   btl_rawe_async.c (btl_rawe_async_progress): calls opal_progress() while
 *                         the program computes, so that messages are matched and fetched and
 *                         collectives advance. To Open MPI it looks like another thread of an
 *                         MPI_THREAD_MULTIPLE program
 *
 * Rules:
 *   - One thread at a time is in the engines: MPI's threads take the lock, the others claim it
 *     (btl_rawe_lock.h), and only if MPI has made no call since they last looked.
 *   - Only MPI's threads and the asynchronous one call Open MPI. The progress thread, and progress
 *     inside an engine's callback, defer messages and completions (rawe_engine_defer_begin).
 *   - While the asynchronous thread works, the progress thread leaves engines alone.
 */
#ifndef MCA_BTL_RAWE_PROGRESS_H
#define MCA_BTL_RAWE_PROGRESS_H

#include "btl_rawe_module.h"

/* ---- one module ---- */

/** Return true if frames wait to be received. */
static inline bool mca_btl_rawe_module_receivable(const mca_btl_rawe_module_t *module)
{
    return rawe_port_pending(module->link) ||
           (NULL != module->bulk && rawe_port_pending(module->bulk));
}

/** Receive some of the module's waiting frames. Lock held. Returns their number. */
unsigned mca_btl_rawe_module_receive(mca_btl_rawe_module_t *module);

/**
 * Make progress without calling MPI: defer messages and completions. Receive once, then until
 * nothing waits or `frames_max` frames came. Lock held. Returns true if there was work.
 */
bool mca_btl_rawe_module_defer(mca_btl_rawe_module_t *module, unsigned frames_max);

/** Make one round; in another's callback, defer messages. Lock held. Returns frames received. */
unsigned mca_btl_rawe_module_progress(mca_btl_rawe_module_t *module, bool poll_clock);

/**
 * Tell the user if more than 10 frames were damaged since the last call. Progress calls this every
 * 10 seconds. MPI's threads only. Lock held.
 */
void mca_btl_rawe_module_check_damage(mca_btl_rawe_module_t *module);

/* ---- rules for drivers ---- */

/**
 * Reopen sockets of a broken fanout group, and check routes that are in doubt. Lock held, outside
 * an engine's callback. `may_say`: also tell the user; MPI's threads only.
 */
void mca_btl_rawe_progress_repair(bool may_say);

/** Return true if MPI has made no call since `*entries`, which is updated. */
bool mca_btl_rawe_progress_mpi_absent(uint32_t *entries);

/** Return true if nothing is in flight, in the engine or in groups. Lock held. */
bool mca_btl_rawe_progress_idle(const mca_btl_rawe_module_t *module);

/* ---- the progress thread ---- */

/** rawe_responder_duty.service; context is the module. */
int mca_btl_rawe_thread_service(void *context, bool asked);

/**
 * rawe_responder_duty.serviced: return true if MPI has lately made enough progress to have read
 * what arrived. The thread's takeovers do not count, because they refuse unknown peers.
 */
bool mca_btl_rawe_thread_serviced(void *context);

/** Have the thread serve the module in mode `how`, after the time of that mode. Lock held. */
void mca_btl_rawe_thread_wake(mca_btl_rawe_module_t *module, unsigned how);

/** Have the thread serve the module at least in mode `how`, unless it already does. Lock held. */
static inline void mca_btl_rawe_thread_watch_as(mca_btl_rawe_module_t *module, unsigned how)
{
    if (OPAL_UNLIKELY(atomic_load_explicit(&module->thread_mode, memory_order_relaxed) < how)) {
        mca_btl_rawe_thread_wake(module, how);
    }
}

/** Return the mode for frames in flight, or also messages that are held back. */
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

/* ---- the asynchronous progress thread ---- */

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
 * End the thread if MPI_Finalize has begun. MPI_Finalize makes progress while it waits for all
 * processes, before it destroys anything that the thread uses.
 */
static inline void mca_btl_rawe_async_end(void)
{
    if (OPAL_UNLIKELY(mca_btl_rawe_async_active()) &&
        MCA_BTL_RAWE_COMPAT_ENDS == mca_btl_rawe_compat_stage()) {
        mca_btl_rawe_async_stop();
    }
}

/** Return true if the thread calls MPI: from MPI_Init to MPI_Finalize, not for sessions alone. */
static inline bool mca_btl_rawe_async_works(void)
{
    return OPAL_UNLIKELY(mca_btl_rawe_async_active()) &&
           MCA_BTL_RAWE_COMPAT_WORKS == mca_btl_rawe_compat_stage();
}

/** Have the thread look for work that no frame announces. May be called from any thread. */
void mca_btl_rawe_async_wake(void);

#endif
