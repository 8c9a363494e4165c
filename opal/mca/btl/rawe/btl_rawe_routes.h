/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Provides failover (core/routes/rawe_failover.h) with what it needs from Open MPI and Linux:
 * carriers, PINGs to the peer's responder, and messages for the user.
 */
#ifndef MCA_BTL_RAWE_ROUTES_H
#define MCA_BTL_RAWE_ROUTES_H

#include "btl_rawe_endpoint.h"
#include "btl_rawe_module.h"

/** Begin with no route in doubt. Call this before starting the service thread, which checks. */
void mca_btl_rawe_routes_init(void);

/** Watch carriers. Otherwise, a lost carrier looks like silence, and a new index ends the job. */
void mca_btl_rawe_routes_begin(void);

/** Stop watching carriers. */
void mca_btl_rawe_routes_end(void);

/**
 * Check routes that are down or in doubt, and changes of carriers. Lock held. `may_say`: also tell
 * the user; false in the progress thread, because opal_output is safe only in MPI's threads.
 */
void mca_btl_rawe_routes_check(bool may_say);

/** Return true if there is anything to check. */
static inline bool mca_btl_rawe_routes_pending(void)
{
    return rawe_failover_pending(&mca_btl_rawe_state.failover) ||
           atomic_load_explicit(&mca_btl_rawe_state.interfaces_changed, memory_order_relaxed);
}

/** Return when the next check is due; UINT64_MAX: not before something changes. */
static inline uint64_t mca_btl_rawe_routes_due_ns(void)
{
    const struct mca_btl_rawe_state *state = &mca_btl_rawe_state;

    if (atomic_load_explicit(&state->interfaces_changed, memory_order_relaxed)) {
        return 0;
    }
    return rawe_failover_due_ns(&state->failover);
}

#endif
