/* SPDX-License-Identifier: BSD-3-Clause */
#include "rawe_group.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/rawe_crc32c.h"
#include "rawe_group_stream.h"

/** A frame of the window. */
struct rawe_group_frame {
    uint8_t *bytes;        /**< header, payload, room for a checksum; in a batch: payload only */
    uint8_t *memory;       /**< to free with the frame; a batch's last frame has it */
    uint32_t batch_frames; /**< frames left in its batch, including this one; 0: sent alone */
    struct rawe_group_header header;
};

void rawe_group_init(struct rawe_group *group, const struct rawe_group_config *config)
{
    assert(config->members >= 2 && config->members <= UINT16_MAX && config->self < config->members);
    assert(config->window_frames >= 2 && config->window_frames <= RAWE_WINDOW_FRAMES_MAX &&
           (config->window_frames & (config->window_frames - 1)) == 0);
    assert(config->payload_bytes >= 128 && config->payload_bytes <= RAWE_GROUP_PAYLOAD_MAX &&
           config->segment_bytes <= config->payload_bytes);
    *group = (struct rawe_group){.config = *config};
    group->base = group->sent = group->next = group->asked = rawe_group_first_sequence(config);
    group->deaf = RAWE_GROUP_ALL;
    for (uint32_t i = 0; i < RAWE_GROUP_CHILDREN; i++) {
        group->children[i] = group->base;
    }
}

/** Allocate the members when the first frame is sent or received. False: out of memory. */
static bool have_members(struct rawe_group *group)
{
    if (group->members == NULL) {
        group->members = calloc(group->config.members, sizeof(*group->members));
    }
    group->config.counters->no_buffer += group->members == NULL;
    return group->members != NULL;
}

static struct rawe_group_frame *frame_at(const struct rawe_group *group, uint32_t sequence)
{
    return &group->window[sequence & (group->config.window_frames - 1)];
}

/** Free the frames before `base`, which all members have received. */
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
        group->status_ns = 0;
    }
}

/** Process a child's acknowledgement of our frames before `next`. */
static void take_child_ack(struct rawe_group *group, uint32_t from, uint32_t next)
{
    const struct rawe_group_config *config = &group->config;
    if (rawe_sequence_before(group->sent, next)) {
        config->counters->dropped_outside++;
    } else if (rawe_group_acked(config, config->self, group->children, group->base, from, next)) {
        release(group,
                rawe_group_least(config, config->self, group->children, group->base, group->sent));
    }
}

/** Allocate the window if necessary, and memory for the next frames; NULL when out of memory. */
static uint8_t *frame_memory(struct rawe_group *group, size_t len_bytes)
{
    if (group->window == NULL) {
        group->window = calloc(group->config.window_frames, sizeof(*group->window));
    }
    return group->window == NULL ? NULL : malloc(len_bytes);
}

/** Add frame `next` to the window. Requests an acknowledgement for each half of `window_frames`. */
static struct rawe_group_frame *number_frame(struct rawe_group *group, uint32_t window_frames,
                                             uint8_t *bytes, uint8_t *memory)
{
    struct rawe_group_frame *frame = frame_at(group, group->next);
    *frame = (struct rawe_group_frame){.bytes = bytes,
                                       .memory = memory,
                                       .header = {.sender = (uint16_t)group->config.self,
                                                  .id = group->config.id,
                                                  .sequence = group->next}};
    group->next++;
    group->held_ns = 0;
    const uint32_t asked =
        rawe_sequence_before(group->asked, group->base) ? group->base : group->asked;
    if (group->next - asked >= window_frames / 2) {
        frame->header.flags |= RAWE_GROUP_FLAG_ASK;
        group->asked = group->next;
    }
    return frame;
}

/** Add frame `next` with room for `payload_bytes`; NULL when out of memory. */
static struct rawe_group_frame *add_frame(struct rawe_group *group, uint32_t payload_bytes)
{
    uint8_t *bytes =
        frame_memory(group, RAWE_GROUP_HEADER_BYTES + payload_bytes + (size_t)RAWE_CHECKSUM_BYTES);
    return bytes == NULL ? NULL : number_frame(group, group->config.window_frames, bytes, bytes);
}

