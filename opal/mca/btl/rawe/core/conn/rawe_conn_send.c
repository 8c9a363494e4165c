/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Send path, from a message, PUT or other record to the link. Short ones are copied into a frame,
 * which is sent at once or held back so that others can join it. Longer ones are queued, and enter
 * the window as frames once there is room. The window transmits and retransmits frames.
 */
#include "rawe_conn_send.h"

#include <assert.h>
#include <string.h>

#include "rawe_conn_connect.h"

/*
 * Coalescing: short messages, or records, share a frame.
 *
 * Each frame costs its sender a system call, whatever its length. So while earlier frames are in
 * flight, short messages are collected in a frame that is held back until it is full, until the
 * round ends (rawe_conn_flush), or until anything else must be sent. With nothing in flight,
 * nothing is held back: the first messages of a burst are sent at once.
 */

/** Copy another message or record, which must fit, into a frame. */
static inline void copy_fragment(struct rawe_txframe *frame, const struct rawe_fragment *fragment,
                                 const void *first, size_t first_bytes, const void *second,
                                 size_t second_bytes)
{
    size_t begin = rawe_fragment_pad(frame->payload_bytes);
    uint8_t *payload = frame->buffer + RAWE_PAYLOAD_OFFSET;
    memset(payload + frame->payload_bytes, 0, begin - frame->payload_bytes);
    uint8_t *out = payload + begin;
    out += rawe_fragment_encode(out, fragment);
    if (first_bytes != 0) {
        memcpy(out, first, first_bytes);
    }
    if (second_bytes != 0) {
        memcpy(out + first_bytes, second, second_bytes);
    }
    frame->payload_bytes = (uint32_t)(out - payload + first_bytes + second_bytes);
    frame->buffer_bytes = RAWE_PAYLOAD_OFFSET + frame->payload_bytes;
}

/**
 * Copy another send, which must fit, into a frame. A PUT, which is in no list, is linked to the
 * frame, and completes when the frame leaves the window.
 */
static void copy_send(struct rawe_txframe *frame, struct rawe_send *send)
{
    const struct rawe_bytes *pieces = send->pieces;
    size_t first_bytes = pieces[0].len_bytes;
    size_t second_bytes = send->piece_count == 2 ? pieces[1].len_bytes : 0;
    const struct rawe_fragment fragment = {
        .kind = send->kind,
        .tag = send->tag,
        .data_bytes = (uint16_t)(first_bytes + second_bytes),
        .id = send->handle_index, /* this and the next two: for records */
        .key = send->handle_key,
        .offset = send->offset,
    };
    copy_fragment(frame, &fragment, pieces[0].base, first_bytes, pieces[1].base, second_bytes);
    if (send->kind == RAWE_FRAGMENT_PUT) {
        send->total_bytes = send->framed_bytes = first_bytes;
        send->frames = 1;
        send->fragmented = send->to_report = false;
        send->next = frame->send;
        frame->send = send;
    }
}

/** Return true if a message or `record` fits into a frame, which must hold its kind. */
static bool fits_frame(const struct rawe_conn *conn, const struct rawe_txframe *frame, bool record,
                       size_t data_bytes)
{
    size_t head_bytes = record ? RAWE_FRAGMENT_PUT_BYTES : RAWE_FRAGMENT_MESSAGE_BYTES;
    bool holds_records = frame->buffer[RAWE_PAYLOAD_OFFSET] != RAWE_FRAGMENT_MESSAGE;
    return holds_records == record &&
           rawe_fragment_pad(frame->payload_bytes) + head_bytes + data_bytes <=
               rawe_conn_coalesce_limit(conn);
}

bool rawe_conn_record_joins(const struct rawe_conn *conn, size_t data_bytes)
{
    return conn->tx.window.held != NULL && conn->handshake.state == RAWE_CONN_OPEN &&
           fits_frame(conn, conn->tx.window.held, true, data_bytes);
}

/** Return true if a message of this length should be held back so that others can join it. */
static bool message_waits(const struct rawe_conn *conn, size_t data_bytes)
{
    uint32_t from = conn->engine->config.coalesce_from_frames;
    return from != 0 && conn->tx.window.in_flight >= from &&
           data_bytes < rawe_conn_coalesce_limit(conn) / 2;
}

