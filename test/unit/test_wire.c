/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Tests of the wire format: bytes as drawn in rawe_wire.h, and decoders against every short length
 * and hostile values. Input is copied to memory of exactly its length, so that the address
 * sanitizer sees a decoder that reads too far.
 */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/rawe_wire.h"
#include "unit_sample.h"

static enum rawe_decode_result decode_header(const uint8_t *bytes, size_t len_bytes,
                                             struct rawe_header *header)
{
    uint8_t *copy = unit_exactly(bytes, len_bytes);
    enum rawe_decode_result result = rawe_header_decode(header, copy, len_bytes);
    free(copy);
    return result;
}

static const struct rawe_header sample_header = {UNIT_SAMPLE_HEADER, .payload_bytes = 0x0203};

TEST(rawe_header_encode__every_byte_in_its_place)
{
    static const uint8_t expected[RAWE_HEADER_BYTES] = {
        0x52, 0x11, 0x12, 0x34, 0x89, 0xAB, 0xCD, 0xEF, 0xFF, 0xF0, 0x00, 0x01,
        0xFF, 0xFF, 0xFF, 0xFE, 0x80, 0x00, 0x00, 0x01, 0x02, 0x03, 0x04, 0x05,
    };
    uint8_t out[RAWE_HEADER_BYTES];
    rawe_header_encode(out, &sample_header);
    assert_memory_equal(out, expected, sizeof(expected));
}

TEST(rawe_header_decode__gives_back_what_was_encoded)
{
    uint8_t bytes[RAWE_HEADER_BYTES + 0x0203] = {0};
    rawe_header_encode(bytes, &sample_header);
    struct rawe_header header;
    assert_int_equal(decode_header(bytes, sizeof(bytes), &header), RAWE_DECODE_OK);
    assert_int_equal(header.type, sample_header.type);
    assert_int_equal(header.flags, sample_header.flags);
    assert_int_equal(header.port, sample_header.port);
    assert_int_equal(header.key, sample_header.key);
    assert_int_equal(header.connection_id, sample_header.connection_id);
    assert_int_equal(header.sequence, sample_header.sequence);
    assert_int_equal(header.acknowledgement, sample_header.acknowledgement);
    assert_int_equal(header.payload_bytes, sample_header.payload_bytes);
    assert_int_equal(header.credit, sample_header.credit);
}

TEST(rawe_header_decode__every_short_length)
{
    uint8_t bytes[RAWE_HEADER_BYTES];
    struct rawe_header header = sample_header;
    header.payload_bytes = 0;
    rawe_header_encode(bytes, &header);
    for (size_t len_bytes = 0; len_bytes < RAWE_HEADER_BYTES; len_bytes++) {
        assert_int_equal(decode_header(bytes, len_bytes, &header), RAWE_DECODE_SHORT);
    }
    assert_int_equal(decode_header(bytes, RAWE_HEADER_BYTES, &header), RAWE_DECODE_OK);
}

TEST(rawe_header_decode__every_version_and_type)
{
    uint8_t bytes[RAWE_HEADER_BYTES] = {0};
    struct rawe_header header;
    for (unsigned first = 0; first < 256; first++) {
        bytes[0] = (uint8_t)first;
        enum rawe_decode_result expected = RAWE_DECODE_OK;
        if (first >> 4 != RAWE_WIRE_VERSION) {
            expected = RAWE_DECODE_VERSION;
        } else if ((first & 15) < RAWE_FRAME_DATA || (first & 15) > RAWE_FRAME_SLICE) {
            expected = RAWE_DECODE_TYPE;
        }
        assert_int_equal(decode_header(bytes, sizeof(bytes), &header), expected);
    }
}

