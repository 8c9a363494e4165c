/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Life of a connection: opening, the CONNECT exchange, timers, silence, end.
 */
#include "rawe_conn.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/** First interval between CONNECT requests, and between probes before there is an RTT sample. */
#define FIRST_INTERVAL_NS 1000000ull

/** No estimate lets a first probe wait longer: a rank that computed leaves huge RTT samples. */
#define FIRST_PROBE_MOST_NS 10000000ull

/** Congestion window to start with. */
#define FIRST_WINDOW_FRAMES 64u

/** Probes that must have gone unanswered before the peer's life is doubted. */
#define DOUBT_PROBES 3u

/** Sendings of the oldest frame after which it is not chance any more that it does not arrive. */
#define STALL_SENDINGS 4u

/** Probes that are answered follow each other faster than that, as long as we run. */
#define OWN_PAUSE_NS 100000000ull

static void timer_expired(struct rawe_timer *timer, uint64_t now_ns);

static bool table_add(struct rawe_engine *engine, struct rawe_conn *conn)
{
    uint32_t index = engine->table_full_below;
    while (index < engine->table_size && engine->table[index] != NULL) {
        index++;
    }
    if (index == engine->table_size) {
        uint32_t size = engine->table_size == 0 ? 16 : engine->table_size * 2;
        if (size > 1u << 20) {
            return false;
        }
        struct rawe_conn **table = realloc(engine->table, size * sizeof(*table));
        if (table == NULL) {
            return false;
        }
        engine->table = table;
        uint16_t *generations = realloc(engine->generations, size * sizeof(*generations));
        if (generations == NULL) {
            return false;
        }
        engine->generations = generations;
        for (uint32_t i = engine->table_size; i < size; i++) {
            table[i] = NULL;
            generations[i] = 0;
        }
        engine->table_size = size;
    }
    engine->table[index] = conn;
    engine->table_full_below = index + 1;
    engine->open_count++;
    conn->local_id = index;
    return true;
}

/** A new generation of the connection's id: frames of the earlier one are unknown peers from now on. */
static void renew_id(struct rawe_conn *conn)
{
    struct rawe_engine *engine = conn->engine;
    uint32_t index = conn->local_id & 0xFFFFFu;
    uint16_t generation = (uint16_t)(engine->generations[index] % 0xFFFu + 1);
    engine->generations[index] = generation;
    conn->local_id = index | (uint32_t)generation << 20;
}

/** Sending and receiving state of a connection on which nothing has been sent yet. */
static void reset_state(struct rawe_conn *conn)
{
    const struct rawe_engine_config *config = &conn->engine->config;
    conn->peer_id = 0;
    conn->una = conn->next = conn->transmit_from = conn->ack_requested = config->first_sequence;
    conn->in_flight = conn->to_transmit = conn->sacked = 0;
    conn->message_number = conn->messages_open = config->first_sequence;
    conn->batch = RAWE_BATCH_UNTRIED;
    conn->messages_done = 0;
    conn->newest_delivered_ns = conn->evidence_ns = 0;
    conn->loss_deadline_ns = conn->probe_deadline_ns = conn->ack_deadline_ns = 0;
    conn->stalled_since_ns = 0;
    conn->unacked_frames = 0;
    conn->ack_now = conn->answer_probe = false;
    conn->peer_credit = RAWE_CC_LEAST_FRAMES;
    rawe_rtt_init(&conn->rtt);
    rawe_cc_init(&conn->cc, FIRST_WINDOW_FRAMES, config->window_frames);
    if (conn->acktr != NULL) {
        rawe_acktr_init(conn->acktr);
        conn->acktr->next = config->first_sequence;
    }
    if (conn->reassembly != NULL) {
        rawe_reassembly_clear(conn->reassembly, &conn->engine->reassembly_buffers);
        conn->reassembly->next = config->first_sequence;
    }
    if (conn->engine->inplace.conn == conn) {
        conn->engine->inplace.conn = NULL;
    }
    rawe_conn_heard(conn);
}

