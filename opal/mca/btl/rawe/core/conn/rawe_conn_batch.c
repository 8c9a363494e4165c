/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Batches: consecutive frames that the link transfers as one packet. Whether they reach a peer
 * depends on devices and switches that cannot be queried. So the bulk lane first sends a batch of
 * VALIDATION frames, whose content the receiver knows and checks before acknowledging them.
 */
#include "rawe_conn_batch.h"

#include <stdlib.h>
#include <string.h>

#include "rawe_conn_tx.h"

/** Batches do not pass if validation frames were sent this many times and none arrived. */
#define VALIDATIONS_MAX 3u

/** How often a batch is sent as a batch before its frames are sent one by one. */
#define SENDINGS_AS_BATCH 2u

/** Consecutive batches lost whole, twice each, before the connection falls back to plain frames. */
#define BATCHES_LOST_MAX 3u

/**
 * Each probe is sent both as a plain frame and in batch format. If only the plain one is
 * answered, the other is not necessarily lost: it may be late. But if this happens many times in a
 * row, batches no longer pass: a bond hashes them to another link, or a filter was installed. Eight
 * losses in a row are not chance, and no batch is delayed for as long as PLAIN_ANSWERS_NS.
 */
#define PLAIN_ANSWERS_MAX 8u
#define PLAIN_ANSWERS_NS 4000000ull

/** A single frame would not show whether packets with several frames pass; two do. */
#define VALIDATION_FRAMES 2u

/** This many frames are sent before validation: a few short messages need not wait for it. */
#define UNVALIDATED_FRAMES 8u

/** Delay before retrying validation. It doubles unless batches had passed for RETRY_MOST_NS. */
#define RETRY_LEAST_NS 100000000ull
#define RETRY_MOST_NS 10000000000ull
#define RETRY_FAILURES_MAX 8u

uint32_t rawe_conn_segment_bytes(const struct rawe_conn *conn)
{
    const struct rawe_batches *batches = &conn->engine->batches;
    uint32_t bytes = conn->path.payload_max_bytes + RAWE_HEADER_BYTES - RAWE_BATCH_HEADER_BYTES -
                     batches->overhead_bytes;
    return bytes < batches->bytes_max ? bytes : batches->bytes_max;
}

uint32_t rawe_conn_batch_frames(const struct rawe_conn *conn)
{
    const uint32_t *longest_bytes = conn->path.via->batches.output.longest_bytes;
    uint32_t bytes = conn->engine->batches.bytes_max;
    if (longest_bytes != NULL && *longest_bytes < bytes) {
        bytes = *longest_bytes;
    }
    uint32_t frames = bytes / rawe_conn_segment_bytes(conn);
    frames = frames < RAWE_BATCH_FRAMES_MAX ? frames : RAWE_BATCH_FRAMES_MAX;
    return frames != 0 ? frames : 1;
}

uint32_t rawe_conn_batch_room_bytes(const struct rawe_conn *conn)
{
    uint32_t frames = rawe_conn_batch_frames(conn);
    uint32_t room = rawe_conn_window_room(&conn->tx);
    uint32_t free_numbers = rawe_sendwin_free_numbers(&conn->tx.window);
    frames = frames < room ? frames : room;
    frames = frames < free_numbers ? frames : free_numbers;
    return (frames != 0 ? frames : 1) * rawe_conn_segment_bytes(conn);
}

uint32_t rawe_conn_batch_data_bytes(const struct rawe_conn *conn, uint64_t left, uint32_t room,
                                    bool even)
{
    if (left <= room || !even) {
        return (uint32_t)(left < room ? left : room);
    }
    uint64_t batches = (left + room - 1) / room;
    uint32_t segment_bytes = rawe_conn_segment_bytes(conn);
    uint64_t segments = (left + batches * segment_bytes - 1) / (batches * segment_bytes);
    return (uint32_t)segments * segment_bytes;
}

bool rawe_conn_batch_exceeds(const struct rawe_conn *conn, uint32_t room)
{
    uint32_t frames = rawe_conn_batch_frames(conn);
    uint32_t wanted = (conn->tx.window.in_flight + room) / 4;
    wanted = wanted < frames ? wanted : frames;
    return room < wanted && conn->tx.queue.bytes > (uint64_t)room * rawe_conn_segment_bytes(conn);
}

