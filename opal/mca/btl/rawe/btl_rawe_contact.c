/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * How processes become peers: Open MPI introduces them, and we search for paths to them; or they
 * send a CONNECT before that, or from an interface to which we have no path.
 */
#include "btl_rawe_contact.h"

#include "btl_rawe_async.h"
#include "btl_rawe_endpoint.h"
#include "btl_rawe_module.h"
#include "btl_rawe_params.h"
#include "btl_rawe_proc.h"
#include "btl_rawe_search.h"

#include <string.h>
#include <sys/param.h>

int mca_btl_rawe_add_procs(struct mca_btl_base_module_t *btl, size_t count, opal_proc_t **procs,
                           struct mca_btl_base_endpoint_t **endpoints, opal_bitmap_t *reachable)
{
    return mca_btl_rawe_search((mca_btl_rawe_module_t *)btl, count, procs, endpoints, reachable,
                               false);
}

bool mca_btl_rawe_contact_on_this_host(const opal_proc_t *proc)
{
    struct mca_btl_rawe_published published;
    unsigned count = mca_btl_rawe_proc_wait(proc, &published);
    mca_btl_rawe_module_t *module;
    bool found = false;

    for (unsigned i = 0; i < count && !found; ++i) {
        found = mca_btl_rawe_is_loopback(&published.addresses[i]);
    }
    return found && 0 != mca_btl_rawe_modules_count(true, &module) &&
           mca_btl_rawe_proc_is_local(&published);
}

mca_btl_base_endpoint_t *mca_btl_rawe_contact_open_local(opal_proc_t *proc)
{
    mca_btl_base_endpoint_t *endpoint = mca_btl_rawe_endpoint_in_order(proc);

    for (unsigned i = 0; i < mca_btl_rawe_state.module_count && NULL == endpoint; ++i) {
        if (mca_btl_rawe_state.modules[i]->interface.loopback) {
            (void)mca_btl_rawe_search(mca_btl_rawe_state.modules[i], 1, &proc, &endpoint, NULL,
                                      true);
        }
    }
    return endpoint;
}

int mca_btl_rawe_del_procs(struct mca_btl_base_module_t *btl, size_t count, opal_proc_t **procs,
                           struct mca_btl_base_endpoint_t **endpoints)
{
    mca_btl_rawe_async_end();
    /* Connections stay until finalize: a peer may still wait for an acknowledgement. */
    for (size_t i = 0; i < count; ++i) {
        if (NULL != endpoints[i]) {
            mca_btl_rawe_endpoint_withdraw(endpoints[i]);
        }
    }
    return OPAL_SUCCESS;
}

/** Return the module that a CONNECT is for, which may have arrived through another. */
static mca_btl_rawe_module_t *module_meant(mca_btl_rawe_module_t *module,
                                           const struct rawe_connect *from)
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
    mca_btl_rawe_module_t *module = module_meant(context, from);
    struct mca_btl_rawe_published published;
    opal_process_name_t name = {.jobid = from->jobid, .vpid = from->vpid};

    mca_btl_base_endpoint_t *endpoint =
        mca_btl_rawe_endpoint_find(module, name, from->port, from->key);
    /* Outside MPI no function of Open MPI may be called: the peer repeats its CONNECT. */
    if (NULL == endpoint && !mca_btl_rawe_state.deferral.active) {
        unsigned count = mca_btl_rawe_proc_find(name, &published);
        for (unsigned i = 0; i < count && NULL == endpoint; ++i) {
            const struct mca_btl_rawe_address *address = &published.addresses[i];
            opal_proc_t *proc = NULL;
            /* The engine knows from which addresses it may come. */
            if (address->key == from->key && address->port == from->port) {
                proc = opal_proc_for_name(name); /* known locally: it is a peer of ours */
            }
            if (NULL != proc) {
                uint32_t mtu_bytes = MIN(address->mtu_bytes, module->address.mtu_bytes);
                /* The caller has measured what its path carries, and rounded that down. */
                uint32_t theirs = from->payload_max_bytes + RAWE_FRAME_OVERHEAD_BYTES;
                mtu_bytes = theirs + 8 <= mtu_bytes ? theirs : mtu_bytes;
                endpoint = mca_btl_rawe_endpoint_get(module, proc, address, mtu_bytes);
                if (0 == from->choice) { /* the CONNECT arrived over this path */
                    mca_btl_rawe_proc_note_heard(published.host, module->address.index,
                                                 address->mac, mtu_bytes);
                }
            }
        }
    }
    if (NULL == endpoint) {
        return NULL;
    }
    /* If the search failed, Open MPI uses another BTL, so this process could not be answered. */
    if (mca_btl_rawe_endpoint_process_lost(name) || mca_btl_rawe_proc_given_up(name)) {
        rawe_peer_give_up(&endpoint->peer); /* the process is told */
    }
    /*
     * Replies to bulk data are short. Connect the express lane now: without the progress thread,
     * connecting makes no progress while the program is outside MPI.
     */
    if (RAWE_LANE_BULK == from->lane && 0 == mca_btl_rawe_params.progress_thread_ms) {
        rawe_peer_connect(&endpoint->peer, RAWE_LANE_EXPRESS);
    }
    return rawe_peer_conn(&endpoint->peer, from->lane);
}

