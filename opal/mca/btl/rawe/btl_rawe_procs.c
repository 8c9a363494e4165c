/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Processes that become peers: those Open MPI introduces, and whether and how they can be reached;
 * those that call first, or from an interface that we have no path to.
 */
#include "btl_rawe_procs.h"

#include "btl_rawe_callers.h"
#include "btl_rawe_endpoint.h"
#include "btl_rawe_failure.h"
#include "btl_rawe_help.h"
#include "btl_rawe_lock.h"
#include "btl_rawe_modex.h"
#include "btl_rawe_module.h"
#include "btl_rawe_params.h"
#include "btl_rawe_state.h"

#include <stdlib.h>
#include <string.h>

/** Does the process run on this host, that is, in this network namespace? */
static bool same_host(const opal_proc_t *proc, const struct mca_btl_rawe_address *addresses,
                      unsigned count)
{
    if (OPAL_PROC_ON_LOCAL_NODE(proc->proc_flags)) {
        return true;
    }
    for (unsigned i = 0; i < count; ++i) {
        for (unsigned j = 0; j < mca_btl_rawe_state.module_count; ++j) {
            const mca_btl_rawe_module_t *module = mca_btl_rawe_state.modules[j];
            if (!module->interface.loopback &&
                0 == memcmp(module->address.mac, addresses[i].mac, RAWE_MAC_BYTES)) {
                return true;
            }
        }
    }
    return false;
}

static bool is_loopback(const struct mca_btl_rawe_address *address)
{
    static const uint8_t zero[RAWE_MAC_BYTES];
    return 0 == memcmp(address->mac, zero, RAWE_MAC_BYTES);
}

/** Does a BTL for shared memory take the process, whatever we say of it? */
static bool shares_memory(const opal_proc_t *proc)
{
    return OPAL_PROC_ON_LOCAL_NODE(proc->proc_flags) &&
           proc->proc_name.jobid == OPAL_PROC_MY_NAME.jobid && mca_btl_rawe_compat_shared_memory();
}

/** One interface of one process, and one of ours that may reach it. */
struct candidate {
    size_t proc_index;
    const mca_btl_rawe_module_t *module;
    struct mca_btl_rawe_address address;
};

/** Append the interfaces of a process that a module may reach, the likeliest first. */
static unsigned list_candidates(const mca_btl_rawe_module_t *module, unsigned module_index,
                                const opal_proc_t *proc, size_t proc_index, bool shared_too,
                                struct candidate *candidates)
{
    struct mca_btl_rawe_address addresses[MCA_BTL_RAWE_MODULES_MAX];
    unsigned count = mca_btl_rawe_modex_receive(proc, addresses);
    bool local = same_host(proc, addresses, count);
    unsigned listed = 0;

    if (module->interface.loopback && !shared_too && shares_memory(proc)) {
        return 0;
    }
    for (unsigned i = 0; i < count; ++i) {
        /* Interfaces of the same rank in both lists are likely to be on the same segment. */
        const struct mca_btl_rawe_address *address = &addresses[(i + module_index) % count];
        if (local == module->interface.loopback && is_loopback(address) == local) {
            candidates[listed].proc_index = proc_index;
            candidates[listed].module = module;
            candidates[listed].address = *address;
            ++listed;
        }
    }
    return listed;
}

