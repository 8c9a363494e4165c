/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Registered memory: what a peer needs to access it.
 */
#ifndef MCA_BTL_RAWE_REGISTRATION_H
#define MCA_BTL_RAWE_REGISTRATION_H

#include "btl_rawe_compat.h"

#include "opal/class/opal_free_list.h"

#include <stdint.h>

/** Travels inside the PML's messages, in the sender's byte order. */
struct mca_btl_base_registration_handle_t {
    uint64_t base; /**< address the handle begins at; only its owner gives it a meaning */
    uint64_t key;
    uint32_t index;
    uint32_t zero;
};

typedef struct mca_btl_rawe_registration {
    opal_free_list_item_t super;
    mca_btl_base_registration_handle_t handle;
} mca_btl_rawe_registration_t;
OBJ_CLASS_DECLARATION(mca_btl_rawe_registration_t);

/** btl_register_mem and btl_deregister_mem of all modules. */
struct mca_btl_base_registration_handle_t *mca_btl_rawe_register_mem(
    struct mca_btl_base_module_t *btl, struct mca_btl_base_endpoint_t *endpoint, void *base,
    size_t size, uint32_t flags);
int mca_btl_rawe_deregister_mem(struct mca_btl_base_module_t *btl,
                                struct mca_btl_base_registration_handle_t *handle);

#endif
