/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * What the files of a connection build on: headers, control frames, deadlines, use of the send
 * window, completion of sends.
 */
#ifndef RAWE_CONN_CONTROL_H
#define RAWE_CONN_CONTROL_H

#include "rawe_conn_state.h"

/** Number of a probe whose answer is no evidence, as it does not travel with the data. */
#define RAWE_PROBE_PLAIN 0u

/** Have rawe_conn_flush called at the end of the round or at the next progress. */
void rawe_conn_make_pending(struct rawe_conn *conn);
/** True when frames of this connection go out as batches. */
static inline bool rawe_conn_batch_used(const struct rawe_conn *conn)
{
    return conn->batch == RAWE_BATCH_VALID || conn->batch == RAWE_BATCH_VALIDATING;
}
/** Whether the link has refused data frames of this kind since the last flush began. */
static inline bool *rawe_conn_link_full(struct rawe_conn *conn)
{
    struct rawe_engine *engine = conn->via;
    return rawe_conn_batch_used(conn) ? &engine->batches_full : &engine->link_full;
}
/**
 * The link is full: go on with the next flush, behind others if something was transmitted. A link
 * that never takes a frame shows as silence of the peer, timed from here on.
 */
void rawe_conn_put_off(struct rawe_conn *conn, bool transmitted, uint64_t now_ns);
/** The link has refused a data frame. Other connections need not try it before the next flush. */
void rawe_conn_refused(struct rawe_conn *conn, bool transmitted, uint64_t now_ns);
/** Have the timer expire by the earliest deadline. For a single new one, arming by it is enough. */
void rawe_conn_arm(struct rawe_conn *conn);
/** The slow path of rawe_conn_idle_deadline_ns. */
uint64_t rawe_conn_idle_question_ns(const struct rawe_conn *conn);
/** When to probe a peer that owes nothing: for a reply, or as we finalize. 0: never. */
static inline uint64_t rawe_conn_idle_deadline_ns(const struct rawe_conn *conn)
{
    const struct rawe_engine *engine = conn->engine;
    bool any = engine->config.liveness.idle_ns != 0 || engine->operations.in_use != 0 ||
               engine->finalizing;
    return any ? rawe_conn_idle_question_ns(conn) : 0;
}
/** An operation has begun now: make sure that the timer expires when the target may be asked. */
void rawe_conn_await_reply(struct rawe_conn *conn, uint64_t now_ns);
/** Make sure that the timer expires by that time, after it has expired or before it ever ran. */
void rawe_conn_arm_idle(struct rawe_conn *conn);
/** Owe an acknowledgement: at once, or when enough frames have come, or after the delay. */
void rawe_conn_owe_ack(struct rawe_conn *conn, bool at_once, uint64_t now_ns);
/** The connection ends: it owes no acknowledgement, and expects no more. */
void rawe_conn_owe_nothing(struct rawe_conn *conn);
/** No connection of a new engine owes any. */
void rawe_conn_owing_init(struct rawe_engine *engine);
/** What the peer may have in flight to us on this connection, as it is told now. */
static inline uint16_t rawe_conn_advertise(struct rawe_conn *conn)
{
    struct rawe_engine *into = conn->into;
    uint16_t frames = rawe_credit_advertise(&into->credit, conn->lane, &conn->credit);
    return conn->lane == RAWE_LANE_BULK ? rawe_grants_credit(&into->grants, &conn->grant, frames)
                                        : frames;
}
/** Does the peer know that there is more to send? */
static inline void rawe_conn_report_more(struct rawe_conn *conn, bool more)
{
    conn->reported_more = more;
}
/** The header of a frame's segments from `index` on, as of now; `count` frames leave together. */
static inline struct rawe_header rawe_conn_header(struct rawe_conn *conn,
                                                  const struct rawe_txframe *frame, uint32_t index,
                                                  uint32_t count, size_t payload_bytes)
{
    bool again = (frame->sent >> index & 1) != 0;
    bool bulk = conn->lane == RAWE_LANE_BULK;
    bool more = bulk && (conn->queue.first != NULL || conn->sendwin.to_transmit > count);
    rawe_conn_report_more(conn, more);
    return (struct rawe_header){
        .type = bulk ? RAWE_FRAME_BULK : RAWE_FRAME_DATA,
        .flags =
            (uint8_t)(frame->flags | (again ? RAWE_FLAG_RESENT : 0) | (more ? RAWE_FLAG_MORE : 0)),
        .port = conn->peer_port,
        .key = conn->peer_key,
        .connection_id = conn->handshake.peer_id,
        .sequence = frame->sequence + index,
        .acknowledgement = conn->recvwin.next,
        .payload_bytes = (uint16_t)payload_bytes,
        .credit = rawe_conn_advertise(conn),
    };
}
/** Write headers and checksum of a frame that goes as it is, the last of `count` that leave together. */
void rawe_conn_write_header(struct rawe_conn *conn, struct rawe_txframe *frame, uint32_t count);
/** A frame as the link wants it. */
static inline void rawe_conn_view(struct rawe_txframe *frame, struct rawe_frame *view)
{
    view->len_bytes = RAWE_PAYLOAD_OFFSET + frame->payload_bytes + RAWE_CHECKSUM_BYTES;
    if (frame->external_count == 0) {
        view->pieces[0] = (struct rawe_bytes){frame->buffer, view->len_bytes};
        view->piece_count = 1;
        return;
    }
    view->pieces[0] = (struct rawe_bytes){frame->buffer, frame->buffer_bytes};
    view->piece_count = 2 + frame->external_count;
    for (uint32_t i = 0; i < frame->external_count; i++) {
        view->pieces[1 + i] = frame->external[i];
    }
    view->pieces[1 + frame->external_count] =
        (struct rawe_bytes){frame->checksum, RAWE_CHECKSUM_BYTES};
}
/** Write header and checksum of a frame whose payload is in `buffer`. Returns its length. */
size_t rawe_frame_seal(uint8_t *buffer, const struct rawe_header *header);
/** Seal such a frame and transmit it through `via`'s port. False: link is full. */
bool rawe_conn_transmit_sealed(struct rawe_engine *via, uint8_t *buffer,
                               const struct rawe_header *header);
