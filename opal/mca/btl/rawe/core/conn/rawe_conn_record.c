/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Access to registered memory. Each request is served once, because each frame is accepted once.
 * The progress thread serves requests while the target's program computes. A reply is data in the
 * reverse direction: it has a sequence number, and is acknowledged and retransmitted.
 */
#include "rawe_conn_record.h"

#include <stdlib.h>
#include <string.h>

#include "rma/rawe_handle.h"
#include "rawe_conn_tx.h"
#include "rawe_conn_send.h"

/** Limit on replies queued or in flight, over all connections. Beyond it, frames are refused. */
#define SERVED_MAX (1u << 16)

/** A reply that could not be copied into a frame at once. */
struct rawe_served {
    struct rawe_send send;
    struct rawe_link link;      /**< in the list `used` or `free` */
    struct rawe_engine *engine; /**< serves the request; NULL: the engine was freed */
    bool refers;                /**< its data is in the memory of `handle_index` */
    uint32_t handle_index;
    uint8_t word[RAWE_REFUSED_BYTES];
};

static struct rawe_served *served_of(struct rawe_link *link)
{
    return RAWE_OWNER(link, struct rawe_served, link);
}

/* ---- initiator ---- */

/** rawe_send.done for each part of an operation, and for its completion. */
static void part_done(struct rawe_send *send, enum rawe_status status)
{
    struct rawe_operation_part *part = (struct rawe_operation_part *)(void *)send;
    struct rawe_operation *operation = part->operation;
    if (part != &operation->request && part != &operation->completion) {
        free(part);
    }
    if (status == RAWE_STATUS_DROPPED && operation->whole == NULL) {
        return;
    }
    if (status != RAWE_STATUS_DONE) {
        operation->status = status;
        if (part == &operation->request && operation->table != NULL) {
            rawe_operation_remove(operation); /* no reply will arrive */
            operation->parts--;
        }
    }
    if (--operation->parts == 0) {
        operation->done(operation, operation->status);
    }
}

/** rawe_send.split of the data of a PUT. */
static struct rawe_send *split_data(struct rawe_send *send)
{
    struct rawe_operation *operation = ((struct rawe_operation_part *)(void *)send)->operation;
    struct rawe_operation_part *part = malloc(sizeof(*part));
    if (part == NULL) {
        return NULL;
    }
    part->operation = operation;
    operation->parts++;
    return &part->send;
}

struct rawe_send *rawe_conn_begin_operation(struct rawe_operation *operation, bool copies)
{
    bool put = operation->kind == RAWE_FRAGMENT_PUT;
    struct rawe_send *send = &operation->request.send;
    operation->table = NULL;
    operation->refusal = RAWE_REFUSAL_NONE;
    operation->status = RAWE_STATUS_DONE;
    operation->parts = put ? 1 : 2;
    operation->request.operation = operation->completion.operation = operation;
    *send = (struct rawe_send){
        .done = part_done,
        .split = put && operation->spreads ? split_data : NULL,
        .pieces = {{put ? operation->local : operation->request_bytes,
                    put ? operation->len_bytes : RAWE_REQUEST_BYTES}},
        .piece_count = 1,
        .kind = operation->kind,
        .relaxed = !put,
        .internal = operation->whole != NULL,
        .copies = copies,
        .prompt = rawe_operation_is_prompt(operation),
        .handle_index = operation->handle_index,
        .handle_key = operation->handle_key,
        .offset = operation->offset,
    };
    return send;
}

