/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Coalescing: short messages that share a frame.
 *
 * Each frame costs its sender a system call, whatever its length. So while earlier frames are on
 * their way, short messages gather in one that is held back until it is full, until the round ends
 * (rawe_conn_flush), or until anything else is to be sent. With nothing under way nothing is held
 * back: the first messages of a burst leave at once.
 */
#include "rawe_conn_coalesce.h"

#include <string.h>

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
    if (conn->coalescing == NULL || conn->handshake.state != RAWE_CONN_OPEN ||
        !rawe_conn_coalesce_record_fits(conn, conn->coalescing, send->pieces[0].len_bytes)) {
        return false;
    }
    rawe_conn_coalesce_add_record(conn->coalescing, send);
    rawe_conn_coalesce_count_record(&conn->engine->counters, send);
    return true;
}

bool rawe_conn_coalesce(struct rawe_conn *conn, uint8_t tag, const void *first, size_t first_bytes,
                        const void *second, size_t second_bytes)
{
    struct rawe_engine *engine = conn->engine;
    size_t data_bytes = first_bytes + second_bytes;
    if (conn->coalescing == NULL || holds_records(conn->coalescing) ||
        !rawe_conn_coalesce_fits(conn, conn->coalescing, data_bytes)) {
        return false;
    }
    write_message(conn->coalescing, tag, first, first_bytes, second, second_bytes);
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
