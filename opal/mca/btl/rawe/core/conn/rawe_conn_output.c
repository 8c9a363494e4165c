/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Output of a connection: see rawe_conn_output.h.
 */
#include "rawe_conn_output.h"

#include <string.h>

#include "rawe_conn_batch.h"
#include "rawe_conn_control.h"

/*
 * Coalescing: short messages that share a frame.
 *
 * Each frame costs its sender a system call, whatever its length. So while earlier frames are on
 * their way, short messages gather in one that is held back until it is full, until the round ends
 * (rawe_conn_flush), or until anything else is to be sent. With nothing under way nothing is held
 * back: the first messages of a burst leave at once.
 */

/** With this many messages in a frame, coalescing takes less time than batches do. Measured. */
#define WELL_COALESCED 3u

/**
 * Payload that fits the buffer of a large frame, and a frame to this peer.
 */
static uint32_t coalesce_limit(const struct rawe_conn *conn)
{
    uint32_t buffer_bytes = (uint32_t)conn->engine->frames.large_bytes;
    return conn->payload_max_bytes < buffer_bytes ? conn->payload_max_bytes : buffer_bytes;
}

/** Write one more message into the frame; it fits. */
static void write_message(struct rawe_txframe *frame, uint8_t tag, const void *first,
                          size_t first_bytes, const void *second, size_t second_bytes)
{
    size_t begin = rawe_fragment_pad(frame->payload_bytes);
    size_t data_bytes = first_bytes + second_bytes;
    if (begin != frame->payload_bytes) {
        memset(frame->buffer + RAWE_PAYLOAD_OFFSET + frame->payload_bytes, 0,
               begin - frame->payload_bytes);
    }
    uint8_t *out = frame->buffer + RAWE_PAYLOAD_OFFSET + begin;
    out += rawe_fragment_encode(out, &(struct rawe_fragment){.kind = RAWE_FRAGMENT_MESSAGE,
                                                             .tag = tag,
                                                             .data_bytes = (uint16_t)data_bytes});
    if (first_bytes != 0) {
        memcpy(out, first, first_bytes);
    }
    if (second_bytes != 0) {
        memcpy(out + first_bytes, second, second_bytes);
    }
    frame->payload_bytes = (uint32_t)(begin + RAWE_FRAGMENT_MESSAGE_BYTES + data_bytes);
    frame->buffer_bytes = RAWE_PAYLOAD_OFFSET + frame->payload_bytes;
}

void rawe_conn_coalesce_add_record(struct rawe_txframe *frame, struct rawe_send *send)
{
    size_t begin = rawe_fragment_pad(frame->payload_bytes);
    size_t data_bytes = send->pieces[0].len_bytes;
    if (begin != frame->payload_bytes) {
        memset(frame->buffer + RAWE_PAYLOAD_OFFSET + frame->payload_bytes, 0,
               begin - frame->payload_bytes);
    }
    uint8_t *out = frame->buffer + RAWE_PAYLOAD_OFFSET + begin;
    out += rawe_fragment_encode(out, &(struct rawe_fragment){.kind = send->kind,
                                                             .tag = send->tag,
                                                             .data_bytes = (uint16_t)data_bytes,
                                                             .id = send->handle_index,
                                                             .key = send->handle_key,
                                                             .offset = send->offset});
    memcpy(out, send->pieces[0].base, data_bytes);
    frame->payload_bytes = (uint32_t)(begin + RAWE_FRAGMENT_PUT_BYTES + data_bytes);
    frame->buffer_bytes = RAWE_PAYLOAD_OFFSET + frame->payload_bytes;
    if (send->kind == RAWE_FRAGMENT_PUT) {
        send->total_bytes = send->framed_bytes = data_bytes;
        send->frames = 1;
        send->fragmented = send->to_report = false;
        send->next = frame->send;
        frame->send = send;
    }
}

