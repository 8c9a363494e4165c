/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Receive path: from a frame to delivered messages and placed data, and when to acknowledge.
 */
#include "rawe_conn_receive.h"

#include <stdlib.h>
#include <string.h>

#include "rawe_conn_ack.h"
#include "rawe_conn_connect.h"
#include "rawe_conn_control.h"
#include "rawe_conn_inplace.h"
#include "rawe_conn_life.h"
#include "rawe_conn_slice.h"

/**
 * From the end of MPI_Finalize's fence to the end of its connections a process takes milliseconds;
 * a peer may be as much ahead of us. Its "no such connection" is no loss of data then.
 */
#define DISOWNED_NS 1000000000ull

void rawe_conn_deliver(struct rawe_conn *conn, uint8_t tag, const uint8_t *data, size_t len_bytes)
{
    struct rawe_engine *engine = conn->engine;
    engine->counters.messages_received++;
    engine->counters.bytes_received += len_bytes;
    engine->callbacks.deliver(engine->context, conn, tag, data, len_bytes);
}

static void place(struct rawe_conn *conn, const struct rawe_fragment *fragment)
{
    struct rawe_engine *engine = conn->engine;
    uint8_t *to = rawe_handle_resolve(engine->config.handles, fragment->id, fragment->key,
                                      fragment->offset, fragment->data_bytes);
    if (to == NULL) {
        engine->counters.dropped_handle++;
        return;
    }
    if (to != fragment->data) {
        memmove(to, fragment->data, fragment->data_bytes);
    }
    engine->counters.bytes_received += fragment->data_bytes;
}

/** Does data lie in the engine's buffer for batches, from where it is delivered or copied? */
static bool in_inplace_buffer(const struct rawe_engine *engine, const uint8_t *data)
{
    const uint8_t *batch = engine->inplace.buffer;
    return batch != NULL && data >= batch && data < batch + RAWE_INPLACE_BUFFER_BYTES;
}

bool rawe_conn_expect_fragments(struct rawe_conn *conn)
{
    if (conn->reassembly == NULL) {
        conn->reassembly = calloc(1, sizeof(*conn->reassembly));
        if (conn->reassembly != NULL) {
            conn->reassembly->next = conn->engine->config.first_sequence;
        }
    }
    return conn->reassembly != NULL;
}

/**
 * Add a segment. False when it could not be taken now, for lack of a buffer: never the one of the
 * message all others wait for, so that it blocks nothing for ever.
 */
static bool add_fragment(struct rawe_conn *conn, const struct rawe_fragment *fragment)
{
    struct rawe_engine *engine = conn->engine;
    if (!rawe_conn_expect_fragments(conn)) {
        return false;
    }
    /*
     * What lies in a batch's buffer stays there; but the next part of such a message may be alone.
     */
    if (in_inplace_buffer(engine, fragment->data) && !engine->deferral.active &&
        rawe_conn_inplace_add(conn, fragment, &engine->inplace_complete)) {
        return true;
    }
    if (engine->inplace.conn == conn && engine->inplace.number == fragment->id &&
        !rawe_conn_inplace_spill(engine)) {
        return false;
    }
    if (engine->deferral.active &&
        fragment->id - conn->reassembly->next >= RAWE_REASSEMBLY_MESSAGES) {
        return false; /* without memory, those before it could not be taken out */
    }
    switch (rawe_reassembly_add(conn->reassembly, &engine->reassembly_buffers, fragment)) {
    case RAWE_REASSEMBLY_NO_BUFFER:
        return false;
    case RAWE_REASSEMBLY_REFUSED:
        engine->counters.dropped_fragment++;
        return true;
    default:
        return true;
    }
}

/**
 * Fragmented messages whose turn it is. They are delivered in order: Open MPI's datatype engine
 * (4.1) goes astray when the fragments of a message with a non-contiguous datatype are unpacked in
 * another order than they were packed in.
 */
