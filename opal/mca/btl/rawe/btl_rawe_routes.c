/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Routes that are down: see btl_rawe_routes.h.
 */
#include "btl_rawe_routes.h"

#include "btl_rawe_help.h"
#include "btl_rawe_module.h"
#include "link/rawe_carrier.h"

#include <stdlib.h>

/** rawe_carrier_fn, in the service thread. */
static void carrier_changed(void *context, int interface_index, bool usable)
{
    struct mca_btl_rawe_state *state = context;

    for (unsigned i = 0; i < state->module_count; ++i) {
        mca_btl_rawe_module_t *module = state->modules[i];
        if (module->interface.index == interface_index && !module->interface.loopback &&
            usable != atomic_load_explicit(&module->carrier, memory_order_relaxed)) {
            atomic_store_explicit(&module->carrier, usable, memory_order_relaxed);
            atomic_store_explicit(&state->carriers_changed, true, memory_order_release);
            /* If the program is outside MPI, the progress thread sees to it. */
            rawe_responder_wake(module->responder);
        }
    }
}

void mca_btl_rawe_routes_begin(void)
{
    struct mca_btl_rawe_state *state = &mca_btl_rawe_state;
    struct rawe_link_error error;
    unsigned interfaces = 0;

    for (unsigned i = 0; i < state->module_count; ++i) {
        interfaces += !state->modules[i]->interface.loopback;
    }
    if (interfaces > 1 &&
        0 != rawe_carrier_start(&state->carrier, state->service, carrier_changed, state, &error)) {
        mca_btl_rawe_compat_say("is not told of lost carriers: %s", error.step);
    }
}

void mca_btl_rawe_routes_end(void)
{
    rawe_carrier_stop(mca_btl_rawe_state.carrier);
    mca_btl_rawe_state.carrier = NULL;
}

static mca_btl_base_endpoint_t *endpoint_of(const struct rawe_peer *peer)
{
    return peer->config.owner;
}

static mca_btl_base_endpoint_t *next_of(mca_btl_base_endpoint_t *endpoint)
{
    return endpoint_of(rawe_peer_next(&endpoint->peer));
}

/** Say what has become of a route since that was said last. */
static void say_news(mca_btl_base_endpoint_t *endpoint)
{
    char peer[48];

    if (NULL != endpoint->news) {
        mca_btl_rawe_compat_say("%s to %s %s", endpoint->module->interface.name,
                                mca_btl_rawe_peer_text(endpoint->proc, peer), endpoint->news);
        endpoint->news = NULL;
    }
}

static void lose(mca_btl_base_endpoint_t *endpoint, uint64_t now_ns)
{
    endpoint->news = "has lost its carrier";
    rawe_health_lose(&endpoint->health, now_ns);
    rawe_peer_set_down(&endpoint->peer, now_ns);
}

/** The endpoints of a module whose carrier is lost; or is there again: they are asked at once. */
static void heed_carrier(mca_btl_rawe_module_t *module, uint64_t now_ns)
{
    unsigned count;
    mca_btl_base_endpoint_t **endpoints = mca_btl_rawe_endpoints_list(module, &count);

    for (unsigned i = 0; i < count; ++i) {
        mca_btl_base_endpoint_t *endpoint = endpoints[i];
        if (!module->carrier_seen && next_of(endpoint) != endpoint) {
            lose(endpoint, now_ns);
            mca_btl_rawe_endpoint_doubted_add(endpoint);
        } else if (module->carrier_seen && RAWE_HEALTH_DOWN == endpoint->health.state) {
            rawe_health_lose(&endpoint->health, now_ns);
        }
    }
    free(endpoints);
}

static void heed_carriers(uint64_t now_ns)
{
    struct mca_btl_rawe_state *state = &mca_btl_rawe_state;

    if (!atomic_exchange_explicit(&state->carriers_changed, false, memory_order_acquire)) {
        return;
    }
    for (unsigned i = 0; i < state->module_count; ++i) {
        mca_btl_rawe_module_t *module = state->modules[i];
        bool carrier = atomic_load_explicit(&module->carrier, memory_order_relaxed);
        if (carrier != module->carrier_seen && module->open) {
            module->carrier_seen = carrier;
            heed_carrier(module, now_ns);
            atomic_store_explicit(&state->routes_due_ns, 0, memory_order_relaxed);
        }
    }
}

/** When a route's newest answer came; 0: never. */
static uint64_t pong_ns(const mca_btl_base_endpoint_t *endpoint)
{
    return endpoint->watch < 0
               ? 0
               : rawe_responder_last_pong_ns(endpoint->module->responder, endpoint->watch);
}

/** Ask the responder by a route; by the others as well, if it is to be compared with them. */
static void ask(mca_btl_base_endpoint_t *endpoint, bool others)
{
    mca_btl_base_endpoint_t *each = endpoint;

    do {
        if (each->module->carrier_seen) {
            mca_btl_rawe_endpoint_ping(each);
        }
        each = next_of(each);
    } while (others && each != endpoint);
}

static void check(mca_btl_base_endpoint_t *endpoint, uint64_t now_ns)
{
    uint64_t other_ns = 0;

    for (mca_btl_base_endpoint_t *other = next_of(endpoint); other != endpoint;
         other = next_of(other)) {
        uint64_t at_ns = RAWE_HEALTH_DOWN == other->health.state ? 0 : pong_ns(other);
        other_ns = at_ns > other_ns ? at_ns : other_ns;
    }
    switch (rawe_health_check(&endpoint->health, pong_ns(endpoint), other_ns, now_ns)) {
    case RAWE_HEALTH_NOTHING:
        break;
    case RAWE_HEALTH_ASK:
        ask(endpoint, RAWE_HEALTH_SUSPECT == endpoint->health.state);
        break;
    case RAWE_HEALTH_FAILED:
        endpoint->news = "does not answer, unlike others";
        rawe_peer_set_down(&endpoint->peer, now_ns);
        break;
    case RAWE_HEALTH_RECOVERED:
        endpoint->news = "answers again";
        rawe_peer_set_up(&endpoint->peer, now_ns);
        break;
    }
}

void mca_btl_rawe_routes_check(bool may_say)
{
    struct mca_btl_rawe_state *state = &mca_btl_rawe_state;
    uint64_t now_ns = mca_btl_rawe_now_ns();
    uint64_t due_ns = UINT64_MAX;

    heed_carriers(now_ns);
    if (now_ns - state->routes_checked_ns < MCA_BTL_RAWE_ROUTES_INTERVAL_NS) {
        return;
    }
    state->routes_checked_ns = now_ns;
    mca_btl_base_endpoint_t *next;
    for (mca_btl_base_endpoint_t *endpoint = state->doubted; NULL != endpoint; endpoint = next) {
        next = endpoint->next_doubted;
        if (endpoint->module->carrier_seen) {
            check(endpoint, now_ns);
            uint64_t at_ns = rawe_health_due_ns(&endpoint->health);
            due_ns = at_ns < due_ns ? at_ns : due_ns;
        } else if (RAWE_HEALTH_DOWN != endpoint->health.state) {
            /* It was not there yet, or had no other route, when the carrier was lost. */
            lose(endpoint, now_ns);
        }
        if (may_say) {
            say_news(endpoint);
        }
        if (RAWE_HEALTH_UP == endpoint->health.state && NULL == endpoint->news) {
            mca_btl_rawe_endpoint_doubted_remove(endpoint);
        }
    }
    atomic_store_explicit(&state->routes_due_ns, due_ns, memory_order_relaxed);
}
