/* SPDX-License-Identifier: BSD-3-Clause */
#include "rawe_conn_end.h"

#include "rawe_conn_batch.h"
#include "rawe_conn_connect.h"
#include "rawe_conn_tx.h"

/** A finalizing peer counts as gone after this long a silence; probes are far more frequent. */
#define GONE_NS 1000000000ull

/** After this time without an answer, we believe that the peer has ended the connection. */
#define DISOWNED_NS 1000000000ull

/** Longest wait in MPI_Finalize for a peer that makes no progress, unless the timeout is less. */
#define PATIENCE_NS 30000000000ull

/** While our process runs, rawe_conn_finalized is called at least this often. */
#define OWN_PAUSE_NS 100000000ull

/** A finalizing process cannot resend CLOSE, so it sends several. */
#define CLOSES_FINALIZING 3u

void rawe_conn_end_step(struct rawe_conn *conn, enum rawe_end_event event)
{
    static const uint8_t next[][RAWE_END_BOTH_ANNOUNCED + 1] = {
        /* NONE, ANNOUNCING, ANNOUNCED, PEER, BOTH, BOTH_ANNOUNCED */
        [RAWE_ON_FINALIZE] = {RAWE_END_ANNOUNCING, RAWE_END_ANNOUNCING, RAWE_END_ANNOUNCED,
                              RAWE_END_BOTH, RAWE_END_BOTH, RAWE_END_BOTH_ANNOUNCED},
        [RAWE_ON_ANSWER] = {RAWE_END_NONE, RAWE_END_ANNOUNCED, RAWE_END_ANNOUNCED, RAWE_END_PEER,
                            RAWE_END_BOTH_ANNOUNCED, RAWE_END_BOTH_ANNOUNCED},
        [RAWE_ON_PEER_FINALIZING] = {RAWE_END_PEER, RAWE_END_BOTH, RAWE_END_BOTH_ANNOUNCED,
                                     RAWE_END_PEER, RAWE_END_BOTH, RAWE_END_BOTH_ANNOUNCED},
        [RAWE_ON_NEW_LIFE] = {RAWE_END_NONE, RAWE_END_ANNOUNCING, RAWE_END_ANNOUNCING,
                              RAWE_END_PEER, RAWE_END_BOTH, RAWE_END_BOTH},
        [RAWE_ON_FORGET_PEER] = {RAWE_END_NONE, RAWE_END_ANNOUNCING, RAWE_END_ANNOUNCED,
                                 RAWE_END_NONE, RAWE_END_ANNOUNCING, RAWE_END_ANNOUNCED},
    };
    struct rawe_conn_end *end = &conn->end;
    bool peer = end->state >= RAWE_END_PEER;
    end->state = next[event][end->state];
    if (peer != (end->state >= RAWE_END_PEER)) {
        rawe_route_note_finalizing(conn->path.preferred, !peer);
    }
    if (event == RAWE_ON_FINALIZE) {
        end->announced_from = rawe_liveness_next_probe(&conn->path.liveness);
        rawe_conn_arm_idle(conn);
    } else if (event == RAWE_ON_NEW_LIFE) {
        rawe_conn_note_owned(end);
    }
}

void rawe_conn_note_finalizing(struct rawe_conn *conn, const struct rawe_header *header)
{
    struct rawe_conn_end *end = &conn->end;
    bool answers = header->type == RAWE_FRAME_ACK &&
                   (header->flags & RAWE_FLAG_PROBE_ANSWER) != 0 &&
                   header->sequence != RAWE_PROBE_PLAIN;
    if ((header->flags & RAWE_FLAG_FINALIZING) != 0) {
        rawe_conn_end_step(conn, RAWE_ON_PEER_FINALIZING);
    }
    end->heard = true;
    if (answers && !rawe_sequence_before(header->sequence, end->announced_from)) {
        rawe_conn_end_step(conn, RAWE_ON_ANSWER);
    }
}

