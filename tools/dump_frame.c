/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * One rawe frame, or packet of a batch, as one line of text, decoded with the protocol engine's own
 * decoder. Keys and tokens are shortened: who has a whole one can talk to the process.
 */
#include "dump_frame.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/rawe_crc32c.h"
#include "base/rawe_wire.h"

/** Header, longest payload, checksum. */
#define FRAME_BYTES_MAX (RAWE_HEADER_BYTES + UINT16_MAX + RAWE_CHECKSUM_BYTES)

/** Text under construction; what does not fit is left out. */
struct text {
    char *at;
    size_t left_bytes;
};

static void add(struct text *text, const char *format, ...) __attribute__((format(printf, 2, 3)));

static void add(struct text *text, const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    int length = vsnprintf(text->at, text->left_bytes, format, arguments);
    va_end(arguments);
    size_t used = length < 0 ? 0 : (size_t)length;
    if (used >= text->left_bytes) {
        used = text->left_bytes == 0 ? 0 : text->left_bytes - 1;
    }
    text->at += used;
    text->left_bytes -= used;
}

static const char *const type_names[RAWE_FRAME_TYPE_END] = {
    [RAWE_FRAME_DATA] = "DATA",   [RAWE_FRAME_BULK] = "BULK",       [RAWE_FRAME_ACK] = "ACK",
    [RAWE_FRAME_PROBE] = "PROBE", [RAWE_FRAME_CONNECT] = "CONNECT", [RAWE_FRAME_CLOSE] = "CLOSE",
    [RAWE_FRAME_PING] = "PING",   [RAWE_FRAME_PONG] = "PONG",       [RAWE_FRAME_SLICE] = "SLICE",
};

struct flag {
    uint8_t flag;
    const char *name;
};

#define FLAGS 7u

static void add_flags(struct text *text, uint8_t flags, const struct flag names[FLAGS])
{
    const char *separator = " flags=";

    for (size_t i = 0; i < FLAGS; i++) {
        if ((flags & names[i].flag) != 0) {
            add(text, "%s%s", separator, names[i].name);
            separator = ",";
        }
    }
}

static void add_range(struct text *text, const char *name, uint32_t first, unsigned count)
{
    add(text, " %s=%" PRIu32, name, first);
    if (count > 1) {
        add(text, "-%" PRIu32, first + count - 1);
    }
}

/** `frames` from the header's sequence number on. */
static void add_header(struct text *text, const struct rawe_header *header, unsigned frames)
{
    add(text, "%-7s port=%04x key=%04x.. conn=%" PRIu32 ".%" PRIu32, type_names[header->type],
        header->port, header->key >> 16, header->connection_id & 0xFFFFF,
        header->connection_id >> 20);
    if (header->type <= RAWE_FRAME_BULK || header->type == RAWE_FRAME_PROBE ||
        (header->flags & RAWE_FLAG_PROBE_ANSWER) != 0) {
        add_range(text, "seq", header->sequence, frames);
    }
    if (header->type != RAWE_FRAME_PING && header->type != RAWE_FRAME_PONG) {
        add(text, " ack=%" PRIu32 " credit=%u", header->acknowledgement, header->credit);
    }
    add(text, " len=%u", header->payload_bytes);
    add_flags(text, header->flags,
              (const struct flag[FLAGS]){
                  {RAWE_FLAG_ACK_NOW, "ACK_NOW"},
                  {RAWE_FLAG_PROBE_ANSWER, "PROBE_ANSWER"},
                  {RAWE_FLAG_REPLY, "REPLY"},
                  {RAWE_FLAG_CHECKSUM, "CHECKSUM"},
                  {RAWE_FLAG_RESENT, header->type == RAWE_FRAME_ACK ? "REFUSED" : "RESENT"},
                  {RAWE_FLAG_DUPLICATE, "DUPLICATE"},
                  {RAWE_FLAG_SERVICED, header->type == RAWE_FRAME_PONG   ? "SERVICED"
                                       : header->type == RAWE_FRAME_BULK ? "MORE"
                                                                         : "FINALIZING"},
              });
}

