/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Makes hostile frames. Each forged one is wrong in at least one field that the receiver can know
 * to be wrong; in all others it may be anything. A frame that is right in all of them, with the
 * live sequence number of the connection, cannot be told from the peer's: doc/security.md.
 */
#include "attack.h"

#include <string.h>

/* Where fields stand in a header (doc/protocol.md sections 1 and 4). */
struct layout {
    size_t version_type, flags, port, key, sequence, acknowledgement, credit;
    size_t connection_high; /* its upper 16 bits */
    size_t kind;            /* of the first fragment */
    size_t content;         /* what describes the data */
};

static const struct layout plain_layout = {
    .version_type = 0,
    .flags = 1,
    .port = 2,
    .key = 4,
    .connection_high = 8,
    .sequence = 12,
    .acknowledgement = 16,
    .credit = 22,
    .kind = ATTACK_HEADER_BYTES,
    .content = ATTACK_HEADER_BYTES,
};

static const struct layout batch_layout = {
    .port = 2,
    .acknowledgement = 8,
    .version_type = 24,
    .flags = 25,
    .kind = 26,
    .key = 28,
    .connection_high = 32,
    .credit = 34,
    .sequence = 36,
    .content = 40,
};

enum { AT_PAYLOAD_BYTES = 20 }; /* plain frames */
enum { AT_OFFSET = 4 };         /* batches: of the packet's data */
enum { DATA = 1, BULK, ACK, PROBE, CONNECT, CLOSE, PING, PONG, SLICE, TYPE_END };
enum { FLAGS_UNKNOWN = 0x80 };

uint64_t attack_random(uint64_t *state)
{
    uint64_t z = *state += 0x9E3779B97F4A7C15ull;

    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
    return z ^ (z >> 31);
}

static uint32_t below(uint64_t *random, uint32_t bound)
{
    return (uint32_t)(attack_random(random) % bound);
}

static uint32_t get32(const uint8_t *at)
{
    return (uint32_t)at[0] << 24 | (uint32_t)at[1] << 16 | (uint32_t)at[2] << 8 | at[3];
}

static void put32(uint8_t *at, uint32_t value)
{
    for (int i = 0; i < 4; i++) {
        at[i] = (uint8_t)(value >> (24 - 8 * i));
    }
}

static void put16(uint8_t *at, uint32_t value)
{
    at[0] = (uint8_t)(value >> 8);
    at[1] = (uint8_t)value;
}

/* All zeros, all ones, the borders of signed numbers, or anything. */
static uint32_t hostile(uint64_t *random)
{
    static const uint32_t borders[] = {0,          1,          0x7FFFFFFF, 0x80000000,
                                       0xFFFFFFFE, 0xFFFFFFFF, 0xFFFF,     0x10000};
    uint32_t choice = below(random, 16);

    return choice < 8 ? borders[choice] : (uint32_t)attack_random(random);
}

/* 2^28 to 2^31 - 1: no job counts that far while it is attacked. */
static uint32_t far_away(uint64_t *random)
{
    return (1u << 28) + below(random, (1u << 31) - (1u << 28));
}

static void fill(uint8_t *at, size_t len_bytes, uint64_t *random)
{
    for (size_t i = 0; i < len_bytes; i++) {
        at[i] = (uint8_t)attack_random(random);
    }
}

/* What describes the data, by words: handles, keys, offsets, lengths, identities, bitmaps. */
static void garble_content(uint8_t *header, const struct layout *layout, size_t len_bytes,
                           uint64_t *random)
{
    for (size_t at = layout->content; at + 4 <= len_bytes && at < layout->content + 40; at += 4) {
        if (below(random, 2) == 0) {
            put32(header + at, hostile(random));
        }
    }
    if (len_bytes > layout->kind && below(random, 2) == 0) {
        header[layout->kind] = (uint8_t)below(random, 7); /* a kind of fragment, or nearly */
    }
}

/* Fields that may be anything once another one is wrong. */
static void garble_header(uint8_t *header, const struct layout *layout, uint64_t *random)
{
    if (below(random, 4) == 0) {
        put16(header + layout->credit, hostile(random));
    }
    if (below(random, 2) == 0) {
        header[layout->flags] = (uint8_t)(attack_random(random) & 0x7F);
    }
    if (below(random, 4) == 0) {
        put32(header + layout->sequence, hostile(random));
    }
    if (below(random, 4) == 0) {
        put32(header + layout->acknowledgement, hostile(random));
    }
}

