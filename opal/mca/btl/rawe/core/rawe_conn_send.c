/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The way out: a message or PUT is sent at once or queued, and frames go through the window on to
 * the link. How a queued one becomes frames is in rawe_conn_frame.c.
 */
#include "rawe_conn.h"

#include <assert.h>
#include <string.h>

#include "rawe_crc32c.h"

/** Most frames handed to the link at once. */
#define BATCH_FRAMES 48u

/** A small window is no reason to have each frame acknowledged by a frame of its own. */
#define REQUEST_LEAST_FRAMES 2u

static uint32_t slot_of(const struct rawe_conn *conn, uint32_t sequence)
{
    return sequence & (conn->engine->config.window_frames - 1);
}

uint32_t rawe_conn_window_room(const struct rawe_conn *conn)
{
    uint32_t allowed = conn->cc.window;
    if (conn->peer_credit < allowed) {
        allowed = conn->peer_credit;
    }
    return conn->in_flight < allowed ? allowed - conn->in_flight : 0;
}

/**
 * Ask for an acknowledgement with every fourth part of the window, so that it slides before it is
 * used up. Not while little is in flight: an answer of the peer's will carry it then.
 */
static void request_ack(struct rawe_conn *conn, struct rawe_txframe *frame)
{
    uint32_t part = (conn->cc.window < conn->peer_credit ? conn->cc.window
                                                                 : conn->peer_credit) / 4;
    part = part < REQUEST_LEAST_FRAMES ? REQUEST_LEAST_FRAMES : part;
    if (conn->next - conn->ack_requested >= part && conn->in_flight + conn->to_transmit >= part) {
        frame->flags |= RAWE_FLAG_ACK_NOW;
        conn->ack_requested = conn->next;
    }
}

bool rawe_conn_window_full(const struct rawe_conn *conn)
{
    uint32_t used = conn->next - conn->una + (conn->coalescing != NULL ? 1 : 0);
    return used >= conn->engine->config.window_frames;
}

void rawe_conn_enter_window(struct rawe_conn *conn, struct rawe_txframe *frame)
{
    if (conn->to_transmit == 0) {
        conn->transmit_from = conn->next;
    }
    request_ack(conn, frame);
    frame->sequence = conn->next++;
    frame->state = RAWE_TXFRAME_WAITING;
    conn->slots[slot_of(conn, frame->sequence)] = frame;
    conn->to_transmit++;
}

uint16_t rawe_conn_credit(const struct rawe_conn *conn)
{
    return conn->lane == RAWE_LANE_BULK ? conn->engine->credit_bulk : conn->engine->credit;
}

void rawe_conn_write_header(const struct rawe_conn *conn, struct rawe_txframe *frame)
{
    struct rawe_header header = {
        .type = conn->lane == RAWE_LANE_BULK ? RAWE_FRAME_BULK : RAWE_FRAME_DATA,
        .flags = (uint8_t)(frame->flags | (frame->sendings != 0 ? RAWE_FLAG_RESENT : 0) |
                           (conn->engine->config.checksum ? RAWE_FLAG_CHECKSUM : 0)),
        .port = conn->peer_port,
        .key = conn->peer_key,
        .connection_id = conn->peer_id,
        .sequence = frame->sequence,
        .acknowledgement = conn->acktr->next,
        .payload_bytes = (uint16_t)frame->payload_bytes,
        .credit = rawe_conn_credit(conn),
    };
    memcpy(frame->buffer, conn->eth_header, RAWE_ETH_HEADER_BYTES);
    rawe_header_encode(frame->buffer + RAWE_ETH_HEADER_BYTES, &header);
    if (conn->engine->config.checksum) {
        uint32_t crc = rawe_crc32c(0, frame->buffer + RAWE_ETH_HEADER_BYTES,
                                   frame->buffer_bytes - RAWE_ETH_HEADER_BYTES);
        for (uint32_t i = 0; i < frame->external_count; i++) {
            crc = rawe_crc32c(crc, frame->external[i].base, frame->external[i].len_bytes);
        }
        rawe_checksum_encode(frame->checksum, crc);
    }
}

static void view_frame(const struct rawe_conn *conn, struct rawe_txframe *frame,
                       struct rawe_frame *view)
{
    view->pieces[0] = (struct rawe_bytes){frame->buffer, frame->buffer_bytes};
    view->piece_count = 1 + frame->external_count;
    for (uint32_t i = 0; i < frame->external_count; i++) {
        view->pieces[1 + i] = frame->external[i];
    }
    view->len_bytes = RAWE_PAYLOAD_OFFSET + frame->payload_bytes;
    if (conn->engine->config.checksum) {
        view->pieces[view->piece_count++] =
            (struct rawe_bytes){frame->checksum, RAWE_CHECKSUM_BYTES};
        view->len_bytes += RAWE_CHECKSUM_BYTES;
    }
}

