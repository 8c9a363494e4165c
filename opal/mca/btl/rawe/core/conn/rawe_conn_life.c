/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Completing sends; and how one life of a connection ends and the next begins.
 */
#include "rawe_conn_life.h"

#include <stdlib.h>


/** Congestion window to start with. */
#define FIRST_WINDOW_FRAMES 64u

/**
 * Replies are the engine's own: nobody is told of them, and their memory is needed while the owner is
 * away. Returns the list without them.
 */
static struct rawe_send *complete_replies(struct rawe_send *list, enum rawe_status status)
{
    struct rawe_send **link = &list;
    while (*link != NULL) {
        struct rawe_send *send = *link;
        if (send->kind == RAWE_FRAGMENT_REPLY) {
            *link = send->next;
            send->done(send, status);
        } else {
            link = &send->next;
        }
    }
    return list;
}

void rawe_conn_complete(struct rawe_engine *engine, struct rawe_send *list, enum rawe_status status)
{
    if (engine->deferral.active && !engine->finalizing && list != NULL) {
        list = complete_replies(list, status);
        if (list != NULL) {
            rawe_deferral_keep_completed(&engine->deferral, list, status);
        }
        return;
    }
    while (list != NULL) {
        struct rawe_send *next = list->next;
        /* While the process finalizes, nobody is told; the engine gets its own memory back. */
        if (!engine->finalizing || list->kind == RAWE_FRAGMENT_BUNDLE ||
            list->kind == RAWE_FRAGMENT_REPLY) {
            list->done(list, status);
        }
        list = next;
    }
}

/** A send is done before it was reported as transmitted: it is not reported any more. */
static void unlink_transmitted(struct rawe_conn *conn, struct rawe_send *send)
{
    struct rawe_send **link = &conn->transmitted;
    while (*link != send) {
        link = &(*link)->next;
    }
    *link = send->next;
    if (*link == NULL) {
        conn->transmitted_tail = link;
    }
    send->to_report = false;
}

/** The PUTs that were copied into a frame are complete: appends them; returns the new tail. */
static struct rawe_send **release_copied(struct rawe_send *send, struct rawe_send **tail)
{
    for (; send != NULL; send = send->next) {
        *tail = send;
        tail = &send->next;
    }
    return tail;
}

struct rawe_send **rawe_conn_release(struct rawe_conn *conn, struct rawe_txframe *frame,
                                     struct rawe_send **tail)
{
    struct rawe_send *send = frame->send;
    if (frame->segments != 1 && frame->resent == 0) {
        conn->batches_lost = 0;
    }
    rawe_txframe_give(&conn->engine->frames, frame);
    if (send == NULL) {
        return tail;
    }
    if (frame->external_count == 0) { /* in the pool it stays as it was */
        return release_copied(send, tail);
    }
    if (!rawe_sendqueue_released(&conn->queue, send)) {
        return tail;
    }
    if (send->to_report) {
        unlink_transmitted(conn, send);
    }
    *tail = send;
    return &send->next;
}

struct rawe_send *rawe_conn_release_before(struct rawe_conn *conn, uint32_t acknowledgement)
{
    struct rawe_send *complete = NULL;
    struct rawe_send **tail = &complete;
    while (rawe_sequence_before(conn->sendwin.una, acknowledgement)) {
        const struct rawe_txframe *oldest = rawe_sendwin_at(&conn->sendwin, conn->sendwin.una);
        if (rawe_sequence_before(acknowledgement, oldest->sequence + oldest->segments)) {
            break; /* of a batch, some has not arrived */
        }
        tail = rawe_conn_release(conn, rawe_sendwin_remove(&conn->sendwin), tail);
    }
    *tail = NULL;
    return complete;
}

struct rawe_send *rawe_conn_abandon(struct rawe_conn *conn, bool queue_too)
{
    struct rawe_send *complete = rawe_conn_release_before(conn, conn->sendwin.next);
    struct rawe_send **tail = &complete;
    while (*tail != NULL) {
        tail = &(*tail)->next;
    }
    /* The head of the queue may be half in the frames just released. */
    struct rawe_send *head = conn->queue.first;
    if (head != NULL && (queue_too || head->framed_bytes != 0)) {
        (void)rawe_sendqueue_pop(&conn->queue);
        *tail = head;
        tail = &head->next;
    }
    *tail = NULL;
    if (queue_too) {
        if (conn->coalescing != NULL) {
            tail = release_copied(conn->coalescing->send, tail);
            rawe_txframe_give(&conn->engine->frames, conn->coalescing);
            conn->coalescing = NULL;
        }
        *tail = rawe_sendqueue_clear(&conn->queue);
        while (*tail != NULL) {
            tail = &(*tail)->next;
        }
    }
    *rawe_operation_abandon(&conn->engine->operations, rawe_conn_home_key(conn),
                            rawe_conn_home_port(conn), conn->lane, tail) = NULL;
    return complete;
}

