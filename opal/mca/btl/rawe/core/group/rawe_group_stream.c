/* SPDX-License-Identifier: BSD-3-Clause */
#include "rawe_group_stream.h"

#include <stdlib.h>
#include <string.h>

/** A frame that waits for an earlier one, or was refused by the owner. */
struct rawe_group_stored {
    uint64_t missing;     /**< bitmap of missing pieces; 0: complete */
    uint32_t total_bytes; /**< length of its message */
    uint16_t len_bytes;
    uint8_t flags;
    uint8_t data[];
};

struct rawe_group_stream *rawe_group_stream_new(const struct rawe_group_config *config,
                                                uint32_t root)
{
    struct rawe_group_stream *stream = calloc(1, sizeof(*stream));
    if (stream != NULL) {
        stream->config = config;
        stream->root = root;
        stream->next = stream->end = stream->acked = stream->ask = stream->asked =
            stream->nack_end = rawe_group_first_sequence(config);
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
    const struct rawe_group_stored *frame =
        stream->stored == NULL ? NULL : *slot_of(stream, sequence);
    return frame == NULL || frame->missing != 0;
}

static void drop_stored(struct rawe_group_stream *stream, uint32_t sequence)
{
    struct rawe_group_stored **slot = stream->stored == NULL ? NULL : slot_of(stream, sequence);
    if (slot != NULL && *slot != NULL) {
        free(*slot);
        *slot = NULL;
        if (--stream->stored_frames == 0) {
            free(stream->stored);
            stream->stored = NULL;
        }
    }
}

void rawe_group_stream_free(struct rawe_group_stream *stream)
{
    for (uint32_t i = 0; stream != NULL && stream->stored != NULL; i++) {
        drop_stored(stream, i);
    }
    free(stream);
}

/** Return the first missing frame from `sequence` on; `end`: none is missing. */
static uint32_t first_missing(const struct rawe_group_stream *stream, uint32_t sequence)
{
    sequence = rawe_sequence_before(sequence, stream->next) ? stream->next : sequence;
    while (rawe_sequence_before(sequence, stream->end) && !lacks(stream, sequence)) {
        sequence++;
    }
    return sequence;
}

/** Plan a NACK for missing frames, unless all of them have been requested. */
static void expect_missing(struct rawe_group_stream *stream, uint64_t now_ns)
{
    const uint32_t missing = first_missing(stream, stream->next);
    if (!rawe_sequence_before(missing, stream->end)) {
        stream->nack_ns = 0;
        stream->asked = stream->nack_end =
            stream->end; /* keep `asked` close, because sequence numbers wrap */
    } else if (stream->nack_ns == 0 && !rawe_sequence_before(missing, stream->asked)) {
        const uint32_t hash = (stream->config->self * 0x9E3779B9u ^ stream->next) * 0x85EBCA6Bu;
        const uint64_t spread_ns = (uint64_t)stream->config->members * RAWE_GROUP_SPREAD_NS;
        const bool late = rawe_sequence_before(missing, stream->nack_end);
        stream->nack_end = late ? stream->nack_end : stream->end;
        stream->nack_ns = late ? now_ns : now_ns + RAWE_GROUP_NACK_NS + (hash * spread_ns >> 32);
    }
}

/** Request again a frame that was received but could not be kept. */
static void lose_frame(struct rawe_group_stream *stream, uint32_t sequence)
{
    if (rawe_sequence_before(sequence, stream->asked)) {
        stream->asked = sequence;
    }
}

/** Deliver a part of a message. Returns false if the owner refuses it for now. */
static bool take_part(struct rawe_group_stream *stream, uint8_t flags, uint32_t total_bytes,
                      const uint8_t *data, uint32_t len_bytes)
{
    const struct rawe_group_part part = {
        .root = stream->root,
        .total_bytes = total_bytes,
        .at_bytes = stream->at_bytes,
        .len_bytes = len_bytes,
        .data = data,
        .heard = stream->heard,
        .batches = stream->batches,
        .last = (flags & RAWE_GROUP_FLAG_LAST) != 0,
    };
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

/** Deliver the messages that share a frame, except those already delivered. */
static bool take_shared(struct rawe_group_stream *stream, const uint8_t *data, uint32_t len_bytes)
{
    uint32_t at_bytes = stream->shared_bytes, message_bytes;
    const uint8_t *message;
    while ((message = rawe_group_shared_next(data, len_bytes, &at_bytes, &message_bytes)) != NULL) {
        if (!take_part(stream, 0, message_bytes, message, message_bytes)) {
            return false;
        }
        stream->shared_bytes = at_bytes;
    }
    return true;
}

/** Return true if a part of this length can follow the delivered part of its message. */
static bool continues_message(const struct rawe_group_stream *stream, uint32_t total_bytes,
                              uint32_t len_bytes)
{
    return stream->at_bytes == 0 ||
           (total_bytes == stream->total_bytes && len_bytes <= total_bytes - stream->at_bytes);
}

/** Deliver the next frames, or drop them. Returns false if the owner refuses some for now. */
static bool take(struct rawe_group_stream *stream, uint32_t frames, uint8_t flags,
                 uint32_t total_bytes, const uint8_t *data, uint32_t len_bytes)
{
    const bool shared = (flags & RAWE_GROUP_FLAG_SHARED) != 0;
    if (shared ? stream->at_bytes != 0 || !rawe_group_shared_fits(data, len_bytes)
               : !continues_message(stream, total_bytes, len_bytes)) {
        stream->config->counters->dropped_fragment++;
        drop_stored(stream, stream->next);
        lose_frame(stream, stream->next);
        return true;
    }
    if (!(shared ? take_shared(stream, data, len_bytes)
                 : take_part(stream, flags, total_bytes, data, len_bytes))) {
        return false;
    }
    stream->shared_bytes = 0;
    for (uint32_t i = 0; i < frames; i++) {
        drop_stored(stream, stream->next++); /* pieces of the frame may have been stored */
    }
    return true;
}

/** Deliver stored frames up to the first missing one. */
static void take_stored(struct rawe_group_stream *stream)
{
    while (rawe_sequence_before(stream->next, stream->end) && !lacks(stream, stream->next)) {
        const struct rawe_group_stored *frame = *slot_of(stream, stream->next);
        if (!take(stream, 1, frame->flags, frame->total_bytes, frame->data, frame->len_bytes)) {
            return;
        }
    }
}

/** Return a number before which all members have acknowledged all frames; the window ensures it. */
static uint32_t acked_by_all(const struct rawe_group_stream *stream)
{
    return stream->next - stream->config->window_frames;
}

/**
 * Acknowledge for the subtree once it has all frames that the root asked about. Without memory, the
 * acknowledgement is still owed, so this member stays, and answers when the root asks again.
 */
static void answer_tree(struct rawe_group_stream *stream)
{
    const struct rawe_group_config *config = stream->config;
    const uint32_t next = rawe_group_least(config, stream->root, stream->children,
                                           acked_by_all(stream), stream->next);
    if (stream->owes && !rawe_sequence_before(next, stream->ask)) {
        const uint32_t position = rawe_group_position(config, config->self, stream->root);
        const uint32_t parent = (position - 1) / RAWE_GROUP_CHILDREN;
        const struct rawe_group_control control = {
            .type = RAWE_GROUP_ACK, .root = (uint16_t)stream->root, .sequence = next};
        if (rawe_group_send_control(config, (stream->root + parent) % config->members, &control,
                                    NULL)) {
            stream->owes = false;
            stream->acked = next;
            config->counters->acks_sent++;
        }
    }
}

void rawe_group_stream_acked(struct rawe_group_stream *stream, uint32_t from, uint32_t next)
{
    if (rawe_group_acked(stream->config, stream->root, stream->children, acked_by_all(stream), from,
                         next)) {
        answer_tree(stream);
    }
}

/** Note that all frames before `end` exist. Returns false, and counts the frame, if they cannot. */
static bool learn_end(struct rawe_group_stream *stream, uint32_t end)
{
    if (rawe_sequence_before(stream->next + stream->config->window_frames, end)) {
        stream->config->counters->dropped_outside++;
        return false;
    }
    stream->end = rawe_sequence_before(stream->end, end) ? end : stream->end;
    return true;
}

/** Return true if a frame with these flags requests an acknowledgement that is still owed. */
static bool asks_for_ack(const struct rawe_group_stream *stream, uint8_t flags, uint32_t end)
{
    return (flags & RAWE_GROUP_FLAG_ASK) != 0 && rawe_sequence_before(stream->acked, end);
}

/** Acknowledge if requested (`ask`), and plan a NACK if frames are missing. */
static void plan_answer(struct rawe_group_stream *stream, bool ask, uint32_t end, uint64_t now_ns)
{
    if (ask) {
        stream->ask = stream->owes && rawe_sequence_before(end, stream->ask) ? stream->ask : end;
        stream->owes = true;
    }
    answer_tree(stream);
    expect_missing(stream, now_ns);
}

/** Allocate memory for a frame that must wait; NULL when out of memory. */
static struct rawe_group_stored *store(struct rawe_group_stream *stream, uint32_t sequence,
                                       uint8_t flags, uint32_t total_bytes, uint16_t len_bytes)
{
    struct rawe_group_stored *frame = malloc(sizeof(*frame) + len_bytes);
    drop_stored(stream, sequence);
    if (frame != NULL && stream->stored == NULL) {
        stream->stored = calloc(stream->config->window_frames, sizeof(*stream->stored));
    }
    if (frame == NULL || stream->stored == NULL) {
        free(frame);
        stream->config->counters->no_buffer++;
        lose_frame(stream, sequence);
        return NULL;
    }
    *frame = (struct rawe_group_stored){
        .total_bytes = total_bytes, .len_bytes = len_bytes, .flags = flags};
    *slot_of(stream, sequence) = frame;
    stream->stored_frames++;
    return frame;
}

/** Return true if the frame was received before, and count it. */
static bool is_duplicate(struct rawe_group_stream *stream, uint32_t sequence)
{
    const bool duplicate = rawe_sequence_before(sequence, stream->next) || !lacks(stream, sequence);
    stream->config->counters->duplicates += duplicate;
    return duplicate;
}

static void receive_single(struct rawe_group_stream *stream, const struct rawe_group_header *header,
                           const uint8_t *data)
{
    const uint32_t sequence = header->sequence;
    if (is_duplicate(stream, sequence)) {
        return;
    }
    if (sequence == stream->next &&
        take(stream, 1, header->flags, header->total_bytes, data, header->payload_bytes)) {
        take_stored(stream);
        return;
    }
    struct rawe_group_stored *frame =
        store(stream, sequence, header->flags, header->total_bytes, header->payload_bytes);
    if (frame != NULL) {
        memcpy(frame->data, data, header->payload_bytes);
    } else if (sequence == stream->next) {
        stream->refused = false;
    }
}

/** Return true if the frame or batch is next and no part of it is stored. */
static bool is_whole(const struct rawe_group_stream *stream, const struct rawe_group_header *header)
{
    return header->sequence == stream->next && stream->stored_frames == 0;
}

static void receive_parts(struct rawe_group_stream *stream, const struct rawe_group_header *header,
                          const uint8_t *data)
{
    struct rawe_group_header frame = *header;
    const uint32_t segment_bytes = header->segment_bytes;
    uint32_t left_bytes = header->payload_bytes;
    /* Some networks pass only one of the two, so batches prove nothing about frames. */
    stream->heard = stream->heard || segment_bytes == 0;
    stream->batches = stream->batches || segment_bytes != 0;
    if (segment_bytes == 0) {
        receive_single(stream, header, data);
        return;
    }
    if (is_whole(stream, header) && take(stream, rawe_group_frames(header), header->flags,
                                         header->total_bytes, data, left_bytes)) {
        return;
    }
    for (; left_bytes != 0; frame.sequence++) {
        frame.payload_bytes = (uint16_t)(left_bytes < segment_bytes ? left_bytes : segment_bytes);
        receive_single(stream, &frame, data);
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
    return is_whole(stream, header) && continues_message(stream, part.total_bytes, part.len_bytes)
               ? stream->config->place(stream->config->context, &part)
               : NULL;
}

void rawe_group_stream_receive(struct rawe_group_stream *stream,
                               const struct rawe_group_header *header, const uint8_t *payload,
                               uint64_t now_ns)
{
    const uint32_t end = header->sequence + rawe_group_frames(header);
    if (learn_end(stream, end)) {
        receive_parts(stream, header, payload);
        plan_answer(stream, asks_for_ack(stream, header->flags, end), end, now_ns);
    }
}

void rawe_group_stream_repair(struct rawe_group_stream *stream,
                              const struct rawe_group_control *control, uint64_t now_ns)
{
    const uint32_t sequence = control->sequence, at_bytes = control->piece * RAWE_GROUP_PIECE_BYTES;
    const uint32_t len_bytes = control->payload_bytes;
    const uint32_t pieces =
        len_bytes == 0 ? 1 : (len_bytes + RAWE_GROUP_PIECE_BYTES - 1) / RAWE_GROUP_PIECE_BYTES;
    if (!learn_end(stream, sequence + 1) || is_duplicate(stream, sequence)) {
        return;
    }
    struct rawe_group_stored *frame = stream->stored == NULL ? NULL : *slot_of(stream, sequence);
    if (frame == NULL) {
        frame = store(stream, sequence, control->flags, control->total_bytes, (uint16_t)len_bytes);
        if (frame != NULL) {
            frame->missing = UINT64_MAX >> (RAWE_GROUP_PIECES_MAX - pieces);
        }
    }
    if (frame != NULL && frame->len_bytes == len_bytes) {
        memcpy(frame->data + at_bytes, control->data, control->data_bytes);
        frame->missing &= ~(UINT64_C(1) << control->piece);
        take_stored(stream);
    }
    plan_answer(stream, asks_for_ack(stream, control->flags, sequence + 1), sequence + 1, now_ns);
}

void rawe_group_stream_status(struct rawe_group_stream *stream,
                              const struct rawe_group_control *control, uint64_t now_ns)
{
    const bool again = (control->flags & RAWE_GROUP_FLAG_AGAIN) != 0;
    if (!learn_end(stream, control->sequence)) {
        return;
    }
    if (again) { /* a message may have been lost when out of memory */
        stream->asked = stream->next;
    }
    rawe_group_send_down(stream->config, stream->root, stream->children, acked_by_all(stream),
                         control->flags, control->sequence);
    plan_answer(stream, again || rawe_sequence_before(stream->acked, control->sequence),
                control->sequence, now_ns);
}

/** Request missing frames from the root. */
static void send_nack(struct rawe_group_stream *stream)
{
    uint8_t bitmap[RAWE_GROUP_NACK_BYTES_MAX] = {0};
    struct rawe_group_control control = {
        .type = RAWE_GROUP_NACK, .root = (uint16_t)stream->root, .sequence = stream->next};
    uint32_t left = RAWE_GROUP_NACK_FRAMES;
    uint32_t i = first_missing(stream, stream->asked);
    for (; left != 0 && rawe_sequence_before(i, stream->nack_end); i++) {
        const uint32_t bit = i - stream->next;
        if (lacks(stream, i)) {
            left--;
            bitmap[bit / 8] |= (uint8_t)(1u << bit % 8);
            control.data_bytes = (uint16_t)(bit / 8 + 1);
        }
    }
    if (control.data_bytes != 0) {
        stream->asked = i;
        stream->config->counters->nacks_sent++;
        (void)rawe_group_send_control(stream->config, stream->root, &control, bitmap);
    }
}

void rawe_group_stream_progress(struct rawe_group_stream *stream, bool withheld, uint64_t now_ns)
{
    if (stream->refused) {
        take_stored(stream);
        answer_tree(stream);
        expect_missing(stream, now_ns);
    }
    if (stream->nack_ns == 0 || stream->nack_ns > now_ns) {
        return;
    }
    stream->nack_ns = withheld ? now_ns + RAWE_GROUP_NACK_NS : 0;
    if (!withheld) {
        send_nack(stream);
        expect_missing(stream, now_ns);
    }
}
