/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Endpoints: finding out whether and how a peer can be reached, peers that call first, and what
 * the engine says of them.
 */
#include "btl_rawe.h"

#include "btl_rawe_help.h"
#include "btl_rawe_params.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/**
 * Callers that turned out to be nobody, before no further name is looked up: Open MPI remembers
 * each name it was asked about, so that invented ones would fill the memory.
 */
#define STRANGERS_MAX 65536u

static void endpoint_construct(mca_btl_base_endpoint_t *endpoint)
{
    endpoint->module = NULL;
    endpoint->proc = NULL;
    memset(endpoint->conn, 0, sizeof(endpoint->conn));
    endpoint->watch = -1;
    endpoint->in_use = false;
    endpoint->lost = false;
    endpoint->burst = false;
    endpoint->row = 0;
    endpoint->row_ns = 0;
}

OBJ_CLASS_INSTANCE(mca_btl_base_endpoint_t, opal_list_item_t, endpoint_construct, NULL);

/** "rank 3", or with the job's number when it is another job's. */
static const char *peer_text(const opal_proc_t *proc, char out[48])
{
    if (proc->proc_name.jobid == OPAL_PROC_MY_NAME.jobid) {
        snprintf(out, 48, "rank %u", (unsigned) proc->proc_name.vpid);
    } else {
        snprintf(out, 48, "rank %u of job %u", (unsigned) proc->proc_name.vpid,
                 (unsigned) proc->proc_name.jobid);
    }
    return out;
}

/** The endpoint for a process's interface, if there is one. endpoints_lock held. */
static mca_btl_base_endpoint_t *endpoint_find(mca_btl_rawe_module_t *module,
                                              const opal_process_name_t *name,
                                              const uint8_t mac[RAWE_MAC_BYTES])
{
    mca_btl_base_endpoint_t *endpoint;

    OPAL_LIST_FOREACH (endpoint, &module->endpoints, mca_btl_base_endpoint_t) {
        if (endpoint->proc->proc_name.vpid == name->vpid
            && endpoint->proc->proc_name.jobid == name->jobid
            && 0 == memcmp(endpoint->address.mac, mac, RAWE_MAC_BYTES)) {
            return endpoint;
        }
    }
    return NULL;
}

/** The endpoint for a process's interface, new if need be; NULL without memory. */
static mca_btl_base_endpoint_t *endpoint_get(mca_btl_rawe_module_t *module, opal_proc_t *proc,
                                             const struct mca_btl_rawe_address *address,
                                             uint32_t path_mtu_bytes)
{
    opal_mutex_lock(&module->endpoints_lock);
    mca_btl_base_endpoint_t *endpoint = endpoint_find(module, &proc->proc_name, address->mac);
    if (NULL == endpoint) {
        endpoint = OBJ_NEW(mca_btl_base_endpoint_t);
        if (NULL != endpoint) {
            OBJ_RETAIN(proc);
            endpoint->module = module;
            endpoint->proc = proc;
            endpoint->address = *address;
            endpoint->path_mtu_bytes = path_mtu_bytes;
            opal_list_append(&module->endpoints, &endpoint->super);
        }
    }
    opal_mutex_unlock(&module->endpoints_lock);
    return endpoint;
}

struct rawe_conn *mca_btl_rawe_endpoint_conn(mca_btl_base_endpoint_t *endpoint, unsigned lane)
{
    if (OPAL_UNLIKELY(NULL == endpoint->conn[lane])) {
        struct rawe_conn_config config = {
            .peer_port = endpoint->address.port,
            .peer_key = endpoint->address.key,
            .payload_max_bytes = (endpoint->path_mtu_bytes - RAWE_HEADER_BYTES) & ~(uint32_t) 7,
            .lane = (uint8_t) lane,
            .owner = endpoint,
        };
        memcpy(config.peer_mac, endpoint->address.mac, RAWE_MAC_BYTES);
        endpoint->conn[lane] = rawe_conn_open(&endpoint->module->engine, &config);
    }
    return endpoint->conn[lane];
}