static void add_fragment(struct text *text, const struct rawe_fragment *fragment)
{
    switch (fragment->kind) {
    case RAWE_FRAGMENT_MESSAGE:
        add(text, " message tag=%u bytes=%u", fragment->tag, fragment->data_bytes);
        break;
    case RAWE_FRAGMENT_VALIDATION:
        add(text, " validation at=%" PRIu64 " bytes=%u of=%" PRIu32, fragment->offset,
            fragment->data_bytes, fragment->total_bytes);
        break;
    case RAWE_FRAGMENT_PART:
    case RAWE_FRAGMENT_BUNDLE:
        add(text, " %s tag=%u message=%" PRIu32 " at=%" PRIu64 " bytes=%u of=%" PRIu32,
            fragment->kind == RAWE_FRAGMENT_BUNDLE ? "bundle" : "part", fragment->tag, fragment->id,
            fragment->offset, fragment->data_bytes, fragment->total_bytes);
        break;
    case RAWE_FRAGMENT_REPLY:
        add(text, " reply operation=%" PRIu32 " key=%04" PRIx64 ".. at=%" PRIu64 " bytes=%u%s",
            fragment->id, fragment->key >> 48, fragment->offset, fragment->data_bytes,
            fragment->tag != RAWE_REFUSAL_NONE ? " refused" : "");
        break;
    default:
        add(text, " %s handle=%" PRIu32 " key=%04" PRIx64 ".. at=%" PRIu64 " bytes=%u",
            fragment->kind == RAWE_FRAGMENT_PUT   ? "put"
            : fragment->kind == RAWE_FRAGMENT_GET ? "get"
                                                  : "atomic",
            fragment->id, fragment->key >> 48, fragment->offset, fragment->data_bytes);
        break;
    }
}

/** The fragments of a data frame, as far as their headers have been captured. */
static void add_fragments(struct text *text, const uint8_t *payload, size_t payload_bytes,
                          size_t captured_bytes)
{
    const uint8_t *cursor = payload;
    const uint8_t *end = payload + payload_bytes;

    while (cursor != end) {
        size_t at = (size_t)(cursor - payload);
        if (captured_bytes < payload_bytes &&
            (at + RAWE_FRAGMENT_MESSAGE_BYTES > captured_bytes ||
             at + rawe_fragment_header_bytes(*cursor) > captured_bytes)) {
            add(text, " (the capture ends here)");
            return;
        }
        struct rawe_fragment fragment;
        if (rawe_fragment_decode(&fragment, &cursor, end) != RAWE_DECODE_OK) {
            add(text, " MALFORMED: fragment at %zu is unknown or longer than the frame", at);
            return;
        }
        add_fragment(text, &fragment);
    }
}

/** The frames that a bitmap names, whose first bit is for frame `base`, as ranges. */
static void add_bitmap(struct text *text, const char *name, uint32_t base, const uint8_t *bitmap,
                       size_t bitmap_bytes)
{
    const char *separator = "=";

    for (size_t bit = 0; bit < bitmap_bytes * 8; bit++) {
        size_t first = bit;
        while (bit < bitmap_bytes * 8 && (bitmap[bit / 8] >> (bit % 8) & 1) != 0) {
            bit++;
        }
        if (bit == first) {
            continue;
        }
        add(text, "%s%s%" PRIu32, *separator == '=' ? name : "", separator, base + (uint32_t)first);
        if (bit > first + 1) {
            add(text, "-%" PRIu32, base + (uint32_t)bit - 1);
        }
        separator = ",";
    }
}

