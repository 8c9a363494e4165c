/* SPDX-License-Identifier: BSD-3-Clause */
#include "rawe_conn_control.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/rawe_crc32c.h"

void rawe_conn_make_pending(struct rawe_conn *conn)
{
    if (!rawe_list_has(&conn->pending)) {
        rawe_list_append(&conn->engine->pending, &conn->pending);
    }
}

void rawe_conn_put_off(struct rawe_conn *conn, bool transmitted, uint64_t now_ns)
{
    struct rawe_engine *engine = conn->engine;
    if (transmitted && !rawe_list_empty(&engine->flushing) && !rawe_list_has(&conn->pending)) {
        rawe_list_append(&engine->flushing, &conn->pending);
    } else {
        rawe_conn_make_pending(conn);
    }
    rawe_conn_await_ack(conn, now_ns);
}

void rawe_conn_refused(struct rawe_conn *conn, bool transmitted, uint64_t now_ns)
{
    conn->engine->counters.blocked_port++;
    *rawe_conn_link_full(conn) = true;
    rawe_conn_put_off(conn, transmitted, now_ns);
}

void rawe_conn_arm(struct rawe_conn *conn)
{
    uint64_t deadline_ns = conn->tx.window.loss_deadline_ns;
    uint64_t probe_ns = conn->path.liveness.probe_deadline_ns;
    if (deadline_ns == 0 || (probe_ns != 0 && probe_ns < deadline_ns)) {
        deadline_ns = probe_ns;
    }
    if (deadline_ns != 0) {
        rawe_timer_arm_by(&conn->engine->timers, &conn->timer, deadline_ns);
    }
}

static uint64_t probe_interval_ns(const struct rawe_conn *conn)
{
    return rawe_liveness_interval_ns(&conn->path.liveness);
}

/** A target in MPI begins to reply sooner; one that computes must be woken soon. */
#define FIRST_QUESTION_PART 4u /* of probe_least_ns */

static uint64_t first_question_ns(const struct rawe_conn *conn)
{
    uint64_t least_ns = conn->engine->config.liveness.probe_least_ns;
    return rawe_rtt_overdue(&conn->tx.rtt, least_ns / FIRST_QUESTION_PART, least_ns);
}

void rawe_conn_await_reply(struct rawe_conn *conn, uint64_t now_ns)
{
    rawe_timer_arm_by(&conn->engine->timers, &conn->timer, now_ns + first_question_ns(conn));
}

uint64_t rawe_conn_idle_question_ns(const struct rawe_conn *conn)
{
    const struct rawe_engine *engine = conn->engine;
    const struct rawe_liveness_limits *limits = &engine->config.liveness;
    uint64_t interval_ns = limits->idle_ns;
    uint64_t asked_ns = conn->path.liveness.asked_ns, progress_ns = 0;
    bool began;
    if (conn->handshake.state != RAWE_CONN_OPEN) {
        return 0;
    }
    if (conn->lane == RAWE_LANE_EXPRESS) {
        progress_ns = rawe_operation_progress_ns(&engine->operations, conn->path.preferred->key,
                                                 conn->path.preferred->port, &began);
    }
    if (progress_ns > asked_ns && began) {
        /* Even before the request is acknowledged, because the probe for that would be later. */
        return progress_ns + first_question_ns(conn);
    }
    if (conn->path.liveness.probe_deadline_ns != 0) {
        return 0;
    }
    if (rawe_conn_end_asks(&conn->end)) {
        return asked_ns + limits->probe_least_ns;
    }
    if (progress_ns != 0) {
        /* The peer may have left MPI. Double the interval, because it may also be busy. */
        uint64_t waited_ns = asked_ns > progress_ns ? 2 * (asked_ns - progress_ns) : 0;
        uint64_t least_ns = probe_interval_ns(conn);
        waited_ns = waited_ns > least_ns ? waited_ns : least_ns;
        return waited_ns < limits->probe_most_ns ? progress_ns + waited_ns
                                                 : asked_ns + limits->probe_most_ns;
    }
    if (interval_ns == 0) {
        return 0;
    }
    /* One idle probe per process is enough: the connection that sent it notices a death. */
    uint64_t newest_ns = rawe_route_asked_ns(conn->path.preferred);
    return (newest_ns > asked_ns ? newest_ns : asked_ns) + interval_ns;
}

void rawe_conn_arm_idle(struct rawe_conn *conn)
{
    uint64_t deadline_ns = rawe_conn_idle_deadline_ns(conn);
    if (deadline_ns != 0) {
        rawe_timer_arm_by(&conn->engine->timers, &conn->timer, deadline_ns);
    }
}

/*
 * Delayed acknowledgements. Nearly all are carried by data in time, and all wait equally long. So
 * they share a timer and a list ordered by deadline; one that was carried stays in the list.
 */

static void append_owing(struct rawe_conn *conn)
{
    struct rawe_engine *engine = conn->engine;
    rawe_list_remove(&conn->rx.owing);
    rawe_list_append(&engine->owing, &conn->rx.owing);
    rawe_timer_arm_by(&engine->timers, &engine->owing_timer, conn->rx.window.ack_deadline_ns);
}

