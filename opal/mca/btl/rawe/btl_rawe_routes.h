/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Routes to a process, by our interfaces and the peer's: which of them are down. One whose interface
 * has no carrier is, and one by which the peer's responder does not answer while it does by another.
 * Its connections go on by another (core/rawe_conn_move.h), and return when it answers again.
 */
#ifndef MCA_BTL_RAWE_ROUTES_H
#define MCA_BTL_RAWE_ROUTES_H

#include "btl_rawe_endpoint.h"
#include "btl_rawe_state.h"

/** Routes in doubt or down are looked at this often at most. */
#define MCA_BTL_RAWE_ROUTES_INTERVAL_NS 10000000u

/** Have the kernel say when an interface loses its carrier. Where it cannot, silence says so. */
void mca_btl_rawe_routes_begin(void);

/** No more of that. */
void mca_btl_rawe_routes_end(void);

/**
 * See to the routes that are down or in doubt, and to changes of carriers. Lock held. `may_say`: to
 * the user as well; not by the progress thread, as opal_output is safe among MPI's threads only.
 */
void mca_btl_rawe_routes_check(bool may_say);

/** Is there something to see to? */
static inline bool mca_btl_rawe_routes_pending(void)
{
    return 0 != atomic_load_explicit(&mca_btl_rawe_state.doubted_count, memory_order_relaxed) ||
           atomic_load_explicit(&mca_btl_rawe_state.carriers_changed, memory_order_relaxed);
}

/** When there is next, with what is known now; UINT64_MAX: not before that changes. */
static inline uint64_t mca_btl_rawe_routes_due_ns(void)
{
    const struct mca_btl_rawe_state *state = &mca_btl_rawe_state;

    if (atomic_load_explicit(&state->carriers_changed, memory_order_relaxed)) {
        return 0;
    }
    return 0 == atomic_load_explicit(&state->doubted_count, memory_order_relaxed)
               ? UINT64_MAX
               : atomic_load_explicit(&state->routes_due_ns, memory_order_relaxed);
}

#endif
