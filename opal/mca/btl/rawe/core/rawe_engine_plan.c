/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Where the data of a batch that waits in the kernel belongs, judged from its first headers.
 *
 * A batch with several messages goes into a buffer of the engine's. All other data is put where it
 * stays. The rest of the batch may turn out not to be what its head promised. Then the data has
 * been put into memory which the peer may write anyway (a registered handle, or the buffer of a
 * message that it is sending), so nothing is lost but what the peer itself garbled.
 */
#include <string.h>

#include "rawe_conn_inplace.h"
#include "rawe_conn_receive.h"
#include "rawe_engine.h"

/** All `count` frames from `sequence` on are new: none of their data has been taken before. */
static bool all_new(const struct rawe_acktr *acktr, uint32_t sequence, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        if (rawe_acktr_check(acktr, sequence + i) != RAWE_ACKTR_NEW) {
            return false;
        }
    }
    return true;
}

static bool decode(const uint8_t *head, size_t head_bytes, size_t frame_bytes,
                   struct rawe_header *header, struct rawe_fragment *fragment)
{
    if (head_bytes < RAWE_HEADER_BYTES + RAWE_FRAGMENT_BYTES_MAX ||
        rawe_header_decode(header, head, frame_bytes) != RAWE_DECODE_OK ||
        header->type != RAWE_FRAME_BULK || (header->flags & RAWE_FLAG_CHECKSUM) != 0 ||
        header->payload_bytes > frame_bytes - RAWE_HEADER_BYTES) {
        return false;
    }
    const uint8_t *cursor = head + RAWE_HEADER_BYTES;
    const uint8_t *end = cursor + header->payload_bytes;
    return rawe_fragment_decode(fragment, &cursor, end) == RAWE_DECODE_OK && cursor == end &&
           fragment->data_bytes != 0;
}

bool rawe_engine_plan(struct rawe_engine *engine, const uint8_t *source_mac, const uint8_t *head,
                      size_t head_bytes, size_t frame_bytes, size_t total_bytes,
                      struct rawe_placement *placement)
{
    struct rawe_header header;
    struct rawe_fragment fragment;
    if (frame_bytes == 0 || frame_bytes > total_bytes) {
        frame_bytes = total_bytes;
    }
    if (!decode(head, head_bytes, frame_bytes, &header, &fragment) ||
        header.port != engine->config.port || header.key != engine->config.key) {
        return false;
    }
    struct rawe_conn *conn = rawe_conn_table_find(&engine->table, header.connection_id);
    if (conn == NULL || conn->recvwin.acktr == NULL || !rawe_handshake_receives(&conn->handshake) ||
        memcmp(conn->eth_header, source_mac, RAWE_MAC_BYTES) != 0) {
        return false;
    }
    size_t count = (total_bytes + frame_bytes - 1) / frame_bytes;
    size_t frame_head_bytes = (size_t)(fragment.data - head);
    /* A last frame shorter than its headers would make the whole look shorter than its parts. */
    if (count > engine->config.window_frames ||
        total_bytes - (count - 1) * frame_bytes < frame_head_bytes ||
        !all_new(conn->recvwin.acktr, header.sequence, (uint32_t)count)) {
        return false;
    }
    size_t data_bytes = total_bytes - count * frame_head_bytes;
    bool full = header.payload_bytes == frame_bytes - RAWE_HEADER_BYTES;
    placement->head_bytes = (uint32_t)frame_head_bytes;
    placement->data_bytes = (uint32_t)(frame_bytes - frame_head_bytes);
    if (fragment.kind == RAWE_FRAGMENT_PUT && full) {
        placement->base = rawe_handle_resolve(engine->config.handles, fragment.id, fragment.key,
                                              fragment.offset, data_bytes);
    } else if (fragment.kind == RAWE_FRAGMENT_PART &&
               (!full || data_bytes > fragment.total_bytes - fragment.offset) &&
               total_bytes <= RAWE_INPLACE_BUFFER_BYTES) {
        placement->base = rawe_conn_inplace_buffer(engine);
    } else if (fragment.kind == RAWE_FRAGMENT_PART) {
        placement->base = rawe_conn_expect_fragments(conn)
                              ? rawe_reassembly_place(conn->reassembly, &engine->reassembly_buffers,
                                                      &fragment, data_bytes)
                              : NULL;
    } else {
        return false;
    }
    return placement->base != NULL;
}
