/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Messages and records that are copied into a frame, one behind the other.
 */
#ifndef RAWE_COALESCE_H
#define RAWE_COALESCE_H

#include <string.h>

#include "rawe_sendwin.h"

/** Copy one more message or record into a frame; it fits. */
static inline void rawe_coalesce_record(struct rawe_txframe *frame,
                                        const struct rawe_fragment *fragment, const void *first,
                                        size_t first_bytes, const void *second, size_t second_bytes)
{
    size_t begin = rawe_fragment_pad(frame->payload_bytes);
    uint8_t *payload = frame->buffer + RAWE_PAYLOAD_OFFSET;
    memset(payload + frame->payload_bytes, 0, begin - frame->payload_bytes);
    uint8_t *out = payload + begin;
    out += rawe_fragment_encode(out, fragment);
    if (first_bytes != 0) {
        memcpy(out, first, first_bytes);
    }
    if (second_bytes != 0) {
        memcpy(out + first_bytes, second, second_bytes);
    }
    frame->payload_bytes = (uint32_t)(out - payload + first_bytes + second_bytes);
    frame->buffer_bytes = RAWE_PAYLOAD_OFFSET + frame->payload_bytes;
}

/** Copy one more message; it fits. */
static inline void rawe_coalesce_message(struct rawe_txframe *frame, uint8_t tag, const void *first,
                                         size_t first_bytes, const void *second,
                                         size_t second_bytes)
{
    const struct rawe_fragment fragment = {
        .kind = RAWE_FRAGMENT_MESSAGE,
        .tag = tag,
        .data_bytes = (uint16_t)(first_bytes + second_bytes),
    };
    rawe_coalesce_record(frame, &fragment, first, first_bytes, second, second_bytes);
}

/** Copy one more send; it fits. A PUT, in no list, is linked to the frame, and complete when that leaves. */
static inline void rawe_coalesce_send(struct rawe_txframe *frame, struct rawe_send *send)
{
    const struct rawe_bytes *pieces = send->pieces;
    size_t first_bytes = pieces[0].len_bytes;
    bool two = send->piece_count == 2;
    if (send->kind == RAWE_FRAGMENT_MESSAGE) {
        rawe_coalesce_message(frame, send->tag, pieces[0].base, first_bytes,
                              two ? pieces[1].base : NULL, two ? pieces[1].len_bytes : 0);
        return;
    }
    const struct rawe_fragment fragment = {
        .kind = send->kind,
        .tag = send->tag,
        .data_bytes = (uint16_t)first_bytes,
        .id = send->handle_index,
        .key = send->handle_key,
        .offset = send->offset,
    };
    rawe_coalesce_record(frame, &fragment, pieces[0].base, first_bytes, NULL, 0);
    if (send->kind == RAWE_FRAGMENT_PUT) {
        send->total_bytes = send->framed_bytes = first_bytes;
        send->frames = 1;
        send->fragmented = send->to_report = false;
        send->next = frame->send;
        frame->send = send;
    }
}

#endif