void rawe_conn_deliver_fragmented(struct rawe_conn *conn)
{
    struct rawe_engine *engine = conn->engine;
    if (engine->inplace_complete) {
        struct rawe_inplace *inplace = &engine->inplace;
        engine->inplace_complete = false;
        inplace->conn = NULL;
        rawe_reassembly_skip(conn->reassembly);
        rawe_conn_deliver(conn, inplace->tag, inplace->data, inplace->total_bytes);
    }
    struct rawe_partial whole;
    while (conn->reassembly != NULL && rawe_reassembly_take(conn->reassembly, &whole)) {
        rawe_conn_deliver(conn, whole.tag, whole.buffer, whole.total_bytes);
        rawe_buffer_give(&conn->engine->reassembly_buffers, whole.buffer);
    }
}

/**
 * Data that was received straight into place must lie where its own header wants it. It does not
 * when something on the way put a batch together over a gap (UDP GRO does not look at our sequence
 * numbers): then it stands where the missing frame's belongs, and moving it would overwrite the
 * next one's. Or when the place, promised for the batch as a whole, was given away meanwhile.
 */
static bool in_place(struct rawe_conn *conn, const struct rawe_fragment *fragment)
{
    struct rawe_engine *engine = conn->engine;
    if (fragment->kind == RAWE_FRAGMENT_PUT) {
        const uint8_t *to = rawe_handle_resolve(engine->config.handles, fragment->id, fragment->key,
                                                fragment->offset, fragment->data_bytes);
        return to == NULL || to == fragment->data; /* NULL: refused, the data is not looked at */
    }
    if (in_inplace_buffer(engine, fragment->data)) {
        return true; /* nobody's place: moving it overwrites nothing beside it */
    }
    return conn->reassembly != NULL &&
           rawe_reassembly_place(conn->reassembly, &engine->reassembly_buffers, fragment,
                                 fragment->data_bytes) == fragment->data;
}

/** The fragments of a MESSAGE frame, one after the other. */
void rawe_conn_deliver_messages(struct rawe_conn *conn, const uint8_t *payload, const uint8_t *end)
{
    while (payload != end) {
        struct rawe_fragment fragment;
        if (rawe_fragment_decode(&fragment, &payload, end) != RAWE_DECODE_OK ||
            fragment.kind != RAWE_FRAGMENT_MESSAGE) {
            conn->engine->counters.dropped_length++;
            return;
        }
        rawe_conn_deliver(conn, fragment.tag, fragment.data, fragment.data_bytes);
    }
}

/**
 * The first fragment of a frame, and what is behind it. False, and counted, when it may not be
 * there.
 */
static bool decode_first(struct rawe_conn *conn, const struct rawe_header *header,
                         const struct rawe_payload *payload, struct rawe_fragment *fragment,
                         const uint8_t **rest)
{
    const uint8_t *cursor = payload->head;
    const uint8_t *end = payload->head + header->payload_bytes;
    /*
     * With the data elsewhere, `head` ends behind a fragment header as long as the batch's first
     * one.
     */
    bool fits = payload->data == NULL ||
                (payload->head_bytes >= RAWE_FRAGMENT_MESSAGE_BYTES &&
                 rawe_fragment_header_bytes(payload->head[0]) == payload->head_bytes);
    /* All kinds but MESSAGE are alone in their frame. */
    fits = fits && rawe_fragment_decode(fragment, &cursor, end) == RAWE_DECODE_OK &&
           (fragment->kind == RAWE_FRAGMENT_MESSAGE || cursor == end);
    *rest = cursor;
    if (fits && payload->data != NULL) {
        fits = fragment->kind != RAWE_FRAGMENT_MESSAGE;
        fragment->data = payload->data;
    }
    if (!fits) {
        conn->engine->counters.dropped_length++;
        return false;
    }
    if (fragment->kind == RAWE_FRAGMENT_VALIDATION) {
        const struct rawe_engine *engine = conn->engine;
        /* Without batches of our own there is no pattern: plain frames came as they were. */
        if (engine->batches.pattern != NULL &&
            (fragment->data_bytes > engine->config.payload_max_bytes ||
             memcmp(fragment->data, engine->batches.pattern, fragment->data_bytes) != 0)) {
            conn->engine->counters.dropped_validation++;
            return false;
        }
    }
    return true;
}

