/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The life of a module, from opening to finalize. This file depends on everything a module calls;
 * the struct they share is in btl_rawe_module.h.
 */
#ifndef MCA_BTL_RAWE_LIFECYCLE_H
#define MCA_BTL_RAWE_LIFECYCLE_H

#include "btl_rawe_module.h"

/** Initial functions and limits of each module. The user's parameters change the limits. */
extern mca_btl_base_module_t mca_btl_rawe_module_template;

/** Create a module with an address but no sockets. Returns NULL, after a message, on failure. */
mca_btl_rawe_module_t *mca_btl_rawe_module_new(const struct rawe_interface *interface, bool udp);

/** Open only the module's responder. Returns false on failure: see btl_rawe_module.h. */
bool mca_btl_rawe_module_open_responder(mca_btl_rawe_module_t *module);

/** Initialize an empty free list of items of a class. Returns false when out of memory. */
bool mca_btl_rawe_free_list_init(opal_free_list_t *list, opal_class_t *class, size_t item_bytes);

/**
 * Wait for acknowledgements for a bounded time, then close the module. Sockets are closed and
 * memory is freed with the last module.
 */
MCA_BTL_RAWE_DECLARE(finalize, mca_btl_rawe_finalize);

/**
 * Drive all modules until each peer has acknowledged everything and knows that we are finalizing,
 * or is as well. A silent peer gets 30 s, or btl_rawe_peer_timeout if that is less; then
 * tell the user if data may be missing. Called when the first module is finalized, with the PML closed: from now on nothing is
 * delivered, completed, or placed into memory. Later calls do nothing. Lock not held.
 */
void mca_btl_rawe_linger(void);

/* ---- btl_rawe_rma.c ---- */

/** Return the module for windows. The other modules must exist. */
mca_btl_base_module_t *mca_btl_rawe_rma_open(void);

/** Free the window module's memory, once all modules have been finalized. */
void mca_btl_rawe_rma_close(void);

#endif