/**
 * Return true if a record should be held back so that others can join it. A REPLY always waits for
 * the end of this round of reception: more requests may arrive. Others wait while a frame is in
 * flight, unless prompt: the caller makes progress until they are acknowledged or answered.
 */
static bool record_waits(const struct rawe_conn *conn, const struct rawe_send *send)
{
    if (!rawe_conn_may_hold_back(conn) ||
        send->pieces[0].len_bytes >= rawe_conn_coalesce_limit(conn) / 2) {
        return false;
    }
    return send->kind == RAWE_FRAGMENT_REPLY || (!send->prompt && conn->tx.window.in_flight != 0);
}

static inline void count_send(struct rawe_counters *counters, uint8_t kind, uint64_t bytes)
{
    counters->messages_sent += kind == RAWE_FRAGMENT_MESSAGE;
    counters->puts_sent += kind == RAWE_FRAGMENT_PUT;
    counters->bytes_sent += rawe_fragment_is_request(kind) ? 0 : bytes;
}

/* ---- from the queue to frames, which refer to the sender's memory or copy short data ---- */

/** Request an acknowledgement for a filled frame if rawe_sendqueue_asks wants one. */
static void request_ack(struct rawe_conn *conn, struct rawe_txframe *frame, bool awaited)
{
    if (rawe_sendqueue_asks(&conn->tx.queue, awaited)) {
        frame->flags |= RAWE_FLAG_ACK_NOW;
    }
}

/** Return true for a record that is copied, or a message that completes when copied to a frame. */
static bool is_copied(const struct rawe_conn *conn, const struct rawe_send *send)
{
    if (send == NULL || !rawe_conn_may_hold_back(conn) ||
        !rawe_order_allows(conn->tx.ordered.order, send->number)) {
        return false;
    }
    if (rawe_fragment_is_record(send->kind)) {
        return send->copies && rawe_conn_copies_record(conn, send->total_bytes);
    }
    return send->kind == RAWE_FRAGMENT_MESSAGE && !send->fragmented && !send->ordered &&
           send->total_bytes <= conn->engine->config.copy_max_bytes &&
           send->total_bytes <= rawe_conn_frame_message_bytes(conn);
}

/** Copy the first queued send, and as many of the next as fit, into a frame of the window. */
static struct rawe_txframe *frame_copies(struct rawe_conn *conn, struct rawe_sends *copied)
{
    struct rawe_send *send = conn->tx.queue.first;
    bool records = rawe_fragment_is_record(send->kind);
    size_t bytes =
        send->total_bytes + (records ? RAWE_FRAGMENT_PUT_BYTES : RAWE_FRAGMENT_MESSAGE_BYTES);
    struct rawe_txframe *frame =
        rawe_txframe_take(&conn->engine->frames,
                          is_copied(conn, send->next) ? rawe_conn_coalesce_limit(conn) : bytes);
    if (frame == NULL) {
        rawe_conn_make_pending(conn); /* retry when a frame is free */
        return NULL;
    }
    frame->number = send->number;
    do {
        conn->engine->counters.messages_coalesced += frame->payload_bytes != 0;
        (void)rawe_sendqueue_framed(&conn->tx.queue, send->total_bytes);
        copy_send(frame, send);
        if (send->kind != RAWE_FRAGMENT_PUT) {
            rawe_sends_append(copied, send);
        }
        send = conn->tx.queue.first;
    } while (is_copied(conn, send) &&
             fits_frame(conn, frame, rawe_fragment_is_record(send->kind), send->total_bytes));
    request_ack(conn, frame, frame->send != NULL);
    rawe_conn_enter_window(conn, frame);
    return frame;
}

/** Describe the unframed rest of the first queued send. Returns false if it must wait. */
static bool describe_rest(const struct rawe_conn *conn, const struct rawe_send *send,
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
        if (conn->path.batch != RAWE_BATCH_VALID && !send->fragmented && !send->ordered &&
            send->total_bytes <= rawe_conn_frame_message_bytes(conn)) {
            return true;
        }
        fragment->kind = RAWE_FRAGMENT_PART;
    }
    if (!send->fragmented && !rawe_sendqueue_may_number(&conn->tx.queue)) {
        return false; /* the receiver must complete an earlier message first */
    }
    fragment->id = send->fragmented ? send->message_number : conn->tx.queue.message_number;
    fragment->offset = send->framed_bytes;
    fragment->total_bytes = (uint32_t)send->total_bytes;
    return true;
}