/** Enter a GET or ATOMIC in the table, and build its request. Returns false if it must wait. */
static bool enter(struct rawe_conn *conn, struct rawe_operation *operation, uint64_t now_ns)
{
    struct rawe_engine *engine = conn->engine;
    bool get = operation->kind == RAWE_FRAGMENT_GET;
    if (!rawe_operation_enter(&engine->operations, operation)) {
        return false;
    }
    operation->peer_key = conn->path.preferred->key;
    operation->peer_port = conn->path.preferred->port;
    operation->left_bytes = operation->len_bytes;
    operation->progress_ns = now_ns;
    if (operation->budget != NULL) {
        rawe_budget_asked(operation->budget, operation->len_bytes, engine->now_ns);
    }
    operation->completion.send.done = part_done;
    operation->completion.send.kind = RAWE_FRAGMENT_GET;
    operation->completion.send.internal = operation->whole != NULL;
    rawe_request_encode(operation->request_bytes,
                        &(struct rawe_request){
                            .operation = operation->index,
                            .key = operation->key,
                            .atomic = get ? 0 : operation->atomic,
                            .word_bytes = get ? 0 : (uint8_t)operation->len_bytes,
                            .operand = get ? operation->len_bytes : operation->operand,
                            .compare = get ? 0 : operation->compare,
                        });
    engine->counters.operations_sent++;
    return true;
}

bool rawe_conn_operate(struct rawe_conn *conn, struct rawe_operation *operation, uint64_t now_ns)
{
    bool put = operation->kind == RAWE_FRAGMENT_PUT;
    struct rawe_send *send = rawe_conn_begin_operation(operation, true);
    if (!put && !enter(conn, operation, now_ns)) {
        return false;
    }
    enum rawe_status status = rawe_conn_send_record(conn, send, now_ns);
    if (status == RAWE_STATUS_FAILED) {
        send->next = NULL;
        rawe_conn_complete(conn->engine, send, status);
        return true;
    }
    if (status == RAWE_STATUS_BUSY) {
        rawe_conn_send(conn, send, now_ns);
    } else if (!put) {
        part_done(send, status); /* the request has been copied */
    }
    if (!put) {
        rawe_conn_await_reply(conn, now_ns);
    }
    return true;
}

/**
 * Return the operation that a REPLY answers; NULL: none. A long reply may arrive over any route to
 * the process, not only the request's. No two tables of our engines contain the same key.
 */
static struct rawe_operation *find_answered(const struct rawe_conn *conn,
                                            const struct rawe_fragment *fragment)
{
    struct rawe_operation *operation = NULL;
    for (const struct rawe_route *route = conn->path.preferred; operation == NULL && route != NULL;
         route = rawe_route_after(route, conn->path.preferred)) {
        operation = rawe_operation_find(&route->engine->operations, fragment->id, fragment->key,
                                        route->key, route->port);
    }
    return operation;
}

uint8_t *rawe_conn_place_reply(const struct rawe_conn *conn, const struct rawe_fragment *fragment)
{
    const struct rawe_operation *operation = find_answered(conn, fragment);
    return operation == NULL || fragment->tag != RAWE_REFUSAL_NONE
               ? NULL
               : rawe_operation_place(operation, fragment->offset, fragment->data_bytes);
}

/** Receive a REPLY: part of an operation's result, or the reason why it was refused. */
static void receive_reply(struct rawe_conn *conn, const struct rawe_fragment *fragment)
{
    struct rawe_engine *engine = conn->engine;
    if (fragment->tag == RAWE_REFUSAL_FINALIZING) {
        return; /* no program error: the operation fails when the connection ends */
    }
    struct rawe_operation *operation = find_answered(conn, fragment);
    bool refused = fragment->tag != RAWE_REFUSAL_NONE;
    uint8_t *to = operation == NULL || refused
                      ? NULL
                      : rawe_operation_place(operation, fragment->offset, fragment->data_bytes);
    if (operation == NULL || (to == NULL && !refused)) {
        engine->counters.dropped_reply++;
        return;
    }
    if (refused) {
        operation->refusal = fragment->tag;
    } else {
        if (to != fragment->data) {
            memmove(to, fragment->data, fragment->data_bytes);
        }
        engine->counters.bytes_received += fragment->data_bytes;
        operation->left_bytes -= fragment->data_bytes;
        operation->progress_ns = engine->now_ns;
        if (operation->budget != NULL) {
            rawe_budget_arrived(operation->budget, fragment->data_bytes, engine->now_ns);
            rawe_budget_take_off(operation->budget, fragment->data_bytes);
        }
        if (operation->left_bytes != 0) {
            return;
        }
    }
    rawe_operation_remove(operation);
    operation->completion.send.next = NULL;
    rawe_conn_complete(engine, &operation->completion.send,
                       refused ? RAWE_STATUS_FAILED : RAWE_STATUS_DONE);
}

