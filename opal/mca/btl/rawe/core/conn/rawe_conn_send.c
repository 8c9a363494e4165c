/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Sending: a message or PUT is sent at once or queued. How a queued one becomes frames is in
 * rawe_conn_output.c, how these reach the link in rawe_conn_output.c.
 */
#include "rawe_conn_send.h"

#include <assert.h>

#include "rawe_conn_output.h"
#include "rawe_conn_connect.h"
#include "rawe_conn_control.h"
#include "rawe_conn_batch.h"

/** Reconnect if need be. False when the connection cannot send data now. */
static bool ready_to_send(struct rawe_conn *conn, uint64_t now_ns)
{
    if (conn->handshake.state == RAWE_CONN_OPEN) {
        return true;
    }
    if (conn->handshake.state == RAWE_CONN_IDLE || conn->handshake.state == RAWE_CONN_PEER_CLOSED) {
        rawe_conn_connect(conn, now_ns);
    }
    return false;
}

/**
 * Transmit the newest frame of the window, before which none waits; or leave it to the next flush.
 * False: it waits for that.
 */
static bool transmit_alone(struct rawe_conn *conn, struct rawe_txframe *frame, uint64_t now_ns)
{
    struct rawe_engine *engine = conn->via;
    struct rawe_frame view;
    if (engine->link_full) {
        rawe_conn_put_off(conn, false, now_ns);
        return false;
    }
    rawe_conn_write_header(conn, frame);
    rawe_conn_view(conn, frame, &view);
    if (engine->output.transmit(engine->output.context, &view, 1) == 1) {
        rawe_conn_sent(conn, frame, 1, now_ns);
        rawe_cc_sent(&conn->cc, conn->sendwin.in_flight, conn->engine->now_ns);
        rawe_recvwin_carried(&conn->recvwin);
        if (now_ns == RAWE_TIME_LATER) {
            rawe_sendwin_stamp_later(&conn->sendwin, frame);
        } else {
            rawe_conn_await_ack(conn, now_ns);
        }
        return true;
    }
    rawe_conn_refused(conn, false, now_ns);
    return false;
}

void rawe_conn_stamp(struct rawe_conn *conn, uint64_t now_ns)
{
    conn->engine->now_ns = now_ns;
    if (rawe_sendwin_stamp(&conn->sendwin, now_ns)) {
        rawe_conn_await_ack(conn, now_ns);
    }
}

/** The frame that was held back goes now, or as soon as there is room. */
static void send_coalesced(struct rawe_conn *conn, uint64_t now_ns)
{
    struct rawe_txframe *frame = rawe_sendwin_take_held(&conn->sendwin);
    rawe_conn_enter_window(conn, frame);
    if (conn->sendwin.to_transmit != 1 || rawe_conn_batch_used(conn) ||
        rawe_conn_needs_slices(conn, frame)) {
        rawe_conn_output(conn, now_ns);
    } else if (rawe_conn_window_room(conn) != 0) {
        (void)transmit_alone(conn, frame, now_ns);
    } else if (conn->sendwin.in_flight == 0) {
        rawe_conn_ask_credit(conn, now_ns);
    } /* else the next acknowledgement sends it */
}

void rawe_conn_coalesce_flush(struct rawe_conn *conn, uint64_t now_ns)
{
    if (conn->sendwin.held != NULL) {
        if (conn->sendwin.held->send != NULL) {
            conn->sendwin.held->flags |= RAWE_FLAG_ACK_NOW; /* PUTs in it are waited for */
        }
        send_coalesced(conn, now_ns);
    }
}

