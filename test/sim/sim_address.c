/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Interfaces whose address changes during a run, like a bond's, and the component's reaction. The
 * host sends from the new address at once, and announces it to its peers. They PING the address
 * before they use it, and look for a silent peer at its other addresses. A host still receives
 * frames sent to the address that it published.
 */
#include <string.h>

#include "sim.h"

/** Index of the byte of an address that counts the addresses of the interface. */
#define COUNTING 2u

#define COUNTED_MOST 63u

static unsigned count_of(const uint8_t mac[RAWE_MAC_BYTES])
{
    return mac[COUNTING];
}

bool sim_address_same(const uint8_t one[RAWE_MAC_BYTES], const uint8_t other[RAWE_MAC_BYTES])
{
    return memcmp(one, other, COUNTING) == 0 &&
           memcmp(one + COUNTING + 1, other + COUNTING + 1, RAWE_MAC_BYTES - COUNTING - 1) == 0;
}

bool sim_address_takes(const struct sim_nic *nic, const uint8_t mac[RAWE_MAC_BYTES])
{
    return memcmp(nic->mac, mac, RAWE_MAC_BYTES) == 0 ||
           memcmp(nic->published, mac, RAWE_MAC_BYTES) == 0;
}

/* ---- changes ---- */

void sim_address_plan(struct sim *sim)
{
    struct sim_random random = sim_random_stream(sim->options.seed, 50);

    for (unsigned i = 0; i < sim->plan.readdressings; i++) {
        uint64_t at_ns = sim_random_scaled(&random, 1000, sim->faults_end_ns);
        uint32_t node = (uint32_t)sim_random_below(&random, sim->plan.nodes);
        uint64_t choice = sim_random_next(&random);
        sim_plan_event(sim, SIM_EVENT_ADDRESS, at_ns, node, choice);
        if (sim_random_below(&random, 2) == 0) { /* let another host change soon afterwards */
            at_ns += sim_random_scaled(&random, 1, 1000000);
            node = (uint32_t)sim_random_below(&random, sim->plan.nodes);
            sim_plan_event(sim, SIM_EVENT_ADDRESS, at_ns, node, choice);
        }
    }
}

void sim_address_change(struct sim *sim, struct sim_node *node, uint64_t choice)
{
    struct sim_random random = {choice};
    struct sim_nic *nic = &node->nics[sim_random_below(&random, node->nic_count)];
    bool returns = sim_random_below(&random, 4) == 0;

    if (!sim_faults_on(sim) || sim->departing || nic->addresses >= COUNTED_MOST ||
        !sim_incident(sim)) {
        return;
    }
    if (returns) {
        memcpy(nic->mac, nic->published, RAWE_MAC_BYTES);
    } else {
        nic->mac[COUNTING] = (uint8_t)++nic->addresses;
    }
    sim->incidents.readdressed++;
    sim_disturb(sim, sim->now_ns);
    sim_trace(sim, "n%u: interface %u has address %u", node->index, nic->index, count_of(nic->mac));
    node->addresses_changed = true;
    if (node->alive) {
        sim_node_wake(node, sim->now_ns + 1);
    }
}

/** Return true if a connection that prefers the route has failed, so the process is lost. */
static bool is_lost(const struct sim_node *node, const struct sim_peer *route)
{
    const struct sim_channel *channel = node->channels;

    while (channel != NULL && (channel->via != route || !channel->failed)) {
        channel = channel->next;
    }
    return channel != NULL;
}

/** Announce the address to a peer; if only the peer uses the route, by existing connections. */
static void announce(struct sim_peer *route)
{
    const struct sim_node *node = route->nic->node;

    if (route->is_used) {
        (void)sim_channel_at(route, RAWE_LANE_EXPRESS);
    }
    rawe_peer_announce(&route->peer, route->is_used, sim_node_clock(node));
}

