/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The metrics as MPI_T performance variables.
 */
#ifndef MCA_BTL_RAWE_PVARS_H
#define MCA_BTL_RAWE_PVARS_H

#include "btl_rawe_module.h"

/** Make the metrics of the modules that are open MPI_T performance variables. */
int mca_btl_rawe_pvars_register(void);
/** A module is about to go: keep its last values. Lock held. */
void mca_btl_rawe_pvars_forget(mca_btl_rawe_module_t *module);

#endif