TEST(rawe_header_decode__unknown_flags_are_refused)
{
    uint8_t bytes[RAWE_HEADER_BYTES] = {RAWE_WIRE_VERSION << 4 | RAWE_FRAME_DATA};
    struct rawe_header header;
    for (unsigned flags = 0; flags < 256; flags++) {
        bytes[1] = (uint8_t)flags;
        assert_int_equal(decode_header(bytes, sizeof(bytes), &header),
                         flags < 0x80 ? RAWE_DECODE_OK : RAWE_DECODE_TYPE);
    }
}

TEST(rawe_header_decode__payload_must_lie_inside)
{
    uint8_t bytes[RAWE_HEADER_BYTES + 100] = {0};
    struct rawe_header header = {.type = RAWE_FRAME_DATA};
    struct rawe_header decoded;
    for (unsigned payload_bytes = 0; payload_bytes <= UINT16_MAX; payload_bytes += 5) {
        header.payload_bytes = (uint16_t)payload_bytes;
        rawe_header_encode(bytes, &header);
        assert_int_equal(decode_header(bytes, sizeof(bytes), &decoded),
                         payload_bytes <= 100 ? RAWE_DECODE_OK : RAWE_DECODE_LENGTH);
    }
    /* A NIC's padding behind the payload is no error. */
    header.payload_bytes = 0;
    rawe_header_encode(bytes, &header);
    assert_int_equal(decode_header(bytes, sizeof(bytes), &decoded), RAWE_DECODE_OK);
}

TEST(rawe_fragment_encode__every_byte_in_its_place)
{
    uint8_t out[RAWE_FRAGMENT_BYTES_MAX];
    static const uint8_t message[] = {1, 0x42, 0x12, 0x34, 0, 0, 0, 0};
    assert_int_equal(
        rawe_fragment_encode(out, &(struct rawe_fragment){.kind = RAWE_FRAGMENT_MESSAGE,
                                                          .tag = 0x42,
                                                          .data_bytes = 0x1234}),
        RAWE_FRAGMENT_MESSAGE_BYTES);
    assert_memory_equal(out, message, sizeof(message));
    static const uint8_t segment[] = {2, 7, 0x12, 0x34, 0x89, 0xAB, 0xCD, 0xEF,
                                      1, 2, 3,    4,    5,    6,    7,    8};
    assert_int_equal(rawe_fragment_encode(out, &(struct rawe_fragment){.kind = RAWE_FRAGMENT_PART,
                                                                       .tag = 7,
                                                                       .data_bytes = 0x1234,
                                                                       .id = 0x89ABCDEF,
                                                                       .offset = 0x01020304,
                                                                       .total_bytes = 0x05060708}),
                     RAWE_FRAGMENT_PART_BYTES);
    assert_memory_equal(out, segment, sizeof(segment));
    static const uint8_t put[] = {3,    0,    0x00, 0x09, 0x89, 0xAB, 0xCD, 0xEF,
                                  0xF1, 0xF2, 0xF3, 0xF4, 0xF5, 0xF6, 0xF7, 0xF8,
                                  0xE1, 0xE2, 0xE3, 0xE4, 0xE5, 0xE6, 0xE7, 0xE8};
    assert_int_equal(
        rawe_fragment_encode(out, &(struct rawe_fragment){.kind = RAWE_FRAGMENT_PUT,
                                                          .data_bytes = 9,
                                                          .id = 0x89ABCDEF,
                                                          .key = 0xF1F2F3F4F5F6F7F8,
                                                          .offset = 0xE1E2E3E4E5E6E7E8}),
        RAWE_FRAGMENT_PUT_BYTES);
    assert_memory_equal(out, put, sizeof(put));
}