/** Does the frame hold records? Then no messages join it, and the other way round. */
static bool holds_records(const struct rawe_txframe *frame)
{
    return frame->buffer[RAWE_PAYLOAD_OFFSET] != RAWE_FRAGMENT_MESSAGE;
}

bool rawe_conn_coalesce_record_fits(const struct rawe_conn *conn, const struct rawe_txframe *frame,
                                    size_t data_bytes)
{
    return holds_records(frame) &&
           rawe_fragment_pad(frame->payload_bytes) + RAWE_FRAGMENT_PUT_BYTES + data_bytes <=
               coalesce_limit(conn);
}

struct rawe_txframe *rawe_conn_coalesce_take(struct rawe_conn *conn, const struct rawe_send *send,
                                             bool more)
{
    size_t bytes = RAWE_FRAGMENT_PUT_BYTES + send->pieces[0].len_bytes;
    if (more && bytes < coalesce_limit(conn)) {
        bytes = coalesce_limit(conn);
    }
    struct rawe_txframe *frame = rawe_txframe_take(&conn->engine->frames, bytes);
    if (frame != NULL) {
        frame->payload_bytes = 0;
    }
    return frame;
}

struct rawe_txframe *rawe_conn_coalesce_new(struct rawe_conn *conn, uint8_t tag, const void *first,
                                            size_t first_bytes, const void *second,
                                            size_t second_bytes, bool more)
{
    size_t bytes = RAWE_FRAGMENT_MESSAGE_BYTES + first_bytes + second_bytes;
    if (more && bytes < coalesce_limit(conn)) {
        bytes = coalesce_limit(conn);
    }
    struct rawe_txframe *frame = rawe_txframe_take(&conn->engine->frames, bytes);
    if (frame != NULL) {
        frame->payload_bytes = 0;
        write_message(frame, tag, first, first_bytes, second, second_bytes);
    }
    return frame;
}

bool rawe_conn_coalesce_fits(const struct rawe_conn *conn, const struct rawe_txframe *frame,
                             size_t data_bytes)
{
    return rawe_fragment_pad(frame->payload_bytes) + RAWE_FRAGMENT_MESSAGE_BYTES + data_bytes <=
           coalesce_limit(conn);
}

bool rawe_conn_coalesce_poor(const struct rawe_conn *conn, size_t data_bytes)
{
    return WELL_COALESCED * (data_bytes + RAWE_FRAGMENT_MESSAGE_BYTES) > coalesce_limit(conn);
}

bool rawe_conn_coalesce_wanted(const struct rawe_conn *conn, size_t data_bytes)
{
    uint32_t from = conn->engine->config.coalesce_from_frames;
    return from != 0 && conn->sendwin.in_flight >= from && data_bytes < coalesce_limit(conn) / 2;
}

bool rawe_conn_coalesce_record_wanted(const struct rawe_conn *conn, const struct rawe_send *send)
{
    if (!rawe_conn_may_hold_back(conn) || send->pieces[0].len_bytes >= coalesce_limit(conn) / 2) {
        return false;
    }
    return send->kind == RAWE_FRAGMENT_REPLY ||
           (send->kind != RAWE_FRAGMENT_ATOMIC && conn->sendwin.in_flight != 0);
}

void rawe_conn_coalesce_count_record(struct rawe_counters *counters, const struct rawe_send *send)
{
    if (send->kind == RAWE_FRAGMENT_PUT) {
        counters->puts_sent++;
    }
    if (!rawe_fragment_is_request(send->kind)) {
        counters->bytes_sent += send->pieces[0].len_bytes;
    }
}

bool rawe_conn_coalesce_record(struct rawe_conn *conn, struct rawe_send *send)
{
    if (conn->sendwin.held == NULL || conn->handshake.state != RAWE_CONN_OPEN ||
        !rawe_conn_coalesce_record_fits(conn, conn->sendwin.held, send->pieces[0].len_bytes)) {
        return false;
    }
    rawe_conn_coalesce_add_record(conn->sendwin.held, send);
    rawe_conn_coalesce_count_record(&conn->engine->counters, send);
    return true;
}

