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

/** Most frames handed to the link at once. */
#define ROUND_FRAMES 48u

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

/** Note the sends whose last frame is among those just taken by the link. */
static void note_transmitted(struct rawe_conn *conn, struct rawe_txframe *const *frames,
                             unsigned count)
{
    const struct rawe_sendwin *window = &conn->sendwin;
    for (unsigned i = 0; i < count; i++) {
        struct rawe_send *send = frames[i]->send;
        if (send == NULL || send->transmitted == NULL || frames[i]->sendings != 1 ||
            send->framed_bytes != send->total_bytes || conn->engine->deferral.active) {
            continue;
        }
        uint32_t behind = frames[i]->sequence + 1;
        if (behind != window->next && rawe_sendwin_at(window, behind)->send == send) {
            continue;
        }
        if (conn->transmitted == NULL) {
            conn->transmitted_tail = &conn->transmitted;
        }
        send->next = NULL;
        send->to_report = true;
        *conn->transmitted_tail = send;
        conn->transmitted_tail = &send->next;
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
    uint32_t in_flight = conn->sendwin.in_flight;
    uint32_t wanted = (in_flight + room) / 4;
    wanted = wanted < frames_max ? wanted : frames_max;
    return in_flight != 0 && room < wanted && conn->sendwin.to_transmit == 0 &&
           conn->queue.bytes > (uint64_t)room * rawe_conn_payload_limit(conn);
}

/** How much goes to the link at once. */
struct round {
    uint32_t frames_max;
    uint32_t full_frames; /**< that fill a batch, short ones do in larger numbers; 0: no batches */
    uint64_t bytes_max;
};

static struct round plan_round(const struct rawe_conn *conn)
{
    struct round round = {.frames_max = ROUND_FRAMES, .bytes_max = UINT64_MAX};
    if (conn->batch == RAWE_BATCH_VALID) {
        uint32_t frames_max = conn->engine->batches.frames_max;
        round.frames_max = frames_max < ROUND_FRAMES ? frames_max : ROUND_FRAMES;
        round.bytes_max = batch_bytes(conn);
        round.full_frames = (uint32_t)(round.bytes_max / full_frame_bytes(conn));
    }
    return round;
}

/** May the next frames go now? Not `all`: only as long as batches can be filled. */
static bool may_transmit(struct rawe_conn *conn, const struct round *round, uint32_t room, bool all,
                         uint64_t now_ns)
{
    struct rawe_counters *counters = &conn->engine->counters;
    bool waits = conn->queue.first != NULL || conn->sendwin.to_transmit != 0;
    if (room == 0 || (round->full_frames != 0 && batch_cut_short(conn, room, round->full_frames))) {
        if (waits) {
            counters->window_stalls++;
            counters->credit_stalls += conn->peer_credit <= conn->cc.window;
            if (conn->sendwin.in_flight == 0) {
                rawe_conn_ask_credit(conn, now_ns);
            }
        }
        return false;
    }
    if (!all && conn->sendwin.to_transmit == 0 && conn->queue.bytes < round->bytes_max &&
        conn->queue.count < round->frames_max) {
        if (waits) {
            rawe_conn_make_pending(conn);
        }
        return false;
    }
    return true;
}

/**
 * Collect frames to transmit: what waits in the window first, then new ones. Sends that are
 * complete by copying are appended to the list that ends at `*copied_tail`.
 */
static unsigned collect(struct rawe_conn *conn, const struct round *round, uint32_t room,
                        struct rawe_txframe **frames, struct rawe_frame *views,
                        struct rawe_send ***copied_tail)
{
    struct rawe_sendwin *window = &conn->sendwin;
    unsigned count = 0;
    uint32_t longest_bytes = 0; /* in a batch, all are as long as the longest */
    while (count < round->frames_max && count < room &&
           (count + 1) * (uint64_t)longest_bytes <= round->bytes_max) {
        /* With something waiting to be transmitted, all in `frames` is that; else it is new. */
        struct rawe_txframe *frame = count != 0 && window->to_transmit == count
                                         ? rawe_conn_frame_from_template(conn, frames[count - 1])
                                         : NULL;
        if (frame != NULL) {
            rawe_sendwin_rewind(window, window->next);
            rawe_conn_view(conn, frame, &views[count]);
            frames[count++] = frame;
            continue;
        }
        frame = rawe_sendwin_next(window);
        if (frame != NULL && rawe_conn_needs_slices(conn, frame)) {
            if (count != 0) {
                rawe_sendwin_rewind(window, frame->sequence); /* it goes alone */
            } else {
                frames[count++] = frame;
            }
            break;
        }
        if (frame == NULL && conn->batch == RAWE_BATCH_VALIDATING) {
            break;
        }
        if (frame == NULL) {
            frame = rawe_conn_frame_next(conn, copied_tail);
            rawe_sendwin_rewind(window, window->next);
        }
        if (frame == NULL) {
            break;
        }
        rawe_conn_write_header(conn, frame);
        rawe_conn_view(conn, frame, &views[count]);
        uint32_t frame_bytes = views[count].len_bytes - RAWE_ETH_HEADER_BYTES;
        longest_bytes = frame_bytes > longest_bytes ? frame_bytes : longest_bytes;
        frames[count++] = frame;
    }
    return count;
}

/** The link has refused these frames: they are the next to be transmitted. */
static void rewind_to(struct rawe_conn *conn, struct rawe_txframe *const *frames, unsigned count)
{
    uint32_t first = frames[0]->sequence;
    for (unsigned i = 1; i < count; i++) {
        if (rawe_sequence_before(frames[i]->sequence, first)) {
            first = frames[i]->sequence;
        }
    }
    rawe_sendwin_rewind(&conn->sendwin, first);
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
    bool transmitted = false;
    rawe_cc_validate(&conn->cc, &conn->rtt, conn->sendwin.in_flight, engine->now_ns);
    if (conn->batch == RAWE_BATCH_UNVALIDATED) {
        rawe_conn_batch_validate(conn);
    }
    const struct round round = plan_round(conn);
    while (conn->handshake.state == RAWE_CONN_OPEN) {
        struct rawe_txframe *frames[ROUND_FRAMES];
        struct rawe_frame views[ROUND_FRAMES];
        uint32_t room = rawe_conn_window_room(conn);
        if (!may_transmit(conn, &round, room, all, now_ns)) {
            break;
        }
        unsigned count = collect(conn, &round, room, frames, views, &copied_tail);
        if (count == 0) {
            break;
        }
        unsigned taken;
        if (rawe_conn_needs_slices(conn, frames[0])) {
            taken = rawe_conn_transmit_slices(conn, frames[0]);
        } else if (rawe_conn_batch_used(conn)) {
            taken = rawe_conn_batch_transmit(conn, frames, views, count);
        } else {
            taken = engine->output.transmit(engine->output.context, views, count);
        }
        for (unsigned i = 0; i < taken; i++) {
            rawe_conn_sent(conn, frames[i], now_ns);
        }
        if (taken < count) {
            rewind_to(conn, frames + taken, count - taken);
            rawe_conn_refused(conn, transmitted || taken != 0, now_ns);
        }
        transmitted |= taken != 0;
        note_transmitted(conn, frames, taken);
        if (taken < count) {
            break;
        }
    }
    if (transmitted) {
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
