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

/** Have the kernel say when an interface loses its carrier. Where it cannot, silence says so. */
void mca_btl_rawe_routes_begin(void);

/** No more of that. */
void mca_btl_rawe_routes_end(void);

/** See to the routes that are down or in doubt, and to changes of carriers. Lock held. */
void mca_btl_rawe_routes_check(void);

/** Is there something to see to? */
static inline bool mca_btl_rawe_routes_pending(void)
{
    return 0 != atomic_load_explicit(&mca_btl_rawe_state.doubted_count, memory_order_relaxed) ||
           atomic_load_explicit(&mca_btl_rawe_state.carriers_changed, memory_order_relaxed);
}

#endif
