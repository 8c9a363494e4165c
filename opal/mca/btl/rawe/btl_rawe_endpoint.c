/* SPDX-License-Identifier: BSD-3-Clause */
#include "btl_rawe_endpoint.h"

#include "btl_rawe_help.h"
#include "btl_rawe_module.h"
#include "btl_rawe_params.h"
#include "btl_rawe_proc.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/** A stall is reported after half the peer timeout, but no later than this. */
#define STALL_REPORT_MOST_NS 10000000000ull

/** While probes are not answered, a PING's answer shows for at least this long that PINGs are. */
#define ANSWER_LASTS_NS 1000000000ull

/** Report a peer that is silent for this long. */
#define SILENCE_REPORT_NS 30000000000ull

/** While a connection makes no progress, the peer's responder is pinged this often, ... */
#define WATCH_INTERVAL_NS 100000000u

/** ... and the path is validated again after this pause, each time for at most this long. */
#define VALIDATION_INTERVAL_NS 1000000000ull
#define VALIDATION_TIMEOUT_NS 3000000000ull

/** A result older than this belongs to an earlier stall: the path may have changed. */
#define VALIDATION_HEEDED_NS (VALIDATION_TIMEOUT_NS + VALIDATION_INTERVAL_NS)

static void endpoint_construct(mca_btl_base_endpoint_t *endpoint)
{
    size_t super_bytes = sizeof(endpoint->super);

    memset((char *)endpoint + super_bytes, 0, sizeof(*endpoint) - super_bytes);
    endpoint->in_order = endpoint;
}

OBJ_CLASS_INSTANCE(mca_btl_rawe_endpoint_t, opal_list_item_t, endpoint_construct, NULL);

void mca_btl_rawe_access_refused(mca_btl_base_module_t *btl, const opal_proc_t *proc,
                                 enum rawe_refusal refusal)
{
    MCA_BTL_RAWE_HELP(access_refused, mca_btl_rawe_peer_text(proc).text,
                      mca_btl_rawe_compat_hostname(proc).text, mca_btl_rawe_refusal_text(refusal));
    mca_btl_rawe_end_job(btl, "rawe: a peer refused access to its memory");
}

/** Return a process's newest endpoint of any module, the head of its list. routes_lock held. */
static mca_btl_base_endpoint_t *endpoint_newest(opal_process_name_t name)
{
    mca_btl_base_endpoint_t **list = mca_btl_rawe_proc_endpoints(name, false);
    return NULL == list ? NULL : *list;
}

/** Return a module's newest endpoint with this port and key, or NULL. routes_lock held. */
static mca_btl_base_endpoint_t *interface_find(const mca_btl_rawe_module_t *module,
                                               opal_process_name_t name, uint16_t port,
                                               uint32_t key)
{
    for (mca_btl_base_endpoint_t *endpoint = endpoint_newest(name); NULL != endpoint;
         endpoint = endpoint->older) {
        const struct mca_btl_rawe_address *address = &endpoint->address;
        if (endpoint->module == module && address->port == port && address->key == key) {
            return endpoint;
        }
    }
    return NULL;
}

/** Add an endpoint to its process; NULL when out of memory. routes_lock held. */
static mca_btl_base_endpoint_t *endpoint_new(mca_btl_rawe_module_t *module, opal_proc_t *proc)
{
    mca_btl_base_endpoint_t **list = mca_btl_rawe_proc_endpoints(proc->proc_name, true);
    mca_btl_base_endpoint_t *endpoint = NULL == list ? NULL : OBJ_NEW(mca_btl_rawe_endpoint_t);

    if (NULL == endpoint) {
        return NULL;
    }
    OBJ_RETAIN(proc);
    endpoint->module = module;
    endpoint->proc = proc;
    endpoint->older = *list;
    *list = endpoint;
    return endpoint;
}

/** Unlink an endpoint; those that used it as `in_order` become their own. routes_lock held. */
static void endpoint_unlink(mca_btl_base_endpoint_t *endpoint)
{
    mca_btl_base_endpoint_t **link = mca_btl_rawe_proc_endpoints(endpoint->proc->proc_name, false);

    while (*link != endpoint) {
        link = &(*link)->older;
    }
    *link = endpoint->older;
    for (mca_btl_base_endpoint_t *other = endpoint_newest(endpoint->proc->proc_name); NULL != other;
         other = other->older) {
        if (other->in_order == endpoint) {
            other->in_order = other;
        }
    }
    opal_mutex_lock(&endpoint->module->endpoints_lock);
    opal_list_remove_item(&endpoint->module->endpoints, &endpoint->super);
    opal_mutex_unlock(&endpoint->module->endpoints_lock);
}

