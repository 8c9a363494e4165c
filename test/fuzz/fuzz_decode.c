/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Fuzz target `decode`: each decoder of bytes from the wire, alone: headers, fragments, group
 * headers, batch headers, CONNECT, PING, checksums; and the responder's handling of a frame.
 *
 * Input: one byte with the kind of the others (enum subject), then those. A batch header follows 2
 * bytes with the length of its data. For versions see fuzz_set_version.
 */

/* For handle_frame, which does all that the responder does with a frame. It must come first because
 * it selects extensions of the C library. */
#include "linux/probe/rawe_responder.c"

#include <string.h>

#include "fuzz.h"
#include "base/rawe_crc32c.h"
#include "base/rawe_wire.h"

enum subject {
    FRAME,     /**< without its Ethernet header */
    FRAGMENTS, /**< or a control message of a group */
    RESPONDER, /**< a frame with its Ethernet header */
    BATCH,
    SUBJECTS
};

#define PROBES 4u

static void check_connect(const uint8_t *payload, size_t len_bytes)
{
    struct rawe_connect connect, again;
    uint8_t bytes[RAWE_CONNECT_BYTES];
    if (rawe_connect_decode(&connect, payload, len_bytes) != RAWE_DECODE_OK) {
        FUZZ_CHECK(len_bytes < RAWE_CONNECT_BYTES, "a CONNECT of full length was refused");
        return;
    }
    FUZZ_CHECK(len_bytes >= RAWE_CONNECT_BYTES, "a CONNECT cut short was taken");
    rawe_connect_encode(bytes, &connect);
    FUZZ_CHECK(rawe_connect_decode(&again, bytes, sizeof(bytes)) == RAWE_DECODE_OK,
               "an encoded CONNECT was refused");
    FUZZ_CHECK(again.jobid == connect.jobid && again.vpid == connect.vpid &&
                   again.connection_id == connect.connection_id && again.key == connect.key &&
                   again.port == connect.port && again.lane == connect.lane &&
                   again.payload_max_bytes == connect.payload_max_bytes &&
                   again.incarnation == connect.incarnation,
               "a CONNECT did not survive encoding");
}

static void check_ping(const uint8_t *payload, size_t len_bytes)
{
    struct rawe_ping ping, again;
    uint8_t bytes[RAWE_PING_BYTES];
    if (rawe_ping_decode(&ping, payload, len_bytes) != RAWE_DECODE_OK) {
        FUZZ_CHECK(len_bytes < RAWE_PING_BYTES, "a PING of full length was refused");
        return;
    }
    rawe_ping_encode(bytes, &ping);
    FUZZ_CHECK(rawe_ping_decode(&again, bytes, sizeof(bytes)) == RAWE_DECODE_OK,
               "an encoded PING was refused");
    FUZZ_CHECK(again.key == ping.key && again.port == ping.port && again.token == ping.token,
               "a PING did not survive encoding");
}

/** Walk fragments as a receiver does: always forward, never outside. */
static void check_fragments(const uint8_t *payload, size_t len_bytes)
{
    const uint8_t *cursor = payload;
    const uint8_t *end = payload + len_bytes;
    uint32_t sum = 0;
    while (cursor != end) {
        const uint8_t *before = cursor;
        struct rawe_fragment fragment;
        uint8_t bytes[RAWE_FRAGMENT_BYTES_MAX];
        if (rawe_fragment_decode(&fragment, &cursor, end) != RAWE_DECODE_OK) {
            FUZZ_CHECK(cursor == before, "a fragment was refused, but the cursor has moved");
            return;
        }
        size_t header_bytes = rawe_fragment_header_bytes(fragment.kind);
        FUZZ_CHECK(cursor >= before + RAWE_FRAGMENT_MESSAGE_BYTES && cursor <= end,
                   "the cursor left the payload or stood still");
        FUZZ_CHECK(fragment.data == before + header_bytes &&
                       fragment.data_bytes <= (size_t)(end - fragment.data),
                   "a fragment's data lies outside of the payload");
        FUZZ_CHECK(!rawe_fragment_is_part(fragment.kind) ||
                       fragment.offset + fragment.data_bytes <= fragment.total_bytes,
                   "a part goes beyond its message");
        FUZZ_CHECK(rawe_fragment_encode(bytes, &fragment) == header_bytes &&
                       memcmp(bytes, before, header_bytes) == 0,
                   "a fragment header did not survive decoding and encoding");
        for (uint32_t i = 0; i < fragment.data_bytes; i++) {
            sum += fragment.data[i];
        }
    }
    FUZZ_CHECK(sum <= len_bytes * 255, "more data than bytes");
}