bool mca_btl_rawe_endpoint_drained(const mca_btl_base_endpoint_t *endpoint)
{
    for (unsigned lane = 0; lane < RAWE_LANES; ++lane) {
        if (NULL != endpoint->conn[lane] && !rawe_conn_drained(endpoint->conn[lane])) {
            return false;
        }
    }
    return true;
}

void mca_btl_rawe_endpoint_close(mca_btl_base_endpoint_t *endpoint)
{
    mca_btl_rawe_module_t *module = endpoint->module;

    for (unsigned lane = 0; lane < RAWE_LANES; ++lane) {
        if (NULL != endpoint->conn[lane]) {
            rawe_conn_close(endpoint->conn[lane], mca_btl_rawe_now_ns());
            endpoint->conn[lane] = NULL;
        }
    }
    if (endpoint->watch >= 0) {
        rawe_responder_unwatch(module->responder, endpoint->watch);
    }
    opal_mutex_lock(&module->endpoints_lock);
    opal_list_remove_item(&module->endpoints, &endpoint->super);
    opal_mutex_unlock(&module->endpoints_lock);
    OBJ_RELEASE(endpoint->proc);
    OBJ_RELEASE(endpoint);
}

/** Does the process run on this host, that is, in this network namespace? */
static bool same_host(const opal_proc_t *proc, const struct mca_btl_rawe_address *addresses,
                      unsigned count)
{
    if (OPAL_PROC_ON_LOCAL_NODE(proc->proc_flags)) {
        return true;
    }
    for (unsigned i = 0; i < count; ++i) {
        for (unsigned j = 0; j < mca_btl_rawe_component.module_count; ++j) {
            const mca_btl_rawe_module_t *module = mca_btl_rawe_component.modules[j];
            if (!module->interface.loopback
                && 0 == memcmp(module->address.mac, addresses[i].mac, RAWE_MAC_BYTES)) {
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

/** One interface of one process, to be probed. */
struct candidate {
    size_t proc_index;
    struct mca_btl_rawe_address address;
};

/** Append the interfaces of a process that this module may reach, the likeliest first. */
static unsigned list_candidates(const mca_btl_rawe_module_t *module, unsigned module_index,
                                const opal_proc_t *proc, size_t proc_index,
                                struct candidate *candidates)
{
    struct mca_btl_rawe_address addresses[MCA_BTL_RAWE_MODULES_MAX];
    unsigned count = mca_btl_rawe_modex_receive(proc, addresses);
    bool local = same_host(proc, addresses, count);
    unsigned listed = 0;

    for (unsigned i = 0; i < count; ++i) {
        /* Interfaces of the same rank in both lists are likely to be on the same segment. */
        const struct mca_btl_rawe_address *address = &addresses[(i + module_index) % count];
        if (local == module->interface.loopback && is_loopback(address) == local) {
            candidates[listed].proc_index = proc_index;
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

/** Does another module reach the process? Then this one's failure is no news. */
static bool reached_elsewhere(const mca_btl_rawe_module_t *module, unsigned module_index,
                              const opal_proc_t *proc)
{
    for (unsigned i = 0; i < mca_btl_rawe_component.module_count; ++i) {
        mca_btl_rawe_module_t *other = mca_btl_rawe_component.modules[i];
        mca_btl_base_endpoint_t *endpoint;
        bool found = false;
        if (other == module || other->interface.loopback != module->interface.loopback) {
            continue;
        }
        opal_mutex_lock(&other->endpoints_lock);
        OPAL_LIST_FOREACH (endpoint, &other->endpoints, mca_btl_base_endpoint_t) {
            found |= endpoint->proc == proc && endpoint->in_use;
        }
        opal_mutex_unlock(&other->endpoints_lock);
        /* A module behind this one in the list has yet to try, and will tell if it fails too. */
        if (found || i > module_index) {
            return true;
        }
    }
    return false;
}

static void tell_mtu(const mca_btl_rawe_module_t *module, const opal_proc_t *proc,
                     const struct mca_btl_rawe_address *address, const struct rawe_reach *reach)
{
    char mac[18];
    const char *host = mca_btl_rawe_compat_hostname(proc);

    if (address->mtu_bytes != module->address.mtu_bytes) {
        mca_btl_rawe_help_mtu_mismatch(module->interface.name, module->address.mtu_bytes, host,
                                       address->mtu_bytes);
    }
    if (reach->mtu_passed_bytes < reach->mtu_bytes) {
        mca_btl_rawe_help_full_size_lost(module->interface.name, host,
                                         mca_btl_rawe_mac_text(address->mac, mac),
                                         reach->mtu_bytes, reach->mtu_passed_bytes);
    }
}

/** Smallest path worth using: headers, and a chunk with some data. */
#define PATH_MTU_LEAST_BYTES 512u

int mca_btl_rawe_add_procs(struct mca_btl_base_module_t *btl, size_t count, opal_proc_t **procs,
                           struct mca_btl_base_endpoint_t **endpoints, opal_bitmap_t *reachable)
{
    mca_btl_rawe_module_t *module = (mca_btl_rawe_module_t *) btl;
    struct candidate *candidates = calloc(count * MCA_BTL_RAWE_MODULES_MAX, sizeof(*candidates));
    unsigned listed = 0, module_index = 0;

    while (module_index < mca_btl_rawe_component.module_count
           && mca_btl_rawe_component.modules[module_index] != module) {
        ++module_index;
    }
    for (size_t i = 0; i < count && NULL != candidates; ++i) {
        endpoints[i] = NULL;
        if (procs[i] != opal_proc_local_get()) {
            listed += list_candidates(module, module_index, procs[i], i, candidates + listed);
        }
    }
    struct rawe_reach *reaches = calloc(0 == listed ? 1 : listed, sizeof(*reaches));
    if (NULL == candidates || NULL == reaches) {
        free(candidates);
        free(reaches);
        return OPAL_ERR_OUT_OF_RESOURCE;
    }
    for (unsigned i = 0; i < listed; ++i) {
        memcpy(reaches[i].mac, candidates[i].address.mac, RAWE_MAC_BYTES);
        reaches[i].port = candidates[i].address.port;
        reaches[i].key = candidates[i].address.key;
        reaches[i].mtu_bytes = smaller(candidates[i].address.mtu_bytes, module->address.mtu_bytes);
    }
    if (0 != listed) {
        rawe_responder_reach(module->responder, reaches, listed,
                             mca_btl_rawe_params.connect_timeout_ms * 1000000);
    }
    for (unsigned i = 0; i < listed; ++i) {
        size_t index = candidates[i].proc_index;
        if (reaches[i].mtu_passed_bytes < PATH_MTU_LEAST_BYTES || NULL != endpoints[index]) {
            continue;
        }
        endpoints[index] = endpoint_get(module, procs[index], &candidates[i].address,
                                        reaches[i].mtu_passed_bytes);
        if (NULL != endpoints[index]) {
            endpoints[index]->in_use = true;
            tell_mtu(module, procs[index], &candidates[i].address, &reaches[i]);
            if (NULL != reachable) {
                opal_bitmap_set_bit(reachable, (int) index);
            }
        }
    }
    for (unsigned i = 0; i < listed; ++i) {
        const opal_proc_t *proc = procs[candidates[i].proc_index];
        char peer[48], mac[18];
        if (NULL == endpoints[candidates[i].proc_index]
            && !reached_elsewhere(module, module_index, proc)) {
            mca_btl_rawe_help_peer_unreachable(
                module->interface.name, peer_text(proc, peer), mca_btl_rawe_compat_hostname(proc),
                mca_btl_rawe_mac_text(candidates[i].address.mac, mac),
                mca_btl_rawe_params.connect_timeout_ms);
        }
    }
    free(candidates);
    free(reaches);
    return OPAL_SUCCESS;
}

int mca_btl_rawe_del_procs(struct mca_btl_base_module_t *btl, size_t count, opal_proc_t **procs,
                           struct mca_btl_base_endpoint_t **endpoints)
{
    (void) btl;
    (void) procs;
    mca_btl_rawe_lock();
    for (size_t i = 0; i < count; ++i) {
        if (NULL == endpoints[i]) {
            continue;
        }
        endpoints[i]->in_use = false;
        /* What has not been acknowledged yet is looked after until finalize. */
        if (mca_btl_rawe_endpoint_drained(endpoints[i])
            && !rawe_engine_has_kept(&endpoints[i]->module->engine)
            && !mca_btl_rawe_component.progressing) {
            mca_btl_rawe_endpoint_close(endpoints[i]);
        }
    }
    mca_btl_rawe_unlock();
    return OPAL_SUCCESS;
}

void mca_btl_rawe_deliver(void *context, struct rawe_conn *conn, uint8_t tag, const uint8_t *data,
                          size_t len_bytes)
{
    mca_btl_rawe_module_t *module = context;
    mca_btl_base_segment_t segment = {
        .seg_addr.pval = (void *) (uintptr_t) data,
        .seg_len = len_bytes,
    };

    if (OPAL_UNLIKELY(
            !mca_btl_rawe_compat_deliver(&module->super, conn->owner, tag, &segment, 1))) {
        module->engine.counters.dropped_type++;
    }
}

struct rawe_conn *mca_btl_rawe_accept(void *context, const struct rawe_connect *from,
                                      const uint8_t source_mac[RAWE_MAC_BYTES])
{
    mca_btl_rawe_module_t *module = context;
    struct mca_btl_rawe_address addresses[MCA_BTL_RAWE_MODULES_MAX];
    opal_process_name_t name = {.jobid = from->jobid, .vpid = from->vpid};

    opal_mutex_lock(&module->endpoints_lock);
    mca_btl_base_endpoint_t *endpoint = endpoint_find(module, &name, source_mac);
    opal_mutex_unlock(&module->endpoints_lock);
    /* While MPI is away nobody else is asked: the peer will call again. */
    if (NULL == endpoint && !module->engine.away && module->strangers < STRANGERS_MAX) {
        opal_proc_t *proc = opal_proc_for_name(name);
        unsigned count = NULL == proc ? 0 : mca_btl_rawe_modex_receive(proc, addresses);
        for (unsigned i = 0; i < count && NULL == endpoint; ++i) {
            if (0 == memcmp(addresses[i].mac, source_mac, RAWE_MAC_BYTES)
                && addresses[i].key == from->key && addresses[i].port == from->port) {
                uint32_t mtu_bytes = smaller(addresses[i].mtu_bytes, module->address.mtu_bytes);
                /* The caller has found out what its way to us carries. */
                uint32_t theirs = from->payload_max_bytes + RAWE_HEADER_BYTES;
                endpoint = endpoint_get(module, proc, &addresses[i], smaller(mtu_bytes, theirs));
            }
        }
        module->strangers += NULL == endpoint;
    }
    return NULL == endpoint ? NULL : mca_btl_rawe_endpoint_conn(endpoint, from->lane);
}

void mca_btl_rawe_silent(void *context, struct rawe_conn *conn, uint64_t silent_ns)
{
    mca_btl_rawe_module_t *module = context;
    mca_btl_base_endpoint_t *endpoint = conn->owner;

    (void) silent_ns;
    if (endpoint->watch < 0) {
        endpoint->watch = rawe_responder_watch(module->responder, endpoint->address.mac,
                                               endpoint->address.port, endpoint->address.key);
    }
    if (endpoint->watch >= 0) {
        rawe_responder_ping(module->responder, endpoint->watch);
        rawe_conn_alive(conn, rawe_responder_last_pong_ns(module->responder, endpoint->watch));
    }
}

void mca_btl_rawe_failed(void *context, struct rawe_conn *conn, uint64_t silent_ns)
{
    mca_btl_rawe_module_t *module = context;
    mca_btl_base_endpoint_t *endpoint = conn->owner;
    char peer[48], mac[18];

    if (endpoint->lost || !endpoint->in_use) {
        return;
    }
    endpoint->lost = true;
    mca_btl_rawe_help_peer_lost(module->interface.name, peer_text(endpoint->proc, peer),
                                mca_btl_rawe_compat_hostname(endpoint->proc),
                                mca_btl_rawe_mac_text(endpoint->address.mac, mac),
                                silent_ns / 1000000000u);
    if (NULL != module->error_callback) {
        char text[] = "rawe: peer is silent";
        module->error_callback(&module->super, MCA_BTL_ERROR_FLAGS_FATAL, endpoint->proc, text);
    }
}
