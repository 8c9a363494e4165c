/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Makes hostile frames. Each forged one is wrong in at least one field that the receiver can know
 * to be wrong; in all others it may be anything. A frame that is right in all of them, with the
 * live sequence number of the connection, cannot be told from the peer's: doc/security.md.
 */
#include "attack.h"

#include <string.h>

enum { AT_VERSION_TYPE = 0, AT_FLAGS = 1, AT_PORT = 2, AT_KEY = 4, AT_CONNECTION = 8 };
enum { AT_SEQUENCE = 12, AT_ACKNOWLEDGEMENT = 16, AT_PAYLOAD_BYTES = 20, AT_CREDIT = 22 };
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

/* Everything behind the header, by words: handles, keys, offsets, lengths, identities, bitmaps. */
static void garble_payload(uint8_t *at, size_t len_bytes, uint64_t *random)
{
    for (size_t i = 0; i + 4 <= len_bytes && i < 40; i += 4) {
        if (below(random, 2) == 0) {
            put32(at + i, hostile(random));
        }
    }
    if (len_bytes > 0 && below(random, 2) == 0) {
        at[0] = (uint8_t)below(random, 6); /* a kind of fragment, or nearly */
    }
}

/* Fields that may be anything once another one is wrong. */
static void garble_header(uint8_t *header, uint64_t *random)
{
    if (below(random, 4) == 0) {
        put32(header + AT_PAYLOAD_BYTES, (get32(header + AT_PAYLOAD_BYTES) & 0xFFFF0000) |
                                             (hostile(random) & 0xFFFF)); /* the credit */
    }
    if (below(random, 2) == 0) {
        header[AT_FLAGS] = (uint8_t)(attack_random(random) & 0x7F);
    }
    if (below(random, 4) == 0) {
        put32(header + AT_SEQUENCE, hostile(random));
    }
    if (below(random, 4) == 0) {
        put32(header + AT_ACKNOWLEDGEMENT, hostile(random));
    }
}

static void set_type(uint8_t *header, uint32_t type)
{
    header[AT_VERSION_TYPE] = (uint8_t)((header[AT_VERSION_TYPE] & 0xF0) | type);
}

/* Sequence numbers that are far off, on either side; acknowledged is nothing that matters. */
static void make_far(uint8_t *header, uint64_t *random)
{
    uint32_t sequence = get32(header + AT_SEQUENCE), ack = get32(header + AT_ACKNOWLEDGEMENT);

    set_type(header, DATA + below(random, 2));
    sequence += below(random, 2) == 0 ? far_away(random) : -far_away(random);
    put32(header + AT_SEQUENCE, sequence);
    put32(header + AT_ACKNOWLEDGEMENT, ack - far_away(random));
}

/* Makes the frame wrong in one way that shows; returns its new length. */
static size_t make_wrong(uint8_t *frame, size_t header_at, size_t len_bytes, enum attack_way only,
                         uint64_t *random)
{
    uint8_t *header = frame + header_at;
    enum attack_way way = only < ATTACK_WAY_COUNT ? only : below(random, ATTACK_WAY_COUNT);

    if (way != ATTACK_WAY_sequence && way != ATTACK_WAY_acknowledgement) {
        garble_header(header, random);
        set_type(header, DATA + below(random, TYPE_END - DATA));
    }
    switch (way) {
    case ATTACK_WAY_sequence:
        make_far(header, random);
        break;
    case ATTACK_WAY_acknowledgement:
        /* Acknowledges what was never sent; of a CLOSE that would be believed. */
        set_type(header, DATA + below(random, 4));
        put32(header + AT_ACKNOWLEDGEMENT, get32(header + AT_ACKNOWLEDGEMENT) + far_away(random));
        break;
    case ATTACK_WAY_type:
        set_type(header, below(random, 2) == 0 ? 0 : TYPE_END + below(random, 16 - TYPE_END));
        break;
    case ATTACK_WAY_flags:
        header[AT_FLAGS] |= FLAGS_UNKNOWN;
        break;
    case ATTACK_WAY_connection: /* index 2^19 nobody has; a CONNECT is not asked for it */
        if ((header[AT_VERSION_TYPE] & 15) == CONNECT) {
            set_type(header, DATA);
        }
        put32(header + AT_CONNECTION, hostile(random) | 1u << 31 | 1u << 19);
        break;
    case ATTACK_WAY_length: /* longer than the frame */
        put32(header + AT_PAYLOAD_BYTES,
              (uint32_t)(len_bytes + below(random, 50000)) << 16 | (hostile(random) & 0xFFFF));
        break;
    case ATTACK_WAY_truncated: /* cut short; the kernel pads nothing */
        len_bytes = header_at + below(random, ATTACK_HEADER_BYTES);
        break;
    default: /* not from the peer's address */
        fill(frame + 8, 4, random);
        break;
    }
    return len_bytes;
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
            fill(header + AT_PORT, 2, random);
        }
        put32(header + AT_KEY, hostile(random));
        break;
    default:
        break;
    }
    garble_payload(header + ATTACK_HEADER_BYTES,
                   model->len_bytes - model->header_at - ATTACK_HEADER_BYTES, random);
    return make_wrong(out, model->header_at, model->len_bytes, way, random);
}
