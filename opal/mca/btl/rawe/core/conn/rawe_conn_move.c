/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Migration: see rawe_conn_move.h.
 */
#include "rawe_conn_move.h"

#include "rawe_conn_batch.h"
#include "rawe_conn_connect.h"
#include "rawe_conn_control.h"

/**
 * When both ends have moved at the same time, by different routes, one of them stays where it is for
 * this time, and the other follows; unless that cannot, and is still heard elsewhere then.
 */
#define STAY_NS 20000000ull

/** A frame that arrives by the preferred route this long after the connection left it was sent since. */
#define FAIL_BACK_NS 1000000000ull

/** From now on frames are addressed to the far end of this route. */
static void use(struct rawe_conn *conn, struct rawe_route *route)
{
    rawe_conn_path_use(conn, route);
    rawe_conn_batch_move(conn);
}

void rawe_conn_attach(struct rawe_conn *conn, struct rawe_route *preferred)
{
    struct rawe_route *best = rawe_route_best(preferred);
    rawe_conn_path_begin(conn, preferred);
    use(conn, best != NULL ? best : preferred);
}

static void move(struct rawe_conn *conn, struct rawe_route *route, uint64_t now_ns)
{
    struct rawe_engine *engine = conn->engine;
    uint8_t state = conn->handshake.state;
    use(conn, route);
    engine->counters.migrations++;
    rawe_liveness_migrate(&conn->liveness, &conn->rtt, &engine->config.liveness,
                          engine->deferral.active, now_ns);
    if (state == RAWE_CONN_CONNECTING) {
        rawe_conn_send_connect(conn);
    } else if (state == RAWE_CONN_OPEN) {
        /* What was measured of another route says nothing of this one (RFC 9000 section 9.4). */
        rawe_conn_forget_path(conn);
        if (rawe_conn_send_probe(conn)) {
            rawe_liveness_probe_sent(&conn->liveness, now_ns);
            engine->counters.probes_sent++;
        }
        rawe_conn_make_pending(conn);
    } else {
        return;
    }
    rawe_conn_path_confirm_next(conn);
    (void)rawe_liveness_asked(&conn->liveness, &conn->rtt, &engine->config.liveness, now_ns);
    rawe_conn_arm(conn);
}

void rawe_conn_move(struct rawe_conn *conn, struct rawe_route *route, uint64_t now_ns)
{
    if (route != conn->route) {
        rawe_conn_path_migrated(conn, true, now_ns);
        move(conn, route, now_ns);
    }
}

/** True when this end of a connection is the one that stays. */
static bool stays(const struct rawe_conn *conn, const struct rawe_connect *from)
{
    const struct rawe_engine_config *us = &conn->engine->config;
    return us->jobid != from->jobid ? us->jobid < from->jobid : us->vpid < from->vpid;
}

void rawe_conn_follow_connect(struct rawe_conn *conn, struct rawe_route *route,
                              uint64_t incarnation, uint64_t now_ns)
{
    const struct rawe_acktr *acktr = conn->recvwin.acktr;
    /* A peer that has sent data has received our reply. */
    bool late = conn->handshake.state == RAWE_CONN_OPEN && acktr != NULL &&
                (acktr->next != conn->engine->config.first_sequence || acktr->beyond != 0);
    late = late || rawe_handshake_drops(&conn->handshake, incarnation);
    if (route != conn->route && !route->down && !late) {
        move(conn, route, now_ns);
    }
}

void rawe_conn_follow(struct rawe_conn *conn, struct rawe_route *route,
                      const struct rawe_connect *from, uint8_t migration, uint64_t now_ns)
{
    int8_t newer = (int8_t)(from->choice - migration);
    bool tie = newer == 0 && (!stays(conn, from) || now_ns - conn->migrated_ns >= STAY_NS);
    if (route != conn->route && !route->down && (newer > 0 || tie)) {
        rawe_conn_path_migrated(conn, false, now_ns);
        move(conn, route, now_ns);
    }
}

void rawe_conn_fail_back(struct rawe_conn *conn, const struct rawe_route *route, uint64_t now_ns)
{
    if (route == conn->preferred && route != conn->route && !route->down &&
        conn->handshake.state == RAWE_CONN_OPEN && now_ns >= conn->migrated_ns + FAIL_BACK_NS) {
        rawe_conn_move(conn, conn->preferred, now_ns);
    }
}