void mca_btl_rawe_endpoint_introduce(mca_btl_base_endpoint_t *endpoint)
{
    opal_mutex_lock(&mca_btl_rawe_state.routes_lock);
    endpoint->in_order = endpoint;
    for (mca_btl_base_endpoint_t *other = endpoint_newest(endpoint->proc->proc_name); NULL != other;
         other = other->older) {
        if (other->in_use && other != endpoint) {
            endpoint->in_order = other->in_order;
        }
    }
    endpoint->in_use = true;
    endpoint->named = false;
    opal_mutex_unlock(&mca_btl_rawe_state.routes_lock);
    __atomic_store_n(&endpoint->peer.takes_part, true, __ATOMIC_RELAXED);
}

void mca_btl_rawe_endpoint_withdraw(mca_btl_base_endpoint_t *endpoint)
{
    endpoint->in_use = false;
    __atomic_store_n(&endpoint->peer.takes_part, false, __ATOMIC_RELAXED);
}

/** As find_in_use. routes_lock held. */
static mca_btl_base_endpoint_t *newest_in_use(opal_process_name_t name,
                                              const mca_btl_rawe_module_t *but)
{
    mca_btl_base_endpoint_t *endpoint = endpoint_newest(name);

    while (NULL != endpoint && (!endpoint->in_use || endpoint->module == but)) {
        endpoint = endpoint->older;
    }
    return endpoint;
}

/** Return a process's newest endpoint that the PML uses in a module other than `but`, or NULL. */
static mca_btl_base_endpoint_t *find_in_use(opal_process_name_t name,
                                            const mca_btl_rawe_module_t *but)
{
    opal_mutex_lock(&mca_btl_rawe_state.routes_lock);
    mca_btl_base_endpoint_t *endpoint = newest_in_use(name, but);
    opal_mutex_unlock(&mca_btl_rawe_state.routes_lock);
    return endpoint;
}

mca_btl_base_endpoint_t *mca_btl_rawe_endpoint_in_order(const opal_proc_t *proc)
{
    const mca_btl_base_endpoint_t *endpoint = find_in_use(proc->proc_name, NULL);
    return NULL == endpoint ? NULL : endpoint->in_order;
}

bool mca_btl_rawe_endpoint_elsewhere(const mca_btl_rawe_module_t *module, opal_process_name_t name)
{
    return NULL != find_in_use(name, module);
}

bool mca_btl_rawe_endpoint_is_raw(opal_process_name_t name)
{
    opal_mutex_lock(&mca_btl_rawe_state.routes_lock);
    const mca_btl_base_endpoint_t *endpoint = endpoint_newest(name);
    while (NULL != endpoint && (!endpoint->in_use || endpoint->address.udp)) {
        endpoint = endpoint->older;
    }
    opal_mutex_unlock(&mca_btl_rawe_state.routes_lock);
    return NULL != endpoint;
}

mca_btl_base_endpoint_t *mca_btl_rawe_endpoint_named(const mca_btl_rawe_module_t *module,
                                                     opal_process_name_t name)
{
    opal_mutex_lock(&mca_btl_rawe_state.routes_lock);
    mca_btl_base_endpoint_t *endpoint = endpoint_newest(name);
    while (NULL != endpoint && (!endpoint->named || endpoint->lost || endpoint->module != module)) {
        endpoint = endpoint->older;
    }
    opal_mutex_unlock(&mca_btl_rawe_state.routes_lock);
    return endpoint;
}

mca_btl_base_endpoint_t *mca_btl_rawe_endpoint_to_name(mca_btl_base_endpoint_t *endpoint)
{
    opal_mutex_lock(&mca_btl_rawe_state.routes_lock);
    mca_btl_base_endpoint_t *known = newest_in_use(endpoint->proc->proc_name, NULL);
    endpoint->named = endpoint->named || NULL == known;
    opal_mutex_unlock(&mca_btl_rawe_state.routes_lock);
    return NULL == known ? endpoint : known;
}

