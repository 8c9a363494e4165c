/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Tests of the wire format: batch headers.
 */
#include "unit_wire.h"

/** Five frames from the middle of a message. */
static const struct rawe_batch sample = {
    .header = {UNIT_SAMPLE_HEADER},
    .fragment =
        {
            .kind = RAWE_FRAGMENT_PART,
            .tag = 0x5A,
            .id = 0x01020304,
            .total_bytes = 0x00ABCDEF,
            .offset = 0x00112233,
        },
    .segment_bytes = 1000,
    .frames = 5,
};

/** The same of those frames. */
#define SAMPLE_BYTES 4321u

static struct rawe_batch sample_put(void)
{
    struct rawe_batch put = sample;
    put.fragment.kind = RAWE_FRAGMENT_PUT;
    put.fragment.tag = 0;
    put.fragment.total_bytes = 0;
    put.fragment.key = 0x1122334455667788;
    put.fragment.offset = 0xFEDCBA987654;
    return put;
}

/** Decode from memory of exactly that length. */
static enum rawe_decode_result decode_bytes(const uint8_t *bytes, size_t len_bytes,
                                            size_t data_bytes, struct rawe_batch *batch)
{
    uint8_t *copy = unit_exactly(bytes, len_bytes);
    memset(batch, 0xEE, sizeof(*batch));
    enum rawe_decode_result result = rawe_batch_decode(batch, copy, len_bytes, data_bytes);
    free(copy);
    return result;
}

/** Encode a batch, and decode it with `data_bytes` behind it. */
static enum rawe_decode_result pass(const struct rawe_batch *batch, size_t data_bytes,
                                    struct rawe_batch *decoded)
{
    uint8_t bytes[RAWE_BATCH_HEADER_BYTES];
    rawe_batch_encode(bytes, batch);
    return decode_bytes(bytes, sizeof(bytes), data_bytes, decoded);
}

static void assert_refused(const struct rawe_batch *batch, size_t data_bytes,
                           enum rawe_decode_result why)
{
    struct rawe_batch decoded;
    assert_int_equal(pass(batch, data_bytes, &decoded), why);
}

TEST(rawe_batch_encode__every_byte_in_its_place)
{
    enum { BULK = RAWE_WIRE_VERSION << 4 | RAWE_FRAME_BULK };
    static const uint8_t expected[RAWE_BATCH_HEADER_BYTES] = {
        0x00, 0x01, 0x12, 0x34, 0x00, 0x00, 0x07, 0xD0, 0x80, 0x00, 0x00, 0x01, 0xF0, 0x10, 0x03,
        0xE8, 0x00, 0x00, 0x00, 0x00, 0xFE, 0x28, 0x52, 0x57, BULK, 0x11, 0x02, 0x5A, 0x89, 0xAB,
        0xCD, 0xEF, 0xFF, 0xF0, 0x04, 0x05, 0xFF, 0xFF, 0xFF, 0xFE, 0x01, 0x02, 0x03, 0x04, 0x00,
        0xAB, 0xCD, 0xEF, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x11, 0x22, 0x33, 0x05, 0x00,
    };
    uint8_t out[RAWE_BATCH_HEADER_BYTES];
    struct rawe_batch batch = sample;
    batch.at_bytes = 2000;
    rawe_batch_encode(out, &batch);
    assert_memory_equal(out, expected, sizeof(expected));
}

TEST(rawe_batch_encode__a_put)
{
    static const uint8_t expected[] = {
        0x01, 0x02, 0x03, 0x04, 0x11, 0x22, 0x33, 0x44, 0x55, 0x66,
        0x77, 0x88, 0xFE, 0xDC, 0xBA, 0x98, 0x76, 0x54, 0x05, 0x00,
    };
    uint8_t out[RAWE_BATCH_HEADER_BYTES];
    const struct rawe_batch put = sample_put();
    rawe_batch_encode(out, &put);
    assert_int_equal(out[26], RAWE_FRAGMENT_PUT);
    assert_memory_equal(out + 40, expected, sizeof(expected));
}

TEST(rawe_batch_encode__a_single_frame_says_nothing_of_fragments)
{
    static const uint8_t zero[20] = {0};
    uint8_t out[RAWE_BATCH_HEADER_BYTES];
    struct rawe_batch probe = sample;
    probe.header.type = RAWE_FRAME_PROBE;
    rawe_batch_encode(out, &probe);
    assert_int_equal(out[24], RAWE_WIRE_VERSION << 4 | RAWE_FRAME_PROBE);
    assert_int_equal(out[26] | out[27], 0);
    assert_memory_equal(out + 40, zero, sizeof(zero));
}

