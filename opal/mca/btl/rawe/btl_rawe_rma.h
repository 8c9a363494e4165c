/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The module for windows, beside those of the interfaces: osc/rdma wants one that reaches every
 * process, this one included. It sends nothing itself: its endpoints use those of the others.
 */
#ifndef MCA_BTL_RAWE_RMA_H
#define MCA_BTL_RAWE_RMA_H

#include "btl_rawe_compat.h"

/** The module. Other modules are there already. */
mca_btl_base_module_t *mca_btl_rawe_rma_open(void);

/** Free its memory, when all modules have been finalized. */
void mca_btl_rawe_rma_close(void);

#endif
