/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Life of a module, from opening to finalize. It stands above all that a module calls; what those
 * share is the struct in btl_rawe_module.h.
 */
#ifndef MCA_BTL_RAWE_LIFECYCLE_H
#define MCA_BTL_RAWE_LIFECYCLE_H

#include "btl_rawe_module.h"

/** Functions and limits that each module begins with. The user's parameters change the limits. */
extern mca_btl_base_module_t mca_btl_rawe_module_template;

/** A module with an address but without sockets. NULL, after a message, when that fails. */
mca_btl_rawe_module_t *mca_btl_rawe_module_new(const struct rawe_interface *interface);

/** Open its responder alone. Returns false when that fails: see btl_rawe_module.h. */
bool mca_btl_rawe_module_open_responder(mca_btl_rawe_module_t *module);

/** An empty free list of items of a class. False without memory. */
bool mca_btl_rawe_free_list_init(opal_free_list_t *list, opal_class_t *class, size_t item_bytes);

/**
 * Wait for acknowledgements for a bounded time, then close the module. Sockets are closed, and memory
 * is freed, with the last module.
 */
MCA_BTL_RAWE_DECLARE(finalize, mca_btl_rawe_finalize);

#endif