void rawe_conn_complete_ended(struct rawe_conn *conn, struct rawe_send *abandoned, bool data_lost)
{
    struct rawe_engine *engine = conn->engine;
    conn->finalize.lost = conn->finalize.lost || (data_lost && engine->finalizing);
    data_lost = data_lost && !engine->finalizing;
    if (data_lost && engine->deferral.active) {
        conn->data_lost = engine->losses_wait = engine->deferral.pending = true;
    } else if (data_lost && engine->callbacks.lost != NULL) {
        engine->callbacks.lost(engine->context, conn);
    }
    rawe_conn_complete(engine, abandoned, RAWE_STATUS_FAILED);
}

static void begin_path(struct rawe_conn *conn)
{
    rawe_rtt_init(&conn->rtt);
    rawe_reorder_init(&conn->reorder);
    conn->rate = (struct rawe_rate){0};
    rawe_cc_init(&conn->cc, FIRST_WINDOW_FRAMES, conn->engine->config.window_frames);
    conn->cc.used_ns = conn->engine->now_ns;
}

void rawe_conn_forget_path(struct rawe_conn *conn)
{
    begin_path(conn);
    conn->plain_answers = 0;
    /* What was lost with the old path says nothing of the new one's room. */
    conn->cc.recover_sequence = conn->sendwin.next;
    conn->cc.reduced = true;
}

void rawe_conn_reset(struct rawe_conn *conn)
{
    const struct rawe_engine_config *config = &conn->engine->config;
    uint32_t first = config->first_sequence;
    conn->handshake.peer_id = 0;
    conn->ack_requested = first;
    conn->batch = RAWE_BATCH_UNVALIDATED;
    conn->plain_answers = 0;
    conn->batches_lost = conn->withdrawals = 0;
    conn->peer_credit = 0; /* the reply to CONNECT says */
    conn->awaited = conn->wants_credit = false;
    conn->credit_refusals = 0;
    rawe_credit_forget(&conn->through->credit, conn->lane, &conn->credit);
    conn->loss_deadline_ns = 0;
    conn->disowned_since_ns = 0;
    conn->finalize.announced = false;
    rawe_sendwin_reset(&conn->sendwin, first);
    rawe_sendqueue_renumber(&conn->queue, first);
    rawe_recvwin_reset(&conn->recvwin, first);
    begin_path(conn);
    conn->newest_probe = 0;
    conn->migration = 0;
    conn->confirming = 0;
    conn->liveness.probe_deadline_ns = 0;
    conn->liveness.probes_remembered = 0;
    rawe_liveness_heard(&conn->liveness);
    conn->liveness.stalled_since_ns = 0;
    if (conn->reassembly != NULL) {
        /* Some may have stayed here, as no more was kept for the owner. */
        rawe_deferral_rescue_fragmented(&conn->engine->deferral, &conn->engine->reassembly_buffers,
                                        conn, conn->reassembly);
        rawe_reassembly_clear(conn->reassembly, &conn->engine->reassembly_buffers);
        conn->reassembly->next = first;
    }
    free(conn->sliced); /* it had numbers of the old life */
    conn->sliced = NULL;
}

void rawe_conn_renew(struct rawe_conn *conn)
{
    struct rawe_engine *engine = conn->engine;
    conn->handshake.local_id = rawe_conn_table_renew(engine->table, conn->handshake.local_id);
    conn->handshake.local_incarnation = ++engine->incarnation;
    rawe_conn_reset(conn);
}

void rawe_conn_free_windows(struct rawe_conn *conn)
{
    rawe_sendwin_free(&conn->sendwin);
    rawe_recvwin_free(&conn->recvwin);
    free(conn->reassembly);
    conn->reassembly = NULL;
}
