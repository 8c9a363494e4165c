/* SPDX-License-Identifier: BSD-3-Clause */
#include "rawe_failover.h"

void rawe_failover_init(struct rawe_failover *failover,
                        const struct rawe_failover_callbacks *callbacks, void *context)
{
    *failover = (struct rawe_failover){.callbacks = *callbacks, .context = context};
}

static bool is_alone(struct rawe_peer *peer)
{
    return rawe_peer_next(peer) == peer;
}

static void set_due(struct rawe_failover *failover, uint64_t due_ns)
{
    __atomic_store_n(&failover->due_ns, due_ns, __ATOMIC_RELAXED);
}

/** Add a route to the list of checked routes. */
static void add_checked(struct rawe_failover *failover, struct rawe_peer *peer)
{
    if (!peer->is_suspected) {
        peer->is_suspected = true;
        peer->next_suspected = failover->suspected;
        __atomic_store_n(&failover->suspected, peer, __ATOMIC_RELAXED);
    }
    set_due(failover, 0);
}

void rawe_failover_forget(struct rawe_failover *failover, struct rawe_peer *peer)
{
    struct rawe_peer **link = &failover->suspected;
    if (!peer->is_suspected) {
        return;
    }
    while (*link != peer) {
        link = &(*link)->next_suspected;
    }
    __atomic_store_n(link, peer->next_suspected, __ATOMIC_RELAXED);
    peer->is_suspected = false;
}

/** Return true if the route is measured, from a loss until a measurement without losses. */
static bool is_measured(const struct rawe_peer *peer)
{
    return peer->quality.since_ns != 0;
}

/** Measure all routes to the process, because one of them seems to lose frames. */
static void measure_routes(struct rawe_failover *failover, struct rawe_peer *peer, uint64_t now_ns)
{
    struct rawe_peer *each = peer;
    if (is_measured(peer)) {
        return;
    }
    do {
        if (!is_measured(each)) {
            rawe_quality_begin(&each->quality, each->route.arrived, each->route.lost, now_ns);
            add_checked(failover, each);
        }
        each = rawe_peer_next(each);
    } while (each != peer);
}

void rawe_failover_silent(struct rawe_failover *failover, const struct rawe_conn *conn,
                          uint64_t now_ns)
{
    struct rawe_peer *peer = rawe_peer_used(conn);
    if (!is_alone(peer)) {
        rawe_health_doubt(&peer->health, now_ns);
        add_checked(failover, peer);
    }
}

void rawe_failover_lossy(struct rawe_failover *failover, const struct rawe_conn *conn,
                         uint64_t now_ns)
{
    struct rawe_peer *peer = rawe_peer_used(conn);
    if (!is_alone(peer)) {
        measure_routes(failover, peer, now_ns);
    }
}

/** Set a route down. If it was the last one up, use the routes that only lose frames. */
static void set_down(struct rawe_peer *peer, enum rawe_failover_report report, uint64_t now_ns)
{
    peer->report = (uint8_t)report;
    peer->quality = (struct rawe_quality){0};
    rawe_peer_set_down(peer, now_ns);
    for (struct rawe_peer *other = rawe_peer_next(peer);
         other != peer && rawe_route_best(&peer->route) == NULL; other = rawe_peer_next(other)) {
        if (!other->engine->no_carrier && rawe_health_revive(&other->health, now_ns)) {
            rawe_peer_set_up(other, now_ns);
        }
    }
}

static void set_route_lost(struct rawe_peer *peer, uint64_t now_ns)
{
    rawe_health_lose(&peer->health, now_ns);
    set_down(peer, RAWE_FAILOVER_CARRIER_LOST, now_ns);
}

void rawe_failover_set_carrier(struct rawe_failover *failover, struct rawe_engine *engine,
                               bool carrier)
{
    engine->no_carrier = !carrier;
    set_due(failover, 0);
}

void rawe_failover_heed_carrier(struct rawe_failover *failover, struct rawe_peer *peer,
                                uint64_t now_ns)
{
    if (peer->engine->no_carrier && !is_alone(peer)) {
        set_route_lost(peer, now_ns);
        add_checked(failover, peer);
    } else if (!peer->engine->no_carrier && peer->health.state == RAWE_HEALTH_DOWN) {
        rawe_health_lose(&peer->health, now_ns); /* a PING is sent at once */
        add_checked(failover, peer);
    }
}

