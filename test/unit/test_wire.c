/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Tests of the wire format: frames, fragments, control payloads, group frames, batch headers. For
 * the control messages and shared frames of groups, see test_group.c.
 */
#include <stdlib.h>
#include <string.h>

#include "base/rawe_wire.h"
#include "unit_test.h"

/** Initializers of a header that reveals misplaced bytes; payload_bytes is left out. */
#define UNIT_SAMPLE_HEADER                                                                  \
    .type = RAWE_FRAME_BULK, .flags = RAWE_FLAG_ACK_NOW | RAWE_FLAG_RESENT, .port = 0x1234, \
    .key = 0x89ABCDEF, .connection_id = 0xFFF00001, .sequence = 0xFFFFFFFE,                 \
    .acknowledgement = 0x80000001, .credit = 0x0405

/** Data length of the batches below, and of each of their frames. */
#define SAMPLE_BYTES 4321u
#define SAMPLE_SEGMENT_BYTES 1000

/** Five frames from the middle of a message. */
static const struct rawe_batch batch_sample = {
    .header = {UNIT_SAMPLE_HEADER},
    .fragment = {.kind = RAWE_FRAGMENT_PART,
                 .tag = 0x5A,
                 .id = 0x01020304,
                 .total_bytes = 0x00ABCDEF,
                 .offset = 0x00112233},
    .segment_bytes = SAMPLE_SEGMENT_BYTES,
    .frames = 5,
};

/** Five frames from the middle of a PUT. */
static const struct rawe_batch put_sample = {
    .header = {UNIT_SAMPLE_HEADER},
    .fragment = {.kind = RAWE_FRAGMENT_PUT,
                 .id = 0x01020304,
                 .key = 0x1122334455667788,
                 .offset = 0xFEDCBA987654},
    .segment_bytes = SAMPLE_SEGMENT_BYTES,
    .frames = 5,
};

/** Five frames of a group. */
static const struct rawe_group_header group_sample = {
    .flags = RAWE_GROUP_FLAG_ASK,
    .sender = 0x1234,
    .id = 0x1122334455667788,
    .sequence = 0xFFFFFFFE,
    .payload_bytes = SAMPLE_BYTES,
    .total_bytes = 0x00ABCDEF,
    .segment_bytes = SAMPLE_SEGMENT_BYTES,
};

/** Return a copy of `bytes` in memory of exactly that length; the caller frees it. */
static uint8_t *unit_exactly(const uint8_t *bytes, size_t len_bytes)
{
    uint8_t *copy = malloc(len_bytes + (len_bytes == 0));
    assert_non_null(copy);
    memcpy(copy, bytes, len_bytes);
    return copy;
}

/* Fixed-length structures: each has a layout, and a decoder that checks lengths, version, type and
 * flags. */

#define CODEC(name_, ...)                                                                        \
    static void encode_##name_(uint8_t *out, const void *from)                                   \
    {                                                                                            \
        rawe_##name_##_encode(out, from);                                                        \
    }                                                                                            \
    static enum rawe_decode_result decode_##name_(void *to, const uint8_t *in, size_t len_bytes) \
    {                                                                                            \
        return rawe_##name_##_decode(to, in, __VA_ARGS__);                                       \
    }

/** Return how many of a packet's first `len_bytes` bytes belong to its header. */
static size_t head_bytes(size_t len_bytes)
{
    return len_bytes < RAWE_BATCH_HEADER_BYTES ? len_bytes : RAWE_BATCH_HEADER_BYTES;
}

CODEC(header, len_bytes)
CODEC(group_header, len_bytes)
CODEC(request, len_bytes)
CODEC(connect, len_bytes)
CODEC(ping, len_bytes)
CODEC(batch, head_bytes(len_bytes), len_bytes - head_bytes(len_bytes))
CODEC(group_batch, head_bytes(len_bytes), len_bytes - head_bytes(len_bytes))

enum { STRUCTURE_BYTES_MAX = RAWE_BATCH_HEADER_BYTES, PAYLOAD_BYTES_MAX = 5000 };

