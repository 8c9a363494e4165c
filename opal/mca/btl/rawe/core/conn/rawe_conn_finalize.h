/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * How MPI_Finalize ends a connection. A process that finalizes late may wait for data from one that is
 * about to leave, and may have data in flight to it that is not taken any more. So a finalizing process
 * says so in each control frame, and leaves when the peer has acknowledged everything and knows, or
 * finalizes as well. To a peer that knows, nothing is lost with the connection.
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

/** A peer that finalizes has left when it is silent for this time: probes are far more frequent. */
#define RAWE_CONN_GONE_NS 1000000000ull

/** Our engine finalizes: have the peer asked until it knows. */
void rawe_conn_announce_finalizing(struct rawe_conn *conn);

/** Another life of the connection begins: the peer has to be told again. */
void rawe_conn_finalize_reset(struct rawe_conn *conn);

/** What the peer said of its end was said in an earlier life of its own. */
void rawe_conn_forget_finalizing(struct rawe_conn *conn);

/** A control frame of the peer's says whether it finalizes; it may answer what we have announced. */
void rawe_conn_note_finalizing(struct rawe_conn *conn, const struct rawe_header *header);

/** The peer says that it has ended the connection, or has none. Since when it does so. */
uint64_t rawe_conn_note_disowned(struct rawe_conn *conn, bool given_up, uint64_t now_ns);

/** The peer has sent something: it has not ended the connection, or had not then. */
static inline void rawe_conn_note_owned(struct rawe_conn *conn)
{
    conn->finalize.disowned_ns = 0;
    conn->finalize.given_up = false;
}

/** Has the peer's process said that it finalizes, on this or any other connection to it? */
bool rawe_conn_peer_finalizing(const struct rawe_conn *conn);

/** Complete abandoned sends as the peer finalizes, and needs none; requests have failed. */
void rawe_conn_complete_unneeded(struct rawe_engine *engine, struct rawe_send *list);
/** The same because the peer ended it; `data_lost`: it has not acknowledged everything. */
void rawe_conn_complete_ended(struct rawe_conn *conn, struct rawe_send *abandoned, bool data_lost);

/** What a peer still needs when our process finalizes, as far as the owner knows. */
enum rawe_needs {
    RAWE_NEEDS_ALL,  /**< what was sent, and to know that we finalize, as it may send to us */
    RAWE_NEEDS_DATA, /**< what was sent */
    RAWE_NEEDS_NONE, /**< it finalizes as well, and whatever it waited for has come */
};

/** Has the peer ended the connection with data missing while the owner was away? Says so once. */
bool rawe_conn_take_loss(struct rawe_conn *conn);

/** Is there a reason not to close a connection of an engine that finalizes? */
enum rawe_finalized {
    RAWE_FINALIZED_NOT,  /**< the peer may need something of us, or does not know yet */
    RAWE_FINALIZED_DONE, /**< there is none */
    RAWE_FINALIZED_LOST, /**< nor is there, but the peer may need what it has not acknowledged */
};

/**
 * To be called repeatedly: only time between calls counts. A silent or stuck peer keeps it at NOT
 * for the peer timeout at most (30 s if there is none); a silent one that needs nothing, or needed
 * data and acknowledged it all, for a second.
 */
enum rawe_finalized rawe_conn_finalized(struct rawe_conn *conn, enum rawe_needs needs,
                                        uint64_t now_ns);

#endif