TEST(rawe_request_encode__every_byte_in_its_place)
{
    static const struct rawe_request request = {
        .operation = 0x01020304,
        .key = 0x1112131415161718,
        .atomic = RAWE_ATOMIC_XOR,
        .word_bytes = 8,
        .operand = 0x2122232425262728,
        .compare = 0x3132333435363738,
    };
    static const uint8_t expected[] = {
        0x01, 0x02, 0x03, 0x04, 4,    8,    0,    0,    0x11, 0x12, 0x13,
        0x14, 0x15, 0x16, 0x17, 0x18, 0x21, 0x22, 0x23, 0x24, 0x25, 0x26,
        0x27, 0x28, 0x31, 0x32, 0x33, 0x34, 0x35, 0x36, 0x37, 0x38,
    };
    uint8_t out[RAWE_REQUEST_BYTES];
    struct rawe_request decoded;
    rawe_request_encode(out, &request);
    assert_memory_equal(out, expected, sizeof(expected));
    assert_int_equal(sizeof(expected), RAWE_REQUEST_BYTES);
    for (size_t len_bytes = 0; len_bytes <= sizeof(out); len_bytes++) {
        uint8_t *copy = unit_exactly(out, len_bytes);
        assert_int_equal(rawe_request_decode(&decoded, copy, len_bytes),
                         len_bytes < sizeof(out) ? RAWE_DECODE_SHORT : RAWE_DECODE_OK);
        free(copy);
    }
    assert_int_equal(decoded.operation, request.operation);
    assert_true(decoded.key == request.key && decoded.operand == request.operand &&
                decoded.compare == request.compare);
    assert_int_equal(decoded.atomic, request.atomic);
    assert_int_equal(decoded.word_bytes, request.word_bytes);
}

TEST(rawe_fragment_encode__unknown_kind_has_no_length)
{
    uint8_t out[RAWE_FRAGMENT_BYTES_MAX];
    assert_int_equal(rawe_fragment_encode(out, &(struct rawe_fragment){.kind = 9}), 0);
}

/** Decode the first fragment of `bytes`; `*used` is how far the cursor moved. */
static enum rawe_decode_result decode_fragment(const uint8_t *bytes, size_t len_bytes,
                                               struct rawe_fragment *fragment, size_t *used)
{
    uint8_t *copy = unit_exactly(bytes, len_bytes);
    const uint8_t *cursor = copy;
    enum rawe_decode_result result = rawe_fragment_decode(fragment, &cursor, copy + len_bytes);
    *used = (size_t)(cursor - copy);
    if (result == RAWE_DECODE_OK) {
        /* Data must be readable to its last byte, and the cursor must make way inside. */
        assert_true(fragment->data >= copy &&
                    fragment->data + fragment->data_bytes <= copy + len_bytes);
        assert_true(*used > 0 && *used <= len_bytes);
    } else {
        assert_int_equal(*used, 0);
    }
    free(copy);
    return result;
}

