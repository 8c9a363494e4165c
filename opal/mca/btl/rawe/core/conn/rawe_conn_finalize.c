/* SPDX-License-Identifier: BSD-3-Clause */
#include "rawe_conn_finalize.h"

#include "rawe_conn_control.h"

/** Longest wait in MPI_Finalize for a peer without progress, if peers are never given up. */
#define PATIENCE_NS 30000000000ull

/** While our process runs, calls of rawe_conn_finalized are at most this far apart. */
#define OWN_PAUSE_NS 100000000ull

void rawe_conn_announce_finalizing(struct rawe_conn *conn)
{
    struct rawe_conn_finalize *finalize = &conn->finalize;
    finalize->announced_from = rawe_liveness_next_probe(&conn->liveness);
    rawe_conn_arm_idle(conn);
}

void rawe_conn_finalize_reset(struct rawe_conn *conn)
{
    struct rawe_conn_finalize *finalize = &conn->finalize;
    finalize->announced = false;
    rawe_conn_note_owned(conn);
}

void rawe_conn_forget_finalizing(struct rawe_conn *conn)
{
    struct rawe_conn_finalize *finalize = &conn->finalize;
    if (finalize->peer) {
        rawe_route_note_finalizing(conn->preferred, false);
    }
    finalize->peer = false;
}

void rawe_conn_note_finalizing(struct rawe_conn *conn, const struct rawe_header *header)
{
    struct rawe_conn_finalize *finalize = &conn->finalize;
    if ((header->flags & RAWE_FLAG_FINALIZING) != 0 && !finalize->peer) {
        finalize->peer = true;
        rawe_route_note_finalizing(conn->preferred, true);
    }
    finalize->heard = true;
    bool answers = header->type == RAWE_FRAME_ACK &&
                   (header->flags & RAWE_FLAG_PROBE_ANSWER) != 0 &&
                   header->sequence != RAWE_PROBE_PLAIN;
    if (conn->engine->finalizing && answers &&
        !rawe_sequence_before(header->sequence, finalize->announced_from)) {
        finalize->announced = true;
    }
}

uint64_t rawe_conn_note_disowned(struct rawe_conn *conn, bool given_up, uint64_t now_ns)
{
    struct rawe_conn_finalize *finalize = &conn->finalize;
    finalize->given_up = finalize->given_up || given_up;
    if (finalize->disowned_ns == 0) {
        finalize->disowned_ns = now_ns;
    }
    return finalize->disowned_ns;
}

bool rawe_conn_peer_finalizing(const struct rawe_conn *conn)
{
    return conn->finalize.peer || rawe_route_finalizing(conn->preferred);
}

void rawe_conn_complete_unneeded(struct rawe_engine *engine, struct rawe_send *list)
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
    struct rawe_conn_finalize *finalize = &conn->finalize;
    finalize->lost |= data_lost && engine->finalizing;
    data_lost = data_lost && !engine->finalizing;
    if (data_lost && engine->deferral->active) {
        finalize->report_loss = engine->deferral->losses_wait = engine->deferral->pending = true;
    } else if (data_lost && engine->callbacks.lost != NULL) {
        engine->callbacks.lost(engine->context, conn);
    }
    rawe_conn_complete(engine, abandoned, RAWE_STATUS_FAILED);
}

bool rawe_conn_take_loss(struct rawe_conn *conn)
{
    struct rawe_conn_finalize *finalize = &conn->finalize;
    bool lost = finalize->report_loss;
    finalize->report_loss = false;
    return lost;
}

/** Update how long the peer was silent or stuck, not counting time in which we did not run. */
static void note_passed(struct rawe_conn *conn, uint64_t now_ns)
{
    struct rawe_conn_finalize *finalize = &conn->finalize;
    uint64_t passed_ns = finalize->asked_ns != 0 ? now_ns - finalize->asked_ns : 0;
    passed_ns = passed_ns < OWN_PAUSE_NS ? passed_ns : OWN_PAUSE_NS;
    finalize->asked_ns = now_ns;
    finalize->silent_ns = finalize->heard ? 0 : finalize->silent_ns + passed_ns;
    finalize->heard = false;
    finalize->stuck_ns = finalize->una != conn->sendwin.una ? 0 : finalize->stuck_ns + passed_ns;
    finalize->una = conn->sendwin.una;
}

enum rawe_finalized rawe_conn_finalized(struct rawe_conn *conn, enum rawe_needs needs,
                                        uint64_t now_ns)
{
    const struct rawe_conn_finalize *finalize = &conn->finalize;
    uint64_t timeout_ns = conn->engine->config.liveness.peer_timeout_ns;
    bool connecting = conn->handshake.state == RAWE_CONN_CONNECTING;
    bool unheard = connecting && conn->handshake.peer_incarnation == 0;
    bool drained = rawe_conn_idle(conn) && conn->sendwin.held == NULL;
    note_passed(conn, now_ns);
    bool silent = finalize->silent_ns >= RAWE_CONN_GONE_NS;
    /* Consult the other connections to the peer only if this one cannot tell. */
    bool unneeded = needs == RAWE_NEEDS_NONE || finalize->peer ||
                    ((unheard || silent || finalize->lost) && rawe_conn_peer_finalizing(conn));
    enum rawe_finalized ended =
        unneeded || (drained && !finalize->lost) ? RAWE_FINALIZED_DONE : RAWE_FINALIZED_LOST;
    if (!connecting && conn->handshake.state != RAWE_CONN_OPEN) {
        return ended;
    }
    if (unneeded ? unheard || silent || finalize->announced || finalize->disowned_ns != 0
                 : drained && (finalize->announced || (silent && needs == RAWE_NEEDS_DATA))) {
        return ended;
    }
    return finalize->stuck_ns >= (timeout_ns != 0 ? timeout_ns : PATIENCE_NS) ? ended
                                                                              : RAWE_FINALIZED_NOT;
}
