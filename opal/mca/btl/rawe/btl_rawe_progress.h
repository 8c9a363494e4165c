/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Progress: receive waiting frames, expire timers, send what is due. It has three drivers:
 *
 *   MPI's calls           component_progress (btl_rawe_component.c)
 *   progress thread       btl_rawe_thread.c: the service thread, which also serves responders. It
 *                         drives the engines while the program is outside MPI, so that lost
 *                         frames, due acknowledgements and held-back messages need not wait
 *   asynchronous thread   btl_rawe_async.c (btl_rawe_async_progress): calls opal_progress() while
 *                         the program computes, so that messages are matched and fetched and
 *                         collectives advance. To Open MPI it looks like another thread of an
 *                         MPI_THREAD_MULTIPLE program
 *
 * Rules:
 *   - Only one thread at a time is in the engines. MPI's threads take the lock; the others claim it
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
 * Make progress without calling MPI: defer messages and completions. Receives once, then until
 * nothing waits or `frames_max` frames have arrived. Lock held. Returns true if there was work.
 */
bool mca_btl_rawe_module_defer(mca_btl_rawe_module_t *module, unsigned frames_max);

/** Make one round of progress; in callbacks, defer messages. Lock held. Returns frames received. */
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

#endif
