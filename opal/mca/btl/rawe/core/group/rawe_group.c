/* SPDX-License-Identifier: BSD-3-Clause */
#include "rawe_group.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "rawe_group_stream.h"

/** Members that a frame is repaired for by unicast, at most. */
#define NACKS_UNICAST 2u

/** Heartbeats that ask the tree for the same frames. */
#define TREE_REPEATS_MAX 3u

/** A frame of the window. */
struct rawe_group_frame {
    uint8_t *bytes;        /**< header, payload, room for a checksum; in a batch: payload only */
    uint8_t *memory;       /**< to free with the frame; of a batch, with its last */
    uint32_t batch_frames; /**< of its batch, from this one on; 0: it goes alone */
    struct rawe_group_header header;
    uint64_t repaired_ns;              /**< 0: never */
    uint16_t nack_from[NACKS_UNICAST]; /**< the first that asked for it */
    uint8_t nacks;    /**< how many did; one more than nack_from has room for: repair for all */
    uint8_t repaired; /**< how many of these have had their repair */
};

void rawe_group_init(struct rawe_group *group, const struct rawe_group_config *config)
{
    assert(config->members >= 2 && config->members <= RAWE_GROUP_NO_ROOT &&
           config->self < config->members);
    assert(config->window_frames >= 2 && config->window_frames <= RAWE_WINDOW_FRAMES_MAX &&
           (config->window_frames & (config->window_frames - 1)) == 0);
    assert(config->payload_bytes >= RAWE_GROUP_NACK_BYTES_MAX &&
           config->payload_bytes <= UINT16_MAX && config->segment_bytes <= config->payload_bytes);
    *group = (struct rawe_group){.config = *config};
    group->base = group->sent = group->next = group->tree_asked = rawe_group_first_sequence(config);
}

/** The record of all members, when the first frame comes or goes. False without memory. */
static bool have_members(struct rawe_group *group)
{
    if (group->members == NULL) {
        group->members = calloc(group->config.members, sizeof(*group->members));
        for (uint32_t i = 0; group->members != NULL && i < group->config.members; i++) {
            group->members[i].acked = rawe_group_first_sequence(&group->config);
        }
    }
    group->config.counters->no_buffer += group->members == NULL;
    return group->members != NULL;
}

/** Acknowledge one of the streams whose root has not been told of all that came, by turns. */
static void piggyback(struct rawe_group *group, struct rawe_group_header *header)
{
    for (uint32_t i = 0; i < RAWE_GROUP_CHILDREN; i++) {
        const uint32_t root = group->ack_cursor;
        struct rawe_group_stream *stream = group->members[root].stream;
        group->ack_cursor = (root + 1) % group->config.members;
        if (stream != NULL && rawe_group_stream_piggyback(stream, header)) {
            return;
        }
    }
}

static struct rawe_group_frame *frame_at(const struct rawe_group *group, uint32_t sequence)
{
    return &group->window[sequence & (group->config.window_frames - 1)];
}

/** All members have the frames before `base`. */
static void release(struct rawe_group *group, uint32_t base)
{
    for (; group->base != base; group->base++) {
        struct rawe_group_frame *frame = frame_at(group, group->base);
        free(frame->memory);
        frame->memory = NULL;
    }
    if (group->base == group->next) {
        free(group->window);
        group->window = NULL;
        group->heartbeat_ns = group->repair_ns = 0;
    }
}

/** What all members have acknowledged may be more than before. */
static void find_base(struct rawe_group *group)
{
    const uint32_t first = group->slowest;
    uint32_t base = group->next;
    for (uint32_t i = 0; i < group->config.members && base != group->base; i++) {
        const uint32_t index = (first + i) % group->config.members;
        const uint32_t acked = group->members[index].acked;
        if (index != group->config.self && rawe_sequence_before(acked, base)) {
            base = acked;
            group->slowest = index;
        }
    }
    release(group, base);
}