/** The link has taken a frame. */
static void sent(struct rawe_conn *conn, struct rawe_txframe *frame, uint64_t now_ns)
{
    if (frame->sendings == 0) {
        conn->engine->counters.frames_sent++;
    } else {
        conn->engine->counters.frames_resent++;
    }
    if (frame->sendings < UINT8_MAX) {
        frame->sendings++;
    }
    /* A callback may have told a later time since; what leaves later must not look older. */
    uint64_t newest_ns = conn->engine->now_ns;
    frame->sent_ns = now_ns > newest_ns ? now_ns : newest_ns;
    frame->state = RAWE_TXFRAME_SENT;
    conn->to_transmit--;
    conn->in_flight++;
}

/** A data frame has carried our cumulative acknowledgement; a SACK block still has to be sent. */
static void acknowledgement_rode_along(struct rawe_conn *conn)
{
    if (conn->acktr->beyond == 0) {
        conn->unacked_frames = 0;
        conn->ack_deadline_ns = 0;
        conn->ack_now = false;
    }
}

/** Reconnect if need be. False when the connection cannot send data now. */
static bool ready_to_send(struct rawe_conn *conn, uint64_t now_ns)
{
    if (conn->state == RAWE_CONN_OPEN) {
        return true;
    }
    if (conn->state == RAWE_CONN_IDLE || conn->state == RAWE_CONN_PEER_CLOSED) {
        rawe_conn_connect(conn, now_ns);
    }
    return false;
}

/**
 * Transmit the newest frame of the window, before which none waits; or leave it to the next flush.
 */
static void transmit_alone(struct rawe_conn *conn, struct rawe_txframe *frame, uint64_t now_ns)
{
    struct rawe_engine *engine = conn->engine;
    struct rawe_frame view;
    rawe_conn_write_header(conn, frame);
    view_frame(conn, frame, &view);
    if (engine->output.transmit(engine->output.context, &view, 1) == 1) {
        sent(conn, frame, now_ns);
        acknowledgement_rode_along(conn);
        if (now_ns == RAWE_TIME_LATER) {
            conn->unstamped = frame;
        } else {
            rawe_conn_await_ack(conn, now_ns);
        }
    } else {
        engine->counters.link_stalls++;
        rawe_conn_make_pending(conn);
    }
}

void rawe_conn_stamp(struct rawe_conn *conn, uint64_t now_ns)
{
    conn->engine->now_ns = now_ns;
    if (conn->unstamped != NULL) {
        conn->unstamped->sent_ns = now_ns;
        conn->unstamped = NULL;
        rawe_conn_await_ack(conn, now_ns);
    }
}

/** The frame that was held back goes now, or as soon as there is room. */
static void send_coalesced(struct rawe_conn *conn, uint64_t now_ns)
{
    struct rawe_txframe *frame = conn->coalescing;
    rawe_conn_coalesce_end(conn);
    if (conn->to_transmit != 1 || rawe_conn_batch_used(conn)) {
        rawe_conn_output(conn, now_ns);
    } else if (rawe_conn_window_room(conn) != 0) {
        transmit_alone(conn, frame, now_ns);
    } /* else the next acknowledgement sends it */
}

void rawe_conn_coalesce_flush(struct rawe_conn *conn, uint64_t now_ns)
{
    if (conn->coalescing != NULL) {
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
        engine->now_ns = now_ns;
    }
    if (conn->state != RAWE_CONN_OPEN && !ready_to_send(conn, now_ns)) {
        return conn->state == RAWE_CONN_FAILED ? RAWE_STATUS_FAILED : RAWE_STATUS_BUSY;
    }
    size_t data_bytes = first_bytes + second_bytes;
    assert(data_bytes <= engine->config.copy_max_bytes &&
           data_bytes <= rawe_conn_frame_message_bytes(conn));
    if (rawe_conn_coalesce(conn, tag, first, first_bytes, second, second_bytes)) {
        return RAWE_STATUS_DONE;
    }
    if (conn->coalescing != NULL) {
        send_coalesced(conn, now_ns);
    }
    /*
     * Frames that take the short way would overtake batches, and look like evidence of their loss.
     */
    if (conn->queue != NULL || conn->to_transmit != 0 || rawe_conn_window_room(conn) == 0 ||
        rawe_conn_window_full(conn) || rawe_conn_batch_used(conn)) {
        return RAWE_STATUS_BUSY;
    }
    bool pack = rawe_conn_coalesce_wanted(conn, data_bytes);
    struct rawe_txframe *frame =
        rawe_conn_coalesce_new(conn, tag, first, first_bytes, second, second_bytes, pack);
    if (frame == NULL) {
        return RAWE_STATUS_BUSY;
    }
    engine->counters.messages_sent++;
    engine->counters.bytes_sent += data_bytes;
    if (pack) {
        rawe_conn_coalesce_begin(conn, frame);
    } else {
        rawe_conn_enter_window(conn, frame);
        transmit_alone(conn, frame, now_ns);
    }
    return RAWE_STATUS_DONE;
}