TEST(rawe_fragment_decode__every_kind_and_every_short_length)
{
    static const struct rawe_fragment samples[] = {
        {.kind = RAWE_FRAGMENT_MESSAGE, .tag = 3, .data_bytes = 5},
        {.kind = RAWE_FRAGMENT_VALIDATION, .data_bytes = 5, .offset = 3, .total_bytes = 8},
        {.kind = RAWE_FRAGMENT_BUNDLE, .data_bytes = 5, .id = 9, .total_bytes = 5},
        {.kind = RAWE_FRAGMENT_PART,
         .tag = 4,
         .data_bytes = 5,
         .id = 77,
         .offset = 95,
         .total_bytes = 100},
        {.kind = RAWE_FRAGMENT_PUT,
         .data_bytes = 5,
         .id = 88,
         .key = UINT64_MAX - 1,
         .offset = UINT64_MAX},
        {.kind = RAWE_FRAGMENT_GET, .data_bytes = 5, .id = 88, .key = 5, .offset = UINT64_MAX},
        {.kind = RAWE_FRAGMENT_ATOMIC, .data_bytes = 5, .id = 88, .key = 5, .offset = 7},
        {.kind = RAWE_FRAGMENT_REPLY, .tag = 9, .data_bytes = 5, .id = 88, .key = 5, .offset = 7},
    };
    for (size_t i = 0; i < sizeof(samples) / sizeof(samples[0]); i++) {
        uint8_t bytes[RAWE_FRAGMENT_BYTES_MAX + 8] = {0};
        size_t header_bytes = rawe_fragment_encode(bytes, &samples[i]);
        size_t whole_bytes = header_bytes + samples[i].data_bytes;
        struct rawe_fragment fragment;
        size_t used;
        for (size_t len_bytes = 0; len_bytes < whole_bytes; len_bytes++) {
            assert_int_equal(decode_fragment(bytes, len_bytes, &fragment, &used),
                             len_bytes < header_bytes ? RAWE_DECODE_SHORT : RAWE_DECODE_LENGTH);
        }
        assert_int_equal(decode_fragment(bytes, whole_bytes, &fragment, &used), RAWE_DECODE_OK);
        assert_int_equal(used, whole_bytes); /* the last fragment need not be padded */
        assert_int_equal(fragment.kind, samples[i].kind);
        assert_int_equal(fragment.data_bytes, 5);
        assert_int_equal(fragment.id, samples[i].id);
        assert_true(fragment.key == samples[i].key && fragment.offset == samples[i].offset);
        if (fragment.kind != RAWE_FRAGMENT_PUT) {
            assert_int_equal(fragment.tag, samples[i].tag);
        }
        assert_int_equal(fragment.total_bytes, samples[i].total_bytes != 0 ? samples[i].total_bytes
                                                                           : fragment.data_bytes);
    }
}

TEST(rawe_fragment_decode__unknown_kinds)
{
    uint8_t bytes[32] = {0};
    for (unsigned kind = 0; kind < 256; kind++) {
        struct rawe_fragment fragment;
        size_t used;
        bytes[0] = (uint8_t)kind;
        assert_int_equal(decode_fragment(bytes, sizeof(bytes), &fragment, &used),
                         kind >= 1 && kind <= 8 ? RAWE_DECODE_OK : RAWE_DECODE_TYPE);
    }
}

TEST(rawe_fragment_decode__segment_must_lie_in_its_message)
{
    static const struct {
        uint32_t offset, total_bytes;
        bool good;
    } cases[] = {
        {0, 8, true},
        {0, 7, false},
        {1, 8, false},
        {92, 100, true},
        {93, 100, false},
        {100, 100, false},
        {101, 100, false},
        {UINT32_MAX, 100, false},
        {UINT32_MAX - 7, UINT32_MAX, false},
        {UINT32_MAX - 8, UINT32_MAX, true},
        {UINT32_MAX, 7, false}, /* offset + length wraps to 7 in 32 bits */
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        uint8_t bytes[RAWE_FRAGMENT_PART_BYTES + 8] = {0};
        rawe_fragment_encode(bytes, &(struct rawe_fragment){.kind = RAWE_FRAGMENT_PART,
                                                            .data_bytes = 8,
                                                            .offset = cases[i].offset,
                                                            .total_bytes = cases[i].total_bytes});
        struct rawe_fragment fragment;
        size_t used;
        assert_int_equal(decode_fragment(bytes, sizeof(bytes), &fragment, &used),
                         cases[i].good ? RAWE_DECODE_OK : RAWE_DECODE_LENGTH);
    }
}

