/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * A connection as a whole: opening, closing, timers, the end of a round.
 */
#include "rawe_conn.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "rawe_conn_batch.h"
#include "rawe_conn_connect.h"
#include "rawe_conn_tx.h"
#include "rawe_conn_end.h"
#include "rawe_conn_ack.h"
#include "rawe_conn_path.h"
#include "rawe_conn_receive.h"
#include "rawe_conn_send.h"

static void timer_expired(struct rawe_timer *timer, uint64_t now_ns);

/** Allocate a connection in its initial state, without an id. Returns NULL when out of memory. */
static struct rawe_conn *create_conn(struct rawe_route *preferred, unsigned lane,
                                     struct rawe_peer *peer, void *owner)
{
    struct rawe_engine *engine = preferred->engine;
    struct rawe_conn *conn = calloc(1, sizeof(*conn));
    if (conn == NULL) {
        return NULL;
    }
    conn->engine = engine;
    conn->owner = owner;
    conn->peer = peer;
    conn->lane = (uint8_t)lane;
    rawe_liveness_init(&conn->path.liveness, &conn->tx.rtt, &engine->config.liveness);
    rawe_conn_path_open(conn, preferred);
    rawe_sendqueue_init(&conn->tx.queue, engine->config.first_sequence);
    rawe_sendwin_init(&conn->tx.window, engine->config.window_frames,
                      engine->config.first_sequence);
    rawe_timer_init(&conn->timer, timer_expired);
    rawe_order_add(preferred->order, &conn->tx.ordered);
    rawe_conn_reset(conn);
    if (engine->finalizing) {
        rawe_conn_end_step(conn, RAWE_ON_FINALIZE);
    }
    return conn;
}

struct rawe_conn *rawe_conn_open(struct rawe_route *preferred, unsigned lane,
                                 struct rawe_peer *peer, void *owner)
{
    struct rawe_engine *engine = preferred->engine;
    struct rawe_route *best = rawe_route_best(preferred);
    struct rawe_conn *conn = create_conn(preferred, lane, peer, owner);
    uint32_t local_id = conn != NULL ? rawe_conn_table_add(engine->table, conn) : 0;
    if (local_id == 0) {
        if (conn != NULL) {
            rawe_order_remove(&conn->tx.ordered);
        }
        free(conn);
        return NULL;
    }
    rawe_handshake_begin(&conn->handshake, local_id, ++engine->incarnation);
    engine->connections++;
    rawe_credit_open(&engine->pull.credit, conn->lane, &conn->rx.credit);
    rawe_conn_path_use(conn, best != NULL ? best : preferred);
    return conn;
}

void rawe_conn_receive_connect(struct rawe_conn *conn, const struct rawe_connect *from, bool reply,
                               uint64_t now_ns)
{
    struct rawe_engine *engine = conn->engine;
    struct rawe_send *abandoned = NULL;
    bool data_lost = false;
    engine->counters.connects_received++;
    enum rawe_handshake_verdict verdict = rawe_handshake_judge(&conn->handshake, from->incarnation);
    if (verdict == RAWE_HANDSHAKE_DROP) {
        engine->counters.dropped_connection++;
        if (conn->handshake.state == RAWE_CONN_FAILED && !reply) {
            rawe_conn_send_given_up(conn, from->connection_id);
        }
        return;
    }
    if (verdict == RAWE_HANDSHAKE_RESTART && conn->handshake.state == RAWE_CONN_OPEN) {
        /* Data in flight may be lost. After a CLOSE, none is in flight. */
        data_lost = !rawe_sendwin_empty(&conn->tx.window);
        abandoned = rawe_conn_abandon(conn, false);
    }
    if (verdict != RAWE_HANDSHAKE_SAME) {
        rawe_conn_renew(conn, verdict == RAWE_HANDSHAKE_RESTART);
        rawe_conn_end_step(conn, RAWE_ON_NEW_LIFE);
        rawe_handshake_enter(&conn->handshake, RAWE_CONN_IDLE);
    }
    if (reply && conn->handshake.state == RAWE_CONN_CONNECTING) {
        rawe_conn_note_owned(&conn->end);
    }
    rawe_conn_answer(conn, from, reply, now_ns);
    rawe_conn_complete_ended(conn, abandoned, data_lost || abandoned != NULL);
}

/** Send CONNECT or a probe at once. It reveals our address; the answer reports what arrived. */
static void ask_at_once(struct rawe_conn *conn, uint64_t now_ns)
{
    if (conn->handshake.state == RAWE_CONN_CONNECTING) {
        rawe_conn_send_connect(conn);
    } else if (rawe_conn_send_probe(conn)) {
        rawe_liveness_probe_sent(&conn->path.liveness, now_ns);
        conn->engine->counters.probes_sent++;
    }
    rawe_conn_make_pending(conn);
    (void)rawe_liveness_asked(&conn->path.liveness, now_ns);
    rawe_conn_arm(conn);
}