void rawe_conn_note_session(struct rawe_conn *conn)
{
    const struct rawe_link *members = &conn->tx.ordered.order->members;
    for (struct rawe_link *link = members->next; link != members; link = link->next) {
        rawe_conn_end_step(RAWE_OWNER(link, struct rawe_conn, tx.ordered.link),
                           RAWE_ON_FORGET_PEER);
    }
}

/** Return true if the peer process has announced, on any connection, that it is finalizing. */
static bool peer_finalizing(const struct rawe_conn *conn)
{
    return conn->end.state >= RAWE_END_PEER || rawe_route_finalizing(conn->path.preferred);
}

/** Complete abandoned sends that the finalizing peer no longer needs; requests fail. */
static void complete_unneeded(struct rawe_engine *engine, struct rawe_send *list)
{
    struct rawe_sends done = {NULL}, failed = {NULL};
    while (list != NULL) {
        struct rawe_send *next = list->next;
        rawe_sends_append(rawe_fragment_is_request(list->kind) ? &failed : &done, list);
        list = next;
    }
    rawe_conn_complete(engine, done.first, RAWE_STATUS_DONE);
    rawe_conn_complete(engine, failed.first, RAWE_STATUS_FAILED);
}

void rawe_conn_complete_ended(struct rawe_conn *conn, struct rawe_send *abandoned, bool data_lost)
{
    struct rawe_engine *engine = conn->engine;
    conn->end.lost = conn->end.lost || data_lost;
    data_lost = data_lost && !engine->finalizing; /* else rawe_conn_finalized reports it */
    if (data_lost && engine->deferral->active) {
        engine->deferral->losses_wait = engine->deferral->pending = true;
    } else if (data_lost) {
        rawe_conn_report_loss(conn);
    }
    rawe_conn_complete(engine, abandoned, RAWE_STATUS_FAILED);
}

void rawe_conn_report_loss(struct rawe_conn *conn)
{
    bool lost = conn->end.lost && conn->engine->callbacks.lost != NULL;
    conn->end.lost = false;
    if (lost) {
        conn->engine->callbacks.lost(conn->engine->context, conn);
    }
}

void rawe_conn_owe_nothing(struct rawe_conn *conn)
{
    struct rawe_engine *engine = conn->engine;
    rawe_recvwin_stop(&conn->rx.window);
    rawe_grants_forget(&conn->path.into->pull.grants, &conn->rx.grant);
    rawe_list_remove(&conn->rx.owing);
    if (rawe_list_empty(&engine->owing)) {
        rawe_timer_cancel(&engine->timers, &engine->owing_timer);
    }
}

void rawe_conn_fail(struct rawe_conn *conn, enum rawe_failure failure, uint64_t silent_ns)
{
    struct rawe_engine *engine = conn->engine;
    if (failure == RAWE_FAILURE_RENOUNCED && conn->handshake.state == RAWE_CONN_OPEN) {
        rawe_conn_send_given_up(conn, conn->handshake.peer_id);
    }
    rawe_handshake_enter(&conn->handshake, RAWE_CONN_FAILED);
    rawe_timer_cancel(&engine->timers, &conn->timer);
    rawe_conn_owe_nothing(conn);
    engine->counters.peers_lost++;
    struct rawe_send *abandoned = rawe_conn_abandon(conn, true);
    /* The connection exists until its owner closes it, but its credit goes to other connections. */
    rawe_conn_reset(conn);
    rawe_conn_end_step(conn, RAWE_ON_NEW_LIFE);
    rawe_credit_close(&conn->path.into->pull.credit, conn->lane, &conn->rx.credit);
    if (failure == RAWE_FAILURE_SILENT && engine->callbacks.failed != NULL) {
        engine->callbacks.failed(engine->context, conn, silent_ns);
    } else if (failure == RAWE_FAILURE_GIVEN_UP && !engine->finalizing &&
               engine->callbacks.given_up != NULL) {
        engine->callbacks.given_up(engine->context, conn);
    }
    rawe_conn_complete(engine, abandoned, RAWE_STATUS_FAILED);
}