static void add_connect(struct text *text, const uint8_t *payload, size_t payload_bytes)
{
    struct rawe_connect connect;

    if (rawe_connect_decode(&connect, payload, payload_bytes) != RAWE_DECODE_OK) {
        add(text, " MALFORMED: identity cut short");
        return;
    }
    add(text,
        " from rank=%" PRIu32 " job=%08" PRIx32 " port=%04x key=%04x.. conn=%" PRIu32 ".%" PRIu32
        " lane=%s choice=%u payload_max=%" PRIu32 " incarnation=%" PRIu64,
        connect.vpid, connect.jobid, connect.port, connect.key >> 16,
        connect.connection_id & 0xFFFFF, connect.connection_id >> 20,
        connect.lane == 0 ? "express" : "bulk", connect.choice, connect.payload_max_bytes,
        connect.incarnation);
}

static void add_ping(struct text *text, const uint8_t *payload, size_t payload_bytes)
{
    struct rawe_ping ping;

    if (rawe_ping_decode(&ping, payload, payload_bytes) != RAWE_DECODE_OK) {
        add(text, " MALFORMED: cut short");
        return;
    }
    add(text, " answer_to port=%04x key=%04x.. token=%06" PRIx64 "..", ping.port, ping.key >> 16,
        ping.token >> 40);
}

static void add_payload(struct text *text, const struct rawe_header *header, const uint8_t *payload,
                        size_t captured_bytes)
{
    if (header->type <= RAWE_FRAME_BULK) {
        add_fragments(text, payload, header->payload_bytes, captured_bytes);
        return;
    }
    size_t bytes = header->payload_bytes < captured_bytes ? header->payload_bytes : captured_bytes;
    switch (header->type) {
    case RAWE_FRAME_ACK:
        add_bitmap(text, " sack", header->acknowledgement + 1, payload,
                   bytes < RAWE_SACK_BYTES_MAX ? bytes : RAWE_SACK_BYTES_MAX);
        break;
    case RAWE_FRAME_PROBE:
    case RAWE_FRAME_CONNECT:
        add_connect(text, payload, bytes);
        break;
    case RAWE_FRAME_PING:
    case RAWE_FRAME_PONG:
        add_ping(text, payload, bytes);
        break;
    default:
        break;
    }
}

static void add_checksum(struct text *text, const uint8_t *in, size_t captured_bytes,
                         size_t covered_bytes)
{
    if (captured_bytes < covered_bytes + RAWE_CHECKSUM_BYTES) {
        return;
    }
    bool right = rawe_checksum_decode(in + covered_bytes) == rawe_crc32c(0, in, covered_bytes);
    add(text, right ? " checksum=right" : " checksum=WRONG");
}

static const char *why_malformed(enum rawe_decode_result result)
{
    switch (result) {
    case RAWE_DECODE_SHORT:
        return "shorter than a header";
    case RAWE_DECODE_VERSION:
        return "another wire version";
    case RAWE_DECODE_TYPE:
        return "unknown type or flags";
    default:
        return "payload longer than the frame";
    }
}

/** What `in` has of `len_bytes`, the rest zero: the decoders trust that the bytes are there. */
static const uint8_t *complete(const uint8_t *in, size_t captured_bytes, size_t len_bytes)
{
    static uint8_t whole[FRAME_BYTES_MAX];

    memcpy(whole, in, captured_bytes);
    memset(whole + captured_bytes, 0, len_bytes - captured_bytes);
    return whole;
}

static size_t at_most(size_t bytes, size_t limit_bytes)
{
    return bytes < limit_bytes ? bytes : limit_bytes;
}

/**
 * What there is of a frame and not more, with zeros where the capture has ended. NULL, and said so,
 * if that was inside of the header.
 */
static const uint8_t *begin(struct text *text, const uint8_t *in, size_t *captured_bytes,
                            size_t *len_bytes, size_t header_bytes)
{
    *len_bytes = at_most(*len_bytes, FRAME_BYTES_MAX);
    *captured_bytes = at_most(*captured_bytes, *len_bytes);
    if (*captured_bytes < header_bytes && *captured_bytes < *len_bytes) {
        add(text, "(the capture ends inside of the header)");
        return NULL;
    }
    return complete(in, *captured_bytes, *len_bytes);
}

