/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Registered memory. A peer may access it through another interface than the one its handle came
 * through: all modules share one table.
 */
#include "btl_rawe_registration.h"

#include "btl_rawe_lock.h"
#include "btl_rawe_module.h"
#include "btl_rawe_state.h"
#include "core/conn/rawe_conn_record.h"

OBJ_CLASS_INSTANCE(mca_btl_rawe_registration_t, opal_free_list_item_t, NULL, NULL);

/** What peers may do with memory that Open MPI registers with `flags`. */
static unsigned access_of(uint32_t flags)
{
    return (0 != (flags & MCA_BTL_REG_FLAG_REMOTE_READ) ? RAWE_ACCESS_READ : 0) |
           (0 != (flags & MCA_BTL_REG_FLAG_REMOTE_WRITE) ? RAWE_ACCESS_WRITE : 0) |
           (0 != (flags & MCA_BTL_REG_FLAG_REMOTE_ATOMIC) ? RAWE_ACCESS_ATOMIC : 0);
}

struct mca_btl_base_registration_handle_t *mca_btl_rawe_register_mem(
    struct mca_btl_base_module_t *btl, struct mca_btl_base_endpoint_t *endpoint, void *base,
    size_t size, uint32_t flags)
{
    opal_free_list_t *list = &mca_btl_rawe_state.registrations;
    mca_btl_rawe_registration_t *registration =
        (mca_btl_rawe_registration_t *)mca_btl_rawe_compat_take(list);

    if (OPAL_UNLIKELY(NULL == registration)) {
        return NULL;
    }
    registration->handle.base = (uint64_t)(uintptr_t)base;
    registration->handle.zero = 0;
    mca_btl_rawe_lock();
    bool registered =
        rawe_handle_register(&mca_btl_rawe_state.handles, base, size, &registration->handle.index,
                             &registration->handle.key, access_of(flags));
    mca_btl_rawe_unlock();
    if (OPAL_UNLIKELY(!registered)) {
        mca_btl_rawe_compat_give(list, &registration->super);
        return NULL;
    }
    return &registration->handle;
}

int mca_btl_rawe_deregister_mem(struct mca_btl_base_module_t *btl,
                                struct mca_btl_base_registration_handle_t *handle)
{
    mca_btl_rawe_registration_t *registration =
        RAWE_OWNER(handle, mca_btl_rawe_registration_t, handle);

    mca_btl_rawe_lock();
    for (unsigned i = 0; i < mca_btl_rawe_state.module_count; ++i) {
        mca_btl_rawe_module_t *module = mca_btl_rawe_state.modules[i];
        if (module->open) {
            rawe_conn_serve_forget(&module->engine, handle->index);
        }
    }
    (void)rawe_handle_deregister(&mca_btl_rawe_state.handles, handle->index, handle->key);
    mca_btl_rawe_unlock();
    mca_btl_rawe_compat_give(&mca_btl_rawe_state.registrations, &registration->super);
    return OPAL_SUCCESS;
}
