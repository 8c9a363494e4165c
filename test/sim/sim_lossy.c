/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * A route that loses some of its frames for seconds, while the other routes between its hosts are
 * good. Connections must leave the route, and use it again afterwards (sim_route.c checks this). If
 * all routes are equally lossy, one may look worse by chance and be left, but never the last one.
 */
#include "sim.h"

#include "conn/rawe_conn.h"

#define SECOND 1000000000ull

/** All connections must leave a route that has lost a quarter of its frames for this long. */
#define LEFT_NS (10 * SECOND)
#define MUCH_PPM 250000u

/** If losses are no further apart than this, traffic was continuous. */
#define BREAK_NS SECOND

/** If all routes lose frames, a route may be left by mistake at most once in this time. */
#define MISTAKE_NS (2 * SECOND)

void sim_lossy_plan(struct sim *sim)
{
    struct sim_lossy *lossy = &sim->net.lossy;
    const struct sim_plan *plan = &sim->plan;

    lossy->random = sim_random_stream(sim->options.seed, 48);
    lossy->node = (uint32_t)sim_random_below(&lossy->random, plan->nodes);
    lossy->other = (uint32_t)sim_random_below(&lossy->random, plan->nodes - 1u);
    lossy->other += lossy->other >= lossy->node;
    lossy->nic = (unsigned)sim_random_below(&lossy->random, plan->nics);
    if (plan->lossy_ppm != 0) {
        sim_plan_event(sim, SIM_EVENT_LOSSY, plan->lossy_from_ns, 0, 0);
    }
}

void sim_lossy_begin(struct sim *sim)
{
    static const char *const what[SIM_LOSSY_KINDS] = {
        "a route", "an interface", "an interface's way in", "an interface's way out", "everything"};
    struct sim_lossy *lossy = &sim->net.lossy;
    const struct sim_plan *plan = &sim->plan;

    if (sim->departing || sim->finishing || !sim_incident(sim)) {
        return;
    }
    lossy->nic %= sim->nodes[lossy->node].nic_count;
    lossy->far = lossy->nic % sim->nodes[lossy->other].nic_count;
    lossy->until_ns = plan->lossy_until_ns;
    sim_trace(sim, "%s loses %u ppm of its frames for %llu ms: n%u-%u, n%u-%u", what[plan->lossy],
              plan->lossy_ppm, (unsigned long long)(lossy->until_ns - sim->now_ns) / 1000000,
              lossy->node, lossy->nic, lossy->other, lossy->far);
}

/**
 * Return true while the route is lossy. It recovers when nodes leave, because leaving needs fast
 * answers.
 */
static bool is_on(const struct sim *sim)
{
    return sim->now_ns < sim->net.lossy.until_ns && !sim->departing && !sim->finishing;
}

static bool is_one(uint32_t node, unsigned nic, uint32_t which, unsigned which_nic)
{
    return node == which && nic == which_nic;
}

/** Return true if frames from one interface to another are lost. */
static bool loses(const struct sim *sim, uint32_t from, unsigned from_nic, uint32_t to,
                  unsigned to_nic)
{
    const struct sim_lossy *lossy = &sim->net.lossy;
    bool out = is_one(from, from_nic, lossy->node, lossy->nic);
    bool in = is_one(to, to_nic, lossy->node, lossy->nic);

    switch (sim->plan.lossy) {
    case SIM_LOSSY_ROUTE:
        return (out && is_one(to, to_nic, lossy->other, lossy->far)) ||
               (in && is_one(from, from_nic, lossy->other, lossy->far));
    case SIM_LOSSY_INTERFACE:
        return out || in;
    case SIM_LOSSY_IN:
        return in;
    case SIM_LOSSY_OUT:
        return out;
    default:
        return true;
    }
}

/** Record that a route has lost a data packet. */
static void note(struct sim_peer *route, uint64_t now_ns)
{
    if (now_ns > route->lost_last_ns + BREAK_NS) {
        route->lost_first_ns = now_ns;
    }
    route->lost_last_ns = now_ns;
}

bool sim_lossy_takes(struct sim *sim, const struct sim_packet *packet)
{
    struct sim_lossy *lossy = &sim->net.lossy;

    if (!is_on(sim) ||
        !loses(sim, packet->source, packet->source_nic, packet->destination,
               packet->destination_nic) ||
        !sim_random_chance(&lossy->random, sim->plan.lossy_ppm)) {
        return false;
    }
    lossy->lost++;
    struct sim_peer *route = sim_route_find(&sim->nodes[packet->source], packet->destination,
                                            packet->source_nic, packet->destination_nic);
    if (route != NULL && packet->sequenced != 0) {
        note(route, sim->now_ns);
    }
    return true;
}