TEST(rawe_batch_decode__a_whole_batch)
{
    struct rawe_batch batch;
    assert_int_equal(pass(&sample, SAMPLE_BYTES, &batch), RAWE_DECODE_OK);
    assert_int_equal(batch.header.type, sample.header.type);
    assert_int_equal(batch.header.flags, sample.header.flags);
    assert_int_equal(batch.header.port, sample.header.port);
    assert_int_equal(batch.header.key, sample.header.key);
    assert_int_equal(batch.header.connection_id, sample.header.connection_id);
    assert_int_equal(batch.header.sequence, sample.header.sequence);
    assert_int_equal(batch.header.acknowledgement, sample.header.acknowledgement);
    assert_int_equal(batch.header.credit, sample.header.credit);
    assert_int_equal(batch.header.payload_bytes, SAMPLE_BYTES);
    assert_int_equal(batch.fragment.kind, sample.fragment.kind);
    assert_int_equal(batch.fragment.tag, sample.fragment.tag);
    assert_int_equal(batch.fragment.id, sample.fragment.id);
    assert_int_equal(batch.fragment.total_bytes, sample.fragment.total_bytes);
    assert_true(batch.fragment.offset == sample.fragment.offset);
    assert_int_equal(batch.fragment.data_bytes, SAMPLE_BYTES);
    assert_int_equal(batch.segment_bytes, sample.segment_bytes);
    assert_int_equal(batch.at_bytes, 0);
    assert_int_equal(batch.frames, 5);
    assert_true(batch.last);
}

TEST(rawe_batch_decode__a_put)
{
    const struct rawe_batch put = sample_put();
    struct rawe_batch batch;
    assert_int_equal(pass(&put, SAMPLE_BYTES, &batch), RAWE_DECODE_OK);
    assert_int_equal(batch.fragment.kind, RAWE_FRAGMENT_PUT);
    assert_int_equal(batch.fragment.id, put.fragment.id);
    assert_true(batch.fragment.key == put.fragment.key);
    assert_true(batch.fragment.offset == put.fragment.offset);
}