static void acknowledge(struct rawe_group *group, uint32_t index, uint32_t next)
{
    struct rawe_group_member *member = &group->members[index];
    if (!rawe_sequence_before(member->acked, next)) {
        return;
    }
    const bool was_at_base = member->acked == group->base;
    member->acked = next;
    if (group->heartbeats > 2) {
        group->heartbeats = 2; /* there is progress: ask the others sooner */
    }
    if (was_at_base) {
        find_base(group);
    }
}

/** The same for the member and all below it in our tree. */
static void acknowledge_subtree(struct rawe_group *group, uint32_t index, uint32_t next)
{
    const uint64_t members = group->config.members;
    uint64_t low = rawe_group_position(&group->config, index, group->config.self);
    for (uint64_t high = low; low < members;
         low = RAWE_GROUP_CHILDREN * low + 1, high = RAWE_GROUP_CHILDREN * (high + 1)) {
        for (uint64_t p = low; p <= high && p < members; p++) {
            acknowledge(group, (uint32_t)((group->config.self + p) % members), next);
        }
    }
}

/** Memory for what is put into the window next. NULL: there is none, or none for the window. */
static uint8_t *frame_memory(struct rawe_group *group, size_t len_bytes)
{
    if (group->window == NULL) {
        group->window = calloc(group->config.window_frames, sizeof(*group->window));
    }
    return group->window == NULL ? NULL : malloc(len_bytes);
}

/** The frame `next` of the window, of which `window_frames` may be used for now. */
static struct rawe_group_frame *number_frame(struct rawe_group *group, uint32_t window_frames,
                                             uint8_t *bytes, uint8_t *memory)
{
    struct rawe_group_frame *frame = frame_at(group, group->next);
    *frame = (struct rawe_group_frame){.bytes = bytes,
                                       .memory = memory,
                                       .header = {.type = RAWE_GROUP_DATA,
                                                  .sequence = group->next,
                                                  .acked_root = RAWE_GROUP_NO_ROOT}};
    group->next++;
    group->held_ns = 0;
    const uint32_t asked =
        rawe_sequence_before(group->tree_asked, group->base) ? group->base : group->tree_asked;
    if (group->next - asked >= window_frames / 2) {
        frame->header.flags |= RAWE_GROUP_FLAG_ASK;
        group->tree_asked = group->next;
        group->tree_repeats = 0;
    }
    return frame;
}

/** With `payload_bytes` of room, the frame `next` of the window. NULL without memory. */
static struct rawe_group_frame *add_frame(struct rawe_group *group, uint32_t payload_bytes)
{
    uint8_t *bytes =
        frame_memory(group, RAWE_GROUP_HEADER_BYTES + payload_bytes + (size_t)RAWE_CHECKSUM_BYTES);
    return bytes == NULL ? NULL : number_frame(group, group->config.window_frames, bytes, bytes);
}

/** Let a message share the last frame. False: it does not wait, or the message does not fit. */
static bool join_frame(struct rawe_group *group, struct rawe_group_send *send)
{
    struct rawe_group_frame *frame = group->held_ns == 0 ? NULL : frame_at(group, group->next - 1);
    const uint32_t room_bytes =
        frame == NULL ? 0 : group->config.payload_bytes - frame->header.payload_bytes;
    if (room_bytes < RAWE_GROUP_SHARED_BYTES ||
        send->len_bytes > room_bytes - RAWE_GROUP_SHARED_BYTES) {
        return false;
    }
    const uint32_t end_bytes =
        rawe_group_shared_add(frame->bytes + RAWE_GROUP_HEADER_BYTES, frame->header.payload_bytes,
                              send->data, send->len_bytes);
    frame->header.payload_bytes = (uint16_t)end_bytes;
    frame->header.total_bytes = end_bytes;
    send->framed_bytes = send->len_bytes;
    if (end_bytes + RAWE_GROUP_SHARED_BYTES + send->len_bytes > group->config.payload_bytes) {
        group->held_ns = 0; /* it is full */
    }
    return true;
}

