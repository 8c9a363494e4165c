/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * From a queued message or PUT to the frames that carry it: fragments that refer to the sender's
 * memory, or, when short, copies of it.
 */
#include "rawe_conn_frame.h"

#include "rawe_conn_batch.h"
#include "rawe_conn_bundle.h"
#include "rawe_conn_coalesce.h"
#include "rawe_conn_control.h"
#include "rawe_conn_window.h"

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

/**
 * A frame has taken what it can from the queue. `awaited`: somebody waits for a send that is in frames
 * by that. With the last frame an acknowledgement is asked for, if that is so of any before it.
 */
static void request_ack(struct rawe_conn *conn, struct rawe_txframe *frame, bool awaited)
{
    conn->awaited = conn->awaited || awaited;
    if (conn->awaited && conn->queue.first == NULL) {
        frame->flags |= RAWE_FLAG_ACK_NOW;
        conn->awaited = false;
    }
}

/** Is it a message that goes into one frame by copy, and is complete by that? */
static bool is_copied(const struct rawe_conn *conn, const struct rawe_send *send)
{
    return rawe_conn_may_hold_back(conn) && send != NULL && send->kind == RAWE_FRAGMENT_MESSAGE &&
           !send->fragmented && !send->ordered &&
           send->total_bytes <= conn->engine->config.copy_max_bytes &&
           send->total_bytes <= rawe_conn_frame_message_bytes(conn);
}

/** Is it a record that goes into one frame by copy? */
static bool is_copied_record(const struct rawe_conn *conn, const struct rawe_send *send)
{
    return send != NULL && rawe_fragment_is_record(send->kind) && send->copies &&
           rawe_conn_may_hold_back(conn) && rawe_conn_copies_record(conn, send->total_bytes);
}

/** Copy the first queued record into a frame of the window, and those behind it that fit too. */
static struct rawe_txframe *frame_records(struct rawe_conn *conn, struct rawe_send ***copied_tail)
{
    struct rawe_send *send = conn->queue.first;
    struct rawe_txframe *frame =
        rawe_conn_coalesce_take(conn, send, is_copied_record(conn, send->next));
    if (frame == NULL) {
        return NULL;
    }
    do {
        if (frame->payload_bytes != 0) {
            conn->engine->counters.messages_coalesced++;
        }
        (void)rawe_sendqueue_framed(&conn->queue, send->total_bytes);
        rawe_conn_coalesce_add_record(frame, send);
        if (send->kind != RAWE_FRAGMENT_PUT) {
            **copied_tail = send;
            *copied_tail = &send->next;
        }
        send = conn->queue.first;
    } while (is_copied_record(conn, send) &&
             rawe_conn_coalesce_record_fits(conn, frame, send->total_bytes));
    request_ack(conn, frame, frame->send != NULL);
    rawe_conn_enter_window(conn, frame);
    return frame;
}

/** Copy the first queued message into a frame of the window, and those behind it that fit too. */
static struct rawe_txframe *frame_copied(struct rawe_conn *conn, struct rawe_send ***copied_tail)
{
    bool more = is_copied(conn, conn->queue.first->next);
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
    request_ack(conn, frame, false);
    rawe_conn_enter_window(conn, frame);
    return frame;
}

/** Data of the next batch at most: as many frames as window and numbers allow now, at least one. */
static uint32_t batch_room_bytes(const struct rawe_conn *conn)
{
    uint32_t frames = rawe_conn_batch_frames(conn);
    uint32_t room = rawe_conn_window_room(conn);
    uint32_t free_numbers = rawe_sendwin_free_numbers(&conn->sendwin);
    frames = frames < room ? frames : room;
    frames = frames < free_numbers ? frames : free_numbers;
    return (frames != 0 ? frames : 1) * rawe_conn_segment_bytes(conn);
}

/**
 * Data of the next batch of a send that has `left` bytes to go, `even`ly or as much as fits. While
 * one batch is handed to the link, the receiver copies the one before: best when they are alike.
 */
static uint32_t batch_data_bytes(const struct rawe_conn *conn, uint64_t left, uint32_t room,
                                 bool even)
{
    if (left <= room || !even) {
        return (uint32_t)(left < room ? left : room);
    }
    uint64_t batches = (left + room - 1) / room;
    uint32_t segment_bytes = rawe_conn_segment_bytes(conn);
    uint64_t segments = (left + batches * segment_bytes - 1) / (batches * segment_bytes);
    return (uint32_t)segments * segment_bytes;
}