/** However a batch is cut and merged, each packet's frames are where they were. */
TEST(rawe_batch_decode__every_part_of_a_batch)
{
    const struct rawe_batch put = sample_put();
    const struct rawe_batch *const batches[] = {&sample, &put};
    for (unsigned which = 0; which < 2; which++) {
        for (uint32_t first = 0; first < 5; first++) {
            for (uint32_t frames = 1; first + frames <= 5; frames++) {
                struct rawe_batch packet = *batches[which];
                struct rawe_batch decoded;
                uint32_t end_bytes = (first + frames) * 1000;
                end_bytes = end_bytes < SAMPLE_BYTES ? end_bytes : SAMPLE_BYTES;
                packet.at_bytes = first * 1000;
                uint32_t data_bytes = end_bytes - packet.at_bytes;
                assert_int_equal(pass(&packet, data_bytes, &decoded), RAWE_DECODE_OK);
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

TEST(rawe_batch_decode__the_largest_batches)
{
    struct rawe_batch batch = sample;
    struct rawe_batch decoded;
    batch.frames = RAWE_BATCH_FRAMES_MAX;
    batch.segment_bytes = RAWE_BATCH_BYTES_MAX / RAWE_BATCH_FRAMES_MAX;
    assert_int_equal(pass(&batch, RAWE_BATCH_BYTES_MAX, &decoded), RAWE_DECODE_OK);
    assert_int_equal(decoded.frames, RAWE_BATCH_FRAMES_MAX);
    batch.frames = 1;
    batch.segment_bytes = RAWE_BATCH_BYTES_MAX;
    assert_int_equal(pass(&batch, RAWE_BATCH_BYTES_MAX, &decoded), RAWE_DECODE_OK);
    assert_int_equal(pass(&batch, 1, &decoded), RAWE_DECODE_OK);
}

TEST(rawe_batch_decode__a_single_frame)
{
    struct rawe_batch decoded;
    struct rawe_batch probe = sample;
    probe.header.type = RAWE_FRAME_PROBE;
    assert_int_equal(pass(&probe, RAWE_CONNECT_BYTES, &decoded), RAWE_DECODE_OK);
    assert_int_equal(decoded.header.payload_bytes, RAWE_CONNECT_BYTES);
    assert_int_equal(decoded.header.sequence, probe.header.sequence);
    assert_int_equal(decoded.frames, 1);
    assert_true(decoded.last);
    assert_int_equal(pass(&probe, 0, &decoded), RAWE_DECODE_OK);
    probe.at_bytes = 1000;
    assert_refused(&probe, RAWE_CONNECT_BYTES, RAWE_DECODE_LENGTH);
}

TEST(rawe_batch_decode__every_short_length)
{
    uint8_t bytes[RAWE_BATCH_HEADER_BYTES];
    struct rawe_batch batch;
    rawe_batch_encode(bytes, &sample);
    for (size_t len_bytes = 0; len_bytes < sizeof(bytes); len_bytes++) {
        assert_int_equal(decode_bytes(bytes, len_bytes, SAMPLE_BYTES, &batch), RAWE_DECODE_SHORT);
    }
    assert_int_equal(decode_bytes(bytes, sizeof(bytes), UINT16_MAX + 1u, &batch),
                     RAWE_DECODE_SHORT);
}

TEST(rawe_batch_decode__every_version_type_and_option)
{
    uint8_t bytes[RAWE_BATCH_HEADER_BYTES];
    struct rawe_batch batch;
    rawe_batch_encode(bytes, &sample);
    for (unsigned byte = 0; byte <= UINT8_MAX; byte++) {
        unsigned type = byte & 0x0F;
        bytes[RAWE_BATCH_OFFSET_VERSION_TYPE] = (uint8_t)byte;
        enum rawe_decode_result expected = RAWE_DECODE_OK;
        if (byte >> 4 != RAWE_WIRE_VERSION) {
            expected = RAWE_DECODE_VERSION;
        } else if (type == 0 || type >= RAWE_FRAME_TYPE_END) {
            expected = RAWE_DECODE_TYPE;
        }
        assert_int_equal(decode_bytes(bytes, sizeof(bytes), SAMPLE_BYTES, &batch), expected);
    }
    rawe_batch_encode(bytes, &sample);
    for (size_t at = 20; at < 24; at++) {
        bytes[at] ^= 1;
        assert_int_equal(decode_bytes(bytes, sizeof(bytes), SAMPLE_BYTES, &batch),
                         RAWE_DECODE_VERSION);
        bytes[at] ^= 1;
    }
}

TEST(rawe_batch_decode__unknown_flags_are_refused)
{
    for (unsigned bit = 0; bit < 8; bit++) {
        struct rawe_batch batch = sample;
        struct rawe_batch decoded;
        batch.header.flags = (uint8_t)(1u << bit);
        bool known = (batch.header.flags & RAWE_FLAGS_KNOWN) != 0;
        assert_int_equal(pass(&batch, SAMPLE_BYTES, &decoded),
                         known ? RAWE_DECODE_OK : RAWE_DECODE_TYPE);
    }
}

TEST(rawe_batch_decode__kinds_of_fragment)
{
    for (unsigned kind = 0; kind <= UINT8_MAX; kind++) {
        struct rawe_batch batch = sample;
        struct rawe_batch decoded;
        batch.fragment.kind = (uint8_t)kind;
        bool known = kind == RAWE_FRAGMENT_PART || kind == RAWE_FRAGMENT_PUT ||
                     kind == RAWE_FRAGMENT_VALIDATION || kind == RAWE_FRAGMENT_BUNDLE ||
                     kind == RAWE_FRAGMENT_REPLY;
        assert_int_equal(pass(&batch, SAMPLE_BYTES, &decoded),
                         known ? RAWE_DECODE_OK : RAWE_DECODE_TYPE);
    }
}

TEST(rawe_batch_decode__lengths_that_do_not_add_up)
{
    struct rawe_batch batch = sample;
    assert_refused(&batch, 0, RAWE_DECODE_LENGTH);
    assert_refused(&batch, 999, RAWE_DECODE_LENGTH);  /* a short frame that is not the last */
    assert_refused(&batch, 3001, RAWE_DECODE_LENGTH); /* the same behind others */
    assert_refused(&batch, 5001, RAWE_DECODE_LENGTH); /* more frames than there are */
    batch.at_bytes = 1500;
    assert_refused(&batch, 1000, RAWE_DECODE_LENGTH);
    batch.at_bytes = 5000;
    assert_refused(&batch, 1000, RAWE_DECODE_LENGTH);
    batch.at_bytes = 4000;
    assert_refused(&batch, 1001, RAWE_DECODE_LENGTH);
    batch.at_bytes = UINT32_MAX - 295; /* a multiple of the segments' length */
    assert_int_equal(batch.at_bytes % 1000, 0);
    assert_refused(&batch, 1000, RAWE_DECODE_LENGTH);
    batch = sample;
    batch.segment_bytes = 0;
    assert_refused(&batch, 1000, RAWE_DECODE_LENGTH);
    batch = sample;
    batch.frames = 0;
    assert_refused(&batch, 1000, RAWE_DECODE_LENGTH);
    batch.frames = RAWE_BATCH_FRAMES_MAX + 1;
    assert_refused(&batch, 1000, RAWE_DECODE_LENGTH);
}

/** A packet is refused as a whole exactly when its frames are refused one by one. */
TEST(rawe_batch_decode__longer_than_a_batch_may_be)
{
    struct rawe_batch batch = sample;
    struct rawe_batch decoded;
    batch.frames = RAWE_BATCH_FRAMES_MAX;
    batch.segment_bytes = 1024;
    assert_refused(&batch, 64 * 1024 - 1, RAWE_DECODE_LENGTH);
    assert_int_equal(pass(&batch, 63 * 1024, &decoded), RAWE_DECODE_OK);
    batch.at_bytes = 62 * 1024;
    assert_int_equal(pass(&batch, 1024, &decoded), RAWE_DECODE_OK);
    assert_refused(&batch, 2 * 1024, RAWE_DECODE_LENGTH);
    batch.at_bytes = 63 * 1024;
    assert_refused(&batch, 1, RAWE_DECODE_LENGTH);
}

TEST(rawe_batch_decode__parts_must_lie_in_their_message)
{
    static const uint8_t kinds[] = {RAWE_FRAGMENT_PART, RAWE_FRAGMENT_VALIDATION,
                                    RAWE_FRAGMENT_BUNDLE};
    for (unsigned i = 0; i < sizeof(kinds); i++) {
        struct rawe_batch batch = sample;
        struct rawe_batch decoded;
        batch.fragment.kind = kinds[i];
        batch.fragment.offset = 100;
        batch.fragment.total_bytes = 100 + SAMPLE_BYTES;
        assert_int_equal(pass(&batch, SAMPLE_BYTES, &decoded), RAWE_DECODE_OK);
        batch.fragment.total_bytes--;
        assert_refused(&batch, SAMPLE_BYTES, RAWE_DECODE_LENGTH);
        batch.fragment.offset = 1ull << 32; /* not cut off to 32 bits */
        batch.fragment.total_bytes = UINT32_MAX;
        assert_refused(&batch, SAMPLE_BYTES, RAWE_DECODE_LENGTH);
        batch.fragment.offset = 0; /* the packet's place counts, not the batch's */
        batch.fragment.total_bytes = 4000;
        batch.at_bytes = 3000;
        assert_int_equal(pass(&batch, 1000, &decoded), RAWE_DECODE_OK);
        batch.fragment.total_bytes = 3999;
        assert_refused(&batch, 1000, RAWE_DECODE_LENGTH);
    }
}

/** Five frames of a group. */
static const struct rawe_group_header group_sample = {
    .type = RAWE_GROUP_DATA,
    .flags = RAWE_GROUP_FLAG_ASK,
    .sender = 0x1234,
    .key = 0x89ABCDEF,
    .id = 0x1122334455667788,
    .sequence = 0xFFFFFFFE,
    .payload_bytes = SAMPLE_BYTES,
    .acked_root = 0x0405,
    .acknowledgement = 0x80000001,
    .total_bytes = 0x00ABCDEF,
    .segment_bytes = 1000,
};

/** Encode that, change a byte, and decode it as a packet at an offset. */
static enum rawe_decode_result pass_group(struct rawe_group_header *decoded, uint32_t at_bytes,
                                          size_t data_bytes, unsigned byte, uint8_t value)
{
    uint8_t bytes[RAWE_BATCH_HEADER_BYTES];
    rawe_group_batch_encode(bytes, &group_sample);
    rawe_put32(bytes + 4, at_bytes);
    bytes[byte] = value;
    uint8_t *copy = unit_exactly(bytes, sizeof(bytes));
    enum rawe_decode_result result =
        rawe_group_batch_decode(decoded, copy, sizeof(bytes), data_bytes);
    free(copy);
    return result;
}

TEST(rawe_group_batch_encode__every_byte_in_its_place)
{
    enum { DATA = RAWE_WIRE_VERSION << 4 | RAWE_GROUP_DATA };
    static const uint8_t expected[RAWE_BATCH_HEADER_BYTES] = {
        0x12, 0x34, 0xCD, 0xEF, 0x00, 0x00, 0x00, 0x00, 0x80, 0x00, 0x00, 0x01, 0xF0, 0x10, 0x03,
        0xE8, 0x00, 0x00, 0x00, 0x00, 0xFE, 0x28, 0x52, 0x57, DATA, 0x01, 0x04, 0x05, 0x89, 0xAB,
        0xCD, 0xEF, 0x11, 0x22, 0x33, 0x44, 0x55, 0x66, 0x77, 0x88, 0xFF, 0xFF, 0xFF, 0xFE, 0x00,
        0xAB, 0xCD, 0xEF, 0x05, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
    };
    uint8_t out[RAWE_BATCH_HEADER_BYTES];
    rawe_group_batch_encode(out, &group_sample);
    assert_memory_equal(out, expected, sizeof(expected));
}

TEST(rawe_group_batch_decode__parts)
{
    static const struct {
        uint32_t at_bytes, data_bytes, sequence, frames;
        uint8_t flags; /* ASK is the last frame's */
    } cases[] = {
        {0, SAMPLE_BYTES, 0xFFFFFFFE, 5, RAWE_GROUP_FLAG_ASK},
        {0, 1000, 0xFFFFFFFE, 1, 0},
        {1000, 3000, 0xFFFFFFFF, 3, 0},
        {3000, 1321, 1, 2, RAWE_GROUP_FLAG_ASK},
        {4000, 321, 2, 1, RAWE_GROUP_FLAG_ASK},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct rawe_group_header wanted = group_sample, decoded;
        wanted.sequence = cases[i].sequence;
        wanted.payload_bytes = (uint16_t)cases[i].data_bytes;
        wanted.flags = cases[i].flags;
        assert_int_equal(pass_group(&decoded, cases[i].at_bytes, cases[i].data_bytes, 48, 5),
                         RAWE_DECODE_OK);
        assert_int_equal(decoded.type, wanted.type);
        assert_int_equal(decoded.flags, wanted.flags);
        assert_int_equal(decoded.sender, wanted.sender);
        assert_int_equal(decoded.key, wanted.key);
        assert_int_equal(decoded.id, wanted.id);
        assert_int_equal(decoded.sequence, wanted.sequence);
        assert_int_equal(decoded.payload_bytes, wanted.payload_bytes);
        assert_int_equal(decoded.acked_root, wanted.acked_root);
        assert_int_equal(decoded.acknowledgement, wanted.acknowledgement);
        assert_int_equal(decoded.total_bytes, wanted.total_bytes);
        assert_int_equal(decoded.segment_bytes, wanted.segment_bytes);
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
        {500, 1000, 48, 5, RAWE_DECODE_LENGTH},  /* not at a frame */
        {0, 1500, 48, 5, RAWE_DECODE_LENGTH},    /* a short frame that is not the last */
        {5000, 1000, 48, 5, RAWE_DECODE_LENGTH}, /* beyond the batch */
        {0, 4001, 48, 4, RAWE_DECODE_LENGTH},
        {0, SAMPLE_BYTES, 48, 65, RAWE_DECODE_LENGTH},
        {0, SAMPLE_BYTES, 45, 0, RAWE_DECODE_OK},
        {0, 70000, 48, 5, RAWE_DECODE_SHORT},
        {0, SAMPLE_BYTES, 23, 0x58, RAWE_DECODE_VERSION},
        {0, SAMPLE_BYTES, 24, RAWE_WIRE_VERSION << 4 | RAWE_GROUP_HEARTBEAT, RAWE_DECODE_TYPE},
        {0, SAMPLE_BYTES, 24, RAWE_WIRE_VERSION << 4 | RAWE_FRAME_BULK, RAWE_DECODE_TYPE},
        {0, SAMPLE_BYTES, 25, RAWE_GROUP_FLAG_SHARED, RAWE_DECODE_TYPE},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct rawe_group_header decoded;
        assert_int_equal(pass_group(&decoded, cases[i].at_bytes, cases[i].data_bytes, cases[i].byte,
                                    cases[i].value),
                         cases[i].why);
    }
    struct rawe_group_header decoded;
    assert_int_equal(rawe_group_batch_decode(&decoded, (const uint8_t[1]){0}, 1, 1),
                     RAWE_DECODE_SHORT);
}