/** Check that the request of a GET or an ATOMIC survives decoding and encoding. */
static void check_request(const uint8_t *data, size_t len_bytes)
{
    struct rawe_request request, again;
    uint8_t bytes[RAWE_REQUEST_BYTES];
    if (rawe_request_decode(&request, data, len_bytes) != RAWE_DECODE_OK) {
        FUZZ_CHECK(len_bytes < RAWE_REQUEST_BYTES, "a whole request is refused");
        return;
    }
    rawe_request_encode(bytes, &request);
    FUZZ_CHECK(rawe_request_decode(&again, bytes, sizeof(bytes)) == RAWE_DECODE_OK &&
                   again.operation == request.operation && again.key == request.key &&
                   again.atomic == request.atomic && again.word_bytes == request.word_bytes &&
                   again.operand == request.operand && again.compare == request.compare,
               "a request did not survive decoding and encoding");
}

static void check_checksum(const uint8_t *bytes, size_t len_bytes)
{
    size_t half_bytes = len_bytes / 2;
    uint8_t written[RAWE_CHECKSUM_BYTES];
    uint32_t whole = rawe_crc32c(0, bytes, len_bytes);
    uint32_t parts =
        rawe_crc32c(rawe_crc32c(0, bytes, half_bytes), bytes + half_bytes, len_bytes - half_bytes);
    FUZZ_CHECK(whole == parts, "a checksum made in two parts differs");
    rawe_checksum_encode(written, whole);
    FUZZ_CHECK(rawe_checksum_decode(written) == whole, "a checksum did not survive encoding");
}

/** Check messages that share a group's frame. */
static void check_shared(const uint8_t *shared, uint32_t len_bytes)
{
    uint8_t *payload = fuzz_copy(shared, len_bytes), *again = fuzz_copy(shared, len_bytes);
    uint32_t at_bytes = 0, end_bytes = 0, message_bytes;
    const uint8_t *message;
    memset(again, 0, len_bytes);
    while ((message = rawe_group_shared_next(payload, len_bytes, &at_bytes, &message_bytes)) !=
           NULL) {
        end_bytes = rawe_group_shared_add(again, end_bytes, message, message_bytes);
    }
    FUZZ_CHECK((end_bytes == len_bytes) == rawe_group_shared_fits(payload, len_bytes) &&
                   memcmp(payload, again, end_bytes) == 0,
               "messages that share a frame did not survive decoding and encoding");
    fuzz_delete(payload);
    fuzz_delete(again);
}

/** Check a frame of a group, whose type check_frame does not know. */
static void check_group(const uint8_t *frame, size_t len_bytes)
{
    struct rawe_group_header header;
    uint8_t bytes[RAWE_GROUP_HEADER_BYTES];
    if (rawe_group_header_decode(&header, frame, len_bytes) != RAWE_DECODE_OK) {
        return;
    }
    fuzz_accepted++;
    FUZZ_CHECK(len_bytes >= RAWE_GROUP_HEADER_BYTES + RAWE_CHECKSUM_BYTES &&
                   header.payload_bytes <=
                       len_bytes - RAWE_GROUP_HEADER_BYTES - RAWE_CHECKSUM_BYTES,
               "the payload of a group's frame is longer than the frame");
    FUZZ_CHECK(header.payload_bytes <= header.total_bytes, "a part is longer than its message");
    rawe_group_header_encode(bytes, &header);
    FUZZ_CHECK(memcmp(bytes, frame, sizeof(bytes) - 2) == 0, /* the last two are 0 */
               "a group's header did not survive decoding and encoding");
    if ((header.flags & RAWE_GROUP_FLAG_SHARED) != 0) {
        check_shared(frame + RAWE_GROUP_HEADER_BYTES, header.payload_bytes);
    }
}

