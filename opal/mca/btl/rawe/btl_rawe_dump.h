/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * btl_dump: the state of a module for a debugger.
 */
#ifndef MCA_BTL_RAWE_DUMP_H
#define MCA_BTL_RAWE_DUMP_H

#include "btl_rawe_compat.h"

/** Endpoints and connections, one peer's or all, and (for all, or verbose) counters. */
void mca_btl_rawe_dump(struct mca_btl_base_module_t *btl, struct mca_btl_base_endpoint_t *endpoint,
                       int verbose);

#endif