void rawe_conn_renew(struct rawe_conn *conn)
{
    renew_id(conn);
    conn->local_incarnation = ++conn->engine->incarnation;
    reset_state(conn);
}

struct rawe_conn *rawe_conn_open(struct rawe_engine *engine, const struct rawe_conn_config *config)
{
    struct rawe_conn *conn = calloc(1, sizeof(*conn));
    if (conn == NULL) {
        return NULL;
    }
    if (!table_add(engine, conn)) {
        free(conn);
        return NULL;
    }
    conn->engine = engine;
    conn->owner = config->owner;
    conn->lane = config->lane;
    conn->state = RAWE_CONN_IDLE;
    memcpy(conn->eth_header, config->peer_mac, RAWE_MAC_BYTES);
    memcpy(conn->eth_header + RAWE_MAC_BYTES, engine->config.mac, RAWE_MAC_BYTES);
    conn->eth_header[12] = (uint8_t)(engine->config.ethertype >> 8);
    conn->eth_header[13] = (uint8_t)engine->config.ethertype;
    conn->peer_port = config->peer_port;
    conn->peer_key = config->peer_key;
    conn->payload_max_bytes = rawe_engine_path_payload(engine, config->payload_max_bytes);
    conn->queue_tail = &conn->queue;
    rawe_timer_init(&conn->timer, timer_expired);
    rawe_conn_renew(conn);
    return conn;
}

static bool unlink_pending(struct rawe_conn **link, const struct rawe_conn *conn)
{
    for (; *link != NULL; link = &(*link)->next_pending) {
        if (*link == conn) {
            *link = conn->next_pending;
            return true;
        }
    }
    return false;
}

void rawe_conn_close(struct rawe_conn *conn, uint64_t now_ns)
{
    struct rawe_engine *engine = conn->engine;
    engine->now_ns = now_ns;
    if (conn->peer_id != 0 && conn->state == RAWE_CONN_OPEN) {
        rawe_conn_transmit_control(conn, RAWE_FRAME_CLOSE, 0, 0, NULL, 0);
    }
    conn->state = RAWE_CONN_FAILED; /* for what is sent by a `done` */
    rawe_conn_complete(engine, rawe_conn_abandon(conn, true), RAWE_STATUS_FAILED);
    rawe_engine_drop_deferred(engine, conn);
    if (conn->reassembly != NULL) {
        rawe_reassembly_clear(conn->reassembly, &engine->reassembly_buffers);
    }
    if (engine->inplace.conn == conn) {
        engine->inplace.conn = NULL;
    }
    rawe_timer_cancel(&engine->timers, &conn->timer);
    if (conn->is_pending && !unlink_pending(&engine->pending, conn)) {
        unlink_pending(&engine->flushing, conn);
    }
    uint32_t index = conn->local_id & 0xFFFFFu;
    engine->table[index] = NULL;
    if (index < engine->table_full_below) {
        engine->table_full_below = index;
    }
    engine->open_count--;
    free(conn->slots);
    free(conn->acktr);
    free(conn->reassembly);
    free(conn);
}

bool rawe_conn_drained(const struct rawe_conn *conn)
{
    return conn->state == RAWE_CONN_FAILED ||
           (conn->queue == NULL && conn->coalescing == NULL && conn->una == conn->next);
}

/** Windows are allocated on first use: a known, idle peer costs only struct rawe_conn. */
static bool allocate_windows(struct rawe_conn *conn)
{
    if (conn->slots == NULL) {
        conn->slots = calloc(conn->engine->config.window_frames, sizeof(*conn->slots));
    }
    if (conn->acktr == NULL) {
        conn->acktr = calloc(1, sizeof(*conn->acktr));
        if (conn->acktr != NULL) {
            conn->acktr->next = conn->engine->config.first_sequence;
        }
    }
    return conn->slots != NULL && conn->acktr != NULL;
}

