/* SPDX-License-Identifier: BSD-3-Clause */
#include "rawe_wire.h"

#include <string.h>

static inline uint16_t get16(const uint8_t *in)
{
    return (uint16_t)((in[0] << 8) | in[1]);
}

static inline uint32_t get32(const uint8_t *in)
{
    return ((uint32_t)in[0] << 24) | ((uint32_t)in[1] << 16) | ((uint32_t)in[2] << 8) | in[3];
}

static inline uint64_t get64(const uint8_t *in)
{
    return ((uint64_t)get32(in) << 32) | get32(in + 4);
}

void rawe_eth_header_encode(uint8_t *out, const uint8_t to[RAWE_MAC_BYTES],
                            const uint8_t from[RAWE_MAC_BYTES], uint16_t ethertype)
{
    memcpy(out, to, RAWE_MAC_BYTES);
    memcpy(out + RAWE_MAC_BYTES, from, RAWE_MAC_BYTES);
    rawe_put16(out + 2 * RAWE_MAC_BYTES, ethertype);
}

/** Check the first bytes of a header whose type must be from `first` to `end` - 1. */
static inline enum rawe_decode_result decode_type(uint8_t version_type, uint8_t flags,
                                                  unsigned first, unsigned end,
                                                  unsigned known_flags)
{
    const unsigned type = version_type & 0x0F;
    if (version_type >> 4 != RAWE_FRAME_VERSION) {
        return RAWE_DECODE_VERSION;
    }
    return type < first || type >= end || (flags & ~known_flags) != 0 ? RAWE_DECODE_TYPE
                                                                      : RAWE_DECODE_OK;
}

__attribute__((hot)) enum rawe_decode_result rawe_header_decode(struct rawe_header *header,
                                                                const uint8_t *in, size_t len_bytes)
{
    if (len_bytes < RAWE_HEADER_BYTES) {
        return RAWE_DECODE_SHORT;
    }
    const enum rawe_decode_result result =
        decode_type(in[0], in[1], 1, RAWE_FRAME_TYPE_END, RAWE_FLAGS_KNOWN);
    if (result != RAWE_DECODE_OK) {
        return result;
    }
    header->type = in[0] & 0x0F;
    header->flags = in[1];
    header->port = get16(in + 2);
    header->key = get32(in + 4);
    header->connection_id = get32(in + 8);
    header->sequence = get32(in + 12);
    header->acknowledgement = get32(in + 16);
    header->payload_bytes = get16(in + 20);
    header->credit = get16(in + 22);
    if (header->payload_bytes > len_bytes - RAWE_HEADER_BYTES) {
        return RAWE_DECODE_LENGTH;
    }
    return RAWE_DECODE_OK;
}

static inline void reread(struct rawe_fragment *fragment, const uint8_t *in, size_t header_bytes)
{
    fragment->kind = in[0];
    fragment->tag = in[1];
    fragment->data_bytes = get16(in + 2);
    fragment->id = 0;
    fragment->total_bytes = fragment->data_bytes;
    fragment->key = 0;
    fragment->offset = 0;
    if (header_bytes == RAWE_FRAGMENT_MESSAGE_BYTES) {
        return;
    }
    fragment->id = get32(in + 4);
    if (header_bytes == RAWE_FRAGMENT_PART_BYTES) {
        fragment->offset = get32(in + 8);
        fragment->total_bytes = get32(in + 12);
    } else if (header_bytes == RAWE_FRAGMENT_PUT_BYTES) {
        fragment->key = get64(in + 8);
        fragment->offset = get64(in + 16);
    }
}

void rawe_fragment_reread(struct rawe_fragment *fragment, const uint8_t *in)
{
    reread(fragment, in, rawe_fragment_header_bytes(in[0]));
}

/** Return true if the fragment is not a PART, or lies within its message. */
static bool part_fits(const struct rawe_fragment *fragment)
{
    return rawe_fragment_header_bytes(fragment->kind) != RAWE_FRAGMENT_PART_BYTES ||
           (fragment->offset <= fragment->total_bytes &&
            fragment->data_bytes <= fragment->total_bytes - fragment->offset);
}

