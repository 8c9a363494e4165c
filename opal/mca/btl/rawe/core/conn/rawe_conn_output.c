/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Output: frames of the window to the link, as many as congestion window and credit allow.
 */
#include "rawe_conn_output.h"

#include "rawe_conn_batch.h"
#include "rawe_conn_control.h"
#include "rawe_conn_frame.h"
#include "rawe_conn_life.h"
#include "rawe_conn_slice.h"
#include "rawe_conn_window.h"

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
    if (conn->transmitted == NULL) {
        conn->transmitted_tail = &conn->transmitted;
    }
    send->next = NULL;
    send->to_report = true;
    *conn->transmitted_tail = send;
    conn->transmitted_tail = &send->next;
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
    const struct rawe_output *output = &conn->through->output;
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
        rawe_cc_transmitted(&conn->cc, conn->sendwin.in_flight, engine->now_ns);
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
