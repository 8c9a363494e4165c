/* SPDX-License-Identifier: BSD-3-Clause */
#include "rawe_conn_tx.h"

#include <string.h>

#include "base/rawe_crc32c.h"

/* ---- the peer's credit ---- */

/**
 * The interval between requests for credit doubles, as with TCP's zero-window probes (RFC 9293
 * section 3.8.6.1). The peer reports credit unprompted, so requests only make up for lost reports.
 */
#define CREDIT_INTERVAL_MOST_NS 100000000ull
#define CREDIT_DOUBLINGS_MAX 16u
/** More doublings if the peer knows we wait: the requests of a thousand senders fill its link. */
#define CREDIT_DOUBLINGS_REPORTED 4u

void rawe_conn_ask_credit(struct rawe_conn *conn, uint64_t now_ns)
{
    uint64_t from_ns = conn->path.liveness.asked_ns;
    uint32_t doublings = conn->tx.credit_refusals;
    if (!conn->tx.wants_credit) {
        conn->tx.credit_wanted_ns = now_ns;
    }
    if (conn->tx.reported_more) { /* the peer knows, and will report credit */
        from_ns = conn->tx.credit_wanted_ns > from_ns ? conn->tx.credit_wanted_ns : from_ns;
        doublings += CREDIT_DOUBLINGS_REPORTED;
    }
    uint64_t interval_ns = rawe_liveness_interval_ns(&conn->path.liveness);
    uint64_t most_ns = conn->engine->config.liveness.probe_most_ns;
    most_ns = most_ns < CREDIT_INTERVAL_MOST_NS ? most_ns : CREDIT_INTERVAL_MOST_NS;
    uint64_t longer_ns = interval_ns << doublings;
    longer_ns = longer_ns < most_ns ? longer_ns : most_ns;
    interval_ns = longer_ns > interval_ns ? longer_ns : interval_ns;
    uint64_t deadline_ns = from_ns + interval_ns;
    deadline_ns = deadline_ns > now_ns ? deadline_ns : now_ns;
    conn->tx.wants_credit = true;
    if (rawe_liveness_is_silent(&conn->path.liveness)) {
        (void)rawe_liveness_ask_by(&conn->path.liveness, deadline_ns); /* keep a planned probe */
    } else {
        rawe_liveness_ask_at(&conn->path.liveness, deadline_ns);
    }
    rawe_conn_arm(conn);
}

void rawe_conn_note_no_credit(struct rawe_conn_tx *tx, bool answers, bool refused, uint64_t now_ns)
{
    tx->no_credit_ns = refused ? now_ns : tx->no_credit_ns;
    if (answers && tx->wants_credit && tx->credit_refusals < CREDIT_DOUBLINGS_MAX) {
        tx->credit_refusals++;
    }
}

void rawe_conn_credit_reset(struct rawe_conn *conn)
{
    conn->tx.ack_requested = conn->engine->config.first_sequence;
    conn->tx.peer_credit = 0; /* until the reply to CONNECT grants some */
    conn->tx.wants_credit = false;
    conn->tx.credit_refusals = 0;
    conn->tx.no_credit_ns = 0;
}

/* ---- entering frames into the send window, and requesting acknowledgements in time ---- */

/** Minimum frames between requests: even in a small window, not every frame carries one. */
#define REQUEST_LEAST_FRAMES 2u

/*
 * Request an acknowledgement for each quarter of the window, so that it slides in time, but not
 * while half of it is free. If more is queued, count the whole batch: it may fill a small window.
 */
__attribute__((hot)) void rawe_conn_enter_window(struct rawe_conn *conn, struct rawe_txframe *frame)
{
    struct rawe_sendwin *window = &conn->tx.window;
    uint32_t more = conn->tx.queue.first != NULL ? frame->segments - 1u : 0;
    uint32_t limit = rawe_conn_in_flight_limit(&conn->tx);
    uint32_t part = limit / 4;
    part = part < REQUEST_LEAST_FRAMES ? REQUEST_LEAST_FRAMES : part;
    if (limit <= 1 || (window->next + more - conn->tx.ack_requested >= part &&
                       2 * (window->in_flight + window->to_transmit + more) >= limit)) {
        frame->flags |= RAWE_FLAG_ACK_NOW;
        conn->tx.ack_requested = window->next + more;
    }
    rawe_sendwin_enter(window, frame);
}