/**
 * Put the next bytes of the oldest queued send into a new frame or batch of the window. NULL: there
 * is nothing to frame now. Sends completed by copying are appended to `copied`. With `even`, data
 * for several batches is divided equally among them; otherwise each is filled.
 */
static struct rawe_txframe *frame_queued(struct rawe_conn *conn, bool even,
                                         struct rawe_sends *copied)
{
    struct rawe_engine *engine = conn->engine;
    bool batch = conn->path.batch == RAWE_BATCH_VALID;
    if (conn->tx.queue.first == NULL || rawe_sendwin_free_numbers(&conn->tx.window) == 0 ||
        rawe_conn_must_wait(conn, conn->tx.queue.first->number)) {
        return NULL;
    }
    uint32_t room = batch ? rawe_conn_batch_room_bytes(conn) : 0;
    if (batch && rawe_sendqueue_may_number(&conn->tx.queue)) {
        rawe_conn_bundle(conn, room);
    } else if (!batch && is_copied(conn, conn->tx.queue.first)) {
        return frame_copies(conn, copied);
    }
    struct rawe_send *send = conn->tx.queue.first;
    struct rawe_fragment fragment;
    if (!describe_rest(conn, send, &fragment)) {
        return NULL;
    }
    struct rawe_txframe *frame = rawe_txframe_take(&engine->frames, RAWE_FRAGMENT_BYTES_MAX);
    if (frame == NULL) {
        rawe_conn_make_pending(conn); /* retry when a frame is free */
        return NULL;
    }
    if (rawe_fragment_is_part(fragment.kind) && !send->fragmented) {
        rawe_sendqueue_number(&conn->tx.queue, send);
    }
    uint64_t left = send->total_bytes - send->framed_bytes;
    if (batch) {
        fragment.data_bytes = (uint16_t)rawe_conn_batch_data_bytes(conn, left, room, even);
        rawe_conn_batch_describe(conn, frame, &fragment);
    } else {
        room = conn->path.payload_max_bytes - (uint32_t)rawe_fragment_header_bytes(fragment.kind);
        fragment.data_bytes = (uint16_t)(left < room ? left : room);
        frame->buffer_bytes =
            (uint32_t)(RAWE_PAYLOAD_OFFSET +
                       rawe_fragment_encode(frame->buffer + RAWE_PAYLOAD_OFFSET, &fragment));
        frame->payload_bytes = frame->buffer_bytes - RAWE_PAYLOAD_OFFSET + fragment.data_bytes;
    }
    frame->external_count = rawe_bytes_range(send->pieces, send->piece_count, send->framed_bytes,
                                             fragment.data_bytes, frame->external);
    frame->send = send;
    frame->number = send->number;
    send->frames++;
    request_ack(conn, frame,
                rawe_sendqueue_framed(&conn->tx.queue, fragment.data_bytes) && !send->relaxed);
    rawe_conn_enter_window(conn, frame);
    return frame;
}

/* ---- from the window to the link ---- */

/** Maximum number of frames handed to the link at once. */
#define ROUND_FRAMES 48u

/** Report the frame's send as transmitted if the link has just accepted its last frame. */
static void note_transmitted(struct rawe_conn *conn, const struct rawe_txframe *frame)
{
    struct rawe_send *send = frame->send;
    if (send == NULL || send->transmitted == NULL || frame->to_send != 0 || frame->resent != 0 ||
        send->framed_bytes != send->total_bytes || conn->engine->deferral->active ||
        (frame->next != NULL && frame->next->send == send)) {
        return;
    }
    rawe_sendqueue_report(&conn->tx.queue, send);
}

/** Return true if a frame is sent as it is, so that one call can hand several to the link. */
static bool is_plain(const struct rawe_conn *conn, const struct rawe_txframe *frame)
{
    return frame->segment_bytes == 0 && !rawe_conn_needs_slices(conn, frame);
}