static const struct structure {
    void (*encode)(uint8_t *out, const void *from);
    enum rawe_decode_result (*decode)(void *to, const uint8_t *in, size_t len_bytes);
    const void *sample; /**< chosen to reveal misplaced bytes */
    const char *bytes;  /**< encoding of the sample; in headers, without the version */
    size_t len_bytes;
    size_t payload_bytes; /**< length of the sample's payload */
    /* Headers only: offset of version and type; the flags follow. */
    unsigned version_at, first_type, end_type, flags;
    size_t behind_bytes; /**< checksum after the payload, included in payload_bytes */
} structures[] = {
    {encode_header, decode_header,
     &(const struct rawe_header){UNIT_SAMPLE_HEADER, .payload_bytes = 0x0203},
     "\x02\x11\x12\x34\x89\xAB\xCD\xEF\xFF\xF0\x00\x01"
     "\xFF\xFF\xFF\xFE\x80\x00\x00\x01\x02\x03\x04\x05",
     RAWE_HEADER_BYTES, 0x0203, 0, RAWE_FRAME_DATA, RAWE_FRAME_TYPE_END, 0x77, 0},
    {encode_group_header, decode_group_header,
     &(const struct rawe_group_header){RAWE_GROUP_FLAG_ASK, 0x1234, 0x0203, 0x1122334455667788,
                                       0xFFFFFFFE, 0x00000203, 0},
     "\x0A\x01\x12\x34\x11\x22\x33\x44\x55\x66\x77\x88"
     "\xFF\xFF\xFF\xFE\x00\x00\x02\x03\x02\x03\x00\x00",
     RAWE_GROUP_HEADER_BYTES, 0x0203 + RAWE_CHECKSUM_BYTES, 0, RAWE_GROUP_DATA, RAWE_GROUP_DATA + 1,
     RAWE_GROUP_FLAGS_KNOWN, RAWE_CHECKSUM_BYTES},
    {encode_batch, decode_batch, &batch_sample,
     "\x00\x01\x12\x34\x00\x00\x00\x00\x80\x00\x00\x01\xF0\x10\x03\xE8\x00\x00\x00\x00"
     "\xFE\x28\x52\x57\x02\x11\x02\x5A\x89\xAB\xCD\xEF\xFF\xF0\x04\x05\xFF\xFF\xFF\xFE"
     "\x01\x02\x03\x04\x00\xAB\xCD\xEF\x00\x00\x00\x00\x00\x00\x00\x11\x22\x33\x05\x00",
     RAWE_BATCH_HEADER_BYTES, SAMPLE_BYTES, RAWE_BATCH_OFFSET_VERSION_TYPE, RAWE_FRAME_DATA,
     RAWE_FRAME_TYPE_END, 0x77, 0},
    {encode_batch, decode_batch, &put_sample,
     "\x00\x01\x12\x34\x00\x00\x00\x00\x80\x00\x00\x01\xF0\x10\x03\xE8\x00\x00\x00\x00"
     "\xFE\x28\x52\x57\x02\x11\x03\x00\x89\xAB\xCD\xEF\xFF\xF0\x04\x05\xFF\xFF\xFF\xFE"
     "\x01\x02\x03\x04\x11\x22\x33\x44\x55\x66\x77\x88\xFE\xDC\xBA\x98\x76\x54\x05\x00",
     RAWE_BATCH_HEADER_BYTES, SAMPLE_BYTES, RAWE_BATCH_OFFSET_VERSION_TYPE, RAWE_FRAME_DATA,
     RAWE_FRAME_TYPE_END, 0x77, 0},
    {encode_group_batch, decode_group_batch, &group_sample,
     "\x12\x34\x77\x88\x00\x00\x00\x00\x00\x00\x00\x00\xF0\x10\x03\xE8\x00\x00\x00\x00"
     "\xFE\x28\x52\x57\x0A\x01\x00\x00\x00\x00\x00\x00\x11\x22\x33\x44\x55\x66\x77\x88"
     "\xFF\xFF\xFF\xFE\x00\xAB\xCD\xEF\x05\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00",
     RAWE_BATCH_HEADER_BYTES, SAMPLE_BYTES, RAWE_BATCH_OFFSET_VERSION_TYPE, RAWE_GROUP_DATA,
     RAWE_GROUP_DATA + 1, RAWE_GROUP_FLAG_ASK | RAWE_GROUP_FLAG_LAST, 0},
    {encode_request, decode_request,
     &(const struct rawe_request){.operation = 0x01020304,
                                  .key = 0x1112131415161718,
                                  .atomic = RAWE_ATOMIC_XOR,
                                  .word_bytes = 8,
                                  .operand = 0x2122232425262728,
                                  .compare = 0x3132333435363738},
     "\x01\x02\x03\x04\x04\x08\x00\x00\x11\x12\x13\x14\x15\x16\x17\x18"
     "\x21\x22\x23\x24\x25\x26\x27\x28\x31\x32\x33\x34\x35\x36\x37\x38",
     RAWE_REQUEST_BYTES, 0, 0, 0, 0, 0, 0},
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
     RAWE_CONNECT_BYTES, 0, 0, 0, 0, 0, 0},
    {encode_ping, decode_ping,
     &(const struct rawe_ping){.key = 0x01020304, .port = 0x0506, .token = 0x1112131415161718},
     "\x01\x02\x03\x04\x05\x06\x00\x00\x11\x12\x13\x14\x15\x16\x17\x18", RAWE_PING_BYTES, 0, 0, 0,
     0, 0, 0},
};