__attribute__((hot)) enum rawe_decode_result rawe_fragment_decode(struct rawe_fragment *fragment,
                                                                  const uint8_t **cursor,
                                                                  const uint8_t *end)
{
    const uint8_t *in = *cursor;
    size_t left = (size_t)(end - in);
    if (left < RAWE_FRAGMENT_MESSAGE_BYTES) {
        return RAWE_DECODE_SHORT;
    }
    size_t header_bytes = rawe_fragment_header_bytes(in[0]);
    if (header_bytes == 0) {
        return RAWE_DECODE_TYPE;
    }
    if (left < header_bytes) {
        return RAWE_DECODE_SHORT;
    }
    reread(fragment, in, header_bytes);
    if (fragment->data_bytes > left - header_bytes || !part_fits(fragment)) {
        return RAWE_DECODE_LENGTH;
    }
    fragment->data = in + header_bytes;
    size_t used = rawe_fragment_pad(header_bytes + fragment->data_bytes);
    *cursor = used < left ? in + used : end;
    return RAWE_DECODE_OK;
}

void rawe_request_encode(uint8_t out[RAWE_REQUEST_BYTES], const struct rawe_request *request)
{
    memset(out, 0, RAWE_REQUEST_BYTES);
    rawe_put32(out, request->operation);
    out[4] = request->atomic;
    out[5] = request->word_bytes;
    rawe_put64(out + 8, request->key);
    rawe_put64(out + 16, request->operand);
    rawe_put64(out + 24, request->compare);
}

enum rawe_decode_result rawe_request_decode(struct rawe_request *request, const uint8_t *in,
                                            size_t len_bytes)
{
    if (len_bytes < RAWE_REQUEST_BYTES) {
        return RAWE_DECODE_SHORT;
    }
    request->operation = get32(in);
    request->atomic = in[4];
    request->word_bytes = in[5];
    request->key = get64(in + 8);
    request->operand = get64(in + 16);
    request->compare = get64(in + 24);
    return RAWE_DECODE_OK;
}

/* These values make a batch header a TCP header with one option. */
#define TCP_WORDS_ACK 0xF010u
#define TCP_OPTION 0xFE28u
#define TCP_EXPERIMENT 0x5257u

/** Encode the common fields of the batch headers of connections and groups. The rest is 0. */
static void batch_begin(uint8_t out[RAWE_BATCH_HEADER_BYTES], uint8_t type, uint8_t flags,
                        uint16_t segment_bytes, uint32_t key)
{
    memset(out, 0, RAWE_BATCH_HEADER_BYTES);
    rawe_put16(out + 12, TCP_WORDS_ACK);
    rawe_put16(out + 14, segment_bytes);
    rawe_put16(out + 20, TCP_OPTION);
    rawe_put16(out + 22, TCP_EXPERIMENT);
    out[RAWE_BATCH_OFFSET_VERSION_TYPE] = (uint8_t)(RAWE_FRAME_VERSION << 4 | type);
    out[25] = flags;
    rawe_put32(out + RAWE_BATCH_OFFSET_KEY, key);
}

/** Check a batch header whose type must be from `type` to `type_end` - 1. */
static enum rawe_decode_result batch_check(const uint8_t *in, size_t len_bytes, size_t data_bytes,
                                           uint8_t type, uint8_t type_end, uint8_t flags)
{
    if (len_bytes < RAWE_BATCH_HEADER_BYTES || data_bytes > UINT16_MAX) {
        return RAWE_DECODE_SHORT;
    }
    if (get16(in + 20) != TCP_OPTION || get16(in + 22) != TCP_EXPERIMENT) {
        return RAWE_DECODE_VERSION;
    }
    return decode_type(in[RAWE_BATCH_OFFSET_VERSION_TYPE], in[25], type, type_end, flags);
}