bool rawe_conn_coalesce(struct rawe_conn *conn, uint8_t tag, const void *first, size_t first_bytes,
                        const void *second, size_t second_bytes)
{
    struct rawe_engine *engine = conn->engine;
    size_t data_bytes = first_bytes + second_bytes;
    if (conn->sendwin.held == NULL || holds_records(conn->sendwin.held) ||
        !rawe_conn_coalesce_fits(conn, conn->sendwin.held, data_bytes)) {
        return false;
    }
    write_message(conn->sendwin.held, tag, first, first_bytes, second, second_bytes);
    engine->counters.messages_sent++;
    engine->counters.messages_coalesced++;
    engine->counters.bytes_sent += data_bytes;
    return true;
}

void rawe_conn_coalesce_add(struct rawe_txframe *frame, const struct rawe_send *send)
{
    const struct rawe_bytes *pieces = send->pieces;
    bool two = send->piece_count == 2;
    write_message(frame, send->tag, pieces[0].base, pieces[0].len_bytes,
                  two ? pieces[1].base : NULL, two ? pieces[1].len_bytes : 0);
}

/*
 * Bundles: a batch costs its sender a system call and its receiver one entry, whatever is in it. So
 * short messages that wait on the bulk lane are copied one behind the other, as MESSAGE fragments,
 * and sent as one fragmented message.
 */

/** Bundles under way at most, over all connections: 16 MiB. Beyond it messages go singly. */
#define BUNDLES_MAX 256u

struct bundle {
    struct rawe_send send;
    struct rawe_engine *engine;
    struct rawe_send *messages; /**< that are in it; NULL once they are complete */
    uint8_t content[];
};

void rawe_conn_bundle_pool_init(struct rawe_buffer_pool *pool)
{
    rawe_buffer_pool_init(pool, sizeof(struct bundle) + RAWE_BATCH_BYTES_MAX, BUNDLES_MAX);
}

/** rawe_send.transmitted: the messages have been copied, and nothing holds them back any more. */
static void bundle_transmitted(struct rawe_send *send, struct rawe_conn *conn)
{
    struct bundle *bundle = (struct bundle *)(void *)send;
    struct rawe_send *messages = bundle->messages;
    bundle->messages = NULL;
    rawe_conn_complete(conn->engine, messages, RAWE_STATUS_DONE);
}

/** rawe_send.done */
static void bundle_done(struct rawe_send *send, enum rawe_status status)
{
    struct bundle *bundle = (struct bundle *)(void *)send;
    struct rawe_send *messages = bundle->messages;
    struct rawe_engine *engine = bundle->engine;
    rawe_buffer_give(&engine->bundles, bundle);
    rawe_conn_complete(engine, messages, status);
}

/** What a message takes in a bundle that has `used_bytes`; 0: it does not go into one. */
static size_t needed_bytes(const struct rawe_send *send, size_t used_bytes)
{
    if (send == NULL || send->kind != RAWE_FRAGMENT_MESSAGE || send->fragmented ||
        send->total_bytes > RAWE_CONN_BUNDLED_BYTES_MAX) {
        return 0;
    }
    size_t pad_bytes = rawe_fragment_pad(used_bytes) - used_bytes;
    return pad_bytes + RAWE_FRAGMENT_MESSAGE_BYTES + (size_t)send->total_bytes;
}

