/* SPDX-License-Identifier: BSD-3-Clause */
#include "rawe_balance.h"

#include <stdbool.h>

#include "conn/rawe_conn_record.h"
#include "conn/rawe_conn_send.h"

void rawe_balance_share(struct rawe_balance_route *routes, unsigned count, uint64_t total_bytes,
                        uint64_t grain_bytes)
{
    uint64_t bytes = total_bytes, rate = 0, left = total_bytes;
    unsigned last = 0;
    bool changed = true;
    for (unsigned i = 0; i < count; i++) {
        bytes += routes[i].backlog_bytes;
        rate += routes[i].rate;
        routes[i].share_bytes = 1; /* nonzero: takes part */
    }
    /* Divide backlogs and new data together. A route whose backlog exceeds its share gets 0. */
    while (changed) {
        changed = false;
        for (unsigned i = 0; i < count; i++) {
            struct rawe_balance_route *route = &routes[i];
            if (route->share_bytes != 0 && rate != route->rate &&
                route->backlog_bytes * rate >= bytes * route->rate) {
                route->share_bytes = 0;
                bytes -= route->backlog_bytes;
                rate -= route->rate;
                changed = true;
            }
        }
    }
    for (unsigned i = 0; i < count; i++) {
        struct rawe_balance_route *route = &routes[i];
        if (route->share_bytes == 0) {
            continue;
        }
        uint64_t share_bytes = bytes * route->rate / rate;
        share_bytes = share_bytes > route->backlog_bytes ? share_bytes - route->backlog_bytes : 0;
        share_bytes = share_bytes < left ? share_bytes : left;
        route->share_bytes = share_bytes / grain_bytes * grain_bytes;
        left -= route->share_bytes;
        last = route->rate >= routes[last].rate || routes[last].share_bytes == 0 ? i : last;
    }
    routes[last].share_bytes += left;
}

#define ROUTES_MAX 16u

/** Steal at least this many bytes: a batch costs a system call, whatever its length. */
#define GRAIN_BYTES RAWE_BATCH_BYTES_MAX

/** Assume at least 1/SLOWEST_PART of the fastest rate, so that a recovery is noticed. */
#define SLOWEST_PART 16u

/** The routes to a process that carry PUTs, and the load of each. */
struct routes {
    struct rawe_peer *peers[ROUTES_MAX];
    struct rawe_balance_route loads[ROUTES_MAX];
    unsigned count;
};

static struct rawe_conn *get_bulk_conn(const struct rawe_peer *peer)
{
    return peer->conn[RAWE_LANE_BULK];
}

/** Return true if this route may carry other routes' PUTs. False if its own PUTs use another. */
static bool may_carry_puts(const struct rawe_peer *peer)
{
    const struct rawe_conn *conn = get_bulk_conn(peer);
    return __atomic_load_n(&peer->takes_part, __ATOMIC_RELAXED) && !peer->route.down &&
           (conn == NULL || (conn->handshake.state != RAWE_CONN_FAILED &&
                             conn->path.route == conn->path.preferred));
}

static uint64_t movable_bytes(const struct rawe_peer *peer)
{
    const struct rawe_conn *conn = get_bulk_conn(peer);
    return conn == NULL ? 0 : conn->tx.queue.movable_bytes;
}

/** Return the bytes that only this connection can send. */
static uint64_t fixed_bytes(const struct rawe_conn *conn)
{
    uint64_t frames = conn->tx.window.in_flight + conn->tx.window.to_transmit;
    return conn->tx.queue.bytes - conn->tx.queue.movable_bytes +
           frames * conn->path.payload_max_bytes;
}

static uint32_t measured_mbps(const struct rawe_peer *peer)
{
    return get_bulk_conn(peer) == NULL ? 0 : get_bulk_conn(peer)->tx.cc.rate_mbps;
}

static uint64_t nominal_mbps(const struct rawe_peer *peer)
{
    uint32_t mbps = peer->speed_mbps;
    mbps = mbps != 0 ? mbps : 1;
    return mbps < RAWE_CC_RATE_MOST_MBPS ? mbps : RAWE_CC_RATE_MOST_MBPS;
}

/** Fill in rates: measured, or nominal, scaled alike because a switch may slow all routes. */
static void fill_rates(struct routes *routes)
{
    uint64_t measured = 0, nominal = 0, best = 0;
    for (unsigned i = 0; i < routes->count; i++) {
        uint32_t mbps = measured_mbps(routes->peers[i]);
        measured += mbps;
        nominal += mbps != 0 ? nominal_mbps(routes->peers[i]) : 0;
    }
    for (unsigned i = 0; i < routes->count; i++) {
        const struct rawe_peer *peer = routes->peers[i];
        uint64_t rate = measured_mbps(peer);
        if (rate == 0) {
            rate = nominal_mbps(peer);
            rate = measured != 0 ? rate * measured / nominal : rate;
        }
        rate = rate < RAWE_CC_RATE_MOST_MBPS ? rate : RAWE_CC_RATE_MOST_MBPS;
        routes->loads[i].rate = rate != 0 ? rate : 1;
        best = routes->loads[i].rate > best ? routes->loads[i].rate : best;
    }
    /* The old rate of a silent route is meaningless. */
    for (unsigned i = 0; i < routes->count; i++) {
        struct rawe_balance_route *load = &routes->loads[i];
        const struct rawe_conn *conn = get_bulk_conn(routes->peers[i]);
        bool silent = conn != NULL && conn->path.liveness.probes_unanswered != 0;
        bool slow = load->rate < best / SLOWEST_PART || silent;
        load->rate = slow ? best / SLOWEST_PART + 1 : load->rate;
    }
}

