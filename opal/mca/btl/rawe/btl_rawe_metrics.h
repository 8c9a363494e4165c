/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Metrics: what is counted for a module, and the ways to read it.
 */
#ifndef MCA_BTL_RAWE_METRICS_H
#define MCA_BTL_RAWE_METRICS_H

#include "btl_rawe_module.h"

/** Write the metrics of a module to stderr, with `title` in front. Lock held. */
void mca_btl_rawe_metrics_report(mca_btl_rawe_module_t *module, const char *title);

/** Warn the user when the kernel dropped frames because a ring or queue was full. */
void mca_btl_rawe_metrics_check_ring(mca_btl_rawe_module_t *module);

/** Let rawe-top read them. If that fails, the process cannot be watched, and works. */
void mca_btl_rawe_metrics_monitor_open(void);
void mca_btl_rawe_metrics_monitor_close(void);

/** btl_dump: endpoints and connections, one peer's or all, and (for all, or verbose) metrics. */
MCA_BTL_RAWE_DECLARE(dump, mca_btl_rawe_dump);

#endif
