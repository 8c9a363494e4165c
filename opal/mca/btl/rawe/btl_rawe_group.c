/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The group of the ranks of this host. See btl_rawe_group.h.
 */
#include "btl_rawe_group.h"

#include "btl_rawe_failure.h"
#include "btl_rawe_lock.h"
#include "btl_rawe_params.h"
#include "btl_rawe_state.h"
#include "linux/host/rawe_host_group.h"
#include "linux/packet/rawe_socket.h"

#include <stdio.h>
#include <unistd.h>

/** With fewer ranks on the host there is nothing to gain. */
#define RANKS_MIN 3u

/** Ranks that are slower to finalize do not hold the others up any longer. */
#define CLOSE_WAIT_MS 1000u

/**
 * When sockets cannot be opened anew the next attempt is made after the first of these times, later
 * after at most the second; that is ten seconds in all. What is scarce when all ranks of a host
 * start their helpers at once, processes and descriptors, is there again soon.
 */
#define RETRY_FIRST_MS 20
#define RETRY_MOST_MS 1000
#define ATTEMPTS_MAX 16u

/** mca_btl_rawe_state.group_repair: which links are to be opened again */
enum {
    MEMBERS = 1,      /**< those that are in a group, which is broken */
    ASTRAY = 2,       /**< those that are not bound to their module's interface */
    LAST_ATTEMPT = 4, /**< the user is told what fails now */
};

/** Opens the socket of a link, bulk or responder again: rawe_link_reopen and its like. */
typedef int reopen_fn(void *object, const struct rawe_link_config *config,
                      struct rawe_link_error *error);

static int reopen_link(void *link, const struct rawe_link_config *config,
                       struct rawe_link_error *error)
{
    return rawe_link_reopen(link, config, error);
}

static int reopen_bulk(void *bulk, const struct rawe_link_config *config,
                       struct rawe_link_error *error)
{
    return rawe_bulk_reopen(bulk, config, error);
}

static int reopen_responder(void *responder, const struct rawe_link_config *config,
                            struct rawe_link_error *error)
{
    return rawe_responder_reopen(responder, config, error);
}

/** Is this socket to be opened again? */
static bool is_behind(const mca_btl_rawe_module_t *module, int fd, unsigned which)
{
    return (0 != (which & MEMBERS) && rawe_fanout_is_member(fd)) ||
           (0 != (which & ASTRAY) && rawe_socket_interface(fd) != module->interface.index);
}

static void renew(const mca_btl_rawe_module_t *module, int fd, reopen_fn *reopen, void *object,
                  unsigned which)
{
    struct rawe_link_config config = mca_btl_rawe_module_link_config(module);
    struct rawe_link_error error;

    if (is_behind(module, fd, which) && 0 != reopen(object, &config, &error) &&
        0 != (which & LAST_ATTEMPT)) {
        mca_btl_rawe_failure_note(MCA_BTL_RAWE_FAILURE_LOST, module->interface.name, &error);
    }
}

void mca_btl_rawe_group_repair(void)
{
    struct mca_btl_rawe_state *state = &mca_btl_rawe_state;
    unsigned which = atomic_exchange_explicit(&state->group_repair, 0, memory_order_acquire);

    for (unsigned i = 0; i < state->module_count; ++i) {
        mca_btl_rawe_module_t *module = state->modules[i];

        if (!atomic_load_explicit(&module->open, memory_order_acquire)) {
            continue;
        }
        renew(module, rawe_link_fd(module->link), reopen_link, module->link, which);
        if (NULL != module->bulk) {
            renew(module, rawe_bulk_fd(module->bulk), reopen_bulk, module->bulk, which);
        }
    }
}

static bool link_is_behind(const mca_btl_rawe_module_t *module, unsigned which)
{
    return atomic_load_explicit(&module->open, memory_order_acquire) &&
           (is_behind(module, rawe_link_fd(module->link), which) ||
            (NULL != module->bulk && is_behind(module, rawe_bulk_fd(module->bulk), which)));
}

/**
 * The service thread opens the responder, which is its own, and the links if the program is outside
 * MPI; otherwise progress does. Returns false when something is left behind.
 */
static bool renew_module(const mca_btl_rawe_module_t *module, unsigned which)
{
    int fd = rawe_responder_fd(module->responder);

    renew(module, fd, reopen_responder, module->responder, which);
    if (link_is_behind(module, which)) {
        atomic_fetch_or_explicit(&mca_btl_rawe_state.group_repair, which, memory_order_release);
        if (mca_btl_rawe_lock_claim()) {
            mca_btl_rawe_group_repair();
            mca_btl_rawe_lock_unclaim();
        }
    }
    return !is_behind(module, fd, which) && !link_is_behind(module, which);
}

bool mca_btl_rawe_group_follow(const mca_btl_rawe_module_t *module)
{
    return renew_module(module, ASTRAY);
}

/** rawe_host_group_config.broken */
static int broken(void *context)
{
    struct mca_btl_rawe_state *state = &mca_btl_rawe_state;
    bool last = ++state->group_attempts == ATTEMPTS_MAX, repaired = true;

    (void)context;
    for (unsigned i = 0; i < state->module_count; ++i) {
        repaired = renew_module(state->modules[i], MEMBERS | (last ? LAST_ATTEMPT : 0)) && repaired;
    }
    if (repaired || last) {
        state->group_attempts = 0;
        return -1;
    }
    int rest_ms = RETRY_FIRST_MS << (state->group_attempts - 1);
    return rest_ms < RETRY_MOST_MS ? rest_ms : RETRY_MOST_MS;
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