/** Who we are and where to answer to: the payload of CONNECT and PROBE. */
static void write_identity(const struct rawe_conn *conn, uint8_t payload[RAWE_CONNECT_BYTES])
{
    const struct rawe_engine *engine = conn->engine;
    struct rawe_connect connect = {
        .jobid = engine->config.jobid,
        .vpid = engine->config.vpid,
        .connection_id = conn->local_id,
        .key = engine->config.key,
        .port = engine->config.port,
        .lane = conn->lane,
        .payload_max_bytes = conn->payload_max_bytes,
        .incarnation = conn->local_incarnation,
    };
    rawe_connect_encode(payload, &connect);
}

static bool send_probe(struct rawe_conn *conn)
{
    uint8_t payload[RAWE_CONNECT_BYTES];
    write_identity(conn, payload);
    return rawe_conn_transmit_control(conn, RAWE_FRAME_PROBE, 0, conn->probe_number + 1, payload,
                                      sizeof(payload));
}

static void send_connect(struct rawe_conn *conn, uint32_t to_id, bool reply)
{
    uint8_t payload[RAWE_CONNECT_BYTES];
    write_identity(conn, payload);
    uint32_t peer_id = conn->peer_id;
    conn->peer_id = to_id;
    rawe_conn_transmit_control(conn, RAWE_FRAME_CONNECT, reply ? RAWE_FLAG_REPLY : 0, 0, payload,
                               sizeof(payload));
    conn->peer_id = peer_id;
    conn->engine->counters.connects_sent++;
}

void rawe_conn_connect(struct rawe_conn *conn, uint64_t now_ns)
{
    if (!allocate_windows(conn)) {
        /* Try again when the timer expires: memory may have come back by then. */
        conn->state = RAWE_CONN_CONNECTING;
        conn->probe_deadline_ns = now_ns + FIRST_INTERVAL_NS;
        rawe_conn_arm(conn);
        return;
    }
    conn->state = RAWE_CONN_CONNECTING;
    send_connect(conn, 0, false);
    conn->asked_ns = now_ns;
    conn->probe_deadline_ns = now_ns + FIRST_INTERVAL_NS;
    rawe_conn_arm(conn);
}

static void answer_connect(struct rawe_conn *conn, const struct rawe_connect *from, bool reply,
                           uint64_t now_ns)
{
    rawe_conn_heard(conn);
    if (!reply) {
        if (!allocate_windows(conn)) {
            return; /* the peer asks again */
        }
        send_connect(conn, from->connection_id, true);
    }
    if (conn->state == RAWE_CONN_IDLE) {
        rawe_conn_connect(conn, now_ns); /* or, after a reply to an id renewed just now, again */
        return;
    }
    if (!reply || conn->state != RAWE_CONN_CONNECTING || conn->slots == NULL ||
        conn->acktr == NULL) {
        return; /* a second copy of the reply, or to what could not be asked for lack of memory */
    }
    conn->peer_id = from->connection_id;
    if (from->payload_max_bytes < conn->payload_max_bytes) {
        conn->payload_max_bytes = from->payload_max_bytes;
    }
    conn->state = RAWE_CONN_OPEN;
    conn->probe_deadline_ns = 0;
    rawe_conn_make_pending(conn);
}

void rawe_conn_receive_connect(struct rawe_conn *conn, const struct rawe_connect *from, bool reply,
                               uint64_t now_ns)
{
    struct rawe_engine *engine = conn->engine;
    engine->counters.connects_received++;
    if (conn->state == RAWE_CONN_FAILED || from->incarnation < conn->peer_incarnation ||
        (conn->state == RAWE_CONN_PEER_CLOSED && from->incarnation <= conn->peer_incarnation)) {
        engine->counters.dropped_connection++;
        return;
    }
    struct rawe_send *complete = NULL;
    if (from->incarnation != conn->peer_incarnation) {
        if (conn->state == RAWE_CONN_OPEN || conn->state == RAWE_CONN_PEER_CLOSED) {
            /*
             * The peer has closed the connection and opened it anew, and its CLOSE may have been
             * lost. What was in flight belonged to the old one.
             */
            complete = rawe_conn_abandon(conn, false);
            rawe_conn_renew(conn);
            conn->state = RAWE_CONN_IDLE;
        } else if (conn->state == RAWE_CONN_CONNECTING && conn->peer_incarnation != 0) {
            /*
             * The peer's old one knows our id, and its frames may come late. Nothing has been sent,
             * so our incarnation stays: a new one would make the peer begin anew, then us, ...
             */
            renew_id(conn);
            reset_state(conn);
            conn->state = RAWE_CONN_IDLE;
        }
        conn->peer_incarnation = from->incarnation;
    }
    answer_connect(conn, from, reply, now_ns);
    rawe_conn_complete(conn->engine, complete, RAWE_STATUS_DONE);
}

