/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The sending half of a connection: the peer's credit, frames entering and leaving the send window,
 * the order of messages, and the completion of sends.
 */
#ifndef RAWE_CONN_TX_H
#define RAWE_CONN_TX_H

#include "rawe_conn_path.h"

/* ---- the peer's credit ---- */

/** Probe for credit, unless we just did: sends wait for it and nothing is in flight. */
__attribute__((cold)) void rawe_conn_ask_credit(struct rawe_conn *conn, uint64_t now_ns);
/** Slow path of rawe_conn_note_credit. */
__attribute__((cold)) void rawe_conn_note_no_credit(struct rawe_conn_tx *tx, bool answers,
                                                    bool refused, uint64_t now_ns);
/** Note the peer's credit. `answers`: a probe; `progress`: it acknowledges something new. */
static inline void rawe_conn_note_credit(struct rawe_conn_tx *tx, uint32_t credit, bool answers,
                                         bool refused, bool progress, uint64_t now_ns)
{
    tx->peer_credit = credit;
    if (progress) {
        tx->credit_refusals = 0;
    }
    if (credit != 0) {
        tx->wants_credit = false;
    } else {
        rawe_conn_note_no_credit(tx, answers, refused, now_ns);
    }
}
/** Send nothing until the peer grants credit again: it may have ended the connection. */
static inline void rawe_conn_revoke_credit(struct rawe_conn_tx *tx)
{
    tx->peer_credit = 0;
}
/** Note that no send is waiting for credit. */
static inline void rawe_conn_want_no_credit(struct rawe_conn_tx *tx)
{
    tx->wants_credit = false;
}
/** Mark the peer's credit as unknown, because the connection is starting again. */
void rawe_conn_credit_reset(struct rawe_conn *conn);
/** Record whether the newest frame told the peer that there is more to send. */
static inline void rawe_conn_report_more(struct rawe_conn_tx *tx, bool more)
{
    tx->reported_more = more;
}

/* ---- use of the send window: room, entry, transmission ---- */

/** Return how many frames may be in flight: the lower of the network's and the peer's limit. */
static inline uint32_t rawe_conn_in_flight_limit(const struct rawe_conn_tx *tx)
{
    uint32_t limit = rawe_cc_limit(&tx->cc);
    return limit < tx->peer_credit ? limit : tx->peer_credit;
}
/** Return how many more frames may be sent now. */
static inline uint32_t rawe_conn_window_room(const struct rawe_conn_tx *tx)
{
    uint32_t allowed = rawe_conn_in_flight_limit(tx);
    uint32_t in_flight = tx->window.in_flight;
    return in_flight < allowed ? allowed - in_flight : 0;
}
/** Return true if the peer may have refused the frame: it was sent before the latest refusal. */
static inline bool rawe_conn_was_refused(const struct rawe_conn_tx *tx,
                                         const struct rawe_txframe *frame)
{
    return rawe_txframe_sent_ns(frame) <= tx->no_credit_ns;
}
/** Give a frame the next sequence numbers. It is WAITING until the link has accepted it. */
void rawe_conn_enter_window(struct rawe_conn *conn, struct rawe_txframe *frame);
/** Build the header of a frame's segments from `index` on; `count` frames are sent together. */
static inline struct rawe_header rawe_conn_header(struct rawe_conn *conn,
                                                  const struct rawe_txframe *frame, uint32_t index,
                                                  uint32_t count, size_t payload_bytes)
{
    bool again = (frame->sent >> index & 1) != 0;
    bool bulk = conn->lane == RAWE_LANE_BULK;
    bool more = bulk && (conn->tx.queue.first != NULL || conn->tx.window.to_transmit > count);
    rawe_conn_report_more(&conn->tx, more);
    return (struct rawe_header){
        .type = bulk ? RAWE_FRAME_BULK : RAWE_FRAME_DATA,
        .flags =
            (uint8_t)(frame->flags | (again ? RAWE_FLAG_RESENT : 0) | (more ? RAWE_FLAG_MORE : 0)),
        .port = conn->path.peer_port,
        .key = conn->path.peer_key,
        .connection_id = conn->handshake.peer_id,
        .sequence = frame->sequence + index,
        .acknowledgement = conn->rx.window.next,
        .payload_bytes = (uint16_t)payload_bytes,
        .credit = rawe_conn_advertise(conn),
    };
}
/**
 * Write headers and checksum of a plain frame, the last of `count` that are sent together, and
 * describe it for the link. `copy`: where to copy its external data to first; NULL: nowhere.
 */
void rawe_conn_finish_frame(struct rawe_conn *conn, struct rawe_txframe *frame, uint32_t count,
                            uint8_t *copy, struct rawe_frame *view);
/** Note that the link has accepted segments of a frame in the window. */
static inline void rawe_conn_sent(struct rawe_conn *conn, struct rawe_txframe *frame,
                                  uint64_t segments, uint64_t now_ns)
{
    struct rawe_counters *counters = &conn->engine->counters;
    if (__builtin_expect(frame->sent == 0, 1)) {
        counters->frames_sent += rawe_sendwin_count(segments);
    } else {
        uint32_t again = rawe_sendwin_count(segments & frame->sent);
        counters->frames_sent += rawe_sendwin_count(segments) - again;
        counters->frames_resent += again;
        if (again != 0) {
            rawe_reorder_resent(&conn->tx.reorder);
        }
    }
    /* The clock may have advanced in a callback: a frame sent later must not look older. */
    uint64_t newest_ns = conn->engine->now_ns;
    rawe_sendwin_sent(&conn->tx.window, frame, segments, now_ns > newest_ns ? now_ns : newest_ns);
}

/* ---- message order across the connections to a process: send/rawe_order.h ---- */

/** Slow path of rawe_conn_must_wait. */
__attribute__((cold)) bool rawe_conn_limit_reached(const struct rawe_conn *conn, uint64_t number);
/** Return true if a message must wait for earlier ones to the process; their end wakes us. */
static inline bool rawe_conn_must_wait(const struct rawe_conn *conn, uint64_t number)
{
    return !rawe_order_allows(conn->tx.ordered.order, number) &&
           rawe_conn_limit_reached(conn, number);
}
/** Slow path of rawe_conn_note_progress. */
__attribute__((cold)) void rawe_conn_go_on_all(const struct rawe_conn *conn);
/** Messages were acknowledged or abandoned: let other messages to the process be sent. */
static inline void rawe_conn_note_progress(const struct rawe_conn *conn)
{
    if (__builtin_expect(conn->tx.ordered.order->waits, 0)) {
        rawe_conn_go_on_all(conn);
    }
}

/* ---- completing sends ---- */

/** Call each send's `done`, which may send again: the connection must be in a consistent state. */
void rawe_conn_complete(struct rawe_engine *engine, struct rawe_send *list,
                        enum rawe_status status);
/** Free a frame that has left the window. Appends the sends that it completes. */
void rawe_conn_release(struct rawe_conn *conn, struct rawe_txframe *frame,
                       struct rawe_sends *complete);
/** Release frames wholly before `acknowledgement`. Returns the sends that are now complete. */
struct rawe_send *rawe_conn_release_before(struct rawe_conn *conn, uint32_t acknowledgement);
/** Empty the window, and the queue if `queue_too`. Returns the sends, which are not completed. */
struct rawe_send *rawe_conn_abandon(struct rawe_conn *conn, bool queue_too);

#endif
