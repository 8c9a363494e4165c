/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Messages that come several to a batch: they are delivered from the buffer the batch was received
 * into. It holds the data of all frames one behind the other, each with room for as much as the
 * first, so a message whose frames are all there lies in one piece.
 */
#include "rawe_conn_inplace.h"

#include <stdlib.h>

uint8_t *rawe_conn_inplace_buffer(struct rawe_engine *engine)
{
    struct rawe_inplace *inplace = &engine->inplace;
    if (inplace->buffer == NULL) {
        inplace->buffer = malloc(RAWE_INPLACE_BUFFER_BYTES);
    }
    return rawe_conn_inplace_spill(engine) ? inplace->buffer : NULL;
}

bool rawe_conn_inplace_spill(struct rawe_engine *engine)
{
    struct rawe_inplace *inplace = &engine->inplace;
    if (inplace->conn == NULL) {
        return true;
    }
    const struct rawe_fragment fragment = {
        .kind = RAWE_FRAGMENT_PART,
        .tag = inplace->tag,
        .data_bytes = (uint16_t)inplace->received_bytes,
        .id = inplace->number,
        .total_bytes = inplace->total_bytes,
        .data = inplace->data,
    };
    if (rawe_reassembly_add(inplace->conn->reassembly, &engine->reassembly_buffers, &fragment) ==
        RAWE_REASSEMBLY_NO_BUFFER) {
        return false;
    }
    inplace->conn = NULL;
    return true;
}

/** Begin a message in the buffer: its first segment, and the batch reaches to its end. */
static bool begin(struct rawe_conn *conn, const struct rawe_fragment *fragment)
{
    struct rawe_inplace *inplace = &conn->engine->inplace;
    size_t at = (size_t)(fragment->data - inplace->buffer);
    bool begun = inplace->conn == conn && inplace->number == fragment->id;
    if (begun || fragment->offset != 0 || fragment->total_bytes > RAWE_INPLACE_BUFFER_BYTES - at ||
        fragment->total_bytes > conn->engine->config.message_max_bytes ||
        fragment->data_bytes == 0 || !rawe_reassembly_awaits(conn->reassembly, fragment->id) ||
        !rawe_conn_inplace_spill(conn->engine)) {
        return false;
    }
    inplace->conn = conn;
    inplace->data = fragment->data;
    inplace->number = fragment->id;
    inplace->total_bytes = fragment->total_bytes;
    inplace->received_bytes = fragment->data_bytes;
    inplace->tag = fragment->tag;
    return true;
}

bool rawe_conn_inplace_add(struct rawe_conn *conn, const struct rawe_fragment *fragment,
                           bool *whole)
{
    struct rawe_inplace *inplace = &conn->engine->inplace;
    bool continues = inplace->conn == conn && fragment->id == inplace->number &&
                     fragment->tag == inplace->tag &&
                     fragment->total_bytes == inplace->total_bytes &&
                     fragment->offset == inplace->received_bytes &&
                     fragment->data == inplace->data + fragment->offset;
    if (continues) {
        inplace->received_bytes += fragment->data_bytes;
    } else if (!begin(conn, fragment)) {
        return false;
    }
    *whole = inplace->received_bytes == inplace->total_bytes;
    return true;
}
