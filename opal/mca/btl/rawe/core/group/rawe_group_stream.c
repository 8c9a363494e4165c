/* SPDX-License-Identifier: BSD-3-Clause */
#include "rawe_group_stream.h"

#include <stdlib.h>
#include <string.h>

_Static_assert(RAWE_GROUP_ASKED_MAX * 2 <= RAWE_GROUP_NACK_BYTES_MAX, "the list has room");

/** A frame that came before an earlier one, or that was not delivered yet. */
struct rawe_group_stored {
    uint32_t total_bytes; /**< of its message */
    uint16_t len_bytes;
    bool shared; /**< by several messages */
    uint8_t data[];
};

struct rawe_group_stream *rawe_group_stream_new(const struct rawe_group_config *config,
                                                uint32_t *stored_total, uint32_t root)
{
    struct rawe_group_stream *stream = calloc(1, sizeof(*stream));
    if (stream != NULL) {
        stream->config = config;
        stream->stored_total = stored_total;
        stream->root = root;
        stream->next = stream->end = stream->acked = stream->ask = stream->nack_end =
            rawe_group_first_sequence(config);
        for (uint32_t i = 0; i < RAWE_GROUP_CHILDREN; i++) {
            stream->children[i] = stream->next;
        }
    }
    return stream;
}

static struct rawe_group_stored **slot_of(const struct rawe_group_stream *stream, uint32_t sequence)
{
    return &stream->stored[sequence & (stream->config->window_frames - 1)];
}

static bool lacks(const struct rawe_group_stream *stream, uint32_t sequence)
{
    return stream->stored == NULL || *slot_of(stream, sequence) == NULL;
}

static void drop_stored(struct rawe_group_stream *stream, struct rawe_group_stored **slot)
{
    free(*slot);
    *slot = NULL;
    --*stream->stored_total;
    if (--stream->stored_frames == 0) {
        free(stream->stored);
        stream->stored = NULL;
    }
}

void rawe_group_stream_free(struct rawe_group_stream *stream)
{
    for (uint32_t i = 0; stream != NULL && stream->stored != NULL; i++) {
        if (!lacks(stream, i)) {
            drop_stored(stream, slot_of(stream, i));
        }
    }
    free(stream);
}

/** An ACK that is lost, or that the link has no room for, is asked for again. */
static void send_ack(const struct rawe_group_stream *stream, uint32_t to, uint32_t next,
                     uint8_t flags)
{
    uint8_t bytes[RAWE_GROUP_CONTROL_BYTES_MAX];
    struct rawe_group_header header = {.type = RAWE_GROUP_ACK,
                                       .flags = flags,
                                       .acked_root = (uint16_t)stream->root,
                                       .acknowledgement = next};
    const struct rawe_bytes frame = rawe_group_seal(stream->config, bytes, &header);
    stream->config->counters->acks_sent += rawe_group_transmit(stream->config, to, &frame);
}

/** The first frame that is missing from `sequence` on; `end`: none. */
static uint32_t first_missing(const struct rawe_group_stream *stream, uint32_t sequence)
{
    sequence = rawe_sequence_before(sequence, stream->next) ? stream->next : sequence;
    while (sequence != stream->end && !lacks(stream, sequence)) {
        sequence++;
    }
    return sequence;
}

/** Ask for what is missing from `begin` on, unless it comes in time. */
static void set_nack(struct rawe_group_stream *stream, uint32_t begin, uint64_t now_ns)
{
    const uint32_t hash = (stream->config->self * 0x9E3779B9u ^ stream->next) * 0x85EBCA6Bu;
    const uint64_t spread_ns = (uint64_t)stream->config->members * RAWE_GROUP_SPREAD_NS;
    stream->nack_ns = 0;
    if (first_missing(stream, begin) != stream->end) {
        stream->nack_begin = begin;
        stream->nack_end = stream->end;
        stream->nack_ns = now_ns + RAWE_GROUP_NACK_NS + (hash * spread_ns >> 32);
    }
}

