/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * How processes become peers.
 */
#ifndef MCA_BTL_RAWE_CONTACT_H
#define MCA_BTL_RAWE_CONTACT_H

#include "btl_rawe_compat.h"

#include "core/rawe_engine.h"

/** btl_add_procs and btl_del_procs. */
MCA_BTL_RAWE_DECLARE(add_procs, mca_btl_rawe_add_procs);
MCA_BTL_RAWE_DECLARE(del_procs, mca_btl_rawe_del_procs);
/** Return true if the process is on this host and has published that lo reaches it. */
bool mca_btl_rawe_contact_on_this_host(const opal_proc_t *proc);
/** Return the process's endpoint on lo, even with shared memory. NULL: failed, user told. */
struct mca_btl_base_endpoint_t *mca_btl_rawe_contact_open_local(opal_proc_t *proc);
/** rawe_callbacks.accept: a process, perhaps not introduced yet, requests a connection. */
struct rawe_conn *mca_btl_rawe_accept(void *context, const struct rawe_connect *from,
                                      const uint8_t source_mac[RAWE_MAC_BYTES]);
/** rawe_callbacks.unknown_source: a peer sends from an interface or address that has no path. */
void mca_btl_rawe_unknown_source(void *context, const struct rawe_conn *conn,
                                 const struct rawe_connect *from,
                                 const uint8_t source_mac[RAWE_MAC_BYTES]);

#endif
