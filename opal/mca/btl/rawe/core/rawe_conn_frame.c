/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * From a queued message or PUT to the frames that carry it: fragments that refer to the sender's
 * memory, or, when short, copies of it.
 */
#include "rawe_conn_frame.h"

#include <string.h>

#include "rawe_conn_coalesce.h"
#include "rawe_conn_control.h"

/** A small window is no reason to have each frame acknowledged by a frame of its own. */
#define REQUEST_LEAST_FRAMES 2u

/**
 * Ask for an acknowledgement with every fourth part of the window, so that it slides before it is
 * used up. Not while half of it is free: an answer of the peer's will carry it then.
 */
static void request_ack(struct rawe_conn *conn, struct rawe_txframe *frame)
{
    const struct rawe_sendwin *window = &conn->sendwin;
    uint32_t limit = rawe_conn_in_flight_limit(conn);
    uint32_t part = limit / 4;
    part = part < REQUEST_LEAST_FRAMES ? REQUEST_LEAST_FRAMES : part;
    bool only_one = conn->peer_credit <= 1;
    if (only_one || (window->next - conn->ack_requested >= part &&
                     2 * (window->in_flight + window->to_transmit) >= limit)) {
        frame->flags |= RAWE_FLAG_ACK_NOW;
        conn->ack_requested = window->next;
    }
}

void rawe_conn_enter_window(struct rawe_conn *conn, struct rawe_txframe *frame)
{
    request_ack(conn, frame);
    rawe_sendwin_enter(&conn->sendwin, frame);
}

/** Refer to `len_bytes` of the send's memory from where framing stands. */
static void refer(struct rawe_txframe *frame, const struct rawe_send *send, size_t len_bytes)
{
    uint64_t skip = send->framed_bytes;
    for (unsigned i = 0; i < send->piece_count && len_bytes != 0; i++) {
        const struct rawe_bytes *piece = &send->pieces[i];
        if (skip >= piece->len_bytes) {
            skip -= piece->len_bytes;
            continue;
        }
        size_t part = piece->len_bytes - skip < len_bytes ? piece->len_bytes - skip : len_bytes;
        frame->external[frame->external_count++] =
            (struct rawe_bytes){(uint8_t *)piece->base + skip, part};
        len_bytes -= part;
        skip = 0;
    }
}

/** Is it a message that goes into one frame by copy? */
static bool is_copied(const struct rawe_conn *conn, const struct rawe_send *send)
{
    return send != NULL && send->kind == RAWE_FRAGMENT_MESSAGE && !send->fragmented &&
           !send->ordered && send->total_bytes <= conn->engine->config.copy_max_bytes &&
           send->total_bytes <= rawe_conn_payload_limit(conn) - RAWE_FRAGMENT_MESSAGE_BYTES;
}

/** Copy the first queued message into a frame of the window, and those behind it that fit too. */
static struct rawe_txframe *frame_copied(struct rawe_conn *conn, struct rawe_send ***copied_tail)
{
    bool more =
        conn->engine->config.coalesce_from_frames != 0 && is_copied(conn, conn->queue.first->next);
    struct rawe_txframe *frame = NULL;
    do {
        struct rawe_send *send = conn->queue.first;
        const struct rawe_bytes *pieces = send->pieces;
        if (frame != NULL) {
            rawe_conn_coalesce_add(frame, send);
            conn->engine->counters.messages_coalesced++;
        } else {
            bool two = send->piece_count == 2;
            frame = rawe_conn_coalesce_new(conn, send->tag, pieces[0].base, pieces[0].len_bytes,
                                           two ? pieces[1].base : NULL,
                                           two ? pieces[1].len_bytes : 0, more);
            if (frame == NULL) {
                return NULL;
            }
        }
        (void)rawe_sendqueue_framed(&conn->queue, send->total_bytes);
        **copied_tail = send;
        *copied_tail = &send->next;
    } while (more && is_copied(conn, conn->queue.first) &&
             rawe_conn_coalesce_fits(conn, frame, conn->queue.first->total_bytes));
    rawe_conn_enter_window(conn, frame);
    return frame;
}