TEST(rawe_fragment_decode__walks_over_padding)
{
    /* Three messages of 0, 3 and 9 bytes: 8 + 16 + 24 bytes, the last one unpadded: 17. */
    uint8_t bytes[8 + 16 + 17] = {0};
    static const uint16_t lengths[] = {0, 3, 9};
    size_t at = 0;
    for (unsigned i = 0; i < 3; i++) {
        at +=
            rawe_fragment_encode(bytes + at, &(struct rawe_fragment){.kind = RAWE_FRAGMENT_MESSAGE,
                                                                     .tag = (uint8_t)i,
                                                                     .data_bytes = lengths[i]});
        memset(bytes + at, (int)(0xA0 + i), lengths[i]);
        at += lengths[i];
        at = i < 2 ? rawe_fragment_pad(at) : at;
    }
    assert_int_equal(at, sizeof(bytes));
    uint8_t *copy = unit_exactly(bytes, sizeof(bytes));
    const uint8_t *cursor = copy;
    for (unsigned i = 0; i < 3; i++) {
        struct rawe_fragment fragment;
        assert_int_equal(rawe_fragment_decode(&fragment, &cursor, copy + sizeof(bytes)),
                         RAWE_DECODE_OK);
        assert_int_equal(fragment.tag, i);
        assert_int_equal(fragment.data_bytes, lengths[i]);
        for (unsigned j = 0; j < lengths[i]; j++) {
            assert_int_equal(fragment.data[j], 0xA0 + i);
        }
    }
    assert_ptr_equal(cursor, copy + sizeof(bytes));
    free(copy);
}

TEST(rawe_fragment_decode__random_bytes_end_and_stay_inside)
{
    uint32_t random = 12345;
    for (unsigned round = 0; round < 20000; round++) {
        uint8_t bytes[96];
        for (size_t i = 0; i < sizeof(bytes); i++) {
            random = random * 1664525u + 1013904223u;
            bytes[i] = (uint8_t)(random >> 24);
        }
        bytes[0] = (uint8_t)(bytes[0] % 6);
        bytes[2] = (uint8_t)(bytes[2] % 2 == 0 ? 0 : bytes[2]);
        size_t len_bytes = bytes[40] % (sizeof(bytes) + 1);
        uint8_t *copy = unit_exactly(bytes, len_bytes);
        const uint8_t *cursor = copy, *end = copy + len_bytes;
        unsigned sum = 0;
        while (cursor != end) {
            struct rawe_fragment fragment;
            const uint8_t *before = cursor;
            if (rawe_fragment_decode(&fragment, &cursor, end) != RAWE_DECODE_OK) {
                break;
            }
            assert_true(cursor > before && cursor <= end);
            assert_true(fragment.data_bytes <= (size_t)(end - fragment.data));
            for (unsigned i = 0; i < fragment.data_bytes; i++) {
                sum += fragment.data[i]; /* the sanitizer watches */
            }
        }
        assert_true(sum < 96 * 256);
        free(copy);
    }
}

TEST(rawe_fragment_pad__rounds_up_to_eight)
{
    for (size_t len_bytes = 0; len_bytes < 100; len_bytes++) {
        size_t padded = rawe_fragment_pad(len_bytes);
        assert_true(padded % 8 == 0 && padded >= len_bytes && padded < len_bytes + 8);
    }
}

TEST(rawe_connect_encode__every_byte_in_its_place)
{
    static const uint8_t expected[RAWE_CONNECT_BYTES] = {
        0x01, 0x02, 0x03, 0x04, 0x11, 0x12, 0x13, 0x14, 0x21, 0x22, 0x23,
        0x24, 0x31, 0x32, 0x33, 0x34, 0x41, 0x42, 0x51, 0x55, 0x61, 0x62,
        0x63, 0x64, 0x71, 0x72, 0x73, 0x74, 0x75, 0x76, 0x77, 0x78,
    };
    struct rawe_connect connect = {
        .jobid = 0x01020304,
        .vpid = 0x11121314,
        .connection_id = 0x21222324,
        .key = 0x31323334,
        .port = 0x4142,
        .lane = 0x51,
        .choice = 0x55,
        .payload_max_bytes = 0x61626364,
        .incarnation = 0x7172737475767778,
    };
    uint8_t out[RAWE_CONNECT_BYTES];
    memset(out, 0xEE, sizeof(out));
    rawe_connect_encode(out, &connect);
    assert_memory_equal(out, expected, sizeof(expected));
}