/** Check a control message of a group. */
static void check_control(const uint8_t *message, size_t len_bytes)
{
    struct rawe_group_control control;
    uint8_t bytes[RAWE_GROUP_CONTROL_HEADER_BYTES];
    if (rawe_group_control_decode(&control, message, len_bytes) != RAWE_DECODE_OK) {
        return;
    }
    FUZZ_CHECK(control.data_bytes == len_bytes - RAWE_GROUP_CONTROL_HEADER_BYTES &&
                   control.data == message + RAWE_GROUP_CONTROL_HEADER_BYTES,
               "the data of a control message is not behind its header");
    FUZZ_CHECK(control.type != RAWE_GROUP_REPAIR ||
                   control.piece * RAWE_GROUP_PIECE_BYTES + control.data_bytes <=
                       control.payload_bytes,
               "a piece is beyond its frame");
    rawe_group_control_encode(bytes, &control);
    FUZZ_CHECK(memcmp(bytes, message, sizeof(bytes)) == 0,
               "a control message did not survive decoding and encoding");
}

/** Check a frame, without its Ethernet header. */
static void check_frame(const uint8_t *frame, size_t len_bytes)
{
    struct rawe_header header;
    uint8_t bytes[RAWE_HEADER_BYTES];
    check_checksum(frame, len_bytes);
    check_group(frame, len_bytes);
    if (rawe_header_decode(&header, frame, len_bytes) != RAWE_DECODE_OK) {
        return;
    }
    fuzz_accepted++;
    FUZZ_CHECK(len_bytes >= RAWE_HEADER_BYTES &&
                   header.payload_bytes <= len_bytes - RAWE_HEADER_BYTES,
               "the payload is longer than the frame");
    rawe_header_encode(bytes, &header);
    FUZZ_CHECK(memcmp(bytes, frame, sizeof(bytes)) == 0,
               "a header did not survive decoding and encoding");
    /* Memory of exactly the payload's length, so that a read beyond is detected. */
    uint8_t *payload = fuzz_copy(frame + RAWE_HEADER_BYTES, header.payload_bytes);
    check_fragments(payload, header.payload_bytes);
    check_request(payload, header.payload_bytes);
    check_connect(payload, header.payload_bytes);
    check_ping(payload, header.payload_bytes);
    fuzz_delete(payload);
}

static uint32_t number_at(const uint8_t *in, unsigned bytes)
{
    uint32_t value = 0;
    for (unsigned i = 0; i < bytes; i++) {
        value = value << 8 | in[i];
    }
    return value;
}