/** Find the routes to `peer`'s process that carry PUTs, and divide all movable bytes. */
static void divide_bytes(struct routes *routes, struct rawe_peer *peer)
{
    struct rawe_peer *each = peer;
    uint64_t bytes = 0;
    routes->count = 0;
    do {
        bytes += movable_bytes(each);
        if (may_carry_puts(each) && routes->count < ROUTES_MAX) {
            routes->loads[routes->count].backlog_bytes =
                get_bulk_conn(each) != NULL ? fixed_bytes(get_bulk_conn(each)) : 0;
            routes->peers[routes->count++] = each;
        }
        each = rawe_peer_next(each);
    } while (each != peer);
    fill_rates(routes);
    rawe_balance_share(routes->loads, routes->count, bytes, GRAIN_BYTES);
}

static uint64_t share_bytes(const struct routes *routes, const struct rawe_peer *peer)
{
    for (unsigned i = 0; i < routes->count; i++) {
        if (routes->peers[i] == peer) {
            return routes->loads[i].share_bytes;
        }
    }
    return 0;
}

/** Return true if the other routes have enough movable bytes to be worth stealing. */
static bool others_have(struct rawe_peer *peer)
{
    uint64_t bytes = 0;
    for (struct rawe_peer *other = rawe_peer_next(peer); other != peer;
         other = rawe_peer_next(other)) {
        bytes += movable_bytes(other);
    }
    return bytes >= GRAIN_BYTES;
}

/** rawe_conn_tx.refill: steal from routes that exceed their shares, because our queue is empty. */
static bool refill_queue(struct rawe_conn *conn)
{
    struct rawe_peer *peer = conn->peer;
    struct routes routes;
    if (!others_have(peer) || !may_carry_puts(peer)) {
        return false;
    }
    divide_bytes(&routes, peer);
    uint64_t wanted_bytes = share_bytes(&routes, peer);
    for (struct rawe_peer *other = rawe_peer_next(peer); other != peer;
         other = rawe_peer_next(other)) {
        uint64_t stays_bytes = share_bytes(&routes, other);
        uint64_t has_bytes = movable_bytes(other);
        uint64_t bytes = has_bytes > stays_bytes ? has_bytes - stays_bytes : 0;
        bytes = bytes < wanted_bytes ? bytes : wanted_bytes;
        if (bytes >= GRAIN_BYTES) {
            uint64_t taken = rawe_sendqueue_move(&conn->tx.queue, &get_bulk_conn(other)->tx.queue,
                                                 bytes, GRAIN_BYTES);
            wanted_bytes -= taken < wanted_bytes ? taken : wanted_bytes;
        }
    }
    peer->streak = peer->streak && conn->tx.queue.first == NULL;
    return conn->tx.queue.first != NULL;
}

/** Send data to the process over its bulk lanes. Returns false when out of memory. */
static bool send_balanced(struct rawe_peer *peer, struct rawe_send *send)
{
    uint64_t now_ns = rawe_engine_clock_ns(peer->engine);
    struct rawe_conn *conn = rawe_peer_conn(peer, RAWE_LANE_BULK);
    if (conn == NULL) {
        return false;
    }
    peer->streak = false;
    if (rawe_peer_next(peer) == peer || send->split == NULL) {
        rawe_conn_send(conn, send, now_ns);
        return true;
    }
    conn->tx.refill = refill_queue;
    if (!rawe_conn_enqueue(conn, send, now_ns)) {
        return true;
    }
    for (struct rawe_peer *other = rawe_peer_next(peer); other != peer;
         other = rawe_peer_next(other)) {
        bool helps = may_carry_puts(other) && others_have(other);
        struct rawe_conn *helper = helps ? rawe_peer_conn(other, RAWE_LANE_BULK) : NULL;
        if (helper == NULL) {
            continue;
        }
        helper->tx.refill = refill_queue;
        if (helper->tx.queue.first == NULL && refill_queue(helper)) {
            rawe_conn_start(helper, now_ns);
        }
    }
    rawe_conn_start(conn, now_ns);
    return true;
}

bool rawe_balance_operate(struct rawe_peer *peer, struct rawe_operation *operation)
{
    bool put = operation->kind == RAWE_FRAGMENT_PUT;
    operation->whole = NULL;
    return (!(put && operation->spreads) && rawe_peer_operate(peer, operation)) ||
           (put && send_balanced(peer, rawe_conn_begin_operation(operation, false)));
}

bool rawe_balance_reply(void *context, struct rawe_conn *conn, struct rawe_send *send)
{
    return send_balanced(conn->peer, send);
}