/** Set the timer for what is missing, if anything is; `again`: even what was asked for before. */
static void expect(struct rawe_group_stream *stream, bool again, uint64_t now_ns)
{
    if (stream->end - stream->next == stream->stored_frames) {
        stream->nack_ns = 0;
        stream->nack_end = stream->end; /* it stays close behind, as numbers come round */
    } else if (stream->nack_ns == 0) {
        set_nack(stream, again ? stream->next : stream->nack_end, now_ns);
    }
}

/** Deliver a part of a message. False: not now. */
static bool take_part(struct rawe_group_stream *stream, uint32_t total_bytes, const uint8_t *data,
                      uint32_t len_bytes)
{
    const struct rawe_group_part part = {stream->root, total_bytes, stream->at_bytes,
                                         len_bytes,    data,        stream->batches};
    stream->refused = !stream->config->deliver(stream->config->context, &part);
    if (stream->refused) {
        return false;
    }
    stream->total_bytes = total_bytes;
    stream->at_bytes += len_bytes;
    if (stream->at_bytes == total_bytes) {
        stream->at_bytes = 0;
        stream->config->counters->messages_delivered++;
    }
    return true;
}

/** Deliver the messages that share a frame, but those that were delivered before. */
static bool take_shared(struct rawe_group_stream *stream, const uint8_t *data, uint32_t len_bytes)
{
    uint32_t at_bytes = stream->shared_bytes, message_bytes;
    const uint8_t *message;
    while ((message = rawe_group_shared_next(data, len_bytes, &at_bytes, &message_bytes)) != NULL) {
        if (!take_part(stream, message_bytes, message, message_bytes)) {
            return false;
        }
        stream->shared_bytes = at_bytes;
    }
    return true;
}

/** May this be the next part of the message that is under way? */
static bool continues(const struct rawe_group_stream *stream, uint32_t total_bytes,
                      uint32_t len_bytes)
{
    return stream->at_bytes == 0 ||
           (total_bytes == stream->total_bytes && len_bytes <= total_bytes - stream->at_bytes);
}

/** Deliver the frames that are next, or drop them. False: not delivered now, or not wholly. */
static bool take(struct rawe_group_stream *stream, uint32_t frames, bool shared,
                 uint32_t total_bytes, const uint8_t *data, uint32_t len_bytes)
{
    if ((shared && stream->at_bytes != 0) || !continues(stream, total_bytes, len_bytes)) {
        stream->config->counters->dropped_fragment++;
        return true;
    }
    if (!(shared ? take_shared(stream, data, len_bytes)
                 : take_part(stream, total_bytes, data, len_bytes))) {
        return false;
    }
    stream->shared_bytes = 0;
    stream->next += frames;
    return true;
}

/** Deliver what waits, as far as nothing is missing. */
static void take_stored(struct rawe_group_stream *stream)
{
    while (stream->next != stream->end && !lacks(stream, stream->next)) {
        struct rawe_group_stored **slot = slot_of(stream, stream->next);
        const struct rawe_group_stored *frame = *slot;
        if (!take(stream, 1, frame->shared, frame->total_bytes, frame->data, frame->len_bytes)) {
            return;
        }
        drop_stored(stream, slot);
    }
}

/**
 * How far an acknowledgement is from one that all members have sent: the root sends nothing beyond a
 * window of that. One so old that numbers have come round since counts as that one.
 */
static uint32_t progress_of(const struct rawe_group_stream *stream, uint32_t acknowledgement)
{
    const uint32_t window_frames = stream->config->window_frames;
    const uint32_t distance = acknowledgement - (stream->next - window_frames);
    return distance <= 2 * window_frames ? distance : 0;
}