mca_btl_base_endpoint_t *mca_btl_rawe_endpoint_find(const mca_btl_rawe_module_t *module,
                                                    opal_process_name_t name, uint16_t port,
                                                    uint32_t key)
{
    opal_mutex_lock(&mca_btl_rawe_state.routes_lock);
    mca_btl_base_endpoint_t *endpoint = interface_find(module, name, port, key);
    opal_mutex_unlock(&mca_btl_rawe_state.routes_lock);
    return endpoint;
}

static uint32_t payload_max_bytes(uint32_t mtu_bytes)
{
    return (mtu_bytes - RAWE_FRAME_OVERHEAD_BYTES) & ~(uint32_t)7;
}

/** Initialize the peer of an endpoint whose address and path are set. */
static void init_peer(mca_btl_base_endpoint_t *endpoint)
{
    const struct mca_btl_rawe_address *address = &endpoint->address;
    uint32_t ours = endpoint->module->address.speed_mbps, theirs = address->speed_mbps;
    struct rawe_peer_config config = {
        .port = address->port,
        .key = address->key,
        .payload_max_bytes = payload_max_bytes(endpoint->path_mtu_bytes),
        .interface = (uint8_t)(address->index + 1),
        .owner = endpoint,
        .speed_mbps = 0 != theirs && theirs < ours ? theirs : ours,
    };

    memcpy(config.mac, address->mac, RAWE_MAC_BYTES);
    rawe_peer_init(&endpoint->peer, &endpoint->module->engine, &config);
}

mca_btl_base_endpoint_t *mca_btl_rawe_endpoint_get(mca_btl_rawe_module_t *module, opal_proc_t *proc,
                                                   const struct mca_btl_rawe_address *address,
                                                   uint32_t path_mtu_bytes)
{
    opal_mutex_lock(&mca_btl_rawe_state.routes_lock);
    mca_btl_base_endpoint_t *endpoint =
        interface_find(module, proc->proc_name, address->port, address->key);
    /* A lost process gets a new endpoint if it is introduced again: connections stay failed. */
    if (NULL == endpoint || endpoint->lost) {
        endpoint = endpoint_new(module, proc);
        if (NULL != endpoint) {
            endpoint->address = *address;
            memcpy(endpoint->published_mac, address->mac, RAWE_MAC_BYTES);
            endpoint->path_mtu_bytes = path_mtu_bytes;
            init_peer(endpoint);
            /* A process's endpoints with ports of one kind use each other's routes. */
            mca_btl_base_endpoint_t *other = endpoint->older;
            while (NULL != other && (other->lost || other->address.udp != address->udp)) {
                other = other->older;
            }
            if (NULL != other) {
                rawe_peer_join(&endpoint->peer, &other->peer);
            }
            opal_mutex_lock(&module->endpoints_lock);
            opal_list_append(&module->endpoints, &endpoint->super);
            opal_mutex_unlock(&module->endpoints_lock);
        }
    }
    opal_mutex_unlock(&mca_btl_rawe_state.routes_lock);
    return endpoint;
}

void mca_btl_rawe_endpoint_limit_mtu(mca_btl_base_endpoint_t *endpoint, uint32_t mtu_bytes)
{
    if (mtu_bytes < endpoint->path_mtu_bytes) {
        endpoint->path_mtu_bytes = mtu_bytes;
        rawe_peer_set_payload_max(&endpoint->peer, payload_max_bytes(mtu_bytes));
    }
}

void mca_btl_rawe_endpoint_close(mca_btl_base_endpoint_t *endpoint)
{
    mca_btl_rawe_module_t *module = endpoint->module;

    rawe_failover_forget(&mca_btl_rawe_state.failover, &endpoint->peer);
    opal_mutex_lock(&mca_btl_rawe_state.routes_lock);
    rawe_peer_close(&endpoint->peer);
    endpoint_unlink(endpoint);
    opal_mutex_unlock(&mca_btl_rawe_state.routes_lock);
    rawe_responder_unwatch(module->responder, endpoint->watch);
    rawe_responder_unwatch(module->responder, endpoint->new_watch);
    rawe_responder_unwatch(module->responder, endpoint->home);
    rawe_validation_end(module->responder, endpoint->validation);
    OBJ_RELEASE(endpoint->proc);
    OBJ_RELEASE(endpoint);
}

