/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Tests of the wire format: frames, fragments, control payloads, and frames of groups.
 */
#include "unit_wire.h"

/* What each structure of fixed length has in common: a layout, and decoders that look at lengths,
 * version, type and flags in the same way. */

#define CODEC(name_)                                                                             \
    static void encode_##name_(uint8_t *out, const void *from)                                   \
    {                                                                                            \
        rawe_##name_##_encode(out, from);                                                        \
    }                                                                                            \
    static enum rawe_decode_result decode_##name_(void *to, const uint8_t *in, size_t len_bytes) \
    {                                                                                            \
        return rawe_##name_##_decode(to, in, len_bytes);                                         \
    }

CODEC(header)
CODEC(group_header)
CODEC(request)
CODEC(connect)
CODEC(ping)

enum { STRUCTURE_BYTES_MAX = 32, PAYLOAD_BYTES_MAX = 2048 };

static const struct structure {
    void (*encode)(uint8_t *out, const void *from);
    enum rawe_decode_result (*decode)(void *to, const uint8_t *in, size_t len_bytes);
    const void *sample; /**< each of its bytes is known by its place */
    const char *bytes;  /**< the same as it is sent, in headers without the version */
    size_t len_bytes;
    size_t payload_bytes; /**< that the sample has behind it */
    /* Of headers, which begin with version and type, and flags. */
    unsigned first_type, end_type, flags;
} structures[] = {
    {encode_header, decode_header,
     &(const struct rawe_header){UNIT_SAMPLE_HEADER, .payload_bytes = 0x0203},
     "\x02\x11\x12\x34\x89\xAB\xCD\xEF\xFF\xF0\x00\x01"
     "\xFF\xFF\xFF\xFE\x80\x00\x00\x01\x02\x03\x04\x05",
     RAWE_HEADER_BYTES, 0x0203, RAWE_FRAME_DATA, RAWE_FRAME_SLICE + 1, 0x7F},
    {encode_group_header, decode_group_header,
     &(const struct rawe_group_header){RAWE_GROUP_DATA, RAWE_FLAG_RESENT, 0x1234, 0x89ABCDEF,
                                       0x1122334455667788, 0xFFFFFFFE, 0x0203, 0x0405, 0x80000001,
                                       0x00000203, 0},
     "\x0A\x10\x12\x34\x89\xAB\xCD\xEF\x11\x22\x33\x44\x55\x66\x77\x88"
     "\xFF\xFF\xFF\xFE\x02\x03\x04\x05\x80\x00\x00\x01\x00\x00\x02\x03",
     RAWE_GROUP_HEADER_BYTES, 0x0203, RAWE_GROUP_DATA, RAWE_GROUP_ACK + 1, 0x3B},
    {encode_request, decode_request,
     &(const struct rawe_request){.operation = 0x01020304,
                                  .key = 0x1112131415161718,
                                  .atomic = RAWE_ATOMIC_XOR,
                                  .word_bytes = 8,
                                  .operand = 0x2122232425262728,
                                  .compare = 0x3132333435363738},
     "\x01\x02\x03\x04\x04\x08\x00\x00\x11\x12\x13\x14\x15\x16\x17\x18"
     "\x21\x22\x23\x24\x25\x26\x27\x28\x31\x32\x33\x34\x35\x36\x37\x38",
     RAWE_REQUEST_BYTES, 0, 0, 0, 0},
    {encode_connect, decode_connect,
     &(const struct rawe_connect){.jobid = 0x01020304,
                                  .vpid = 0x11121314,
                                  .connection_id = 0x21222324,
                                  .key = 0x31323334,
                                  .port = 0x4142,
                                  .lane = 0x51,
                                  .choice = 0x55,
                                  .payload_max_bytes = 0x61626364,
                                  .incarnation = 0x7172737475767778},
     "\x01\x02\x03\x04\x11\x12\x13\x14\x21\x22\x23\x24\x31\x32\x33\x34"
     "\x41\x42\x51\x55\x61\x62\x63\x64\x71\x72\x73\x74\x75\x76\x77\x78",
     RAWE_CONNECT_BYTES, 0, 0, 0, 0},
    {encode_ping, decode_ping,
     &(const struct rawe_ping){.key = 0x01020304, .port = 0x0506, .token = 0x1112131415161718},
     "\x01\x02\x03\x04\x05\x06\x00\x00\x11\x12\x13\x14\x15\x16\x17\x18", RAWE_PING_BYTES, 0, 0, 0,
     0},
};