/** Acknowledge for all members below, once they and this one have what the root asked for. */
static void answer_tree(struct rawe_group_stream *stream)
{
    const uint32_t place = rawe_group_position(stream->config, stream->config->self, stream->root);
    const uint32_t child = place * RAWE_GROUP_CHILDREN + 1;
    uint32_t least = stream->config->window_frames;
    for (uint32_t i = 0; i < RAWE_GROUP_CHILDREN && child + i < stream->config->members; i++) {
        const uint32_t has = progress_of(stream, stream->children[i]);
        least = has < least ? has : least;
    }
    const uint32_t next = stream->next - stream->config->window_frames + least;
    if (stream->asked && !rawe_sequence_before(next, stream->ask)) {
        const uint32_t parent = (place - 1) / RAWE_GROUP_CHILDREN;
        stream->asked = false;
        send_ack(stream, (stream->root + parent) % stream->config->members, next,
                 RAWE_GROUP_FLAG_SUBTREE);
    }
}

void rawe_group_stream_acked(struct rawe_group_stream *stream, uint32_t position, uint32_t next)
{
    const uint32_t place = rawe_group_position(stream->config, stream->config->self, stream->root);
    const uint32_t child = position - (place * RAWE_GROUP_CHILDREN + 1);
    if (child >= RAWE_GROUP_CHILDREN) {
        stream->config->counters->dropped_member++;
    } else if (progress_of(stream, stream->children[child]) < progress_of(stream, next)) {
        stream->children[child] = next;
        answer_tree(stream);
    }
}

bool rawe_group_stream_piggyback(struct rawe_group_stream *stream, struct rawe_group_header *header)
{
    if (stream->acked == stream->next) {
        return false;
    }
    stream->acked = stream->next;
    header->acked_root = (uint16_t)stream->root;
    header->acknowledgement = stream->next;
    return true;
}

static bool is_shared(const struct rawe_group_header *header)
{
    return (header->flags & RAWE_GROUP_FLAG_SHARED) != 0;
}

/** Keep a frame until those before it have come. False without room. */
static bool store(struct rawe_group_stream *stream, const struct rawe_group_header *header,
                  const uint8_t *data)
{
    struct rawe_group_stored *frame = NULL;
    if (*stream->stored_total < stream->config->stored_max) {
        frame = malloc(sizeof(*frame) + header->payload_bytes);
    }
    if (frame != NULL && stream->stored == NULL) {
        stream->stored = calloc(stream->config->window_frames, sizeof(*stream->stored));
    }
    if (frame == NULL || stream->stored == NULL) {
        free(frame);
        return false;
    }
    frame->total_bytes = header->total_bytes;
    frame->len_bytes = header->payload_bytes;
    frame->shared = is_shared(header);
    memcpy(frame->data, data, header->payload_bytes);
    *slot_of(stream, header->sequence) = frame;
    stream->stored_frames++;
    ++*stream->stored_total;
    return true;
}

static void receive_frame(struct rawe_group_stream *stream, const struct rawe_group_header *header,
                          const uint8_t *data)
{
    const uint32_t sequence = header->sequence;
    if (rawe_sequence_before(sequence, stream->next) || !lacks(stream, sequence)) {
        stream->config->counters->duplicates++;
        return;
    }
    if (sequence == stream->next &&
        take(stream, 1, is_shared(header), header->total_bytes, data, header->payload_bytes)) {
        take_stored(stream);
    } else if (!store(stream, header, data)) {
        stream->config->counters->no_buffer++;
        stream->refused = stream->refused && sequence != stream->next; /* it is missing again */
    }
}

/** Is it next, and nothing of it here yet? */
static bool is_whole(const struct rawe_group_stream *stream, const struct rawe_group_header *header)
{
    return header->sequence == stream->next && stream->stored_frames == 0;
}

static void receive_data(struct rawe_group_stream *stream, const struct rawe_group_header *header,
                         const uint8_t *data)
{
    struct rawe_group_header frame = *header;
    const uint32_t segment_bytes = header->segment_bytes;
    uint32_t left_bytes = header->payload_bytes;
    stream->batches = stream->batches || segment_bytes != 0;
    if (segment_bytes == 0) {
        receive_frame(stream, header, data);
        return;
    }
    if (is_whole(stream, header) &&
        take(stream, rawe_group_frames(header), false, header->total_bytes, data, left_bytes)) {
        return;
    }
    for (; left_bytes != 0; frame.sequence++) {
        frame.payload_bytes = (uint16_t)(left_bytes < segment_bytes ? left_bytes : segment_bytes);
        receive_frame(stream, &frame, data);
        data += frame.payload_bytes;
        left_bytes -= frame.payload_bytes;
    }
}