void rawe_conn_batch_describe(struct rawe_conn *conn, struct rawe_txframe *frame,
                              const struct rawe_fragment *fragment)
{
    uint32_t segment_bytes = rawe_conn_segment_bytes(conn);
    size_t fragment_bytes = rawe_fragment_encode(frame->buffer + RAWE_PAYLOAD_OFFSET, fragment);
    frame->buffer_bytes = (uint32_t)(RAWE_PAYLOAD_OFFSET + fragment_bytes);
    frame->payload_bytes = (uint32_t)fragment_bytes + fragment->data_bytes;
    frame->segment_bytes = (uint16_t)segment_bytes;
    frame->segments = (uint8_t)((fragment->data_bytes + segment_bytes - 1) / segment_bytes);
}

void rawe_conn_batch_reset(struct rawe_conn *conn)
{
    conn->path.batch = RAWE_BATCH_UNVALIDATED;
    conn->path.plain_answers = 0;
    conn->tx.slices_bytes = 0;
    conn->path.batches_lost = conn->path.batch_failures = 0;
}

void rawe_conn_batch_cancel(struct rawe_conn_path *path)
{
    if (path->batch == RAWE_BATCH_VALIDATING) {
        path->batch = RAWE_BATCH_UNVALIDATED;
    }
}

/** Return the time since batches were last found to pass or to fail. */
static uint64_t since_verdict_ns(const struct rawe_conn *conn)
{
    return conn->engine->now_ns - conn->path.batch_verdict_ns;
}

/** Stop sending batches, which do not pass. Unacknowledged batches become plain frames. */
static void withdraw_batches(struct rawe_conn *conn)
{
    if (conn->path.batch == RAWE_BATCH_VALID && since_verdict_ns(conn) >= RETRY_MOST_NS) {
        conn->path.batch_failures = 0;
    }
    conn->path.batch = RAWE_BATCH_INVALID;
    conn->path.batch_failures += conn->path.batch_failures < RETRY_FAILURES_MAX;
    conn->path.batches_lost = 0;
    conn->path.batch_verdict_ns = conn->engine->now_ns;
    conn->engine->counters.validations_failed++;
}

void rawe_conn_batch_unheard(struct rawe_conn *conn, uint64_t now_ns)
{
    if (conn->path.batch != RAWE_BATCH_VALID || conn->tx.window.in_flight == 0) {
        return;
    }
    if (conn->path.plain_answers++ == 0) {
        conn->path.plain_since_ns = now_ns;
    }
    if (conn->path.plain_answers >= PLAIN_ANSWERS_MAX &&
        now_ns - conn->path.plain_since_ns >= PLAIN_ANSWERS_NS) {
        withdraw_batches(conn);
    }
}

/** Return true if the connection can send batches on its current route. */
static bool can_batch(const struct rawe_conn *conn)
{
    return conn->engine->batches.bytes_max != 0 &&
           conn->path.via->batches.output.transmit != NULL && conn->lane == RAWE_LANE_BULK;
}

void rawe_conn_batch_move(struct rawe_conn *conn)
{
    if (conn->path.batch != RAWE_BATCH_UNVALIDATED) {
        conn->path.batch = can_batch(conn) ? RAWE_BATCH_MIGRATED : RAWE_BATCH_INVALID;
        conn->path.batches_lost = conn->path.batch_failures = 0; /* the new route may differ */
    }
}

/** Return true if batches are unvalidated on this route, or failed long enough ago to retry. */
static bool needs_verdict(const struct rawe_conn *conn)
{
    uint64_t retry_ns = RETRY_LEAST_NS << conn->path.batch_failures >> 1;
    retry_ns = retry_ns < RETRY_MOST_NS ? retry_ns : RETRY_MOST_NS;
    return conn->path.batch == RAWE_BATCH_UNVALIDATED || conn->path.batch == RAWE_BATCH_MIGRATED ||
           (conn->path.batch == RAWE_BATCH_INVALID && since_verdict_ns(conn) >= retry_ns);
}

/** Return true if too little has been sent or queued for batches to be worthwhile. */
static bool has_sent_little(const struct rawe_conn *conn)
{
    uint32_t sent = conn->tx.window.next - conn->engine->config.first_sequence;
    return sent < UNVALIDATED_FRAMES &&
           conn->tx.queue.bytes <= (UNVALIDATED_FRAMES - sent) * rawe_conn_segment_bytes(conn);
}