bool rawe_conn_peer_gone(struct rawe_conn *conn, uint64_t silent_ns)
{
    uint64_t timeout_ns = conn->engine->config.liveness.peer_timeout_ns;
    uint64_t least_ns = timeout_ns != 0 && timeout_ns < GONE_NS ? timeout_ns : GONE_NS;
    if (silent_ns < least_ns || !peer_finalizing(conn)) {
        return false;
    }
    struct rawe_send *abandoned = rawe_conn_abandon(conn, true);
    if (conn->handshake.state == RAWE_CONN_CONNECTING) {
        rawe_handshake_enter(&conn->handshake, RAWE_CONN_IDLE);
    }
    rawe_conn_batch_cancel(&conn->path);
    rawe_sendwin_plan_search(&conn->tx.window, 0);
    rawe_liveness_expect_nothing(&conn->path.liveness);
    rawe_conn_want_no_credit(&conn->tx);
    complete_unneeded(conn->engine, abandoned);
    return true;
}

/* ---- CLOSE frames ---- */

void rawe_conn_send_given_up(struct rawe_conn *conn, uint32_t peer_id)
{
    rawe_conn_transmit_to(conn, peer_id, RAWE_FRAME_CLOSE, RAWE_FLAG_GIVEN_UP, 0, NULL, 0);
}

void rawe_conn_send_close(struct rawe_conn *conn)
{
    unsigned closes = conn->engine->finalizing ? CLOSES_FINALIZING : 1;
    bool failed = conn->handshake.state == RAWE_CONN_FAILED && conn->handshake.peer_id != 0;
    while ((failed || conn->handshake.state == RAWE_CONN_OPEN) && closes-- != 0) {
        rawe_conn_transmit_control(conn, RAWE_FRAME_CLOSE, failed ? RAWE_FLAG_GIVEN_UP : 0, 0, NULL,
                                   0);
    }
}

void rawe_conn_answer_failed(struct rawe_conn *conn, const struct rawe_header *header,
                             const uint8_t *payload)
{
    struct rawe_connect from;
    if (conn->handshake.state == RAWE_CONN_FAILED && header->type == RAWE_FRAME_PROBE &&
        rawe_connect_decode(&from, payload, header->payload_bytes) == RAWE_DECODE_OK) {
        rawe_conn_send_given_up(conn, from.connection_id);
    }
}

bool rawe_conn_disowned(struct rawe_conn *conn, bool given_up, uint64_t now_ns)
{
    struct rawe_conn_end *end = &conn->end;
    const struct rawe_send *head = conn->tx.queue.first;
    bool regular = peer_finalizing(conn);
    bool data_lost =
        !rawe_sendwin_empty(&conn->tx.window) || (head != NULL && head->framed_bytes != 0);
    end->disowned_ns = end->disowned == RAWE_DISOWNED_NOT ? now_ns : end->disowned_ns;
    given_up = given_up || end->disowned == RAWE_DISOWNED_GIVEN_UP;
    end->disowned = given_up ? RAWE_DISOWNED_GIVEN_UP : RAWE_DISOWNED_ENDED;
    bool doubtful = given_up || (data_lost && !(regular && conn->engine->finalizing));
    if (doubtful &&
        (now_ns - end->disowned_ns < DISOWNED_NS || conn->path.liveness.probes_unanswered == 0)) {
        /* Send no more queued data, because it would be lost. Probe if nothing is in flight. */
        rawe_conn_revoke_credit(&conn->tx);
        rawe_conn_arm_idle(conn);
        return false;
    }
    if (given_up) {
        if (conn->engine->deferral->active && !conn->engine->finalizing) {
            return false;
        }
        rawe_conn_fail(conn, RAWE_FAILURE_GIVEN_UP, 0);
        return true;
    }
    struct rawe_send *abandoned = rawe_conn_abandon(conn, regular);
    rawe_conn_renew(conn, true);
    rawe_conn_end_step(conn, RAWE_ON_NEW_LIFE);
    rawe_handshake_enter(&conn->handshake, RAWE_CONN_PEER_CLOSED);
    rawe_credit_close(&conn->path.into->pull.credit, conn->lane, &conn->rx.credit);
    if (conn->tx.queue.first != NULL || conn->tx.window.held != NULL) {
        rawe_conn_connect(conn, now_ns);
    }
    if (regular) {
        complete_unneeded(conn->engine, abandoned);
    } else {
        /* Operations whose requests have arrived may still be awaiting replies. */
        rawe_conn_complete_ended(conn, abandoned, data_lost || abandoned != NULL);
    }
    return true;
}