void rawe_conn_heard(struct rawe_conn *conn)
{
    conn->probes_unanswered = 0;
    conn->silent_since_ns = 0;
}

void rawe_conn_alive(struct rawe_conn *conn, uint64_t alive_ns)
{
    if (conn->silent_since_ns != 0 && conn->silent_since_ns < alive_ns) {
        conn->silent_since_ns = alive_ns;
    }
    if (conn->stalled_since_ns != 0 && conn->stalled_since_ns < alive_ns) {
        conn->stalled_since_ns = alive_ns;
    }
}

void rawe_conn_set_payload_max(struct rawe_conn *conn, uint32_t payload_max_bytes)
{
    uint32_t bytes = rawe_engine_path_payload(conn->engine, payload_max_bytes);
    assert(payload_max_bytes >= RAWE_PAYLOAD_LEAST_BYTES);
    if (bytes < conn->payload_max_bytes) {
        conn->payload_max_bytes = bytes;
    }
}

void rawe_conn_make_pending(struct rawe_conn *conn)
{
    if (!conn->is_pending) {
        conn->is_pending = true;
        conn->next_pending = conn->engine->pending;
        conn->engine->pending = conn;
    }
}

void rawe_conn_arm(struct rawe_conn *conn)
{
    uint64_t deadline_ns = UINT64_MAX;
    if (conn->ack_deadline_ns != 0) {
        deadline_ns = conn->ack_deadline_ns;
    }
    if (conn->loss_deadline_ns != 0 && conn->loss_deadline_ns < deadline_ns) {
        deadline_ns = conn->loss_deadline_ns;
    }
    if (conn->probe_deadline_ns != 0 && conn->probe_deadline_ns < deadline_ns) {
        deadline_ns = conn->probe_deadline_ns;
    }
    if (deadline_ns != UINT64_MAX) {
        rawe_timer_arm_by(&conn->engine->timers, &conn->timer, deadline_ns);
    }
}

/** How long to wait for an answer before the next question, doubled with each that stays open. */
static uint64_t probe_interval_ns(const struct rawe_conn *conn)
{
    const struct rawe_engine_config *config = &conn->engine->config;
    uint64_t most_ns = config->probe_most_ns;
    uint64_t first_most_ns = most_ns < FIRST_PROBE_MOST_NS ? most_ns : FIRST_PROBE_MOST_NS;
    uint64_t interval_ns = conn->rtt.smoothed_ns == 0
                               ? FIRST_INTERVAL_NS
                               : rawe_rtt_overdue(&conn->rtt, config->probe_least_ns,
                                                  first_most_ns);
    uint32_t doublings = conn->probes_unanswered < 16 ? conn->probes_unanswered : 16;
    interval_ns <<= doublings;
    return interval_ns < most_ns ? interval_ns : most_ns;
}

void rawe_conn_await_ack(struct rawe_conn *conn, uint64_t now_ns)
{
    uint64_t deadline_ns = now_ns + probe_interval_ns(conn);
    if (conn->probe_deadline_ns == 0 || deadline_ns < conn->probe_deadline_ns) {
        conn->probe_deadline_ns = deadline_ns;
        rawe_conn_arm(conn);
    }
}