/** Begin a frame that waits for other messages. False without memory. */
static bool hold_frame(struct rawe_group *group, struct rawe_group_send *send, uint64_t now_ns)
{
    struct rawe_group_frame *frame = add_frame(group, group->config.payload_bytes);
    if (frame == NULL) {
        return false;
    }
    frame->header.flags |= RAWE_GROUP_FLAG_SHARED;
    group->held_ns = now_ns;
    return join_frame(group, send);
}

/** Put the next part of a message into the window. False without memory. */
static bool frame_part(struct rawe_group *group, struct rawe_group_send *send)
{
    const uint32_t left_bytes = send->len_bytes - send->framed_bytes;
    const uint32_t part_bytes =
        left_bytes < group->config.payload_bytes ? left_bytes : group->config.payload_bytes;
    struct rawe_group_frame *frame = add_frame(group, part_bytes);
    if (frame == NULL) {
        return false;
    }
    if (part_bytes != 0) {
        memcpy(frame->bytes + RAWE_GROUP_HEADER_BYTES, send->data + send->framed_bytes, part_bytes);
    }
    frame->header.payload_bytes = (uint16_t)part_bytes;
    frame->header.total_bytes = send->len_bytes;
    send->framed_bytes += part_bytes;
    return true;
}

/**
 * Put the next parts of a message into the window as a batch; all of its batches are about as long,
 * and at most half of the window, so that acknowledgements make room for the next. Of short ones fewer
 * frames are in flight. False without room, or memory.
 */
static bool frame_batch(struct rawe_group *group, struct rawe_group_send *send)
{
    const struct rawe_group_config *config = &group->config;
    const uint32_t segment_bytes = config->segment_bytes;
    const uint32_t left_bytes = send->len_bytes - send->framed_bytes;
    const uint32_t left = (left_bytes - 1) / segment_bytes + 1;
    uint32_t most = *config->output.batch_bytes < RAWE_BATCH_BYTES_MAX
                        ? *config->output.batch_bytes / segment_bytes
                        : RAWE_BATCH_BYTES_MAX / segment_bytes;
    most = most < RAWE_BATCH_FRAMES_MAX ? most : RAWE_BATCH_FRAMES_MAX;
    most = most < config->window_frames / 2 ? most : config->window_frames / 2;
    most = most != 0 ? most : 1;
    const uint32_t batches = (left + most - 1) / most;
    const uint32_t frames = (left + batches - 1) / batches;
    const uint32_t bytes = frames < left ? frames * segment_bytes : left_bytes;
    const uint32_t window_frames = frames * RAWE_GROUP_BATCHES_MAX < config->window_frames
                                       ? frames * RAWE_GROUP_BATCHES_MAX
                                       : config->window_frames;
    uint8_t *memory =
        group->next - group->base + frames > window_frames ? NULL : frame_memory(group, bytes);
    if (memory == NULL) {
        return false;
    }
    memcpy(memory, send->data + send->framed_bytes, bytes);
    for (uint32_t i = 0; i < frames; i++) {
        const bool last = i + 1 == frames;
        struct rawe_group_frame *frame = number_frame(
            group, window_frames, memory + (size_t)i * segment_bytes, last ? memory : NULL);
        frame->batch_frames = frames - i;
        frame->header.payload_bytes = (uint16_t)(last ? bytes - i * segment_bytes : segment_bytes);
        frame->header.total_bytes = send->len_bytes;
    }
    send->framed_bytes += bytes;
    return true;
}

/** May this message wait, if it has a frame of its own? Two of its length are to fit one. */
static bool waits(const struct rawe_group *group, const struct rawe_group_send *send)
{
    return send->may_wait && group->config.share_from != 0 &&
           group->sent - group->base >= group->config.share_from &&
           send->len_bytes <= group->config.payload_bytes / 2 - RAWE_GROUP_SHARED_BYTES;
}