/**
 * Return true if a plain frame's data must not be sent in place: the target of a GET may write to
 * the memory at any time, even between the computation of the CRC and the link's copy of the data.
 * The frame would arrive damaged, and again whenever it is resent. MPI forbids to change the data
 * of other sends.
 */
static bool may_change(const struct rawe_conn *conn, const struct rawe_txframe *frame)
{
    return frame->external_count != 0 && frame->send->kind == RAWE_FRAGMENT_REPLY &&
           !conn->path.via->config.checksummed;
}

/** Ensure that waiting data is sent once it can be, and count the wait. */
static void await_unblocking(struct rawe_conn *conn, enum rawe_blocked_by blocked, uint64_t now_ns)
{
    struct rawe_counters *counters = &conn->engine->counters;
    uint64_t *const counts[RAWE_BLOCKED_BY_COUNT] = {
        [RAWE_BLOCKED_BY_CREDIT] = &counters->blocked_credit,
        [RAWE_BLOCKED_BY_CONGESTION] = &counters->blocked_congestion,
        [RAWE_BLOCKED_BY_WINDOW] = &counters->blocked_window,
    };
    if (conn->tx.queue.first == NULL && conn->tx.window.to_transmit == 0) {
        return; /* nothing is waiting, or another connection has taken it */
    }
    if (blocked == RAWE_BLOCKED_BY_PORT) {
        rawe_conn_put_off(conn, false, now_ns); /* counted when the port refused a frame */
        return;
    }
    if (counts[blocked] != NULL) {
        ++*counts[blocked];
    }
    if (blocked == RAWE_BLOCKED_BY_CREDIT && conn->tx.window.in_flight == 0) {
        rawe_conn_ask_credit(conn, now_ns);
    }
}

/** Return true if the remaining data, too short for a batch, is to wait for more or a flush. */
static bool is_short(struct rawe_conn *conn)
{
    const struct rawe_sendqueue *queue = &conn->tx.queue;
    if (conn->tx.window.to_transmit != 0 ||
        queue->bytes + (uint64_t)queue->count * RAWE_FRAGMENT_MESSAGE_BYTES >=
            (uint64_t)rawe_conn_batch_frames(conn) * rawe_conn_segment_bytes(conn)) {
        return false;
    }
    if (queue->first != NULL) {
        rawe_conn_make_pending(conn);
    }
    return true;
}

/** Return the next frame to transmit: one waiting in the window, or a new one. NULL: none. */
static struct rawe_txframe *next_frame(struct rawe_conn *conn, bool all, struct rawe_sends *copied)
{
    struct rawe_sendwin *window = &conn->tx.window;
    struct rawe_txframe *frame = rawe_sendwin_next(window);
    /* Make no new frames until we know whether they can be batches. */
    if (frame == NULL &&
        (conn->path.batch == RAWE_BATCH_VALID || !rawe_conn_batch_awaits_validation(conn))) {
        frame = frame_queued(conn, all, copied);
        rawe_sendwin_hand_out_all(window);
    }
    return frame;
}

/** Room for the data of frames that may change, at least one. */
#define COPIES_BYTES_MAX UINT16_MAX

/**
 * Collect plain frames to transmit, beginning with `frame`. Those that may change are copied to
 * `copies`; with NULL, stop before them. Returns the number of frames.
 */
static unsigned collect_plain(struct rawe_conn *conn, struct rawe_txframe *frame, uint32_t room,
                              uint8_t *copies, struct rawe_txframe **frames,
                              struct rawe_frame *views, struct rawe_sends *copied)
{
    unsigned count = 0;
    size_t copies_bytes = copies != NULL ? COPIES_BYTES_MAX : 0;
    do {
        uint8_t *copy = may_change(conn, frame) ? copies : NULL;
        rawe_conn_finish_frame(conn, frame, count + 1, copy, &views[count]);
        if (copy != NULL) {
            copies += frame->payload_bytes;
            copies_bytes -= frame->payload_bytes;
        }
        frames[count++] = frame;
        if (count == ROUND_FRAMES || count == room) {
            return count;
        }
        frame = next_frame(conn, false, copied);
    } while (frame != NULL && is_plain(conn, frame) &&
             (!may_change(conn, frame) || frame->payload_bytes <= copies_bytes));
    if (frame != NULL) {
        rawe_sendwin_rewind(&conn->tx.window, frame); /* not plain, or no room: sent next */
    }
    return count;
}

