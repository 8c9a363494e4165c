/* SPDX-License-Identifier: BSD-3-Clause */
#include "btl_rawe_routes.h"

#include "btl_rawe_fanout.h"
#include "btl_rawe_help.h"
#include "btl_rawe_module.h"
#include "linux/sys/rawe_interface.h"

#include <string.h>

/** Have the responder use the interface's address if it is new. Returns true if so. */
static bool takes_address(mca_btl_rawe_module_t *module, const struct rawe_interface *interface)
{
    static const uint8_t none[RAWE_MAC_BYTES];
    uint64_t mac = rawe_mac_number(interface->mac);

    if (0 == memcmp(interface->mac, none, RAWE_MAC_BYTES) ||
        mac == atomic_load_explicit(&module->mac, memory_order_relaxed)) {
        return false;
    }
    memcpy(module->interface.mac, interface->mac, RAWE_MAC_BYTES);
    /* Peers that missed the change, or moved at the same time, only know the published address. */
    rawe_interface_keep_mac(rawe_responder_port(module->responder)->fd, interface->index,
                            module->address.mac);
    rawe_responder_set_mac(module->responder, interface->mac);
    atomic_store_explicit(&module->mac, mac, memory_order_relaxed);
    return true;
}

/** Return true if this is the module's interface, recreated with its current or first address. */
static bool is_back(const mca_btl_rawe_module_t *module, const struct rawe_interface *interface)
{
    struct rawe_interface first = module->interface;

    if (module->address.udp) {
        return interface->up && 0 == strcmp(interface->name, module->interface.name);
    }
    memcpy(first.mac, module->address.mac, RAWE_MAC_BYTES);
    return rawe_interface_is_back(&module->interface, interface) ||
           rawe_interface_is_back(&first, interface);
}

/** Return true if another module for other hosts has ports of the same kind. */
static bool is_one_of_several(const mca_btl_rawe_module_t *module)
{
    unsigned count = 0;

    for (unsigned i = 0; i < mca_btl_rawe_state.module_count; ++i) {
        const mca_btl_rawe_module_t *other = mca_btl_rawe_state.modules[i];
        count += !other->interface.loopback && other->address.udp == module->address.udp;
    }
    return count > 1;
}

/** Handle a change of an interface. Called in the service thread. False: call again. */
static bool carrier_changed(void *context, const struct rawe_interface *interface)
{
    struct mca_btl_rawe_state *state = context;
    bool renewed = true;

    for (unsigned i = 0; i < state->module_count; ++i) {
        mca_btl_rawe_module_t *module = state->modules[i];
        if (module->interface.loopback) {
            continue;
        }
        if (is_back(module, interface)) {
            module->interface.index = interface->index;
        }
        if (module->interface.index != interface->index) {
            continue;
        }
        /* Sockets of the deleted interface pass nothing. */
        bool up = interface->up && mca_btl_rawe_fanout_follow(module);
        renewed = up == interface->up && renewed; /* it may have a module for each kind of port */
        bool news = !module->address.udp && takes_address(module, interface);
        /* A single interface is used as long as it has peers: only silence ends them. */
        if (is_one_of_several(module) &&
            up != atomic_load_explicit(&module->carrier, memory_order_relaxed)) {
            atomic_store_explicit(&module->carrier, up, memory_order_relaxed);
            news = true;
        }
        if (news) {
            atomic_store_explicit(&state->interfaces_changed, true, memory_order_release);
            /* Outside MPI, the progress thread follows up. */
            rawe_responder_wake(module->responder, 0);
        }
    }
    return renewed;
}

/** Implement rawe_failover_callbacks.ask. */
static void peer_ask(void *context, struct rawe_peer *peer)
{
    mca_btl_rawe_endpoint_ping(peer->owner);
}

/** Implement rawe_failover_callbacks.answered_ns. */
static uint64_t endpoint_answered_ns(void *context, const struct rawe_peer *peer)
{
    const mca_btl_base_endpoint_t *endpoint = peer->owner;

    return NULL == endpoint->watch ? 0 : rawe_watch_last_pong_ns(endpoint->watch);
}