enum rawe_status rawe_conn_send_copy(struct rawe_conn *conn, uint8_t tag, const void *first,
                                     size_t first_bytes, const void *second, size_t second_bytes,
                                     uint64_t now_ns)
{
    struct rawe_engine *engine = conn->engine;
    assert(now_ns != RAWE_TIME_LATER || rawe_conn_stamps_later(conn));
    if (now_ns != RAWE_TIME_LATER) {
        now_ns = rawe_engine_time(engine, now_ns);
    }
    if (conn->handshake.state != RAWE_CONN_OPEN && !ready_to_send(conn, now_ns)) {
        return conn->handshake.state == RAWE_CONN_FAILED ? RAWE_STATUS_FAILED : RAWE_STATUS_BUSY;
    }
    size_t data_bytes = first_bytes + second_bytes;
    assert(data_bytes <= engine->config.copy_max_bytes &&
           data_bytes <= rawe_conn_frame_message_bytes(conn));
    if (conn->sendwin.held != NULL) {
        if (rawe_conn_coalesce(conn, tag, first, first_bytes, second, second_bytes)) {
            return RAWE_STATUS_DONE;
        }
        send_coalesced(conn, now_ns);
    }
    if (conn->sendwin.in_flight == 0) {
        rawe_cc_validate(&conn->cc, &conn->rtt, 0, engine->now_ns);
    }
    /*
     * Frames that take the short way would overtake batches, and look like evidence of their loss.
     */
    if (conn->queue.first != NULL || conn->sendwin.to_transmit != 0 ||
        rawe_conn_window_room(conn) == 0 || rawe_sendwin_full(&conn->sendwin) ||
        rawe_conn_batch_used(conn)) {
        if (conn->peer_credit == 0 && conn->sendwin.in_flight == 0) {
            rawe_conn_ask_credit(conn, engine->now_ns); /* the caller may have no send to queue */
        }
        return RAWE_STATUS_BUSY;
    }
    bool hold = rawe_conn_coalesce_wanted(conn, data_bytes);
    struct rawe_txframe *frame =
        rawe_conn_coalesce_new(conn, tag, first, first_bytes, second, second_bytes, hold);
    if (frame == NULL) {
        return RAWE_STATUS_BUSY;
    }
    if (hold) {
        rawe_sendwin_hold(&conn->sendwin, frame);
        rawe_conn_make_pending(conn);
    } else {
        rawe_conn_enter_window(conn, frame);
        if (!transmit_alone(conn, frame, now_ns) && !rawe_conn_may_hold_back(conn)) {
            rawe_sendwin_retract(&conn->sendwin, frame);
            rawe_txframe_give(&engine->frames, frame);
            return RAWE_STATUS_BUSY;
        }
    }
    engine->counters.messages_sent++;
    engine->counters.bytes_sent += data_bytes;
    return RAWE_STATUS_DONE;
}

enum rawe_status rawe_conn_send_record(struct rawe_conn *conn, struct rawe_send *send,
                                       uint64_t now_ns)
{
    struct rawe_engine *engine = conn->engine;
    now_ns = rawe_engine_time(engine, now_ns);
    if (conn->handshake.state != RAWE_CONN_OPEN && !ready_to_send(conn, now_ns)) {
        return conn->handshake.state == RAWE_CONN_FAILED ? RAWE_STATUS_FAILED : RAWE_STATUS_BUSY;
    }
    if (conn->sendwin.held != NULL) {
        if (rawe_conn_coalesce_record(conn, send)) {
            if (send->kind == RAWE_FRAGMENT_ATOMIC) {
                send_coalesced(conn, now_ns);
            }
            return RAWE_STATUS_DONE;
        }
        send_coalesced(conn, now_ns);
    }
    if (conn->sendwin.in_flight == 0) {
        rawe_cc_validate(&conn->cc, &conn->rtt, 0, now_ns);
    }
    /* If not, it will be queued, and credit asked for then. */
    bool hold = rawe_conn_coalesce_record_wanted(conn, send);
    struct rawe_txframe *frame = NULL;
    if (conn->queue.first == NULL && conn->sendwin.to_transmit == 0 &&
        rawe_conn_window_room(conn) != 0 && !rawe_sendwin_full(&conn->sendwin)) {
        frame = rawe_conn_coalesce_take(conn, send, hold);
    }
    if (frame == NULL) {
        return RAWE_STATUS_BUSY;
    }
    rawe_conn_coalesce_add_record(frame, send);
    if (hold) {
        rawe_sendwin_hold(&conn->sendwin, frame);
        rawe_conn_make_pending(conn);
    } else {
        if (frame->send != NULL) {
            frame->flags |= RAWE_FLAG_ACK_NOW; /* its completion is waited for */
        }
        rawe_conn_enter_window(conn, frame);
        if (!transmit_alone(conn, frame, now_ns) && !rawe_conn_may_hold_back(conn)) {
            rawe_sendwin_retract(&conn->sendwin, frame);
            rawe_txframe_give(&engine->frames, frame);
            return RAWE_STATUS_BUSY;
        }
    }
    rawe_conn_coalesce_count_record(&engine->counters, send);
    return RAWE_STATUS_DONE;
}

