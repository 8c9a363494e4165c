/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Packing: short messages that share a frame.
 *
 * Each frame costs its sender a system call, whatever its length. So while earlier frames are on
 * their way, short messages gather in one that is held back until it is full, until the batch ends
 * (rawe_conn_flush), or until anything else is to be sent. With nothing under way nothing is held
 * back: the first messages of a burst leave at once.
 */
#include "rawe_conn.h"

#include <string.h>

/** From so many messages in a frame on, packing takes less time than trains do. Measured. */
#define WELL_PACKED 3u

/**
 * Payload that fits the buffer of a large frame, and a frame to this peer, be it in an envelope.
 */
static uint32_t pack_limit(const struct rawe_conn *conn)
{
    const struct rawe_trains *trains = &conn->engine->trains;
    uint32_t buffer_bytes = (uint32_t)conn->engine->frames.large_bytes;
    uint32_t bytes = conn->payload_max_bytes;
    if (conn->lane == RAWE_LANE_BULK && trains->output.transmit != NULL) {
        bytes = (bytes - trains->overhead_bytes) & ~7u;
    }
    return bytes < buffer_bytes ? bytes : buffer_bytes;
}

/** Write one more message into the frame; it fits. */
static void write_message(struct rawe_txframe *frame, uint8_t tag, const void *first,
                          size_t first_bytes, const void *second, size_t second_bytes)
{
    size_t begin = rawe_chunk_pad(frame->payload_bytes);
    size_t data_bytes = first_bytes + second_bytes;
    if (begin != frame->payload_bytes) {
        memset(frame->buffer + RAWE_PAYLOAD_OFFSET + frame->payload_bytes, 0,
               begin - frame->payload_bytes);
    }
    uint8_t *out = frame->buffer + RAWE_PAYLOAD_OFFSET + begin;
    out += rawe_chunk_encode(out, &(struct rawe_chunk){.kind = RAWE_CHUNK_MESSAGE,
                                                       .tag = tag,
                                                       .data_bytes = (uint16_t)data_bytes});
    if (first_bytes != 0) {
        memcpy(out, first, first_bytes);
    }
    if (second_bytes != 0) {
        memcpy(out + first_bytes, second, second_bytes);
    }
    frame->payload_bytes = (uint32_t)(begin + RAWE_CHUNK_MESSAGE_BYTES + data_bytes);
    frame->buffer_bytes = RAWE_PAYLOAD_OFFSET + frame->payload_bytes;
}

struct rawe_txframe *rawe_conn_pack_new(struct rawe_conn *conn, uint8_t tag, const void *first,
                                        size_t first_bytes, const void *second,
                                        size_t second_bytes, bool more)
{
    size_t bytes = RAWE_CHUNK_MESSAGE_BYTES + first_bytes + second_bytes;
    if (more && bytes < pack_limit(conn)) {
        bytes = pack_limit(conn);
    }
    struct rawe_txframe *frame = rawe_txframe_take(&conn->engine->frames, bytes);
    if (frame != NULL) {
        frame->payload_bytes = 0;
        write_message(frame, tag, first, first_bytes, second, second_bytes);
    }
    return frame;
}

bool rawe_conn_pack_fits(const struct rawe_conn *conn, const struct rawe_txframe *frame,
                         size_t data_bytes)
{
    return rawe_chunk_pad(frame->payload_bytes) + RAWE_CHUNK_MESSAGE_BYTES + data_bytes <=
           pack_limit(conn);
}

bool rawe_conn_pack_poor(const struct rawe_conn *conn, size_t data_bytes)
{
    return WELL_PACKED * (data_bytes + RAWE_CHUNK_MESSAGE_BYTES) > pack_limit(conn);
}

bool rawe_conn_pack_wanted(const struct rawe_conn *conn, size_t data_bytes)
{
    uint32_t from = conn->engine->config.pack_from_frames;
    return from != 0 && conn->in_flight >= from && data_bytes < pack_limit(conn) / 2;
}

bool rawe_conn_pack(struct rawe_conn *conn, uint8_t tag, const void *first, size_t first_bytes,
                    const void *second, size_t second_bytes)
{
    struct rawe_engine *engine = conn->engine;
    size_t data_bytes = first_bytes + second_bytes;
    if (conn->packing == NULL || !rawe_conn_pack_fits(conn, conn->packing, data_bytes)) {
        return false;
    }
    write_message(conn->packing, tag, first, first_bytes, second, second_bytes);
    engine->counters.messages_sent++;
    engine->counters.messages_packed++;
    engine->counters.bytes_sent += data_bytes;
    return true;
}

void rawe_conn_pack_begin(struct rawe_conn *conn, struct rawe_txframe *frame)
{
    conn->packing = frame;
    rawe_conn_make_pending(conn);
}

void rawe_conn_pack_add(struct rawe_txframe *frame, const struct rawe_send *send)
{
    const struct rawe_bytes *pieces = send->pieces;
    bool two = send->piece_count == 2;
    write_message(frame, send->tag, pieces[0].base, pieces[0].len_bytes,
                  two ? pieces[1].base : NULL, two ? pieces[1].len_bytes : 0);
}

void rawe_conn_pack_end(struct rawe_conn *conn)
{
    struct rawe_txframe *frame = conn->packing;
    if (frame != NULL) {
        conn->packing = NULL;
        rawe_conn_enter_window(conn, frame);
    }
}

void rawe_conn_pack_drop(struct rawe_conn *conn)
{
    if (conn->packing != NULL) {
        rawe_txframe_give(&conn->engine->frames, conn->packing);
        conn->packing = NULL;
    }
}
