/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Receive path: from a frame to delivered messages and placed data.
 */
#include "rawe_conn_receive.h"

#include <stdlib.h>
#include <string.h>

#include "rawe_conn_ack.h"
#include "rawe_conn_batch.h"
#include "rawe_conn_tx.h"
#include "rawe_conn_end.h"
#include "rawe_conn_record.h"
#include "rawe_conn_send.h"

/*
 * Delayed acknowledgements. Data frames carry nearly all of them in time, and all have the same
 * delay. So they share a timer and a list in deadline order, which keeps those already carried.
 */

static void append_owing(struct rawe_conn *conn)
{
    struct rawe_engine *engine = conn->engine;
    rawe_list_remove(&conn->rx.owing);
    rawe_list_append(&engine->owing, &conn->rx.owing);
    rawe_timer_arm_by(&engine->timers, &engine->owing_timer, conn->rx.window.ack_deadline_ns);
}

/** Return the connection with the earliest deadline, or NULL. */
static struct rawe_conn *first_owing(const struct rawe_engine *engine)
{
    struct rawe_link *first = rawe_list_first(&engine->owing);
    return first == NULL ? NULL : RAWE_OWNER(first, struct rawe_conn, rx.owing);
}

/** Handle expiry of the list's timer. */
static void owing_expired(struct rawe_timer *timer, uint64_t now_ns)
{
    struct rawe_engine *engine = RAWE_OWNER(timer, struct rawe_engine, owing_timer);
    struct rawe_conn *conn;
    while ((conn = first_owing(engine)) != NULL && conn->rx.window.ack_deadline_ns <= now_ns) {
        rawe_list_remove(&conn->rx.owing);
        if (rawe_recvwin_expire(&conn->rx.window, now_ns)) {
            rawe_conn_make_pending(conn);
        }
    }
    if (conn != NULL) {
        rawe_timer_arm(&engine->timers, timer, conn->rx.window.ack_deadline_ns);
    }
}

void rawe_conn_owing_init(struct rawe_engine *engine)
{
    rawe_list_init(&engine->owing);
    rawe_timer_init(&engine->owing_timer, owing_expired);
}

__attribute__((hot)) void rawe_conn_owe_ack(struct rawe_conn *conn, bool at_once, uint64_t now_ns)
{
    bool owed = conn->rx.window.ack_deadline_ns != 0;
    if (rawe_recvwin_owe(&conn->rx.window, at_once, conn->rx.credit.advertised,
                         conn->engine->config.ack_delay_ns, now_ns)) {
        rawe_conn_make_pending(conn);
    } else if (!owed) {
        append_owing(conn);
    }
}

void rawe_conn_report_credit(struct rawe_conn *conn)
{
    conn->engine->counters.credit_updates++;
    rawe_recvwin_owe_now(&conn->rx.window);
    rawe_conn_make_pending(conn);
}

/* ---- delivery ---- */

static void deliver(struct rawe_conn *conn, uint8_t tag, const uint8_t *data, size_t len_bytes)
{
    struct rawe_engine *engine = conn->engine;
    engine->counters.messages_received++;
    engine->counters.bytes_received += len_bytes;
    engine->callbacks.deliver(engine->context, conn, tag, data, len_bytes);
}

/** Add a part to its message. False: no free buffer. The oldest message always gets one. */
static bool add_fragment(struct rawe_conn *conn, const struct rawe_fragment *fragment)
{
    struct rawe_engine *engine = conn->engine;
    switch (rawe_reassembly_add(&conn->rx.reassembly, &engine->reassembly_buffers, fragment)) {
    case RAWE_REASSEMBLY_NO_BUFFER:
        return false;
    case RAWE_REASSEMBLY_REFUSED:
        engine->counters.dropped_fragment++;
        return true;
    default:
        return true;
    }
}

/** Deliver a series of MESSAGE fragments. */
static void deliver_messages(struct rawe_conn *conn, const uint8_t *payload, const uint8_t *end)
{
    while (payload != end) {
        struct rawe_fragment fragment;
        if (rawe_fragment_decode(&fragment, &payload, end) != RAWE_DECODE_OK ||
            fragment.kind != RAWE_FRAGMENT_MESSAGE) {
            conn->engine->counters.dropped_length++;
            return;
        }
        deliver(conn, fragment.tag, fragment.data, fragment.data_bytes);
    }
}