/* ---- control messages ---- */

/** A control message that could not be copied into a frame at once. */
struct rawe_control {
    struct rawe_send send;
    uint8_t data[];
};

/** rawe_send.done of a queued control message. */
static void control_done(struct rawe_send *send, enum rawe_status status)
{
    (void)status;
    free(send);
}

bool rawe_conn_send_control(struct rawe_conn *conn, uint64_t channel, const uint8_t *data,
                            size_t len_bytes, uint64_t now_ns)
{
    struct rawe_send send = {
        .done = control_done,
        .pieces = {{(void *)(uintptr_t)data, len_bytes}},
        .piece_count = 1,
        .kind = RAWE_FRAGMENT_CONTROL,
        .relaxed = true,
        .internal = true,
        .copies = true,
        .handle_key = channel,
    };
    if (!rawe_conn_copies_record(conn, len_bytes)) {
        return false;
    }
    const enum rawe_status status = rawe_conn_send_record(conn, &send, now_ns);
    struct rawe_control *queued =
        status == RAWE_STATUS_BUSY ? malloc(sizeof(*queued) + len_bytes) : NULL;
    if (queued == NULL) {
        return status == RAWE_STATUS_DONE;
    }
    queued->send = send;
    queued->send.pieces[0].base = queued->data;
    memcpy(queued->data, data, len_bytes);
    rawe_conn_send(conn, &queued->send, now_ns);
    return true;
}

/* ---- target ---- */

bool rawe_conn_serve_reserve(struct rawe_engine *engine, unsigned count)
{
    struct rawe_serving *serving = &engine->serving;
    /* Some may be reserved: while a frame is processed, a callback may receive more requests. */
    while (serving->free_count < serving->reserved + count) {
        struct rawe_served *served = serving->count < SERVED_MAX ? malloc(sizeof(*served)) : NULL;
        if (served == NULL) {
            return false;
        }
        served->link = (struct rawe_link){NULL};
        rawe_list_append(&serving->free, &served->link);
        serving->free_count++;
        serving->count++;
    }
    serving->reserved += count;
    return true;
}

void rawe_conn_serve_free(struct rawe_engine *engine)
{
    struct rawe_link *link;
    while ((link = rawe_list_take(&engine->serving.free)) != NULL) {
        free(served_of(link));
    }
    /* Parts that other engines are sending are still in use. */
    while ((link = rawe_list_take(&engine->serving.used)) != NULL) {
        served_of(link)->engine = NULL;
    }
    engine->serving = (struct rawe_serving){0};
}

/** rawe_send.done of a queued reply. */
static void served_done(struct rawe_send *send, enum rawe_status status)
{
    struct rawe_served *served = (struct rawe_served *)(void *)send;
    (void)status; /* if the reply failed, the initiator notices */
    if (served->engine == NULL) {
        free(served);
        return;
    }
    struct rawe_serving *serving = &served->engine->serving;
    rawe_list_remove(&served->link);
    rawe_list_append(&serving->free, &served->link);
    serving->free_count++;
}

/** Take a reserved entry. */
static struct rawe_served *take_served(struct rawe_engine *engine)
{
    struct rawe_serving *serving = &engine->serving;
    struct rawe_served *served = served_of(rawe_list_take(&serving->free));
    serving->free_count--;
    serving->reserved--;
    served->engine = engine;
    rawe_list_append(&serving->used, &served->link);
    return served;
}

/** Take an entry that was not reserved. Returns NULL when out of memory. */
static struct rawe_served *add_served(struct rawe_engine *engine)
{
    return rawe_conn_serve_reserve(engine, 1) ? take_served(engine) : NULL;
}