static void receive_data(struct rawe_conn *conn, const struct rawe_header *header,
                         const struct rawe_payload *payload, uint64_t now_ns)
{
    struct rawe_engine *engine = conn->engine;
    switch (rawe_acktr_check(conn->recvwin.acktr, header->sequence)) {
    case RAWE_ACKTR_DUPLICATE:
        engine->counters.duplicates++;
        conn->recvwin.duplicate_seen = true;
        rawe_conn_owe_ack(conn, true, now_ns); /* it did not hear the first one */
        return;
    case RAWE_ACKTR_OUTSIDE:
        engine->counters.dropped_outside++;
        return;
    default:
        break;
    }
    struct rawe_fragment fragment;
    const uint8_t *rest;
    if (!decode_first(conn, header, payload, &fragment, &rest)) {
        return;
    }
    if (payload->data != NULL && !in_place(conn, &fragment)) {
        engine->counters.dropped_misplaced++; /* as good as lost: it will be sent again */
        return;
    }
    bool is_message = fragment.kind == RAWE_FRAGMENT_PART || fragment.kind == RAWE_FRAGMENT_MESSAGE;
    if (is_message && engine->deferral.active && rawe_deferral_full(&engine->deferral)) {
        engine->counters.no_buffer++;
        return;
    }
    if (fragment.kind == RAWE_FRAGMENT_PART && !add_fragment(conn, &fragment)) {
        engine->counters.no_buffer++;
        return;
    }
    if (engine->deferral.active && fragment.kind == RAWE_FRAGMENT_MESSAGE &&
        !rawe_deferral_keep(&engine->deferral, conn, payload->head, header->payload_bytes)) {
        engine->counters.no_buffer++;
        return;
    }
    bool gap_before = rawe_recvwin_has_gap(&conn->recvwin);
    rawe_recvwin_take(&conn->recvwin, header->sequence);
    engine->counters.frames_received++;
    rawe_credit_note(&engine->credit, &conn->credit);
    /* What is owed is noted before the callbacks: a reply sent by them carries it along. */
    rawe_conn_owe_ack(conn,
                      (header->flags & RAWE_FLAG_ACK_NOW) != 0 ||
                          gap_before != rawe_recvwin_has_gap(&conn->recvwin),
                      now_ns);
    if (fragment.kind == RAWE_FRAGMENT_PUT) {
        place(conn, &fragment);
    } else if (engine->deferral.active) {
        if (conn->reassembly != NULL) {
            rawe_deferral_keep_fragmented(&engine->deferral, &engine->reassembly_buffers, conn,
                                          conn->reassembly);
        }
    } else if (fragment.kind == RAWE_FRAGMENT_MESSAGE) {
        rawe_conn_deliver(conn, fragment.tag, fragment.data, fragment.data_bytes);
        const uint8_t *end = payload->head + header->payload_bytes;
        if (rest != end) {
            rawe_conn_deliver_messages(conn, rest, end);
        }
    } else if (fragment.kind == RAWE_FRAGMENT_PART) {
        rawe_conn_deliver_fragmented(conn);
    }
}

/**
 * The peer knows of no such connection. With data in flight that is believed only when it says so
 * for longer than any process takes from MPI_Finalize's fence to the end of its connections.
 */
static bool disowned(struct rawe_conn *conn, uint64_t now_ns)
{
    if (conn->engine->finalizing || rawe_conn_idle(conn)) {
        return true;
    }
    if (conn->disowned_since_ns == 0) {
        conn->disowned_since_ns = now_ns;
    }
    return now_ns - conn->disowned_since_ns >= DISOWNED_NS;
}

/**
 * The peer has ended the connection. What its CLOSE acknowledges has arrived; of the rest nothing
 * is known, or (REPLY: it knows of no such connection) of all. What is still queued here needs a
 * new connection.
 */