/** Deliver a fragmented message (`single`), or the messages of a bundle. */
static void deliver_whole(struct rawe_conn *conn, bool single, uint8_t tag, const uint8_t *content,
                          size_t len_bytes)
{
    if (single) {
        deliver(conn, tag, content, len_bytes);
    } else {
        deliver_messages(conn, content, content + len_bytes);
    }
}

void rawe_conn_deliver_first(struct rawe_deferral *deferral)
{
    struct rawe_deferred *entry = rawe_deferral_take(deferral);
    const uint8_t *content = entry->whole != NULL ? entry->whole->content : entry->payload;
    deliver_whole(entry->conn, entry->fragmented, entry->tag, content, entry->len_bytes);
    rawe_deferral_drop(deferral, entry);
}

/** Move complete messages to the deferral, in order: until it is full, or all of them (`all`). */
static void keep_fragmented(struct rawe_conn *conn, bool all)
{
    struct rawe_engine *engine = conn->engine;
    rawe_deferral_keep_fragmented(engine->deferral, conn, &conn->rx.reassembly,
                                  &engine->reassembly_buffers, all);
}

/**
 * Deliver complete messages in order: Open MPI 4.1's datatype engine fails if fragments of a
 * non-contiguous message are not unpacked in the order in which they were packed. So defer all but
 * the first before its callback, which may receive and defer more, even from connections it closes.
 */
static void deliver_fragmented(struct rawe_conn *conn)
{
    struct rawe_deferral *deferral = conn->engine->deferral;
    struct rawe_partial *whole = rawe_reassembly_take(&conn->rx.reassembly);
    if (whole == NULL) {
        return;
    }
    keep_fragmented(conn, true);
    deliver_whole(conn, whole->kind == RAWE_FRAGMENT_PART, whole->tag, whole->content,
                  whole->total_bytes);
    rawe_buffer_give(&conn->engine->reassembly_buffers, whole);
    while (deferral->first != NULL && deferral->first->conn == conn) {
        rawe_conn_deliver_first(deferral);
    }
    rawe_deferral_note_reported(deferral);
}

/** Return false, and count the mismatch, if a validation fragment does not contain the pattern. */
static bool has_validation_pattern(struct rawe_engine *engine, const struct rawe_fragment *fragment)
{
    if (fragment->kind != RAWE_FRAGMENT_VALIDATION ||
        (fragment->total_bytes <= RAWE_BATCH_BYTES_MAX &&
         memcmp(fragment->data, rawe_conn_batch_pattern() + fragment->offset,
                fragment->data_bytes) == 0)) {
        return true;
    }
    engine->counters.dropped_validation++;
    return false;
}

/** New frames with consecutive numbers that arrived together. */
struct arrival {
    uint32_t sequence;
    uint32_t frames;
    bool ack_now;
    bool resent;
    bool more;           /**< the sender has more to send */
    uint32_t wire_bytes; /**< total length on the wire */
    uint64_t arrived_ns; /**< at this host; 0: clock not read yet */
    unsigned requests;   /**< GET and ATOMIC: each needs a reply */
    const struct rawe_fragment
        *fragment;           /**< first fragment of a plain frame, or the batch's only one */
    const uint8_t *messages; /**< further fragments of the plain frame, up to `end` */
    const uint8_t *payload;  /**< of a MESSAGE frame, from its first fragment on */
    const uint8_t *end;
};

/** Refuse a frame for lack of memory. Notifies the sender once, so that it stops sending. */
__attribute__((cold)) static void refuse_frame(struct rawe_conn *conn)
{
    struct rawe_deferral *deferral = conn->engine->deferral;
    deferral->refused = deferral->refused || rawe_deferral_holds(deferral);
    if (!conn->rx.credit.refused) {
        rawe_credit_refuse(&conn->rx.credit);
        rawe_conn_report_credit(conn);
    }
}

void rawe_conn_admit(struct rawe_conn *conn)
{
    if (conn->rx.credit.refused) {
        rawe_credit_admit(&conn->path.into->pull.credit, conn->lane, &conn->rx.credit);
        rawe_conn_report_credit(conn);
    }
    keep_fragmented(conn, true);
}

