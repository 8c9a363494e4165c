/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Slices: frames that were numbered before the path was found to carry less. They keep their
 * number, and travel in parts, one behind the other; the receiver takes the frame when it has come
 * whole. That is rare and short, so it is simple: one frame at a time is put together on each
 * connection, and a slice out of order is as good as lost, as the whole frame is.
 */
#include "rawe_conn_slice.h"

#include <stdlib.h>
#include <string.h>

#include "rawe_conn_control.h"

/** A frame being put together. */
struct rawe_sliced {
    uint32_t sequence;
    uint32_t received_bytes; /**< of its payload, from the beginning; 0: nothing is here */
    struct rawe_slice first;
    uint8_t payload[];
};

/** Copy `len_bytes` of a frame's payload from `offset` on. */
static void copy_payload(uint8_t *to, const struct rawe_txframe *frame, size_t offset,
                         size_t len_bytes)
{
    struct rawe_bytes pieces[3] = {
        {frame->buffer + RAWE_PAYLOAD_OFFSET, frame->buffer_bytes - RAWE_PAYLOAD_OFFSET}};
    for (uint32_t i = 0; i < frame->external_count; i++) {
        pieces[1 + i] = frame->external[i];
    }
    for (unsigned i = 0; i <= frame->external_count && len_bytes != 0; i++) {
        if (offset >= pieces[i].len_bytes) {
            offset -= pieces[i].len_bytes;
            continue;
        }
        size_t part = pieces[i].len_bytes - offset;
        part = part < len_bytes ? part : len_bytes;
        memcpy(to, (const uint8_t *)pieces[i].base + offset, part);
        to += part;
        len_bytes -= part;
        offset = 0;
    }
}

bool rawe_conn_transmit_slices(struct rawe_conn *conn, struct rawe_txframe *frame)
{
    struct rawe_engine *engine = conn->engine;
    bool checksum = engine->config.checksum;
    size_t most_bytes = (conn->payload_max_bytes & ~7u) - RAWE_SLICE_BYTES;
    uint8_t *buffer =
        malloc(RAWE_PAYLOAD_OFFSET + RAWE_SLICE_BYTES + most_bytes + RAWE_CHECKSUM_BYTES);
    if (buffer == NULL) {
        return false;
    }
    rawe_conn_write_header(conn, frame);
    struct rawe_header header;
    (void)rawe_header_decode(&header, frame->buffer + RAWE_ETH_HEADER_BYTES,
                             RAWE_HEADER_BYTES + (size_t)frame->payload_bytes);
    struct rawe_slice slice = {.total_bytes = (uint16_t)frame->payload_bytes, .type = header.type};
    memcpy(buffer, frame->buffer, RAWE_ETH_HEADER_BYTES);
    bool taken = true;
    for (size_t offset = 0; taken && offset < frame->payload_bytes; offset += most_bytes) {
        size_t left_bytes = frame->payload_bytes - offset;
        size_t data_bytes = left_bytes < most_bytes ? left_bytes : most_bytes;
        slice.offset = (uint16_t)offset;
        rawe_slice_encode(buffer + RAWE_PAYLOAD_OFFSET, &slice);
        copy_payload(buffer + RAWE_PAYLOAD_OFFSET + RAWE_SLICE_BYTES, frame, offset, data_bytes);
        header.type = RAWE_FRAME_SLICE;
        header.payload_bytes = (uint16_t)(RAWE_SLICE_BYTES + data_bytes);
        size_t len_bytes = rawe_frame_seal(buffer, &header, checksum);
        struct rawe_frame view = {
            .pieces = {{buffer, len_bytes}},
            .piece_count = 1,
            .len_bytes = (uint32_t)len_bytes,
        };
        taken = engine->output.transmit(engine->output.context, &view, 1) == 1;
        engine->counters.slices_sent += taken;
    }
    free(buffer);
    return taken;
}

void rawe_conn_drop_slices(struct rawe_conn *conn)
{
    free(conn->sliced);
    conn->sliced = NULL;
}

const uint8_t *rawe_conn_take_slice(struct rawe_conn *conn, struct rawe_header *header,
                                    const uint8_t *payload)
{
    struct rawe_engine *engine = conn->engine;
    struct rawe_slice slice;
    struct rawe_sliced *sliced = conn->sliced;
    if (rawe_slice_decode(&slice, payload, header->payload_bytes) != RAWE_DECODE_OK ||
        slice.total_bytes > engine->config.payload_max_bytes) {
        engine->counters.dropped_length++;
        return NULL;
    }
    if (sliced == NULL) {
        sliced = malloc(sizeof(*sliced) + engine->config.payload_max_bytes);
        if (sliced == NULL) {
            engine->counters.no_buffer++;
            return NULL;
        }
        sliced->received_bytes = 0;
        conn->sliced = sliced;
    }
    if (slice.offset == 0) {
        sliced->sequence = header->sequence;
        sliced->first = slice;
        sliced->received_bytes = 0;
    } else if (sliced->sequence != header->sequence || sliced->received_bytes != slice.offset ||
               sliced->first.total_bytes != slice.total_bytes || sliced->first.type != slice.type) {
        engine->counters.dropped_slice++;
        return NULL;
    }
    size_t data_bytes = header->payload_bytes - RAWE_SLICE_BYTES;
    memcpy(sliced->payload + slice.offset, payload + RAWE_SLICE_BYTES, data_bytes);
    sliced->received_bytes += (uint32_t)data_bytes;
    if (sliced->received_bytes != slice.total_bytes) {
        return NULL;
    }
    sliced->received_bytes = 0;
    header->type = slice.type;
    header->payload_bytes = slice.total_bytes;
    return sliced->payload;
}