/** Transmit at most `room` plain frames, beginning with `first`. False: the link refused some. */
static bool transmit_plain(struct rawe_conn *conn, struct rawe_txframe *first, uint32_t room,
                           uint8_t *copies, struct rawe_sends *copied, uint64_t now_ns)
{
    const struct rawe_output *output = &conn->path.via->output;
    struct rawe_txframe *frames[ROUND_FRAMES];
    struct rawe_frame views[ROUND_FRAMES];
    unsigned count = collect_plain(conn, first, room, copies, frames, views, copied);
    unsigned taken = output->transmit(output->context, views, count);
    for (unsigned i = 0; i < taken; i++) {
        rawe_conn_sent(conn, frames[i], 1, now_ns);
        note_transmitted(conn, frames[i]);
    }
    if (taken < count) {
        rawe_sendwin_rewind(&conn->tx.window, frames[taken]);
    }
    return taken == count;
}

/** As transmit_plain, if `first` may change. Not inlined, because it needs a large stack. */
__attribute__((noinline)) static bool transmit_changing(struct rawe_conn *conn,
                                                        struct rawe_txframe *first, uint32_t room,
                                                        struct rawe_sends *copied, uint64_t now_ns)
{
    uint8_t copies[COPIES_BYTES_MAX];
    return transmit_plain(conn, first, room, copies, copied, now_ns);
}

/** Note that data frames were sent, and an acknowledgement with them. */
static inline void note_sent(struct rawe_conn *conn, uint64_t now_ns)
{
    rawe_cc_sent(&conn->tx.cc, conn->tx.window.in_flight, conn->engine->now_ns);
    rawe_recvwin_carried(&conn->rx.window);
    rawe_conn_await_ack(conn, now_ns);
}

/**
 * Return true if more is queued than may be sent, and the peer, whose port serves several senders,
 * neither requested it nor knows of it. Many senders that start at once overflow the port's buffer,
 * and would wait for a round trip anyway.
 */
static bool is_to_announce(const struct rawe_conn *conn)
{
    return !conn->tx.reported_more && conn->tx.peer_credit < conn->tx.cc.most &&
           conn->tx.queue.bytes >
               (uint64_t)rawe_conn_in_flight_limit(&conn->tx) * rawe_conn_segment_bytes(conn) &&
           conn->tx.queue.first->kind != RAWE_FRAGMENT_REPLY;
}

/** Transmit as much as allowed. Returns the sends that are complete because they were copied. */
static struct rawe_send *transmit_window(struct rawe_conn *conn, bool all, uint64_t now_ns)
{
    struct rawe_engine *engine = conn->engine;
    struct rawe_sends copied = {NULL};
    const uint32_t in_flight = conn->tx.window.in_flight;
    const bool paused = in_flight == 0 && rawe_cc_paused(&conn->tx.cc, engine->now_ns);
    rawe_cc_validate(&conn->tx.cc, &conn->tx.rtt, in_flight, engine->now_ns);
    if (conn->path.batch != RAWE_BATCH_VALID) {
        rawe_conn_batch_validate(conn);
    } else if (paused && is_to_announce(conn)) {
        rawe_cc_announce(&conn->tx.cc, engine->now_ns);
        rawe_conn_batch_announce(conn);
    }
    enum rawe_blocked_by blocked;
    while ((blocked = rawe_conn_blocked_by(conn)) == RAWE_BLOCKED_BY_NOTHING &&
           (all || !is_short(conn))) {
        uint32_t room = rawe_conn_window_room(&conn->tx);
        struct rawe_txframe *frame = next_frame(conn, all, &copied);
        bool taken;
        if (frame == NULL) {
            break;
        }
        if (is_plain(conn, frame)) {
            taken = may_change(conn, frame)
                        ? transmit_changing(conn, frame, room, &copied, now_ns)
                        : transmit_plain(conn, frame, room, NULL, &copied, now_ns);
        } else {
            taken = rawe_conn_needs_slices(conn, frame)
                        ? rawe_conn_transmit_slices(conn, frame, room, now_ns)
                        : rawe_conn_batch_transmit(conn, frame, room, now_ns);
            note_transmitted(conn, frame);
            if (frame->to_send != 0) {
                rawe_sendwin_rewind(&conn->tx.window, frame);
            }
        }
        if (!taken) {
            rawe_conn_refused(conn, conn->tx.window.in_flight != in_flight, now_ns);
            break;
        }
        if (conn->path.batch == RAWE_BATCH_VALID && rawe_engine_turn_is_long(engine)) {
            rawe_conn_make_pending(conn);
            break;
        }
    }
    if (blocked != RAWE_BLOCKED_BY_NOTHING) {
        await_unblocking(conn, blocked, now_ns);
    }
    if (conn->tx.window.in_flight != in_flight) {
        note_sent(conn, now_ns);
    }
    return copied.first;
}

