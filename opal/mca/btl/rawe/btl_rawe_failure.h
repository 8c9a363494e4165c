/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Sockets that could not be opened. Any thread may notice; MPI's threads report it to the user, as
 * Open MPI's output is not safe in others.
 */
#ifndef MCA_BTL_RAWE_FAILURE_H
#define MCA_BTL_RAWE_FAILURE_H

#include "btl_rawe_compat.h"

#include "btl_rawe_state.h"
#include "linux/port/rawe_port.h"

enum mca_btl_rawe_failure {
    MCA_BTL_RAWE_FAILURE_OPEN, /**< they are not used: the job goes on without the interface */
    MCA_BTL_RAWE_FAILURE_LOST, /**< they were in use: the job is not going on */
    MCA_BTL_RAWE_FAILURES,
};

/** To be reported: the first of each kind. Any thread. The interface's name is copied. */
void mca_btl_rawe_failure_note(enum mca_btl_rawe_failure kind, const char *interface,
                               const struct rawe_port_error *error);

/** Is there something to be reported? */
static inline bool mca_btl_rawe_failures_wait(void)
{
    return atomic_load_explicit(&mca_btl_rawe_state.failures_wait, memory_order_relaxed);
}

/** Report it. MPI's threads only, not inside an engine, nor with a lock held. */
void mca_btl_rawe_failures_report(void);

#endif
