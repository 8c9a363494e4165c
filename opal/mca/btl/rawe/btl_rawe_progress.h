/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Progress of one module: what waits is received, what is due is sent. For MPI's calls and for the
 * progress thread.
 */
#ifndef MCA_BTL_RAWE_PROGRESS_H
#define MCA_BTL_RAWE_PROGRESS_H

#include "btl_rawe_module.h"

/** Is there anything to receive? */
static inline bool mca_btl_rawe_module_receivable(const mca_btl_rawe_module_t *module)
{
    return rawe_port_pending(module->link) ||
           (NULL != module->bulk && rawe_port_pending(module->bulk));
}

/** Receive some of what waits on a module. Lock held. Returns how many frames. */
unsigned mca_btl_rawe_module_receive(mca_btl_rawe_module_t *module);

/**
 * Make progress without calling MPI: messages and completions are deferred. Receives once, and
 * until nothing waits or `frames_max` came. Lock held. True: there was something to do.
 */
bool mca_btl_rawe_module_defer(mca_btl_rawe_module_t *module, unsigned frames_max);

/**
 * Tell the user if more than 10 frames have been damaged since the last call, which progress makes
 * every 10 seconds. MPI's threads only. Lock held.
 */
void mca_btl_rawe_module_check_damage(mca_btl_rawe_module_t *module);

/** One round. Inside another's callback it defers messages. Lock held. Returns frames received. */
unsigned mca_btl_rawe_module_progress(mca_btl_rawe_module_t *module, bool poll_clock);

#endif