static uint32_t smaller(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

/** Does another module reach the process? */
static bool reached_elsewhere(const mca_btl_rawe_module_t *module, const opal_proc_t *proc)
{
    bool found = false;

    for (unsigned i = 0; i < mca_btl_rawe_state.module_count && !found; ++i) {
        mca_btl_rawe_module_t *other = mca_btl_rawe_state.modules[i];
        found = other != module && mca_btl_rawe_endpoint_in_use(other, proc->proc_name);
    }
    return found;
}

/** Is there a module behind this one that may find a path to the same process? */
static bool others_follow(unsigned module_index)
{
    bool loopback = mca_btl_rawe_state.modules[module_index]->interface.loopback;
    unsigned i = module_index + 1;

    while (i < mca_btl_rawe_state.module_count &&
           mca_btl_rawe_state.modules[i]->interface.loopback != loopback) {
        ++i;
    }
    return i < mca_btl_rawe_state.module_count;
}

static void report_mtu(const mca_btl_rawe_module_t *module, const opal_proc_t *proc,
                       const struct mca_btl_rawe_address *address, const struct rawe_path *path)
{
    char mac[18];
    struct mca_btl_rawe_compat_hostname host = mca_btl_rawe_compat_hostname(proc);

    if (address->mtu_bytes != module->address.mtu_bytes) {
        mca_btl_rawe_help_mtu_mismatch(module->interface.name, module->address.mtu_bytes, host.text,
                                       address->mtu_bytes);
    }
    if (path->mtu_passed_bytes < path->mtu_bytes) {
        mca_btl_rawe_help_full_size_lost(module->interface.name, host.text,
                                         mca_btl_rawe_mac_text(address->mac, mac), path->mtu_bytes,
                                         path->mtu_passed_bytes);
    }
}

static void report_unreachable(const mca_btl_rawe_module_t *module, const opal_proc_t *proc,
                               const struct mca_btl_rawe_address *address)
{
    char peer[48], mac[18];

    mca_btl_rawe_help_peer_unreachable(module->interface.name, mca_btl_rawe_peer_text(proc, peer),
                                       mca_btl_rawe_compat_hostname(proc).text,
                                       mca_btl_rawe_mac_text(address->mac, mac),
                                       mca_btl_rawe_params.connect_timeout_ms);
}

/**
 * An interface that has failed this number of times, and reached nobody, gets little time for the
 * next process that others of ours reach. Where hosts have a network that leads to none of the
 * others (bridges of containers), that is not to cost much for each of them.
 */
#define DEPRIORITIZE_FAILURES 4u

/**
 * Append the paths to a process: this module's, then, unless it is known to be there, the other
 * modules' as indirect checks.
 */
static unsigned list_paths(unsigned module_index, const opal_proc_t *proc, size_t proc_index,
                           bool shared_too, struct candidate *candidates, struct rawe_path *paths,
                           struct rawe_path_target *targets)
{
    const mca_btl_rawe_module_t *module = mca_btl_rawe_state.modules[module_index];
    bool elsewhere = reached_elsewhere(module, proc);
    unsigned listed =
        list_candidates(module, module_index, proc, proc_index, shared_too, candidates);

    for (unsigned i = 0; i < mca_btl_rawe_state.module_count; ++i) {
        const mca_btl_rawe_module_t *other = mca_btl_rawe_state.modules[i];
        if (0 != listed && !elsewhere && other != module &&
            other->interface.loopback == module->interface.loopback) {
            listed += list_candidates(other, i, proc, proc_index, shared_too, candidates + listed);
        }
    }
    for (unsigned i = 0; i < listed; ++i) {
        const struct candidate *candidate = &candidates[i];
        paths[i] = (struct rawe_path){
            .mtu_bytes = smaller(candidate->address.mtu_bytes, module->address.mtu_bytes),
            .same_process = 0 != i,
            .process_known = elsewhere,
            .deprioritized = !module->reached_any && module->failures >= DEPRIORITIZE_FAILURES,
            .indirect = candidate->module != module,
            .mtu_certain = module->interface.loopback,
        };
        targets[i] = (struct rawe_path_target){
            .to = mca_btl_rawe_ping_address(&candidate->address),
        };
    }
    return listed;
}

/** How long paths are searched for: not long where nobody has answered before. */
static uint64_t search_ns(mca_btl_rawe_module_t *module, const struct candidate *candidates,
                          unsigned listed)
{
    uint64_t most_ns = mca_btl_rawe_params.connect_timeout_ms * 1000000;
    bool silent = !module->interface.loopback;

    opal_mutex_lock(&module->endpoints_lock);
    for (unsigned i = 0; i < listed && silent; ++i) {
        silent = mca_btl_rawe_unanswered_has(&module->unanswered, candidates[i].address.mac);
    }
    opal_mutex_unlock(&module->endpoints_lock);
    return silent && MCA_BTL_RAWE_UNANSWERED_NS < most_ns ? MCA_BTL_RAWE_UNANSWERED_NS : most_ns;
}

/**
 * Note who has answered. Where another path to the process has, the search was cut short, and says
 * nothing of those that have not.
 */
static void note_silence(mca_btl_rawe_module_t *module, const struct candidate *candidates,
                         const struct rawe_path *paths, unsigned listed)
{
    opal_mutex_lock(&module->endpoints_lock);
    for (unsigned first = 0, end; first < listed && !module->interface.loopback; first = end) {
        bool present = false;
        for (end = first;
             end < listed && candidates[end].proc_index == candidates[first].proc_index; ++end) {
            present = present || paths[end].reachable || paths[end].process_known;
        }
        for (unsigned i = first; i < end; ++i) {
            if (paths[i].reachable || !present) {
                mca_btl_rawe_unanswered_note(&module->unanswered, candidates[i].address.mac,
                                             paths[i].reachable);
            }
        }
    }
    opal_mutex_unlock(&module->endpoints_lock);
}

/** A path that was measured while another thread was inside of an engine. */
struct measured_path {
    struct mca_btl_rawe_work work; /**< first: a pointer to it is one to the path */
    mca_btl_base_endpoint_t *endpoint;
    uint32_t mtu_bytes;
};

/** mca_btl_rawe_work.perform */
static void heed_measured(struct mca_btl_rawe_work *work)
{
    struct measured_path *path = (struct measured_path *)work;

    mca_btl_rawe_endpoint_limit_mtu(path->endpoint, path->mtu_bytes);
    free(path);
}

/**
 * The endpoint may have been there: who calls has its word taken for what the path carries, and by
 * another interface than expected, what is published. add_procs must not wait for the lock.
 */
static void heed_mtu(mca_btl_base_endpoint_t *endpoint, uint32_t mtu_bytes)
{
    if (mca_btl_rawe_enter()) {
        mca_btl_rawe_endpoint_limit_mtu(endpoint, mtu_bytes);
        mca_btl_rawe_unlock();
        return;
    }
    struct measured_path *path = malloc(sizeof(*path));
    if (NULL != path) { /* else frames that are too long stall, and it is measured again */
        path->work.perform = heed_measured;
        path->endpoint = endpoint;
        path->mtu_bytes = mtu_bytes;
        mca_btl_rawe_lock_hand_over(&path->work);
    }
}

/**
 * Find out which processes a module reaches, as in btl_add_procs; `shared_too`: also those that a BTL
 * for shared memory takes.
 */
static int discover(mca_btl_rawe_module_t *module, size_t count, opal_proc_t **procs,
                    struct mca_btl_base_endpoint_t **endpoints, opal_bitmap_t *reachable,
                    bool shared_too)
{
    unsigned listed = 0, module_index = 0;

    while (module_index + 1 < mca_btl_rawe_state.module_count &&
           mca_btl_rawe_state.modules[module_index] != module) {
        ++module_index;
    }
    size_t paths_max = mca_btl_rawe_state.module_count * MCA_BTL_RAWE_MODULES_MAX;
    struct candidate *candidates = calloc(count * paths_max + 1, sizeof(*candidates));
    struct rawe_path *paths = calloc(count * paths_max + 1, sizeof(*paths));
    struct rawe_path_target *targets = calloc(count * paths_max + 1, sizeof(*targets));
    if (NULL == candidates || NULL == paths || NULL == targets) {
        free(candidates);
        free(paths);
        free(targets);
        return OPAL_ERR_OUT_OF_RESOURCE;
    }
    for (size_t i = 0; i < count; ++i) {
        endpoints[i] = NULL;
        if (procs[i] != opal_proc_local_get()) {
            listed += list_paths(module_index, procs[i], i, shared_too, candidates + listed,
                                 paths + listed, targets + listed);
        }
    }
    if (0 != listed && !mca_btl_rawe_module_open_if_needed(module)) {
        mca_btl_rawe_failures_report();
        listed = 0;
    }
    for (unsigned i = 0; i < listed; ++i) {
        targets[i].through = candidates[i].module->responder;
    }
    if (0 != listed) {
        rawe_responder_discover(module->responder, paths, targets, listed,
                                search_ns(module, candidates, listed));
        note_silence(module, candidates, paths, listed);
    }
    for (unsigned i = 0; i < listed; ++i) {
        size_t index = candidates[i].proc_index;
        if (paths[i].mtu_passed_bytes < MCA_BTL_RAWE_PATH_MTU_LEAST_BYTES ||
            NULL != endpoints[index]) {
            continue; /* an indirect check never gets as far */
        }
        endpoints[index] = mca_btl_rawe_endpoint_get(module, procs[index], &candidates[i].address,
                                                     paths[i].mtu_passed_bytes);
        if (NULL != endpoints[index]) {
            heed_mtu(endpoints[index], paths[i].mtu_passed_bytes);
            mca_btl_rawe_endpoint_introduce(endpoints[index]);
            module->reached_any = true;
            report_mtu(module, procs[index], &candidates[i].address, &paths[i]);
            if (NULL != reachable) {
                opal_bitmap_set_bit(reachable, (int)index);
            }
        }
    }
    for (unsigned i = 0; i < listed; ++i) {
        size_t index = candidates[i].proc_index;
        if (NULL == endpoints[index] && candidates[i].module == module) {
            ++module->failures;
            /* A module behind this one has yet to try, and reports it if it fails, too. */
            if (!paths[i].process_known && !others_follow(module_index)) {
                report_unreachable(module, procs[index], &candidates[i].address);
            }
        }
    }
    free(candidates);
    free(paths);
    free(targets);
    return OPAL_SUCCESS;
}

int mca_btl_rawe_add_procs(struct mca_btl_base_module_t *btl, size_t count, opal_proc_t **procs,
                           struct mca_btl_base_endpoint_t **endpoints, opal_bitmap_t *reachable)
{
    return discover((mca_btl_rawe_module_t *)btl, count, procs, endpoints, reachable, false);
}

/** The module for lo; NULL: none. */
static mca_btl_rawe_module_t *loopback_module(void)
{
    for (unsigned i = 0; i < mca_btl_rawe_state.module_count; ++i) {
        if (mca_btl_rawe_state.modules[i]->interface.loopback) {
            return mca_btl_rawe_state.modules[i];
        }
    }
    return NULL;
}

bool mca_btl_rawe_procs_on_this_host(const opal_proc_t *proc)
{
    struct mca_btl_rawe_address addresses[MCA_BTL_RAWE_MODULES_MAX];
    unsigned count = mca_btl_rawe_modex_receive(proc, addresses);
    bool found = false;

    for (unsigned i = 0; i < count && !found; ++i) {
        found = is_loopback(&addresses[i]);
    }
    return found && NULL != loopback_module() && same_host(proc, addresses, count);
}

mca_btl_base_endpoint_t *mca_btl_rawe_procs_open_local(opal_proc_t *proc)
{
    mca_btl_rawe_module_t *module = loopback_module();
    mca_btl_base_endpoint_t *endpoint = mca_btl_rawe_endpoint_in_order(proc);

    if (NULL == endpoint && NULL != module) {
        (void)discover(module, 1, &proc, &endpoint, NULL, true);
    }
    return endpoint;
}

int mca_btl_rawe_del_procs(struct mca_btl_base_module_t *btl, size_t count, opal_proc_t **procs,
                           struct mca_btl_base_endpoint_t **endpoints)
{
    (void)btl;
    (void)procs;
    /*
     * Connections stay until finalize: the PML calls this before, when a peer may still wait for
     * an acknowledgement, and does not know that we are about to leave.
     */
    for (size_t i = 0; i < count; ++i) {
        if (NULL != endpoints[i]) {
            endpoints[i]->in_use = false;
            __atomic_store_n(&endpoints[i]->peer.takes_part, false, __ATOMIC_RELAXED);
        }
    }
    return OPAL_SUCCESS;
}

/** The module that a CONNECT is meant for, which may have come through another one. */
static mca_btl_rawe_module_t *meant(mca_btl_rawe_module_t *module, const struct rawe_connect *from)
{
    for (unsigned i = 0; i < mca_btl_rawe_state.module_count && 0 != from->choice; ++i) {
        mca_btl_rawe_module_t *other = mca_btl_rawe_state.modules[i];
        if (other->address.index + 1 == from->choice && other->open && !other->interface.loopback &&
            !module->interface.loopback) {
            return other;
        }
    }
    return module;
}

struct rawe_conn *mca_btl_rawe_accept(void *context, const struct rawe_connect *from,
                                      const uint8_t source_mac[RAWE_MAC_BYTES])
{
    const mca_btl_rawe_module_t *receiver = context;
    mca_btl_rawe_module_t *module = meant(context, from);
    struct mca_btl_rawe_address addresses[MCA_BTL_RAWE_MODULES_MAX];
    opal_process_name_t name = {.jobid = from->jobid, .vpid = from->vpid};
    /* What comes by another route is from another interface; the engine knows which may. */
    bool elsewhere = 0 != from->choice;

    mca_btl_base_endpoint_t *endpoint =
        elsewhere ? mca_btl_rawe_endpoint_by_key(module, name, from->port, from->key)
                  : mca_btl_rawe_endpoint_find(module, name, source_mac);
    /* Outside of MPI nothing of Open MPI's may be called: the peer repeats its CONNECT. */
    if (NULL == endpoint && !receiver->engine.deferral.active) {
        unsigned count = mca_btl_rawe_callers_find(name, addresses);
        for (unsigned i = 0; i < count && NULL == endpoint; ++i) {
            opal_proc_t *proc = NULL;
            if ((elsewhere || 0 == memcmp(addresses[i].mac, source_mac, RAWE_MAC_BYTES)) &&
                addresses[i].key == from->key && addresses[i].port == from->port) {
                proc = opal_proc_for_name(name); /* does not ask anybody: it is a peer of ours */
            }
            if (NULL != proc) {
                uint32_t mtu_bytes = smaller(addresses[i].mtu_bytes, module->address.mtu_bytes);
                /* The caller has found out what its path to us carries. */
                uint32_t theirs = from->payload_max_bytes + RAWE_HEADER_BYTES;
                endpoint = mca_btl_rawe_endpoint_get(module, proc, &addresses[i],
                                                     smaller(mtu_bytes, theirs));
            }
        }
    }
    return NULL == endpoint ? NULL : mca_btl_rawe_endpoint_conn(endpoint, from->lane);
}

void mca_btl_rawe_unknown_source(void *context, const struct rawe_conn *conn,
                                 const uint8_t source_mac[RAWE_MAC_BYTES])
{
    mca_btl_rawe_module_t *module = context;
    const mca_btl_base_endpoint_t *home = conn->owner;
    struct mca_btl_rawe_address addresses[MCA_BTL_RAWE_MODULES_MAX];

    /* Outside of MPI nothing of Open MPI's may be called: the peer repeats its frame. */
    if (module->engine.deferral.active || module->interface.loopback ||
        home->module->interface.loopback || home->lost) {
        return;
    }
    unsigned count = mca_btl_rawe_callers_find(home->proc->proc_name, addresses);
    for (unsigned i = 0; i < count; ++i) {
        if (!is_loopback(&addresses[i]) &&
            0 == memcmp(addresses[i].mac, source_mac, RAWE_MAC_BYTES)) {
            /* Frames of this length may not pass. Then the path is validated, as any. */
            (void)mca_btl_rawe_endpoint_get(
                module, home->proc, &addresses[i],
                smaller(addresses[i].mtu_bytes, module->address.mtu_bytes));
        }
    }
}