TEST(rawe_connect_decode__round_trip_and_short_lengths)
{
    struct rawe_connect connect = {
        .jobid = UINT32_MAX,
        .vpid = 2,
        .connection_id = 3,
        .key = UINT32_MAX - 1,
        .port = UINT16_MAX,
        .lane = 1,
        .choice = UINT8_MAX,
        .payload_max_bytes = 1462,
        .incarnation = UINT64_MAX,
    };
    uint8_t bytes[RAWE_CONNECT_BYTES];
    rawe_connect_encode(bytes, &connect);
    for (size_t len_bytes = 0; len_bytes <= RAWE_CONNECT_BYTES; len_bytes++) {
        struct rawe_connect decoded;
        uint8_t *copy = unit_exactly(bytes, len_bytes);
        enum rawe_decode_result result = rawe_connect_decode(&decoded, copy, len_bytes);
        free(copy);
        if (len_bytes < RAWE_CONNECT_BYTES) {
            assert_int_equal(result, RAWE_DECODE_SHORT);
            continue;
        }
        assert_int_equal(result, RAWE_DECODE_OK);
        assert_int_equal(decoded.jobid, connect.jobid);
        assert_int_equal(decoded.vpid, connect.vpid);
        assert_int_equal(decoded.connection_id, connect.connection_id);
        assert_int_equal(decoded.key, connect.key);
        assert_int_equal(decoded.port, connect.port);
        assert_int_equal(decoded.lane, connect.lane);
        assert_int_equal(decoded.choice, connect.choice);
        assert_int_equal(decoded.payload_max_bytes, connect.payload_max_bytes);
        assert_true(decoded.incarnation == connect.incarnation);
    }
}

TEST(rawe_ping_encode__every_byte_in_its_place)
{
    static const uint8_t expected[RAWE_PING_BYTES] = {
        0x01, 0x02, 0x03, 0x04, 0x05, 0x06, 0, 0, 0x11, 0x12, 0x13, 0x14, 0x15, 0x16, 0x17, 0x18};
    uint8_t out[RAWE_PING_BYTES];
    memset(out, 0xEE, sizeof(out));
    rawe_ping_encode(
        out, &(struct rawe_ping){.key = 0x01020304, .port = 0x0506, .token = 0x1112131415161718});
    assert_memory_equal(out, expected, sizeof(expected));
}

TEST(rawe_ping_decode__round_trip_and_short_lengths)
{
    uint8_t bytes[RAWE_PING_BYTES];
    struct rawe_ping ping = {.key = 0xFEDCBA98, .port = 0xFFFE, .token = UINT64_MAX - 5};
    rawe_ping_encode(bytes, &ping);
    struct rawe_ping decoded;
    for (size_t len_bytes = 0; len_bytes < RAWE_PING_BYTES; len_bytes++) {
        uint8_t *copy = unit_exactly(bytes, len_bytes);
        assert_int_equal(rawe_ping_decode(&decoded, copy, len_bytes), RAWE_DECODE_SHORT);
        free(copy);
    }
    assert_int_equal(rawe_ping_decode(&decoded, bytes, sizeof(bytes)), RAWE_DECODE_OK);
    assert_int_equal(decoded.key, ping.key);
    assert_int_equal(decoded.port, ping.port);
    assert_true(decoded.token == ping.token);
}

TEST(rawe_sequence_before__around_the_wrap)
{
    assert_true(rawe_sequence_before(0, 1));
    assert_false(rawe_sequence_before(1, 0));
    assert_false(rawe_sequence_before(5, 5));
    assert_true(rawe_sequence_before(UINT32_MAX, 0));
    assert_false(rawe_sequence_before(0, UINT32_MAX));
    assert_true(rawe_sequence_before(0xFFFFFF00, 0x100));
    assert_true(rawe_sequence_before(0, 0x7FFFFFFF));
    assert_false(rawe_sequence_before(0x7FFFFFFF, 0));
}