bool rawe_conn_batch_awaits_validation(const struct rawe_conn *conn)
{
    bool waits =
        conn->path.batch == RAWE_BATCH_MIGRATED ||
        (conn->path.batch == RAWE_BATCH_UNVALIDATED && can_batch(conn) && !has_sent_little(conn));
    return conn->path.batch == RAWE_BATCH_VALIDATING ||
           (waits && !rawe_sendwin_empty(&conn->tx.window));
}

const uint8_t *rawe_conn_batch_pattern(void)
{
    static uint8_t pattern[RAWE_BATCH_BYTES_MAX];
    static bool filled;
    if (!__atomic_load_n(&filled, __ATOMIC_ACQUIRE)) {
        for (uint32_t i = 0; i < RAWE_BATCH_BYTES_MAX; i++) {
            pattern[i] = (uint8_t)(i ^ (i >> 8) * 29u);
        }
        __atomic_store_n(&filled, true, __ATOMIC_RELEASE);
    }
    return pattern;
}

/** Put `data_bytes` of the pattern into the window. Returns false when out of memory. */
static bool enter_pattern(struct rawe_conn *conn, uint32_t data_bytes)
{
    struct rawe_txframe *frame = rawe_txframe_take(&conn->engine->frames, 0);
    struct rawe_fragment fragment = {
        .kind = RAWE_FRAGMENT_VALIDATION,
        .data_bytes = (uint16_t)data_bytes,
        .total_bytes = data_bytes,
    };
    if (frame == NULL) {
        return false;
    }
    rawe_conn_batch_describe(conn, frame, &fragment);
    frame->number = 0;
    frame->external[0] =
        (struct rawe_bytes){(void *)(uintptr_t)rawe_conn_batch_pattern(), data_bytes};
    frame->external_count = 1;
    frame->flags |= RAWE_FLAG_ACK_NOW;
    rawe_conn_enter_window(conn, frame);
    return true;
}

void rawe_conn_batch_validate(struct rawe_conn *conn)
{
    if (!needs_verdict(conn) || !can_batch(conn) || conn->handshake.state != RAWE_CONN_OPEN ||
        conn->tx.queue.first == NULL || !rawe_sendwin_empty(&conn->tx.window) ||
        conn->tx.window.held != NULL || /* queued first, so it must be numbered first */
        (conn->path.batch == RAWE_BATCH_UNVALIDATED && has_sent_little(conn))) {
        return;
    }
    uint32_t whole = rawe_conn_batch_frames(conn);
    uint32_t frames = whole < VALIDATION_FRAMES ? whole : VALIDATION_FRAMES;
    if (rawe_conn_window_room(&conn->tx) >= frames &&
        enter_pattern(conn, frames * rawe_conn_segment_bytes(conn))) {
        conn->path.batch = RAWE_BATCH_VALIDATING;
    }
}

void rawe_conn_batch_announce(struct rawe_conn *conn)
{
    if (rawe_sendwin_empty(&conn->tx.window) && rawe_conn_window_room(&conn->tx) != 0) {
        (void)enter_pattern(conn, 1);
    }
}

void rawe_conn_batch_conclude(struct rawe_conn *conn, const struct rawe_txframe *lost)
{
    const struct rawe_sendwin *window = &conn->tx.window; /* contains validation frames only */
    bool some_arrived = lost != NULL && rawe_sendwin_used(window) - window->sacked < lost->segments;
    if (rawe_sendwin_empty(window) || some_arrived) {
        /* The path carries batches, even if some frames were lost. */
        conn->path.batch = RAWE_BATCH_VALID;
        conn->path.batch_verdict_ns = conn->engine->now_ns;
        conn->engine->counters.validations_passed++;
    } else if (lost != NULL && lost->sendings >= VALIDATIONS_MAX) {
        withdraw_batches(conn);
    }
}