/** Messages become frames, as far as the window has room. */
static void frame_messages(struct rawe_group *group, uint64_t now_ns)
{
    if (group->framing) {
        return; /* `done` has sent another message: the call that is under way comes to it */
    }
    group->framing = true;
    while (group->first != NULL) {
        struct rawe_group_send *send = group->first;
        const bool placed = join_frame(group, send);
        if (!placed && (group->next - group->base == group->config.window_frames ||
                        !(send->batches        ? frame_batch(group, send)
                          : waits(group, send) ? hold_frame(group, send, now_ns)
                                               : frame_part(group, send)))) {
            break;
        }
        group->held_ns = send->may_wait ? group->held_ns : 0;
        if (placed || send->framed_bytes == send->len_bytes) {
            group->first = send->next;
            send->done(send);
        }
    }
    group->framing = false;
}

/** Acknowledge with a frame of the window, unless it has waited for the link since it did. */
static void piggyback_on(struct rawe_group *group, struct rawe_group_frame *frame)
{
    if (frame->header.acked_root == RAWE_GROUP_NO_ROOT) {
        piggyback(group, &frame->header);
    }
}

/** Transmit the batch that is next. Returns how many frames the link took: all, or none. */
static uint32_t transmit_batch(struct rawe_group *group)
{
    struct rawe_group_frame *first = frame_at(group, group->sent);
    const uint32_t frames = first->batch_frames;
    uint8_t head[RAWE_BATCH_HEADER_BYTES];
    struct rawe_bytes data = {first->bytes, 0};
    piggyback_on(group, first);
    struct rawe_group_header header = first->header;
    for (uint32_t i = 0; i < frames; i++) {
        const struct rawe_group_frame *frame = frame_at(group, group->sent + i);
        header.flags |= frame->header.flags;
        data.len_bytes += frame->header.payload_bytes;
    }
    header.payload_bytes = (uint16_t)data.len_bytes;
    header.segment_bytes = (uint16_t)group->config.segment_bytes;
    rawe_group_sign(&group->config, &header);
    rawe_group_batch_encode(head, &header);
    const bool taken = group->config.output.batch(group->config.output.context, head, &data,
                                                  frames == 1 ? 0 : header.segment_bytes);
    group->config.counters->batches_sent += taken;
    return taken ? frames : 0;
}

/** The same of a frame that goes alone. */
static uint32_t transmit_frame(struct rawe_group *group)
{
    struct rawe_group_frame *frame = frame_at(group, group->sent);
    piggyback_on(group, frame);
    const struct rawe_bytes bytes = rawe_group_seal(&group->config, frame->bytes, &frame->header);
    return rawe_group_transmit(&group->config, RAWE_GROUP_ALL, &bytes);
}

static void transmit(struct rawe_group *group)
{
    const uint32_t end = group->next - (group->held_ns != 0);
    for (uint32_t taken = 1; taken != 0 && group->sent != end; group->sent += taken) {
        taken = frame_at(group, group->sent)->batch_frames != 0 ? transmit_batch(group)
                                                                : transmit_frame(group);
        group->config.counters->frames_sent += taken;
    }
}

/** The window may have room, or the link. The last frame may wait for more messages, or not. */
static void pump(struct rawe_group *group, bool may_wait, uint64_t now_ns)
{
    const uint32_t before = group->sent;
    frame_messages(group, now_ns);
    group->held_ns = may_wait ? group->held_ns : 0;
    transmit(group);
    if (group->sent != before || (group->heartbeat_ns == 0 && !rawe_group_stable(group))) {
        group->heartbeats = 0;
        group->heartbeat_ns = now_ns + RAWE_GROUP_ANNOUNCE_NS; /* without memory: try again */
    }
}

bool rawe_group_send(struct rawe_group *group, struct rawe_group_send *send, uint64_t now_ns)
{
    if (!have_members(group)) {
        return false;
    }
    send->next = NULL;
    send->framed_bytes = 0;
    if (group->first == NULL) {
        group->first = send;
    } else {
        group->last->next = send;
    }
    group->last = send;
    group->config.counters->messages_sent++;
    pump(group, send->may_wait, now_ns);
    group->config.counters->window_stalls += group->first != NULL && group->last == send;
    return true;
}

