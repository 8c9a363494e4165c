/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The mutator of target `decode`: changes single fields of frames and fragments, and mostly
 * corrects the version and the lengths, which a decoder checks first.
 */
#include "fuzz.h"

#include <string.h>

#include "base/rawe_wire.h"

/** A field of a frame's header, of a fragment, of CONNECT and PING, or of a batch header. */
struct field {
    uint8_t offset;
    uint8_t bytes;
};

static const struct field header_fields[] = {{0, 1}, {1, 1},  {2, 2},  {4, 4},
                                             {8, 4}, {12, 4}, {16, 4}, {22, 2}};
static const struct field payload_fields[] = {{0, 1},  {1, 1},  {2, 2},  {4, 4},  {8, 4},  {12, 4},
                                              {16, 2}, {18, 1}, {19, 1}, {20, 4}, {24, 8}, {16, 8}};

static const struct field batch_fields[] = {{0, 2},  {2, 2},  {4, 4},  {8, 4},  {14, 2}, {25, 1},
                                            {26, 1}, {27, 1}, {28, 4}, {32, 2}, {34, 2}, {36, 4},
                                            {40, 4}, {44, 4}, {44, 8}, {52, 2}, {54, 4}, {58, 1}};

static const uint64_t edges[] = {
    0,           1,           2,           3,           4,          7,         8,      0x3F,
    0x40,        0xFF,        0x100,       0x400,       0x7FFF,     0x8000,    0xFFFF, 0x10000,
    0x7FFFFFFFu, 0x80000000u, 0xFFFFFFF8u, 0xFFFFFFFFu, UINT64_MAX, 1ull << 63};

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static void write_number(uint8_t *out, unsigned bytes, uint64_t value)
{
    for (unsigned i = 0; i < bytes; i++) {
        out[i] = (uint8_t)(value >> (8 * (bytes - 1 - i)));
    }
}

static void change_field(uint8_t *at, size_t room, const struct field *field, uint64_t *random)
{
    if (room < (size_t)field->offset + field->bytes) {
        return;
    }
    uint64_t value = fuzz_random(random) % 2 != 0
                         ? edges[fuzz_random(random) % COUNT(edges)]
                         : (uint64_t)fuzz_random(random) << 32 | fuzz_random(random);
    if (field->bytes == 1) {
        value %= 16;
    }
    write_number(at + field->offset, field->bytes, value);
}

/** Make the bytes a batch header whose numbers mostly add up. */
static void mend_batch(uint8_t *data, uint64_t *random)
{
    uint8_t *head = data + 3;
    size_t frames = 1 + fuzz_random(random) % RAWE_BATCH_FRAMES_MAX;
    size_t segment_bytes = (size_t)head[14] << 8 | head[15];
    write_number(head + 20, 4, 0xFE285257u);
    head[24] = fuzz_random(random) % 2 != 0 ? RAWE_FRAME_BULK : head[24] & 0x0F;
    if (fuzz_random(random) % 4 == 0 || segment_bytes == 0) {
        return;
    }
    size_t first = fuzz_random(random) % frames;
    size_t count = 1 + fuzz_random(random) % (frames - first);
    size_t data_bytes = count * segment_bytes;
    if (first + count == frames) {
        data_bytes -= fuzz_random(random) % segment_bytes;
    }
    head[58] = (uint8_t)frames;
    write_number(head + 4, 4, first * segment_bytes);
    write_number(data + 1, 2, data_bytes);
}

static size_t mutate_batch(uint8_t *data, size_t len_bytes, size_t max_bytes, uint64_t *random)
{
    const size_t head_at = 3;
    if (head_at + RAWE_BATCH_HEADER_BYTES > max_bytes) {
        return len_bytes;
    }
    if (len_bytes < head_at + RAWE_BATCH_HEADER_BYTES) {
        memset(data + len_bytes, 0, head_at + RAWE_BATCH_HEADER_BYTES - len_bytes);
        len_bytes = head_at + RAWE_BATCH_HEADER_BYTES;
    }
    change_field(data + head_at, RAWE_BATCH_HEADER_BYTES,
                 &batch_fields[fuzz_random(random) % COUNT(batch_fields)], random);
    if (fuzz_random(random) % 8 != 0) {
        mend_batch(data, random);
    }
    return len_bytes;
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t len_bytes, size_t max_bytes, unsigned seed)
{
    uint64_t random = seed;
    if (len_bytes == 0 || fuzz_random(&random) % 8 == 0) {
        return LLVMFuzzerMutate(data, len_bytes, max_bytes);
    }
    /* 0: frames, 1: fragments alone, 2: frames with their Ethernet header, 3: batch headers. */
    if (data[0] % 4 == 3) {
        return mutate_batch(data, len_bytes, max_bytes, &random);
    }
    size_t header_at = data[0] % 4 == 2 ? 1 + RAWE_ETH_HEADER_BYTES : 1;
    size_t payload_at = data[0] % 4 == 1 ? 1 : header_at + RAWE_HEADER_BYTES;
    if (payload_at > max_bytes) {
        return len_bytes;
    }
    if (len_bytes < payload_at) {
        memset(data + len_bytes, 0, payload_at - len_bytes);
        len_bytes = payload_at;
    }
    if (fuzz_random(&random) % 3 == 0) {
        len_bytes = payload_at + LLVMFuzzerMutate(data + payload_at, len_bytes - payload_at,
                                                  max_bytes - payload_at);
    }
    size_t payload_bytes = len_bytes - payload_at;
    if (payload_at != 1 && fuzz_random(&random) % 2 == 0) {
        change_field(data + header_at, RAWE_HEADER_BYTES,
                     &header_fields[fuzz_random(&random) % COUNT(header_fields)], &random);
    } else {
        change_field(data + payload_at, payload_bytes,
                     &payload_fields[fuzz_random(&random) % COUNT(payload_fields)], &random);
    }
    if (payload_at != 1 && fuzz_random(&random) % 8 != 0) {
        uint8_t *header = data + header_at;
        header[0] &= 0x0F;
        write_number(header + 20, 2, payload_bytes > UINT16_MAX ? UINT16_MAX : payload_bytes);
    }
    if (payload_bytes >= RAWE_FRAGMENT_MESSAGE_BYTES && fuzz_random(&random) % 2 == 0) {
        size_t head_bytes = rawe_fragment_header_bytes(data[payload_at]);
        if (head_bytes != 0 && payload_bytes >= head_bytes) {
            write_number(data + payload_at + 2, 2, payload_bytes - head_bytes);
        }
    }
    return len_bytes;
}
