/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The module for windows: osc/rdma needs one that reaches every process, including this one. It
 * sends nothing itself; its endpoints use those of the interfaces' modules.
 */
#ifndef MCA_BTL_RAWE_RMA_H
#define MCA_BTL_RAWE_RMA_H

#include "btl_rawe_compat.h"

/** Return the module. The other modules must exist. */
mca_btl_base_module_t *mca_btl_rawe_rma_open(void);

/** Free the module's memory, once all modules have been finalized. */
void mca_btl_rawe_rma_close(void);

#endif