/** Reserve memory for the data, and copy parts into it. False: frame refused and counted. */
static bool keep_data(struct rawe_conn *conn, const struct arrival *arrival)
{
    struct rawe_engine *engine = conn->engine;
    const struct rawe_fragment *fragment = arrival->fragment;
    bool is_part = rawe_fragment_is_part(fragment->kind);
    bool is_message = is_part || fragment->kind == RAWE_FRAGMENT_MESSAGE;
    bool deferring = rawe_deferral_holds(engine->deferral);
    if ((arrival->requests != 0 && !rawe_conn_serve_reserve(engine, arrival->requests)) ||
        (is_message && deferring && rawe_deferral_full(engine->deferral)) ||
        (is_part && !add_fragment(conn, fragment)) ||
        (deferring && fragment->kind == RAWE_FRAGMENT_MESSAGE &&
         !rawe_deferral_keep(engine->deferral, conn, arrival->payload,
                             (size_t)(arrival->end - arrival->payload)))) {
        engine->counters.no_buffer++;
        refuse_frame(conn);
        return false;
    }
    return true;
}

/** Perform the records of a frame, which check_records has accepted. */
static void perform_records(struct rawe_conn *conn, const struct arrival *arrival, uint64_t now_ns)
{
    struct rawe_fragment fragment = *arrival->fragment;
    const uint8_t *behind = arrival->messages;
    rawe_conn_perform(conn, &fragment, now_ns);
    while (behind != arrival->end) {
        (void)rawe_fragment_decode(&fragment, &behind, arrival->end);
        rawe_conn_perform(conn, &fragment, now_ns);
    }
}

/** Account for frames of the bulk lane, which use up a grant and show the line's rate. */
static void note_bulk(struct rawe_conn *conn, const struct arrival *arrival, uint64_t now_ns)
{
    struct rawe_pull *pull = &conn->path.into->pull;
    uint64_t arrived_ns = arrival->arrived_ns;
    if (arrived_ns == 0) {
        /* Read the clocks only if necessary, because reading takes 0.1 microseconds. */
        arrived_ns = arrival->more || pull->grants.senders != 0
                         ? rawe_engine_arrival_ns(conn->engine)
                         : now_ns;
    }
    rawe_grants_arrived(&pull->grants, &conn->rx.grant, arrival->sequence, arrival->frames,
                        arrival->more, now_ns > arrived_ns ? now_ns - arrived_ns : 0, now_ns);
    if (pull->grants.budget.port_bytes != 0) { /* otherwise nothing needs the rate */
        /* Frames resent over another route were lost on the old route, not in this port. */
        bool lost = arrival->resent && conn->path.predicted != NULL;
        rawe_line_arrived(&pull->line, arrival->wire_bytes, arrival->frames,
                          lost ? arrival->frames : 0, arrived_ns);
    }
}

/** Accept new frames: update the window, and deliver or place their data. */
__attribute__((hot)) static void accept_frames(struct rawe_conn *conn,
                                               const struct arrival *arrival, uint64_t now_ns)
{
    struct rawe_engine *engine = conn->engine;
    const struct rawe_fragment *fragment = arrival->fragment;
    struct rawe_recvwin *window = &conn->rx.window;
    bool plain = fragment->kind == RAWE_FRAGMENT_MESSAGE && !rawe_deferral_holds(engine->deferral);
    bool gap_before = rawe_recvwin_has_gap(window);
    bool in_order = !gap_before && arrival->sequence == window->next;
    if (__builtin_expect(!in_order && !rawe_recvwin_reserve(window, arrival->sequence), 0)) {
        engine->counters.no_buffer++; /* the sender will resend it */
        return;
    }
    if (!plain && (!has_validation_pattern(engine, fragment) || !keep_data(conn, arrival))) {
        return;
    }
    if (__builtin_expect(in_order, 1)) {
        rawe_recvwin_take_in_order(window, arrival->frames);
    } else {
        for (uint32_t i = 0; i < arrival->frames; i++) {
            rawe_recvwin_take(window, arrival->sequence + i);
        }
    }
    engine->counters.frames_received += arrival->frames;
    rawe_credit_note(&conn->path.into->pull.credit, conn->lane, &conn->rx.credit);
    if (conn->lane == RAWE_LANE_BULK) {
        note_bulk(conn, arrival, now_ns);
    }
    /* Owe the acknowledgement before the callbacks, whose replies can carry it. */
    rawe_conn_owe_ack(conn, arrival->ack_now || gap_before != rawe_recvwin_has_gap(window), now_ns);
    if (plain) {
        deliver(conn, fragment->tag, fragment->data, fragment->data_bytes);
        if (arrival->messages != arrival->end) {
            deliver_messages(conn, arrival->messages, arrival->end);
        }
    } else if (rawe_fragment_is_record(fragment->kind)) {
        perform_records(conn, arrival, now_ns);
    } else if (rawe_deferral_holds(engine->deferral)) {
        keep_fragmented(conn, false);
    } else {
        deliver_fragmented(conn);
    }
}