void rawe_conn_output(struct rawe_conn *conn, bool all, uint64_t now_ns)
{
    struct rawe_send *copied = transmit_window(conn, all, now_ns), *send;
    /*
     * A callback may send, and wait for and receive the answer. So remove each send from the list
     * before its callback; if `done` is called first, rawe_conn_release removes it.
     */
    while ((send = rawe_sendqueue_next_report(&conn->tx.queue)) != NULL) {
        send->transmitted(send, conn);
    }
    rawe_conn_complete(conn->engine, copied, RAWE_STATUS_DONE);
}

/** A `now_ns` for callers that have not read the clock. */
#define TIME_UNREAD 0u

/** Return `now_ns`, or read the clock if that is TIME_UNREAD. */
static inline uint64_t time_of(struct rawe_conn *conn, uint64_t now_ns)
{
    return now_ns != TIME_UNREAD
               ? now_ns
               : rawe_engine_time(conn->engine, rawe_engine_clock_ns(conn->engine));
}

/** Return true if a frame may enter the window, even if the port is full. */
static inline bool may_enter(enum rawe_blocked_by blocked)
{
    return blocked <= RAWE_BLOCKED_BY_PORT;
}

/** Transmit the newest frame, the only one to send. False: it waits for the next flush. */
__attribute__((hot)) static bool transmit_alone(struct rawe_conn *conn, struct rawe_txframe *frame,
                                                enum rawe_blocked_by blocked, uint64_t now_ns)
{
    struct rawe_engine *engine = conn->path.via;
    struct rawe_frame view;
    if (blocked == RAWE_BLOCKED_BY_PORT) {
        rawe_conn_put_off(conn, false, time_of(conn, now_ns));
        return false;
    }
    rawe_conn_finish_frame(conn, frame, 1, NULL, &view);
    bool taken = engine->output.transmit(engine->output.context, &view, 1) == 1;
    now_ns = time_of(conn, now_ns);
    if (!taken) {
        rawe_conn_refused(conn, false, now_ns);
        return false;
    }
    if (conn->tx.window.in_flight == 0) { /* any window allows one frame */
        rawe_cc_validate(&conn->tx.cc, &conn->tx.rtt, 0, conn->engine->now_ns);
    }
    rawe_conn_sent(conn, frame, 1, now_ns);
    note_sent(conn, now_ns);
    return true;
}

/** Send the held-back frame now, or as soon as there is room. */
static void send_coalesced(struct rawe_conn *conn, uint64_t now_ns)
{
    struct rawe_txframe *frame = rawe_sendwin_take_held(&conn->tx.window);
    rawe_conn_enter_window(conn, frame);
    enum rawe_blocked_by blocked = rawe_conn_blocked_by(conn);
    if (conn->tx.window.to_transmit != 1 || rawe_conn_batch_used(conn) ||
        rawe_conn_needs_slices(conn, frame)) {
        rawe_conn_output(conn, true, now_ns);
    } else if (may_enter(blocked)) {
        (void)transmit_alone(conn, frame, blocked, now_ns);
    } else {
        await_unblocking(conn, blocked, now_ns);
    }
}

void rawe_conn_coalesce_flush(struct rawe_conn *conn, uint64_t now_ns)
{
    if (conn->tx.window.held != NULL) {
        if (conn->tx.window.held->send != NULL) {
            conn->tx.window.held->flags |= RAWE_FLAG_ACK_NOW; /* the caller awaits its PUTs */
        }
        send_coalesced(conn, now_ns);
    }
}

