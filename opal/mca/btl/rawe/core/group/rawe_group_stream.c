/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * What a member of a group receives from other roots: frames in order, NACKs for what is missing,
 * acknowledgements by the tree. See rawe_group.h.
 */
#include "rawe_group_internal.h"

#include <stdlib.h>
#include <string.h>

#include "base/rawe_crc32c.h"

/** A frame that came before an earlier one, or that was not delivered yet. */
struct rawe_group_stored {
    uint32_t total_bytes; /**< of its message */
    uint16_t len_bytes;
    uint8_t data[];
};

struct rawe_bytes rawe_group_seal(const struct rawe_group *group, uint8_t *bytes,
                                  struct rawe_group_header *header)
{
    size_t len_bytes = RAWE_GROUP_HEADER_BYTES + header->payload_bytes;
    header->sender = (uint16_t)group->config.self;
    header->key = group->config.key;
    header->id = group->config.id;
    header->flags |= group->config.checksum ? RAWE_FLAG_CHECKSUM : 0;
    rawe_group_header_encode(bytes, header);
    if (group->config.checksum) {
        rawe_checksum_encode(bytes + len_bytes, rawe_crc32c(0, bytes, len_bytes));
        len_bytes += RAWE_CHECKSUM_BYTES;
    }
    return (struct rawe_bytes){bytes, len_bytes};
}

static bool unicast(const struct rawe_group *group, uint32_t member, const struct rawe_bytes *frame)
{
    return group->config.output.unicast(group->config.output.context, member, frame);
}

uint32_t rawe_group_position(const struct rawe_group *group, uint32_t member, uint32_t root)
{
    return (member + group->config.members - root) % group->config.members;
}

/** An ACK that is lost, or that the link has no room for, is asked for again. */
static void send_ack(struct rawe_group *group, uint32_t to, uint32_t root, uint32_t next,
                     uint8_t flags)
{
    uint8_t bytes[RAWE_GROUP_CONTROL_BYTES_MAX];
    struct rawe_group_header header = {.type = RAWE_GROUP_ACK,
                                       .flags = flags,
                                       .acked_root = (uint16_t)root,
                                       .acknowledgement = next};
    struct rawe_bytes frame = rawe_group_seal(group, bytes, &header);
    group->counters.acks_sent += unicast(group, to, &frame);
}

static struct rawe_group_stream *stream_of(struct rawe_group *group, uint32_t root, uint64_t now_ns)
{
    struct rawe_group_member *member = &group->members[root];
    if (member->stream == NULL) {
        struct rawe_group_stream *stream = calloc(1, sizeof(*stream));
        if (stream == NULL) {
            group->counters.no_buffer++;
            return NULL;
        }
        stream->root = root;
        stream->heard_ns = now_ns;
        stream->retry_ns = RAWE_GROUP_RETRY_NS;
        stream->next = stream->end = stream->acked = stream->ask = rawe_group_first_sequence(group);
        for (uint32_t i = 0; i < RAWE_GROUP_CHILDREN; i++) {
            stream->children[i] = stream->next;
        }
        member->stream = stream;
    }
    return member->stream;
}

static struct rawe_group_stored **slot_of(const struct rawe_group *group,
                                          const struct rawe_group_stream *stream, uint32_t sequence)
{
    return &stream->stored[sequence & (group->config.window_frames - 1)];
}

static void drop_stored(struct rawe_group *group, struct rawe_group_stream *stream,
                        struct rawe_group_stored **slot)
{
    free(*slot);
    *slot = NULL;
    group->stored--;
    if (--stream->stored_frames == 0) {
        free(stream->stored);
        stream->stored = NULL;
    }
}

void rawe_group_stream_free(struct rawe_group *group, uint32_t root)
{
    struct rawe_group_stream *stream = group->members[root].stream;
    if (stream == NULL) {
        return;
    }
    struct rawe_group_stream **link = &group->waiting;
    while (stream->waiting && *link != stream) {
        link = &(*link)->next_waiting;
    }
    if (stream->waiting) {
        *link = stream->next_waiting;
    }
    for (uint32_t i = stream->next; stream->stored != NULL; i++) {
        if (*slot_of(group, stream, i) != NULL) {
            drop_stored(group, stream, slot_of(group, stream, i));
        }
    }
    group->members[root].stream = NULL;
    free(stream);
}

