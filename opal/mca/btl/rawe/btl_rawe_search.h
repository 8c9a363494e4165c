/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The search for paths from a module to processes that Open MPI introduces.
 */
#ifndef MCA_BTL_RAWE_SEARCH_H
#define MCA_BTL_RAWE_SEARCH_H

#include "btl_rawe_compat.h"
#include "btl_rawe_module.h"

/**
 * Implement btl_add_procs: set the endpoints, NULL where no path is found, and the bits of
 * `reachable`. With `shared_too`, search also for processes that share memory. Returns an OPAL
 * status.
 */
int mca_btl_rawe_search(mca_btl_rawe_module_t *module, size_t count, opal_proc_t **procs,
                        struct mca_btl_base_endpoint_t **endpoints, opal_bitmap_t *reachable,
                        bool shared_too);

#endif