/** A member asks for a frame. */
static void note_nack(struct rawe_group *group, struct rawe_group_frame *frame, uint16_t member,
                      uint64_t now_ns)
{
    const bool held = frame->repaired_ns != 0 && now_ns - frame->repaired_ns < RAWE_GROUP_HOLD_NS;
    if (frame->repaired == frame->nacks && !held) {
        frame->nacks = frame->repaired = 0; /* members that asked before have it, or ask again */
    }
    bool known = frame->nacks > NACKS_UNICAST;
    for (uint8_t i = 0; i < frame->nacks && !known; i++) {
        known = frame->nack_from[i] == member;
    }
    if (known) {
        return; /* its repair is under way */
    }
    if (frame->nacks < NACKS_UNICAST) {
        frame->nack_from[frame->nacks] = member;
    }
    frame->nacks++;
    if (group->repair_ns == 0) {
        group->repair_ns = now_ns + RAWE_GROUP_COLLECT_NS;
    }
}

static void receive_nack(struct rawe_group *group, const struct rawe_group_header *header,
                         const uint8_t *bitmap, uint64_t now_ns)
{
    for (uint32_t bit = 0; bit < header->payload_bytes * 8u; bit++) {
        const uint32_t sequence = header->acknowledgement + bit;
        if ((bitmap[bit / 8] >> bit % 8 & 1) == 0) {
            continue;
        }
        if (!rawe_sequence_before(sequence, group->sent)) {
            group->config.counters->dropped_outside++;
            return;
        }
        if (!rawe_sequence_before(sequence, group->base)) {
            note_nack(group, frame_at(group, sequence), header->sender, now_ns);
        }
    }
}

/** Send a frame, which these are, again to those that asked for it. False: the link is full. */
static bool repair_with(struct rawe_group *group, struct rawe_group_frame *frame,
                        struct rawe_bytes bytes, uint64_t now_ns)
{
    struct rawe_group_counters *counters = group->config.counters;
    const bool all = frame->nacks > NACKS_UNICAST;
    while (frame->repaired < frame->nacks) {
        const uint32_t to = all ? RAWE_GROUP_ALL : frame->nack_from[frame->repaired];
        if (!rawe_group_transmit(&group->config, to, &bytes)) {
            return false;
        }
        ++*(all ? &counters->repairs_multicast : &counters->repairs_unicast);
        frame->repaired = all ? frame->nacks : frame->repaired + 1;
    }
    frame->repaired_ns = now_ns;
    return true;
}

/** The same of one that may have been sent in a batch. False without memory, too. */
static bool repair_frame(struct rawe_group *group, struct rawe_group_frame *frame, uint64_t now_ns)
{
    const struct rawe_group_config *config = &group->config;
    uint8_t *copy = NULL;
    frame->header.flags |= RAWE_FLAG_RESENT;
    if (frame->batch_frames != 0) {
        copy = malloc(RAWE_GROUP_HEADER_BYTES + (size_t)frame->header.payload_bytes +
                      RAWE_CHECKSUM_BYTES);
        if (copy == NULL) {
            return false;
        }
        memcpy(copy + RAWE_GROUP_HEADER_BYTES, frame->bytes, frame->header.payload_bytes);
    }
    const struct rawe_bytes bytes =
        rawe_group_seal(config, copy != NULL ? copy : frame->bytes, &frame->header);
    const bool taken = repair_with(group, frame, bytes, now_ns);
    free(copy);
    return taken;
}

static void repair(struct rawe_group *group, uint64_t now_ns)
{
    uint32_t repaired = 0;
    group->repair_ns = 0;
    for (uint32_t sequence = group->base; sequence != group->sent; sequence++) {
        struct rawe_group_frame *frame = frame_at(group, sequence);
        if (frame->repaired == frame->nacks) {
            continue;
        }
        if (repaired++ == RAWE_GROUP_REPAIR_FRAMES || !repair_frame(group, frame, now_ns)) {
            group->repair_ns = now_ns + RAWE_GROUP_COLLECT_NS;
            return;
        }
    }
}

