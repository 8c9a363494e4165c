/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Slices: frames that were numbered before the path was found to carry less, or no batches. They
 * keep their number. What the path carries goes as a plain frame; the others travel in parts, one
 * behind the other, and the receiver takes the frame when it has come whole. That is rare and
 * short, so it is simple: one frame at a time is put together on each connection, and a slice out
 * of order is as good as lost, as the whole frame is.
 */
#include "rawe_conn_slice.h"

#include <stdlib.h>
#include <string.h>

#include "rawe_conn_control.h"
#include "rawe_conn_window.h"

/** Write the payload that a plain frame with one segment of `frame` has. Returns its length. */
static size_t write_payload(uint8_t *out, const struct rawe_txframe *frame, uint32_t index)
{
    size_t head_bytes = frame->buffer_bytes - RAWE_PAYLOAD_OFFSET;
    size_t at_bytes = (size_t)index * frame->segment_bytes;
    size_t data_bytes = frame->payload_bytes - head_bytes - at_bytes;
    struct rawe_bytes pieces[2];
    memcpy(out, frame->buffer + RAWE_PAYLOAD_OFFSET, head_bytes);
    if (frame->segment_bytes != 0) {
        struct rawe_fragment fragment;
        data_bytes = data_bytes < frame->segment_bytes ? data_bytes : frame->segment_bytes;
        rawe_fragment_reread(&fragment, out);
        fragment.offset += at_bytes;
        fragment.data_bytes = (uint16_t)data_bytes;
        rawe_fragment_encode(out, &fragment);
    }
    unsigned count = rawe_txframe_range(frame, at_bytes, data_bytes, pieces);
    out += head_bytes;
    for (unsigned i = 0; i < count; i++) {
        memcpy(out, pieces[i].base, pieces[i].len_bytes);
        out += pieces[i].len_bytes;
    }
    return head_bytes + data_bytes;
}

/** Transmit a frame that lies in `buffer`, whose payload is there; the header is given. */
static bool transmit(struct rawe_conn *conn, uint8_t *buffer, struct rawe_header *header)
{
    const struct rawe_output *output = &conn->through->output;
    memcpy(buffer, conn->eth_header, RAWE_ETH_HEADER_BYTES);
    size_t len_bytes = rawe_frame_seal(buffer, header, conn->engine->config.checksum);
    struct rawe_frame view = {
        .pieces = {{buffer, len_bytes}},
        .piece_count = 1,
        .len_bytes = (uint32_t)len_bytes,
    };
    return output->transmit(output->context, &view, 1) == 1;
}

/** Transmit one segment of a frame. `buffer` has room for two whole frames. */
static bool transmit_segment(struct rawe_conn *conn, const struct rawe_txframe *frame,
                             uint32_t index, uint8_t *buffer, size_t frame_room_bytes)
{
    uint8_t *payload = buffer + RAWE_PAYLOAD_OFFSET;
    uint8_t *part = buffer + frame_room_bytes;
    size_t total_bytes = write_payload(payload, frame, index);
    size_t most_bytes = (conn->payload_max_bytes & ~7u) - RAWE_SLICE_BYTES;
    bool again = (frame->sent >> index & 1) != 0;
    const struct rawe_header header = {
        .type = conn->lane == RAWE_LANE_BULK ? RAWE_FRAME_BULK : RAWE_FRAME_DATA,
        .flags = (uint8_t)(frame->flags | (again ? RAWE_FLAG_RESENT : 0)),
        .port = conn->peer_port,
        .key = conn->peer_key,
        .connection_id = conn->handshake.peer_id,
        .sequence = frame->sequence + index,
        .acknowledgement = conn->recvwin.acktr->next,
        .payload_bytes = (uint16_t)total_bytes,
        .credit = rawe_credit_advertise(&conn->through->credit, conn->lane, &conn->credit),
    };
    struct rawe_header changed = header;
    if (total_bytes <= conn->payload_max_bytes) {
        return transmit(conn, buffer, &changed);
    }
    struct rawe_slice slice = {.total_bytes = (uint16_t)total_bytes, .type = header.type};
    for (size_t offset = 0; offset < total_bytes; offset += most_bytes) {
        size_t left_bytes = total_bytes - offset;
        size_t data_bytes = left_bytes < most_bytes ? left_bytes : most_bytes;
        slice.offset = (uint16_t)offset;
        rawe_slice_encode(part + RAWE_PAYLOAD_OFFSET, &slice);
        memcpy(part + RAWE_PAYLOAD_OFFSET + RAWE_SLICE_BYTES, payload + offset, data_bytes);
        changed = header;
        changed.type = RAWE_FRAME_SLICE;
        changed.payload_bytes = (uint16_t)(RAWE_SLICE_BYTES + data_bytes);
        if (!transmit(conn, part, &changed)) {
            return false;
        }
        conn->engine->counters.slices_sent++;
    }
    return true;
}

bool rawe_conn_transmit_slices(struct rawe_conn *conn, struct rawe_txframe *frame, uint32_t room,
                               uint64_t now_ns)
{
    size_t frame_room_bytes =
        RAWE_PAYLOAD_OFFSET + RAWE_SLICE_BYTES + RAWE_FRAGMENT_BYTES_MAX +
        (frame->segment_bytes != 0 ? frame->segment_bytes : frame->payload_bytes) +
        RAWE_CHECKSUM_BYTES;
    uint8_t *buffer = malloc(2 * frame_room_bytes);
    bool taken = buffer != NULL;
    for (; taken && frame->to_send != 0 && room != 0; room--) {
        uint32_t index = (uint32_t)__builtin_ctzll(frame->to_send);
        taken = transmit_segment(conn, frame, index, buffer, frame_room_bytes);
        if (taken) {
            rawe_conn_sent(conn, frame, 1ull << index, now_ns);
        }
    }
    free(buffer);
    return taken;
}