/** Return true if the state allows us to send CONNECT or a probe. */
static bool may_ask_peer(const struct rawe_conn *conn)
{
    return conn->handshake.state == RAWE_CONN_CONNECTING || conn->handshake.state == RAWE_CONN_OPEN;
}

void rawe_conn_move(struct rawe_conn *conn, struct rawe_route *route, uint64_t now_ns)
{
    struct rawe_engine *engine = conn->engine;
    bool was_dead = conn->path.via->no_carrier;
    now_ns = rawe_engine_time(engine, now_ns);
    rawe_conn_path_use(conn, route);
    rawe_conn_batch_move(conn);
    engine->counters.migrations++;
    rawe_liveness_migrate(&conn->path.liveness, engine->deferral->active, now_ns);
    if (conn->handshake.state == RAWE_CONN_OPEN) {
        /* Discard what was measured on the old route (RFC 9000 section 9.4). */
        rawe_conn_forget_path(conn, was_dead);
    }
    if (may_ask_peer(conn)) {
        ask_at_once(conn, now_ns);
    }
}

void rawe_conn_readdress(struct rawe_conn *conn, uint64_t now_ns)
{
    now_ns = rawe_engine_time(conn->engine, now_ns);
    rawe_conn_path_use(conn, conn->path.route);
    if (may_ask_peer(conn)) {
        rawe_liveness_migrate(&conn->path.liveness, conn->engine->deferral->active, now_ns);
        /* Probe until the peer answers, even if no acknowledgement is due. */
        (void)rawe_liveness_ask_idle(&conn->path.liveness, true);
        ask_at_once(conn, now_ns);
    }
}

void rawe_conn_close(struct rawe_conn *conn, uint64_t now_ns)
{
    struct rawe_engine *engine = conn->engine;
    engine->now_ns = now_ns;
    rawe_conn_send_close(conn);
    rawe_handshake_enter(&conn->handshake, RAWE_CONN_FAILED); /* a `done` may try to send */
    rawe_conn_complete(engine, rawe_conn_abandon(conn, true), RAWE_STATUS_FAILED);
    rawe_deferral_forget(engine->deferral, conn);
    rawe_reassembly_clear(&conn->rx.reassembly, &engine->reassembly_buffers, 0);
    rawe_timer_cancel(&engine->timers, &conn->timer);
    rawe_conn_owe_nothing(conn);
    rawe_list_remove(&conn->pending);
    rawe_order_remove(&conn->tx.ordered);
    rawe_conn_end_step(conn, RAWE_ON_FORGET_PEER);
    rawe_conn_table_remove(engine->table, conn->handshake.local_id);
    engine->table->migrated -= conn->path.predicted == NULL;
    engine->connections--;
    rawe_credit_close(&conn->path.into->pull.credit, conn->lane, &conn->rx.credit);
    rawe_sliced_free(&conn->rx.sliced);
    rawe_recvwin_reset(&conn->rx.window, 0);
    rawe_liveness_reset(&conn->path.liveness);
    free(conn);
}

/** Report a stall: probes are answered, but the oldest frame never arrives. False: failed. */
static bool check_stall(struct rawe_conn *conn, uint64_t now_ns)
{
    struct rawe_engine *engine = conn->engine;
    const uint64_t timeout_ns = engine->config.liveness.peer_timeout_ns;
    const struct rawe_sendwin *window = &conn->tx.window;
    /* A peer that grants no credit is alive, and we send it nothing, so it is not stalled. */
    bool sends = !rawe_sendwin_empty(window) && conn->tx.peer_credit != 0;
    unsigned sendings = sends ? window->oldest->sendings : 0;
    /* A finalizing engine defers to the end; rawe_conn_finalized decides when to give up. */
    bool absent = engine->deferral->active && !engine->finalizing;
    uint64_t stalled_ns =
        rawe_liveness_stalled_ns(&conn->path.liveness, window->una, sendings, absent, now_ns);
    if (timeout_ns != 0 && stalled_ns >= timeout_ns && !engine->finalizing) {
        if (rawe_conn_peer_gone(conn, stalled_ns)) {
            return true;
        }
        rawe_conn_fail(conn, RAWE_FAILURE_SILENT, stalled_ns);
        return false;
    }
    /* If the peer refuses short frames, longer ones may no longer pass: validate the path. */
    bool refused = !sends && !absent && !rawe_sendwin_empty(window) &&
                   window->oldest->sendings >= RAWE_LIVENESS_STALL_SENDINGS;
    if ((stalled_ns != 0 || refused) && conn->path.liveness.probes_unanswered == 0 &&
        engine->callbacks.stalled != NULL) {
        engine->callbacks.stalled(engine->context, conn, stalled_ns);
    }
    return true;
}