#define STRUCTURES (sizeof(structures) / sizeof(structures[0]))

/** Memory for any of the structures. */
union decoded {
    struct rawe_header header;
    struct rawe_group_header group;
    struct rawe_batch batch;
    struct rawe_request request;
    struct rawe_connect connect;
    struct rawe_ping ping;
};

/** Decode from memory of exactly this length. */
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
        union decoded decoded;
        memcpy(expected, one->bytes, one->len_bytes);
        expected[one->version_at] |= one->end_type != 0 ? RAWE_FRAME_VERSION << 4 : 0;
        memset(bytes, 0xEE, one->len_bytes);
        memset(&decoded, 0xEE, sizeof(decoded));
        one->encode(bytes, one->sample);
        assert_memory_equal(bytes, expected, one->len_bytes);
        assert_int_equal(decode(one, &decoded, bytes, one->len_bytes + one->payload_bytes),
                         RAWE_DECODE_OK);
        memset(again, 0xEE, sizeof(again));
        one->encode(again, &decoded);
        assert_memory_equal(again, expected, one->len_bytes);
    }
}

TEST(rawe_decode__every_short_length)
{
    for (const struct structure *one = structures; one != structures + STRUCTURES; one++) {
        uint8_t bytes[STRUCTURE_BYTES_MAX + PAYLOAD_BYTES_MAX] = {0};
        union decoded decoded;
        /* With less data, a batch's header describes a shorter packet. */
        size_t whole_bytes = one->len_bytes + (one->version_at != 0 ? 0 : one->payload_bytes);
        one->encode(bytes, one->sample);
        for (size_t len_bytes = 0; len_bytes < whole_bytes; len_bytes++) {
            assert_int_equal(decode(one, &decoded, bytes, len_bytes),
                             len_bytes < one->len_bytes + one->behind_bytes ? RAWE_DECODE_SHORT
                                                                            : RAWE_DECODE_LENGTH);
        }
        /* A NIC's padding after a frame is not an error. */
        assert_true(one->end_type == 0 || one->version_at != 0 ||
                    decode(one, &decoded, bytes, whole_bytes + 100) == RAWE_DECODE_OK);
    }
}

/** Set a byte of the encoded sample, and decode it. */
static enum rawe_decode_result decode_with(const struct structure *one, size_t at, unsigned value)
{
    uint8_t bytes[STRUCTURE_BYTES_MAX + PAYLOAD_BYTES_MAX] = {0};
    union decoded decoded;
    one->encode(bytes, one->sample);
    bytes[at] = (uint8_t)value;
    return decode(one, &decoded, bytes, one->len_bytes + one->payload_bytes);
}

TEST(rawe_decode__every_version_type_and_flag)
{
    for (const struct structure *one = structures; one->end_type != 0; one++) {
        for (unsigned byte = 0; byte <= UINT8_MAX; byte++) {
            const unsigned type = byte & 0x0F;
            enum rawe_decode_result expected = RAWE_DECODE_OK;
            if (byte >> 4 != RAWE_FRAME_VERSION) {
                expected = RAWE_DECODE_VERSION;
            } else if (type < one->first_type || type >= one->end_type) {
                expected = RAWE_DECODE_TYPE;
            }
            assert_int_equal(decode_with(one, one->version_at, byte), expected);
            assert_int_equal(decode_with(one, one->version_at + 1, byte),
                             (byte & ~one->flags) == 0 ? RAWE_DECODE_OK : RAWE_DECODE_TYPE);
        }
        for (size_t at = 20; one->version_at != 0 && at < 24; at++) { /* the TCP option */
            assert_int_equal(decode_with(one, at, 0), RAWE_DECODE_VERSION);
        }
    }
}