void rawe_batch_encode(uint8_t out[RAWE_BATCH_HEADER_BYTES], const struct rawe_batch *batch)
{
    const struct rawe_header *header = &batch->header;
    const struct rawe_fragment *fragment = &batch->fragment;
    bool bulk = header->type == RAWE_FRAME_BULK;
    batch_begin(out, header->type, header->flags, batch->segment_bytes, header->key);
    rawe_put16(out, (uint16_t)header->connection_id);
    rawe_put16(out + RAWE_BATCH_OFFSET_PORT, header->port);
    rawe_put32(out + 4, batch->at_bytes);
    rawe_put32(out + 8, header->acknowledgement);
    rawe_put16(out + 32, (uint16_t)(header->connection_id >> 16));
    rawe_put16(out + 34, header->credit);
    rawe_put32(out + 36, header->sequence);
    if (!bulk) {
        return;
    }
    out[26] = fragment->kind;
    out[27] = fragment->tag;
    rawe_put32(out + 40, fragment->id);
    if (rawe_fragment_is_record(fragment->kind)) {
        rawe_put64(out + 44, fragment->key);
    } else {
        rawe_put32(out + 44, fragment->total_bytes);
    }
    rawe_put16(out + 52, (uint16_t)(fragment->offset >> 32));
    rawe_put32(out + 54, (uint32_t)fragment->offset);
    out[58] = batch->frames;
}

/** Determine which of the batch's `total` frames a packet carries. */
static enum rawe_decode_result locate(struct rawe_batch *batch, uint32_t total, size_t data_bytes)
{
    uint32_t segment_bytes = batch->segment_bytes;
    if (segment_bytes == 0 || data_bytes == 0 || data_bytes > RAWE_BATCH_BYTES_MAX ||
        batch->at_bytes > RAWE_BATCH_BYTES_MAX - data_bytes ||
        batch->at_bytes % segment_bytes != 0 || total > RAWE_BATCH_FRAMES_MAX) {
        return RAWE_DECODE_LENGTH;
    }
    uint32_t first = batch->at_bytes / segment_bytes;
    uint32_t frames = ((uint32_t)data_bytes + segment_bytes - 1) / segment_bytes;
    batch->last = first + frames == total;
    /* Only the last frame may be short. Otherwise, another device has cut the batch. */
    if (first + frames > total || (!batch->last && data_bytes % segment_bytes != 0)) {
        return RAWE_DECODE_LENGTH;
    }
    batch->frames = (uint8_t)frames;
    batch->header.sequence += first;
    return RAWE_DECODE_OK;
}

enum rawe_decode_result rawe_batch_decode(struct rawe_batch *batch, const uint8_t *in,
                                          size_t len_bytes, size_t data_bytes)
{
    struct rawe_header *header = &batch->header;
    struct rawe_fragment *fragment = &batch->fragment;
    enum rawe_decode_result result =
        batch_check(in, len_bytes, data_bytes, 1, RAWE_FRAME_TYPE_END, RAWE_FLAGS_KNOWN);
    if (result != RAWE_DECODE_OK) {
        return result;
    }
    header->type = in[RAWE_BATCH_OFFSET_VERSION_TYPE] & 0x0F;
    header->flags = in[25];
    header->port = get16(in + RAWE_BATCH_OFFSET_PORT);
    header->key = get32(in + RAWE_BATCH_OFFSET_KEY);
    header->connection_id = (uint32_t)get16(in + 32) << 16 | get16(in);
    header->sequence = get32(in + 36);
    header->acknowledgement = get32(in + 8);
    header->credit = get16(in + 34);
    header->payload_bytes = (uint16_t)data_bytes;
    batch->at_bytes = get32(in + 4);
    batch->segment_bytes = get16(in + 14);
    batch->frames = 1;
    batch->last = true;
    if (header->type != RAWE_FRAME_BULK) {
        return batch->at_bytes == 0 ? RAWE_DECODE_OK : RAWE_DECODE_LENGTH;
    }
    fragment->kind = in[26];
    fragment->tag = in[27];
    if (fragment->kind == RAWE_FRAGMENT_MESSAGE || fragment->kind == RAWE_FRAGMENT_CONTROL ||
        rawe_fragment_is_request(fragment->kind) ||
        rawe_fragment_header_bytes(fragment->kind) == 0) {
        return RAWE_DECODE_TYPE;
    }
    fragment->id = get32(in + 40);
    fragment->key = get64(in + 44);
    fragment->total_bytes = get32(in + 44);
    fragment->offset = ((uint64_t)get16(in + 52) << 32 | get32(in + 54)) + batch->at_bytes;
    fragment->data_bytes = (uint16_t)data_bytes;
    result = locate(batch, in[58], data_bytes);
    return result == RAWE_DECODE_OK && !part_fits(fragment) ? RAWE_DECODE_LENGTH : result;
}