#define STRUCTURES (sizeof(structures) / sizeof(structures[0]))

/** Decode from memory of exactly that length. */
static enum rawe_decode_result decode(const struct structure *structure, void *to,
                                      const uint8_t *bytes, size_t len_bytes)
{
    uint8_t *copy = unit_exactly(bytes, len_bytes);
    enum rawe_decode_result result = structure->decode(to, copy, len_bytes);
    free(copy);
    return result;
}

TEST(rawe_encode__every_byte_in_its_place)
{
    for (const struct structure *one = structures; one != structures + STRUCTURES; one++) {
        uint8_t bytes[STRUCTURE_BYTES_MAX + PAYLOAD_BYTES_MAX] = {0};
        uint8_t expected[STRUCTURE_BYTES_MAX], again[STRUCTURE_BYTES_MAX];
        uint64_t decoded[8];
        memcpy(expected, one->bytes, one->len_bytes);
        expected[0] |= one->end_type != 0 ? RAWE_WIRE_VERSION << 4 : 0;
        memset(bytes, 0xEE, one->len_bytes);
        one->encode(bytes, one->sample);
        assert_memory_equal(bytes, expected, one->len_bytes);
        assert_int_equal(decode(one, decoded, bytes, one->len_bytes + one->payload_bytes),
                         RAWE_DECODE_OK);
        memset(again, 0xEE, sizeof(again));
        one->encode(again, decoded);
        assert_memory_equal(again, expected, one->len_bytes);
    }
}

TEST(rawe_decode__every_short_length)
{
    for (const struct structure *one = structures; one != structures + STRUCTURES; one++) {
        uint8_t bytes[STRUCTURE_BYTES_MAX + PAYLOAD_BYTES_MAX] = {0};
        uint64_t decoded[8];
        one->encode(bytes, one->sample);
        for (size_t len_bytes = 0; len_bytes < one->len_bytes + one->payload_bytes; len_bytes++) {
            assert_int_equal(decode(one, decoded, bytes, len_bytes),
                             len_bytes < one->len_bytes ? RAWE_DECODE_SHORT : RAWE_DECODE_LENGTH);
        }
    }
}

