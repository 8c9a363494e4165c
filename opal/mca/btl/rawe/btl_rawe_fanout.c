/* SPDX-License-Identifier: BSD-3-Clause */
#include "btl_rawe_fanout.h"

#include "btl_rawe_lock.h"
#include "btl_rawe_module.h"
#include "btl_rawe_params.h"
#include "linux/host/rawe_host_group.h"

#include <stdio.h>
#include <unistd.h>

/** With fewer ranks on the host, a group has no advantage. */
#define RANKS_MIN 3u

/** Maximum time that ranks wait for slower ones to finalize. */
#define CLOSE_WAIT_MS 1000u

/**
 * Sockets that cannot be reopened are retried for ten seconds before the user is told: resources
 * that are scarce while all ranks start helpers soon become available. rawe_carrier keeps trying, at
 * longer intervals.
 */
#define RETRY_MS 100
#define ATTEMPTS_MAX 100u

/** Bits of mca_btl_rawe_state.fanout_repair: the links to reopen. */
enum {
    MEMBERS = 1,      /**< links in a broken group */
    ASTRAY = 2,       /**< links not bound to their module's interface */
    LAST_ATTEMPT = 4, /**< report failures to the user */
};

/** Return true if this port must be reopened; NULL: there is no port. */
static bool is_behind(const mca_btl_rawe_module_t *module, const struct rawe_port *port,
                      unsigned which)
{
    return NULL != port &&
           ((0 != (which & MEMBERS) && rawe_fanout_is_member(port->fd)) ||
            (0 != (which & ASTRAY) && port->kind->interface(port) != module->interface.index));
}

static void port_renew(const mca_btl_rawe_module_t *module, struct rawe_port *port, unsigned which)
{
    bool responder = rawe_responder_port(module->responder) == port;
    int index = module->interface.index;
    struct rawe_port_error error;

    if (is_behind(module, port, which) &&
        0 != (responder ? rawe_responder_reopen(module->responder, index, &error)
                        : rawe_port_reopen(port, index, &error)) &&
        0 != (which & LAST_ATTEMPT)) {
        mca_btl_rawe_failure_note(true, module->interface.name, &error);
    }
}

void mca_btl_rawe_fanout_repair(void)
{
    struct mca_btl_rawe_state *state = &mca_btl_rawe_state;
    unsigned which = atomic_exchange_explicit(&state->fanout_repair, 0, memory_order_acquire);

    for (unsigned i = 0; i < state->module_count; ++i) {
        const mca_btl_rawe_module_t *module = state->modules[i];
        const bool open = atomic_load_explicit(&module->open, memory_order_acquire);
        if (open || module->address.udp) { /* UDP's link exists before the module is open */
            port_renew(module, module->link, which);
        }
        if (open) {
            port_renew(module, module->bulk, which);
            port_renew(module, module->group_port, which);
            port_renew(module, module->group_bulk, which);
        }
    }
}

static bool link_is_behind(const mca_btl_rawe_module_t *module, unsigned which)
{
    if (!atomic_load_explicit(&module->open, memory_order_acquire)) {
        return module->address.udp && is_behind(module, module->link, which);
    }
    return is_behind(module, module->link, which) || is_behind(module, module->bulk, which) ||
           is_behind(module, module->group_port, which) ||
           is_behind(module, module->group_bulk, which);
}

/**
 * Stop listening to links. Reopened links are other files under the same descriptors, and epoll
 * would wait for the old files. A thread that listened polls soon, then listens to the new ones.
 */
static void listen_to_no_link(void)
{
    static const struct rawe_service_heard nothing[RAWE_SERVICE_HEARD_MAX] = {{.fd = -1},
                                                                              {.fd = -1}};
    const struct mca_btl_rawe_state *state = &mca_btl_rawe_state;

    for (unsigned i = 0; i < state->module_count; ++i) {
        mca_btl_rawe_module_t *module = state->modules[i];
        rawe_responder_listen(module->responder, nothing);
        if (module->thread_listens) {
            module->thread_listens = false;
            atomic_store_explicit(&module->thread_mode, MCA_BTL_RAWE_THREAD_POLLS,
                                  memory_order_release);
            rawe_responder_wake(module->responder, 0);
        }
    }
}