/** Probe, suspect or give up on the peer. False: given up on; `conn` may already be closed. */
static bool ask_peer(struct rawe_conn *conn, uint64_t now_ns)
{
    struct rawe_engine *engine = conn->engine;
    struct rawe_liveness *liveness = &conn->path.liveness;
    uint64_t silent_ns;
    const bool given_up = conn->end.disowned == RAWE_DISOWNED_GIVEN_UP;
    /* A peer that has ended the connection answers no probe. */
    if (conn->end.disowned != RAWE_DISOWNED_NOT && liveness->probes_unanswered != 0 &&
        rawe_conn_disowned(conn, false, now_ns)) {
        return !given_up;
    }
    if (!check_stall(conn, now_ns)) {
        return false;
    }
    enum rawe_liveness_verdict verdict =
        rawe_liveness_expire(liveness, engine->deferral->active, now_ns, &silent_ns);
    if (rawe_conn_peer_gone(conn, silent_ns)) {
        return true;
    }
    if (verdict == RAWE_LIVENESS_GIVE_UP) {
        rawe_conn_fail(conn, RAWE_FAILURE_SILENT, silent_ns);
        return false;
    }
    if (conn->handshake.state == RAWE_CONN_CONNECTING) {
        rawe_conn_send_connect(conn);
    } else if (rawe_conn_send_probe(conn)) {
        rawe_liveness_probe_sent(liveness, now_ns);
        engine->counters.probes_sent++;
        rawe_route_note_asked(conn->path.preferred, now_ns);
    }
    bool doubt = rawe_liveness_asked(liveness, now_ns);
    if (conn->handshake.state == RAWE_CONN_CONNECTING) {
        rawe_liveness_spread(liveness, now_ns);
    }
    if (doubt && engine->callbacks.silent != NULL) {
        engine->callbacks.silent(engine->context, conn, silent_ns);
    }
    return true;
}

static void timer_expired(struct rawe_timer *timer, uint64_t now_ns)
{
    struct rawe_conn *conn = RAWE_OWNER(timer, struct rawe_conn, timer);
    if (conn->tx.window.loss_deadline_ns != 0 && now_ns >= conn->tx.window.loss_deadline_ns) {
        rawe_sendwin_plan_search(&conn->tx.window, 0);
        rawe_conn_detect_losses(conn, now_ns);
        rawe_conn_make_pending(conn);
    }
    rawe_conn_correct_probe(conn, now_ns);
    uint64_t idle_ns = rawe_conn_idle_deadline_ns(conn);
    uint64_t probe_ns = conn->path.liveness.probe_deadline_ns;
    bool owed = idle_ns != 0 && now_ns >= idle_ns;
    bool idle_asked = rawe_liveness_ask_idle(&conn->path.liveness, owed);
    if (probe_ns != 0 && now_ns >= probe_ns) {
        rawe_liveness_ask_at(&conn->path.liveness, 0);
        owed = conn->handshake.state == RAWE_CONN_CONNECTING || !rawe_conn_idle(conn) ||
               conn->tx.wants_credit || idle_asked;
        if (!owed) {
            rawe_liveness_expect_nothing(&conn->path.liveness);
        }
    }
    if (owed && !ask_peer(conn, now_ns)) {
        return;
    }
    rawe_conn_arm(conn);
    rawe_conn_arm_idle(conn);
}

/** Send the acknowledgement that is due. Returns false if the link is full: the ACK stays due. */
static bool flush_ack(struct rawe_conn *conn)
{
    struct rawe_recvwin *window = &conn->rx.window;
    uint8_t sack[RAWE_SACK_BYTES_MAX];
    size_t sack_bytes = rawe_recvwin_sack(window, sack);
    uint8_t flags = (uint8_t)((window->answer_probe ? RAWE_FLAG_PROBE_ANSWER : 0) |
                              (window->duplicate_seen ? RAWE_FLAG_DUPLICATE : 0) |
                              (conn->rx.credit.refused ? RAWE_FLAG_REFUSED : 0));
    uint32_t number = window->answer_probe ? window->answer_number : 0;
    if (conn->path.via->link_full) {
        return false;
    }
    if (!rawe_conn_transmit_control(conn, RAWE_FRAME_ACK, flags, number, sack, sack_bytes)) {
        conn->engine->counters.blocked_port++;
        conn->path.via->link_full = true;
        return false;
    }
    conn->engine->counters.acks_sent++;
    rawe_recvwin_acknowledged(window);
    return true;
}

void rawe_conn_flush(struct rawe_conn *conn, uint64_t now_ns)
{
    const struct rawe_recvwin *window = &conn->rx.window;
    bool waits;
    if (conn->handshake.state != RAWE_CONN_OPEN) {
        return; /* an owed acknowledgement must wait for the peer's id */
    }
    rawe_conn_coalesce_flush(conn, now_ns);
    waits = conn->tx.queue.first != NULL || conn->tx.window.to_transmit != 0;
    if (waits && rawe_recvwin_can_be_carried(window) && !conn->rx.credit.refused) {
        rawe_conn_output(conn, true, now_ns);
        waits = false;
    }
    if (rawe_recvwin_due(window) && conn->handshake.state == RAWE_CONN_OPEN && !flush_ack(conn)) {
        rawe_conn_make_pending(conn);
    } else if (waits) {
        rawe_conn_output(conn, true, now_ns);
    }
}