/** Transmit `frames` frames of a batch, starting at index `first`. */
static bool transmit_frames(struct rawe_conn *conn, struct rawe_txframe *frame, uint32_t first,
                            uint32_t frames)
{
    const struct rawe_batch_output *output = &conn->path.via->batches.output;
    uint8_t head[RAWE_ETH_HEADER_BYTES + RAWE_BATCH_HEADER_BYTES];
    struct rawe_batch batch = {
        .header = rawe_conn_header(conn, frame, first, frames, 0),
        .at_bytes = first * frame->segment_bytes,
        .segment_bytes = frame->segment_bytes,
        .frames = frame->segments,
    };
    batch.header.sequence = frame->sequence;
    rawe_fragment_reread(&batch.fragment, frame->buffer + RAWE_PAYLOAD_OFFSET);
    memcpy(head, conn->path.eth_header, RAWE_ETH_HEADER_BYTES);
    rawe_batch_encode(head + RAWE_ETH_HEADER_BYTES, &batch);
    uint32_t left = batch.fragment.data_bytes - batch.at_bytes;
    uint32_t bytes = frames * frame->segment_bytes;
    bytes = bytes < left ? bytes : left;
    struct rawe_frame packet = {
        .pieces = {{head, sizeof(head)}},
        .piece_count = 1,
        .len_bytes = (uint32_t)sizeof(head) + bytes,
    };
    packet.piece_count += rawe_bytes_range(frame->external, frame->external_count, batch.at_bytes,
                                           bytes, &packet.pieces[packet.piece_count]);
    return output->transmit(output->context, &packet, frames > 1 ? frame->segment_bytes : 0);
}

/** A batch lost this many times was lost on the path, not refused for lack of memory. */
#define REFUSALS_MOST 8u

/** Return true if no frame of a batch ever arrived. After several, send only single frames. */
static bool was_lost_whole(const struct rawe_txframe *frame)
{
    return frame->segments != 1 && frame->arrived == 0 &&
           (frame->sendings == SENDINGS_AS_BATCH || frame->sendings == REFUSALS_MOST);
}

/** Return the mask of the first `count` segments. */
static uint64_t first_segments(uint32_t count)
{
    return count < RAWE_BATCH_FRAMES_MAX ? (1ull << count) - 1 : UINT64_MAX;
}

bool rawe_conn_batch_transmit(struct rawe_conn *conn, struct rawe_txframe *frame, uint32_t room,
                              uint64_t now_ns)
{
    /* After two losses, send the batch as single frames: it may exceed a buffer on the path. */
    bool alone = conn->path.batch == RAWE_BATCH_VALID && (frame->to_send & frame->resent) != 0 &&
                 !(rawe_conn_was_refused(&conn->tx, frame) && frame->sendings < REFUSALS_MOST);
    bool lost_whole = alone && was_lost_whole(frame);
    while (frame->to_send != 0 && room != 0) {
        uint32_t first = (uint32_t)__builtin_ctzll(frame->to_send);
        /* RESENT applies to all frames of a packet. */
        uint64_t same = (frame->sent >> first & 1) != 0 ? frame->sent : ~frame->sent;
        uint64_t rest = ~((frame->to_send & same) >> first);
        uint32_t count = rest == 0 ? RAWE_BATCH_FRAMES_MAX : (uint32_t)__builtin_ctzll(rest);
        count = count < room ? count : room;
        count = alone ? 1 : count;
        if (!transmit_frames(conn, frame, first, count)) {
            return false;
        }
        conn->engine->counters.batches_sent++;
        rawe_conn_sent(conn, frame, first_segments(count) << first, now_ns);
        room -= count;
        if (lost_whole && ++conn->path.batches_lost >= BATCHES_LOST_MAX) {
            withdraw_batches(conn);
        }
        lost_whole = false; /* count each loss only once */
    }
    return true;
}

/*
 * Slices carry frames that were numbered before the path turned out to carry less, or no batches.
 * The frames keep their numbers. A segment that fits is sent as a plain frame; a longer one is sent
 * in slices, in order, and the receiver accepts the frame when it is complete. This is rare and
 * brief, so it is kept simple: a connection reassembles one frame at a time, and loses the whole
 * frame if a slice is out of order. If the link accepts only some slices of a frame, the next call
 * continues with the rest, because a frame may have more slices than the link's queue can hold.
 */

/** Write segment `index` of `frame` as the payload of a plain frame. Returns its length. */
static size_t write_payload(uint8_t *out, const struct rawe_txframe *frame, uint32_t index)
{
    size_t head_bytes = frame->buffer_bytes - RAWE_PAYLOAD_OFFSET;
    size_t at_bytes = (size_t)index * frame->segment_bytes;
    size_t data_bytes = frame->payload_bytes - head_bytes - at_bytes;
    struct rawe_bytes pieces[2];
    memcpy(out, frame->buffer + RAWE_PAYLOAD_OFFSET, head_bytes);
    if (frame->segment_bytes != 0) {
        struct rawe_fragment fragment;
        data_bytes = data_bytes < frame->segment_bytes ? data_bytes : frame->segment_bytes;
        rawe_fragment_reread(&fragment, out);
        fragment.offset += at_bytes;
        fragment.data_bytes = (uint16_t)data_bytes;
        rawe_fragment_encode(out, &fragment);
    }
    unsigned count =
        rawe_bytes_range(frame->external, frame->external_count, at_bytes, data_bytes, pieces);
    out += head_bytes;
    for (unsigned i = 0; i < count; i++) {
        memcpy(out, pieces[i].base, pieces[i].len_bytes);
        out += pieces[i].len_bytes;
    }
    return head_bytes + data_bytes;
}