/** rawe_send.split of a reply. */
static struct rawe_send *split_reply(struct rawe_send *send)
{
    const struct rawe_served *served = (struct rawe_served *)(void *)send;
    struct rawe_served *part = add_served(served->engine);
    if (part == NULL) {
        return NULL;
    }
    part->refers = served->refers;
    part->handle_index = served->handle_index;
    return &part->send;
}

/**
 * Reply with memory of a handle or, if `handle_index` is UINT32_MAX, with a copied word. Uses or
 * releases the reserved entry.
 */
static void reply(struct rawe_conn *conn, const struct rawe_request *request,
                  enum rawe_refusal refusal, const void *data, uint64_t len_bytes,
                  uint32_t handle_index, uint64_t now_ns)
{
    const struct rawe_callbacks *callbacks = &conn->engine->callbacks;
    bool copies = rawe_conn_copies_record(conn, len_bytes);
    struct rawe_send send = {
        .done = served_done,
        .pieces = {{(void *)(uintptr_t)data, len_bytes}},
        .piece_count = 1,
        .kind = RAWE_FRAGMENT_REPLY,
        .tag = (uint8_t)refusal,
        .relaxed = true,
        .internal = true,
        .copies = copies,
        .handle_index = request->operation,
        .handle_key = request->key,
    };
    /* The entry stays reserved, because sending may call back, and so receive other requests. */
    if (copies && rawe_conn_send_record(conn, &send, now_ns) != RAWE_STATUS_BUSY) {
        conn->engine->serving.reserved--;
        return;
    }
    struct rawe_served *served = take_served(conn->engine);
    served->send = send;
    served->handle_index = handle_index;
    served->refers = handle_index != UINT32_MAX;
    if (!served->refers) {
        memcpy(served->word, data, len_bytes);
        served->send.pieces[0].base = served->word;
    }
    bool is_long = served->refers && !copies && len_bytes > RAWE_OPERATION_SHORT_BYTES;
    served->send.split = is_long ? split_reply : NULL;
    /* Keep long replies off the express lane, which they would delay. */
    if (!is_long || conn->lane != RAWE_LANE_EXPRESS || callbacks->long_reply == NULL ||
        !callbacks->long_reply(conn->engine->context, conn, &served->send)) {
        rawe_conn_send(conn, &served->send, now_ns);
    }
}

/** Return the connection whose queue contains, or last contained, the reply. */
static struct rawe_conn *conn_of(const struct rawe_served *served)
{
    return RAWE_OWNER(served->send.queue, struct rawe_conn, tx.queue);
}

/** Return the reason to give: in MPI_Finalize, memory is gone through no fault of the program. */
static enum rawe_refusal refusal_of(const struct rawe_engine *engine, enum rawe_refusal otherwise)
{
    return engine->finalizing ? RAWE_REFUSAL_FINALIZING : otherwise;
}

/** Turn a reply with no frame in the window into a refusal: its memory is being deregistered. */
static void refuse_reply(struct rawe_served *served)
{
    struct rawe_send *send = &served->send;
    memset(served->word, 0, sizeof(served->word));
    send->pieces[0] = (struct rawe_bytes){served->word, sizeof(served->word)};
    send->tag = (uint8_t)refusal_of(served->engine, RAWE_REFUSAL_UNKNOWN);
    send->copies = false;
    served->refers = false;
}

/** Truncate a reply whose memory is being deregistered. Notifies the initiator if possible. */
static void cut_reply(struct rawe_served *served)
{
    struct rawe_send *send = &served->send;
    struct rawe_sendqueue *queue = send->queue;
    if (send->frames == 0) {
        refuse_reply(served);
        rawe_sendqueue_replaced(queue, send);
        return;
    }
    (void)rawe_sendqueue_pop(queue); /* only the first send can be partly framed */
    send->total_bytes = send->pieces[0].len_bytes = send->framed_bytes;
    struct rawe_served *refusal = add_served(served->engine);
    if (refusal != NULL) {
        refusal->send = *send;
        refuse_reply(refusal);
        rawe_sendqueue_push_first(queue, &refusal->send);
        rawe_conn_make_pending(conn_of(refusal));
    }
}

