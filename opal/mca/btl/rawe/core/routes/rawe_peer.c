/* SPDX-License-Identifier: BSD-3-Clause */
#include "rawe_peer.h"
#include "conn/rawe_conn_connect.h"
#include "conn/rawe_conn_tx.h"
#include "conn/rawe_conn_path.h"
#include "conn/rawe_conn_record.h"
#include "conn/rawe_conn_send.h"
#include "conn/rawe_conn.h"

#include <stdlib.h>
#include <string.h>

/** Progress of a message. */
enum phase {
    PHASE_CALLING,     /**< inside rawe_peer_send; nothing has been reported */
    PHASE_TRANSMITTED, /**< inside rawe_peer_send; the whole message was transmitted */
    PHASE_FINISHED,    /**< inside rawe_peer_send; done */
    PHASE_QUEUED,      /**< rawe_peer_send has returned */
};

static uint64_t now_ns(const struct rawe_peer *peer)
{
    return rawe_engine_clock_ns(peer->engine);
}

void rawe_peer_init(struct rawe_peer *peer, struct rawe_engine *engine,
                    const struct rawe_peer_config *config)
{
    memset(peer, 0, sizeof(*peer));
    peer->engine = engine;
    peer->owner = config->owner;
    peer->speed_mbps = config->speed_mbps;
    peer->route = (struct rawe_route){
        .engine = engine,
        .port = config->port,
        .key = config->key,
        .payload_max_bytes = config->payload_max_bytes,
        .interface = config->interface,
    };
    memcpy(peer->route.mac, config->mac, RAWE_MAC_BYTES);
    rawe_route_init(&peer->route);
    if (engine->config.overtaken_most != 0) {
        rawe_order_init(&peer->route.own_order, engine->config.overtaken_most);
    }
}

static struct rawe_peer *peer_of(struct rawe_route *route)
{
    return RAWE_OWNER(route, struct rawe_peer, route);
}

struct rawe_peer *rawe_peer_next(struct rawe_peer *peer)
{
    return peer_of(rawe_route_next(&peer->route));
}

struct rawe_peer *rawe_peer_used(const struct rawe_conn *conn)
{
    return peer_of(conn->path.route);
}

void rawe_peer_join(struct rawe_peer *peer, struct rawe_peer *other)
{
    rawe_route_join(&peer->route, &other->route);
}

/** Call a function for each connection to the process, passing it the route of `peer`. */
static void for_all(struct rawe_peer *peer,
                    void (*each)(struct rawe_conn *conn, struct rawe_route *route, uint64_t now_ns),
                    uint64_t now_ns)
{
    struct rawe_peer *other = peer;
    do {
        for (unsigned lane = 0; lane < RAWE_LANES; lane++) {
            if (other->conn[lane] != NULL) {
                each(other->conn[lane], &peer->route, now_ns);
            }
        }
        other = rawe_peer_next(other);
    } while (other != peer);
}

/** Choose a route after a change: the preferred one if up, otherwise the current one if up. */
static void choose_route(struct rawe_conn *conn, struct rawe_route *route, uint64_t now_ns)
{
    struct rawe_route *best = rawe_route_best(conn->path.preferred);
    bool stays = !conn->path.route->down && conn->path.preferred->down;
    if (best != NULL && best != conn->path.route && !stays) {
        rawe_conn_move(conn, best, now_ns);
    }
}

/** Move a connection off a removed route, to the preferred one if there is no other. */
static void move_off_route(struct rawe_conn *conn, struct rawe_route *route, uint64_t now_ns)
{
    choose_route(conn, route, now_ns);
    if (conn->path.route == route && conn->path.preferred != route) {
        rawe_conn_move(conn, conn->path.preferred, now_ns);
    }
    if (conn->path.back == route) {
        rawe_conn_path_asked(conn, conn->path.route);
    }
}

void rawe_peer_set_down(struct rawe_peer *peer, uint64_t now_ns)
{
    peer->route.down = true;
    for_all(peer, choose_route, now_ns);
}

void rawe_peer_set_up(struct rawe_peer *peer, uint64_t now_ns)
{
    peer->route.down = false;
    for_all(peer, choose_route, now_ns);
}

struct rawe_conn *rawe_peer_open(struct rawe_peer *peer, unsigned lane)
{
    peer->conn[lane] = rawe_conn_open(&peer->route, lane, peer, peer->owner);
    return peer->conn[lane];
}