void rawe_conn_expect_ack(struct rawe_conn *conn, uint64_t now_ns)
{
    if (conn->una == conn->next) {
        conn->probe_deadline_ns = 0;
        return;
    }
    conn->probe_deadline_ns = now_ns + probe_interval_ns(conn);
    rawe_conn_arm(conn);
}

static void give_up(struct rawe_conn *conn, uint64_t silent_ns)
{
    struct rawe_engine *engine = conn->engine;
    conn->state = RAWE_CONN_FAILED;
    conn->probe_deadline_ns = conn->loss_deadline_ns = conn->ack_deadline_ns = 0;
    engine->counters.peers_lost++;
    struct rawe_send *complete = rawe_conn_abandon(conn, true);
    if (engine->callbacks.failed != NULL) {
        engine->callbacks.failed(engine->context, conn, silent_ns);
    }
    rawe_conn_complete(engine, complete, RAWE_STATUS_FAILED);
}

/**
 * A probe is due: do probes come back, but the oldest frame does not arrive? Time in which we did not
 * run, or our owner was away, does not count. Returns false when the connection is given up.
 */
static bool check_stall(struct rawe_conn *conn, uint64_t interval_ns, uint64_t now_ns)
{
    struct rawe_engine *engine = conn->engine;
    const struct rawe_txframe *oldest =
        conn->una == conn->next ? NULL
                                : conn->slots[conn->una & (engine->config.window_frames - 1)];
    if (oldest == NULL || oldest->sendings < STALL_SENDINGS || conn->una != conn->stalled_una ||
        conn->stalled_since_ns == 0) {
        conn->stalled_una = conn->una;
        conn->stalled_since_ns = now_ns;
        return true;
    }
    uint64_t passed_ns = now_ns - conn->asked_ns;
    if (engine->deferring || passed_ns > 2 * interval_ns + OWN_PAUSE_NS) {
        conn->stalled_since_ns += passed_ns;
        return true;
    }
    uint64_t stalled_ns =
        now_ns > conn->stalled_since_ns ? now_ns - conn->stalled_since_ns : 0;
    if (engine->config.peer_timeout_ns != 0 && stalled_ns >= engine->config.peer_timeout_ns) {
        give_up(conn, stalled_ns);
        return false;
    }
    if (conn->probes_unanswered == 0 && engine->callbacks.stalled != NULL) {
        engine->callbacks.stalled(engine->context, conn, stalled_ns);
    }
    return true;
}

/**
 * Silence lasts: ask again, doubt, in the end give up. Time in which we ourselves did not run
 * (nobody called progress) is not the peer's silence, nor is time in which our owner was away and
 * its responder was not asked. Returns false when it has given up: the connection may have been
 * closed by that.
 */
static bool ask(struct rawe_conn *conn, uint64_t now_ns)
{
    struct rawe_engine *engine = conn->engine;
    uint64_t interval_ns = probe_interval_ns(conn);
    if (!check_stall(conn, interval_ns, now_ns)) {
        return false;
    }
    if (conn->silent_since_ns == 0) {
        conn->silent_since_ns = now_ns;
    } else {
        uint64_t passed_ns = now_ns - conn->asked_ns;
        if (engine->deferring) {
            conn->silent_since_ns += passed_ns;
        } else if (passed_ns > 2 * interval_ns) {
            conn->silent_since_ns += passed_ns - interval_ns;
        }
    }
    uint64_t silent_ns = now_ns > conn->silent_since_ns ? now_ns - conn->silent_since_ns : 0;
    if (engine->config.peer_timeout_ns != 0 && silent_ns >= engine->config.peer_timeout_ns &&
        !engine->deferring) {
        give_up(conn, silent_ns);
        return false;
    }
    if (conn->state == RAWE_CONN_CONNECTING) {
        if (allocate_windows(conn)) {
            send_connect(conn, 0, false);
        }
    } else if (send_probe(conn)) {
        conn->probe_number++;
        conn->probe_sent_ns[conn->probe_number % RAWE_CONN_PROBES] = now_ns;
        engine->counters.probes_sent++;
    }
    conn->asked_ns = now_ns;
    conn->probes_unanswered++;
    conn->probe_deadline_ns = now_ns + probe_interval_ns(conn);
    if (conn->probes_unanswered >= DOUBT_PROBES && engine->callbacks.silent != NULL &&
        !engine->deferring) {
        engine->callbacks.silent(engine->context, conn, silent_ns);
    }
    return true;
}

