/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * What others need to know of a module. See btl_rawe_module.h.
 */
#include "btl_rawe_module.h"

#include "btl_rawe_state.h"

/** What failed is tried again after this time at the earliest: it is asked for with each PING. */
#define OPEN_AGAIN_NS 1000000000u

/** Where the link is open, something has failed for good. endpoints_lock held. */
static bool may_open(mca_btl_rawe_module_t *module)
{
    uint64_t now_ns = mca_btl_rawe_now_ns();
    bool early = 0 != module->open_tried_ns && now_ns - module->open_tried_ns < OPEN_AGAIN_NS;

    if (module->closing || NULL != module->link || early) {
        return false;
    }
    module->open_tried_ns = now_ns;
    return true;
}

bool mca_btl_rawe_module_open_if_needed(mca_btl_rawe_module_t *module)
{
    if (OPAL_LIKELY(atomic_load_explicit(&module->open, memory_order_acquire))) {
        return true;
    }
    opal_mutex_lock(&module->endpoints_lock);
    bool open = module->open || (may_open(module) && module->open_sockets(module));
    opal_mutex_unlock(&module->endpoints_lock);
    return open;
}
