/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Metrics: a module's counters, and the ways to read them.
 */
#ifndef MCA_BTL_RAWE_METRICS_H
#define MCA_BTL_RAWE_METRICS_H

#include "btl_rawe_module.h"

/** Write a module's metrics to stderr under `title`. Lock held. */
void mca_btl_rawe_metrics_report(mca_btl_rawe_module_t *module, const char *title);

/** Warn the user if the kernel dropped frames because a ring or queue was full. */
void mca_btl_rawe_metrics_check_ring(mca_btl_rawe_module_t *module);

/** Let rawe-top read the metrics. On failure the process works, but cannot be watched. */
void mca_btl_rawe_metrics_monitor_open(void);
void mca_btl_rawe_metrics_monitor_close(void);

/** btl_dump: show one peer's endpoints and connections, or all; metrics if all, or verbose. */
MCA_BTL_RAWE_DECLARE(dump, mca_btl_rawe_dump);

#endif
