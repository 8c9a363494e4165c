/* SPDX-License-Identifier: BSD-3-Clause */
#include "rawe_conn_path.h"

#include <assert.h>
#include <string.h>

#include "base/rawe_crc32c.h"

/* ---- routes ---- */

/** Set `predicted`, which tells whether frames in both directions take the preferred route. */
static void predict_route(struct rawe_conn *conn)
{
    bool preferred =
        conn->path.route == conn->path.preferred && conn->path.back == conn->path.preferred;
    conn->engine->table->migrated += !preferred - (conn->path.predicted == NULL);
    conn->path.predicted = preferred ? conn->engine : NULL;
}

uint32_t rawe_conn_preferred_payload_bytes(const struct rawe_conn *conn)
{
    uint32_t bytes = conn->path.preferred->payload_max_bytes;
    return bytes < conn->path.accepted_max_bytes ? bytes : conn->path.accepted_max_bytes;
}

void rawe_conn_path_fit(struct rawe_conn *conn)
{
    uint32_t bytes = rawe_conn_preferred_payload_bytes(conn);
    uint32_t used_bytes = conn->path.route->payload_max_bytes;
    conn->path.payload_max_bytes = bytes < used_bytes ? bytes : used_bytes;
    assert(conn->path.payload_max_bytes >= RAWE_PAYLOAD_LEAST_BYTES); /* CONNECT must fit */
}

void rawe_conn_limit_payload(struct rawe_conn *conn, uint32_t payload_max_bytes)
{
    if (payload_max_bytes < conn->path.accepted_max_bytes) {
        conn->path.accepted_max_bytes = payload_max_bytes;
        rawe_conn_path_fit(conn);
    }
}

void rawe_conn_path_open(struct rawe_conn *conn, struct rawe_route *preferred)
{
    conn->path.preferred = conn->path.back = preferred;
    conn->path.into = conn->path.predicted = preferred->engine;
    conn->path.accepted_max_bytes = preferred->engine->config.payload_max_bytes;
    rawe_conn_path_use(conn, preferred);
}

void rawe_conn_path_use(struct rawe_conn *conn, struct rawe_route *route)
{
    const struct rawe_engine_config *config = &route->engine->config;
    if (conn->path.route != route) {
        conn->path.route_since_ns = conn->engine->now_ns;
    }
    conn->path.route = route;
    conn->path.via = route->engine;
    predict_route(conn);
    rawe_eth_header_encode(conn->path.eth_header, route->mac, config->mac, config->ethertype);
    conn->path.peer_port = route->port;
    conn->path.peer_key = route->key;
    rawe_conn_path_fit(conn);
}

void rawe_conn_path_asked(struct rawe_conn *conn, struct rawe_route *route)
{
    struct rawe_engine *engine = route->engine;
    if (conn->path.into != engine) { /* the peer's frames now arrive in another ring */
        bool open = conn->rx.credit.open;
        rawe_credit_close(&conn->path.into->pull.credit, conn->lane, &conn->rx.credit);
        if (open) {
            rawe_credit_open(&engine->pull.credit, conn->lane, &conn->rx.credit);
        }
        rawe_grants_forget(&conn->path.into->pull.grants, &conn->rx.grant);
    }
    conn->path.into = engine;
    conn->path.back = route;
    predict_route(conn);
}

/* ---- transmission ---- */

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

/** Transmit a control frame in batch format, as data is sent. */
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

/** Address a control frame; one that `answers` uses the request's route. Returns the engine. */
static struct rawe_engine *address_frame(const struct rawe_conn *conn, bool answers,
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
    /* A probe that asks what arrived takes the data's path, where one for credit may not fit. */
    bool like_data =
        type == RAWE_FRAME_PROBE && sequence != RAWE_PROBE_PLAIN && conn->tx.window.in_flight != 0;
    bool answers = type == RAWE_FRAME_ACK || (flags & RAWE_FLAG_REPLY) != 0;
    struct rawe_engine *via = address_frame(conn, answers, buffer, &header);
    if (like_data && conn->path.batch == RAWE_BATCH_VALID) {
        return transmit_like_data(conn, &header, payload);
    }
    if (payload_bytes != 0) {
        memcpy(buffer + RAWE_PAYLOAD_OFFSET, payload, payload_bytes);
    }
    return rawe_conn_transmit_sealed(via, buffer, &header);
}

/* ---- deadlines, and the peer's silence ---- */

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

/** A target inside MPI starts replying sooner; a target that is computing must be woken soon. */
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
        /* Do not wait for the request's own probe, which would be later. */
        return progress_ns + first_question_ns(conn);
    }
    if (conn->path.liveness.probe_deadline_ns != 0) {
        return 0;
    }
    if (rawe_conn_end_asks(&conn->end)) {
        return asked_ns + limits->probe_least_ns;
    }
    if (progress_ns != 0) {
        /* The peer may have left MPI. Double the interval, in case the peer is only busy. */
        uint64_t waited_ns = asked_ns > progress_ns ? 2 * (asked_ns - progress_ns) : 0;
        uint64_t least_ns = probe_interval_ns(conn);
        waited_ns = waited_ns > least_ns ? waited_ns : least_ns;
        return waited_ns < limits->probe_most_ns ? progress_ns + waited_ns
                                                 : asked_ns + limits->probe_most_ns;
    }
    if (interval_ns == 0) {
        return 0;
    }
    /* One idle probe per process is enough: the connection that sends it notices a dead peer. */
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

void rawe_conn_plan_probe(struct rawe_conn *conn, uint64_t now_ns)
{
    uint64_t deadline_ns = conn->path.liveness.probe_deadline_ns;
    /* Keep an earlier deadline and correct it later: no interval is shorter than the minimum. */
    if (deadline_ns == 0 || deadline_ns > now_ns + conn->engine->config.liveness.probe_least_ns) {
        deadline_ns = now_ns + probe_interval_ns(conn);
        if (rawe_liveness_ask_by(&conn->path.liveness, deadline_ns)) {
            rawe_timer_arm_by(&conn->engine->timers, &conn->timer, deadline_ns);
        }
    }
}

__attribute__((hot)) void rawe_conn_await_ack(struct rawe_conn *conn, uint64_t now_ns)
{
    rawe_liveness_wait(&conn->path.liveness, now_ns);
    rawe_conn_plan_probe(conn, now_ns);
}

/** Longest interval between probes of a stall, which count as absence if much further apart. */
#define STALL_INTERVAL_MOST_NS 50000000ull

/**
 * Return the interval until the next probe. During a stall, each answer causes a resend of frames
 * that probably do not pass, so each transmission doubles the interval, like TCP's RTO.
 */
static uint64_t patient_interval_ns(const struct rawe_conn *conn)
{
    const struct rawe_txframe *oldest = conn->tx.window.oldest;
    unsigned sendings = oldest != NULL ? oldest->sendings : 0;
    uint64_t interval_ns = probe_interval_ns(conn);
    for (; sendings > RAWE_LIVENESS_STALL_SENDINGS && interval_ns < STALL_INTERVAL_MOST_NS / 2;
         sendings--) {
        interval_ns *= 2;
    }
    return interval_ns;
}

void rawe_conn_correct_probe(struct rawe_conn *conn, uint64_t now_ns)
{
    if (conn->path.liveness.probe_deadline_ns <= now_ns &&
        conn->handshake.state == RAWE_CONN_OPEN && !conn->tx.wants_credit) {
        rawe_liveness_correct(&conn->path.liveness, patient_interval_ns(conn));
    }
}