static void wait_for(struct rawe_group *group, struct rawe_group_stream *stream)
{
    if (!stream->waiting) {
        stream->waiting = true;
        stream->next_waiting = group->waiting;
        group->waiting = stream;
    }
}

static bool lacks(const struct rawe_group *group, const struct rawe_group_stream *stream,
                  uint32_t sequence)
{
    return stream->stored == NULL || *slot_of(group, stream, sequence) == NULL;
}

/** Something is missing now: ask for it, unless it comes in time. */
static void set_nack(const struct rawe_group *group, struct rawe_group_stream *stream,
                     uint64_t now_ns)
{
    const uint32_t hash = (group->config.self * 0x9E3779B9u ^ stream->next) * 0x85EBCA6Bu;
    const uint64_t spread_ns = (uint64_t)group->config.members * RAWE_GROUP_SPREAD_NS;
    stream->nack_end = stream->end;
    stream->nack_ns = now_ns + RAWE_GROUP_NACK_NS + (hash * spread_ns >> 32);
    stream->retry_ns = RAWE_GROUP_RETRY_NS;
}

/** Set the timer for what is missing, or for a message of which more is to come. */
static void expect(struct rawe_group *group, struct rawe_group_stream *stream, uint64_t now_ns)
{
    const bool gap = stream->end - stream->next != stream->stored_frames;
    if (gap && !stream->gap) {
        set_nack(group, stream, now_ns);
    } else if (gap) {
        stream->nack_ns = rawe_group_earlier(stream->nack_ns, now_ns + stream->retry_ns);
    } else {
        stream->nack_ns = stream->at_bytes != 0 ? now_ns + RAWE_GROUP_RETRY_MAX_NS : 0;
    }
    stream->gap = gap;
    if (stream->nack_ns != 0 || stream->refused) {
        wait_for(group, stream);
    }
}

enum taken { TAKEN, TAKEN_NOT, TAKEN_NEVER };

/** Deliver the frame that is next. */
static enum taken take(struct rawe_group *group, struct rawe_group_stream *stream,
                       uint32_t total_bytes, const uint8_t *data, uint32_t len_bytes)
{
    if (stream->at_bytes != 0 &&
        (total_bytes != stream->total_bytes || len_bytes > total_bytes - stream->at_bytes)) {
        group->counters.dropped_fragment++;
        return TAKEN_NEVER;
    }
    const struct rawe_group_part part = {stream->root, total_bytes, stream->at_bytes, len_bytes,
                                         data};
    stream->refused = !group->config.deliver(group->config.context, &part);
    if (stream->refused) {
        return TAKEN_NOT;
    }
    stream->total_bytes = total_bytes;
    stream->at_bytes += len_bytes;
    if (stream->at_bytes == total_bytes) {
        stream->at_bytes = 0;
        group->counters.messages_delivered++;
    }
    stream->next++;
    stream->retry_ns = RAWE_GROUP_RETRY_NS;
    return TAKEN;
}

/** Deliver what waits, as far as nothing is missing. */
static void take_stored(struct rawe_group *group, struct rawe_group_stream *stream)
{
    while (stream->next != stream->end && !lacks(group, stream, stream->next)) {
        struct rawe_group_stored **slot = slot_of(group, stream, stream->next);
        const struct rawe_group_stored *frame = *slot;
        if (take(group, stream, frame->total_bytes, frame->data, frame->len_bytes) == TAKEN_NOT) {
            return;
        }
        drop_stored(group, stream, slot);
    }
}