void rawe_conn_receive_close(struct rawe_conn *conn, const struct rawe_header *header,
                             uint64_t now_ns)
{
    struct rawe_engine *engine = conn->engine; /* the owner may close the connection */
    struct rawe_send *arrived = NULL;
    if ((header->flags & RAWE_FLAG_GIVEN_UP) != 0) {
        (void)rawe_conn_disowned(conn, true, now_ns);
        return;
    }
    rawe_conn_note_finalizing(conn, header);
    /* A CLOSE carries an acknowledgement unless it answers a PROBE (REPLY). */
    if ((header->flags & RAWE_FLAG_REPLY) == 0 &&
        header->acknowledgement - conn->tx.window.una <= rawe_sendwin_used(&conn->tx.window)) {
        arrived = rawe_conn_release_before(conn, header->acknowledgement);
    }
    (void)rawe_conn_disowned(conn, false, now_ns);
    rawe_conn_complete(engine, arrived, RAWE_STATUS_DONE);
}

/* ---- leaving in MPI_Finalize ---- */

/** Update how long the peer has been silent or stuck, not counting time when we did not run. */
static void note_passed(struct rawe_conn *conn, uint64_t now_ns)
{
    struct rawe_conn_end *end = &conn->end;
    uint64_t passed_ns = end->asked_ns != 0 ? now_ns - end->asked_ns : 0;
    passed_ns = passed_ns < OWN_PAUSE_NS ? passed_ns : OWN_PAUSE_NS;
    end->asked_ns = now_ns;
    end->silent_ns = end->heard ? 0 : end->silent_ns + passed_ns;
    end->heard = false;
    end->stuck_ns = end->una != conn->tx.window.una ? 0 : end->stuck_ns + passed_ns;
    end->una = conn->tx.window.una;
}

enum rawe_finalized rawe_conn_finalized(struct rawe_conn *conn, enum rawe_needs needs,
                                        uint64_t now_ns)
{
    const struct rawe_conn_end *end = &conn->end;
    uint64_t timeout_ns = conn->engine->config.liveness.peer_timeout_ns;
    bool announced = end->state == RAWE_END_ANNOUNCED || end->state == RAWE_END_BOTH_ANNOUNCED;
    bool connecting = conn->handshake.state == RAWE_CONN_CONNECTING;
    bool unheard = connecting && conn->handshake.peer_incarnation == 0;
    bool drained = rawe_conn_drained(conn);
    note_passed(conn, now_ns);
    bool silent = end->silent_ns >= GONE_NS;
    /* Consult the other connections to the peer only if this one does not know. */
    bool unneeded = needs == RAWE_NEEDS_NONE || end->state >= RAWE_END_PEER ||
                    ((unheard || silent || end->lost) && peer_finalizing(conn));
    enum rawe_finalized ended =
        unneeded || (drained && !end->lost) ? RAWE_FINALIZED_DONE : RAWE_FINALIZED_LOST;
    if (!connecting && conn->handshake.state != RAWE_CONN_OPEN) {
        return ended;
    }
    if (unneeded ? unheard || silent || announced || end->disowned != RAWE_DISOWNED_NOT
                 : drained && (announced || (silent && needs == RAWE_NEEDS_DATA))) {
        return ended;
    }
    uint64_t patience_ns = timeout_ns != 0 && timeout_ns < PATIENCE_NS ? timeout_ns : PATIENCE_NS;
    return end->stuck_ns >= patience_ns ? ended : RAWE_FINALIZED_NOT;
}