/** Check that the frames are those of the data, and lie within their batch. */
static void check_frames(const struct rawe_batch *batch, const uint8_t *head, size_t data_bytes)
{
    uint32_t segment_bytes = batch->segment_bytes;
    uint32_t first = segment_bytes == 0 ? 0 : batch->at_bytes / segment_bytes;
    uint32_t total = head[58];
    FUZZ_CHECK(segment_bytes != 0 && batch->frames != 0 && total <= RAWE_BATCH_FRAMES_MAX &&
                   first + batch->frames <= total && first * segment_bytes == batch->at_bytes,
               "frames that their batch has not");
    FUZZ_CHECK(batch->at_bytes <= RAWE_BATCH_BYTES_MAX && data_bytes <= RAWE_BATCH_BYTES_MAX,
               "more data than a batch may have");
    FUZZ_CHECK(data_bytes > (batch->frames - 1u) * segment_bytes &&
                   data_bytes <= batch->frames * segment_bytes,
               "the frames do not make up the data");
    FUZZ_CHECK(batch->last == (first + batch->frames == total),
               "the last frame is mistaken for another");
    FUZZ_CHECK(batch->last || data_bytes == batch->frames * segment_bytes,
               "a short frame before the last of a batch");
    FUZZ_CHECK(batch->header.sequence == number_at(head + 36, 4) + first,
               "a number that is not the first frame's");
    FUZZ_CHECK(batch->fragment.offset ==
                   ((uint64_t)number_at(head + 52, 2) << 32 | number_at(head + 54, 4)) +
                       batch->at_bytes,
               "an offset that is not the first frame's");
    FUZZ_CHECK(batch->fragment.data_bytes == data_bytes, "data that is not there");
    FUZZ_CHECK(batch->fragment.kind != RAWE_FRAGMENT_MESSAGE &&
                   !rawe_fragment_is_request(batch->fragment.kind) &&
                   rawe_fragment_header_bytes(batch->fragment.kind) != 0,
               "a kind of fragment that does not travel in batches");
    FUZZ_CHECK(rawe_fragment_is_record(batch->fragment.kind) ||
                   batch->fragment.offset + data_bytes <= batch->fragment.total_bytes,
               "a part goes beyond its message");
}

static void check_same(const struct rawe_batch *batch, const struct rawe_batch *other)
{
    const struct rawe_header *header = &batch->header;
    const struct rawe_fragment *fragment = &batch->fragment;
    FUZZ_CHECK(other->header.type == header->type && other->header.flags == header->flags &&
                   other->header.port == header->port && other->header.key == header->key &&
                   other->header.connection_id == header->connection_id &&
                   other->header.acknowledgement == header->acknowledgement &&
                   other->header.credit == header->credit,
               "a batch's header did not survive");
    FUZZ_CHECK(
        header->type != RAWE_FRAME_BULK ||
            (other->fragment.kind == fragment->kind && other->fragment.tag == fragment->tag &&
             other->fragment.id == fragment->id &&
             other->fragment.total_bytes == fragment->total_bytes &&
             (!rawe_fragment_is_record(fragment->kind) || other->fragment.key == fragment->key) &&
             other->segment_bytes == batch->segment_bytes),
        "a batch's fragment did not survive");
}

/** Check that each frame of a packet, alone, decodes to the same part of the batch. */
static void check_cut(const struct rawe_batch *batch, const uint8_t *head, size_t data_bytes)
{
    for (uint32_t i = 0; i < batch->frames; i++) {
        uint8_t bytes[RAWE_BATCH_HEADER_BYTES];
        struct rawe_batch frame;
        uint32_t at_bytes = batch->at_bytes + i * batch->segment_bytes;
        size_t left_bytes = data_bytes - (size_t)i * batch->segment_bytes;
        size_t frame_bytes = left_bytes < batch->segment_bytes ? left_bytes : batch->segment_bytes;
        memcpy(bytes, head, sizeof(bytes));
        for (unsigned k = 0; k < 4; k++) {
            bytes[4 + k] = (uint8_t)(at_bytes >> (24 - 8 * k));
        }
        FUZZ_CHECK(rawe_batch_decode(&frame, bytes, sizeof(bytes), frame_bytes) == RAWE_DECODE_OK,
                   "a frame cut from a packet was refused");
        check_same(batch, &frame);
        FUZZ_CHECK(frame.frames == 1 && frame.header.sequence == batch->header.sequence + i &&
                       frame.fragment.offset ==
                           batch->fragment.offset + (uint64_t)i * batch->segment_bytes &&
                       frame.last == (batch->last && i + 1 == batch->frames),
                   "a frame cut from a packet is another one");
    }
}