void rawe_connect_encode(uint8_t *out, const struct rawe_connect *connect)
{
    memset(out, 0, RAWE_CONNECT_BYTES);
    rawe_put32(out, connect->jobid);
    rawe_put32(out + 4, connect->vpid);
    rawe_put32(out + 8, connect->connection_id);
    rawe_put32(out + 12, connect->key);
    rawe_put16(out + 16, connect->port);
    out[18] = connect->lane;
    out[19] = connect->choice;
    rawe_put32(out + 20, connect->payload_max_bytes);
    rawe_put64(out + 24, connect->incarnation);
}

enum rawe_decode_result rawe_connect_decode(struct rawe_connect *connect, const uint8_t *in,
                                            size_t len_bytes)
{
    if (len_bytes < RAWE_CONNECT_BYTES) {
        return RAWE_DECODE_SHORT;
    }
    connect->jobid = get32(in);
    connect->vpid = get32(in + 4);
    connect->connection_id = get32(in + 8);
    connect->key = get32(in + 12);
    connect->port = get16(in + 16);
    connect->lane = in[18];
    connect->choice = in[19];
    connect->payload_max_bytes = get32(in + 20);
    connect->incarnation = get64(in + 24);
    return RAWE_DECODE_OK;
}

void rawe_ping_encode(uint8_t *out, const struct rawe_ping *ping)
{
    memset(out, 0, RAWE_PING_BYTES);
    rawe_put32(out, ping->key);
    rawe_put16(out + 4, ping->port);
    rawe_put64(out + 8, ping->token);
}

enum rawe_decode_result rawe_ping_decode(struct rawe_ping *ping, const uint8_t *in,
                                         size_t len_bytes)
{
    if (len_bytes < RAWE_PING_BYTES) {
        return RAWE_DECODE_SHORT;
    }
    ping->key = get32(in);
    ping->port = get16(in + 4);
    ping->token = get64(in + 8);
    return RAWE_DECODE_OK;
}

__attribute__((hot)) void rawe_checksum_encode(uint8_t out[RAWE_CHECKSUM_BYTES], uint32_t crc)
{
    rawe_put32(out, crc);
}

__attribute__((hot)) uint32_t rawe_checksum_decode(const uint8_t in[RAWE_CHECKSUM_BYTES])
{
    return get32(in);
}

void rawe_slice_encode(uint8_t *out, const struct rawe_slice *slice)
{
    rawe_put16(out, slice->offset);
    rawe_put16(out + 2, slice->total_bytes);
    rawe_put32(out + 4, (uint32_t)slice->type << 24);
}

enum rawe_decode_result rawe_slice_decode(struct rawe_slice *slice, const uint8_t *in,
                                          size_t len_bytes)
{
    if (len_bytes <= RAWE_SLICE_BYTES) {
        return RAWE_DECODE_SHORT;
    }
    slice->offset = get16(in);
    slice->total_bytes = get16(in + 2);
    slice->type = in[4];
    if (slice->type != RAWE_FRAME_DATA && slice->type != RAWE_FRAME_BULK) {
        return RAWE_DECODE_TYPE;
    }
    size_t data_bytes = len_bytes - RAWE_SLICE_BYTES;
    return slice->offset + data_bytes <= slice->total_bytes ? RAWE_DECODE_OK : RAWE_DECODE_LENGTH;
}