void rawe_peer_connect(struct rawe_peer *peer, unsigned lane)
{
    struct rawe_conn *conn = rawe_peer_conn(peer, lane);
    if (conn != NULL && conn->handshake.state == RAWE_CONN_IDLE) {
        rawe_conn_connect(conn, now_ns(peer));
    }
}

static void abandon_waiting(struct rawe_engine *engine, const struct rawe_peer *peer);

void rawe_peer_close(struct rawe_peer *peer)
{
    abandon_waiting(peer->engine, peer);
    for (unsigned lane = 0; lane < RAWE_LANES; lane++) {
        if (peer->conn[lane] != NULL) {
            rawe_conn_close(peer->conn[lane], now_ns(peer));
        }
        peer->conn[lane] = NULL;
    }
    peer->route.down = true;
    for_all(peer, move_off_route, now_ns(peer));
    rawe_route_remove(&peer->route);
}

void rawe_peer_give_up(struct rawe_peer *peer)
{
    abandon_waiting(peer->engine, peer);
    for (unsigned lane = 0; lane < RAWE_LANES; lane++) {
        struct rawe_conn *conn = rawe_peer_conn(peer, lane); /* NULL: out of memory, no notice */
        if (conn != NULL && conn->handshake.state != RAWE_CONN_FAILED) {
            rawe_conn_fail(conn, RAWE_FAILURE_RENOUNCED, 0);
        }
    }
}

/** Adapt a connection to a changed payload limit of a route. */
static void fit_payload(struct rawe_conn *conn, struct rawe_route *route, uint64_t now_ns)
{
    rawe_conn_path_fit(conn);
}

void rawe_peer_set_payload_max(struct rawe_peer *peer, uint32_t payload_max_bytes)
{
    peer->route.payload_max_bytes = payload_max_bytes;
    for_all(peer, fit_payload, peer->engine->now_ns);
}

/** Use the new address of either end of the route. */
static void readdress_conn(struct rawe_conn *conn, struct rawe_route *route, uint64_t now_ns)
{
    if (conn->path.route == route) {
        rawe_conn_readdress(conn, now_ns);
    }
}

void rawe_peer_set_mac(struct rawe_peer *peer, const uint8_t mac[RAWE_MAC_BYTES], uint64_t now_ns)
{
    memcpy(peer->route.mac, mac, RAWE_MAC_BYTES);
    for_all(peer, readdress_conn, now_ns);
}

void rawe_peer_announce(struct rawe_peer *peer, bool opens, uint64_t now_ns)
{
    struct rawe_conn *conn =
        opens ? rawe_peer_conn(peer, RAWE_LANE_EXPRESS) : peer->conn[RAWE_LANE_EXPRESS];
    for_all(peer, readdress_conn, now_ns);
    if (opens && conn != NULL && conn->handshake.state == RAWE_CONN_IDLE &&
        !peer->engine->finalizing) {
        rawe_conn_connect(conn, now_ns);
    }
}

enum rawe_finalized rawe_peer_finalized(struct rawe_peer *peer, enum rawe_needs needs,
                                        uint64_t now_ns)
{
    enum rawe_finalized worst = RAWE_FINALIZED_DONE;
    for (unsigned lane = 0; lane < RAWE_LANES; lane++) {
        if (peer->conn[lane] != NULL) {
            enum rawe_finalized one = rawe_conn_finalized(peer->conn[lane], needs, now_ns);
            worst = one > worst ? one : worst;
        }
    }
    return worst;
}

/** Return true if a streak can begin, regardless of the number of messages in a row. */
static bool streak_begins(const struct rawe_peer *peer, const struct rawe_conn *express,
                          const struct rawe_conn *bulk, uint64_t passed_ns)
{
    const struct rawe_engine *engine = peer->engine;
    return engine->config.coalesce_from_frames != 0 &&
           express->tx.window.in_flight >= engine->config.coalesce_from_frames &&
           passed_ns < engine->config.streak_ns && engine->batches.output.transmit != NULL &&
           (bulk == NULL || bulk->path.batch == RAWE_BATCH_UNVALIDATED ||
            bulk->path.batch == RAWE_BATCH_VALID);
}

