/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Processes of which the runtime says that they ended without MPI_Finalize. Only jobs that go on
 * without them (ULFM) hear of any: the program may have shrunk its communicators, and finalize,
 * before a connection is silent for long enough.
 */
#ifndef MCA_BTL_RAWE_DEPARTED_H
#define MCA_BTL_RAWE_DEPARTED_H

#include "btl_rawe_compat.h"

/** Listen, if the job goes on without lost processes. MPI's threads only. */
void mca_btl_rawe_departed_begin(void);

/** Listen no more, and forget what was heard. May be called without a beginning. */
void mca_btl_rawe_departed_end(void);

/** Has the runtime said so of this process? Any thread. */
bool mca_btl_rawe_departed(const opal_process_name_t *name);

#endif