/** Send a control frame to the peer's connection `peer_id`. False: link is full. */
bool rawe_conn_transmit_to(struct rawe_conn *conn, uint32_t peer_id, uint8_t type, uint8_t flags,
                           uint32_t sequence, const uint8_t *payload, size_t payload_bytes);
/** The same to the connection that the peer has named. */
static inline bool rawe_conn_transmit_control(struct rawe_conn *conn, uint8_t type, uint8_t flags,
                                              uint32_t sequence, const uint8_t *payload,
                                              size_t payload_bytes)
{
    return rawe_conn_transmit_to(conn, conn->handshake.peer_id, type, flags, sequence, payload,
                                 payload_bytes);
}
/** Ask about what is under way after an interval, or earlier if that was planned. */
void rawe_conn_plan_probe(struct rawe_conn *conn, uint64_t now_ns);
/** Frames have been transmitted: plan when to ask about them. */
void rawe_conn_await_ack(struct rawe_conn *conn, uint64_t now_ns);
/** Something waits, nothing is in flight, no credit: ask for it, unless we just did. */
void rawe_conn_ask_credit(struct rawe_conn *conn, uint64_t now_ns);
/** The slow path of the next function. */
void rawe_conn_note_no_credit(struct rawe_conn *conn, bool answers, bool refused, uint64_t now_ns);
/** The peer tells its credit; `answers`: asked. `progress`: it acknowledges something new. */
static inline void rawe_conn_note_credit(struct rawe_conn *conn, uint32_t credit, bool answers,
                                         bool refused, bool progress, uint64_t now_ns)
{
    conn->peer_credit = credit;
    if (progress) {
        conn->credit_refusals = 0;
    }
    if (credit != 0) {
        conn->wants_credit = false;
    } else {
        rawe_conn_note_no_credit(conn, answers, refused, now_ns);
    }
}
/** The peer may have ended the connection: send nothing until it says more. */
void rawe_conn_revoke_credit(struct rawe_conn *conn);
/** Nothing waits for credit any more. */
void rawe_conn_want_no_credit(struct rawe_conn *conn);
/** Another life of the connection begins: nothing is known of the peer's credit. */
void rawe_conn_credit_reset(struct rawe_conn *conn);
/** The timer has expired: is the question that was planned due, and is there one? */
void rawe_conn_correct_probe(struct rawe_conn *conn, uint64_t now_ns);

