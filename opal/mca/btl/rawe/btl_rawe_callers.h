/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Callers: processes that ask for a connection before Open MPI has introduced them. What they have
 * published is looked up in the modex, which may take as long as their host's daemon likes. So
 * nobody waits for it: the caller is remembered, and its next CONNECT finds the answer.
 */
#ifndef MCA_BTL_RAWE_CALLERS_H
#define MCA_BTL_RAWE_CALLERS_H

#include "btl_rawe_compat.h"

#include "btl_rawe_address.h"

/**
 * Addresses of a caller, at most MCA_BTL_RAWE_MODULES_MAX. Returns their number; 0: not known yet,
 * or not at all. Lock held; MPI's threads only.
 */
unsigned mca_btl_rawe_callers_find(opal_process_name_t name,
                                   struct mca_btl_rawe_address *addresses);

/** A life of the component begins: nothing is known of callers of an earlier one. */
void mca_btl_rawe_callers_begin(void);

#endif