/** Count and drop a frame that is a duplicate or outside the window. */
__attribute__((cold)) static void drop_known(struct rawe_conn *conn, uint32_t sequence,
                                             uint64_t now_ns)
{
    if (rawe_recvwin_check(&conn->rx.window, sequence) == RAWE_RECVWIN_OUTSIDE) {
        conn->engine->counters.dropped_outside++;
        return;
    }
    conn->engine->counters.duplicates++;
    rawe_recvwin_note_duplicate(&conn->rx.window);
    rawe_conn_owe_ack(conn, true, now_ns); /* the first acknowledgement may have been lost */
}

/** Count the requests in a frame. False: it has several fragments that are not all records. */
static bool check_records(struct arrival *arrival)
{
    struct rawe_fragment fragment = *arrival->fragment;
    const uint8_t *behind = arrival->messages;
    arrival->requests = rawe_fragment_is_request(fragment.kind);
    while (behind != arrival->end) {
        if (!rawe_fragment_is_record(arrival->fragment->kind) ||
            rawe_fragment_decode(&fragment, &behind, arrival->end) != RAWE_DECODE_OK ||
            !rawe_fragment_is_record(fragment.kind)) {
            return false;
        }
        arrival->requests += rawe_fragment_is_request(fragment.kind);
    }
    return true;
}

/** Receive a DATA or BULK frame. */
__attribute__((hot)) static inline void receive_data_frame(struct rawe_conn *conn,
                                                           const struct rawe_header *header,
                                                           const uint8_t *payload, uint64_t now_ns)
{
    struct rawe_fragment fragment;
    struct arrival arrival = {
        .sequence = header->sequence,
        .frames = 1,
        .ack_now = (header->flags & RAWE_FLAG_ACK_NOW) != 0,
        .resent = (header->flags & RAWE_FLAG_RESENT) != 0,
        .more = (header->flags & RAWE_FLAG_MORE) != 0,
        .wire_bytes = header->payload_bytes + RAWE_FRAME_WIRE_BYTES,
        .fragment = &fragment,
        .messages = payload,
        .payload = payload,
        .end = payload + header->payload_bytes,
    };
    if (rawe_recvwin_check(&conn->rx.window, arrival.sequence) != RAWE_RECVWIN_NEW) {
        drop_known(conn, arrival.sequence, now_ns);
        return;
    }
    if (__builtin_expect(rawe_fragment_decode(&fragment, &arrival.messages, arrival.end) !=
                                 RAWE_DECODE_OK ||
                             (fragment.kind != RAWE_FRAGMENT_MESSAGE && !check_records(&arrival)),
                         0)) {
        conn->engine->counters.dropped_length++;
        return;
    }
    accept_frames(conn, &arrival, now_ns);
}

/** Receive a SLICE. The last one completes the frame, which is then received. */
static void receive_slice(struct rawe_conn *conn, const struct rawe_header *header,
                          const uint8_t *payload, uint64_t now_ns)
{
    struct rawe_counters *counters = &conn->engine->counters;
    struct rawe_header whole = *header;
    void *memory;
    switch (rawe_sliced_add(&conn->rx.sliced, conn->engine->config.payload_max_bytes, &whole,
                            &payload, &memory)) {
    case RAWE_SLICE_ADDED:
        break;
    case RAWE_SLICE_WHOLE:
        receive_data_frame(conn, &whole, payload, now_ns);
        free(memory);
        break;
    case RAWE_SLICE_REFUSED:
        counters->dropped_slice++;
        break;
    case RAWE_SLICE_INVALID:
        counters->dropped_length++;
        break;
    case RAWE_SLICE_NO_MEMORY:
        counters->no_buffer++;
        break;
    }
}

