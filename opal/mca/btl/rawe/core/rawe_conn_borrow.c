/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Messages that come several to a train: they are delivered from the buffer the train was received
 * into. It holds the data of all frames one behind the other, each with room for as much as the
 * first, so a message whose frames are all there lies in one piece.
 */
#include "rawe_conn.h"

#include <stdlib.h>

uint8_t *rawe_conn_train_buffer(struct rawe_engine *engine)
{
    struct rawe_borrowed *borrowed = &engine->borrowed;
    if (borrowed->train == NULL) {
        borrowed->train = malloc(RAWE_TRAIN_BUFFER_BYTES);
    }
    return rawe_conn_train_settle(engine) ? borrowed->train : NULL;
}

bool rawe_conn_train_settle(struct rawe_engine *engine)
{
    struct rawe_borrowed *borrowed = &engine->borrowed;
    if (borrowed->conn == NULL) {
        return true;
    }
    const struct rawe_chunk chunk = {
        .kind = RAWE_CHUNK_SEGMENT,
        .tag = borrowed->tag,
        .data_bytes = (uint16_t)borrowed->received_bytes,
        .id = borrowed->number,
        .total_bytes = borrowed->total_bytes,
        .data = borrowed->data,
    };
    if (rawe_reassembly_add(borrowed->conn->reassembly, &engine->reassembly_buffers, &chunk) ==
        RAWE_REASSEMBLY_NO_BUFFER) {
        return false;
    }
    borrowed->conn = NULL;
    return true;
}

/** Begin a message in the buffer: its first segment, and the train reaches to its end. */
static bool begin(struct rawe_conn *conn, const struct rawe_chunk *chunk)
{
    struct rawe_borrowed *borrowed = &conn->engine->borrowed;
    size_t at = (size_t)(chunk->data - borrowed->train);
    bool begun = borrowed->conn == conn && borrowed->number == chunk->id;
    if (begun || chunk->offset != 0 || chunk->total_bytes > RAWE_TRAIN_BUFFER_BYTES - at ||
        chunk->total_bytes > conn->engine->config.message_max_bytes ||
        chunk->data_bytes == 0 ||
        !rawe_reassembly_awaits(conn->reassembly, chunk->id) ||
        !rawe_conn_train_settle(conn->engine)) {
        return false;
    }
    borrowed->conn = conn;
    borrowed->data = chunk->data;
    borrowed->number = chunk->id;
    borrowed->total_bytes = chunk->total_bytes;
    borrowed->received_bytes = chunk->data_bytes;
    borrowed->tag = chunk->tag;
    return true;
}

bool rawe_conn_train_borrow(struct rawe_conn *conn, const struct rawe_chunk *chunk, bool *whole)
{
    struct rawe_borrowed *borrowed = &conn->engine->borrowed;
    bool continues = borrowed->conn == conn && chunk->id == borrowed->number &&
                     chunk->tag == borrowed->tag && chunk->total_bytes == borrowed->total_bytes &&
                     chunk->offset == borrowed->received_bytes &&
                     chunk->data == borrowed->data + chunk->offset;
    if (continues) {
        borrowed->received_bytes += chunk->data_bytes;
    } else if (!begin(conn, chunk)) {
        return false;
    }
    *whole = borrowed->received_bytes == borrowed->total_bytes;
    return true;
}