struct rawe_txframe *rawe_conn_frame_next(struct rawe_conn *conn, struct rawe_send ***copied_tail)
{
    struct rawe_engine *engine = conn->engine;
    struct rawe_send *send = conn->queue.first;
    if (send == NULL || rawe_conn_window_full(conn)) {
        return NULL;
    }
    if (is_copied(conn, send)) {
        struct rawe_txframe *frame = frame_copied(conn, copied_tail);
        if (frame == NULL) {
            rawe_conn_make_pending(conn); /* when others have given theirs back */
        }
        return frame;
    }
    struct rawe_fragment fragment = {.kind = send->kind, .tag = send->tag};
    uint64_t left = send->total_bytes - send->framed_bytes;
    uint32_t room;
    if (send->kind == RAWE_FRAGMENT_PUT) {
        room = rawe_conn_payload_limit(conn) - RAWE_FRAGMENT_PUT_BYTES;
        fragment.id = send->handle_index;
        fragment.key = send->handle_key;
        fragment.offset = send->offset + send->framed_bytes;
    } else if (send->total_bytes <= rawe_conn_payload_limit(conn) - RAWE_FRAGMENT_MESSAGE_BYTES &&
               !send->fragmented && !send->ordered) {
        room = rawe_conn_payload_limit(conn) - RAWE_FRAGMENT_MESSAGE_BYTES;
    } else {
        if (!send->fragmented && !rawe_sendqueue_may_number(&conn->queue)) {
            return NULL; /* the receiver has no place for it before an earlier one is whole */
        }
        uint32_t number = send->fragmented ? send->message_number : conn->queue.message_number;
        fragment.kind = RAWE_FRAGMENT_PART;
        room = rawe_conn_payload_limit(conn) - RAWE_FRAGMENT_PART_BYTES;
        fragment.id = number;
        fragment.offset = send->framed_bytes;
        fragment.total_bytes = (uint32_t)send->total_bytes;
    }
    fragment.data_bytes = (uint16_t)(left < room ? left : room);
    struct rawe_txframe *frame = rawe_txframe_take(&engine->frames, RAWE_FRAGMENT_BYTES_MAX);
    if (frame == NULL) {
        rawe_conn_make_pending(conn); /* when others have given theirs back */
        return NULL;
    }
    if (fragment.kind == RAWE_FRAGMENT_PART && !send->fragmented) {
        rawe_sendqueue_number(&conn->queue, send);
    }
    uint8_t *out = frame->buffer + RAWE_PAYLOAD_OFFSET;
    size_t fragment_bytes = rawe_fragment_encode(out, &fragment);
    frame->buffer_bytes = (uint32_t)(RAWE_PAYLOAD_OFFSET + fragment_bytes);
    frame->payload_bytes = (uint32_t)(fragment_bytes + fragment.data_bytes);
    refer(frame, send, fragment.data_bytes);
    frame->send = send;
    send->frames++;
    if (rawe_sendqueue_framed(&conn->queue, fragment.data_bytes) && conn->queue.first == NULL &&
        !send->relaxed) {
        frame->flags |= RAWE_FLAG_ACK_NOW; /* somebody waits for its completion */
    }
    rawe_conn_enter_window(conn, frame);
    return frame;
}

struct rawe_txframe *rawe_conn_frame_from_template(struct rawe_conn *conn,
                                                   const struct rawe_txframe *before)
{
    struct rawe_send *send = conn->queue.first;
    const struct rawe_bytes *last = &before->external[0];
    if (send == NULL || before->send != send || before->external_count != 1 ||
        before->sequence + 1 != conn->sendwin.next || before->sendings != 0 ||
        rawe_conn_window_full(conn) || conn->engine->config.checksum) {
        return NULL;
    }
    const struct rawe_bytes *piece = &send->pieces[send->piece_count - 1];
    size_t done = (size_t)((uintptr_t)last->base - (uintptr_t)piece->base) + last->len_bytes;
    uint64_t left = send->total_bytes - send->framed_bytes;
    /* The send's last frame is another's business, and so is the change from piece to piece. */
    if (done > piece->len_bytes || left <= last->len_bytes || piece->len_bytes - done != left) {
        return NULL;
    }
    struct rawe_txframe *frame = rawe_txframe_take(&conn->engine->frames, RAWE_FRAGMENT_BYTES_MAX);
    if (frame == NULL) {
        return NULL;
    }
    memcpy(frame->buffer, before->buffer, before->buffer_bytes);
    rawe_fragment_move(frame->buffer + RAWE_PAYLOAD_OFFSET, frame->buffer[RAWE_PAYLOAD_OFFSET],
                       (send->kind == RAWE_FRAGMENT_PUT ? send->offset : 0) + send->framed_bytes);
    frame->buffer_bytes = before->buffer_bytes;
    frame->payload_bytes = before->payload_bytes;
    frame->external[0] =
        (struct rawe_bytes){(uint8_t *)last->base + last->len_bytes, last->len_bytes};
    frame->external_count = 1;
    frame->send = send;
    send->frames++;
    (void)rawe_sendqueue_framed(&conn->queue, last->len_bytes); /* more of it follows */
    rawe_conn_enter_window(conn, frame);
    rawe_header_number(frame->buffer + RAWE_ETH_HEADER_BYTES, frame->flags, frame->sequence);
    return frame;
}