/** Return how many frames in a row, beginning with `sequence`, are new. */
static uint32_t count_new(const struct rawe_conn *conn, uint32_t sequence, uint32_t frames)
{
    uint32_t count = 0;
    while (count < frames &&
           rawe_recvwin_check(&conn->rx.window, sequence + count) == RAWE_RECVWIN_NEW) {
        count++;
    }
    return count;
}

/* ---- frames of the connection, by type ---- */

/** Return false if a callback has changed the connection's id: discard the rest of the frame. */
static bool is_same_life(const struct rawe_conn *conn, const struct rawe_header *header)
{
    return conn->handshake.local_id == header->connection_id;
}

/**
 * Return true if the frame may be processed: the connection is receiving, and the acknowledged
 * frames were sent. Processes a data frame's acknowledgement.
 */
static inline bool accept_header(struct rawe_conn *conn, const struct rawe_header *header,
                                 uint64_t now_ns, struct rawe_conn_ack *left)
{
    struct rawe_engine *engine = conn->engine;
    if (__builtin_expect(!rawe_handshake_receives(&conn->handshake), 0)) {
        engine->counters.dropped_connection++;
        return false;
    }
    if (header->type == RAWE_FRAME_CLOSE) {
        return true;
    }
    if (__builtin_expect(rawe_sequence_before(conn->tx.window.next, header->acknowledgement), 0)) {
        engine->counters.dropped_ack++; /* it acknowledges unsent frames: ignore the whole frame */
        return false;
    }
    /* If the peer sent this before it disowned the connection, the next PROBE will show it. */
    rawe_conn_note_owned(&conn->end);
    bool data = header->type != RAWE_FRAME_ACK && header->type != RAWE_FRAME_PROBE;
    if (data && (header->acknowledgement != conn->tx.window.una ||
                 conn->tx.peer_credit != header->credit)) {
        rawe_conn_ack_process(conn, header, NULL, 0, now_ns, left);
    }
    return true;
}

/** Receive a frame of any type but DATA. */
static void receive_other(struct rawe_conn *conn, const struct rawe_header *header,
                          const uint8_t *payload, uint64_t now_ns, struct rawe_conn_ack *left)
{
    struct rawe_engine *engine = conn->engine;
    switch (header->type) {
    case RAWE_FRAME_BULK:
        receive_data_frame(conn, header, payload, now_ns);
        break;
    case RAWE_FRAME_SLICE:
        receive_slice(conn, header, payload, now_ns);
        break;
    case RAWE_FRAME_ACK:
        engine->counters.acks_received++;
        rawe_conn_note_finalizing(conn, header);
        if ((header->flags & RAWE_FLAG_DUPLICATE) != 0) {
            rawe_reorder_duplicate(&conn->tx.reorder, conn->tx.window.una, conn->tx.window.next);
        }
        rawe_conn_ack_process(conn, header, payload,
                              header->payload_bytes < RAWE_SACK_BYTES_MAX ? header->payload_bytes
                                                                          : RAWE_SACK_BYTES_MAX,
                              now_ns, left);
        break;
    case RAWE_FRAME_PROBE:
        engine->counters.probes_received++;
        rawe_conn_note_finalizing(conn, header);
        rawe_conn_ack_process(conn, header, NULL, 0, now_ns, left);
        if (conn->rx.credit.refused && !rawe_deferral_full(engine->deferral)) {
            rawe_credit_admit(&conn->path.into->pull.credit, conn->lane, &conn->rx.credit);
        }
        rawe_credit_note_probe(&conn->path.into->pull.credit, conn->lane, &conn->rx.credit);
        if (conn->lane == RAWE_LANE_BULK && conn->rx.window.unacked_frames == 0) {
            /* We have acknowledged all we received: frames were lost, or the peer awaits credit. */
            rawe_grants_expect(&conn->path.into->pull.grants, &conn->rx.grant, now_ns);
        }
        rawe_grants_probed(&conn->path.into->pull.grants, now_ns);
        rawe_recvwin_owe_answer(&conn->rx.window, header->sequence);
        rawe_conn_make_pending(conn);
        break;
    case RAWE_FRAME_CLOSE:
        rawe_conn_receive_close(conn, header, now_ns);
        break;
    default:
        engine->counters.dropped_type++;
        break;
    }
}

