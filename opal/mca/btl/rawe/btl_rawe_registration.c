/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Registered memory. A peer may PUT through another interface than the one its handle came through:
 * all modules share one table.
 */
#include "btl_rawe_registration.h"

#include "btl_rawe_lock.h"
#include "btl_rawe_module.h"
#include "btl_rawe_state.h"

OBJ_CLASS_INSTANCE(mca_btl_rawe_registration_t, opal_free_list_item_t, NULL, NULL);

struct mca_btl_base_registration_handle_t *mca_btl_rawe_register_mem(
    struct mca_btl_base_module_t *btl, struct mca_btl_base_endpoint_t *endpoint, void *base,
    size_t size, uint32_t flags)
{
    mca_btl_rawe_module_t *module = (mca_btl_rawe_module_t *)btl;
    mca_btl_rawe_registration_t *registration =
        (mca_btl_rawe_registration_t *)mca_btl_rawe_compat_take(&module->registrations);
    bool registered;

    (void)endpoint;
    (void)flags;
    if (OPAL_UNLIKELY(NULL == registration)) {
        return NULL;
    }
    registration->handle.base = (uint64_t)(uintptr_t)base;
    registration->handle.zero = 0;
    mca_btl_rawe_lock();
    registered = rawe_handle_register(&mca_btl_rawe_state.handles, base, size,
                                      &registration->handle.index, &registration->handle.key);
    mca_btl_rawe_unlock();
    if (OPAL_UNLIKELY(!registered)) {
        mca_btl_rawe_compat_give(&module->registrations, &registration->super);
        return NULL;
    }
    return &registration->handle;
}

int mca_btl_rawe_deregister_mem(struct mca_btl_base_module_t *btl,
                                struct mca_btl_base_registration_handle_t *handle)
{
    mca_btl_rawe_module_t *module = (mca_btl_rawe_module_t *)btl;
    mca_btl_rawe_registration_t *registration =
        (mca_btl_rawe_registration_t *)((char *)handle -
                                        offsetof(mca_btl_rawe_registration_t, handle));

    mca_btl_rawe_lock();
    (void)rawe_handle_deregister(&mca_btl_rawe_state.handles, handle->index, handle->key);
    mca_btl_rawe_unlock();
    mca_btl_rawe_compat_give(&module->registrations, &registration->super);
    return OPAL_SUCCESS;
}