/** Copy a message behind what is there. */
static void append(struct bundle *bundle, size_t used_bytes, const struct rawe_send *send)
{
    size_t begin = rawe_fragment_pad(used_bytes);
    uint8_t *out = bundle->content + begin;
    memset(bundle->content + used_bytes, 0, begin - used_bytes);
    out += rawe_fragment_encode(out,
                                &(struct rawe_fragment){.kind = RAWE_FRAGMENT_MESSAGE,
                                                        .tag = send->tag,
                                                        .data_bytes = (uint16_t)send->total_bytes});
    for (unsigned i = 0; i < send->piece_count; i++) {
        memcpy(out, send->pieces[i].base, send->pieces[i].len_bytes);
        out += send->pieces[i].len_bytes;
    }
}

void rawe_conn_bundle(struct rawe_conn *conn, uint32_t bytes_max)
{
    struct rawe_engine *engine = conn->engine;
    struct rawe_sendqueue *queue = &conn->queue;
    uint32_t message_max_bytes = engine->config.message_max_bytes;
    bytes_max = bytes_max < message_max_bytes ? bytes_max : message_max_bytes;
    size_t used_bytes = needed_bytes(queue->first, 0);
    size_t next_bytes = used_bytes == 0 ? 0 : needed_bytes(queue->first->next, used_bytes);
    if (next_bytes == 0 || used_bytes + next_bytes > bytes_max || !rawe_conn_may_hold_back(conn)) {
        return;
    }
    struct bundle *bundle = rawe_buffer_take(&engine->bundles);
    if (bundle == NULL) {
        return;
    }
    struct rawe_send **tail = &bundle->messages;
    size_t bytes;
    used_bytes = 0;
    while ((bytes = needed_bytes(queue->first, used_bytes)) != 0 &&
           used_bytes + bytes <= bytes_max) {
        struct rawe_send *send = queue->first;
        append(bundle, used_bytes, send);
        used_bytes += bytes;
        (void)rawe_sendqueue_framed(queue, send->total_bytes);
        engine->counters.messages_coalesced++;
        *tail = send;
        tail = &send->next;
    }
    *tail = NULL;
    bundle->engine = engine;
    bundle->send = (struct rawe_send){
        .done = bundle_done,
        .transmitted = bundle_transmitted,
        .pieces = {{bundle->content, used_bytes}},
        .piece_count = 1,
        .kind = RAWE_FRAGMENT_BUNDLE,
        .relaxed = true,
        .ordered = true,
    };
    rawe_sendqueue_push_first(queue, &bundle->send);
}

/*
 * From a queued message or PUT to the frames that carry it: fragments that refer to the sender's
 * memory, or, when short, copies of it.
 */

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