/* ---- interface for callers ---- */

/** Connect if idle or closed by the peer. Returns why nothing can be sent now. */
static enum rawe_status connect_again(struct rawe_conn *conn, uint64_t now_ns)
{
    conn->engine->counters.blocked_peer++;
    if (conn->handshake.state == RAWE_CONN_IDLE || conn->handshake.state == RAWE_CONN_PEER_CLOSED) {
        rawe_conn_connect(conn, now_ns);
    }
    return conn->handshake.state == RAWE_CONN_FAILED ? RAWE_STATUS_FAILED : RAWE_STATUS_BUSY;
}

/** Return true if a copied send can enter the window in its own frame, with none before it. */
static inline bool may_go_alone(const struct rawe_conn *conn, enum rawe_blocked_by blocked)
{
    return may_enter(blocked) && conn->tx.queue.first == NULL && conn->tx.window.to_transmit == 0;
}

/** Hold back or transmit a frame with a copied send. False: neither worked; the frame is freed. */
static inline bool hold_or_transmit(struct rawe_conn *conn, struct rawe_txframe *frame, bool hold,
                                    enum rawe_blocked_by blocked, uint64_t now_ns)
{
    if (hold) {
        rawe_sendwin_hold(&conn->tx.window, frame);
        rawe_conn_make_pending(conn);
        return true;
    }
    rawe_conn_enter_window(conn, frame);
    if (__builtin_expect(
            transmit_alone(conn, frame, blocked, now_ns) || rawe_conn_may_hold_back(conn), 1)) {
        return true;
    }
    rawe_sendwin_retract(&conn->tx.window, frame);
    rawe_txframe_give(&conn->engine->frames, frame);
    return false;
}

__attribute__((hot)) enum rawe_status rawe_conn_send_copy(struct rawe_conn *conn, uint8_t tag,
                                                          const void *first, size_t first_bytes,
                                                          const void *second, size_t second_bytes)
{
    struct rawe_engine *engine = conn->engine;
    size_t data_bytes = first_bytes + second_bytes;
    const struct rawe_fragment fragment = {
        .kind = RAWE_FRAGMENT_MESSAGE,
        .tag = tag,
        .data_bytes = (uint16_t)data_bytes,
    };
    if (rawe_conn_must_wait(conn, conn->tx.ordered.order->next)) {
        return RAWE_STATUS_BUSY;
    }
    if (conn->tx.window.held != NULL && fits_frame(conn, conn->tx.window.held, false, data_bytes)) {
        copy_fragment(conn->tx.window.held, &fragment, first, first_bytes, second, second_bytes);
        conn->tx.ordered.order->next++;
        count_send(&engine->counters, RAWE_FRAGMENT_MESSAGE, data_bytes);
        engine->counters.messages_coalesced++;
        return RAWE_STATUS_DONE;
    }
    enum rawe_blocked_by blocked = rawe_conn_blocked_by(conn);
    if (__builtin_expect(blocked == RAWE_BLOCKED_BY_PEER, 0)) {
        return connect_again(conn, time_of(conn, TIME_UNREAD));
    }
    if (conn->tx.window.held != NULL) {
        send_coalesced(conn, time_of(conn, TIME_UNREAD));
        if (rawe_conn_must_wait(conn, conn->tx.ordered.order->next)) {
            return RAWE_STATUS_BUSY; /* a callback has sent other messages */
        }
        blocked = rawe_conn_blocked_by(conn);
    }
    /* A frame sent at once would overtake batches, which would then seem lost. */
    if (!may_go_alone(conn, blocked) || rawe_conn_batch_used(conn)) {
        if (blocked == RAWE_BLOCKED_BY_CREDIT && conn->tx.window.in_flight == 0) {
            rawe_conn_ask_credit(conn, engine->now_ns); /* the caller may have no send to queue */
        }
        return RAWE_STATUS_BUSY;
    }
    bool hold = message_waits(conn, data_bytes);
    struct rawe_txframe *frame =
        rawe_txframe_take(&engine->frames, hold ? rawe_conn_coalesce_limit(conn)
                                                : RAWE_FRAGMENT_MESSAGE_BYTES + data_bytes);
    if (__builtin_expect(frame == NULL, 0)) {
        return RAWE_STATUS_BUSY;
    }
    assert(data_bytes <= engine->config.copy_max_bytes &&
           data_bytes <= rawe_conn_frame_message_bytes(conn));
    frame->number = conn->tx.ordered.order->next++;
    copy_fragment(frame, &fragment, first, first_bytes, second, second_bytes);
    if (!hold_or_transmit(conn, frame, hold, blocked, TIME_UNREAD)) {
        return RAWE_STATUS_BUSY;
    }
    count_send(&engine->counters, RAWE_FRAGMENT_MESSAGE, data_bytes);
    return RAWE_STATUS_DONE;
}