void rawe_failover_follow(struct rawe_failover *failover, struct rawe_peer *peer,
                          const uint8_t mac[RAWE_MAC_BYTES], uint64_t now_ns)
{
    rawe_peer_set_mac(peer, mac, now_ns);
    peer->report = RAWE_FAILOVER_FOLLOWED;
    add_checked(failover, peer);
}

static uint64_t ask_answered_ns(const struct rawe_failover *failover, const struct rawe_peer *peer)
{
    return failover->callbacks.answered_ns(failover->context, peer);
}

/** Send a PING over a route and, with `others`, over all other routes, to compare them. */
static void ping_route(const struct rawe_failover *failover, struct rawe_peer *peer, bool others)
{
    struct rawe_peer *each = peer;
    do {
        if (!each->engine->no_carrier) {
            failover->callbacks.ask(failover->context, each);
        }
        each = rawe_peer_next(each);
    } while (others && each != peer);
}

/** Return when another route last answered. Dead routes do not count, lossy ones do. */
static uint64_t others_answered_ns(const struct rawe_failover *failover, struct rawe_peer *peer)
{
    uint64_t newest_ns = 0;
    for (struct rawe_peer *other = rawe_peer_next(peer); other != peer;
         other = rawe_peer_next(other)) {
        bool dead = other->health.state == RAWE_HEALTH_DOWN && !other->health.lossy;
        uint64_t at_ns = dead ? 0 : ask_answered_ns(failover, other);
        newest_ns = at_ns > newest_ns ? at_ns : newest_ns;
    }
    return newest_ns;
}

/** Return true if a connection that uses the route is silent and has not failed. */
static bool is_silent(struct rawe_peer *peer)
{
    struct rawe_peer *each = peer;
    do {
        for (unsigned lane = 0; lane < RAWE_LANES; lane++) {
            const struct rawe_conn *conn = each->conn[lane];
            if (conn != NULL && rawe_peer_used(conn) == peer &&
                conn->handshake.state != RAWE_CONN_FAILED &&
                rawe_liveness_is_silent(&conn->path.liveness)) {
                return true;
            }
        }
        each = rawe_peer_next(each);
    } while (each != peer);
    return false;
}

/** Return the lowest loss of the other routes that are up, in permille. UINT32_MAX: none is up. */
static uint32_t others_permille(struct rawe_peer *peer)
{
    uint32_t least = UINT32_MAX;
    for (struct rawe_peer *other = rawe_peer_next(peer); other != peer;
         other = rawe_peer_next(other)) {
        if (other->health.state == RAWE_HEALTH_UP && !other->engine->no_carrier) {
            uint32_t permille =
                rawe_quality_permille(&other->quality, other->route.arrived, other->route.lost);
            least = permille < least ? permille : least;
        }
    }
    return least;
}

/** Set a route down because it loses frames. A single answered PING then proves little. */
static void avoid_route(struct rawe_peer *peer, uint64_t now_ns)
{
    rawe_health_avoid(&peer->health, now_ns);
    set_down(peer, RAWE_FAILOVER_LOSSY, now_ns);
}

/** A PING is lost after ANSWER_NS if another route answers, else ignored after NO_ANSWER_NS. */
#define ANSWER_NS (2 * RAWE_FAILOVER_INTERVAL_NS)
#define NO_ANSWER_NS (10 * RAWE_FAILOVER_INTERVAL_NS)

/** Ping all routes if one carries too few frames to measure: a busy host answers on none. */
static void compare_answers(const struct rawe_failover *failover, struct rawe_peer *peer,
                            uint64_t now_ns)
{
    struct rawe_quality *quality = &peer->quality;
    uint64_t passed_ns = now_ns - quality->asked_ns;
    if (quality->asked_ns != 0 && passed_ns >= ANSWER_NS) {
        bool answered = ask_answered_ns(failover, peer) >= quality->asked_ns;
        if (answered || others_answered_ns(failover, peer) >= quality->asked_ns) {
            rawe_quality_note_ping(quality, answered);
        } else if (passed_ns >= NO_ANSWER_NS) {
            quality->asked_ns = 0;
        }
    }
    if (quality->asked_ns == 0) {
        quality->asked_ns = now_ns;
        ping_route(failover, peer, true);
    }
}