uint8_t *rawe_group_stream_place(const struct rawe_group_stream *stream,
                                 const struct rawe_group_header *header)
{
    const struct rawe_group_part part = {.root = stream->root,
                                         .total_bytes = header->total_bytes,
                                         .at_bytes = stream->at_bytes,
                                         .len_bytes = header->payload_bytes};
    return is_whole(stream, header) && continues(stream, part.total_bytes, part.len_bytes)
               ? stream->config->place(stream->config->context, &part)
               : NULL;
}

static bool is_listed(const struct rawe_group_stream *stream,
                      const struct rawe_group_header *header, const uint8_t *list)
{
    for (unsigned i = 0; i < header->payload_bytes / 2u; i++) {
        if (rawe_group_member_decode(list, i) == stream->config->self) {
            return true;
        }
    }
    return false;
}

void rawe_group_stream_receive(struct rawe_group_stream *stream,
                               const struct rawe_group_header *header, const uint8_t *payload,
                               uint64_t now_ns)
{
    const bool data = header->type == RAWE_GROUP_DATA;
    /* Behind the last frame that it says there is. */
    const uint32_t end = header->sequence + (data ? rawe_group_frames(header) : 0);
    if (rawe_sequence_before(stream->next + stream->config->window_frames, end)) {
        stream->config->counters->dropped_outside++;
        return;
    }
    if (rawe_sequence_before(stream->end, end)) {
        stream->end = end;
    }
    if (data) {
        receive_data(stream, header, payload);
    }
    if ((header->flags & RAWE_GROUP_FLAG_ASK) != 0 &&
        (!stream->asked || rawe_sequence_before(stream->ask, end))) {
        stream->ask = end;
        stream->asked = true;
    }
    answer_tree(stream);
    if (!data && is_listed(stream, header, payload)) {
        send_ack(stream, stream->root, stream->next, 0);
    }
    expect(stream, !data, now_ns); /* a lost NACK, or repair, is repeated after a heartbeat */
}

/** Ask for what is missing, as far as there is room for it. */
static void send_nack(struct rawe_group_stream *stream)
{
    const uint32_t room = stream->config->stored_max - *stream->stored_total;
    /* The next frame is delivered, and needs none. */
    uint32_t left = room + lacks(stream, stream->next);
    uint8_t bytes[RAWE_GROUP_CONTROL_BYTES_MAX] = {0};
    uint8_t *bitmap = bytes + RAWE_GROUP_HEADER_BYTES;
    struct rawe_group_header header = {.type = RAWE_GROUP_NACK,
                                       .acked_root = (uint16_t)stream->root,
                                       .acknowledgement = stream->next};
    for (uint32_t i = first_missing(stream, stream->nack_begin);
         rawe_sequence_before(i, stream->nack_end); i++) {
        const uint32_t bit = i - stream->next;
        if (left != 0 && lacks(stream, i)) {
            left--;
            bitmap[bit / 8] |= (uint8_t)(1u << bit % 8);
            header.payload_bytes = (uint16_t)(bit / 8 + 1);
        }
    }
    if (header.payload_bytes != 0) {
        const struct rawe_bytes frame = rawe_group_seal(stream->config, bytes, &header);
        stream->config->counters->nacks_sent +=
            rawe_group_transmit(stream->config, stream->root, &frame);
    }
}

void rawe_group_stream_progress(struct rawe_group_stream *stream, bool withheld, uint64_t now_ns)
{
    if (stream->refused) {
        take_stored(stream);
        answer_tree(stream);
        expect(stream, false, now_ns);
    }
    if (stream->nack_ns == 0 || stream->nack_ns > now_ns) {
        return;
    }
    if (!withheld) {
        send_nack(stream);
    }
    set_nack(stream, withheld ? stream->nack_begin : stream->nack_end, now_ns);
}
