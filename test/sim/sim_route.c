/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Routes from a node's interfaces to those of other nodes, as in the component: routes on which the
 * program sends, routes on which only peers have connected, and failover between routes. Also the
 * responder, which answers while the program is computing.
 */
#include <stdlib.h>
#include <string.h>

#include "sim.h"

#include "net_packet.h"
#include "conn/rawe_conn.h"

/** After all faults have ended, a silent route must be left, or be up again, within this time. */
#define FAILOVER_NS 5000000000ull
#define RECOVERY_NS 10000000000ull
#define RELAPSED_NS 60000000000ull

/** Connections whose own routes are down must use a new route within this time. */
#define JOIN_NS (2ull * RAWE_FAILOVER_INTERVAL_NS)

/** Return the rate of a route's slower link, or the nominal rate. */
static uint32_t speed_mbps(const struct sim_nic *nic, const struct sim_nic *to)
{
    const struct sim_plan *plan = &nic->node->sim->plan;
    uint32_t ours = sim_nic_link_mbps(nic), theirs = sim_nic_link_mbps(to);
    return !plan->rates_known ? 8000000u / plan->ps_per_byte : ours < theirs ? ours : theirs;
}

struct sim_peer *sim_route_find(const struct sim_node *node, uint32_t index, unsigned nic,
                                unsigned far)
{
    const struct sim_node *other = &node->sim->nodes[index];
    struct sim_peer *route = node->peers;

    while (route != NULL && (route->node != index || route->life != other->life ||
                             route->nic->index != nic || route->far != far)) {
        route = route->next;
    }
    return route;
}

static struct sim_peer *open_route(struct sim_nic *nic, uint32_t index, unsigned far)
{
    struct sim_node *node = nic->node;
    const struct sim_node *other = &node->sim->nodes[index];
    const struct sim_nic *to = &other->nics[far];
    struct sim_peer *route = net_zeroed(sizeof(*route));
    struct sim_peer *beside = node->peers;

    struct rawe_peer_config config = {
        .port = to->port,
        .key = to->key,
        .payload_max_bytes = nic->payload_max_bytes,
        .interface = (uint8_t)(far + 1),
        .owner = route,
        .speed_mbps = speed_mbps(nic, to),
    };
    memcpy(config.mac, to->published, RAWE_MAC_BYTES);
    /* Half of the routes know the peer's MTU; the other half learn it from the peer. */
    bool knows = (node->index + index) % 2 == 0 || node->nic_count > 1 || other->nic_count > 1;
    if (knows && to->payload_max_bytes < config.payload_max_bytes) {
        config.payload_max_bytes = to->payload_max_bytes;
    }
    route->nic = nic;
    route->far = far;
    route->node = index;
    if (knows) {
        config.payload_max_bytes = sim_shrink_payload_bytes(route, config.payload_max_bytes);
    }
    while (beside != NULL && (beside->node != index || beside->life != other->life)) {
        beside = beside->next;
    }
    route->life = other->life;
    route->number = node->routes_opened++;
    route->opened_ns = node->sim->now_ns;
    sim_address_begin(route, to->published);
    rawe_peer_init(&route->peer, &nic->engine, &config);
    if (beside != NULL) {
        rawe_peer_join(&route->peer, &beside->peer);
    }
    route->next = node->peers;
    node->peers = route;
    return route;
}

/** Let the program send on a route: each of our interfaces is paired with one of the peer's. */
static void introduce(struct sim_node *node, uint32_t index, unsigned nic)
{
    unsigned far = nic % node->sim->nodes[index].nic_count;
    struct sim_peer *route = sim_route_find(node, index, nic, far);

    if (route == NULL) {
        route = open_route(&node->nics[nic], index, far);
    }
    route->is_used = route->peer.takes_part = true;
}

struct sim_peer *sim_route_get(struct sim_node *node, uint32_t index, unsigned nic)
{
    unsigned far = nic % node->sim->nodes[index].nic_count;
    struct sim_peer *route = sim_route_find(node, index, nic, far);

    if (route == NULL || !route->is_used) {
        for (unsigned i = 0; i < node->nic_count; i++) {
            introduce(node, index, i);
        }
        route = sim_route_find(node, index, nic, far);
    }
    return route;
}

