/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Batches: consecutive frames that the link may move as one. Whether they pass to a peer depends on
 * devices and switches nobody can ask, so it is tried: the first thing the bulk lane sends is a
 * batch of VALIDATION frames, whose content the receiver knows and checks before it acknowledges
 * them.
 */
#include "rawe_conn_batch.h"

#include "rawe_conn_frame.h"

/** This part of a message may be added to it by filling up its last frame. */
#define FILL_PART 16u

/** Sendings lost, and nothing arrived, before a path counts as one that batches do not pass. */
#define VALIDATIONS_MAX 3u

void rawe_conn_batch_validate(struct rawe_conn *conn)
{
    struct rawe_engine *engine = conn->engine;
    const struct rawe_batches *batches = &engine->batches;
    if (batches->output.transmit == NULL || conn->lane != RAWE_LANE_BULK ||
        conn->handshake.state != RAWE_CONN_OPEN || conn->queue.first == NULL ||
        !rawe_sendwin_empty(&conn->sendwin)) {
        return;
    }
    uint32_t payload_bytes = (conn->payload_max_bytes - batches->overhead_bytes) & ~7u;
    uint32_t frame_bytes = payload_bytes + RAWE_HEADER_BYTES;
    uint32_t count = batches->bytes_max / frame_bytes;
    uint32_t room = rawe_conn_window_room(conn);
    count = count < batches->frames_max ? count : batches->frames_max;
    count = count < room ? count : room;
    conn->validation_begin = conn->sendwin.next;
    for (uint32_t i = 0; i < count; i++) {
        struct rawe_txframe *frame =
            rawe_txframe_take(&engine->frames, RAWE_FRAGMENT_MESSAGE_BYTES);
        if (frame == NULL) {
            break;
        }
        struct rawe_fragment fragment = {
            .kind = RAWE_FRAGMENT_VALIDATION,
            .data_bytes = (uint16_t)(payload_bytes - RAWE_FRAGMENT_MESSAGE_BYTES),
        };
        rawe_fragment_encode(frame->buffer + RAWE_PAYLOAD_OFFSET, &fragment);
        frame->buffer_bytes = RAWE_PAYLOAD_OFFSET + RAWE_FRAGMENT_MESSAGE_BYTES;
        frame->payload_bytes = payload_bytes;
        frame->external[0] = (struct rawe_bytes){batches->pattern, fragment.data_bytes};
        frame->external_count = 1;
        if (i + 1 == count) {
            frame->flags |= RAWE_FLAG_ACK_NOW;
        }
        rawe_conn_enter_window(conn, frame);
    }
    conn->validation_end = conn->sendwin.next;
    if (conn->validation_end != conn->validation_begin) {
        conn->batch = RAWE_BATCH_VALIDATING;
    }
}

void rawe_conn_batch_conclude(struct rawe_conn *conn, const struct rawe_txframe *lost)
{
    struct rawe_counters *counters = &conn->engine->counters;
    bool some_arrived = conn->sendwin.una != conn->validation_begin || conn->sendwin.sacked != 0;
    if (conn->sendwin.una == conn->validation_end || (lost != NULL && some_arrived)) {
        /* All of it has arrived, or what is missing was lost on a path that lets batches pass. */
        conn->batch = RAWE_BATCH_VALID;
        counters->validations_passed++;
    } else if (lost != NULL && lost->sendings >= VALIDATIONS_MAX) {
        conn->batch = RAWE_BATCH_INVALID;
        counters->validations_failed++;
    }
}

/**
 * May `frame`, of another message, travel in the same batch as `before`? Then the last frame of the
 * one before is filled up to the length of all, so that the next begins where a batch is cut.
 */
static bool joins(const struct rawe_conn *conn, const struct rawe_txframe *before,
                  const struct rawe_txframe *frame, uint32_t fill_bytes)
{
    /* Long messages bear filling up better than short ones. */
    return conn->engine->config.coalesce_from_frames != 0 &&
           before->buffer[RAWE_PAYLOAD_OFFSET] == RAWE_FRAGMENT_PART &&
           frame->buffer[RAWE_PAYLOAD_OFFSET] == RAWE_FRAGMENT_PART &&
           (fill_bytes <= conn->engine->batches.fill_max_bytes ||
            fill_bytes <= before->send->total_bytes / FILL_PART);
}

/**
 * Does `frame` follow `before`, which lacks `fill_bytes` of its full length, in the same batch?
 * What was lost twice goes alone: batches longer than the validated one may be too long for some
 * buffer on the path, always.
 */
static bool follows(const struct rawe_conn *conn, const struct rawe_txframe *before,
                    const struct rawe_txframe *frame, uint32_t fill_bytes)
{
    bool lost_twice =
        conn->batch == RAWE_BATCH_VALID && (before->sendings > 1 || frame->sendings > 1);
    bool together =
        frame->send == before->send ? fill_bytes == 0 : joins(conn, before, frame, fill_bytes);
    return frame->sequence == before->sequence + 1 && together && frame->external_count != 0 &&
           before->external_count != 0 && !lost_twice;
}

unsigned rawe_conn_batch_transmit(struct rawe_conn *conn, struct rawe_txframe *const *frames,
                                  const struct rawe_frame *views, unsigned count)
{
    struct rawe_engine *engine = conn->engine;
    const struct rawe_batches *batches = &engine->batches;
    unsigned done = 0;
    while (done < count) {
        uint32_t first_bytes = views[done].len_bytes - RAWE_ETH_HEADER_BYTES;
        uint32_t bytes = first_bytes;
        unsigned length = 1;
        while (done + length < count && length < batches->frames_max) {
            uint32_t next_bytes = views[done + length].len_bytes - RAWE_ETH_HEADER_BYTES;
            uint32_t last_bytes = views[done + length - 1].len_bytes - RAWE_ETH_HEADER_BYTES;
            if (next_bytes > first_bytes || bytes + first_bytes > batches->bytes_max ||
                !follows(conn, frames[done + length - 1], frames[done + length],
                         first_bytes - last_bytes)) {
                break;
            }
            bytes += first_bytes;
            length++;
        }
        if (batches->output.transmit(batches->output.context, &views[done], length) < length) {
            break;
        }
        engine->counters.batches_sent++;
        done += length;
    }
    return done;
}