static const struct flag group_flags[FLAGS] = {
    {RAWE_GROUP_FLAG_ASK, "ASK"},       {RAWE_GROUP_FLAG_SUBTREE, "SUBTREE"},
    {RAWE_FLAG_CHECKSUM, "CHECKSUM"},   {RAWE_FLAG_RESENT, "RESENT"},
    {RAWE_GROUP_FLAG_SHARED, "SHARED"},
};

/** What a header says of a group's frame, or of the frames of a batch, as far as `len`. */
static void add_group_header(struct text *text, const struct rawe_group_header *header)
{
    static const char *const names[] = {"DATA", "HEARTBEAT", "NACK", "ACK"};

    add(text, "%-9s id=%04" PRIx64 ".. key=%04x.. member=%u", names[header->type - RAWE_GROUP_DATA],
        header->id >> 48, header->key >> 16, header->sender);
    if (header->type <= RAWE_GROUP_HEARTBEAT) {
        add_range(text, "seq", header->sequence, rawe_group_frames(header));
    }
    if (header->acked_root != RAWE_GROUP_NO_ROOT) {
        add(text, " root=%u ack=%" PRIu32, header->acked_root, header->acknowledgement);
    }
    add(text, " len=%u", header->payload_bytes);
    if (header->type == RAWE_GROUP_DATA) {
        add(text, " of=%" PRIu32, header->total_bytes);
    }
}

/** Type 10 to 13: a frame to or from members of a group. */
static unsigned dump_group(struct text *text, const uint8_t *in, size_t captured_bytes,
                           size_t len_bytes)
{
    struct rawe_group_header header;

    add(text, "group ");
    const uint8_t *whole = begin(text, in, &captured_bytes, &len_bytes, RAWE_GROUP_HEADER_BYTES);
    if (whole == NULL) {
        return 0;
    }
    enum rawe_decode_result result = rawe_group_header_decode(&header, whole, len_bytes);
    if (result != RAWE_DECODE_OK) {
        add(text, "MALFORMED: %s",
            result == RAWE_DECODE_LENGTH ? "lengths that do not add up" : why_malformed(result));
        return 0;
    }
    const uint8_t *payload = whole + RAWE_GROUP_HEADER_BYTES;
    const size_t bytes = at_most(header.payload_bytes, captured_bytes - RAWE_GROUP_HEADER_BYTES);
    const bool shared =
        header.type == RAWE_GROUP_DATA && (header.flags & RAWE_GROUP_FLAG_SHARED) != 0;
    if (shared && bytes == header.payload_bytes &&
        !rawe_group_shared_fits(payload, header.payload_bytes)) {
        add(text, "MALFORMED: lengths that do not add up");
        return 0;
    }
    add_group_header(text, &header);
    if (header.type == RAWE_GROUP_NACK) {
        add_bitmap(text, " missing", header.acknowledgement, payload, bytes);
    }
    for (unsigned i = 0; i < bytes / 2 && header.type == RAWE_GROUP_HEARTBEAT; i++) {
        add(text, "%s%u", i == 0 ? " asks=" : ",", rawe_group_member_decode(payload, i));
    }
    const char *lead = " messages=";
    for (uint32_t at_bytes = 0, message_bytes;
         shared &&
         rawe_group_shared_next(payload, (uint32_t)bytes, &at_bytes, &message_bytes) != NULL;
         lead = ",") {
        add(text, "%s%" PRIu32, lead, message_bytes);
    }
    add_flags(text, header.flags, group_flags);
    if ((header.flags & RAWE_FLAG_CHECKSUM) != 0) {
        add_checksum(text, whole, captured_bytes,
                     RAWE_GROUP_HEADER_BYTES + (size_t)header.payload_bytes);
    }
    return 1;
}