TEST(rawe_decode__every_version_type_and_flag)
{
    for (const struct structure *one = structures; one->end_type != 0; one++) {
        for (unsigned byte = 0; byte <= UINT8_MAX; byte++) {
            const unsigned type = byte & 0x0F;
            uint8_t bytes[STRUCTURE_BYTES_MAX] = {(uint8_t)byte};
            uint64_t decoded[8];
            enum rawe_decode_result expected = RAWE_DECODE_OK;
            if (byte >> 4 != RAWE_WIRE_VERSION) {
                expected = RAWE_DECODE_VERSION;
            } else if (type < one->first_type || type >= one->end_type) {
                expected = RAWE_DECODE_TYPE;
            } else if (type == RAWE_GROUP_NACK) {
                expected = RAWE_DECODE_LENGTH; /* for no frame */
            }
            assert_int_equal(decode(one, decoded, bytes, one->len_bytes), expected);
            bytes[0] = (uint8_t)(RAWE_WIRE_VERSION << 4 | one->first_type);
            bytes[1] = (uint8_t)byte;
            assert_int_equal(decode(one, decoded, bytes, one->len_bytes),
                             (byte & ~one->flags) == 0 ? RAWE_DECODE_OK : RAWE_DECODE_TYPE);
        }
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
        assert_int_equal(decode(&structures[0], &decoded, bytes, sizeof(bytes)),
                         payload_bytes <= 100 ? RAWE_DECODE_OK : RAWE_DECODE_LENGTH);
    }
    /* A NIC's padding behind the payload is no error. */
    header.payload_bytes = 0;
    rawe_header_encode(bytes, &header);
    assert_int_equal(decode(&structures[0], &decoded, bytes, sizeof(bytes)), RAWE_DECODE_OK);
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

TEST(rawe_group_header_decode__lengths)
{
    static const struct {
        uint8_t type;
        uint16_t payload_bytes;
        uint32_t total_bytes;
        bool fits;
    } cases[] = {
        {RAWE_GROUP_DATA, 0, 0, true},        {RAWE_GROUP_DATA, 10, 10, true},
        {RAWE_GROUP_DATA, 10, 11, true},      {RAWE_GROUP_DATA, 10, 9, false},
        {RAWE_GROUP_DATA, 0, 9, false},       {RAWE_GROUP_HEARTBEAT, 0, 0, true},
        {RAWE_GROUP_HEARTBEAT, 128, 0, true}, {RAWE_GROUP_HEARTBEAT, 127, 0, false},
        {RAWE_GROUP_NACK, 0, 0, false},       {RAWE_GROUP_NACK, 1, 0, true},
        {RAWE_GROUP_NACK, 128, 0, true},      {RAWE_GROUP_NACK, 129, 0, false},
        {RAWE_GROUP_ACK, 0, 0, true},         {RAWE_GROUP_ACK, 1, 0, false},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        uint8_t bytes[RAWE_GROUP_HEADER_BYTES + 200] = {0};
        struct rawe_group_header header = {.type = cases[i].type,
                                           .payload_bytes = cases[i].payload_bytes,
                                           .total_bytes = cases[i].total_bytes};
        rawe_group_header_encode(bytes, &header);
        assert_int_equal(
            decode(&structures[1], &header, bytes, RAWE_GROUP_HEADER_BYTES + header.payload_bytes),
            cases[i].fits ? RAWE_DECODE_OK : RAWE_DECODE_LENGTH);
    }
}

TEST(rawe_group_shared_next__messages_fill_the_payload)
{
    static const struct {
        uint32_t payload_bytes, total_bytes;
        const char *payload;
        unsigned messages; /* 0: refused */
    } cases[] = {
        {2, 2, "\0\0", 1},    {5, 5, "\0\3abc", 1},   {10, 10, "\0\3abc\0\0\0\1d", 3},
        {1, 1, "\0", 0},      {5, 6, "\0\3abc", 0},   {5, 5, "\0\4abc", 0},
        {5, 5, "\1\3abc", 0}, {6, 6, "\0\3abc\0", 0}, {7, 7, "\0\3abc\0\1", 0},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        uint8_t bytes[RAWE_GROUP_HEADER_BYTES + 10];
        const struct rawe_group_header header = {.type = RAWE_GROUP_DATA,
                                                 .flags = RAWE_GROUP_FLAG_SHARED,
                                                 .payload_bytes = (uint16_t)cases[i].payload_bytes,
                                                 .total_bytes = cases[i].total_bytes};
        struct rawe_group_header decoded;
        uint8_t *payload = bytes + RAWE_GROUP_HEADER_BYTES;
        rawe_group_header_encode(bytes, &header);
        memcpy(payload, cases[i].payload, cases[i].payload_bytes);
        assert_int_equal(rawe_group_header_decode(
                             &decoded, bytes, RAWE_GROUP_HEADER_BYTES + cases[i].payload_bytes) ==
                                 RAWE_DECODE_OK &&
                             rawe_group_shared_fits(payload, cases[i].payload_bytes),
                         cases[i].messages != 0);
        uint8_t again[10];
        uint32_t at_bytes = 0, end_bytes = 0, len_bytes;
        const uint8_t *message;
        for (unsigned k = 0; k < cases[i].messages; k++) {
            message =
                rawe_group_shared_next(payload, cases[i].payload_bytes, &at_bytes, &len_bytes);
            assert_non_null(message);
            end_bytes = rawe_group_shared_add(again, end_bytes, message, len_bytes);
            assert_int_equal(end_bytes, at_bytes);
        }
        assert_int_equal(end_bytes, cases[i].messages == 0 ? 0 : cases[i].payload_bytes);
        assert_memory_equal(again, payload, end_bytes);
    }
}

TEST(rawe_group_member_encode__place_by_index)
{
    uint8_t list[6] = {0};
    rawe_group_member_encode(list, 1, 0x0102);
    rawe_group_member_encode(list, 2, 0xFFFE);
    assert_memory_equal(list, "\x00\x00\x01\x02\xFF\xFE", sizeof(list));
    assert_int_equal(rawe_group_member_decode(list, 2), 0xFFFE);
}