/** Describe the first queued send from where framing stands. False: not now. */
static bool describe(const struct rawe_conn *conn, const struct rawe_send *send,
                     struct rawe_fragment *fragment)
{
    *fragment = (struct rawe_fragment){.kind = send->kind, .tag = send->tag};
    if (rawe_fragment_is_record(send->kind)) {
        fragment->id = send->handle_index;
        fragment->key = send->handle_key;
        fragment->offset = send->offset + send->framed_bytes;
        return true;
    }
    if (send->kind == RAWE_FRAGMENT_MESSAGE) {
        if (conn->batch != RAWE_BATCH_VALID && !send->fragmented && !send->ordered &&
            send->total_bytes <= rawe_conn_frame_message_bytes(conn)) {
            return true;
        }
        fragment->kind = RAWE_FRAGMENT_PART;
    }
    if (!send->fragmented && !rawe_sendqueue_may_number(&conn->queue)) {
        return false; /* the receiver has no place for it before an earlier one is whole */
    }
    fragment->id = send->fragmented ? send->message_number : conn->queue.message_number;
    fragment->offset = send->framed_bytes;
    fragment->total_bytes = (uint32_t)send->total_bytes;
    return true;
}

struct rawe_txframe *rawe_conn_frame_next(struct rawe_conn *conn, bool even,
                                          struct rawe_send ***copied_tail)
{
    struct rawe_engine *engine = conn->engine;
    bool batch = conn->batch == RAWE_BATCH_VALID;
    if (conn->queue.first == NULL || rawe_conn_window_full(conn)) {
        return NULL;
    }
    uint32_t room = batch ? batch_room_bytes(conn) : 0;
    if (batch && rawe_sendqueue_may_number(&conn->queue)) {
        rawe_conn_bundle(conn, room);
    } else if (!batch &&
               (is_copied(conn, conn->queue.first) || is_copied_record(conn, conn->queue.first))) {
        struct rawe_txframe *frame = conn->queue.first->kind == RAWE_FRAGMENT_MESSAGE
                                         ? frame_copied(conn, copied_tail)
                                         : frame_records(conn, copied_tail);
        if (frame == NULL) {
            rawe_conn_make_pending(conn); /* when others have given theirs back */
        }
        return frame;
    }
    struct rawe_send *send = conn->queue.first;
    struct rawe_fragment fragment;
    if (!describe(conn, send, &fragment)) {
        return NULL;
    }
    struct rawe_txframe *frame = rawe_txframe_take(&engine->frames, RAWE_FRAGMENT_BYTES_MAX);
    if (frame == NULL) {
        rawe_conn_make_pending(conn); /* when others have given theirs back */
        return NULL;
    }
    if (rawe_fragment_is_part(fragment.kind) && !send->fragmented) {
        rawe_sendqueue_number(&conn->queue, send);
    }
    uint64_t left = send->total_bytes - send->framed_bytes;
    if (batch) {
        fragment.data_bytes = (uint16_t)batch_data_bytes(conn, left, room, even);
        rawe_conn_batch_describe(conn, frame, &fragment);
    } else {
        room = conn->payload_max_bytes - (uint32_t)rawe_fragment_header_bytes(fragment.kind);
        fragment.data_bytes = (uint16_t)(left < room ? left : room);
        frame->buffer_bytes =
            (uint32_t)(RAWE_PAYLOAD_OFFSET +
                       rawe_fragment_encode(frame->buffer + RAWE_PAYLOAD_OFFSET, &fragment));
        frame->payload_bytes = frame->buffer_bytes - RAWE_PAYLOAD_OFFSET + fragment.data_bytes;
    }
    refer(frame, send, fragment.data_bytes);
    frame->send = send;
    send->frames++;
    request_ack(conn, frame,
                rawe_sendqueue_framed(&conn->queue, fragment.data_bytes) && !send->relaxed);
    if (batch && conn->queue.first != NULL) {
        rawe_conn_enter_window_whole(conn, frame);
    } else {
        rawe_conn_enter_window(conn, frame);
    }
    return frame;
}
