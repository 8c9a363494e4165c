/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The ranks of this job on this host receive as a group (linux/host/rawe_host_group.h), so that a
 * frame costs the same however many they are. When the group breaks, each rank opens its sockets
 * again, and then they form another one.
 */
#ifndef MCA_BTL_RAWE_GROUP_H
#define MCA_BTL_RAWE_GROUP_H

#include "btl_rawe_module.h"

/** Enter the sockets of all modules. Without a group each of them receives by itself. */
void mca_btl_rawe_group_open(void);

/** Enter link and bulk of a module that was opened later. Its endpoints_lock is held. */
void mca_btl_rawe_group_register_links(mca_btl_rawe_module_t *module);

/** Reopen links after a broken group or a lost interface. Lock held, not from a callback. */
void mca_btl_rawe_group_repair(void);

/**
 * Reopen sockets not bound to the interface's new index. Service thread. False: some are left, to be
 * tried again; the user is told after ten seconds.
 */
bool mca_btl_rawe_group_follow(mca_btl_rawe_module_t *module);

/** Leave, once all ranks of this host no longer need frames, or after a second. */
void mca_btl_rawe_group_close(void);

#endif