TEST(rawe_fragment_encode__every_byte_in_its_place)
{
    static const struct {
        struct rawe_fragment fragment;
        const char *bytes;
        size_t len_bytes;
    } cases[] = {
        {{.kind = RAWE_FRAGMENT_MESSAGE, .tag = 0x42, .data_bytes = 0x1234},
         "\x01\x42\x12\x34",
         RAWE_FRAGMENT_MESSAGE_BYTES},
        {{.kind = RAWE_FRAGMENT_PART,
          .tag = 7,
          .data_bytes = 0x1234,
          .id = 0x89ABCDEF,
          .offset = 0x01020304,
          .total_bytes = 0x05060708},
         "\x02\x07\x12\x34\x89\xAB\xCD\xEF\x01\x02\x03\x04\x05\x06\x07\x08",
         RAWE_FRAGMENT_PART_BYTES},
        {{.kind = RAWE_FRAGMENT_PUT,
          .data_bytes = 9,
          .id = 0x89ABCDEF,
          .key = 0xF1F2F3F4F5F6F7F8,
          .offset = 0xE1E2E3E4E5E6E7E8},
         "\x03\x00\x00\x09\x89\xAB\xCD\xEF\xF1\xF2\xF3\xF4"
         "\xF5\xF6\xF7\xF8\xE1\xE2\xE3\xE4\xE5\xE6\xE7\xE8",
         RAWE_FRAGMENT_PUT_BYTES},
        {{.kind = 10}, "", 0}, /* no such kind */
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        uint8_t out[RAWE_FRAGMENT_BYTES_MAX];
        assert_int_equal(rawe_fragment_encode(out, &cases[i].fragment), cases[i].len_bytes);
        assert_memory_equal(out, cases[i].bytes, cases[i].len_bytes);
    }
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
        /* The data must be readable to its last byte, and the cursor must advance within it. */
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
    enum { DATA_BYTES = 5 };
    static const struct rawe_fragment samples[] = {
        {.kind = RAWE_FRAGMENT_MESSAGE, .tag = 3},
        {.kind = RAWE_FRAGMENT_VALIDATION, .offset = 3, .total_bytes = 8},
        {.kind = RAWE_FRAGMENT_BUNDLE, .id = 9, .total_bytes = 5},
        {.kind = RAWE_FRAGMENT_PART, .tag = 4, .id = 77, .offset = 95, .total_bytes = 100},
        {.kind = RAWE_FRAGMENT_PUT, .id = 88, .key = UINT64_MAX - 1, .offset = UINT64_MAX},
        {.kind = RAWE_FRAGMENT_GET, .id = 88, .key = 5, .offset = UINT64_MAX},
        {.kind = RAWE_FRAGMENT_ATOMIC, .id = 88, .key = 5, .offset = 7},
        {.kind = RAWE_FRAGMENT_REPLY, .tag = 9, .id = 88, .key = 5, .offset = 7},
        {.kind = RAWE_FRAGMENT_CONTROL, .key = 5},
    };
    for (size_t i = 0; i < sizeof(samples) / sizeof(samples[0]); i++) {
        struct rawe_fragment fragment = samples[i];
        fragment.data_bytes = DATA_BYTES;
        uint8_t bytes[RAWE_FRAGMENT_BYTES_MAX + 8] = {0};
        size_t header_bytes = rawe_fragment_encode(bytes, &fragment);
        size_t whole_bytes = header_bytes + DATA_BYTES;
        assert_int_equal(rawe_fragment_pad(header_bytes), header_bytes);
        assert_int_equal(rawe_fragment_pad(whole_bytes), header_bytes + 8);
        size_t used;
        for (size_t len_bytes = 0; len_bytes < whole_bytes; len_bytes++) {
            assert_int_equal(decode_fragment(bytes, len_bytes, &fragment, &used),
                             len_bytes < header_bytes ? RAWE_DECODE_SHORT : RAWE_DECODE_LENGTH);
        }
        assert_int_equal(decode_fragment(bytes, whole_bytes, &fragment, &used), RAWE_DECODE_OK);
        assert_int_equal(used, whole_bytes); /* the last fragment need not be padded */
        assert_int_equal(fragment.kind, samples[i].kind);
        assert_int_equal(fragment.data_bytes, DATA_BYTES);
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
                         kind >= 1 && kind <= 9 ? RAWE_DECODE_OK : RAWE_DECODE_TYPE);
    }
}