/** Return true if a message that coalesces poorly joins or begins a streak. See joins_streak. */
static bool poor_joins_streak(struct rawe_peer *peer, const struct rawe_conn *express)
{
    const struct rawe_conn *bulk = peer->conn[RAWE_LANE_BULK];
    bool idle = bulk == NULL || rawe_conn_drained(bulk);
    if (peer->streak && (!idle || peer->streak_count == 0)) {
        return true; /* 0: this message started the streak but could not be copied */
    }
    peer->streak = false;
    if (++peer->streak_count <= RAWE_PEER_STREAK_MESSAGES) {
        return false;
    }
    uint64_t time_ns = now_ns(peer);
    peer->streak = idle && streak_begins(peer, express, bulk, time_ns - peer->streak_since_ns);
    peer->streak_count = 0;
    peer->streak_since_ns = time_ns;
    return peer->streak;
}

/**
 * Return true if this message, which fits a frame, is one of many sent in a row. It then shares a
 * batch with its successors on the bulk lane: one system call for dozens of messages. Frames in
 * flight alone may mean a slow peer, and messages close together a ping-pong, so both are needed.
 * Lone messages are slower on the bulk lane (NAS LU by 10 %, ping-pong by 20 %). No streak begins
 * while long messages would delay it. A streak lasts until the bulk lane is acknowledged, because
 * changing lanes changes the order.
 */
static inline bool joins_streak(struct rawe_peer *peer, const struct rawe_conn *express,
                                size_t total_bytes)
{
    return __builtin_expect(rawe_conn_coalesce_poor(express, total_bytes), 0) &&
           poor_joins_streak(peer, express);
}

__attribute__((hot)) enum rawe_status rawe_peer_send_copy(struct rawe_peer *peer, uint8_t tag,
                                                          const void *first, size_t first_bytes,
                                                          const void *second, size_t second_bytes)
{
    struct rawe_conn *conn = rawe_peer_conn(peer, RAWE_LANE_EXPRESS);
    size_t total_bytes = first_bytes + second_bytes;
    if (conn == NULL || total_bytes > peer->engine->config.copy_max_bytes ||
        total_bytes > rawe_conn_frame_message_bytes(conn) ||
        joins_streak(peer, conn, total_bytes)) {
        return RAWE_STATUS_BUSY;
    }
    return rawe_conn_send_copy(conn, tag, first, first_bytes, second, second_bytes);
}

static struct rawe_message *message_of(struct rawe_send *send)
{
    return RAWE_OWNER(send, struct rawe_message, send);
}

/** rawe_send.done: the peer has acknowledged the message, or never will. */
static void message_done(struct rawe_send *send, enum rawe_status status)
{
    struct rawe_message *message = message_of(send);
    if (message->phase != PHASE_QUEUED) {
        message->phase = PHASE_FINISHED;
        message->status = status;
    } else if (message->completed_early) {
        message->release(message);
    } else {
        message->complete(message, status);
    }
}

/** Complete a transmitted message early. Copies its second piece to the message's own memory. */
static void complete_early(struct rawe_message *message, struct rawe_conn *conn)
{
    struct rawe_send *send = &message->send;
    if (send->piece_count != 1) {
        memcpy(message->own + send->pieces[0].len_bytes, send->pieces[1].base,
               send->pieces[1].len_bytes);
        rawe_sendwin_rebase(&conn->tx.window, send, message->own);
    }
    message->completed_early = true;
    message->phase = PHASE_QUEUED;
}

/** rawe_send.transmitted */
static void message_transmitted(struct rawe_send *send, struct rawe_conn *conn)
{
    struct rawe_message *message = message_of(send);
    if (message->phase == PHASE_CALLING) {
        message->phase = PHASE_TRANSMITTED;
    } else {
        complete_early(message, conn);
        message->complete(message, RAWE_STATUS_DONE);
    }
}

/** Send a message without copying it first. */
static enum rawe_peer_result send_in_place(struct rawe_peer *peer, struct rawe_conn *conn,
                                           struct rawe_message *message, size_t total_bytes)
{
    struct rawe_send *send = &message->send;
    bool may_copy = !send->ordered && total_bytes <= RAWE_PEER_COPY_BYTES;
    bool early = message->own != NULL && (send->piece_count == 1 || may_copy);
    /* Ordered messages can share batches, however short they are. */
    send->ordered = send->ordered || (conn->lane == RAWE_LANE_BULK && peer->streak);
    send->kind = RAWE_FRAGMENT_MESSAGE;
    send->relaxed = early;
    send->internal = false;
    send->split = NULL;
    send->done = message_done;
    send->transmitted = early ? message_transmitted : NULL;
    message->phase = PHASE_CALLING;
    rawe_conn_send(conn, send, now_ns(peer));
    switch (message->phase) {
    case PHASE_FINISHED:
        return message->status == RAWE_STATUS_DONE ? RAWE_PEER_COMPLETE : RAWE_PEER_FAILED;
    case PHASE_TRANSMITTED:
        complete_early(message, conn);
        return RAWE_PEER_COMPLETE;
    default:
        message->phase = PHASE_QUEUED;
        return RAWE_PEER_QUEUED;
    }
}

