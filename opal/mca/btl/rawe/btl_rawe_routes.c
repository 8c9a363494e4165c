/* SPDX-License-Identifier: BSD-3-Clause */
#include "btl_rawe_routes.h"

#include "btl_rawe_group.h"
#include "btl_rawe_help.h"
#include "btl_rawe_module.h"
#include "linux/sys/rawe_interface.h"

static unsigned interfaces(const struct mca_btl_rawe_state *state)
{
    unsigned count = 0;

    for (unsigned i = 0; i < state->module_count; ++i) {
        count += !state->modules[i]->interface.loopback;
    }
    return count;
}

/** rawe_carrier_fn, in the service thread. */
static bool carrier_changed(void *context, const struct rawe_interface *interface)
{
    struct mca_btl_rawe_state *state = context;
    bool renewed = true;

    for (unsigned i = 0; i < state->module_count; ++i) {
        mca_btl_rawe_module_t *module = state->modules[i];
        if (module->interface.loopback) {
            continue;
        }
        if (rawe_interface_is_back(&module->interface, interface)) {
            module->interface.index = interface->index;
        }
        if (module->interface.index != interface->index) {
            continue;
        }
        /* With sockets of the interface that it was, nothing passes. */
        bool up = interface->up && mca_btl_rawe_group_follow(module);
        renewed = up == interface->up;
        /* A single interface is used as long as there are peers: silence is what ends them. */
        if (interfaces(state) > 1 &&
            up != atomic_load_explicit(&module->carrier, memory_order_relaxed)) {
            atomic_store_explicit(&module->carrier, up, memory_order_relaxed);
            atomic_store_explicit(&state->carriers_changed, true, memory_order_release);
            /* If the program is outside MPI, the progress thread follows. */
            rawe_responder_wake(module->responder, 0);
        }
    }
    return renewed;
}

/** rawe_failover_callbacks.ask */
static void ask(void *context, struct rawe_peer *peer)
{
    mca_btl_rawe_endpoint_ping(peer->owner);
}

/** rawe_failover_callbacks.answered_ns */
static uint64_t answered_ns(void *context, const struct rawe_peer *peer)
{
    const mca_btl_base_endpoint_t *endpoint = peer->owner;

    return NULL == endpoint->watch ? 0 : rawe_watch_last_pong_ns(endpoint->watch);
}

/** rawe_failover_callbacks.say */
static void say(void *context, const struct rawe_peer *peer, enum rawe_failover_report report)
{
    static const char *const texts[] = {
        [RAWE_FAILOVER_CARRIER_LOST] = "has lost its carrier",
        [RAWE_FAILOVER_UNANSWERED] = "does not answer, unlike others",
        [RAWE_FAILOVER_ANSWERS] = "answers again",
    };
    const mca_btl_base_endpoint_t *endpoint = peer->owner;

    mca_btl_rawe_compat_say("%s to %s %s", endpoint->module->interface.name,
                            mca_btl_rawe_peer_text(endpoint->proc).text, texts[report]);
}

void mca_btl_rawe_routes_init(void)
{
    static const struct rawe_failover_callbacks callbacks = {
        .ask = ask,
        .answered_ns = answered_ns,
        .say = say,
    };

    rawe_failover_init(&mca_btl_rawe_state.failover, &callbacks, NULL);
}

void mca_btl_rawe_routes_begin(void)
{
    struct mca_btl_rawe_state *state = &mca_btl_rawe_state;
    struct rawe_port_error error;

    if (interfaces(state) > 0 &&
        0 != rawe_carrier_start(&state->carrier, state->service, carrier_changed, state, &error)) {
        mca_btl_rawe_compat_say("does not see interfaces come and go: %s", error.step);
    }
}

void mca_btl_rawe_routes_end(void)
{
    rawe_carrier_stop(mca_btl_rawe_state.carrier);
    mca_btl_rawe_state.carrier = NULL;
}

static void heed_carriers(uint64_t now_ns)
{
    struct mca_btl_rawe_state *state = &mca_btl_rawe_state;
    mca_btl_base_endpoint_t *endpoint;

    if (!atomic_exchange_explicit(&state->carriers_changed, false, memory_order_acquire)) {
        return;
    }
    for (unsigned i = 0; i < state->module_count; ++i) {
        mca_btl_rawe_module_t *module = state->modules[i];
        bool carrier = atomic_load_explicit(&module->carrier, memory_order_relaxed);
        if (carrier != module->engine.no_carrier || !module->open) {
            continue;
        }
        rawe_failover_set_carrier(&state->failover, &module->engine, carrier);
        opal_mutex_lock(&module->endpoints_lock);
        OPAL_LIST_FOREACH(endpoint, &module->endpoints, mca_btl_base_endpoint_t)
        {
            rawe_failover_heed_carrier(&state->failover, &endpoint->peer, now_ns);
        }
        opal_mutex_unlock(&module->endpoints_lock);
    }
}

void mca_btl_rawe_routes_check(bool may_say)
{
    uint64_t now_ns = mca_btl_rawe_now_ns();

    heed_carriers(now_ns);
    rawe_failover_check(&mca_btl_rawe_state.failover, may_say, now_ns);
}
