/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * How a connection ends: by MPI_Finalize, by a CLOSE, or because one side gives up on the other.
 *
 * A finalizing process announces this in each control frame, because a peer may still be waiting
 * for its data or sending to it. It exits once the peer has acknowledged all data and has been
 * told, or is finalizing as well (doc/protocol.md, section 6). The states are TCP's before a
 * connection is closed (RFC 9293 section 3.3.2); an answered probe acknowledges the FIN:
 *
 *                           the peer says it is finalizing
 *        NONE (ESTABLISHED) ──────────────────────────────> PEER (CLOSE-WAIT)
 *             │ we finalize                                       │ we finalize
 *             v                                                   v
 *      ANNOUNCING (FIN-WAIT-1) ──────────────────────────> BOTH (CLOSING)
 *    it answers │  ^ new life                        it answers │  ^ new life
 *               v  │                                            v  │
 *      ANNOUNCED (FIN-WAIT-2) ───────────────────────────> BOTH_ANNOUNCED (TIME-WAIT)
 *                           <──────────────────────────────
 *                 in each row: it begins a new session, or we close
 *
 * Lingering, drained and closed are not separate states. A finalizing process lingers in the lower
 * two rows until rawe_conn_finalized allows it to leave. That depends on the send window
 * (rawe_conn_drained), on silence, and on what the peer needs, which is nothing after a fence. A
 * connection is closed in the handshake's states PEER_CLOSED and FAILED. It enters one of them from
 * any state above once we believe that the peer disowns it. With data in flight we wait first,
 * because the last acknowledgement may still arrive.
 *
 *      DISOWNED_NOT ── CLOSE ──────> DISOWNED_ENDED ──────> PEER_CLOSED; connects again
 *            │                             │ GIVEN_UP        if something is queued
 *            │                             v
 *            └─────── GIVEN_UP ───> DISOWNED_GIVEN_UP ────> FAILED
 *
 * Any other frame from the peer leads back to DISOWNED_NOT. The edges on the right are taken after
 * the peer has answered no probe for a second; from ENDED, at once if nothing is in flight or both
 * are finalizing. A silent or stuck peer also fails the connection, unless it is finalizing: then
 * it has exited, and needs none of our sends.
 */
#ifndef RAWE_CONN_END_H
#define RAWE_CONN_END_H

#include "rawe_conn_state.h"

enum rawe_end_event {
    RAWE_ON_FINALIZE,        /**< our process starts to finalize */
    RAWE_ON_ANSWER,          /**< the peer has answered a probe that announced this */
    RAWE_ON_PEER_FINALIZING, /**< the peer has said that it is finalizing */
    RAWE_ON_NEW_LIFE,        /**< new id: the peer disowned the old one, so announce again */
    RAWE_ON_FORGET_PEER,     /**< the peer is in a new session, or we close */
};

/** Follow the edge for this event in the diagram above, if there is one. */
void rawe_conn_end_step(struct rawe_conn *conn, enum rawe_end_event event);

/** Note from a control frame if the peer is finalizing, and if it knows that we are. */
void rawe_conn_note_finalizing(struct rawe_conn *conn, const struct rawe_header *header);

/**
 * Note that the peer process opens a connection and is not finalizing. If it announced that it was,
 * on any connection, it has begun another session since.
 */
void rawe_conn_note_session(struct rawe_conn *conn);

/** Note that the peer has sent a frame, so it had not ended the connection at that time. */
static inline void rawe_conn_note_owned(struct rawe_conn_end *end)
{
    end->disowned = RAWE_DISOWNED_NOT;
}

/**
 * The peer disowns the connection or, with `given_up`, has given up on us. Returns true if we
 * believe that. Data in flight has then failed, unless the peer is finalizing; and after
 * `given_up`, which is not believed while the owner is away, the owner may have closed `conn`.
 */
bool rawe_conn_disowned(struct rawe_conn *conn, bool given_up, uint64_t now_ns);

/** Process a CLOSE frame. The owner may close the connection. */
void rawe_conn_receive_close(struct rawe_conn *conn, const struct rawe_header *header,
                             uint64_t now_ns);

/** Send the CLOSE of a connection that is about to be freed. */
void rawe_conn_send_close(struct rawe_conn *conn);

/** Tell the peer's connection that ours has failed. */
void rawe_conn_send_given_up(struct rawe_conn *conn, uint32_t peer_id);

/** Answer a PROBE on a failed connection: the peer we gave up on is alive and must be told. */
void rawe_conn_answer_failed(struct rawe_conn *conn, const struct rawe_header *header,
                             const uint8_t *payload);

enum rawe_failure {
    RAWE_FAILURE_SILENT,    /**< the peer was silent or stuck for too long: tell the owner */
    RAWE_FAILURE_RENOUNCED, /**< the owner has given up on the process: tell the peer */
    RAWE_FAILURE_GIVEN_UP,  /**< the peer has given up on us: tell the owner */
};

/** Cancel the acknowledgement owed, and expect no more frames: the connection is ending. */
void rawe_conn_owe_nothing(struct rawe_conn *conn);
/** Fail the connection and its sends for good. The owner may close it in the callback. */
void rawe_conn_fail(struct rawe_conn *conn, enum rawe_failure failure, uint64_t silent_ns);

/** Complete all sends and return true if a finalizing peer, silent or stuck for 1 s, has exited. */
bool rawe_conn_peer_gone(struct rawe_conn *conn, uint64_t silent_ns);

/** The peer ended the connection: fail abandoned sends. `data_lost`: some was unacknowledged. */
void rawe_conn_complete_ended(struct rawe_conn *conn, struct rawe_send *abandoned, bool data_lost);

/** Tell the owner, once, if the peer ended the connection before it had all data. */
void rawe_conn_report_loss(struct rawe_conn *conn);

/** The owner's knowledge of a peer's remaining needs from our finalizing process. */
enum rawe_needs {
    RAWE_NEEDS_ALL,  /**< our data, and notice that we are finalizing: it may send to us */
    RAWE_NEEDS_DATA, /**< our data */
    RAWE_NEEDS_NONE, /**< nothing: it is finalizing as well, and has received all it waited for */
};

/** Whether a connection of a finalizing engine may be closed. The worst case comes last. */
enum rawe_finalized {
    RAWE_FINALIZED_DONE, /**< yes */
    RAWE_FINALIZED_LOST, /**< yes, but the peer may need data that it has not acknowledged */
    RAWE_FINALIZED_NOT,  /**< no: the peer may need something from us, or has not been told */
};

/**
 * Return whether the connection may be closed. Call repeatedly: only time between calls counts. If
 * the peer is silent or stuck, the result stays NOT for at most 30 s (the peer timeout, if that
 * is less). If it is silent and needs nothing, or needed only data and has acknowledged all of it, the
 * result stays NOT for at most a second.
 */
enum rawe_finalized rawe_conn_finalized(struct rawe_conn *conn, enum rawe_needs needs,
                                        uint64_t now_ns);

#endif