/** Return the connection whose deadline is next; NULL: none. */
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

void rawe_conn_owe_ack(struct rawe_conn *conn, bool at_once, uint64_t now_ns)
{
    bool owed = conn->rx.window.ack_deadline_ns != 0;
    if (rawe_recvwin_owe(&conn->rx.window, at_once, conn->rx.credit.advertised,
                         conn->engine->config.ack_delay_ns, now_ns)) {
        rawe_conn_make_pending(conn);
    } else if (!owed) {
        append_owing(conn);
    }
}

void rawe_conn_owe_nothing(struct rawe_conn *conn)
{
    struct rawe_engine *engine = conn->engine;
    rawe_recvwin_stop(&conn->rx.window);
    rawe_grants_forget(&conn->path.into->pull.grants, &conn->rx.grant);
    rawe_list_remove(&conn->rx.owing);
    if (rawe_list_empty(&engine->owing)) {
        rawe_timer_cancel(&engine->timers, &engine->owing_timer);
    }
}

void rawe_conn_write_header(struct rawe_conn *conn, struct rawe_txframe *frame, uint32_t count)
{
    struct rawe_header header = rawe_conn_header(conn, frame, 0, count, frame->payload_bytes);
    memcpy(frame->buffer, conn->path.eth_header, RAWE_ETH_HEADER_BYTES);
    rawe_header_encode(frame->buffer + RAWE_ETH_HEADER_BYTES, &header);
    uint32_t crc = rawe_crc32c(0, frame->buffer + RAWE_ETH_HEADER_BYTES,
                               frame->buffer_bytes - RAWE_ETH_HEADER_BYTES);
    for (uint32_t i = 0; i < frame->external_count; i++) {
        crc = rawe_crc32c(crc, frame->external[i].base, frame->external[i].len_bytes);
    }
    rawe_checksum_encode(
        frame->external_count == 0 ? frame->buffer + frame->buffer_bytes : frame->checksum, crc);
}

size_t rawe_frame_seal(uint8_t *buffer, const struct rawe_header *header)
{
    uint8_t *from = buffer + RAWE_ETH_HEADER_BYTES;
    size_t covered_bytes = RAWE_HEADER_BYTES + (size_t)header->payload_bytes;
    rawe_header_encode(from, header);
    rawe_checksum_encode(from + covered_bytes, rawe_crc32c(0, from, covered_bytes));
    return RAWE_ETH_HEADER_BYTES + covered_bytes + RAWE_CHECKSUM_BYTES;
}

bool rawe_conn_transmit_sealed(struct rawe_engine *via, uint8_t *buffer,
                               const struct rawe_header *header)
{
    size_t len_bytes = rawe_frame_seal(buffer, header);
    const struct rawe_frame view = {
        .pieces = {{buffer, len_bytes}},
        .piece_count = 1,
        .len_bytes = (uint32_t)len_bytes,
    };
    return via->output.transmit(via->output.context, &view, 1) == 1;
}

/** Transmit a control frame the way batches are sent. */
static bool transmit_like_data(struct rawe_conn *conn, const struct rawe_header *header,
                               const uint8_t *payload)
{
    const struct rawe_batch_output *output = &conn->path.via->batches.output;
    uint8_t buffer[RAWE_ETH_HEADER_BYTES + RAWE_BATCH_HEADER_BYTES + RAWE_SACK_BYTES_MAX];
    const struct rawe_batch batch = {.header = *header, .frames = 1};
    size_t head_bytes = RAWE_ETH_HEADER_BYTES + RAWE_BATCH_HEADER_BYTES;
    memcpy(buffer, conn->path.eth_header, RAWE_ETH_HEADER_BYTES);
    rawe_batch_encode(buffer + RAWE_ETH_HEADER_BYTES, &batch);
    memcpy(buffer + head_bytes, payload, header->payload_bytes);
    struct rawe_frame packet = {
        .pieces = {{buffer, head_bytes}, {buffer + head_bytes, header->payload_bytes}},
        .piece_count = 2,
        .len_bytes = (uint32_t)head_bytes + header->payload_bytes,
    };
    return output->transmit(output->context, &packet, 0);
}

/** Address a control frame, by the peer's route if it `answers` one. Returns the engine to use. */
static struct rawe_engine *address(const struct rawe_conn *conn, bool answers,
                                   uint8_t eth_header[RAWE_ETH_HEADER_BYTES],
                                   struct rawe_header *header)
{
    const struct rawe_route *back = conn->path.back;
    if (!answers || back == conn->path.route || back->down) {
        memcpy(eth_header, conn->path.eth_header, RAWE_ETH_HEADER_BYTES);
        header->port = conn->path.peer_port;
        header->key = conn->path.peer_key;
        return conn->path.via;
    }
    const struct rawe_engine_config *config = &back->engine->config;
    rawe_eth_header_encode(eth_header, back->mac, config->mac, config->ethertype);
    header->port = back->port;
    header->key = back->key;
    return back->engine;
}

