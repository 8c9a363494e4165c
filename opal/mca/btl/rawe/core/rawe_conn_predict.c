/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Runs: frames of a batch whose headers are what the frame before lets expect. Most of bulk data
 * comes that way, and is taken by comparing, without decoding each frame.
 */
#include <string.h>

#include "rawe_conn_control.h"
#include "rawe_engine.h"

/** Longest headers of a frame and its fragment. */
#define HEAD_BYTES_MAX (RAWE_HEADER_BYTES + RAWE_FRAGMENT_BYTES_MAX)

/** What is known of the frame before the run. */
struct before {
    struct rawe_header header;
    struct rawe_fragment fragment;
    struct rawe_conn *conn;
};

/** Understand the frame before, and check all that the frames of a run have in common with it. */
static bool understand(struct before *before, const struct rawe_engine *engine,
                       const uint8_t *source_mac, const uint8_t *head,
                       const struct rawe_placement *placement)
{
    struct rawe_header *header = &before->header;
    size_t frame_bytes = (size_t)placement->head_bytes + placement->data_bytes;
    const uint8_t *cursor = head + RAWE_HEADER_BYTES;
    if (rawe_header_decode(header, head, frame_bytes) != RAWE_DECODE_OK ||
        header->type != RAWE_FRAME_BULK || (header->flags & RAWE_FLAG_CHECKSUM) != 0 ||
        header->port != engine->config.port || header->key != engine->config.key ||
        header->payload_bytes != frame_bytes - RAWE_HEADER_BYTES ||
        rawe_fragment_decode(&before->fragment, &cursor, cursor + header->payload_bytes) !=
            RAWE_DECODE_OK ||
        rawe_fragment_header_bytes(head[RAWE_HEADER_BYTES]) + RAWE_HEADER_BYTES !=
            placement->head_bytes ||
        before->fragment.data_bytes != placement->data_bytes) {
        return false;
    }
    struct rawe_conn *conn = rawe_conn_table_find(&engine->table, header->connection_id);
    before->conn = conn;
    return conn != NULL && conn->recvwin.acktr != NULL && conn->handshake.state == RAWE_CONN_OPEN &&
           memcmp(conn->eth_header, source_mac, RAWE_MAC_BYTES) == 0 &&
           conn->recvwin.acktr->beyond == 0 && conn->recvwin.acktr->next == header->sequence + 1;
}

/**
 * How many full frames may follow, with their data from `data` on; a message's last is left out.
 * For a message, `*received_bytes` is to count them.
 */
static uint32_t allowed(const struct before *before, const uint8_t *data, uint32_t count,
                        uint32_t **received_bytes)
{
    struct rawe_engine *engine = before->conn->engine;
    const struct rawe_fragment *fragment = &before->fragment;
    uint64_t offset = fragment->offset + fragment->data_bytes;
    *received_bytes = NULL;
    if (fragment->data_bytes == 0) {
        return 0;
    }
    if (fragment->kind == RAWE_FRAGMENT_PUT) {
        return rawe_handle_resolve(engine->config.handles, fragment->id, fragment->key, offset,
                                   (uint64_t)count * fragment->data_bytes) == data
                   ? count
                   : 0;
    }
    if (fragment->kind != RAWE_FRAGMENT_PART || before->conn->reassembly == NULL) {
        return 0;
    }
    struct rawe_inplace *inplace = &engine->inplace;
    if (inplace->conn == before->conn && inplace->number == fragment->id) {
        if (inplace->received_bytes != offset || inplace->data + offset != data ||
            inplace->total_bytes != fragment->total_bytes || inplace->tag != fragment->tag) {
            return 0;
        }
        *received_bytes = &inplace->received_bytes;
    } else {
        struct rawe_partial *partial = rawe_reassembly_find(before->conn->reassembly, fragment);
        if (partial == NULL || partial->buffer + offset != data) {
            return 0;
        }
        *received_bytes = &partial->received_bytes;
    }
    /* Frames in order are new, so what is received is no more than what lies before `offset`... */
    uint64_t left = fragment->total_bytes - offset;
    uint32_t missing = fragment->total_bytes - **received_bytes;
    left = left < missing ? left : missing;
    uint64_t most = left == 0 ? 0 : (left - 1) / fragment->data_bytes;
    return most < count ? (uint32_t)most : count;
}

/**
 * How many heads are as expected; `*ack_now` is set when one of them asks for an acknowledgement.
 */
static uint32_t matching(const struct before *before, const uint8_t *head, size_t head_stride,
                         size_t head_bytes, uint32_t count, bool *ack_now)
{
    uint8_t expected[HEAD_BYTES_MAX];
    uint32_t sequence = before->header.sequence;
    uint64_t offset = before->fragment.offset;
    memcpy(expected, head - head_stride, head_bytes);
    for (uint32_t i = 0; i < count; i++, head += head_stride) {
        offset += before->fragment.data_bytes;
        rawe_header_number(expected, head[1] & (RAWE_FLAG_ACK_NOW | expected[1]), ++sequence);
        rawe_fragment_move(expected + RAWE_HEADER_BYTES, before->fragment.kind, offset);
        if (memcmp(expected, head, head_bytes) != 0) {
            return i;
        }
        *ack_now |= (head[1] & RAWE_FLAG_ACK_NOW) != 0;
    }
    return count;
}

unsigned rawe_engine_receive_predicted(struct rawe_engine *engine, const uint8_t *source_mac,
                                       const uint8_t *head, size_t head_stride,
                                       const struct rawe_placement *placement, const uint8_t *data,
                                       unsigned count, uint64_t now_ns)
{
    struct before before;
    uint32_t *received_bytes;
    bool ack_now = false;
    if (count == 0 || engine->deferral.active || placement->head_bytes > HEAD_BYTES_MAX ||
        !understand(&before, engine, source_mac, head - head_stride, placement)) {
        return 0;
    }
    struct rawe_conn *conn = before.conn;
    uint32_t taken = allowed(&before, data, count, &received_bytes);
    taken = matching(&before, head, head_stride, placement->head_bytes, taken, &ack_now);
    if (taken == 0) {
        return 0;
    }
    engine->now_ns = now_ns;
    rawe_recvwin_take_in_order(&conn->recvwin, taken);
    engine->counters.frames_received += taken;
    if (received_bytes != NULL) {
        *received_bytes += taken * before.fragment.data_bytes;
    } else {
        engine->counters.bytes_received += (uint64_t)taken * before.fragment.data_bytes;
    }
    rawe_conn_owe_ack(conn, ack_now, now_ns);
    return taken;
}