/** Watch the peer's responder at this address, unless `*watch` already does. NULL: no memory. */
static struct rawe_watch *watch_at(const mca_btl_base_endpoint_t *endpoint,
                                   struct rawe_watch **watch, const uint8_t mac[RAWE_MAC_BYTES])
{
    struct rawe_ping_address to = mca_btl_rawe_ping_address(&endpoint->address);

    memcpy(to.mac, mac, RAWE_MAC_BYTES);
    *watch = NULL != *watch ? *watch : rawe_responder_watch(endpoint->module->responder, &to);
    return *watch;
}

void mca_btl_rawe_endpoint_follow(mca_btl_base_endpoint_t *endpoint,
                                  const uint8_t mac[RAWE_MAC_BYTES])
{
    struct rawe_responder *responder = endpoint->module->responder;
    uint8_t from[RAWE_MAC_BYTES];

    if (0 != memcmp(endpoint->new_mac, mac, RAWE_MAC_BYTES)) {
        memcpy(endpoint->new_mac, mac, RAWE_MAC_BYTES);
        rawe_responder_unwatch(responder, endpoint->new_watch);
        endpoint->new_watch = NULL;
    }
    if (NULL == watch_at(endpoint, &endpoint->new_watch, mac)) {
        return;
    }
    if (!rawe_watch_answered_from(endpoint->new_watch, from) ||
        0 != memcmp(from, mac, RAWE_MAC_BYTES)) {
        rawe_responder_ping(responder, endpoint->new_watch);
        return;
    }
    rawe_responder_unwatch(responder, endpoint->watch);
    rawe_validation_end(responder, endpoint->validation);
    endpoint->watch = endpoint->new_watch;
    endpoint->new_watch = NULL;
    endpoint->validation = NULL;
    memcpy(endpoint->address.mac, mac, RAWE_MAC_BYTES);
    rawe_failover_follow(&mca_btl_rawe_state.failover, &endpoint->peer, mac, mca_btl_rawe_now_ns());
}

/**
 * Ping the peer at its published address, where it still receives, and follow it to the address
 * that it answers from.
 */
static void peer_seek(mca_btl_base_endpoint_t *endpoint)
{
    const struct rawe_watch *asked = endpoint->watch;
    uint8_t from[RAWE_MAC_BYTES];

    if (endpoint->module->interface.loopback) {
        return;
    }
    if (0 != memcmp(endpoint->address.mac, endpoint->published_mac, RAWE_MAC_BYTES)) {
        asked = watch_at(endpoint, &endpoint->home, endpoint->published_mac);
        if (NULL != asked) {
            rawe_responder_ping(endpoint->module->responder, endpoint->home);
        }
    }
    if (NULL != asked && rawe_watch_answered_from(asked, from) &&
        0 != memcmp(from, endpoint->address.mac, RAWE_MAC_BYTES)) {
        mca_btl_rawe_endpoint_follow(endpoint, from);
    }
}

void mca_btl_rawe_endpoint_ping(mca_btl_base_endpoint_t *endpoint)
{
    if (NULL != watch_at(endpoint, &endpoint->watch, endpoint->address.mac)) {
        rawe_responder_ping(endpoint->module->responder, endpoint->watch);
    }
    peer_seek(endpoint);
}

/** Ping the responder, and tell the connection when the process was last absent. */
static void peer_watch(mca_btl_base_endpoint_t *endpoint, struct rawe_conn *conn)
{
    mca_btl_rawe_endpoint_ping(endpoint);
    if (NULL != endpoint->watch) {
        endpoint->watched_ns = conn->engine->now_ns;
        rawe_liveness_alive(&conn->path.liveness, rawe_watch_last_absent_ns(endpoint->watch));
    }
}

/** Return the endpoint whose route a connection uses, which is usually its own. */
static mca_btl_base_endpoint_t *endpoint_used(const struct rawe_conn *conn)
{
    return rawe_peer_used(conn)->owner;
}

/** Return true if the peer answers PINGs, with its process in MPI. */
static bool is_answering(const mca_btl_base_endpoint_t *endpoint, uint64_t stalled_ns)
{
    if (NULL == endpoint->watch) {
        return false;
    }
    const uint64_t pong_ns = rawe_watch_last_pong_ns(endpoint->watch);
    /* An old answer, over a route that has been lost since, does not show a stall. */
    return pong_ns + MAX(stalled_ns / 2, ANSWER_LASTS_NS) >= mca_btl_rawe_now_ns() &&
           rawe_watch_last_absent_ns(endpoint->watch) != pong_ns;
}