/** A frame has taken what it can from the queue: see rawe_sendqueue_asks. */
static void request_ack(struct rawe_conn *conn, struct rawe_txframe *frame, bool awaited)
{
    if (rawe_sendqueue_asks(&conn->queue, awaited)) {
        frame->flags |= RAWE_FLAG_ACK_NOW;
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
    if (conn->queue.first == NULL || rawe_sendwin_full(&conn->sendwin)) {
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

/** Most frames handed to the link at once. */
#define ROUND_FRAMES 48u

/** Note the send whose last frame has just been taken by the link, if it is that. */
static void note_transmitted(struct rawe_conn *conn, const struct rawe_txframe *frame)
{
    const struct rawe_sendwin *window = &conn->sendwin;
    struct rawe_send *send = frame->send;
    uint32_t behind = frame->sequence + frame->segments;
    if (send == NULL || send->transmitted == NULL || frame->to_send != 0 || frame->resent != 0 ||
        send->framed_bytes != send->total_bytes || conn->engine->deferral.active ||
        (behind != window->next && rawe_sendwin_at(window, behind)->send == send)) {
        return;
    }
    rawe_sendqueue_report(&conn->queue, send);
}

/**
 * Report the sends that have been transmitted. A callback may send, receive what comes in answer,
 * and wait for it: so nothing is known here of the frames any more, and each send is taken off the
 * list before its callback, or by rawe_conn_release when its `done` comes first.
 */
static void report_transmitted(struct rawe_conn *conn)
{
    struct rawe_send *send;
    while ((send = rawe_sendqueue_next_report(&conn->queue)) != NULL) {
        send->transmitted(send, conn);
    }
}

/**
 * Would the window cut a batch short for which there is data? An acknowledgement will come that
 * makes room for all of it: batches of a few frames cost as much as whole ones (RFC 1122 section
 * 4.2.3.4 has the same for TCP, where it is called silly window syndrome).
 */
static bool batch_cut_short(const struct rawe_conn *conn, uint32_t room)
{
    uint32_t frames = rawe_conn_batch_frames(conn);
    uint32_t in_flight = conn->sendwin.in_flight;
    uint32_t wanted = (in_flight + room) / 4;
    wanted = wanted < frames ? wanted : frames;
    return in_flight != 0 && room < wanted && conn->sendwin.to_transmit == 0 &&
           conn->queue.bytes > (uint64_t)room * rawe_conn_segment_bytes(conn);
}

/** Does a frame go as it is, with others like it in one call of the link? */
static bool is_plain(const struct rawe_conn *conn, const struct rawe_txframe *frame)
{
    return frame->segment_bytes == 0 && !rawe_conn_needs_slices(conn, frame);
}

/** May the next frames go now? Not `all`: only as long as batches can be filled. */
static bool may_transmit(struct rawe_conn *conn, uint32_t room, bool all, uint64_t now_ns)
{
    struct rawe_counters *counters = &conn->engine->counters;
    const struct rawe_sendqueue *queue = &conn->queue;
    bool batches = conn->batch == RAWE_BATCH_VALID;
    bool waits = queue->first != NULL || conn->sendwin.to_transmit != 0;
    if (room == 0 || (batches && batch_cut_short(conn, room))) {
        if (waits) {
            counters->window_stalls++;
            counters->credit_stalls += conn->peer_credit <= conn->cc.window;
            if (conn->sendwin.in_flight == 0) {
                rawe_conn_ask_credit(conn, now_ns);
            }
        }
        return false;
    }
    if (!all && conn->sendwin.to_transmit == 0 &&
        queue->bytes + (uint64_t)queue->count * RAWE_FRAGMENT_MESSAGE_BYTES <
            (uint64_t)rawe_conn_batch_frames(conn) * rawe_conn_segment_bytes(conn)) {
        if (waits) {
            rawe_conn_make_pending(conn);
        }
        return false;
    }
    return true;
}

/** May new frames be made? Not until it is known whether they can be batches. */
static bool may_frame(const struct rawe_conn *conn)
{
    return conn->batch != RAWE_BATCH_VALIDATING &&
           (conn->batch != RAWE_BATCH_MIGRATED || rawe_sendwin_empty(&conn->sendwin));
}

/** The next frame to transmit: what waits in the window first, then a new one. NULL: none. */
static struct rawe_txframe *next_frame(struct rawe_conn *conn, bool all,
                                       struct rawe_send ***copied_tail)
{
    struct rawe_sendwin *window = &conn->sendwin;
    struct rawe_txframe *frame = rawe_sendwin_next(window);
    if (frame == NULL && may_frame(conn)) {
        frame = rawe_conn_frame_next(conn, all, copied_tail);
        rawe_sendwin_rewind(window, window->next);
    }
    return frame;
}

/** Transmit one batch, or frame that has to go in another form. False: the link has refused. */
static bool transmit_one(struct rawe_conn *conn, struct rawe_txframe *frame, uint32_t room,
                         uint64_t now_ns)
{
    bool taken = rawe_conn_needs_slices(conn, frame)
                     ? rawe_conn_transmit_slices(conn, frame, room, now_ns)
                     : rawe_conn_batch_transmit(conn, frame, room, now_ns);
    note_transmitted(conn, frame);
    if (frame->to_send != 0) {
        rawe_sendwin_rewind(&conn->sendwin, frame->sequence);
    }
    return taken;
}

/** Collect plain frames to transmit, `frame`, which is one, and what follows. */
static unsigned collect(struct rawe_conn *conn, struct rawe_txframe *frame, uint32_t room,
                        struct rawe_txframe **frames, struct rawe_frame *views,
                        struct rawe_send ***copied_tail)
{
    unsigned count = 0;
    do {
        rawe_conn_write_header(conn, frame);
        rawe_conn_view(conn, frame, &views[count]);
        frames[count++] = frame;
        if (count == ROUND_FRAMES || count == room) {
            return count;
        }
        frame = next_frame(conn, false, copied_tail);
    } while (frame != NULL && is_plain(conn, frame));
    if (frame != NULL) {
        rawe_sendwin_rewind(&conn->sendwin, frame->sequence); /* it goes alone */
    }
    return count;
}

/** Transmit plain frames, `first` and what follows, `room` at most. False: some were refused. */
static bool transmit_plain(struct rawe_conn *conn, struct rawe_txframe *first, uint32_t room,
                           struct rawe_send ***copied_tail, uint64_t now_ns)
{
    const struct rawe_output *output = &conn->via->output;
    struct rawe_txframe *frames[ROUND_FRAMES];
    struct rawe_frame views[ROUND_FRAMES];
    unsigned count = collect(conn, first, room, frames, views, copied_tail);
    unsigned taken = output->transmit(output->context, views, count);
    for (unsigned i = 0; i < taken; i++) {
        rawe_conn_sent(conn, frames[i], 1, now_ns);
        note_transmitted(conn, frames[i]);
    }
    if (taken < count) {
        rawe_sendwin_rewind(&conn->sendwin, frames[taken]->sequence);
    }
    return taken == count;
}

/**
 * Transmit until nothing more may go. Returns the sends that are complete because all their bytes
 * were copied into frames.
 */
static struct rawe_send *transmit(struct rawe_conn *conn, bool all, uint64_t now_ns)
{
    struct rawe_engine *engine = conn->engine;
    struct rawe_send *copied_first = NULL;
    struct rawe_send **copied_tail = &copied_first;
    const uint32_t in_flight = conn->sendwin.in_flight;
    rawe_cc_validate(&conn->cc, &conn->rtt, conn->sendwin.in_flight, engine->now_ns);
    if (conn->batch != RAWE_BATCH_VALID) {
        rawe_conn_batch_validate(conn);
    }
    uint32_t room;
    while (conn->handshake.state == RAWE_CONN_OPEN &&
           may_transmit(conn, room = rawe_conn_window_room(conn), all, now_ns)) {
        struct rawe_txframe *frame = next_frame(conn, all, &copied_tail);
        bool taken;
        if (frame == NULL) {
            break;
        }
        if (is_plain(conn, frame)) {
            taken = transmit_plain(conn, frame, room, &copied_tail, now_ns);
        } else {
            taken = transmit_one(conn, frame, room, now_ns);
        }
        if (!taken) {
            rawe_conn_refused(conn, conn->sendwin.in_flight != in_flight, now_ns);
            break;
        }
    }
    if (conn->sendwin.in_flight != in_flight) {
        rawe_cc_sent(&conn->cc, conn->sendwin.in_flight, engine->now_ns);
        rawe_recvwin_carried(&conn->recvwin);
        rawe_conn_await_ack(conn, now_ns);
    }
    *copied_tail = NULL;
    return copied_first;
}

void rawe_conn_output_some(struct rawe_conn *conn, bool all, uint64_t now_ns)
{
    if (conn->handshake.state == RAWE_CONN_OPEN && *rawe_conn_link_full(conn)) {
        rawe_conn_put_off(conn, false, now_ns);
        return;
    }
    struct rawe_send *copied = transmit(conn, all, now_ns);
    report_transmitted(conn);
    rawe_conn_complete(conn->engine, copied, RAWE_STATUS_DONE);
}
