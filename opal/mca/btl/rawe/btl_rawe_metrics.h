/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Metrics: what is counted for a module.
 */
#ifndef MCA_BTL_RAWE_METRICS_H
#define MCA_BTL_RAWE_METRICS_H

#include "btl_rawe_module.h"

/** Metrics at most: room for the arrays that they are read into. */
#define MCA_BTL_RAWE_METRICS_MAX 96u

struct mca_btl_rawe_metric {
    const char *name;
    const char *text;
    bool watermark; /**< the most there was of something, instead of how often it happened */
};

unsigned mca_btl_rawe_metric_count(void);
struct mca_btl_rawe_metric mca_btl_rawe_metric(unsigned index);
/** The values of all metrics as of now; system calls. Lock held. */
void mca_btl_rawe_metrics_read(mca_btl_rawe_module_t *module, uint64_t *values);

#endif