/**
 * Report a connection without progress whose peer has answered PINGs and made progress itself for
 * as long. After an outage, such answers come first.
 */
static void report_stall(mca_btl_base_endpoint_t *endpoint, const char *seen, uint64_t stalled_ns)
{
    const uint64_t now_ns = mca_btl_rawe_now_ns();
    uint64_t patience_ns = mca_btl_rawe_params.peer_timeout * 1000000000u / 2;

    if (0 == patience_ns || patience_ns > STALL_REPORT_MOST_NS) {
        patience_ns = STALL_REPORT_MOST_NS;
    }
    if (!is_answering(endpoint, stalled_ns)) {
        endpoint->answered_since_ns = 0;
        return;
    }
    if (0 == endpoint->answered_since_ns) {
        endpoint->answered_since_ns = now_ns;
    }
    /* In MPI_Finalize, this may be the progress thread, which must not call Open MPI. */
    if (mca_btl_rawe_state.finalizing || endpoint->stall_reported || !endpoint->in_use ||
        MIN(stalled_ns, now_ns - endpoint->answered_since_ns) < patience_ns) {
        return;
    }
    endpoint->stall_reported = true;
    MCA_BTL_RAWE_HELP(connection_stalled, endpoint->module->interface.name,
                      mca_btl_rawe_peer_text(endpoint->proc).text,
                      mca_btl_rawe_compat_hostname(endpoint->proc).text,
                      mca_btl_rawe_address_text(&endpoint->address).text, seen,
                      stalled_ns / 1000000000u, mca_btl_rawe_params.peer_timeout);
}

/** Report that the job waits for a peer that answers nothing. */
static void report_silence(mca_btl_base_endpoint_t *endpoint, uint64_t silent_ns)
{
    if (silent_ns < SILENCE_REPORT_NS || mca_btl_rawe_state.finalizing || !endpoint->in_use ||
        is_answering(endpoint, silent_ns)) {
        return;
    }
    MCA_BTL_RAWE_HELP(peer_silent, endpoint->module->interface.name,
                      mca_btl_rawe_peer_text(endpoint->proc).text,
                      mca_btl_rawe_compat_hostname(endpoint->proc).text,
                      mca_btl_rawe_address_text(&endpoint->address).text, silent_ns / 1000000000u,
                      mca_btl_rawe_params.peer_timeout);
}

void mca_btl_rawe_silent(void *context, struct rawe_conn *conn, uint64_t silent_ns)
{
    mca_btl_base_endpoint_t *endpoint = endpoint_used(conn);

    peer_watch(endpoint, conn);
    rawe_failover_silent(&mca_btl_rawe_state.failover, conn, conn->engine->now_ns);
    if (!mca_btl_rawe_state.deferral.active) { /* the progress thread must not call Open MPI */
        report_stall(endpoint, "the connection does not answer", silent_ns);
        report_silence(endpoint, silent_ns);
    }
}

void mca_btl_rawe_lossy(void *context, const struct rawe_conn *conn)
{
    rawe_failover_lossy(&mca_btl_rawe_state.failover, conn, conn->engine->now_ns);
}

/** Validate the path and apply the result; called repeatedly while a validation is running. */
static void validate_path(mca_btl_base_endpoint_t *endpoint)
{
    struct rawe_responder *responder = endpoint->module->responder;
    struct rawe_ping_address to = mca_btl_rawe_ping_address(&endpoint->address);
    struct rawe_path path;
    uint64_t now_ns = mca_btl_rawe_now_ns();

    if (NULL != endpoint->validation && rawe_validation_result(endpoint->validation, &path)) {
        bool heeded = now_ns - endpoint->validated_ns < VALIDATION_HEEDED_NS;
        rawe_validation_end(responder, endpoint->validation);
        endpoint->validation = NULL;
        endpoint->validated_ns = heeded ? now_ns : 0;
        if (heeded && path.mtu_passed_bytes >= MCA_BTL_RAWE_PATH_MTU_LEAST_BYTES &&
            path.mtu_passed_bytes < endpoint->path_mtu_bytes) {
            if (!mca_btl_rawe_state.finalizing) { /* this may be the progress thread */
                MCA_BTL_RAWE_HELP_IF_ASKED(full_size_lost, endpoint->module->interface.name,
                                           mca_btl_rawe_compat_hostname(endpoint->proc).text,
                                           mca_btl_rawe_address_text(&endpoint->address).text,
                                           endpoint->path_mtu_bytes + path.overhead_bytes,
                                           path.mtu_passed_bytes + path.overhead_bytes);
            }
            mca_btl_rawe_endpoint_limit_mtu(endpoint, path.mtu_passed_bytes);
        }
    }
    if (NULL == endpoint->validation && now_ns - endpoint->validated_ns >= VALIDATION_INTERVAL_NS) {
        endpoint->validation = rawe_responder_validate(responder, &to, endpoint->path_mtu_bytes,
                                                       VALIDATION_TIMEOUT_NS);
        endpoint->validated_ns = now_ns;
    }
}

