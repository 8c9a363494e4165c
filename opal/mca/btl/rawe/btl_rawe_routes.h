/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * What failing over between the routes to a process (core/routes/rawe_failover.h) needs of Open MPI
 * and Linux: carriers, questions to the peer's responder, and words for the user.
 */
#ifndef MCA_BTL_RAWE_ROUTES_H
#define MCA_BTL_RAWE_ROUTES_H

#include "btl_rawe_endpoint.h"
#include "btl_rawe_state.h"

/** No route is in doubt. Before the service thread starts, which looks whether one is. */
void mca_btl_rawe_routes_init(void);

/** Have carriers watched. Else a lost one shows as silence; a new index ends the job. */
void mca_btl_rawe_routes_begin(void);

/** End that. */
void mca_btl_rawe_routes_end(void);

/**
 * Check the routes that are down or in doubt, and changes of carriers. Lock held. `may_say`: report
 * to the user, too; not in the progress thread, as opal_output is safe among MPI's threads only.
 */
void mca_btl_rawe_routes_check(bool may_say);

/** Is there anything to check? */
static inline bool mca_btl_rawe_routes_pending(void)
{
    return rawe_failover_pending(&mca_btl_rawe_state.failover) ||
           atomic_load_explicit(&mca_btl_rawe_state.interfaces_changed, memory_order_relaxed);
}

/** When there is next, with what is known now; UINT64_MAX: not before that changes. */
static inline uint64_t mca_btl_rawe_routes_due_ns(void)
{
    const struct mca_btl_rawe_state *state = &mca_btl_rawe_state;

    if (atomic_load_explicit(&state->interfaces_changed, memory_order_relaxed)) {
        return 0;
    }
    return rawe_failover_due_ns(&state->failover);
}

#endif