/** Acknowledge for all members below, once they and this one have what the root asked for. */
static void answer_tree(struct rawe_group *group, struct rawe_group_stream *stream)
{
    const uint32_t place = rawe_group_position(group, group->config.self, stream->root);
    const uint64_t child = (uint64_t)place * RAWE_GROUP_CHILDREN + 1;
    uint32_t next = stream->next;
    for (uint32_t i = 0; i < RAWE_GROUP_CHILDREN && child + i < group->config.members; i++) {
        next = rawe_sequence_before(stream->children[i], next) ? stream->children[i] : next;
    }
    if (stream->asked && !rawe_sequence_before(next, stream->ask)) {
        const uint32_t parent = (place - 1) / RAWE_GROUP_CHILDREN;
        stream->asked = false;
        send_ack(group, (uint32_t)(((uint64_t)stream->root + parent) % group->config.members),
                 stream->root, next, RAWE_GROUP_FLAG_SUBTREE);
    }
}

void rawe_group_stream_acked(struct rawe_group *group, const struct rawe_group_header *header,
                             uint64_t now_ns)
{
    const uint32_t root = header->acked_root;
    if (root >= group->config.members || group->members[root].failed) {
        group->counters.dropped_member++;
        return;
    }
    const uint32_t child =
        rawe_group_position(group, group->config.self, root) * RAWE_GROUP_CHILDREN + 1;
    const uint32_t place = rawe_group_position(group, header->sender, root) - child;
    struct rawe_group_stream *stream =
        place < RAWE_GROUP_CHILDREN ? stream_of(group, root, now_ns) : NULL;
    if (stream == NULL) {
        group->counters.dropped_member += place >= RAWE_GROUP_CHILDREN;
        return;
    }
    if (rawe_sequence_before(stream->children[place], header->acknowledgement)) {
        stream->children[place] = header->acknowledgement;
        answer_tree(group, stream);
    }
}

/** Keep a frame until those before it have come. False without room. */
static bool store(struct rawe_group *group, struct rawe_group_stream *stream,
                  const struct rawe_group_header *header, const uint8_t *data)
{
    if (stream->stored == NULL && group->stored < group->config.stored_max) {
        stream->stored = calloc(group->config.window_frames, sizeof(struct rawe_group_stored *));
    }
    struct rawe_group_stored *frame =
        stream->stored == NULL || group->stored >= group->config.stored_max
            ? NULL
            : malloc(sizeof(*frame) + header->payload_bytes);
    if (frame == NULL) {
        if (stream->stored_frames == 0) {
            free(stream->stored);
            stream->stored = NULL;
        }
        return false;
    }
    frame->total_bytes = header->total_bytes;
    frame->len_bytes = header->payload_bytes;
    memcpy(frame->data, data, header->payload_bytes);
    *slot_of(group, stream, header->sequence) = frame;
    stream->stored_frames++;
    group->stored++;
    return true;
}

static void receive_data(struct rawe_group *group, struct rawe_group_stream *stream,
                         const struct rawe_group_header *header, const uint8_t *data)
{
    const uint32_t sequence = header->sequence;
    if (rawe_sequence_before(sequence, stream->next) || !lacks(group, stream, sequence)) {
        group->counters.duplicates++;
        return;
    }
    if (!rawe_sequence_before(sequence, stream->end)) {
        stream->end = sequence + 1;
    }
    enum taken taken = TAKEN_NOT;
    if (sequence == stream->next) {
        taken = take(group, stream, header->total_bytes, data, header->payload_bytes);
    }
    if (taken == TAKEN_NOT && !store(group, stream, header, data)) {
        group->counters.no_buffer++;
        stream->refused = stream->refused && sequence != stream->next; /* it is missing again */
        return;
    }
    group->counters.frames_received += taken != TAKEN_NEVER;
    if (taken == TAKEN) {
        take_stored(group, stream);
    }
}

static bool is_listed(const struct rawe_group *group, const struct rawe_group_header *header,
                      const uint8_t *list)
{
    for (unsigned i = 0; i < header->payload_bytes / 2u; i++) {
        if (rawe_group_member_decode(list, i) == group->config.self) {
            return true;
        }
    }
    return false;
}