/** Implement rawe_failover_callbacks.say. */
static void peer_say(void *context, const struct rawe_peer *peer, enum rawe_failover_report report)
{
    static const char *const texts[] = {
        [RAWE_FAILOVER_CARRIER_LOST] = "has lost its carrier",
        [RAWE_FAILOVER_UNANSWERED] = "does not answer, unlike others",
        [RAWE_FAILOVER_LOSSY] = "loses many more frames than others",
        [RAWE_FAILOVER_ANSWERS] = "answers again",
        [RAWE_FAILOVER_FOLLOWED] = "leads to another address of its host now",
    };
    const mca_btl_base_endpoint_t *endpoint = peer->owner;

    mca_btl_rawe_compat_say("%s to %s %s", endpoint->module->interface.name,
                            mca_btl_rawe_peer_text(endpoint->proc).text, texts[report]);
}

void mca_btl_rawe_routes_init(void)
{
    static const struct rawe_failover_callbacks callbacks = {
        .ask = peer_ask,
        .answered_ns = endpoint_answered_ns,
        .say = peer_say,
    };

    rawe_failover_init(&mca_btl_rawe_state.failover, &callbacks, NULL);
}

void mca_btl_rawe_routes_begin(void)
{
    struct mca_btl_rawe_state *state = &mca_btl_rawe_state;
    struct rawe_port_error error;
    mca_btl_rawe_module_t *last;

    if (0 != mca_btl_rawe_modules_count(false, &last) &&
        0 != rawe_carrier_start(&state->carrier, state->service, carrier_changed, state, &error)) {
        mca_btl_rawe_compat_say("does not see interfaces come and go: %s", error.step);
    }
}

void mca_btl_rawe_routes_end(void)
{
    rawe_carrier_stop(mca_btl_rawe_state.carrier);
    mca_btl_rawe_state.carrier = NULL;
}

/** Apply the changes of a module's interface to each of its peers. */
static void heed_interface(mca_btl_rawe_module_t *module, uint64_t now_ns)
{
    struct rawe_failover *failover = &mca_btl_rawe_state.failover;
    struct rawe_engine *engine = &module->engine;
    mca_btl_base_endpoint_t *endpoint;
    uint8_t mac[RAWE_MAC_BYTES];
    bool carrier = atomic_load_explicit(&module->carrier, memory_order_relaxed);
    bool carrier_changed = carrier == engine->no_carrier;

    rawe_mac_of_number(atomic_load_explicit(&module->mac, memory_order_relaxed), mac);
    bool address_changed = 0 != memcmp(mac, engine->config.mac, RAWE_MAC_BYTES);
    if (!carrier_changed && !address_changed) {
        return;
    }
    rawe_failover_set_carrier(failover, engine, carrier);
    rawe_engine_set_mac(engine, mac);
    opal_mutex_lock(&module->endpoints_lock);
    OPAL_LIST_FOREACH(endpoint, &module->endpoints, mca_btl_base_endpoint_t)
    {
        if (address_changed && !endpoint->lost) {
            rawe_peer_announce(&endpoint->peer, endpoint->in_use, now_ns);
        }
        if (carrier_changed) {
            rawe_failover_heed_carrier(failover, &endpoint->peer, now_ns);
        }
    }
    opal_mutex_unlock(&module->endpoints_lock);
}

void mca_btl_rawe_routes_check(bool may_say)
{
    struct mca_btl_rawe_state *state = &mca_btl_rawe_state;
    uint64_t now_ns = mca_btl_rawe_now_ns();
    bool changed =
        atomic_exchange_explicit(&state->interfaces_changed, false, memory_order_acquire);

    for (unsigned i = 0; i < state->module_count && changed; ++i) {
        if (state->modules[i]->open) {
            heed_interface(state->modules[i], now_ns);
        }
    }
    rawe_failover_check(&state->failover, may_say, now_ns);
}
