/* SPDX-License-Identifier: BSD-3-Clause */
#include "rawe_conn_finalize.h"

#include "rawe_conn_control.h"

/** Longest wait in MPI_Finalize for a peer without progress, if peers are never given up. */
#define PATIENCE_NS 30000000000ull

/** While our process runs, calls of rawe_conn_finalized are at most this far apart. */
#define OWN_PAUSE_NS 100000000ull

void rawe_conn_announce_finalizing(struct rawe_conn *conn)
{
    struct rawe_conn_end *end = &conn->end;
    end->announced_from = rawe_liveness_next_probe(&conn->path.liveness);
    rawe_conn_arm_idle(conn);
}

void rawe_conn_finalize_reset(struct rawe_conn *conn)
{
    struct rawe_conn_end *end = &conn->end;
    end->announced = false;
    rawe_conn_note_owned(&conn->end);
}

void rawe_conn_forget_finalizing(struct rawe_conn *conn)
{
    struct rawe_conn_end *end = &conn->end;
    if (end->peer) {
        rawe_route_note_finalizing(conn->path.preferred, false);
    }
    end->peer = false;
}

void rawe_conn_note_finalizing(struct rawe_conn *conn, const struct rawe_header *header)
{
    struct rawe_conn_end *end = &conn->end;
    if ((header->flags & RAWE_FLAG_FINALIZING) != 0 && !end->peer) {
        end->peer = true;
        rawe_route_note_finalizing(conn->path.preferred, true);
    }
    end->heard = true;
    bool answers = header->type == RAWE_FRAME_ACK &&
                   (header->flags & RAWE_FLAG_PROBE_ANSWER) != 0 &&
                   header->sequence != RAWE_PROBE_PLAIN;
    if (conn->engine->finalizing && answers &&
        !rawe_sequence_before(header->sequence, end->announced_from)) {
        end->announced = true;
    }
}

uint64_t rawe_conn_note_disowned(struct rawe_conn_end *end, bool given_up, uint64_t now_ns)
{
    end->given_up = end->given_up || given_up;
    if (end->disowned_ns == 0) {
        end->disowned_ns = now_ns;
    }
    return end->disowned_ns;
}

bool rawe_conn_peer_finalizing(const struct rawe_conn *conn)
{
    return conn->end.peer || rawe_route_finalizing(conn->path.preferred);
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
    struct rawe_conn_end *end = &conn->end;
    end->lost |= data_lost && engine->finalizing;
    data_lost = data_lost && !engine->finalizing;
    if (data_lost && engine->deferral->active) {
        end->report_loss = engine->deferral->losses_wait = engine->deferral->pending = true;
    } else if (data_lost && engine->callbacks.lost != NULL) {
        engine->callbacks.lost(engine->context, conn);
    }
    rawe_conn_complete(engine, abandoned, RAWE_STATUS_FAILED);
}

bool rawe_conn_take_loss(struct rawe_conn_end *end)
{
    bool lost = end->report_loss;
    end->report_loss = false;
    return lost;
}

/** Update how long the peer was silent or stuck, not counting time in which we did not run. */
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
    bool connecting = conn->handshake.state == RAWE_CONN_CONNECTING;
    bool unheard = connecting && conn->handshake.peer_incarnation == 0;
    bool drained = rawe_conn_idle(conn) && conn->tx.window.held == NULL;
    note_passed(conn, now_ns);
    bool silent = end->silent_ns >= RAWE_CONN_GONE_NS;
    /* Consult the other connections to the peer only if this one cannot tell. */
    bool unneeded = needs == RAWE_NEEDS_NONE || end->peer ||
                    ((unheard || silent || end->lost) && rawe_conn_peer_finalizing(conn));
    enum rawe_finalized ended =
        unneeded || (drained && !end->lost) ? RAWE_FINALIZED_DONE : RAWE_FINALIZED_LOST;
    if (!connecting && conn->handshake.state != RAWE_CONN_OPEN) {
        return ended;
    }
    if (unneeded ? unheard || silent || end->announced || end->disowned_ns != 0
                 : drained && (end->announced || (silent && needs == RAWE_NEEDS_DATA))) {
        return ended;
    }
    return end->stuck_ns >= (timeout_ns != 0 ? timeout_ns : PATIENCE_NS) ? ended
                                                                         : RAWE_FINALIZED_NOT;
}