void rawe_conn_serve_forget(struct rawe_engine *engine, uint32_t handle_index)
{
    struct rawe_link *used = &engine->serving.used;
    for (struct rawe_link *link = used->next; link != used; link = link->next) {
        struct rawe_served *served = served_of(link);
        if (served->refers &&
            (handle_index == RAWE_HANDLE_ANY || served->handle_index == handle_index)) {
            if (served->send.framed_bytes != served->send.total_bytes) {
                cut_reply(served);
            }
            if (served->refers) {
                rawe_sendwin_revoke(&conn_of(served)->tx.window, &served->send,
                                    refusal_of(engine, RAWE_REFUSAL_UNKNOWN));
                served->refers = false;
            }
        }
    }
}

/** Serve a GET or an ATOMIC, for which an entry is reserved. */
static void serve(struct rawe_conn *conn, const struct rawe_fragment *fragment, uint64_t now_ns)
{
    struct rawe_engine *engine = conn->engine;
    struct rawe_request request;
    uint8_t word[RAWE_REFUSED_BYTES] = {0};
    uint64_t len_bytes = sizeof(word);
    enum rawe_refusal refusal;
    if (rawe_request_decode(&request, fragment->data, fragment->data_bytes) != RAWE_DECODE_OK) {
        engine->counters.dropped_length++;
        engine->serving.reserved--;
        return;
    }
    if (fragment->kind == RAWE_FRAGMENT_GET) {
        const struct rawe_handle_table *handles = engine->config.handles;
        const void *from = rawe_handle_resolve(handles, fragment->id, fragment->key,
                                               fragment->offset, request.operand, RAWE_ACCESS_READ);
        if (from != NULL && request.operand != 0) {
            engine->counters.operations_served++;
            reply(conn, &request, RAWE_REFUSAL_NONE, from, request.operand, fragment->id, now_ns);
            return;
        }
        refusal = rawe_handle_refusal(handles, fragment->id, fragment->key, RAWE_ACCESS_READ);
    } else {
        refusal = rawe_access_atomic(engine->config.handles, fragment->id, fragment->key,
                                     fragment->offset, &request, word);
        len_bytes = refusal == RAWE_REFUSAL_NONE ? request.word_bytes : len_bytes;
    }
    if (refusal == RAWE_REFUSAL_NONE) {
        engine->counters.operations_served++;
    } else {
        engine->counters.operations_refused++;
        refusal = refusal_of(engine, refusal);
    }
    reply(conn, &request, refusal, word, len_bytes, UINT32_MAX, now_ns);
}

/** Copy the data of a PUT into registered memory, unless it was received in place. */
static void place_put(struct rawe_conn *conn, const struct rawe_fragment *fragment)
{
    struct rawe_engine *engine = conn->engine;
    uint8_t *to = rawe_handle_resolve(engine->config.handles, fragment->id, fragment->key,
                                      fragment->offset, fragment->data_bytes, RAWE_ACCESS_WRITE);
    if (to == NULL) {
        if (engine->counters.dropped_handle++ == 0) {
            engine->put_refusal = rawe_handle_refusal(engine->config.handles, fragment->id,
                                                      fragment->key, RAWE_ACCESS_WRITE);
        }
        return;
    }
    if (to != fragment->data) {
        memmove(to, fragment->data, fragment->data_bytes);
    }
    engine->counters.bytes_received += fragment->data_bytes;
}

void rawe_conn_perform(struct rawe_conn *conn, const struct rawe_fragment *fragment,
                       uint64_t now_ns)
{
    switch (fragment->kind) {
    case RAWE_FRAGMENT_PUT:
        place_put(conn, fragment);
        break;
    case RAWE_FRAGMENT_REPLY:
        receive_reply(conn, fragment);
        break;
    case RAWE_FRAGMENT_CONTROL:
        if (conn->engine->callbacks.control != NULL) {
            conn->engine->callbacks.control(conn->engine->context, conn, fragment->key,
                                            fragment->data, fragment->data_bytes);
        }
        break;
    default:
        serve(conn, fragment, now_ns);
        break;
    }
}