/** Encode the batch of a packet, and decode the packet again. */
static void check_encoded(const struct rawe_batch *batch, const uint8_t *head, size_t data_bytes)
{
    struct rawe_batch whole = *batch;
    struct rawe_batch again;
    uint8_t bytes[RAWE_BATCH_HEADER_BYTES];
    if (batch->header.type == RAWE_FRAME_BULK) {
        whole.header.sequence -= batch->at_bytes / batch->segment_bytes;
        whole.fragment.offset -= batch->at_bytes;
        whole.frames = head[58];
    }
    rawe_batch_encode(bytes, &whole);
    FUZZ_CHECK(rawe_batch_decode(&again, bytes, sizeof(bytes), data_bytes) == RAWE_DECODE_OK,
               "an encoded batch was refused");
    check_same(batch, &again);
    FUZZ_CHECK(again.header.sequence == batch->header.sequence &&
                   again.at_bytes == batch->at_bytes && again.frames == batch->frames &&
                   again.last == batch->last &&
                   (batch->header.type != RAWE_FRAME_BULK ||
                    again.fragment.offset == batch->fragment.offset),
               "a batch did not survive encoding");
}

/** Check that each frame of a group's batch, alone, decodes the same and survives encoding. */
static void check_group_batch(const uint8_t *head, size_t head_bytes, size_t data_bytes)
{
    struct rawe_group_header header;
    if (rawe_group_batch_decode(&header, head, head_bytes, data_bytes) != RAWE_DECODE_OK) {
        return;
    }
    fuzz_accepted++;
    const uint32_t segment_bytes = header.segment_bytes;
    FUZZ_CHECK(head_bytes >= RAWE_BATCH_HEADER_BYTES && segment_bytes != 0 && data_bytes != 0 &&
                   header.payload_bytes == data_bytes && data_bytes <= header.total_bytes &&
                   data_bytes <= RAWE_BATCH_BYTES_MAX,
               "an impossible batch of a group");
    for (uint32_t i = 0; i < rawe_group_frames(&header); i++) {
        uint8_t bytes[RAWE_BATCH_HEADER_BYTES];
        struct rawe_group_header frame, again;
        const size_t left_bytes = data_bytes - (size_t)i * segment_bytes;
        const size_t frame_bytes = left_bytes < segment_bytes ? left_bytes : segment_bytes;
        memcpy(bytes, head, sizeof(bytes));
        rawe_put32(bytes + 4, number_at(head + 4, 4) + i * segment_bytes);
        FUZZ_CHECK(rawe_group_batch_decode(&frame, bytes, sizeof(bytes), frame_bytes) ==
                           RAWE_DECODE_OK &&
                       frame.sequence == header.sequence + i && rawe_group_frames(&frame) == 1,
                   "a frame cut from a group's packet is another one");
        rawe_group_batch_encode(bytes, &frame);
        FUZZ_CHECK(rawe_group_batch_decode(&again, bytes, sizeof(bytes), frame_bytes) ==
                           RAWE_DECODE_OK &&
                       again.flags == frame.flags && again.sender == frame.sender &&
                       again.id == frame.id && again.sequence == frame.sequence &&
                       again.total_bytes == frame.total_bytes,
                   "a batch of a group did not survive encoding");
    }
}

/** Check a batch header that follows the length of its data. */
static void check_batch(const uint8_t *bytes, size_t len_bytes)
{
    if (len_bytes < 2) {
        return;
    }
    size_t data_bytes = number_at(bytes, 2);
    size_t head_bytes = len_bytes - 2;
    uint8_t *head = fuzz_copy(bytes + 2, head_bytes);
    struct rawe_batch batch;
    check_group_batch(head, head_bytes, data_bytes);
    if (rawe_batch_decode(&batch, head, head_bytes, data_bytes) == RAWE_DECODE_OK) {
        fuzz_accepted++;
        FUZZ_CHECK(head_bytes >= RAWE_BATCH_HEADER_BYTES, "a batch header cut short was taken");
        FUZZ_CHECK(batch.header.payload_bytes == data_bytes, "data that is not there");
        if (batch.header.type == RAWE_FRAME_BULK) {
            check_frames(&batch, head, data_bytes);
            check_cut(&batch, head, data_bytes);
        } else {
            FUZZ_CHECK(batch.frames == 1 && batch.last && batch.at_bytes == 0,
                       "several frames where there is one");
        }
        check_encoded(&batch, head, data_bytes);
    }
    fuzz_delete(head);
}