/** Transmit the payload that is already in `buffer`, with this header. */
static bool send_buffer(struct rawe_conn *conn, uint8_t *buffer, const struct rawe_header *header)
{
    memcpy(buffer, conn->path.eth_header, RAWE_ETH_HEADER_BYTES);
    return rawe_conn_transmit_sealed(conn->path.via, buffer, header);
}

/** Transmit one segment of a frame. `buffer` is scratch memory for two frames. */
static bool transmit_segment(struct rawe_conn *conn, const struct rawe_txframe *frame,
                             uint32_t index, uint8_t *buffer, size_t frame_room_bytes)
{
    uint8_t *payload = buffer + RAWE_PAYLOAD_OFFSET;
    uint8_t *part = buffer + frame_room_bytes;
    size_t total_bytes = write_payload(payload, frame, index);
    size_t most_bytes = (conn->path.payload_max_bytes & ~7u) - RAWE_SLICE_BYTES;
    const struct rawe_header header = rawe_conn_header(conn, frame, index, 1, total_bytes);
    if (total_bytes <= conn->path.payload_max_bytes) {
        return send_buffer(conn, buffer, &header);
    }
    struct rawe_slice slice = {.total_bytes = (uint16_t)total_bytes, .type = header.type};
    const bool goes_on = conn->tx.slices_of == header.sequence;
    size_t offset = goes_on ? conn->tx.slices_bytes : 0;
    for (conn->tx.slices_bytes = 0; offset < total_bytes; offset += most_bytes) {
        size_t left_bytes = total_bytes - offset;
        size_t data_bytes = left_bytes < most_bytes ? left_bytes : most_bytes;
        slice.offset = (uint16_t)offset;
        rawe_slice_encode(part + RAWE_PAYLOAD_OFFSET, &slice);
        memcpy(part + RAWE_PAYLOAD_OFFSET + RAWE_SLICE_BYTES, payload + offset, data_bytes);
        struct rawe_header changed = header;
        changed.type = RAWE_FRAME_SLICE;
        changed.payload_bytes = (uint16_t)(RAWE_SLICE_BYTES + data_bytes);
        if (!send_buffer(conn, part, &changed)) {
            conn->tx.slices_of = header.sequence;
            conn->tx.slices_bytes = (uint16_t)offset;
            return false;
        }
        conn->engine->counters.slices_sent++;
    }
    return true;
}

bool rawe_conn_transmit_slices(struct rawe_conn *conn, struct rawe_txframe *frame, uint32_t room,
                               uint64_t now_ns)
{
    size_t frame_room_bytes =
        RAWE_PAYLOAD_OFFSET + RAWE_SLICE_BYTES + RAWE_FRAGMENT_BYTES_MAX +
        (frame->segment_bytes != 0 ? frame->segment_bytes : frame->payload_bytes) +
        RAWE_CHECKSUM_BYTES;
    uint8_t *buffer = malloc(2 * frame_room_bytes);
    bool taken = buffer != NULL;
    for (; taken && frame->to_send != 0 && room != 0; room--) {
        uint32_t index = (uint32_t)__builtin_ctzll(frame->to_send);
        taken = transmit_segment(conn, frame, index, buffer, frame_room_bytes);
        if (taken) {
            rawe_conn_sent(conn, frame, 1ull << index, now_ns);
        }
    }
    free(buffer);
    return taken;
}

/*
 * Bundles: even a short batch costs a system call and an entry. So short messages queued on the
 * bulk lane are copied into one fragmented message, as MESSAGE fragments.
 */

/** Limit on bundles in use by all connections: 16 MiB. Beyond it, messages are sent singly. */
#define BUNDLES_MAX 256u

struct bundle {
    struct rawe_send send;
    struct rawe_engine *engine;
    struct rawe_send *messages; /**< the bundled messages; NULL once complete */
    uint8_t content[];
};