/** Add a message to the held-back frame. Returns false if there is no such frame, or no room. */
static bool join_frame(struct rawe_group *group, struct rawe_group_send *send)
{
    struct rawe_group_frame *frame =
        group->held_ns == 0 || send->last ? NULL : frame_at(group, group->next - 1);
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
        group->held_ns = 0; /* the frame is full */
    }
    return true;
}

/** Begin a held-back frame with a message. Returns false when out of memory. */
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

/** Put the next part of a message into the window. Returns false when out of memory. */
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
    frame->header.flags |= send->last ? RAWE_GROUP_FLAG_LAST : 0;
    send->framed_bytes += part_bytes;
    return true;
}

/**
 * Put the next parts of a message into the window as a batch. The batches of a message are of about
 * equal length, and at most half the window, so that acknowledgements make room for the next one.
 * Returns false if there is no room or memory.
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
        frame->header.flags |= send->last ? RAWE_GROUP_FLAG_LAST : 0;
    }
    send->framed_bytes += bytes;
    return true;
}

/** Return true if a frame with this message may be held back. Two such messages must fit in it. */
static bool may_wait_in_frame(const struct rawe_group *group, const struct rawe_group_send *send)
{
    return send->may_wait && !send->last && group->config.share_from != 0 &&
           group->sent - group->base >= group->config.share_from &&
           send->len_bytes <= group->config.payload_bytes / 2 - RAWE_GROUP_SHARED_BYTES;
}