void rawe_group_header_encode(uint8_t out[RAWE_GROUP_HEADER_BYTES],
                              const struct rawe_group_header *header)
{
    out[0] = (uint8_t)(RAWE_FRAME_VERSION << 4 | RAWE_GROUP_DATA);
    out[1] = header->flags;
    rawe_put16(out + 2, header->sender);
    rawe_put64(out + 4, header->id);
    rawe_put32(out + 12, header->sequence);
    rawe_put32(out + 16, header->total_bytes);
    rawe_put16(out + 20, header->payload_bytes);
    rawe_put16(out + 22, 0);
}

uint32_t rawe_group_shared_add(uint8_t *payload, uint32_t end_bytes, const void *message,
                               uint32_t len_bytes)
{
    rawe_put16(payload + end_bytes, (uint16_t)len_bytes);
    if (len_bytes != 0) {
        memcpy(payload + end_bytes + RAWE_GROUP_SHARED_BYTES, message, len_bytes);
    }
    return end_bytes + RAWE_GROUP_SHARED_BYTES + len_bytes;
}

const uint8_t *rawe_group_shared_next(const uint8_t *payload, uint32_t payload_bytes,
                                      uint32_t *at_bytes, uint32_t *len_bytes)
{
    const uint32_t begin_bytes = *at_bytes + RAWE_GROUP_SHARED_BYTES;
    if (begin_bytes > payload_bytes || get16(payload + *at_bytes) > payload_bytes - begin_bytes) {
        return NULL;
    }
    *len_bytes = get16(payload + *at_bytes);
    *at_bytes = begin_bytes + *len_bytes;
    return payload + begin_bytes;
}

bool rawe_group_shared_fits(const uint8_t *payload, uint32_t payload_bytes)
{
    uint32_t at_bytes = 0, len_bytes;
    while (rawe_group_shared_next(payload, payload_bytes, &at_bytes, &len_bytes) != NULL) {
    }
    return at_bytes == payload_bytes;
}

/** Return true if the lengths match the flags. Only an empty message has an empty payload. */
static bool group_lengths_fit(uint8_t flags, uint32_t payload_bytes, uint32_t total_bytes)
{
    if ((flags & RAWE_GROUP_FLAG_SHARED) != 0) {
        return payload_bytes == total_bytes;
    }
    return payload_bytes <= total_bytes && (payload_bytes != 0) == (total_bytes != 0);
}

enum rawe_decode_result rawe_group_header_decode(struct rawe_group_header *header,
                                                 const uint8_t *in, size_t len_bytes)
{
    if (len_bytes < RAWE_GROUP_HEADER_BYTES + RAWE_CHECKSUM_BYTES) {
        return RAWE_DECODE_SHORT;
    }
    const enum rawe_decode_result result =
        decode_type(in[0], in[1], RAWE_GROUP_DATA, RAWE_GROUP_DATA + 1, RAWE_GROUP_FLAGS_KNOWN);
    if (result != RAWE_DECODE_OK) {
        return result;
    }
    *header = (struct rawe_group_header){
        .flags = in[1],
        .sender = get16(in + 2),
        .payload_bytes = get16(in + 20),
        .id = get64(in + 4),
        .sequence = get32(in + 12),
        .total_bytes = get32(in + 16),
    };
    return header->payload_bytes <= len_bytes - RAWE_GROUP_HEADER_BYTES - RAWE_CHECKSUM_BYTES &&
                   group_lengths_fit(in[1], header->payload_bytes, header->total_bytes)
               ? RAWE_DECODE_OK
               : RAWE_DECODE_LENGTH;
}

void rawe_group_batch_encode(uint8_t out[RAWE_BATCH_HEADER_BYTES],
                             const struct rawe_group_header *header)
{
    batch_begin(out, RAWE_GROUP_DATA, header->flags, header->segment_bytes, 0);
    rawe_put16(out, header->sender);
    rawe_put16(out + RAWE_BATCH_OFFSET_PORT, (uint16_t)header->id);
    rawe_put64(out + 32, header->id);
    rawe_put32(out + 40, header->sequence);
    rawe_put32(out + 44, header->total_bytes);
    out[48] = (uint8_t)rawe_group_frames(header);
}