enum rawe_peer_result rawe_peer_send(struct rawe_peer *peer, struct rawe_message *message)
{
    const struct rawe_send *send = &message->send;
    const struct rawe_bytes *pieces = send->pieces;
    size_t second_bytes = send->piece_count > 1 ? pieces[1].len_bytes : 0;
    size_t total_bytes = pieces[0].len_bytes + second_bytes;
    struct rawe_conn *conn = rawe_peer_conn(peer, RAWE_LANE_EXPRESS);
    message->completed_early = false;
    if (conn == NULL) {
        return RAWE_PEER_NO_MEMORY;
    }
    if (send->ordered || total_bytes > rawe_conn_frame_message_bytes(conn)) {
        peer->streak = false;
        conn = rawe_peer_conn(peer, RAWE_LANE_BULK);
    } else if (joins_streak(peer, conn, total_bytes)) {
        peer->streak_count = 1;
        conn = rawe_peer_conn(peer, RAWE_LANE_BULK);
    } else if (total_bytes <= peer->engine->config.copy_max_bytes) {
        enum rawe_status status =
            rawe_conn_send_copy(conn, send->tag, pieces[0].base, pieces[0].len_bytes,
                                second_bytes != 0 ? pieces[1].base : NULL, second_bytes);
        if (status != RAWE_STATUS_BUSY) {
            return status == RAWE_STATUS_DONE ? RAWE_PEER_COMPLETE : RAWE_PEER_FAILED;
        }
    }
    return conn == NULL ? RAWE_PEER_NO_MEMORY : send_in_place(peer, conn, message, total_bytes);
}

bool rawe_peer_send_control(struct rawe_peer *peer, uint64_t channel, const uint8_t *data,
                            size_t len_bytes)
{
    struct rawe_conn *conn = rawe_peer_conn(peer, RAWE_LANE_EXPRESS);
    return conn != NULL && rawe_conn_send_control(conn, channel, data, len_bytes, now_ns(peer));
}

/** Begin an operation now. Returns false if that is currently impossible. */
static bool begin_operation(struct rawe_peer *peer, struct rawe_operation *operation)
{
    struct rawe_conn *conn = rawe_peer_conn(peer, RAWE_LANE_EXPRESS);
    bool put = operation->kind == RAWE_FRAGMENT_PUT;
    if (conn == NULL || (put && !rawe_conn_copies_record(conn, operation->len_bytes))) {
        return false;
    }
    /* A record that joins a held-back frame does not need the current time. */
    bool joins = !rawe_operation_is_prompt(operation) &&
                 rawe_conn_record_joins(conn, put ? operation->len_bytes : RAWE_REQUEST_BYTES);
    return rawe_conn_operate(conn, operation, joins ? peer->engine->now_ns : now_ns(peer));
}

/** Note that a piece of a split GET, or its last request, is complete. */
static void finish_part(struct rawe_operation *whole)
{
    if (--whole->parts == 0) {
        whole->done(whole, whole->status);
    }
}

/** rawe_send.done: the split GET has no more to request. */
static void asking_done(struct rawe_send *send, enum rawe_status status)
{
    (void)status; /* the operation has its own status */
    finish_part(((struct rawe_operation_part *)(void *)send)->operation);
}

/** End the requests of a split GET. Its completion may be deferred until the caller is in MPI. */
static void end_asking(struct rawe_engine *engine, struct rawe_operation *whole)
{
    whole->completion = (struct rawe_operation_part){
        .send = {.done = asking_done, .kind = RAWE_FRAGMENT_GET},
        .operation = whole,
    };
    rawe_conn_complete(engine, &whole->completion.send, RAWE_STATUS_DONE);
}