/** Stop using a route that loses many more frames than others. */
static void check_quality(const struct rawe_failover *failover, struct rawe_peer *peer,
                          uint64_t now_ns)
{
    struct rawe_quality *quality = &peer->quality;
    if (rawe_quality_wants_ping(quality, peer->route.arrived, peer->route.lost)) {
        compare_answers(failover, peer, now_ns);
    }
    if (!rawe_quality_measure(quality, peer->route.arrived, peer->route.lost, now_ns)) {
        return;
    }
    uint32_t others = others_permille(peer);
    if (others == UINT32_MAX || quality->permille == 0) {
        *quality = (struct rawe_quality){0}; /* until frames are lost again */
    } else if (rawe_quality_judge(quality, others)) {
        avoid_route(peer, now_ns);
    }
}

static void check(const struct rawe_failover *failover, struct rawe_peer *peer, uint64_t now_ns)
{
    if (peer->health.state == RAWE_HEALTH_UP && is_measured(peer)) {
        check_quality(failover, peer, now_ns);
    }
    /* A full port drops PINGs like all other frames, but resent frames arrive eventually. */
    bool heard = peer->health.state == RAWE_HEALTH_SUSPECT && !is_silent(peer);
    switch (rawe_health_check(&peer->health, heard ? now_ns : ask_answered_ns(failover, peer),
                              others_answered_ns(failover, peer), now_ns)) {
    case RAWE_HEALTH_NOTHING:
        break;
    case RAWE_HEALTH_ASK:
        ping_route(failover, peer, peer->health.state == RAWE_HEALTH_SUSPECT);
        break;
    case RAWE_HEALTH_FAILED:
        if (rawe_quality_is_poor(&peer->quality, peer->route.arrived, peer->route.lost)) {
            avoid_route(peer, now_ns);
        } else {
            set_down(peer, RAWE_FAILOVER_UNANSWERED, now_ns);
        }
        break;
    case RAWE_HEALTH_RECOVERED:
        peer->report = RAWE_FAILOVER_ANSWERS;
        rawe_peer_set_up(peer, now_ns);
        break;
    }
}

static void report_route_state(const struct rawe_failover *failover, struct rawe_peer *peer)
{
    if (peer->report != RAWE_FAILOVER_NO_REPORT) {
        failover->callbacks.say(failover->context, peer, (enum rawe_failover_report)peer->report);
        peer->report = RAWE_FAILOVER_NO_REPORT;
    }
}

/** Return true if a route needs no checks: up and not measured, or no carrier and another is up. */
static bool is_steady(struct rawe_peer *peer)
{
    return (peer->health.state == RAWE_HEALTH_UP && !is_measured(peer)) ||
           (peer->health.state == RAWE_HEALTH_DOWN && peer->engine->no_carrier &&
            rawe_route_best(&peer->route) != NULL);
}

/** Return the time of the route's next check. */
static uint64_t when_due_ns(const struct rawe_peer *peer, uint64_t now_ns)
{
    return peer->health.state == RAWE_HEALTH_UP && is_measured(peer)
               ? now_ns + RAWE_FAILOVER_INTERVAL_NS
               : rawe_health_due_ns(&peer->health);
}

void rawe_failover_check(struct rawe_failover *failover, bool may_say, uint64_t now_ns)
{
    uint64_t due_ns = UINT64_MAX;
    struct rawe_peer *next;
    if (now_ns - failover->checked_ns < RAWE_FAILOVER_INTERVAL_NS) {
        return;
    }
    failover->checked_ns = now_ns;
    set_due(failover, UINT64_MAX);
    for (struct rawe_peer *peer = failover->suspected; peer != NULL; peer = next) {
        next = peer->next_suspected;
        if (!peer->engine->no_carrier) {
            check(failover, peer, now_ns);
            uint64_t at_ns = when_due_ns(peer, now_ns);
            due_ns = at_ns < due_ns ? at_ns : due_ns;
        } else if (peer->health.state != RAWE_HEALTH_DOWN) {
            /* When the carrier was lost, the peer was unknown or had no other route. */
            set_route_lost(peer, now_ns);
        }
        if (peer->health.state == RAWE_HEALTH_DOWN) {
            rawe_peer_set_down(peer, now_ns); /* another route may have been added since */
        }
        if (may_say) {
            report_route_state(failover, peer);
        }
        if (peer->report == RAWE_FAILOVER_NO_REPORT && is_steady(peer)) {
            rawe_failover_forget(failover, peer);
        }
    }
    if (due_ns < __atomic_load_n(&failover->due_ns, __ATOMIC_RELAXED)) {
        set_due(failover, due_ns); /* otherwise a callback has requested an earlier check */
    }
}