enum rawe_decode_result rawe_group_batch_decode(struct rawe_group_header *header, const uint8_t *in,
                                                size_t len_bytes, size_t data_bytes)
{
    enum rawe_decode_result result =
        batch_check(in, len_bytes, data_bytes, RAWE_GROUP_DATA, RAWE_GROUP_DATA + 1,
                    RAWE_GROUP_FLAG_ASK | RAWE_GROUP_FLAG_LAST);
    if (result != RAWE_DECODE_OK) {
        return result;
    }
    struct rawe_batch batch = {.at_bytes = get32(in + 4), .segment_bytes = get16(in + 14)};
    result = locate(&batch, in[48], data_bytes);
    *header = (struct rawe_group_header){
        .flags = batch.last ? in[25] : 0,
        .sender = get16(in),
        .payload_bytes = (uint16_t)data_bytes,
        .id = get64(in + 32),
        .sequence = get32(in + 40) + batch.header.sequence,
        .total_bytes = get32(in + 44),
        .segment_bytes = batch.segment_bytes,
    };
    return result == RAWE_DECODE_OK &&
                   !group_lengths_fit(0, header->payload_bytes, header->total_bytes)
               ? RAWE_DECODE_LENGTH
               : result;
}

void rawe_group_control_encode(uint8_t out[RAWE_GROUP_CONTROL_HEADER_BYTES],
                               const struct rawe_group_control *control)
{
    out[0] = control->type;
    out[1] = control->flags;
    rawe_put16(out + 2, control->root);
    rawe_put32(out + 4, control->sequence);
    rawe_put32(out + 8, control->total_bytes);
    rawe_put16(out + 12, control->payload_bytes);
    rawe_put16(out + 14, control->piece);
}

/** Return true if the data's length is right for the message's type. */
static bool control_lengths_fit(const struct rawe_group_control *control)
{
    const uint32_t at_bytes = control->piece * RAWE_GROUP_PIECE_BYTES;
    switch (control->type) {
    case RAWE_GROUP_NACK:
        return control->data_bytes != 0 && control->data_bytes <= RAWE_GROUP_NACK_BYTES_MAX;
    case RAWE_GROUP_REPAIR:
        return control->payload_bytes <= RAWE_GROUP_PAYLOAD_MAX &&
               group_lengths_fit(control->flags, control->payload_bytes, control->total_bytes) &&
               (at_bytes < control->payload_bytes || at_bytes == 0) &&
               control->data_bytes == (control->payload_bytes - at_bytes < RAWE_GROUP_PIECE_BYTES
                                           ? control->payload_bytes - at_bytes
                                           : RAWE_GROUP_PIECE_BYTES);
    default:
        return control->data_bytes == 0;
    }
}

enum rawe_decode_result rawe_group_control_decode(struct rawe_group_control *control,
                                                  const uint8_t *in, size_t len_bytes)
{
    if (len_bytes < RAWE_GROUP_CONTROL_HEADER_BYTES || len_bytes > RAWE_GROUP_CONTROL_BYTES_MAX) {
        return RAWE_DECODE_SHORT;
    }
    *control = (struct rawe_group_control){
        .type = in[0],
        .flags = in[1],
        .root = get16(in + 2),
        .sequence = get32(in + 4),
        .total_bytes = get32(in + 8),
        .payload_bytes = get16(in + 12),
        .piece = get16(in + 14),
        .data_bytes = (uint16_t)(len_bytes - RAWE_GROUP_CONTROL_HEADER_BYTES),
        .data = in + RAWE_GROUP_CONTROL_HEADER_BYTES,
    };
    const uint8_t known = control->type == RAWE_GROUP_REPAIR   ? RAWE_GROUP_FLAGS_KNOWN
                          : control->type == RAWE_GROUP_STATUS ? RAWE_GROUP_FLAG_AGAIN
                                                               : 0;
    if (control->type == 0 || control->type >= RAWE_GROUP_CONTROL_END ||
        (control->flags & ~known) != 0) {
        return RAWE_DECODE_TYPE;
    }
    return control_lengths_fit(control) ? RAWE_DECODE_OK : RAWE_DECODE_LENGTH;
}