void sim_address_heed(struct sim_node *node)
{
    node->addresses_changed = false;
    for (unsigned i = 0; i < node->nic_count; i++) {
        struct sim_nic *nic = &node->nics[i];
        if (memcmp(nic->engine.config.mac, nic->mac, RAWE_MAC_BYTES) == 0) {
            continue;
        }
        rawe_engine_set_mac(&nic->engine, nic->mac);
        for (struct sim_peer *route = node->peers; route != NULL; route = route->next) {
            if (route->nic == nic && !is_lost(node, route)) {
                announce(route);
            }
        }
    }
}

/* ---- addresses of peers ---- */

void sim_address_begin(struct sim_peer *route, const uint8_t published[RAWE_MAC_BYTES])
{
    memcpy(route->address.published, published, RAWE_MAC_BYTES);
    route->address.known = 1ull << count_of(published);
}

void sim_address_answered(struct sim_peer *route, unsigned what, const uint8_t from[RAWE_MAC_BYTES])
{
    struct sim_address *address = &route->address;

    if (what <= SIM_PING_ROUTE) {
        memcpy(address->answered, from, RAWE_MAC_BYTES);
    } else if (what == SIM_PING_HOME) {
        memcpy(address->home_answered, from, RAWE_MAC_BYTES);
    } else {
        address->validated |= address->asks && memcmp(from, address->asked, RAWE_MAC_BYTES) == 0;
    }
}

static void ask(struct sim_peer *route, unsigned what, const uint8_t mac[RAWE_MAC_BYTES])
{
    sim_route_ask(route, what, route->peer.route.port, route->peer.route.key, mac);
}

void sim_address_follow(struct sim_peer *route, const uint8_t mac[RAWE_MAC_BYTES])
{
    struct sim_node *node = route->nic->node;
    struct sim_address *address = &route->address;

    if (!address->asks || memcmp(address->asked, mac, RAWE_MAC_BYTES) != 0) {
        memcpy(address->asked, mac, RAWE_MAC_BYTES);
        address->asks = true;
        address->validated = false;
    }
    if (!address->validated) {
        ask(route, SIM_PING_NEW, mac);
        return;
    }
    address->asks = false;
    address->known |= 1ull << count_of(mac);
    memcpy(address->answered, mac, RAWE_MAC_BYTES);
    sim_trace(node->sim, "n%u follows n%u to address %u on route %u-%u", node->index, route->node,
              count_of(mac), route->nic->index, route->far);
    rawe_failover_follow(&node->failover, &route->peer, mac, sim_node_clock(node));
}

void sim_address_seek(struct sim_peer *route)
{
    static const uint8_t none[RAWE_MAC_BYTES];
    const struct sim_address *address = &route->address;
    const uint8_t *mac = route->peer.route.mac;
    const uint8_t *from = address->answered;

    if (memcmp(mac, address->published, RAWE_MAC_BYTES) != 0) {
        ask(route, SIM_PING_HOME, address->published);
        from = address->home_answered;
    }
    if (memcmp(from, none, RAWE_MAC_BYTES) != 0 && memcmp(from, mac, RAWE_MAC_BYTES) != 0) {
        sim_address_follow(route, from);
    }
}

/* ---- the invariant ---- */

void sim_address_check(struct sim_nic *nic, const struct sim_packet *packet)
{
    const struct sim_peer *route = nic->node->peers;
    struct rawe_header header;
    bool data = sim_packet_header(packet, &header) && header.type != RAWE_FRAME_CLOSE;

    while (data && route != NULL &&
           (route->node != packet->destination || route->nic != nic ||
            route->far != packet->destination_nic ||
            (route->address.known & 1ull << count_of(packet->bytes)) == 0)) {
        route = route->next;
    }
    if (data && route == NULL) {
        net_fail("addresses are validated", "n%u sends to address %u of n%u, interface %u",
                 nic->node->index, count_of(packet->bytes), packet->destination,
                 packet->destination_nic);
    }
}