static void closed_by_peer(struct rawe_conn *conn, const struct rawe_header *header,
                           uint64_t now_ns)
{
    struct rawe_engine *engine = conn->engine;
    const struct rawe_sendwin *window = &conn->sendwin;
    struct rawe_send *arrived = NULL;
    if ((header->flags & RAWE_FLAG_REPLY) != 0) {
        if (!disowned(conn, now_ns)) {
            return;
        }
    } else if (header->acknowledgement - window->una <= rawe_sendwin_used(window)) {
        arrived = rawe_conn_release_before(conn, header->acknowledgement);
    }
    bool data_lost = !rawe_sendwin_empty(window);
    struct rawe_send *abandoned = rawe_conn_abandon(conn, false);
    rawe_conn_renew(conn);
    conn->handshake.state = RAWE_CONN_PEER_CLOSED;
    if (conn->queue.first != NULL || conn->coalescing != NULL) {
        rawe_conn_connect(conn, now_ns);
    }
    rawe_conn_complete_ended(conn, abandoned, data_lost || abandoned != NULL);
    rawe_conn_complete(engine, arrived, RAWE_STATUS_DONE);
}

void rawe_conn_receive(struct rawe_conn *conn, const struct rawe_header *header,
                       const struct rawe_payload *payload, uint64_t now_ns)
{
    struct rawe_engine *engine = conn->engine;
    struct rawe_header whole;
    struct rawe_payload sliced = {0};
    if (conn->recvwin.acktr == NULL || !rawe_handshake_receives(&conn->handshake)) {
        engine->counters.dropped_connection++;
        return;
    }
    /* A CLOSE may come from a process that knows nothing of the connection any more. */
    if (header->type != RAWE_FRAME_CLOSE &&
        rawe_sequence_before(conn->sendwin.next, header->acknowledgement)) {
        engine->counters.dropped_ack++; /* acknowledges what was never sent: believe none of it */
        return;
    }
    /* Who disowns the connection answers no probe: the next ones come at growing intervals. */
    if (header->type != RAWE_FRAME_CLOSE) {
        rawe_liveness_heard(&conn->liveness);
    }
    switch (header->type) {
    case RAWE_FRAME_DATA:
    case RAWE_FRAME_BULK:
    case RAWE_FRAME_SLICE:
        if (header->acknowledgement != conn->sendwin.una || conn->peer_credit != header->credit) {
            rawe_conn_acknowledged(conn, header, NULL, 0, now_ns);
        }
        if (header->type == RAWE_FRAME_SLICE) {
            if (payload->data != NULL) {
                engine->counters.dropped_type++; /* came in a batch, where it has no business */
                break;
            }
            whole = *header;
            sliced.head = rawe_conn_take_slice(conn, &whole, payload->head);
            sliced.head_bytes = whole.payload_bytes;
            if (sliced.head == NULL) {
                break; /* not the last one of its frame */
            }
            header = &whole;
            payload = &sliced;
        }
        receive_data(conn, header, payload, now_ns);
        break;
    case RAWE_FRAME_ACK:
        engine->counters.acks_received++;
        if (payload->data != NULL) {
            engine->counters.dropped_type++; /* came in a batch, where it has no business */
            break;
        }
        if ((header->flags & RAWE_FLAG_DUPLICATE) != 0) {
            rawe_reorder_duplicate(&conn->reorder, conn->sendwin.una, conn->sendwin.next);
        }
        rawe_conn_acknowledged(conn, header, payload->head,
                               header->payload_bytes < RAWE_SACK_BYTES_MAX ? header->payload_bytes
                                                                           : RAWE_SACK_BYTES_MAX,
                               now_ns);
        break;
    case RAWE_FRAME_PROBE:
        engine->counters.probes_received++;
        rawe_conn_acknowledged(conn, header, NULL, 0, now_ns);
        rawe_credit_note(&engine->credit, &conn->credit);
        rawe_recvwin_owe_answer(&conn->recvwin, header->sequence);
        rawe_conn_make_pending(conn);
        break;
    case RAWE_FRAME_CLOSE:
        closed_by_peer(conn, header, now_ns);
        break;
    default:
        engine->counters.dropped_type++;
        break;
    }
}