bool rawe_conn_transmit_to(struct rawe_conn *conn, uint32_t peer_id, uint8_t type, uint8_t flags,
                           uint32_t sequence, const uint8_t *payload, size_t payload_bytes)
{
    uint8_t buffer[RAWE_PAYLOAD_OFFSET + RAWE_SACK_BYTES_MAX + RAWE_CHECKSUM_BYTES];
    assert(payload_bytes <= RAWE_SACK_BYTES_MAX);
    struct rawe_header header = {
        .type = type,
        .flags = (uint8_t)(flags | (conn->engine->finalizing ? RAWE_FLAG_FINALIZING : 0)),
        .connection_id = peer_id,
        .sequence = sequence,
        .acknowledgement = conn->rx.window.next,
        .payload_bytes = (uint16_t)payload_bytes,
        .credit = rawe_conn_advertise(conn),
    };
    /* A probe that asks what arrived takes the data's path; one for credit may not fit there. */
    bool like_data =
        type == RAWE_FRAME_PROBE && sequence != RAWE_PROBE_PLAIN && conn->tx.window.in_flight != 0;
    bool answers = type == RAWE_FRAME_ACK || (flags & RAWE_FLAG_REPLY) != 0;
    struct rawe_engine *via = address(conn, answers, buffer, &header);
    if (like_data && conn->path.batch == RAWE_BATCH_VALID) {
        return transmit_like_data(conn, &header, payload);
    }
    if (payload_bytes != 0) {
        memcpy(buffer + RAWE_PAYLOAD_OFFSET, payload, payload_bytes);
    }
    return rawe_conn_transmit_sealed(via, buffer, &header);
}

void rawe_conn_plan_probe(struct rawe_conn *conn, uint64_t now_ns)
{
    uint64_t deadline_ns = conn->path.liveness.probe_deadline_ns;
    /* Keep an earlier deadline, to be corrected later: no interval is shorter than the least. */
    if (deadline_ns == 0 || deadline_ns > now_ns + conn->engine->config.liveness.probe_least_ns) {
        deadline_ns = now_ns + probe_interval_ns(conn);
        if (rawe_liveness_ask_by(&conn->path.liveness, deadline_ns)) {
            rawe_timer_arm_by(&conn->engine->timers, &conn->timer, deadline_ns);
        }
    }
}

void rawe_conn_await_ack(struct rawe_conn *conn, uint64_t now_ns)
{
    rawe_liveness_wait(&conn->path.liveness, now_ns);
    rawe_conn_plan_probe(conn, now_ns);
}

void rawe_conn_correct_probe(struct rawe_conn *conn, uint64_t now_ns)
{
    if (conn->path.liveness.probe_deadline_ns <= now_ns &&
        conn->handshake.state == RAWE_CONN_OPEN && !conn->tx.wants_credit) {
        rawe_liveness_correct(&conn->path.liveness, probe_interval_ns(conn));
    }
}

/**
 * Intervals between requests for credit double, as with TCP's zero-window probes (RFC 9293 section
 * 3.8.6.1). The peer reports credit unasked: requests only make up for lost reports.
 */
#define CREDIT_INTERVAL_MOST_NS 100000000ull
#define CREDIT_DOUBLINGS_MAX 16u
/** More doublings if the peer knows that we wait: a thousand senders' requests fill its link. */
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
    uint64_t interval_ns = probe_interval_ns(conn);
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

void rawe_conn_revoke_credit(struct rawe_conn_tx *tx)
{
    tx->peer_credit = 0;
}

void rawe_conn_want_no_credit(struct rawe_conn_tx *tx)
{
    tx->wants_credit = false;
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

/** Even in a small window, not every frame requests an acknowledgement. */
#define REQUEST_LEAST_FRAMES 2u

/**
 * Request an acknowledgement with each quarter of the window, so that it slides in time, but not
 * while half of it is free. If more is queued, count a whole batch: it may fill a small window.
 */
static inline void request_ack(struct rawe_conn *conn, struct rawe_txframe *frame)
{
    const struct rawe_sendwin *window = &conn->tx.window;
    uint32_t more = conn->tx.queue.first != NULL ? frame->segments - 1u : 0;
    uint32_t limit = rawe_conn_in_flight_limit(&conn->tx);
    uint32_t part = limit / 4;
    part = part < REQUEST_LEAST_FRAMES ? REQUEST_LEAST_FRAMES : part;
    if (limit <= 1 || (window->next + more - conn->tx.ack_requested >= part &&
                       2 * (window->in_flight + window->to_transmit + more) >= limit)) {
        frame->flags |= RAWE_FLAG_ACK_NOW;
        conn->tx.ack_requested = window->next + more;
    }
}

void rawe_conn_enter_window(struct rawe_conn *conn, struct rawe_txframe *frame)
{
    request_ack(conn, frame);
    rawe_sendwin_enter(&conn->tx.window, frame);
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

/** Complete replies, which are the engine's own, even if the owner is away. Returns the others. */
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

void rawe_conn_release(struct rawe_conn *conn, struct rawe_txframe *frame,
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
            break; /* some of the batch has not arrived */
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