TEST(rawe_fragment_decode__segment_must_lie_in_its_message)
{
    static const struct {
        uint32_t offset, total_bytes;
        bool good;
    } cases[] = {/* In the last case, offset + length wraps to 7 in 32 bits. */
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
                 {UINT32_MAX, 7, false}};
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
        uint16_t payload_bytes;
        uint32_t total_bytes;
        bool fits;
    } cases[] = {{0, 0, true}, {10, 10, true}, {10, 11, true}, {10, 9, false}, {0, 9, false}};
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        uint8_t bytes[RAWE_GROUP_HEADER_BYTES + 10 + RAWE_CHECKSUM_BYTES] = {0};
        const size_t len_bytes =
            RAWE_GROUP_HEADER_BYTES + cases[i].payload_bytes + (size_t)RAWE_CHECKSUM_BYTES;
        struct rawe_group_header header = {.payload_bytes = cases[i].payload_bytes,
                                           .total_bytes = cases[i].total_bytes};
        rawe_group_header_encode(bytes, &header);
        assert_int_equal(decode(&structures[1], &header, bytes, len_bytes),
                         cases[i].fits ? RAWE_DECODE_OK : RAWE_DECODE_LENGTH);
        assert_int_not_equal(decode(&structures[1], &header, bytes, len_bytes - 1), RAWE_DECODE_OK);
    }
}

/** Encode a batch, and decode it followed by `data_bytes`. */
static enum rawe_decode_result pass(const struct rawe_batch *batch, size_t data_bytes,
                                    struct rawe_batch *decoded)
{
    uint8_t bytes[RAWE_BATCH_HEADER_BYTES];
    rawe_batch_encode(bytes, batch);
    return rawe_batch_decode(decoded, bytes, sizeof(bytes), data_bytes);
}

/** Each packet of a batch that was cut and merged decodes to the right frames. */
TEST(rawe_batch_decode__every_part_of_a_batch)
{
    const struct rawe_batch *const batches[] = {&batch_sample, &put_sample};
    for (unsigned which = 0; which < 2; which++) {
        for (uint32_t first = 0; first < 5; first++) {
            for (uint32_t frames = 1; first + frames <= 5; frames++) {
                struct rawe_batch packet = *batches[which];
                struct rawe_batch decoded;
                uint32_t end_bytes = (first + frames) * 1000;
                end_bytes = end_bytes < SAMPLE_BYTES ? end_bytes : SAMPLE_BYTES;
                packet.at_bytes = first * 1000;
                uint32_t data_bytes = end_bytes - packet.at_bytes;
                uint8_t bytes[RAWE_BATCH_HEADER_BYTES];
                rawe_batch_encode(bytes, &packet);
                assert_int_equal(bytes[6] << 8 | bytes[7], first * 1000); /* TCP sequence number */
                assert_int_equal(pass(&packet, data_bytes, &decoded), RAWE_DECODE_OK);
                assert_int_equal(decoded.header.payload_bytes, data_bytes);
                assert_int_equal(decoded.at_bytes, first * 1000);
                assert_int_equal(decoded.frames, frames);
                assert_int_equal(decoded.last, first + frames == 5);
                assert_int_equal(decoded.header.sequence, packet.header.sequence + first);
                assert_int_equal(decoded.fragment.data_bytes, data_bytes);
                assert_true(decoded.fragment.offset == packet.fragment.offset + first * 1000);
            }
        }
    }
}

TEST(rawe_batch_decode__a_single_frame)
{
    static const uint8_t zero[20] = {0};
    uint8_t out[RAWE_BATCH_HEADER_BYTES];
    struct rawe_batch decoded, probe = batch_sample;
    probe.header.type = RAWE_FRAME_PROBE;
    rawe_batch_encode(out, &probe);
    assert_int_equal(out[24], RAWE_FRAME_VERSION << 4 | RAWE_FRAME_PROBE);
    assert_int_equal(out[26] | out[27], 0);
    assert_memory_equal(out + 40, zero, sizeof(zero)); /* no fragment fields */
    assert_int_equal(pass(&probe, RAWE_CONNECT_BYTES, &decoded), RAWE_DECODE_OK);
    assert_int_equal(decoded.header.payload_bytes, RAWE_CONNECT_BYTES);
    assert_int_equal(decoded.header.sequence, probe.header.sequence);
    assert_int_equal(decoded.frames, 1);
    assert_true(decoded.last);
    assert_int_equal(pass(&probe, 0, &decoded), RAWE_DECODE_OK);
    probe.at_bytes = 1000;
    assert_int_equal(pass(&probe, RAWE_CONNECT_BYTES, &decoded), RAWE_DECODE_LENGTH);
}

