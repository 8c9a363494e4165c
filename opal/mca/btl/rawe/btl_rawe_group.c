/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The group of the ranks of this host. See btl_rawe_group.h.
 */
#include "btl_rawe_group.h"

#include "btl_rawe_help.h"
#include "btl_rawe_lock.h"
#include "btl_rawe_params.h"
#include "btl_rawe_state.h"
#include "link/rawe_host_group.h"

#include <stdio.h>
#include <unistd.h>

/** With fewer ranks on the host there is nothing to gain. */
#define RANKS_MIN 3u

/** Ranks that are slower to finalize do not hold the others up any longer. */
#define CLOSE_WAIT_MS 1000u

static void report(const mca_btl_rawe_module_t *module, const struct rawe_link_error *error)
{
    mca_btl_rawe_help_link_lost(module->interface.name, error->step, error->code);
}

void mca_btl_rawe_group_repair(void)
{
    struct mca_btl_rawe_state *state = &mca_btl_rawe_state;

    atomic_store_explicit(&state->group_broken, false, memory_order_relaxed);
    for (unsigned i = 0; i < state->module_count; ++i) {
        mca_btl_rawe_module_t *module = state->modules[i];
        struct rawe_link_config config = mca_btl_rawe_module_link_config(module);
        struct rawe_link_error error;

        if (!atomic_load_explicit(&module->open, memory_order_acquire)) {
            continue;
        }
        if (0 != rawe_link_reopen(module->link, &config, &error) ||
            (NULL != module->bulk && 0 != rawe_bulk_reopen(module->bulk, &config, &error))) {
            report(module, &error);
        }
    }
}

/** rawe_host_group_config.broken: the service thread, which has the responders for itself. */
static void broken(void *context)
{
    struct mca_btl_rawe_state *state = &mca_btl_rawe_state;

    (void)context;
    for (unsigned i = 0; i < state->module_count; ++i) {
        mca_btl_rawe_module_t *module = state->modules[i];
        struct rawe_link_config config = mca_btl_rawe_module_link_config(module);
        struct rawe_link_error error;

        if (0 != rawe_responder_reopen(module->responder, &config, &error)) {
            report(module, &error);
        }
    }
    atomic_store_explicit(&state->group_broken, true, memory_order_release);
    if (mca_btl_rawe_lock_claim()) {
        mca_btl_rawe_group_repair();
        mca_btl_rawe_lock_unclaim();
    }
}

/** Without room sockets receive by themselves. */
static void register_responder(const mca_btl_rawe_module_t *module)
{
    struct rawe_link_config config = mca_btl_rawe_module_link_config(module);
    const struct rawe_fanout_member member = rawe_fanout_member(
        rawe_responder_fd(module->responder), RAWE_FILTER_FOR_RESPONDER, &config);

    (void)rawe_host_group_register(mca_btl_rawe_state.group, &member, 1);
}

void mca_btl_rawe_group_register_links(mca_btl_rawe_module_t *module)
{
    struct rawe_host_group *group = mca_btl_rawe_state.group;
    struct rawe_link_config config = mca_btl_rawe_module_link_config(module);
    struct rawe_fanout_member members[2];
    unsigned count = 0;

    if (NULL == group || module->links_in_group) {
        return;
    }
    module->links_in_group = true;
    members[count++] =
        rawe_fanout_member(rawe_link_fd(module->link), RAWE_FILTER_FOR_LINK, &config);
    if (NULL != module->bulk) {
        members[count++] =
            rawe_fanout_member(rawe_bulk_fd(module->bulk), RAWE_FILTER_FOR_BULK, &config);
    }
    (void)rawe_host_group_register(group, members, count);
}

void mca_btl_rawe_group_open(void)
{
    struct mca_btl_rawe_state *state = &mca_btl_rawe_state;
    struct rawe_host_group *group;
    struct rawe_link_error error;
    char name[64];

    if (!mca_btl_rawe_params.fanout || mca_btl_rawe_compat_local_ranks() < RANKS_MIN) {
        return;
    }
    snprintf(name, sizeof(name), "rawe-%lu-%lx", (unsigned long)geteuid(),
             (unsigned long)OPAL_PROC_MY_NAME.jobid);
    const struct rawe_host_group_config config = {
        .name = name,
        .leader = 0 == mca_btl_rawe_compat_local_rank(),
        .processes = mca_btl_rawe_compat_local_ranks(),
        .helper = mca_btl_rawe_params.helper,
        .broken = broken,
    };
    if (0 != rawe_host_group_open(&group, &config, state->service, &error)) {
        return; /* slower, not wrong */
    }
    state->group = group;
    for (unsigned i = 0; i < state->module_count; ++i) {
        mca_btl_rawe_module_t *module = state->modules[i];
        register_responder(module);
        /* lo may be opened at the same time. */
        opal_mutex_lock(&module->endpoints_lock);
        if (module->open) {
            mca_btl_rawe_group_register_links(module);
        }
        opal_mutex_unlock(&module->endpoints_lock);
    }
}

void mca_btl_rawe_group_finalizing(void)
{
    if (NULL != mca_btl_rawe_state.group) {
        rawe_host_group_hush(mca_btl_rawe_state.group);
    }
}

void mca_btl_rawe_group_close(void)
{
    rawe_host_group_close(mca_btl_rawe_state.group, CLOSE_WAIT_MS);
    mca_btl_rawe_state.group = NULL;
}
