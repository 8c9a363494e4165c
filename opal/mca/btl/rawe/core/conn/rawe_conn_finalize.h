/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * How MPI_Finalize ends a connection. A process that finalizes late may be waiting for data from
 * one that is about to leave, and may have data in flight to it that it no longer takes. So a
 * finalizing process says so in each control frame. It leaves once the peer has acknowledged
 * everything and knows, or finalizes as well. A peer that knows loses nothing with the connection.
 *
 *       finalizes                                    does not, yet
 *     begins to ask │── PROBE, FINALIZING ───────────────>│ knows now
 *                   │<─────────── ACK, PROBE_ANSWER ──────│
 *    what was sent, │── DATA, as often as it takes ──────>│ needs it
 *      is delivered │<──────────────────────────── ACK ───│
 *            leaves │── CLOSE, FINALIZING, three times ──>│ what it has sent is complete
 */
#ifndef RAWE_CONN_FINALIZE_H
#define RAWE_CONN_FINALIZE_H

#include "rawe_conn_state.h"

/** A finalizing peer counts as gone after this silence, in ns; probes are far more frequent. */
#define RAWE_CONN_GONE_NS 1000000000ull

/** Our engine finalizes: probe the peer until it knows. */
void rawe_conn_announce_finalizing(struct rawe_conn *conn);

/** Start a new life of the connection: the peer must be told again. */
void rawe_conn_finalize_reset(struct rawe_conn *conn);

/** Forget that the peer finalizes: it said so in an earlier life. */
void rawe_conn_forget_finalizing(struct rawe_conn *conn);

/** Note from a control frame whether the peer finalizes, and whether it answers our own notice. */
void rawe_conn_note_finalizing(struct rawe_conn *conn, const struct rawe_header *header);

/** The peer says that it has ended the connection, or knows none. Returns since when it has. */
uint64_t rawe_conn_note_disowned(struct rawe_conn_end *end, bool given_up, uint64_t now_ns);

/** The peer has sent something, so it had not ended the connection when it did. */
static inline void rawe_conn_note_owned(struct rawe_conn_end *end)
{
    end->disowned_ns = 0;
    end->given_up = false;
}

/** Return true if the peer's process has said that it finalizes, on this or another connection. */
bool rawe_conn_peer_finalizing(const struct rawe_conn *conn);

/** Complete abandoned sends that the finalizing peer no longer needs; requests fail. */
void rawe_conn_complete_unneeded(struct rawe_engine *engine, struct rawe_send *list);
/** Fail sends abandoned because the peer ended it; `data_lost`: some was not acknowledged. */
void rawe_conn_complete_ended(struct rawe_conn *conn, struct rawe_send *abandoned, bool data_lost);

/** What a peer still needs when our process finalizes, as far as the owner knows. */
enum rawe_needs {
    RAWE_NEEDS_ALL,  /**< our data, and to know that we finalize, because it may send to us */
    RAWE_NEEDS_DATA, /**< our data */
    RAWE_NEEDS_NONE, /**< nothing: it finalizes as well, and has received whatever it waited for */
};

/** Return true, once, if the peer ended it with data missing while the owner was away. */
bool rawe_conn_take_loss(struct rawe_conn_end *end);

/** Whether a connection of a finalizing engine may be closed. */
enum rawe_finalized {
    RAWE_FINALIZED_NOT,  /**< no: the peer may need something from us, or does not know yet */
    RAWE_FINALIZED_DONE, /**< yes */
    RAWE_FINALIZED_LOST, /**< yes, but the peer may need data that it has not acknowledged */
};

/**
 * Return whether the connection may be closed. Call repeatedly: only time between calls counts. The
 * result stays NOT for at most the peer timeout (30 s if there is none) if the peer is silent or
 * stuck, and for at most a second if it is silent and needs nothing, or needed data and
 * acknowledged all of it.
 */
enum rawe_finalized rawe_conn_finalized(struct rawe_conn *conn, enum rawe_needs needs,
                                        uint64_t now_ns);

#endif