/** Return true if a route is lossy in either direction. */
static bool is_meant(const struct sim_peer *route)
{
    const struct sim *sim = route->nic->node->sim;
    uint32_t node = route->nic->node->index;

    return loses(sim, node, route->nic->index, route->node, route->far) ||
           loses(sim, route->node, route->far, node, route->nic->index);
}

/** Return true if another route to the process is good and our process knows so. */
static bool has_good(struct sim_peer *route)
{
    bool found = false;

    for (struct rawe_peer *each = rawe_peer_next(&route->peer); each != &route->peer;
         each = rawe_peer_next(each)) {
        struct sim_peer *other = sim_route_of(each);
        found = found || (!each->route.down && sim_route_carries(other) && !is_meant(other));
    }
    return found;
}

static bool is_used(const struct sim_node *node, const struct sim_peer *route)
{
    bool used = false;

    for (struct sim_channel *channel = node->channels; channel != NULL; channel = channel->next) {
        used = used || (sim_conn(channel)->path.route == &route->peer.route && !channel->failed);
    }
    return used;
}

/** Check that connections have left a route that keeps losing frames. */
static void check_left(const struct sim_node *node, struct sim_peer *route, bool calm)
{
    if (!calm || !has_good(route)) {
        route->lost_first_ns = route->lost_last_ns;
    }
    if (node->sim->plan.lossy_ppm >= MUCH_PPM &&
        route->lost_last_ns > route->lost_first_ns + LEFT_NS && is_used(node, route)) {
        net_fail("lossy routes are left", "n%u to n%u: still by route %u-%u after %llu ms",
                 node->index, route->node, route->nic->index, route->far,
                 (unsigned long long)(route->lost_last_ns - route->lost_first_ns) / 1000000);
    }
}

/** A route was left: check that it is lossy, or if all are lossy, that this mistake is rare. */
static void check_departure(const struct sim_node *node, struct sim_peer *route)
{
    const struct sim *sim = node->sim;
    const struct sim_plan *plan = &sim->plan;
    uint64_t most = plan->lossy == SIM_LOSSY_ALL
                        ? 1 + (sim->now_ns - plan->lossy_from_ns) / MISTAKE_NS
                    : is_meant(route) ? UINT32_MAX
                                      : 0;

    if (++route->mistakes > most) {
        net_fail("good routes are not left", "n%u leaves route %u-%u to n%u, %u times so far",
                 node->index, route->nic->index, route->far, route->node, route->mistakes);
    }
    if (rawe_route_best(&route->peer.route) == NULL) {
        net_fail("one route stays", "n%u has left all routes to n%u, the last one is %u-%u",
                 node->index, route->node, route->nic->index, route->far);
    }
}

/** Return true if no other fault has recently made a route look worse. */
static bool is_calm(struct sim *sim)
{
    struct sim_lossy *lossy = &sim->net.lossy;
    uint64_t others = sim->incidents.lost - lossy->lost;
    bool alone = (sim->plan.faults & ~SIM_BIT(LOSSY)) == 0;
    uint64_t calm_ns = alone ? 0 : sim->faults_end_ns;

    if (lossy->others != others) {
        lossy->others = others;
        lossy->others_ns = sim->now_ns;
    }
    calm_ns = calm_ns < sim->disturbed_ns ? sim->disturbed_ns : calm_ns;
    calm_ns = calm_ns < lossy->others_ns ? lossy->others_ns : calm_ns;
    return calm_ns == 0 || sim->now_ns > calm_ns + LEFT_NS;
}

void sim_lossy_check_node(struct sim_node *node)
{
    struct sim *sim = node->sim;

    if (sim_lossy_until_ns(sim) == 0) {
        return;
    }
    /* On slow links, answers queue behind data. */
    bool calm = is_calm(sim) && sim->plan.slowness_most == 1;
    for (struct sim_peer *route = node->peers; route != NULL; route = route->next) {
        bool left = route->peer.route.down && !route->was_down;
        route->was_down = route->peer.route.down;
        if (left && calm) {
            check_departure(node, route);
        }
        check_left(node, route, calm);
    }
}