enum rawe_status rawe_conn_send_record(struct rawe_conn *conn, struct rawe_send *send,
                                       uint64_t now_ns)
{
    struct rawe_engine *engine = conn->engine;
    now_ns = rawe_engine_time(engine, now_ns);
    if (conn->handshake.state != RAWE_CONN_OPEN) {
        return connect_again(conn, now_ns);
    }
    if (conn->tx.window.held != NULL) {
        if (rawe_conn_record_joins(conn, send->pieces[0].len_bytes)) {
            copy_send(conn->tx.window.held, send);
            count_send(&engine->counters, send->kind, send->pieces[0].len_bytes);
            if (send->prompt) {
                send_coalesced(conn, now_ns);
            }
            return RAWE_STATUS_DONE;
        }
        send_coalesced(conn, now_ns);
    }
    bool hold = record_waits(conn, send);
    size_t bytes = RAWE_FRAGMENT_PUT_BYTES + send->pieces[0].len_bytes;
    /* If BUSY, the caller queues the record, which requests credit if necessary. */
    enum rawe_blocked_by blocked = rawe_conn_blocked_by(conn);
    struct rawe_txframe *frame =
        may_go_alone(conn, blocked)
            ? rawe_txframe_take(&engine->frames, hold ? rawe_conn_coalesce_limit(conn) : bytes)
            : NULL;
    if (frame == NULL) {
        return RAWE_STATUS_BUSY;
    }
    frame->number = 0;
    copy_send(frame, send);
    if (!hold && frame->send != NULL) {
        frame->flags |= RAWE_FLAG_ACK_NOW; /* the caller awaits its completion */
    }
    if (!hold_or_transmit(conn, frame, hold, blocked, now_ns)) {
        return RAWE_STATUS_BUSY;
    }
    count_send(&engine->counters, send->kind, send->pieces[0].len_bytes);
    return RAWE_STATUS_DONE;
}

/** Frames older than this are from an earlier burst whose acknowledgement is still unread. */
#define RECENT_NS 100000u

/** Return true if enough batches were just sent to wait until one is full, or the round ends. */
static bool waits_for_full_batch(const struct rawe_conn *conn, uint64_t now_ns)
{
    const struct rawe_sendwin *window = &conn->tx.window;
    uint32_t from = conn->engine->config.coalesce_from_frames;
    return from != 0 && conn->path.batch == RAWE_BATCH_VALID && window->in_flight >= 2 * from &&
           (window->to_transmit != 0 || now_ns < rawe_txframe_sent_ns(window->newest) + RECENT_NS);
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
    if (conn->tx.window.held != NULL && conn->handshake.state == RAWE_CONN_OPEN) {
        send_coalesced(conn, now_ns); /* that frame precedes this send */
    }
    send->number = send->kind == RAWE_FRAGMENT_MESSAGE ? conn->tx.ordered.order->next++ : 0;
    rawe_sendqueue_push(&conn->tx.queue, send);
    count_send(&engine->counters, send->kind, send->total_bytes);
    assert(rawe_fragment_is_record(send->kind) ||
           send->total_bytes <= engine->config.message_max_bytes);
    return true;
}

void rawe_conn_start(struct rawe_conn *conn, uint64_t now_ns)
{
    now_ns = rawe_engine_time(conn->engine, now_ns);
    if (conn->handshake.state == RAWE_CONN_OPEN) {
        rawe_conn_output(conn, !waits_for_full_batch(conn, now_ns), now_ns);
    } else {
        (void)connect_again(conn, now_ns);
    }
}