__attribute__((hot)) void rawe_conn_finish_frame(struct rawe_conn *conn, struct rawe_txframe *frame,
                                                 uint32_t count, uint8_t *copy,
                                                 struct rawe_frame *view)
{
    uint8_t *buffer = frame->buffer;
    uint32_t buffer_bytes = frame->buffer_bytes;
    uint32_t external_count = frame->external_count;
    struct rawe_header header = rawe_conn_header(conn, frame, 0, count, frame->payload_bytes);
    memcpy(buffer, conn->path.eth_header, RAWE_ETH_HEADER_BYTES);
    rawe_header_encode(buffer + RAWE_ETH_HEADER_BYTES, &header);
    const bool checksummed = conn->path.via->config.checksummed;
    uint32_t crc = checksummed ? 0
                               : rawe_crc32c(0, buffer + RAWE_ETH_HEADER_BYTES,
                                             buffer_bytes - RAWE_ETH_HEADER_BYTES);
    view->len_bytes = RAWE_PAYLOAD_OFFSET + frame->payload_bytes + RAWE_CHECKSUM_BYTES;
    view->pieces[0] = (struct rawe_bytes){buffer, view->len_bytes};
    view->piece_count = 1;
    if (external_count == 0) {
        rawe_checksum_encode(buffer + buffer_bytes, crc);
        return;
    }
    view->pieces[0].len_bytes = buffer_bytes;
    for (uint32_t i = 0; i < external_count; i++) {
        struct rawe_bytes piece = frame->external[i];
        if (copy != NULL) {
            piece.base = memcpy(copy, piece.base, piece.len_bytes);
            copy += piece.len_bytes;
        }
        crc = checksummed ? 0 : rawe_crc32c(crc, piece.base, piece.len_bytes);
        view->pieces[view->piece_count++] = piece;
    }
    rawe_checksum_encode(frame->checksum, crc);
    view->pieces[view->piece_count++] = (struct rawe_bytes){frame->checksum, RAWE_CHECKSUM_BYTES};
}

/* ---- message order across the connections to a process: send/rawe_order.h ---- */

/** Return the number of the oldest unacknowledged message; UINT64_MAX: none. */
static uint64_t oldest_message(const struct rawe_conn *conn)
{
    const struct rawe_sendwin *window = &conn->tx.window;
    const struct rawe_txframe *frame = window->oldest;
    const struct rawe_send *send = conn->tx.queue.first;
    while (frame != NULL && frame->number == 0) {
        frame = frame->next;
    }
    if (frame != NULL || (window->held != NULL && window->held->number != 0)) {
        return frame != NULL ? frame->number : window->held->number;
    }
    while (send != NULL && send->number == 0) {
        send = send->next;
    }
    return send != NULL ? send->number : UINT64_MAX;
}

static struct rawe_conn *conn_ordered(struct rawe_link *link)
{
    return RAWE_OWNER(link, struct rawe_conn, tx.ordered.link);
}

/** Update the limit on message numbers. Returns true if it has risen. */
static bool raise_limit(struct rawe_order *order)
{
    struct rawe_link *all = &order->members;
    uint64_t oldest = order->next;
    for (struct rawe_link *link = all->next; link != all && rawe_order_rises(order, oldest);
         link = link->next) {
        uint64_t number = oldest_message(conn_ordered(link)); /* may have to skip many records */
        oldest = number < oldest ? number : oldest;
    }
    return rawe_order_raise(order, oldest);
}

bool rawe_conn_limit_reached(const struct rawe_conn *conn, uint64_t number)
{
    struct rawe_order *order = conn->tx.ordered.order;
    if (!order->waits) {
        (void)raise_limit(order);
        order->waits = !rawe_order_allows(order, number);
    }
    return !rawe_order_allows(order, number);
}