void rawe_group_stream_receive(struct rawe_group *group, const struct rawe_group_header *header,
                               const uint8_t *payload, uint64_t now_ns)
{
    struct rawe_group_stream *stream = stream_of(group, header->sender, now_ns);
    const bool data = header->type == RAWE_GROUP_DATA;
    if (stream == NULL) {
        return;
    }
    /* Behind the last frame that it says there is. */
    const uint32_t end = header->sequence + data;
    if (rawe_sequence_before(stream->next + group->config.window_frames, end)) {
        group->counters.dropped_outside++;
        return;
    }
    stream->heard_ns = now_ns;
    stream->tries = 0;
    if (data) {
        receive_data(group, stream, header, payload);
    } else if (rawe_sequence_before(stream->end, end)) {
        stream->end = end;
    }
    if ((header->flags & RAWE_GROUP_FLAG_ASK) != 0 && !rawe_sequence_before(end, stream->ask)) {
        stream->ask = end;
        stream->asked = true;
    }
    answer_tree(group, stream);
    if (!data && is_listed(group, header, payload)) {
        send_ack(group, stream->root, stream->root, stream->next, 0);
    }
    expect(group, stream, now_ns);
}

/** Ask for what is missing, as far as there is room for it. False: it has come in the meantime. */
static bool send_nack(struct rawe_group *group, const struct rawe_group_stream *stream)
{
    const uint32_t room = group->config.stored_max - group->stored;
    /* The next frame is delivered, and needs none. */
    uint32_t left = room + lacks(group, stream, stream->next);
    bool missing = false;
    uint8_t bytes[RAWE_GROUP_CONTROL_BYTES_MAX] = {0};
    uint8_t *bitmap = bytes + RAWE_GROUP_HEADER_BYTES;
    struct rawe_group_header header = {.type = RAWE_GROUP_NACK,
                                       .acked_root = (uint16_t)stream->root,
                                       .acknowledgement = stream->next};
    for (uint32_t i = stream->next; rawe_sequence_before(i, stream->nack_end); i++) {
        const uint32_t bit = i - stream->next;
        missing = missing || lacks(group, stream, i);
        if (left != 0 && lacks(group, stream, i)) {
            left--;
            bitmap[bit / 8] |= (uint8_t)(1u << bit % 8);
            header.payload_bytes = (uint16_t)(bit / 8 + 1);
        }
    }
    if (header.payload_bytes != 0) {
        const struct rawe_bytes frame = rawe_group_seal(group, bytes, &header);
        group->counters.nacks_sent += unicast(group, stream->root, &frame);
    }
    return missing;
}

/** What a root was expected to send has not come. False: it has been silent for too long. */
static bool ask_again(struct rawe_group *group, struct rawe_group_stream *stream, uint64_t now_ns)
{
    if (stream->tries >= RAWE_GROUP_QUESTIONS &&
        now_ns - stream->heard_ns >= group->config.fail_ns) {
        return false;
    }
    stream->tries = (uint8_t)(stream->tries + (stream->tries < RAWE_GROUP_QUESTIONS));
    if (!stream->gap) {
        stream->nack_ns = now_ns + RAWE_GROUP_RETRY_MAX_NS;
    } else if (!send_nack(group, stream)) {
        set_nack(group, stream, now_ns);
    } else {
        stream->nack_end = stream->end;
        stream->nack_ns = now_ns + stream->retry_ns;
        stream->retry_ns = 2 * stream->retry_ns < RAWE_GROUP_RETRY_MAX_NS ? 2 * stream->retry_ns
                                                                          : RAWE_GROUP_RETRY_MAX_NS;
    }
    return true;
}

bool rawe_group_stream_progress(struct rawe_group *group, struct rawe_group_stream *stream,
                                uint64_t now_ns)
{
    if (stream->refused) {
        take_stored(group, stream);
        answer_tree(group, stream);
        expect(group, stream, now_ns);
    }
    if (stream->nack_ns != 0 && stream->nack_ns <= now_ns && !ask_again(group, stream, now_ns)) {
        return false;
    }
    if (stream->nack_ns != 0 || stream->refused) {
        wait_for(group, stream);
    }
    return true;
}