/** Write the next members that lag into a heartbeat. Returns the length of the list. */
static uint16_t ask_members(struct rawe_group *group, uint8_t *list)
{
    unsigned count = 0;
    for (uint32_t i = 0; i < group->config.members && count < RAWE_GROUP_ASKED_MAX; i++) {
        const uint32_t index = group->ask_cursor;
        group->ask_cursor = (index + 1) % group->config.members;
        if (index != group->config.self && group->members[index].acked != group->sent) {
            rawe_group_member_encode(list, count++, (uint16_t)index);
        }
    }
    return (uint16_t)(count * 2);
}

/**
 * The root has been silent: say which frames there are. From the second time on, or when messages
 * wait for the window, ask which of them have come: the tree again at first, as one lost ACK keeps
 * back those of all above it, then members one by one, as one that is silent does the same.
 */
static void heartbeat(struct rawe_group *group, uint64_t now_ns)
{
    uint8_t bytes[RAWE_GROUP_CONTROL_BYTES_MAX];
    struct rawe_group_header header = {
        .type = RAWE_GROUP_HEARTBEAT, .sequence = group->sent, .acked_root = RAWE_GROUP_NO_ROOT};
    if (group->base == group->next) {
        group->heartbeat_ns = 0; /* a message waits for memory: `pump` tries again */
        return;
    }
    if (group->heartbeats >= 1 || group->first != NULL) {
        if (group->tree_asked != group->sent) {
            group->tree_asked = group->sent;
            group->tree_repeats = 0;
        }
        if (group->tree_repeats < TREE_REPEATS_MAX) {
            header.flags = RAWE_GROUP_FLAG_ASK;
            group->tree_repeats++;
        } else {
            header.payload_bytes = ask_members(group, bytes + RAWE_GROUP_HEADER_BYTES);
        }
    }
    const uint64_t pause_ns = (uint64_t)RAWE_GROUP_HEARTBEAT_NS << group->heartbeats;
    group->heartbeats += pause_ns < RAWE_GROUP_HEARTBEAT_MAX_NS;
    group->heartbeat_ns = now_ns + pause_ns;
    piggyback(group, &header);
    const struct rawe_bytes frame = rawe_group_seal(&group->config, bytes, &header);
    group->config.counters->heartbeats_sent +=
        rawe_group_transmit(&group->config, RAWE_GROUP_ALL, &frame);
}

/* What comes in. */

/** What a root sends. False without memory. */
static bool have_stream(struct rawe_group *group, uint32_t root)
{
    struct rawe_group_member *member = &group->members[root];
    if (member->stream == NULL) {
        member->stream = rawe_group_stream_new(&group->config, &group->stored, root);
        group->config.counters->no_buffer += member->stream == NULL;
    }
    return member->stream != NULL;
}

static void wait_for(struct rawe_group *group, struct rawe_group_member *member)
{
    if (!member->waiting && rawe_group_stream_waits(member->stream)) {
        member->waiting = true;
        member->next_waiting = group->waiting;
        group->waiting = member;
    }
}

/** An ACK of what another root has sent, by its tree. */
static void receive_subtree(struct rawe_group *group, const struct rawe_group_header *header)
{
    const uint32_t root = header->acked_root;
    if (root >= group->config.members) {
        group->config.counters->dropped_member++;
    } else if (have_stream(group, root)) {
        rawe_group_stream_acked(group->members[root].stream,
                                rawe_group_position(&group->config, header->sender, root),
                                header->acknowledgement);
    }
}