static void timer_expired(struct rawe_timer *timer, uint64_t now_ns)
{
    struct rawe_conn *conn =
        (struct rawe_conn *)(void *)((char *)timer - offsetof(struct rawe_conn, timer));
    if (conn->ack_deadline_ns != 0 && now_ns >= conn->ack_deadline_ns) {
        conn->ack_deadline_ns = 0;
        conn->ack_now = true;
        rawe_conn_make_pending(conn);
    }
    if (conn->loss_deadline_ns != 0 && now_ns >= conn->loss_deadline_ns) {
        conn->loss_deadline_ns = 0;
        rawe_conn_detect_losses(conn, now_ns);
        rawe_conn_make_pending(conn);
    }
    if (conn->probe_deadline_ns != 0 && now_ns >= conn->probe_deadline_ns) {
        conn->probe_deadline_ns = 0;
        if ((conn->state == RAWE_CONN_CONNECTING || conn->una != conn->next) &&
            !ask(conn, now_ns)) {
            return;
        }
    }
    rawe_conn_arm(conn);
}

struct rawe_send *rawe_conn_release(struct rawe_conn *conn, uint32_t sequence)
{
    uint32_t slot = sequence & (conn->engine->config.window_frames - 1);
    struct rawe_txframe *frame = conn->slots[slot];
    struct rawe_send *send = frame->send;
    conn->slots[slot] = NULL;
    switch (frame->state) {
    case RAWE_TXFRAME_SENT:
        conn->in_flight--;
        break;
    case RAWE_TXFRAME_SACKED:
        conn->sacked--;
        break;
    default:
        conn->to_transmit--;
        break;
    }
    rawe_txframe_give(&conn->engine->frames, frame);
    if (send == NULL || --send->frames != 0 || send->framed_bytes != send->total_bytes) {
        return NULL;
    }
    if (send->fragmented) {
        conn->messages_done |= 1ull << (send->message_number - conn->messages_open);
        while (conn->messages_done & 1) {
            conn->messages_done >>= 1;
            conn->messages_open++;
        }
    }
    return send;
}

struct rawe_send *rawe_conn_abandon(struct rawe_conn *conn, bool queue_too)
{
    struct rawe_send *complete = NULL;
    struct rawe_send **tail = &complete;
    for (uint32_t sequence = conn->una; sequence != conn->next; sequence++) {
        struct rawe_send *send = rawe_conn_release(conn, sequence);
        if (send != NULL) {
            *tail = send;
            tail = &send->next;
        }
    }
    conn->una = conn->next;
    /* The head of the queue may be half in the frames just released. */
    if (conn->queue != NULL && (queue_too || conn->queue->framed_bytes != 0)) {
        struct rawe_send *head = conn->queue;
        conn->queued_bytes -= head->total_bytes - head->framed_bytes;
        conn->queue = head->next;
        conn->queued_sends--;
        if (conn->queue == NULL) {
            conn->queue_tail = &conn->queue;
        }
        *tail = head;
        tail = &head->next;
    }
    *tail = NULL;
    if (queue_too) {
        rawe_conn_coalesce_drop(conn);
        *tail = conn->queue;
        conn->queued_bytes = 0;
        conn->queued_sends = 0;
        conn->queue = NULL;
        conn->queue_tail = &conn->queue;
    }
    return complete;
}

void rawe_conn_complete(struct rawe_engine *engine, struct rawe_send *list,
                        enum rawe_status status)
{
    if (engine->deferring && list != NULL) {
        rawe_engine_defer_completion(engine, list, status);
        return;
    }
    while (list != NULL) {
        struct rawe_send *next = list->next;
        list->done(list, status);
        list = next;
    }
}