unsigned sim_route_meant(const struct sim_nic *nic, const struct rawe_connect *from)
{
    bool elsewhere = from->choice != 0 && from->choice <= nic->node->nic_count;
    return elsewhere ? from->choice - 1u : nic->index;
}

struct sim_peer *sim_route_called(struct sim_nic *nic, const struct rawe_connect *from,
                                  const uint8_t *source_mac)
{
    struct sim_node *node = nic->node;
    const struct sim_node *other = &node->sim->nodes[from->vpid];
    bool elsewhere = from->choice != 0;
    unsigned meant = sim_route_meant(nic, from);

    for (unsigned far = 0; far < other->nic_count; far++) {
        const struct sim_nic *caller = &other->nics[far];
        if (caller->key == from->key && caller->port == from->port &&
            (elsewhere || sim_address_same(caller->mac, source_mac))) {
            /* A program knows all processes of its job, including this peer. */
            bool learns = !sim_depart_finalizing(node);
            if (learns) {
                (void)sim_route_get(node, from->vpid, meant);
            }
            struct sim_peer *route = sim_route_find(node, from->vpid, meant, far);
            return route != NULL || !learns ? route
                                            : open_route(&node->nics[meant], from->vpid, far);
        }
    }
    return NULL; /* the process has ended */
}

void sim_route_unknown_source(void *context, const struct rawe_conn *conn,
                              const struct rawe_connect *from,
                              const uint8_t source_mac[RAWE_MAC_BYTES])
{
    struct sim_nic *nic = context;
    struct sim_node *node = nic->node;
    const struct sim_channel *channel = conn->owner;
    const struct sim_node *other = &node->sim->nodes[channel->peer];

    if (channel->peer_life != other->life) {
        return;
    }
    for (unsigned far = 0; far < other->nic_count; far++) {
        const struct sim_nic *to = &other->nics[far];
        struct sim_peer *route = sim_route_find(node, channel->peer, nic->index, far);
        bool says = to->key == from->key && to->port == from->port;
        if (route != NULL && says == (from->choice == 0)) {
            sim_address_follow(route, source_mac);
        } else if (route == NULL && (says || from->choice != 0) && !nic->engine.deferral->active &&
                   memcmp(to->published, source_mac, RAWE_MAC_BYTES) == 0) {
            (void)open_route(nic, channel->peer, far);
        }
    }
}

unsigned sim_route_count(struct sim_peer *route)
{
    struct rawe_peer *each = &route->peer;
    unsigned count = 0;

    do {
        count++;
        each = rawe_peer_next(each);
    } while (each != &route->peer);
    return count;
}

void sim_route_close(struct sim_nic *nic)
{
    struct sim_node *node = nic->node;

    for (struct sim_peer *route = node->peers; route != NULL; route = route->next) {
        for (unsigned lane = 0; route->nic == nic && lane < RAWE_LANES; lane++) {
            const struct rawe_conn *conn = route->peer.conn[lane];
            if (conn != NULL) {
                sim_channel_close(conn->owner);
            }
        }
        if (route->nic == nic) {
            rawe_failover_forget(&node->failover, &route->peer);
            rawe_peer_close(&route->peer);
        }
    }
}

void sim_route_forget(struct sim_node *node)
{
    while (node->peers != NULL) {
        struct sim_peer *route = node->peers;
        node->peers = route->next;
        free(route);
    }
}

/* ---- the responder ---- */

/** Write a PING or PONG of the interface, and send it at `at_ns`. */
static void send_ping(struct sim_nic *nic, uint8_t type, const struct sim_nic *to,
                      const uint8_t mac[RAWE_MAC_BYTES], uint16_t port, uint32_t key,
                      const struct rawe_ping *ping, uint64_t at_ns)
{
    struct sim *sim = nic->node->sim;
    struct sim_packet *packet = sim_packet_take(sim, RAWE_PAYLOAD_OFFSET + RAWE_PING_BYTES);
    const bool serviced = type == RAWE_FRAME_PONG && sim->now_ns >= nic->node->pause_until_ns;
    struct rawe_header header = {.type = type,
                                 .flags = serviced ? RAWE_FLAG_SERVICED : 0,
                                 .port = port,
                                 .key = key,
                                 .payload_bytes = RAWE_PING_BYTES};

    net_frame_address(packet->bytes, mac, nic->mac);
    rawe_header_encode(packet->bytes + RAWE_ETH_HEADER_BYTES, &header);
    rawe_ping_encode(packet->bytes + RAWE_PAYLOAD_OFFSET, ping);
    packet->destination = to->node->index;
    packet->destination_nic = to->index;
    sim_net_send(sim, nic, packet, at_ns);
}