static void set_type(uint8_t *header, const struct layout *layout, uint32_t type)
{
    uint8_t *at = header + layout->version_type;

    *at = (uint8_t)((*at & 0xF0) | type);
}

/* Sequence numbers that are far off, on either side; acknowledged is nothing that matters. */
static void make_far(uint8_t *header, const struct layout *layout, uint64_t *random)
{
    uint32_t sequence = get32(header + layout->sequence);
    uint32_t ack = get32(header + layout->acknowledgement);

    set_type(header, layout, DATA + below(random, 2));
    sequence += below(random, 2) == 0 ? far_away(random) : -far_away(random);
    put32(header + layout->sequence, sequence);
    put32(header + layout->acknowledgement, ack - far_away(random));
}

/* A length that goes beyond the frame, or a place in a batch where none of its frames begins. */
static void make_long(uint8_t *header, const struct layout *layout, size_t len_bytes,
                      uint64_t *random)
{
    if (layout == &batch_layout) {
        put32(header + AT_OFFSET, get32(header + AT_OFFSET) + 1);
    } else {
        put16(header + AT_PAYLOAD_BYTES, (uint32_t)len_bytes + below(random, 50000));
    }
}

/* Makes the frame wrong in one way that shows; returns its new length. */
static size_t make_wrong(uint8_t *frame, const struct attack_frame *model,
                         const struct layout *layout, enum attack_way only, uint64_t *random)
{
    uint8_t *header = frame + model->header_at;
    enum attack_way way = only < ATTACK_WAY_COUNT ? only : below(random, ATTACK_WAY_COUNT);

    if (way != ATTACK_WAY_sequence && way != ATTACK_WAY_acknowledgement) {
        garble_header(header, layout, random);
        set_type(header, layout, DATA + below(random, TYPE_END - DATA));
    }
    switch (way) {
    case ATTACK_WAY_sequence:
        make_far(header, layout, random);
        break;
    case ATTACK_WAY_acknowledgement:
        /* Acknowledges what was never sent; of a CLOSE that would be believed. */
        set_type(header, layout, DATA + below(random, 4));
        put32(header + layout->acknowledgement,
              get32(header + layout->acknowledgement) + far_away(random));
        break;
    case ATTACK_WAY_type:
        set_type(header, layout,
                 below(random, 2) == 0 ? 0 : TYPE_END + below(random, 16 - TYPE_END));
        break;
    case ATTACK_WAY_flags:
        header[layout->flags] |= FLAGS_UNKNOWN;
        break;
    case ATTACK_WAY_connection: /* no connection has index 2^19; a CONNECT is not asked for it */
        if ((header[layout->version_type] & 15) == CONNECT) {
            set_type(header, layout, DATA);
        }
        put16(header + layout->connection_high, hostile(random) | 1u << 15 | 1u << 3);
        break;
    case ATTACK_WAY_length:
        make_long(header, layout, model->len_bytes, random);
        break;
    case ATTACK_WAY_truncated: /* cut short; the kernel pads nothing */
        return model->header_at + below(random, (uint32_t)model->header_bytes);
    default: /* not from the peer's address */
        fill(frame + 8, 4, random);
        break;
    }
    return model->len_bytes;
}

static size_t make_random(uint8_t *frame, uint64_t *random)
{
    size_t len_bytes = ATTACK_ETH_BYTES + below(random, 1486);

    fill(frame + ATTACK_ETH_BYTES, len_bytes - ATTACK_ETH_BYTES, random);
    frame[12] = 0x88;
    frame[13] = 0xB5;
    return len_bytes;
}

size_t attack_make(enum attack_kind kind, enum attack_way way, const struct attack_capture *capture,
                   uint64_t *random, uint8_t out[ATTACK_FRAME_BYTES_MAX])
{
    const struct attack_frame *model = &capture->frames[below(random, (uint32_t)capture->count)];
    const struct layout *layout =
        model->header_bytes == ATTACK_BATCH_HEADER_BYTES ? &batch_layout : &plain_layout;
    uint8_t *header = out + model->header_at;

    memcpy(out, model->bytes, model->len_bytes);
    switch (kind) {
    case ATTACK_random:
        return make_random(out, random);
    case ATTACK_replay:
        return model->len_bytes;
    case ATTACK_blind:
        /* One of port and key, or both; a guess may be right once in 2^32 frames. */
        if (below(random, 2) == 0) {
            fill(header + layout->port, 2, random);
        }
        put32(header + layout->key, hostile(random));
        break;
    default:
        break;
    }
    garble_content(header, layout, model->len_bytes - model->header_at, random);
    return make_wrong(out, model, layout, way, random);
}
