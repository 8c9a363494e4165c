/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Reports of a module's metrics to the user.
 */
#ifndef MCA_BTL_RAWE_STATS_H
#define MCA_BTL_RAWE_STATS_H

#include "btl_rawe_module.h"

/** Write the counters of a module to stderr, with `title` in front. */
void mca_btl_rawe_stats_report(mca_btl_rawe_module_t *module, const char *title);
/** Warn the user, once, when the kernel dropped frames for want of room in the ring. */
void mca_btl_rawe_stats_check_ring(mca_btl_rawe_module_t *module);

#endif