void sim_route_ask(struct sim_peer *route, unsigned what, uint16_t port, uint32_t key,
                   const uint8_t mac[RAWE_MAC_BYTES])
{
    struct sim_nic *nic = route->nic;
    const uint64_t token = (uint64_t)route->number << SIM_PING_BITS | what;
    struct rawe_ping ping = {.key = nic->key, .port = nic->port, .token = token};

    send_ping(nic, RAWE_FRAME_PING, &nic->node->sim->nodes[route->node].nics[route->far], mac, port,
              key, &ping, nic->node->local_ns);
}

/** Send a PING to the peer's responder, as the component does, and report its earlier answers. */
static void ask_responder(struct rawe_conn *conn, uint64_t silent_ns)
{
    const struct sim_channel *channel = conn->owner;
    struct sim_peer *route = sim_route_of(rawe_peer_used(conn));
    struct sim_node *node = channel->node;

    sim_trace(node->sim, "n%u has not heard n%u on lane %u for %llu us", node->index, channel->peer,
              channel->lane, (unsigned long long)silent_ns / 1000);
    node->control[SIM_CONTROL_PING]++;
    sim_route_ask(route, channel->lane, conn->path.peer_port, conn->path.peer_key,
                  route->peer.route.mac);
    sim_address_seek(route);
    rawe_liveness_alive(&conn->path.liveness, route->absent_ns[channel->lane]);
}

void sim_route_stalled(void *context, struct rawe_conn *conn, uint64_t stalled_ns)
{
    ask_responder(conn, stalled_ns);
    sim_shrink_validate(sim_route_of(rawe_peer_used(conn)));
}

void sim_route_silent(void *context, struct rawe_conn *conn, uint64_t silent_ns)
{
    struct sim_nic *nic = context;

    ask_responder(conn, silent_ns);
    rawe_failover_silent(&nic->node->failover, conn, nic->engine.now_ns);
}

void sim_route_lossy(void *context, const struct rawe_conn *conn)
{
    struct sim_nic *nic = context;

    rawe_failover_lossy(&nic->node->failover, conn, nic->engine.now_ns);
}

void sim_route_answer(struct sim_nic *nic, const struct rawe_header *header,
                      const struct sim_packet *packet)
{
    struct sim_node *node = nic->node;
    struct sim *sim = node->sim;
    struct rawe_ping ping;

    if (header->key != nic->key || header->port != nic->port ||
        rawe_ping_decode(&ping, packet->bytes + RAWE_PAYLOAD_OFFSET, header->payload_bytes) !=
            RAWE_DECODE_OK) {
        return;
    }
    unsigned what = ping.token & ((1u << SIM_PING_BITS) - 1u);
    const uint8_t *source_mac = packet->bytes + RAWE_MAC_BYTES;
    if (header->type == RAWE_FRAME_PING) {
        node->control[SIM_CONTROL_PING] += what < RAWE_LANES;
        send_ping(nic, RAWE_FRAME_PONG, &sim->nodes[packet->source].nics[packet->source_nic],
                  source_mac, ping.port, ping.key, &ping, sim->now_ns);
        return;
    }
    for (struct sim_peer *route = node->peers; route != NULL; route = route->next) {
        if (route->number == ping.token >> SIM_PING_BITS && route->nic == nic) {
            uint64_t clock_ns = sim_node_clock_at(node, sim->now_ns);
            route->pong_ns = what <= SIM_PING_ROUTE ? clock_ns : route->pong_ns;
            sim_address_answered(route, what, source_mac);
            /* Count the silence of a process that is not computing. */
            if (what < RAWE_LANES && (header->flags & RAWE_FLAG_SERVICED) == 0) {
                route->absent_ns[what] = route->pong_ns;
            }
        }
    }
}