/** Put queued messages into frames while the window has room. */
static void frame_messages(struct rawe_group *group, uint64_t now_ns)
{
    if (group->framing) {
        return; /* `done` has sent another message: the outer call processes it */
    }
    group->framing = true;
    while (group->first != NULL) {
        struct rawe_group_send *send = group->first;
        const bool placed = join_frame(group, send);
        if (!placed && (group->next - group->base == group->config.window_frames ||
                        !(send->batches                    ? frame_batch(group, send)
                          : may_wait_in_frame(group, send) ? hold_frame(group, send, now_ns)
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

/** Transmit the next batch. Returns its number of frames, or 0 if the link is full. */
static uint32_t transmit_batch(struct rawe_group *group)
{
    struct rawe_group_frame *first = frame_at(group, group->sent);
    const uint32_t frames = first->batch_frames;
    uint8_t head[RAWE_BATCH_HEADER_BYTES];
    struct rawe_bytes data = {first->bytes, 0};
    struct rawe_group_header header = first->header;
    for (uint32_t i = 0; i < frames; i++) {
        const struct rawe_group_frame *frame = frame_at(group, group->sent + i);
        header.flags |= frame->header.flags;
        data.len_bytes += frame->header.payload_bytes;
    }
    header.payload_bytes = (uint16_t)data.len_bytes;
    header.segment_bytes = (uint16_t)group->config.segment_bytes;
    rawe_group_batch_encode(head, &header);
    const bool taken = group->config.output.batch(group->config.output.context, head, &data,
                                                  frames == 1 ? 0 : header.segment_bytes);
    group->config.counters->batches_sent += taken;
    return taken ? frames : 0;
}

/** Transmit the next frame alone. Returns 1, or 0 if the link is full. */
static uint32_t transmit_frame(struct rawe_group *group)
{
    const struct rawe_group_frame *frame = frame_at(group, group->sent);
    const size_t len_bytes = RAWE_GROUP_HEADER_BYTES + (size_t)frame->header.payload_bytes;
    rawe_group_header_encode(frame->bytes, &frame->header);
    rawe_checksum_encode(frame->bytes + len_bytes, rawe_crc32c(0, frame->bytes, len_bytes));
    const struct rawe_bytes bytes = {frame->bytes, len_bytes + RAWE_CHECKSUM_BYTES};
    return group->config.output.multicast(group->config.output.context, &bytes);
}

static void transmit_window_frames(struct rawe_group *group)
{
    const uint32_t end = group->next - (group->held_ns != 0);
    for (uint32_t taken = 1; taken != 0 && group->sent != end; group->sent += taken) {
        taken = frame_at(group, group->sent)->batch_frames != 0 ? transmit_batch(group)
                                                                : transmit_frame(group);
        group->config.counters->frames_sent += taken;
    }
}

/** Frame and transmit while window and link have room. `may_wait`: hold back the last frame. */
static void transmit_queued(struct rawe_group *group, bool may_wait, uint64_t now_ns)
{
    const uint32_t before = group->sent;
    frame_messages(group, now_ns);
    group->held_ns = may_wait ? group->held_ns : 0;
    transmit_window_frames(group);
    if (group->sent != before ||
        (group->status_ns == 0 && (group->sent != group->next || group->first != NULL) &&
         group->base == group->sent)) {
        group->status_ns = now_ns + RAWE_GROUP_STATUS_NS; /* out of memory: retry at that time */
    }
}

bool rawe_group_send(struct rawe_group *group, struct rawe_group_send *send, uint64_t now_ns)
{
    if (!have_members(group)) {
        return false;
    }
    send->next = NULL;
    send->framed_bytes = 0;
    send->last = group->deaf != RAWE_GROUP_ALL;
    if (group->first == NULL) {
        group->first = send;
    } else {
        group->last->next = send;
    }
    group->last = send;
    group->config.counters->messages_sent++;
    transmit_queued(group, send->may_wait, now_ns);
    group->config.counters->window_stalls += group->first != NULL && group->last == send;
    return true;
}

/** Repair a frame: send it in pieces, over the connection to a member. */
static void repair_frame(const struct rawe_group *group, uint32_t to,
                         const struct rawe_group_frame *frame)
{
    const uint8_t *payload =
        frame->bytes + (frame->batch_frames != 0 ? 0 : RAWE_GROUP_HEADER_BYTES);
    struct rawe_group_control control = {
        .type = RAWE_GROUP_REPAIR,
        .flags = frame->header.flags,
        .root = (uint16_t)group->config.self,
        .sequence = frame->header.sequence,
        .total_bytes = frame->header.total_bytes,
        .payload_bytes = frame->header.payload_bytes,
    };
    uint32_t at_bytes = 0;
    do {
        const uint32_t left_bytes = control.payload_bytes - at_bytes;
        control.data_bytes =
            (uint16_t)(left_bytes < RAWE_GROUP_PIECE_BYTES ? left_bytes : RAWE_GROUP_PIECE_BYTES);
        (void)rawe_group_send_control(&group->config, to, &control, payload + at_bytes);
        at_bytes += control.data_bytes;
        control.piece++;
    } while (at_bytes != control.payload_bytes);
    group->config.counters->repairs_sent++;
}

/**
 * Start judging whether a member that requests frames from `first` on hears us, unless it has
 * requested some recently. Until then, it had received all frames.
 */
static void begin_judging(struct rawe_group_member *member, uint32_t first, uint64_t now_ns)
{
    if (member->judged_ns == 0 || now_ns - member->asked_ns >= RAWE_GROUP_DEAF_NS) {
        member->judged_ns = now_ns;
        member->judged_from = member->requested = first;
        member->lacked = 0;
    }
    member->asked_ns = now_ns;
}

/** Judge whether a member has heard multicast frames since it started to request them. */
static void judge_member(struct rawe_group *group, uint32_t index, uint64_t now_ns)
{
    struct rawe_group_member *member = &group->members[index];
    if (now_ns - member->judged_ns >= RAWE_GROUP_DEAF_NS) {
        const uint32_t sent = group->sent - member->judged_from;
        const bool deaf =
            member->lacked >= RAWE_GROUP_DEAF_FRAMES && member->lacked >= sent - sent / 4;
        group->deaf = deaf ? index : group->deaf;
        member->judged_ns = 0;
    }
}

static void receive_nack(struct rawe_group *group, uint32_t from,
                         const struct rawe_group_control *control, uint64_t now_ns)
{
    struct rawe_group_member *member = &group->members[from];
    begin_judging(member, control->sequence, now_ns);
    for (uint32_t bit = 0; bit < control->data_bytes * 8u; bit++) {
        const uint32_t sequence = control->sequence + bit;
        if ((control->data[bit / 8] >> bit % 8 & 1) == 0) {
            continue;
        }
        if (!rawe_sequence_before(sequence, group->sent)) {
            group->config.counters->dropped_outside++;
            return;
        }
        if (!rawe_sequence_before(sequence, group->base)) {
            repair_frame(group, from, frame_at(group, sequence));
            if (!rawe_sequence_before(sequence, member->requested)) { /* not a lost repair */
                member->requested = sequence + 1;
                member->lacked++;
            }
        }
    }
    judge_member(group, from, now_ns);
}

/** Tell a root which of its frames this member is waiting for. */
static void send_wait(const struct rawe_group *group, uint32_t root)
{
    const struct rawe_group_stream *stream = group->members[root].stream;
    const struct rawe_group_control control = {
        .type = RAWE_GROUP_WAIT,
        .root = (uint16_t)root,
        .sequence = stream == NULL ? rawe_group_first_sequence(&group->config) : stream->next};
    group->config.counters->waits_sent++;
    (void)rawe_group_send_control(&group->config, root, &control, NULL);
}

void rawe_group_ask(struct rawe_group *group, uint32_t root)
{
    const struct rawe_group_config *config = &group->config;
    const uint32_t next = (config->self + 1) % config->members;
    if (!have_members(group)) {
        return;
    }
    if (root == RAWE_GROUP_ALL) {
        rawe_group_send_down(config, config->self, group->children, group->base,
                             RAWE_GROUP_FLAG_AGAIN, group->sent);
        return;
    }
    send_wait(group, root);
    if (next != root) {
        send_wait(group, next);
    }
}

/* Receiving. */

/** Return the stream of a root's frames; NULL when out of memory. */
static struct rawe_group_stream *stream_of(struct rawe_group *group, uint32_t root)
{
    struct rawe_group_member *member = &group->members[root];
    if (member->stream == NULL) {
        member->stream = rawe_group_stream_new(&group->config, root);
        group->config.counters->no_buffer += member->stream == NULL;
    }
    return member->stream;
}

static void await_member(struct rawe_group *group, struct rawe_group_member *member)
{
    if (!member->waiting && rawe_group_stream_waits(member->stream)) {
        member->waiting = true;
        member->next_waiting = group->waiting;
        group->waiting = member;
    }
}

const uint8_t *rawe_group_read(struct rawe_group_header *header, const uint8_t *bytes,
                               size_t len_bytes, struct rawe_group_counters *counters)
{
    if (rawe_group_header_decode(header, bytes, len_bytes) != RAWE_DECODE_OK) {
        counters->dropped_decode++;
        return NULL;
    }
    const size_t covered_bytes = RAWE_GROUP_HEADER_BYTES + (size_t)header->payload_bytes;
    if (rawe_checksum_decode(bytes + covered_bytes) != rawe_crc32c(0, bytes, covered_bytes)) {
        counters->dropped_checksum++;
        return NULL;
    }
    return bytes + RAWE_GROUP_HEADER_BYTES;
}

void rawe_group_receive(struct rawe_group *group, const struct rawe_group_header *header,
                        const uint8_t *payload, uint64_t now_ns)
{
    struct rawe_group_counters *counters = group->config.counters;
    struct rawe_group_stream *stream;
    if (header->id != group->config.id) {
        counters->dropped_group++;
    } else if (header->sender >= group->config.members || header->sender == group->config.self) {
        counters->dropped_member++;
    } else if (have_members(group) && (stream = stream_of(group, header->sender)) != NULL) {
        rawe_group_stream_receive(stream, header, payload, now_ns);
        await_member(group, &group->members[header->sender]);
        transmit_queued(group, false, now_ns);
    }
}

/** Process a control message about our own frames. */
static void receive_as_root(struct rawe_group *group, uint32_t from,
                            const struct rawe_group_control *control, uint64_t now_ns)
{
    const struct rawe_group_control status = {.type = RAWE_GROUP_STATUS,
                                              .flags = RAWE_GROUP_FLAG_AGAIN,
                                              .root = control->root,
                                              .sequence = group->sent};
    if (control->type == RAWE_GROUP_ACK) {
        take_child_ack(group, from, control->sequence);
    } else if (control->type == RAWE_GROUP_NACK) {
        receive_nack(group, from, control, now_ns);
    } else if (control->type != RAWE_GROUP_WAIT) {
        group->config.counters->dropped_member++;
    } else if (control->sequence != group->sent || group->base != group->sent) {
        group->config.counters->status_sent++;
        (void)rawe_group_send_control(&group->config, from, &status, NULL);
    }
}

/** Process a control message about another root's frames. */
static void receive_as_member(struct rawe_group *group, uint32_t from,
                              const struct rawe_group_control *control, uint64_t now_ns)
{
    const uint32_t root = control->root;
    struct rawe_group_stream *stream = stream_of(group, root);
    if (stream == NULL) {
        return;
    }
    if (control->type == RAWE_GROUP_ACK) {
        rawe_group_stream_acked(stream, from, control->sequence);
    } else if (control->type == RAWE_GROUP_STATUS) {
        rawe_group_stream_status(stream, control, now_ns);
    } else if (control->type == RAWE_GROUP_REPAIR && from == root) {
        rawe_group_stream_repair(stream, control, now_ns);
    } else {
        group->config.counters->dropped_member++;
    }
    await_member(group, &group->members[root]);
}

void rawe_group_receive_control(struct rawe_group *group, uint32_t from, const uint8_t *bytes,
                                size_t len_bytes, uint64_t now_ns)
{
    struct rawe_group_control control;
    if (rawe_group_control_decode(&control, bytes, len_bytes) != RAWE_DECODE_OK) {
        group->config.counters->dropped_decode++;
    } else if (control.root >= group->config.members || from >= group->config.members ||
               from == group->config.self) {
        group->config.counters->dropped_member++;
    } else if (have_members(group)) {
        (control.root == group->config.self ? receive_as_root
                                            : receive_as_member)(group, from, &control, now_ns);
        transmit_queued(group, false, now_ns);
    }
}

uint8_t *rawe_group_place(const struct rawe_group *group, const struct rawe_group_header *header)
{
    const struct rawe_group_stream *stream =
        group->members == NULL || header->sender >= group->config.members
            ? NULL
            : group->members[header->sender].stream;
    return stream == NULL ? NULL : rawe_group_stream_place(stream, header);
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
        await_member(group, member);
    }
    if (group->status_ns != 0 && group->status_ns <= now_ns) {
        group->status_ns = 0;
        if (group->base != group->sent) {
            group->asked = group->sent;
            rawe_group_send_down(&group->config, group->config.self, group->children, group->base,
                                 0, group->sent);
        }
    }
    transmit_queued(group, false, now_ns);
}

uint64_t rawe_group_next_ns(const struct rawe_group *group)
{
    uint64_t next_ns = rawe_group_earlier(group->status_ns, UINT64_MAX);
    next_ns = rawe_group_earlier(group->held_ns, next_ns);
    for (const struct rawe_group_member *member = group->waiting; member != NULL;
         member = member->next_waiting) {
        next_ns = rawe_group_earlier(member->stream->nack_ns, next_ns);
    }
    return next_ns;
}

bool rawe_group_done(const struct rawe_group *group)
{
    bool done = group->base == group->next && group->first == NULL;
    for (uint32_t i = 0; group->members != NULL && i < group->config.members && done; i++) {
        const struct rawe_group_stream *stream = group->members[i].stream;
        done = stream == NULL || stream->acked == stream->end;
    }
    return done;
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
