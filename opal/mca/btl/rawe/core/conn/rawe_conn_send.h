/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Send path. A message is transmitted at once, held back so that others can share its frame, or
 * queued. Queued messages become frames in the send window, which are then handed to the link.
 */
#ifndef RAWE_CONN_SEND_H
#define RAWE_CONN_SEND_H

#include "rawe_conn_batch.h"
#include "rawe_conn_tx.h"

/**
 * What keeps a connection from sending a frame now. If several reasons apply, the highest value is
 * reported. Up to RAWE_BLOCKED_BY_PORT, a frame may still enter the window (may_enter).
 */
enum rawe_blocked_by {
    RAWE_BLOCKED_BY_NOTHING,
    RAWE_BLOCKED_BY_PORT,       /**< our port's queue is full: frames may only enter the window */
    RAWE_BLOCKED_BY_WINDOW,     /**< all sequence numbers are in use */
    RAWE_BLOCKED_BY_CONGESTION, /**< the congestion window, or the pace after losses */
    RAWE_BLOCKED_BY_CREDIT,     /**< the peer's credit, if no larger than that window */
    RAWE_BLOCKED_BY_PEER,       /**< has not answered our CONNECT, has closed, or has failed */
    RAWE_BLOCKED_BY_COUNT
};

/** Return what prevents transmission of the next frame, or of a batch worth sending. */
static inline enum rawe_blocked_by rawe_conn_blocked_by(const struct rawe_conn *conn)
{
    if (conn->handshake.state != RAWE_CONN_OPEN) {
        return RAWE_BLOCKED_BY_PEER;
    }
    uint32_t room = rawe_conn_window_room(&conn->tx);
    if (room == 0 || rawe_conn_batch_cut_short(conn, room)) {
        return conn->tx.peer_credit <= rawe_cc_limit(&conn->tx.cc) ? RAWE_BLOCKED_BY_CREDIT
                                                                   : RAWE_BLOCKED_BY_CONGESTION;
    }
    if (conn->tx.window.to_transmit == 0 && rawe_sendwin_free_numbers(&conn->tx.window) == 0) {
        return RAWE_BLOCKED_BY_WINDOW;
    }
    return *rawe_conn_link_full(conn) ? RAWE_BLOCKED_BY_PORT : RAWE_BLOCKED_BY_NOTHING;
}

/** Return true if a record with `data_bytes` of data would join others in a held-back frame. */
bool rawe_conn_record_joins(const struct rawe_conn *conn, size_t data_bytes);

/** Return the largest payload that fits both a large frame buffer and the path to this peer. */
static inline uint32_t rawe_conn_coalesce_limit(const struct rawe_conn *conn)
{
    uint32_t buffer_bytes = (uint32_t)conn->engine->frames.large_bytes;
    return conn->path.payload_max_bytes < buffer_bytes ? conn->path.payload_max_bytes
                                                       : buffer_bytes;
}

/** From this many messages per frame on, coalescing was faster than batches in measurements. */
#define RAWE_CONN_WELL_COALESCED 3u

/** Return true if too few messages of this length fit a frame, so that a batch is faster. */
static inline bool rawe_conn_coalesce_poor(const struct rawe_conn *conn, size_t data_bytes)
{
    return RAWE_CONN_WELL_COALESCED * (data_bytes + RAWE_FRAGMENT_MESSAGE_BYTES) >
           rawe_conn_coalesce_limit(conn);
}

/**
 * Send a message of at most copy_max_bytes and one frame, by copying it. BUSY: use rawe_conn_send.
 * The clock is read after transmission, or before it if the port is full, the connection is not
 * open, or a held-back frame must be sent first. It is not read for a held-back message.
 */
enum rawe_status rawe_conn_send_copy(struct rawe_conn *conn, uint8_t tag, const void *first,
                                     size_t first_bytes, const void *second, size_t second_bytes);

/**
 * Send a record by copying its single piece of data. RAWE_STATUS_DONE: it is in a frame, and `send`
 * may be reused, except that a PUT's stays in use until `done`, when the peer has the data.
 * RAWE_STATUS_BUSY: no room now; use rawe_conn_send with `copies` set, for which `done` means that
 * the record was copied (except for a PUT).
 */
enum rawe_status rawe_conn_send_record(struct rawe_conn *conn, struct rawe_send *send,
                                       uint64_t now_ns);

/** Queue a send without transmitting. False: the connection has failed, and `done` was called. */
bool rawe_conn_enqueue(struct rawe_conn *conn, struct rawe_send *send, uint64_t now_ns);

/** Transmit queued sends as far as possible, connecting first if necessary. */
void rawe_conn_start(struct rawe_conn *conn, uint64_t now_ns);

/** Send from the caller's memory. `done` is always called eventually. */
static inline void rawe_conn_send(struct rawe_conn *conn, struct rawe_send *send, uint64_t now_ns)
{
    if (rawe_conn_enqueue(conn, send, now_ns)) {
        rawe_conn_start(conn, now_ns);
    }
}

/** Frame and transmit what window, credit and link allow; full batches only, unless `all`. */
void rawe_conn_output(struct rawe_conn *conn, bool all, uint64_t now_ns);

/** Send the held-back frame, if any. */
void rawe_conn_coalesce_flush(struct rawe_conn *conn, uint64_t now_ns);

#endif