/* ---- use of the send window: how much may go, what enters, what has gone ---- */

/** Frames that may be in flight: what the network bears, and what the peer takes. */
static inline uint32_t rawe_conn_in_flight_limit(const struct rawe_conn *conn)
{
    uint32_t limit = rawe_cc_limit(&conn->cc);
    return limit < conn->peer_credit ? limit : conn->peer_credit;
}
/** How many more frames may go into flight now. */
static inline uint32_t rawe_conn_window_room(const struct rawe_conn *conn)
{
    uint32_t allowed = rawe_conn_in_flight_limit(conn);
    uint32_t in_flight = conn->sendwin.in_flight;
    return in_flight < allowed ? allowed - in_flight : 0;
}
/** Was it sent before the peer last said that it had no room? Then it may be refused. */
static inline bool rawe_conn_was_refused(const struct rawe_conn *conn,
                                         const struct rawe_txframe *frame)
{
    return rawe_txframe_sent_ns(frame) <= conn->no_credit_ns;
}
/** Give a frame the next sequence numbers; it is WAITING until the link has taken it. */
void rawe_conn_enter_window(struct rawe_conn *conn, struct rawe_txframe *frame);
/** The link has taken segments of a frame of the window. */
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
            rawe_reorder_resent(&conn->reorder);
        }
    }
    /* A callback may have given a later time: what leaves later must not look older. */
    uint64_t newest_ns = conn->engine->now_ns;
    rawe_sendwin_sent(&conn->sendwin, frame, segments, now_ns > newest_ns ? now_ns : newest_ns);
}

/* ---- order over the connections to a process: send/rawe_order.h ---- */

/** The slow path of the next function. */
bool rawe_conn_limit_reached(const struct rawe_conn *conn, uint64_t number);
/** Must a message wait for others to the process to be acknowledged? They wake the connection. */
static inline bool rawe_conn_must_wait(const struct rawe_conn *conn, uint64_t number)
{
    return !rawe_order_allows(conn->ordered.order, number) && rawe_conn_limit_reached(conn, number);
}
/** The slow path of the next function. */
void rawe_conn_go_on_all(const struct rawe_conn *conn);
/** Messages have been acknowledged, or given up: others of the process may be sent now. */
static inline void rawe_conn_note_progress(const struct rawe_conn *conn)
{
    if (__builtin_expect(conn->ordered.order->waits, 0)) {
        rawe_conn_go_on_all(conn);
    }
}

/* ---- completing sends ---- */

/** Call `done` of a list of sends. They may send again, hence nothing may be half changed here. */
void rawe_conn_complete(struct rawe_engine *engine, struct rawe_send *list,
                        enum rawe_status status);
/** Free a frame that left the window. Appends the sends that it completes. */
void rawe_conn_release(struct rawe_conn *conn, struct rawe_txframe *frame,
                       struct rawe_sends *complete);
/** Empty the window, and maybe the queue. Returns the sends, to be completed afterwards. */
struct rawe_send *rawe_conn_abandon(struct rawe_conn *conn, bool queue_too);
/** Release the frames wholly before `acknowledgement`. Returns the sends that they complete. */
struct rawe_send *rawe_conn_release_before(struct rawe_conn *conn, uint32_t acknowledgement);

#endif