TEST(rawe_batch_decode__kinds_of_fragment)
{
    for (unsigned kind = 0; kind <= UINT8_MAX; kind++) {
        struct rawe_batch decoded, batch = batch_sample;
        batch.fragment.kind = (uint8_t)kind;
        bool known = kind == RAWE_FRAGMENT_PART || kind == RAWE_FRAGMENT_PUT ||
                     kind == RAWE_FRAGMENT_VALIDATION || kind == RAWE_FRAGMENT_BUNDLE ||
                     kind == RAWE_FRAGMENT_REPLY;
        assert_int_equal(pass(&batch, SAMPLE_BYTES, &decoded),
                         known ? RAWE_DECODE_OK : RAWE_DECODE_TYPE);
    }
}

/** A packet is refused if and only if its frames would be refused one by one. */
TEST(rawe_batch_decode__lengths)
{
    enum { MOST = RAWE_BATCH_FRAMES_MAX };
    static const struct {
        uint8_t frames;
        uint16_t segment_bytes;
        uint32_t at_bytes, data_bytes;
        unsigned decoded_frames; /* 0: refused */
    } cases[] = {
        /* No data; a short frame before the last; one frame too many. */
        {5, 1000, 0, 0, 0},
        {5, 1000, 0, 999, 0},
        {5, 1000, 0, 3001, 0},
        {5, 1000, 0, 5001, 0},
        /* Starts inside a frame or beyond the batch; a last frame longer than a segment. */
        {5, 1000, 1500, 1000, 0},
        {5, 1000, 5000, 1000, 0},
        {5, 1000, 4000, 1001, 0},
        {5, 1000, UINT32_MAX - 295, 1000, 0},
        {5, 0, 0, 1000, 0},
        {0, 1000, 0, 1000, 0},
        {MOST + 1, 1000, 0, 1000, 0},
        {MOST, RAWE_BATCH_BYTES_MAX / MOST, 0, RAWE_BATCH_BYTES_MAX, MOST},
        {1, RAWE_BATCH_BYTES_MAX, 0, RAWE_BATCH_BYTES_MAX, 1},
        {1, RAWE_BATCH_BYTES_MAX, 0, 1, 1},
        /* The first case exceeds the longest batch. */
        {MOST, 1024, 0, 64 * 1024 - 1, 0},
        {MOST, 1024, 0, 63 * 1024, 63},
        {MOST, 1024, 62 * 1024, 1024, 1},
        {MOST, 1024, 62 * 1024, 2 * 1024, 0},
        {MOST, 1024, 63 * 1024, 1, 0}};
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct rawe_batch decoded, batch = batch_sample;
        batch.frames = cases[i].frames;
        batch.segment_bytes = cases[i].segment_bytes;
        batch.at_bytes = cases[i].at_bytes;
        bool fits = cases[i].decoded_frames != 0;
        assert_int_equal(pass(&batch, cases[i].data_bytes, &decoded),
                         fits ? RAWE_DECODE_OK : RAWE_DECODE_LENGTH);
        assert_true(!fits || decoded.frames == cases[i].decoded_frames);
    }
    struct rawe_batch decoded;
    assert_int_equal(pass(&batch_sample, UINT16_MAX + 1u, &decoded), RAWE_DECODE_SHORT);
}