void mca_btl_rawe_stalled(void *context, struct rawe_conn *conn, uint64_t stalled_ns)
{
    mca_btl_base_endpoint_t *endpoint = endpoint_used(conn);

    if (conn->engine->now_ns - endpoint->watched_ns >= WATCH_INTERVAL_NS) {
        peer_watch(endpoint, conn);
    }
    validate_path(endpoint);
    report_stall(endpoint, "small frames arrive, large ones do not", stalled_ns);
}

static void call_error_callback(const mca_btl_base_endpoint_t *endpoint)
{
    mca_btl_base_module_error_cb_fn_t callback = mca_btl_rawe_state.error_callback;
    char text[64];

    if (NULL != callback) {
        snprintf(text, sizeof(text), "rawe: %s", endpoint->lost_text);
        callback(&endpoint->module->super, MCA_BTL_ERROR_FLAGS_FATAL, endpoint->proc, text);
    }
}

void mca_btl_rawe_endpoints_report_lost(mca_btl_base_endpoint_t *endpoints)
{
    while (NULL != endpoints) {
        mca_btl_base_endpoint_t *endpoint = endpoints;
        opal_proc_t *proc = endpoint->proc;
        endpoints = endpoint->next_lost;
        if (!mca_btl_rawe_proc_died(proc->proc_name)) { /* the runtime tells Open MPI of deaths */
            call_error_callback(endpoint);
        }
        OBJ_RELEASE(endpoint);
        OBJ_RELEASE(proc);
    }
}

/**
 * Return true unless the loss of the process is known or does not matter. It matters if Open MPI
 * introduced the process in order to send to it, and in a fault-tolerant job, which must learn of
 * losses even if it only receives.
 */
static bool is_missed(const mca_btl_base_endpoint_t *endpoint)
{
    return !endpoint->lost && (endpoint->in_use || (mca_btl_rawe_compat_fault_tolerant() &&
                                                    mca_btl_rawe_compat_alone()));
}

/**
 * Declare the process lost, once. A fault-tolerant job is told after this progress call; then the
 * other connections to the process fail.
 */
static void process_lose(mca_btl_base_endpoint_t *endpoint, const char *why)
{
    mca_btl_base_endpoint_t *other;

    for (unsigned i = 0; i < mca_btl_rawe_state.module_count; ++i) {
        mca_btl_rawe_module_t *module = mca_btl_rawe_state.modules[i];
        opal_mutex_lock(&module->endpoints_lock);
        OPAL_LIST_FOREACH(other, &module->endpoints, mca_btl_base_endpoint_t)
        {
            other->lost = other->lost || other->proc == endpoint->proc;
        }
        opal_mutex_unlock(&module->endpoints_lock);
    }
    endpoint->lost_text = why;
    if (!mca_btl_rawe_compat_fault_tolerant()) {
        call_error_callback(endpoint);
        return;
    }
    OBJ_RETAIN(endpoint);
    OBJ_RETAIN(endpoint->proc);
    endpoint->next_lost = mca_btl_rawe_state.lost;
    mca_btl_rawe_state.lost = endpoint;
}

static bool is_dead(const mca_btl_base_endpoint_t *endpoint)
{
    return !endpoint->lost && mca_btl_rawe_proc_died(endpoint->proc->proc_name);
}

/** Return true for a lost process's endpoint that may have connections. */
static bool is_to_be_given_up(const mca_btl_base_endpoint_t *endpoint)
{
    return endpoint->lost && !endpoint->given_up;
}