/** Bytes of a full frame as part of a batch: header and payload. */
static uint32_t full_frame_bytes(const struct rawe_conn *conn)
{
    return rawe_conn_payload_limit(conn) + RAWE_HEADER_BYTES;
}

/** Bytes of full frames that fill a batch on this connection. */
static uint64_t batch_bytes(const struct rawe_conn *conn)
{
    const struct rawe_batches *batches = &conn->engine->batches;
    uint32_t frame_bytes = full_frame_bytes(conn);
    uint32_t frames = batches->bytes_max / frame_bytes;
    frames = frames < batches->frames_max ? frames : batches->frames_max;
    return (uint64_t)(frames != 0 ? frames : 1) * frame_bytes;
}

/**
 * A batch costs a system call, whatever its length: while earlier ones are on their way, what is to
 * be sent coalesces until it fills one, or until the round ends (rawe_conn_flush).
 */
static bool coalesces(const struct rawe_conn *conn)
{
    uint32_t from = conn->engine->config.coalesce_from_frames;
    return from != 0 && conn->batch == RAWE_BATCH_VALID && conn->in_flight >= 2 * from;
}

static void output(struct rawe_conn *conn, bool all, uint64_t now_ns);

void rawe_conn_send(struct rawe_conn *conn, struct rawe_send *send, uint64_t now_ns)
{
    struct rawe_engine *engine = conn->engine;
    engine->now_ns = now_ns;
    send->next = NULL;
    send->framed_bytes = 0;
    send->frames = 0;
    send->fragmented = send->to_report = false;
    send->total_bytes = 0;
    for (unsigned i = 0; i < send->piece_count; i++) {
        send->total_bytes += send->pieces[i].len_bytes;
    }
    assert(send->total_bytes != 0);
    assert(send->kind == RAWE_FRAGMENT_PUT || send->total_bytes <= engine->config.message_max_bytes);
    if (conn->state == RAWE_CONN_FAILED) {
        send->done(send, RAWE_STATUS_FAILED);
        return;
    }
    if (send->kind == RAWE_FRAGMENT_PUT) {
        engine->counters.puts_sent++;
    } else {
        engine->counters.messages_sent++;
    }
    engine->counters.bytes_sent += send->total_bytes;
    if (conn->coalescing != NULL && conn->state == RAWE_CONN_OPEN) {
        send_coalesced(conn, now_ns); /* it was there before */
    }
    *conn->queue_tail = send;
    conn->queue_tail = &send->next;
    conn->queued_bytes += send->total_bytes;
    conn->queued_sends++;
    if (ready_to_send(conn, now_ns)) {
        output(conn, !coalesces(conn), now_ns);
    }
}

void rawe_conn_send_rebased(struct rawe_conn *conn, struct rawe_send *send, uint8_t *copy)
{
    assert(send->framed_bytes == send->total_bytes);
    uint32_t left = send->frames;
    for (uint32_t sequence = conn->next - 1; left != 0; sequence--) {
        struct rawe_txframe *frame = conn->slots[slot_of(conn, sequence)];
        if (frame->send != send) {
            continue;
        }
        for (uint32_t i = 0; i < frame->external_count; i++) {
            struct rawe_bytes *part = &frame->external[i];
            uint8_t *to = copy;
            for (unsigned k = 0; k < send->piece_count; k++) {
                const struct rawe_bytes *piece = &send->pieces[k];
                size_t at = (size_t)((uintptr_t)part->base - (uintptr_t)piece->base);
                if (at < piece->len_bytes) {
                    part->base = to + at;
                    break;
                }
                to += piece->len_bytes;
            }
        }
        left--;
    }
    for (unsigned k = 0; k < send->piece_count; k++) {
        send->pieces[k].base = copy;
        copy += send->pieces[k].len_bytes;
    }
}