TEST(rawe_batch_decode__parts_must_lie_in_their_message)
{
    static const uint8_t kinds[] = {RAWE_FRAGMENT_PART, RAWE_FRAGMENT_VALIDATION,
                                    RAWE_FRAGMENT_BUNDLE};
    static const struct {
        uint32_t at_bytes, data_bytes;
        uint64_t offset;
        uint32_t total_bytes;
        bool lies;
    } cases[] = {
        {0, SAMPLE_BYTES, 100, 100 + SAMPLE_BYTES, true},
        {0, SAMPLE_BYTES, 100, 99 + SAMPLE_BYTES, false},
        {0, SAMPLE_BYTES, 1ull << 32, UINT32_MAX, false}, /* not truncated to 32 bits */
        {3000, 1000, 0, 4000, true}, /* the packet's place counts, not the batch's */
        {3000, 1000, 0, 3999, false},
    };
    for (unsigned i = 0; i < sizeof(kinds); i++) {
        for (size_t k = 0; k < sizeof(cases) / sizeof(cases[0]); k++) {
            struct rawe_batch decoded, batch = batch_sample;
            batch.fragment.kind = kinds[i];
            batch.fragment.offset = cases[k].offset;
            batch.fragment.total_bytes = cases[k].total_bytes;
            batch.at_bytes = cases[k].at_bytes;
            assert_int_equal(pass(&batch, cases[k].data_bytes, &decoded),
                             cases[k].lies ? RAWE_DECODE_OK : RAWE_DECODE_LENGTH);
        }
    }
}

/** Encode group_sample, change a byte, and decode it as a packet at an offset. */
static enum rawe_decode_result pass_group(struct rawe_group_header *decoded, uint32_t at_bytes,
                                          size_t data_bytes, unsigned byte, uint8_t value)
{
    uint8_t bytes[RAWE_BATCH_HEADER_BYTES];
    rawe_group_batch_encode(bytes, &group_sample);
    rawe_put32(bytes + 4, at_bytes);
    bytes[byte] = value;
    return rawe_group_batch_decode(decoded, bytes, sizeof(bytes), data_bytes);
}

TEST(rawe_group_batch_decode__parts)
{
    static const struct {
        uint32_t at_bytes, data_bytes, sequence, frames;
        uint8_t flags; /* ASK belongs to the last frame */
    } cases[] = {
        {0, SAMPLE_BYTES, 0xFFFFFFFE, 5, RAWE_GROUP_FLAG_ASK},
        {0, 1000, 0xFFFFFFFE, 1, 0},
        {1000, 3000, 0xFFFFFFFF, 3, 0},
        {3000, 1321, 1, 2, RAWE_GROUP_FLAG_ASK},
        {4000, 321, 2, 1, RAWE_GROUP_FLAG_ASK},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct rawe_group_header wanted = group_sample, decoded;
        uint8_t expected[RAWE_BATCH_HEADER_BYTES], again[RAWE_BATCH_HEADER_BYTES];
        wanted.sequence = cases[i].sequence;
        wanted.payload_bytes = (uint16_t)cases[i].data_bytes;
        wanted.flags = cases[i].flags;
        assert_int_equal(pass_group(&decoded, cases[i].at_bytes, cases[i].data_bytes, 48, 5),
                         RAWE_DECODE_OK);
        assert_int_equal(decoded.payload_bytes, wanted.payload_bytes);
        rawe_group_batch_encode(expected, &wanted);
        rawe_group_batch_encode(again, &decoded);
        assert_memory_equal(again, expected, sizeof(expected));
        assert_int_equal(rawe_group_frames(&decoded), cases[i].frames);
    }
}

TEST(rawe_group_batch_decode__refuses)
{
    static const struct {
        uint32_t at_bytes, data_bytes;
        unsigned byte;
        uint8_t value;
        enum rawe_decode_result why;
    } cases[] = {
        {0, 0, 48, 5, RAWE_DECODE_LENGTH},
        {500, 1000, 48, 5, RAWE_DECODE_LENGTH},  /* not at the start of a frame */
        {0, 1500, 48, 5, RAWE_DECODE_LENGTH},    /* a short frame that is not the last */
        {5000, 1000, 48, 5, RAWE_DECODE_LENGTH}, /* beyond the batch */
        {0, 4001, 48, 4, RAWE_DECODE_LENGTH},
        {0, SAMPLE_BYTES, 48, 65, RAWE_DECODE_LENGTH},
        {0, SAMPLE_BYTES, 45, 0, RAWE_DECODE_OK},
        {0, 70000, 48, 5, RAWE_DECODE_SHORT},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct rawe_group_header decoded;
        assert_int_equal(pass_group(&decoded, cases[i].at_bytes, cases[i].data_bytes, cases[i].byte,
                                    cases[i].value),
                         cases[i].why);
    }
}