unsigned dump_frame(char *out, size_t out_bytes, const uint8_t *in, size_t captured_bytes,
                    size_t len_bytes)
{
    struct text text = {out, out_bytes};
    struct rawe_header header;
    const unsigned type = captured_bytes == 0 ? 0 : in[0] & 0x0F;

    if (type >= RAWE_GROUP_DATA && type < RAWE_GROUP_TYPE_END) {
        return dump_group(&text, in, captured_bytes, len_bytes);
    }
    const uint8_t *whole = begin(&text, in, &captured_bytes, &len_bytes, RAWE_HEADER_BYTES);

    if (whole == NULL) {
        return 0;
    }
    enum rawe_decode_result result = rawe_header_decode(&header, whole, len_bytes);
    if (result != RAWE_DECODE_OK) {
        add(&text, "MALFORMED: %s", why_malformed(result));
        return 0;
    }
    size_t covered_bytes = RAWE_HEADER_BYTES + (size_t)header.payload_bytes;
    add_header(&text, &header, 1);
    add_payload(&text, &header, whole + RAWE_HEADER_BYTES, captured_bytes - RAWE_HEADER_BYTES);
    if ((header.flags & RAWE_FLAG_CHECKSUM) != 0) {
        add_checksum(&text, whole, captured_bytes, covered_bytes);
    }
    return 1;
}

/** A packet of a group's batch, whose header is there. */
static unsigned dump_group_batch(struct text *text, const uint8_t *head, size_t len_bytes)
{
    struct rawe_group_header header;
    enum rawe_decode_result result =
        rawe_group_batch_decode(&header, head, len_bytes, len_bytes - RAWE_BATCH_HEADER_BYTES);

    add(text, "group ");
    if (result != RAWE_DECODE_OK) {
        add(text, "MALFORMED: %s",
            result == RAWE_DECODE_LENGTH ? "lengths that do not add up" : why_malformed(result));
        return 0;
    }
    add_group_header(text, &header);
    add(text, " segment=%u", header.segment_bytes);
    add_flags(text, header.flags, group_flags);
    return rawe_group_frames(&header);
}

unsigned dump_batch(char *out, size_t out_bytes, const uint8_t *in, size_t captured_bytes,
                    size_t len_bytes)
{
    struct text text = {out, out_bytes};
    struct rawe_batch batch;

    add(&text, "batch ");
    const uint8_t *whole = begin(&text, in, &captured_bytes, &len_bytes, RAWE_BATCH_HEADER_BYTES);
    if (whole == NULL) {
        return 0;
    }
    if ((whole[RAWE_BATCH_OFFSET_VERSION_TYPE] & 0x0F) == RAWE_GROUP_DATA &&
        len_bytes >= RAWE_BATCH_HEADER_BYTES) {
        return dump_group_batch(&text, whole, len_bytes);
    }
    size_t data_bytes = len_bytes - at_most(len_bytes, RAWE_BATCH_HEADER_BYTES);
    enum rawe_decode_result result = rawe_batch_decode(&batch, whole, len_bytes, data_bytes);
    if (result != RAWE_DECODE_OK) {
        add(&text, "MALFORMED: %s",
            result == RAWE_DECODE_LENGTH ? "lengths that do not add up" : why_malformed(result));
        return 0;
    }
    add_header(&text, &batch.header, batch.frames);
    if (batch.header.type == RAWE_FRAME_BULK) {
        add_range(&text, "frames", 1 + batch.at_bytes / batch.segment_bytes, batch.frames);
        add(&text, "%s segment=%u", batch.last ? " last" : "", batch.segment_bytes);
        add_fragment(&text, &batch.fragment);
    } else {
        add_payload(&text, &batch.header, whole + RAWE_BATCH_HEADER_BYTES,
                    captured_bytes - RAWE_BATCH_HEADER_BYTES);
    }
    return batch.frames;
}