/** rawe_operation.done of a piece of a split GET. */
static void piece_done(struct rawe_operation *piece, enum rawe_status status)
{
    struct rawe_operation *whole = piece->whole;
    enum rawe_refusal refusal = piece->refusal;
    free(piece);
    if (status == RAWE_STATUS_DROPPED) {
        return; /* the process is finalizing: `whole` belongs to its caller */
    }
    if (status != RAWE_STATUS_DONE) {
        whole->status = status;
        whole->refusal = refusal;
    }
    finish_part(whole);
}

/** Request the next `len_bytes` of a GET. Returns false if that is currently impossible. */
static bool ask_for_part(struct rawe_operation *whole, uint64_t len_bytes)
{
    struct rawe_operation *piece = malloc(sizeof(*piece));
    if (piece == NULL) {
        return false;
    }
    *piece = (struct rawe_operation){
        .done = piece_done,
        .kind = RAWE_FRAGMENT_GET,
        .handle_index = whole->handle_index,
        .handle_key = whole->handle_key,
        .offset = whole->offset + whole->asked_bytes,
        .local = whole->local + whole->asked_bytes,
        .len_bytes = len_bytes,
        .peer = whole->peer,
        .whole = whole,
        .budget = whole->budget,
    };
    whole->parts++;
    if (!begin_operation(whole->peer, piece)) {
        whole->parts--;
        free(piece);
        return false;
    }
    whole->asked_bytes += len_bytes;
    return true;
}

bool rawe_peer_operate(struct rawe_peer *peer, struct rawe_operation *operation)
{
    struct rawe_engine *engine = peer->engine;
    operation->peer = peer;
    if (rawe_pull_may_begin(&engine->pull, operation, engine->now_ns)) {
        return begin_operation(peer, operation);
    }
    if (rawe_peer_conn(peer, RAWE_LANE_EXPRESS) == NULL) {
        return false;
    }
    operation->table = NULL;
    operation->refusal = RAWE_REFUSAL_NONE;
    operation->status = RAWE_STATUS_DONE;
    operation->parts = 1; /* until its last request */
    operation->asked_bytes = 0;
    rawe_pull_wait(&engine->pull, operation, engine->now_ns);
    rawe_peer_begin_waiting(engine);
    return true;
}

/** Request `len_bytes` of a GET whose turn it is. Returns false if that is impossible. */
static bool take_turn(struct rawe_operation *operation, uint64_t len_bytes)
{
    struct rawe_engine *engine = operation->peer->engine;
    if (operation->status != RAWE_STATUS_DONE || operation->peer->conn[RAWE_LANE_EXPRESS] == NULL) {
        operation->status = RAWE_STATUS_FAILED; /* the memory is gone, or the connection closed */
    } else if (!ask_for_part(operation, len_bytes)) {
        return false;
    } else if (operation->asked_bytes != operation->len_bytes) {
        rawe_list_append(&engine->pull.waiting, &operation->link);
        return true;
    }
    end_asking(engine, operation);
    return true;
}

void rawe_peer_begin_waiting(struct rawe_engine *engine)
{
    struct rawe_operation *next;
    uint64_t len_bytes;
    while ((next = rawe_pull_next(&engine->pull, &len_bytes, engine->now_ns)) != NULL) {
        if (!take_turn(next, len_bytes)) {
            rawe_list_prepend(&engine->pull.waiting, &next->link);
            return;
        }
    }
}

/** Move the GETs from a peer to the end of another list. */
static void take_gets(struct rawe_link *from, const struct rawe_peer *peer, struct rawe_link *to)
{
    struct rawe_link *next;
    for (struct rawe_link *link = from->next; link != from; link = next) {
        next = link->next;
        if (rawe_operation_of(link)->peer == peer) {
            rawe_list_remove(link);
            rawe_list_append(to, link);
        }
    }
}

/** Fail the waiting GETs from a peer that we closed or gave up on. */
static void abandon_waiting(struct rawe_engine *engine, const struct rawe_peer *peer)
{
    struct rawe_link abandoned;
    rawe_list_init(&abandoned);
    take_gets(&engine->pull.waiting, peer, &abandoned);
    take_gets(&engine->pull.parked, peer, &abandoned);
    while (!rawe_list_empty(&abandoned)) {
        struct rawe_operation *operation = rawe_operation_of(rawe_list_take(&abandoned));
        operation->status = RAWE_STATUS_FAILED;
        end_asking(engine, operation);
    }
}