void rawe_conn_bundle_pool_init(struct rawe_buffer_pool *pool)
{
    rawe_buffer_pool_init(pool, sizeof(struct bundle) + RAWE_BATCH_BYTES_MAX, BUNDLES_MAX);
}

/** rawe_send.transmitted: complete the messages, which have been copied. */
static void bundle_transmitted(struct rawe_send *send, struct rawe_conn *conn)
{
    struct bundle *bundle = (struct bundle *)(void *)send;
    struct rawe_send *messages = bundle->messages;
    bundle->messages = NULL;
    rawe_conn_complete(conn->engine, messages, RAWE_STATUS_DONE);
}

/** rawe_send.done */
static void bundle_done(struct rawe_send *send, enum rawe_status status)
{
    struct bundle *bundle = (struct bundle *)(void *)send;
    struct rawe_send *messages = bundle->messages;
    struct rawe_engine *engine = bundle->engine;
    rawe_buffer_give(&engine->bundles, bundle);
    rawe_conn_complete(engine, messages, status);
}

/** Return how many bytes a message adds to a bundle of `used_bytes`; 0: it cannot be bundled. */
static size_t needed_bytes(const struct rawe_conn *conn, const struct rawe_send *send,
                           size_t used_bytes)
{
    if (send == NULL || !rawe_order_allows(conn->tx.ordered.order, send->number) ||
        send->kind != RAWE_FRAGMENT_MESSAGE || send->fragmented ||
        send->total_bytes > RAWE_CONN_BUNDLED_BYTES_MAX) {
        return 0;
    }
    size_t pad_bytes = rawe_fragment_pad(used_bytes) - used_bytes;
    return pad_bytes + RAWE_FRAGMENT_MESSAGE_BYTES + (size_t)send->total_bytes;
}

/** Append a message to a bundle of `used_bytes`. */
static void append_message(struct bundle *bundle, size_t used_bytes, const struct rawe_send *send)
{
    size_t begin = rawe_fragment_pad(used_bytes);
    uint8_t *out = bundle->content + begin;
    memset(bundle->content + used_bytes, 0, begin - used_bytes);
    out += rawe_fragment_encode(out,
                                &(struct rawe_fragment){.kind = RAWE_FRAGMENT_MESSAGE,
                                                        .tag = send->tag,
                                                        .data_bytes = (uint16_t)send->total_bytes});
    for (unsigned i = 0; i < send->piece_count; i++) {
        memcpy(out, send->pieces[i].base, send->pieces[i].len_bytes);
        out += send->pieces[i].len_bytes;
    }
}

void rawe_conn_bundle(struct rawe_conn *conn, uint32_t bytes_max)
{
    struct rawe_engine *engine = conn->engine;
    struct rawe_sendqueue *queue = &conn->tx.queue;
    uint32_t message_max_bytes = engine->config.message_max_bytes;
    bytes_max = bytes_max < message_max_bytes ? bytes_max : message_max_bytes;
    size_t used_bytes = needed_bytes(conn, queue->first, 0);
    size_t next_bytes = used_bytes == 0 ? 0 : needed_bytes(conn, queue->first->next, used_bytes);
    if (next_bytes == 0 || used_bytes + next_bytes > bytes_max || !rawe_conn_may_hold_back(conn)) {
        return;
    }
    struct bundle *bundle = rawe_buffer_take(&engine->bundles);
    if (bundle == NULL) {
        return;
    }
    struct rawe_sends messages = {NULL};
    size_t bytes;
    used_bytes = 0;
    while ((bytes = needed_bytes(conn, queue->first, used_bytes)) != 0 &&
           used_bytes + bytes <= bytes_max) {
        struct rawe_send *send = queue->first;
        append_message(bundle, used_bytes, send);
        used_bytes += bytes;
        (void)rawe_sendqueue_framed(queue, send->total_bytes);
        engine->counters.messages_coalesced++;
        rawe_sends_append(&messages, send);
    }
    bundle->messages = messages.first;
    bundle->engine = engine;
    bundle->send = (struct rawe_send){
        .done = bundle_done,
        .transmitted = bundle_transmitted,
        .pieces = {{bundle->content, used_bytes}},
        .piece_count = 1,
        .kind = RAWE_FRAGMENT_BUNDLE,
        .relaxed = true,
        .internal = true,
        .ordered = true,
        .number = messages.first->number,
    };
    rawe_sendqueue_push_first(queue, &bundle->send);
}
