/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Progress of one module, by MPI's calls or the progress thread: receive waiting frames, send what
 * is due.
 */
#ifndef MCA_BTL_RAWE_PROGRESS_H
#define MCA_BTL_RAWE_PROGRESS_H

#include "btl_rawe_module.h"

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

/**
 * Tell the user if more than 10 frames were damaged since the last call. Progress calls this every
 * 10 seconds. MPI's threads only. Lock held.
 */
void mca_btl_rawe_module_check_damage(mca_btl_rawe_module_t *module);

/** Make one round; in another's callback, defer messages. Lock held. Returns frames received. */
unsigned mca_btl_rawe_module_progress(mca_btl_rawe_module_t *module, bool poll_clock);

#endif