/** Return true if a frame from `from` may have been sent through the interface at `address`. */
static bool may_be(const struct mca_btl_rawe_address *address, const struct rawe_connect *from)
{
    return !mca_btl_rawe_is_loopback(address) &&
           (0 != from->choice || (address->key == from->key && address->port == from->port));
}

/**
 * Follow a frame from an unknown address that was sent through an interface of the process other
 * than `home`. The frame does not name the interface, but only its responder answers at that
 * address.
 */
static void follow_others(const mca_btl_rawe_module_t *module, mca_btl_base_endpoint_t *home,
                          const uint8_t mac[RAWE_MAC_BYTES])
{
    for (struct rawe_peer *other = rawe_peer_next(&home->peer); other != &home->peer;
         other = rawe_peer_next(other)) {
        mca_btl_base_endpoint_t *endpoint = other->owner;
        if (endpoint->module == module && !endpoint->lost) {
            mca_btl_rawe_endpoint_follow(endpoint, mac);
        }
    }
}

void mca_btl_rawe_unknown_source(void *context, const struct rawe_conn *conn,
                                 const struct rawe_connect *from,
                                 const uint8_t source_mac[RAWE_MAC_BYTES])
{
    mca_btl_rawe_module_t *module = context;
    mca_btl_base_endpoint_t *home = conn->owner;
    opal_process_name_t name = home->proc->proc_name;
    struct mca_btl_rawe_published published;

    if (module->interface.loopback || home->module->interface.loopback || home->lost ||
        0 != (source_mac[0] & 1)) {
        return;
    }
    mca_btl_base_endpoint_t *endpoint =
        0 != from->choice ? NULL : mca_btl_rawe_endpoint_find(module, name, from->port, from->key);
    if (NULL != endpoint && !endpoint->lost) {
        mca_btl_rawe_endpoint_follow(endpoint, source_mac);
        return;
    }
    if (0 != from->choice) {
        follow_others(module, home, source_mac);
    }
    /* Outside MPI no function of Open MPI may be called: the peer repeats its frame. */
    unsigned count =
        mca_btl_rawe_state.deferral.active ? 0 : mca_btl_rawe_proc_find(name, &published);
    for (unsigned i = 0; i < count; ++i) {
        const struct mca_btl_rawe_address *address = &published.addresses[i];
        if (may_be(address, from) && address->udp == module->address.udp &&
            0 == memcmp(address->mac, source_mac, RAWE_MAC_BYTES)) {
            /* If frames of this length do not pass, the path is validated like any path. */
            (void)mca_btl_rawe_endpoint_get(module, home->proc, address,
                                            MIN(address->mtu_bytes, module->address.mtu_bytes));
        }
    }
}
