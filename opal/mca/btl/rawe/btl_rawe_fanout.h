/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The ranks of this job on this host receive as a group (linux/host/rawe_host_group.h), so that the
 * cost of a frame does not grow with their number. When the group breaks, each rank reopens its
 * sockets, and then they form another group.
 */
#ifndef MCA_BTL_RAWE_FANOUT_H
#define MCA_BTL_RAWE_FANOUT_H

#include "btl_rawe_module.h"

/** Register the sockets of all modules. Without a group, each module receives by itself. */
void mca_btl_rawe_fanout_open(void);

/** Register link and bulk of a module that was opened later. Its endpoints_lock is held. */
void mca_btl_rawe_fanout_register_links(mca_btl_rawe_module_t *module);

/** Reopen links after a broken group or a lost interface. Lock held, not from a callback. */
void mca_btl_rawe_fanout_repair(void);

/**
 * Reopen sockets that are not bound to the interface's new index. Service thread only. Returns
 * false if some remain to be retried; the user is told after ten seconds.
 */
bool mca_btl_rawe_fanout_follow(mca_btl_rawe_module_t *module);

/** Leave once no rank on this host needs frames, or after a second. */
void mca_btl_rawe_fanout_close(void);

#endif