/** Reopen the responder and, outside MPI, links (inside, progress does). False: some remain. */
static bool renew_module(const mca_btl_rawe_module_t *module, unsigned which)
{
    struct rawe_port *responder = rawe_responder_port(module->responder);

    port_renew(module, responder, which);
    if (link_is_behind(module, which)) {
        listen_to_no_link();
        atomic_fetch_or_explicit(&mca_btl_rawe_state.fanout_repair, which, memory_order_release);
        if (mca_btl_rawe_lock_claim()) {
            mca_btl_rawe_fanout_repair();
            mca_btl_rawe_unlock();
        }
    }
    return !is_behind(module, responder, which) && !link_is_behind(module, which);
}

bool mca_btl_rawe_fanout_follow(mca_btl_rawe_module_t *module)
{
    bool report = ++module->follow_attempts == ATTEMPTS_MAX;
    bool followed = renew_module(module, ASTRAY | (report ? LAST_ATTEMPT : 0));

    module->follow_attempts = followed ? 0 : module->follow_attempts;
    return followed;
}

/** rawe_host_group_config.broken: reopen the sockets of a broken group. */
static int repair_broken(void *context)
{
    struct mca_btl_rawe_state *state = &mca_btl_rawe_state;
    bool last = ++state->fanout_attempts == ATTEMPTS_MAX, repaired = true;

    for (unsigned i = 0; i < state->module_count; ++i) {
        repaired = renew_module(state->modules[i], MEMBERS | (last ? LAST_ATTEMPT : 0)) && repaired;
    }
    if (repaired || last) {
        state->fanout_attempts = 0;
        return -1;
    }
    return RETRY_MS;
}

void mca_btl_rawe_fanout_register_links(mca_btl_rawe_module_t *module)
{
    struct rawe_host_group *group = mca_btl_rawe_state.fanout;

    if (NULL != group && !module->links_in_fanout) {
        module->links_in_fanout = true;
        rawe_host_group_register(group, module->link);
        for (const struct rawe_port *port = module->bulk; NULL != port; port = port->beside) {
            rawe_host_group_register(group, port);
        }
    }
}

/** Return true if a module has packet sockets; UDP's are never members. */
static bool has_packet_sockets(const struct mca_btl_rawe_state *state)
{
    unsigned i = 0;

    while (i < state->module_count && state->modules[i]->address.udp) {
        ++i;
    }
    return i < state->module_count;
}

void mca_btl_rawe_fanout_open(void)
{
    struct mca_btl_rawe_state *state = &mca_btl_rawe_state;
    struct rawe_host_group *group;
    struct rawe_port_error error;
    char name[64];

    if (!mca_btl_rawe_params.fanout || mca_btl_rawe_compat_local_ranks() < RANKS_MIN ||
        !has_packet_sockets(state)) {
        return;
    }
    snprintf(name, sizeof(name), "rawe-%lu-%lx", (unsigned long)geteuid(),
             (unsigned long)OPAL_PROC_MY_NAME.jobid);
    const struct rawe_host_group_config config = {
        .name = name,
        .leader = 0 == mca_btl_rawe_compat_local_rank(),
        .processes = mca_btl_rawe_compat_local_ranks(),
        .helper = mca_btl_rawe_params.helper,
        .broken = repair_broken,
    };
    if (0 != rawe_host_group_open(&group, &config, state->service, &error)) {
        return; /* reception is slower without a group, but correct */
    }
    state->fanout = group;
    for (unsigned i = 0; i < state->module_count; ++i) {
        mca_btl_rawe_module_t *module = state->modules[i];
        rawe_host_group_register(group, rawe_responder_port(module->responder));
        opal_mutex_lock(&module->endpoints_lock);
        if (module->open) {
            mca_btl_rawe_fanout_register_links(module);
        }
        opal_mutex_unlock(&module->endpoints_lock);
    }
}

void mca_btl_rawe_fanout_close(void)
{
    rawe_host_group_close(mca_btl_rawe_state.fanout, CLOSE_WAIT_MS);
    mca_btl_rawe_state.fanout = NULL;
}