/**
 * A batch costs a system call, whatever its length: while earlier ones are on their way, what is to
 * be sent coalesces until it fills one, or until the round ends (rawe_conn_flush).
 */
static bool coalesces(const struct rawe_conn *conn)
{
    uint32_t from = conn->engine->config.coalesce_from_frames;
    return from != 0 && conn->batch == RAWE_BATCH_VALID && conn->sendwin.in_flight >= 2 * from;
}

bool rawe_conn_enqueue(struct rawe_conn *conn, struct rawe_send *send, uint64_t now_ns)
{
    struct rawe_engine *engine = conn->engine;
    now_ns = rawe_engine_time(engine, now_ns);
    if (conn->handshake.state == RAWE_CONN_FAILED) {
        send->next = NULL;
        rawe_conn_complete(engine, send, RAWE_STATUS_FAILED);
        return false;
    }
    if (send->kind == RAWE_FRAGMENT_MESSAGE) {
        engine->counters.messages_sent++;
    } else if (send->kind == RAWE_FRAGMENT_PUT) {
        engine->counters.puts_sent++;
    }
    if (conn->sendwin.held != NULL && conn->handshake.state == RAWE_CONN_OPEN) {
        send_coalesced(conn, now_ns); /* it was there before */
    }
    rawe_sendqueue_push(&conn->queue, send);
    if (!rawe_fragment_is_request(send->kind)) {
        engine->counters.bytes_sent += send->total_bytes;
    }
    assert(rawe_fragment_is_record(send->kind) ||
           send->total_bytes <= engine->config.message_max_bytes);
    return true;
}

void rawe_conn_start(struct rawe_conn *conn, uint64_t now_ns)
{
    now_ns = rawe_engine_time(conn->engine, now_ns);
    if (ready_to_send(conn, now_ns)) {
        rawe_conn_output_some(conn, !coalesces(conn), now_ns);
    }
}

void rawe_conn_send(struct rawe_conn *conn, struct rawe_send *send, uint64_t now_ns)
{
    if (rawe_conn_enqueue(conn, send, now_ns)) {
        rawe_conn_start(conn, now_ns);
    }
}

/** The newest frame of a send before `*sequence`, which becomes that frame's. There is one. */
static struct rawe_txframe *frame_before(const struct rawe_conn *conn, const struct rawe_send *send,
                                         uint32_t *sequence)
{
    struct rawe_txframe *frame;
    do {
        frame = rawe_sendwin_at(&conn->sendwin, *sequence - 1);
        *sequence = frame->sequence;
    } while (frame->send != send);
    return frame;
}

void rawe_conn_send_rebased(struct rawe_conn *conn, struct rawe_send *send, uint8_t *copy)
{
    uint32_t sequence = conn->sendwin.next;
    for (uint32_t left = send->frames; left != 0; left--) {
        struct rawe_txframe *frame = frame_before(conn, send, &sequence);
        for (uint32_t i = 0; i < frame->external_count; i++) {
            struct rawe_bytes *part = &frame->external[i];
            part->base = rawe_send_rebase(send, part->base, copy);
        }
    }
    for (unsigned i = 0; i < send->piece_count; i++) {
        send->pieces[i].base = copy;
        copy += send->pieces[i].len_bytes;
    }
}

void rawe_conn_send_revoke(struct rawe_conn *conn, const struct rawe_send *send)
{
    static const uint8_t zeros[UINT16_MAX] = {0}; /* no frame has more, nor has a batch */
    struct rawe_fragment fragment;
    uint32_t sequence = conn->sendwin.next;
    for (uint32_t left = send->frames; left != 0; left--) {
        struct rawe_txframe *frame = frame_before(conn, send, &sequence);
        for (uint32_t i = 0; i < frame->external_count; i++) {
            frame->external[i].base = (void *)(uintptr_t)zeros;
        }
        rawe_fragment_reread(&fragment, frame->buffer + RAWE_PAYLOAD_OFFSET);
        fragment.tag = RAWE_REFUSAL_UNKNOWN;
        (void)rawe_fragment_encode(frame->buffer + RAWE_PAYLOAD_OFFSET, &fragment);
    }
}