/** Return the last endpoint that the predicate holds for, or NULL. */
static mca_btl_base_endpoint_t *endpoint_that(
    bool (*predicate)(const mca_btl_base_endpoint_t *endpoint))
{
    mca_btl_base_endpoint_t *endpoint, *found = NULL;

    for (unsigned i = 0; i < mca_btl_rawe_state.module_count && NULL == found; ++i) {
        mca_btl_rawe_module_t *module = mca_btl_rawe_state.modules[i];
        opal_mutex_lock(&module->endpoints_lock);
        OPAL_LIST_FOREACH(endpoint, &module->endpoints, mca_btl_base_endpoint_t)
        {
            found = predicate(endpoint) ? endpoint : found;
        }
        opal_mutex_unlock(&module->endpoints_lock);
    }
    return found;
}

/** Declare lost the processes that died according to the runtime or Open MPI. */
static void lose_dead(void)
{
    mca_btl_base_endpoint_t *endpoint;

    mca_btl_rawe_state.deaths = mca_btl_rawe_proc_deaths();
    while (NULL != (endpoint = endpoint_that(is_dead))) {
        process_lose(endpoint, "process has died");
    }
}

mca_btl_base_endpoint_t *mca_btl_rawe_endpoints_take_lost(void)
{
    if (mca_btl_rawe_proc_deaths() != mca_btl_rawe_state.deaths) {
        lose_dead();
    }
    mca_btl_base_endpoint_t *endpoints = mca_btl_rawe_state.lost, *endpoint;
    mca_btl_rawe_state.lost = NULL;
    while (NULL != (endpoint = endpoint_that(is_to_be_given_up))) {
        endpoint->given_up = true;
        rawe_peer_give_up(&endpoint->peer);
    }
    return endpoints;
}

bool mca_btl_rawe_endpoint_process_lost(opal_process_name_t name)
{
    opal_mutex_lock(&mca_btl_rawe_state.routes_lock);
    const mca_btl_base_endpoint_t *endpoint = endpoint_newest(name);
    bool lost = NULL != endpoint && endpoint->lost;
    opal_mutex_unlock(&mca_btl_rawe_state.routes_lock);
    return lost || mca_btl_rawe_proc_died(name);
}

void mca_btl_rawe_given_up(void *context, struct rawe_conn *conn)
{
    mca_btl_base_endpoint_t *endpoint = conn->owner;

    if (!is_missed(endpoint)) {
        return;
    }
    if (mca_btl_rawe_compat_fault_tolerant()) {
        mca_btl_rawe_compat_say("%s has given this process up",
                                mca_btl_rawe_peer_text(endpoint->proc).text);
    } else {
        MCA_BTL_RAWE_HELP(given_up, endpoint->module->interface.name,
                          mca_btl_rawe_peer_text(endpoint->proc).text,
                          mca_btl_rawe_compat_hostname(endpoint->proc).text);
    }
    process_lose(endpoint, "peer has given this process up");
}

void mca_btl_rawe_failed(void *context, struct rawe_conn *conn, uint64_t silent_ns)
{
    mca_btl_rawe_module_t *module = context;
    mca_btl_base_endpoint_t *endpoint = conn->owner;

    if (!is_missed(endpoint)) {
        return;
    }
    if (mca_btl_rawe_compat_fault_tolerant()) {
        /* The program is told, and handles the error. */
        mca_btl_rawe_compat_say("%s is silent on %s for %u s",
                                mca_btl_rawe_peer_text(endpoint->proc).text, module->interface.name,
                                (unsigned)(silent_ns / 1000000000u));
    } else if (!endpoint->stall_reported || !is_answering(endpoint, silent_ns)) {
        MCA_BTL_RAWE_HELP(
            peer_lost, module->interface.name, mca_btl_rawe_peer_text(endpoint->proc).text,
            mca_btl_rawe_compat_hostname(endpoint->proc).text,
            mca_btl_rawe_address_text(&endpoint->address).text, silent_ns / 1000000000u);
    }
    process_lose(endpoint, "peer is silent");
}

void mca_btl_rawe_lost(void *context, struct rawe_conn *conn)
{
    mca_btl_base_endpoint_t *endpoint = conn->owner;

    if (!is_missed(endpoint)) {
        return;
    }
    if (!mca_btl_rawe_compat_fault_tolerant()) {
        MCA_BTL_RAWE_HELP(internal_error, "sending",
                          "the peer ended the connection, data may be missing there", __func__);
    }
    process_lose(endpoint, "data in flight was lost");
}