/** The next frame that is in the window but has to be transmitted (again), or NULL. */
static struct rawe_txframe *transmit_next(struct rawe_conn *conn)
{
    if (conn->to_transmit == 0) {
        return NULL;
    }
    if (rawe_sequence_before(conn->transmit_from, conn->una)) {
        conn->transmit_from = conn->una;
    }
    while (conn->transmit_from != conn->next) {
        struct rawe_txframe *frame = conn->slots[slot_of(conn, conn->transmit_from)];
        conn->transmit_from++;
        if (frame->state == RAWE_TXFRAME_WAITING || frame->state == RAWE_TXFRAME_LOST) {
            return frame;
        }
    }
    return NULL;
}

/** Note the sends whose last frame is among those just taken by the link. */
static void note_transmitted(struct rawe_conn *conn, struct rawe_txframe *const *frames,
                             unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        struct rawe_send *send = frames[i]->send;
        if (send == NULL || send->transmitted == NULL || frames[i]->sendings != 1 ||
            send->framed_bytes != send->total_bytes || conn->engine->deferring) {
            continue;
        }
        uint32_t behind = frames[i]->sequence + 1;
        if (behind == conn->next || conn->slots[slot_of(conn, behind)]->send != send) {
            if (conn->transmitted == NULL) {
                conn->transmitted_tail = &conn->transmitted;
            }
            send->next = NULL;
            send->to_report = true;
            *conn->transmitted_tail = send;
            conn->transmitted_tail = &send->next;
        }
    }
}

/**
 * Report the sends that have been transmitted. A callback may send, receive what comes in answer,
 * and wait for it: so nothing is known here of the frames any more, and each send is taken off the
 * list before its callback, or by rawe_conn_release when its `done` comes first.
 */
static void report_transmitted(struct rawe_conn *conn)
{
    while (conn->transmitted != NULL) {
        struct rawe_send *send = conn->transmitted;
        conn->transmitted = send->next;
        send->to_report = false;
        send->transmitted(send, conn);
    }
}

/**
 * Would the window cut a batch short for which there is data? An acknowledgement will come that
 * makes room for all of it: batches of a few frames cost as much as whole ones (RFC 1122 section
 * 4.2.3.4 has the same for TCP, where it is called silly window syndrome).
 */
static bool batch_cut_short(const struct rawe_conn *conn, uint32_t room, uint32_t frames_max)
{
    uint32_t wanted = (conn->in_flight + room) / 4;
    wanted = wanted < frames_max ? wanted : frames_max;
    return conn->in_flight != 0 && room < wanted && conn->to_transmit == 0 &&
           conn->queued_bytes > (uint64_t)room * rawe_conn_payload_limit(conn);
}

/**
 * One round of output; not `all`: only as long as batches can be filled. Returns the sends that are
 * complete because all their bytes were copied into frames.
 */