/** A frame, or frames of a batch, of another member of this group. */
static void receive(struct rawe_group *group, const struct rawe_group_header *header,
                    const uint8_t *payload, uint64_t now_ns)
{
    if (!have_members(group)) {
        return;
    }
    struct rawe_group_member *member = &group->members[header->sender];
    const bool about_us = header->acked_root == group->config.self;
    if (about_us && rawe_sequence_before(group->sent, header->acknowledgement)) {
        group->config.counters->dropped_outside++;
        return;
    }
    if (about_us && (header->flags & RAWE_GROUP_FLAG_SUBTREE) != 0) {
        acknowledge_subtree(group, header->sender, header->acknowledgement);
    } else if (about_us) {
        acknowledge(group, header->sender, header->acknowledgement);
    }
    switch (header->type) {
    case RAWE_GROUP_ACK:
        if (!about_us) {
            receive_subtree(group, header);
        }
        break;
    case RAWE_GROUP_NACK:
        if (about_us) {
            receive_nack(group, header, payload, now_ns);
        } else {
            group->config.counters->dropped_member++;
        }
        break;
    default:
        if (have_stream(group, header->sender)) {
            rawe_group_stream_receive(member->stream, header, payload, now_ns);
            wait_for(group, member);
        }
        break;
    }
    pump(group, false, now_ns);
}

void rawe_group_receive(struct rawe_group *group, const uint8_t *bytes, size_t len_bytes,
                        uint64_t now_ns)
{
    struct rawe_group_header header;
    if (rawe_group_open(&group->config, &header, bytes, len_bytes)) {
        receive(group, &header, bytes + RAWE_GROUP_HEADER_BYTES, now_ns);
    }
}

void rawe_group_receive_batch(struct rawe_group *group, const uint8_t *head, size_t head_bytes,
                              const uint8_t *data, size_t data_bytes, uint64_t now_ns)
{
    struct rawe_group_header header;
    if (rawe_group_open_batch(&group->config, &header, head, head_bytes, data_bytes)) {
        receive(group, &header, data, now_ns);
    }
}

uint8_t *rawe_group_place(const struct rawe_group *group, const uint8_t *head, size_t head_bytes,
                          size_t data_bytes)
{
    const struct rawe_group_config *config = &group->config;
    struct rawe_group_header header;
    const struct rawe_group_stream *stream = NULL;
    /* What is dropped is counted when it has been received. */
    if (group->members != NULL &&
        rawe_group_batch_decode(&header, head, head_bytes, data_bytes) == RAWE_DECODE_OK &&
        header.key == config->key && header.id == config->id && header.sender < config->members) {
        stream = group->members[header.sender].stream;
    }
    return stream == NULL ? NULL : rawe_group_stream_place(stream, &header);
}

void rawe_group_progress(struct rawe_group *group, uint64_t now_ns)
{
    struct rawe_group_member *waiting = group->waiting;
    group->waiting = NULL;
    while (waiting != NULL) {
        struct rawe_group_member *member = waiting;
        waiting = member->next_waiting;
        member->waiting = false;
        rawe_group_stream_progress(member->stream, group->withheld, now_ns);
        wait_for(group, member);
    }
    if (group->repair_ns != 0 && group->repair_ns <= now_ns) {
        repair(group, now_ns);
    }
    if (group->heartbeat_ns != 0 && group->heartbeat_ns <= now_ns) {
        heartbeat(group, now_ns);
    }
    pump(group, false, now_ns);
}

uint64_t rawe_group_next_ns(const struct rawe_group *group)
{
    uint64_t next_ns =
        rawe_group_earlier(group->heartbeat_ns, rawe_group_earlier(group->repair_ns, UINT64_MAX));
    next_ns = rawe_group_earlier(group->held_ns, next_ns);
    for (const struct rawe_group_member *member = group->waiting; member != NULL;
         member = member->next_waiting) {
        next_ns = rawe_group_earlier(member->stream->nack_ns, next_ns);
    }
    return next_ns;
}

void rawe_group_free(struct rawe_group *group)
{
    for (uint32_t i = 0; group->members != NULL && i < group->config.members; i++) {
        rawe_group_stream_free(group->members[i].stream);
    }
    release(group, group->next);
    free(group->members);
    *group = (struct rawe_group){.config = group->config};
}