/* ---- failing over ---- */

/** rawe_failover_callbacks.ask */
static void ask_route(void *context, struct rawe_peer *peer)
{
    sim_route_ask(sim_route_of(peer), SIM_PING_ROUTE, peer->route.port, peer->route.key,
                  peer->route.mac);
    sim_address_seek(sim_route_of(peer));
}

/** rawe_failover_callbacks.answered_ns */
static uint64_t answered_ns(void *context, const struct rawe_peer *peer)
{
    return sim_route_of(peer)->pong_ns;
}

/** rawe_failover_callbacks.say */
static void say(void *context, const struct rawe_peer *peer, enum rawe_failover_report news)
{
    const struct sim_node *node = context;
    const struct sim_peer *route = sim_route_of(peer);

    sim_trace(node->sim, "n%u: route %u-%u to n%u is %s", node->index, route->nic->index,
              route->far, route->node,
              news == RAWE_FAILOVER_ANSWERS        ? "up again"
              : news == RAWE_FAILOVER_CARRIER_LOST ? "without carrier"
              : news == RAWE_FAILOVER_FOLLOWED     ? "at another address"
                                                   : "down");
}

void sim_route_start(struct sim_node *node)
{
    static const struct rawe_failover_callbacks callbacks = {
        .ask = ask_route,
        .answered_ns = answered_ns,
        .say = say,
    };

    rawe_failover_init(&node->failover, &callbacks, node);
    node->addresses_changed = false;
    node->carriers_changed = true; /* a carrier may be lost already */
}

void sim_route_carrier(struct sim_nic *nic, bool carrier)
{
    nic->carrier = carrier;
    nic->node->carriers_changed = true;
    if (nic->node->alive) {
        sim_node_wake(nic->node, nic->node->sim->now_ns + 1);
    }
}

/** Handle carrier changes that the kernel has reported. */
static void heed_carriers(struct sim_node *node)
{
    for (unsigned i = 0; i < node->nic_count; i++) {
        struct sim_nic *nic = &node->nics[i];
        if (nic->carrier == nic->engine.no_carrier) {
            rawe_failover_set_carrier(&node->failover, &nic->engine, nic->carrier);
            for (struct sim_peer *route = node->peers; route != NULL; route = route->next) {
                if (route->nic == nic) {
                    rawe_failover_heed_carrier(&node->failover, &route->peer, sim_node_clock(node));
                }
            }
        }
    }
    node->carriers_changed = false;
}

bool sim_route_check(struct sim_node *node, bool may_say)
{
    bool due = node->carriers_changed || node->addresses_changed ||
               sim_route_due_ns(node) <= node->local_ns;

    if (node->addresses_changed) {
        sim_address_heed(node);
    }
    if (node->carriers_changed) {
        heed_carriers(node);
    }
    if (rawe_failover_pending(&node->failover)) {
        rawe_failover_check(&node->failover, may_say, sim_node_clock(node));
    }
    return due;
}

uint64_t sim_route_due_ns(const struct sim_node *node)
{
    uint64_t due_ns = rawe_failover_due_ns(&node->failover);
    uint64_t least_ns = node->failover.checked_ns + RAWE_FAILOVER_INTERVAL_NS;

    if (due_ns == UINT64_MAX) {
        return due_ns;
    }
    due_ns = (due_ns > least_ns ? due_ns : least_ns) + node->sim->plan.clock_step_ns - 1;
    return due_ns > node->host->clock_offset_ns ? due_ns - node->host->clock_offset_ns : 0;
}

/* ---- invariants ---- */

bool sim_route_carries(const struct sim_peer *route)
{
    const struct sim *sim = route->nic->node->sim;
    const struct sim_nic *far = &sim->nodes[route->node].nics[route->far];

    return sim->now_ns >= route->nic->pulled_until_ns && sim->now_ns >= far->pulled_until_ns;
}

/** Return true if another route to the process is up and carries frames. */
static bool others_carry(struct sim_peer *route)
{
    struct rawe_peer *peer = &route->peer;
    bool found = false;

    for (struct rawe_peer *other = rawe_peer_next(peer); other != peer;
         other = rawe_peer_next(other)) {
        found = found || (!other->route.down && sim_route_carries(sim_route_of(other)));
    }
    return found;
}