void rawe_conn_go_on_all(const struct rawe_conn *conn)
{
    struct rawe_order *order = conn->tx.ordered.order;
    struct rawe_link *all = &order->members;
    if (!raise_limit(order)) {
        return;
    }
    order->waits = false;
    for (struct rawe_link *link = all->next; link != all; link = link->next) {
        struct rawe_conn *other = conn_ordered(link);
        if (other->tx.queue.first != NULL) {
            rawe_conn_make_pending(other);
        }
    }
}

/* ---- completing sends ---- */

/** Complete replies, the engine's own sends, even if the owner is away. Returns other sends. */
static struct rawe_send *complete_replies(struct rawe_send *list, enum rawe_status status)
{
    struct rawe_sends rest = {NULL};
    while (list != NULL) {
        struct rawe_send *next = list->next;
        if (list->kind == RAWE_FRAGMENT_REPLY) {
            list->done(list, status);
        } else {
            rawe_sends_append(&rest, list);
        }
        list = next;
    }
    return rest.first;
}

void rawe_conn_complete(struct rawe_engine *engine, struct rawe_send *list, enum rawe_status status)
{
    if (engine->deferral->active && !engine->finalizing && list != NULL) {
        list = complete_replies(list, status);
        if (list != NULL) {
            rawe_deferral_keep_completed(engine->deferral, list, status);
        }
        return;
    }
    while (list != NULL) {
        struct rawe_send *next = list->next;
        if (!engine->finalizing || list->internal) {
            list->done(list, engine->finalizing ? RAWE_STATUS_DROPPED : status);
        }
        list = next;
    }
}

__attribute__((hot)) void rawe_conn_release(struct rawe_conn *conn, struct rawe_txframe *frame,
                                            struct rawe_sends *complete)
{
    struct rawe_send *send = frame->send;
    rawe_txframe_give(&conn->engine->frames, frame);
    if (send == NULL) {
        return;
    }
    if (frame->external_count == 0) {          /* the pool leaves its fields valid */
        rawe_sends_append_all(complete, send); /* the PUTs that were copied into it */
    } else if (rawe_sendqueue_released(&conn->tx.queue, send)) {
        rawe_sends_append(complete, send);
    }
}

struct rawe_send *rawe_conn_release_before(struct rawe_conn *conn, uint32_t acknowledgement)
{
    struct rawe_sends complete = {NULL};
    while (rawe_sequence_before(conn->tx.window.una, acknowledgement)) {
        const struct rawe_txframe *oldest = conn->tx.window.oldest;
        if (rawe_sequence_before(acknowledgement, oldest->sequence + oldest->segments)) {
            break; /* part of the batch has not arrived */
        }
        rawe_conn_release(conn, rawe_sendwin_remove(&conn->tx.window), &complete);
    }
    rawe_conn_note_progress(conn);
    return complete.first;
}

struct rawe_send *rawe_conn_abandon(struct rawe_conn *conn, bool queue_too)
{
    struct rawe_sends complete = {NULL};
    rawe_sends_append_all(&complete, rawe_conn_release_before(conn, conn->tx.window.next));
    /* The frames just released may contain a part of the first queued send. */
    struct rawe_send *head = conn->tx.queue.first;
    if (head != NULL && (queue_too || head->framed_bytes != 0)) {
        rawe_sends_append(&complete, rawe_sendqueue_pop(&conn->tx.queue));
    }
    if (queue_too) {
        struct rawe_txframe *held = rawe_sendwin_take_held(&conn->tx.window);
        if (held != NULL) {
            rawe_sends_append_all(&complete, held->send);
            rawe_txframe_give(&conn->engine->frames, held);
        }
        rawe_sends_append_all(&complete, rawe_sendqueue_clear(&conn->tx.queue));
    }
    rawe_conn_note_progress(conn);
    /* Long replies may arrive on any bulk lane from the process. */
    const struct rawe_route *route = conn->path.preferred;
    do {
        rawe_operation_abandon(&route->engine->operations, route->key, route->port, conn->lane,
                               &complete);
        route = rawe_route_after(route, conn->path.preferred);
    } while (route != NULL && conn->lane == RAWE_LANE_BULK);
    return complete.first;
}