/** rawe_port_kind.transmit of a responder whose answers are discarded. */
static unsigned transmit_nowhere(void *port, const struct rawe_frame *frames, unsigned count)
{
    return count;
}

static void check_responder(const uint8_t *bytes, size_t len_bytes)
{
    static const struct rawe_port_kind kind = {.transmit = transmit_nowhere};
    static struct rawe_port nowhere = {.kind = &kind};
    static struct rawe_responder responder;
    static bool ready;
    if (!ready) {
        ready = true;
        responder.wire = &nowhere;
        rawe_watch_table_init(&responder.watches);
        for (unsigned i = 0; i < PROBES; i++) {
            static const uint8_t mac[RAWE_MAC_BYTES] = {2, 0, 0, 0, 0, 1};
            struct rawe_ping_address to = {.port = 1, .key = 2};
            memcpy(to.mac, mac, sizeof(to.mac));
            struct rawe_watch *watch = rawe_responder_watch(&responder, &to);
            FUZZ_CHECK(watch == responder.watches.watches[i], "probes are not numbered from 0 on");
            watch->asked_bytes = RAWE_PING_BYTES + 8 * i;
            /* Not random: inputs must mean the same in every run. */
            watch->token = 1ull << 63 | i;
        }
    }
    struct rawe_responder_counters before, after;
    rawe_responder_read_counters(&responder, &before);
    responder.answers = 1; /* a PING is answered at once */
    uint8_t *frame = fuzz_copy(bytes, len_bytes);
    handle_frame(&responder, frame, len_bytes);
    fuzz_delete(frame);
    rawe_responder_read_counters(&responder, &after);
    uint64_t counted = 0;
    counted += after.probes_seen - before.probes_seen;
    counted += after.frames_invalid - before.frames_invalid;
    counted += after.pings_answered - before.pings_answered;
    counted += after.pings_unanswered - before.pings_unanswered;
    counted += after.pongs_matched - before.pongs_matched;
    counted += after.pongs_unknown - before.pongs_unknown;
    FUZZ_CHECK(counted == 1, "the responder did not count the frame once");
    fuzz_accepted += after.frames_invalid == before.frames_invalid;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len_bytes)
{
    if (len_bytes == 0) {
        return 0;
    }
    /* Offset of the version; fragments have none. */
    static const size_t version_at[] = {
        [FRAME] = 0,
        [FRAGMENTS] = SIZE_MAX,
        [RESPONDER] = RAWE_ETH_HEADER_BYTES,
        [BATCH] = 2 + RAWE_BATCH_OFFSET_VERSION_TYPE,
    };
    const enum subject subject = data[0] % SUBJECTS;
    uint8_t *bytes = fuzz_copy(data + 1, len_bytes - 1);
    if (version_at[subject] < len_bytes - 1) {
        fuzz_set_version(bytes + version_at[subject]);
    }
    switch (subject) {
    case FRAME:
        check_frame(bytes, len_bytes - 1);
        break;
    case FRAGMENTS:
        check_fragments(bytes, len_bytes - 1);
        check_control(bytes, len_bytes - 1);
        break;
    case BATCH:
        check_batch(bytes, len_bytes - 1);
        break;
    default:
        check_responder(bytes, len_bytes - 1);
        break;
    }
    fuzz_delete(bytes);
    return 0;
}