static void check_silent(const struct sim_channel *channel, struct sim_peer *route)
{
    const struct sim_node *node = channel->node;
    const struct rawe_conn *conn = sim_conn(channel);
    uint64_t since_ns = conn->path.liveness.silent_since_ns;

    if (since_ns != 0 && sim_node_clock(node) > since_ns + FAILOVER_NS &&
        !sim_route_carries(route) && others_carry(route)) {
        net_fail("silent routes are left", "n%u asks n%u on lane %u by route %u-%u for %llu ms",
                 node->index, channel->peer, channel->lane, route->nic->index, route->far,
                 (unsigned long long)(sim_node_clock(node) - since_ns) / 1000000);
    }
}

/**
 * Check a connection that does not use its preferred route: that must not have carried for long.
 */
static void check_preferred(const struct sim_channel *channel, const struct sim_peer *route)
{
    const struct sim_node *node = channel->node;
    const struct sim_peer *preferred = channel->via;

    /* A route that failed again soon after failback must answer for longer. */
    bool again = preferred->times_down > 1;
    uint64_t from_ns = again ? sim_lossy_until_ns(node->sim) : 0;
    from_ns = from_ns < preferred->down_ns ? preferred->down_ns : from_ns; /* a port was full */
    bool waits = node->sim->now_ns < from_ns + (again ? RELAPSED_NS : RECOVERY_NS);
    if (preferred != route && sim_route_carries(preferred) && !waits) {
        net_fail("connections fail back",
                 "n%u to n%u on lane %u: by route %u-%u, and not %u-%u, which is %s", node->index,
                 channel->peer, channel->lane, route->nic->index, route->far, preferred->nic->index,
                 preferred->far, preferred->peer.route.down ? "down" : "up");
    }
}

/** Check that a silent route was left if there is another route that is not too new. */
static void check_down(const struct sim_channel *channel, const struct sim_peer *route)
{
    struct rawe_route *best = rawe_route_best(sim_conn(channel)->path.preferred);

    for (const struct sim_peer *other = channel->node->peers; other != NULL; other = other->next) {
        if (&other->peer.route == best && channel->node->sim->now_ns > other->opened_ns + JOIN_NS) {
            net_fail("routes that are down are left", "n%u to n%u on lane %u: still by %u-%u",
                     channel->node->index, channel->peer, channel->lane, route->nic->index,
                     route->far);
        }
    }
}

/** Record since when each route has been down, and how often it went down. */
static void note_down(const struct sim_node *node)
{
    for (struct sim_peer *route = node->peers; route != NULL; route = route->next) {
        bool down = route->peer.route.down;
        route->times_down += down && route->down_ns == 0;
        route->down_ns = !down ? 0 : route->down_ns != 0 ? route->down_ns : node->sim->now_ns;
    }
}

void sim_route_check_node(const struct sim_node *node)
{
    const struct sim *sim = node->sim;
    uint64_t calm_ns =
        sim->faults_end_ns > sim->disturbed_ns ? sim->faults_end_ns : sim->disturbed_ns;

    calm_ns = sim_lossy_until_ns(sim) > calm_ns ? sim_lossy_until_ns(sim) : calm_ns;
    if (node->nic_count == 1 && sim->plan.nics == 1) {
        return;
    }
    note_down(node);
    for (struct sim_channel *channel = node->channels; channel != NULL; channel = channel->next) {
        const struct rawe_conn *conn = sim_conn(channel);
        const struct sim_node *other = &sim->nodes[channel->peer];
        struct sim_peer *route = sim_route_of(rawe_peer_used(conn));
        if (conn->path.route->down) {
            check_down(channel, route);
        }
        if (channel->failed || !other->alive || other->life != channel->peer_life ||
            node->isolated || other->isolated || sim->plan.lying || sim->finishing) {
            continue;
        }
        if (sim->now_ns > calm_ns + FAILOVER_NS) {
            check_silent(channel, route);
        }
        if (sim->now_ns > calm_ns + RECOVERY_NS) {
            check_preferred(channel, route);
        }
    }
}