__attribute__((hot)) void rawe_conn_receive(struct rawe_conn *conn,
                                            const struct rawe_header *header,
                                            const uint8_t *payload, uint64_t now_ns)
{
    struct rawe_conn_ack left = {.waits = false};
    if (__builtin_expect(!accept_header(conn, header, now_ns, &left), 0)) {
        rawe_conn_answer_failed(conn, header, payload);
        return;
    }
    if (__builtin_expect(header->type == RAWE_FRAME_DATA, 1)) {
        receive_data_frame(conn, header, payload, now_ns); /* without the switch's table */
    } else {
        receive_other(conn, header, payload, now_ns, &left);
    }
    if (left.waits) {
        rawe_conn_ack_finish(conn, header->connection_id, &left, now_ns);
    }
}

uint8_t *rawe_conn_place(struct rawe_conn *conn, const struct rawe_batch *batch)
{
    struct rawe_engine *engine = conn->engine;
    const struct rawe_fragment *fragment = &batch->fragment;
    if (!rawe_handshake_receives(&conn->handshake) ||
        count_new(conn, batch->header.sequence, batch->frames) != batch->frames) {
        return NULL;
    }
    if (fragment->kind == RAWE_FRAGMENT_PUT) {
        return rawe_handle_resolve(engine->config.handles, fragment->id, fragment->key,
                                   fragment->offset, fragment->data_bytes, RAWE_ACCESS_WRITE);
    }
    if (fragment->kind == RAWE_FRAGMENT_REPLY) {
        return rawe_conn_place_reply(conn, fragment);
    }
    return rawe_fragment_is_part(fragment->kind)
               ? rawe_reassembly_place(&conn->rx.reassembly, &engine->reassembly_buffers, fragment)
               : NULL;
}

/** Accept the new frames of a batch. */
static void accept_batch(struct rawe_conn *conn, const struct rawe_batch *batch, uint64_t now_ns)
{
    const struct rawe_header *header = &batch->header;
    const uint64_t arrived_ns = rawe_engine_arrival_ns(conn->engine);
    bool ack_now = batch->last && (header->flags & RAWE_FLAG_ACK_NOW) != 0;
    for (uint32_t at = 0; at < batch->frames;) {
        uint32_t sequence = header->sequence + at;
        uint32_t frames = count_new(conn, sequence, batch->frames - at);
        if (frames == 0) {
            drop_known(conn, sequence, now_ns);
            at++;
            continue;
        }
        /* Usually all frames are new. */
        struct rawe_fragment fragment = batch->fragment;
        uint32_t skipped_bytes = at * batch->segment_bytes;
        uint32_t left_bytes = fragment.data_bytes - skipped_bytes;
        uint32_t new_bytes = frames * batch->segment_bytes;
        fragment.data += skipped_bytes;
        fragment.offset += skipped_bytes;
        fragment.data_bytes = (uint16_t)(new_bytes < left_bytes ? new_bytes : left_bytes);
        at += frames;
        const struct arrival arrival = {
            .sequence = sequence,
            .frames = frames,
            .ack_now = ack_now && at == batch->frames,
            .resent = (header->flags & RAWE_FLAG_RESENT) != 0,
            .more = (header->flags & RAWE_FLAG_MORE) != 0,
            .wire_bytes = fragment.data_bytes + frames * RAWE_BATCH_WIRE_BYTES,
            .arrived_ns = arrived_ns,
            .fragment = &fragment,
        };
        accept_frames(conn, &arrival, now_ns);
        if (!is_same_life(conn, header)) {
            return;
        }
    }
}

void rawe_conn_receive_batch(struct rawe_conn *conn, const struct rawe_batch *batch,
                             uint64_t now_ns)
{
    struct rawe_conn_ack left = {.waits = false};
    if (accept_header(conn, &batch->header, now_ns, &left)) {
        accept_batch(conn, batch, now_ns);
    }
    if (left.waits) {
        rawe_conn_ack_finish(conn, batch->header.connection_id, &left, now_ns);
    }
}