static struct rawe_send *output_round(struct rawe_conn *conn, bool all, uint64_t now_ns)
{
    struct rawe_engine *engine = conn->engine;
    uint32_t frames_max = BATCH_FRAMES;
    uint32_t full_frames = 0; /* that fill a batch; short ones do in larger numbers */
    uint64_t bytes_max = UINT64_MAX;
    struct rawe_send *copied_first = NULL;
    struct rawe_send **copied_tail = &copied_first;
    bool transmitted = false;
    if (conn->batch == RAWE_BATCH_UNTRIED) {
        rawe_conn_batch_validate(conn);
    }
    if (conn->batch == RAWE_BATCH_VALID) {
        frames_max = engine->batches.frames_max < BATCH_FRAMES ? engine->batches.frames_max
                                                              : BATCH_FRAMES;
        bytes_max = batch_bytes(conn);
        full_frames = (uint32_t)(bytes_max / full_frame_bytes(conn));
    }
    while (conn->state == RAWE_CONN_OPEN) {
        uint32_t room = rawe_conn_window_room(conn);
        if (room == 0 || (full_frames != 0 && batch_cut_short(conn, room, full_frames))) {
            if (conn->queue != NULL || conn->to_transmit != 0) {
                engine->counters.window_stalls++;
                engine->counters.credit_stalls += conn->peer_credit <= conn->cc.window;
            }
            break;
        }
        if (!all && conn->to_transmit == 0 && conn->queued_bytes < bytes_max &&
            conn->queued_sends < frames_max) {
            if (conn->queue != NULL) {
                rawe_conn_make_pending(conn);
            }
            break;
        }
        struct rawe_txframe *batch[BATCH_FRAMES];
        struct rawe_frame views[BATCH_FRAMES];
        unsigned count = 0;
        uint32_t longest_bytes = 0; /* in a batch, all are as long as the longest */
        while (count < frames_max && count < room &&
               (count + 1) * (uint64_t)longest_bytes <= bytes_max) {
            /* With something waiting to be transmitted, all in `batch` is that; else it is new. */
            struct rawe_txframe *frame =
                count != 0 && conn->to_transmit == count
                    ? rawe_conn_frame_from_template(conn, batch[count - 1])
                    : NULL;
            if (frame != NULL) {
                conn->transmit_from = conn->next;
                view_frame(conn, frame, &views[count]);
                batch[count++] = frame;
                continue;
            }
            frame = transmit_next(conn);
            if (frame == NULL && conn->batch == RAWE_BATCH_VALIDATING) {
                break;
            }
            if (frame == NULL) {
                frame = rawe_conn_frame_next(conn, &copied_tail);
                conn->transmit_from = conn->next;
            }
            if (frame == NULL) {
                break;
            }
            rawe_conn_write_header(conn, frame);
            view_frame(conn, frame, &views[count]);
            uint32_t frame_bytes = views[count].len_bytes - RAWE_ETH_HEADER_BYTES;
            longest_bytes = frame_bytes > longest_bytes ? frame_bytes : longest_bytes;
            batch[count++] = frame;
        }
        if (count == 0) {
            break;
        }
        unsigned taken =
            rawe_conn_batch_used(conn)
                ? rawe_conn_batch_transmit(conn, batch, views, count)
                : engine->output.transmit(engine->output.context, views, count);
        for (unsigned i = 0; i < taken; i++) {
            sent(conn, batch[i], now_ns);
        }
        transmitted |= taken != 0;
        note_transmitted(conn, batch, taken);
        if (taken < count) {
            conn->transmit_from = batch[taken]->sequence;
            for (unsigned i = taken + 1; i < count; i++) {
                if (rawe_sequence_before(batch[i]->sequence, conn->transmit_from)) {
                    conn->transmit_from = batch[i]->sequence;
                }
            }
            engine->counters.link_stalls++;
            rawe_conn_make_pending(conn);
            break;
        }
    }
    if (transmitted) {
        acknowledgement_rode_along(conn);
        rawe_conn_await_ack(conn, now_ns);
    }
    *copied_tail = NULL;
    return copied_first;
}

static void output(struct rawe_conn *conn, bool all, uint64_t now_ns)
{
    struct rawe_send *copied = output_round(conn, all, now_ns);
    report_transmitted(conn);
    rawe_conn_complete(conn->engine, copied, RAWE_STATUS_DONE);
}

void rawe_conn_output(struct rawe_conn *conn, uint64_t now_ns)
{
    output(conn, true, now_ns);
}

bool rawe_conn_transmit_control(struct rawe_conn *conn, uint8_t type, uint8_t flags,
                                uint32_t sequence, const uint8_t *payload, size_t payload_bytes)
{
    uint8_t buffer[RAWE_PAYLOAD_OFFSET + RAWE_SACK_BYTES_MAX + RAWE_CHECKSUM_BYTES];
    assert(payload_bytes <= RAWE_SACK_BYTES_MAX);
    struct rawe_header header = {
        .type = type,
        .flags = flags,
        .port = conn->peer_port,
        .key = conn->peer_key,
        .connection_id = conn->peer_id,
        .sequence = sequence,
        .acknowledgement = conn->acktr != NULL ? conn->acktr->next : 0,
        .payload_bytes = (uint16_t)payload_bytes,
        .credit = rawe_conn_credit(conn),
    };
    memcpy(buffer, conn->eth_header, RAWE_ETH_HEADER_BYTES);
    if (payload_bytes != 0) {
        memcpy(buffer + RAWE_PAYLOAD_OFFSET, payload, payload_bytes);
    }
    size_t len_bytes = rawe_engine_seal(conn->engine, buffer, &header);
    struct rawe_frame view = {
        .pieces = {{buffer, len_bytes}},
        .piece_count = 1,
        .len_bytes = (uint32_t)len_bytes,
    };
    /* A probe is an answer's way to tell what arrived before it: it must take the same way. */
    struct rawe_output *output = type == RAWE_FRAME_PROBE && sequence != RAWE_PROBE_PLAIN &&
                                         conn->batch == RAWE_BATCH_VALID
                                     ? &conn->engine->batches.output
                                     : &conn->engine->output;
    return output->transmit(output->context, &view, 1) == 1;
}
