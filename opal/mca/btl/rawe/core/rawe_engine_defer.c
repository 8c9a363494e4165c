/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The engine while its owner is away: it goes on acknowledging, asking and sending again, but
 * nobody above it may be called. What would have been told is deferred until the owner is back.
 */
#include "rawe_conn.h"

#include <stdlib.h>
#include <string.h>

/** The messages of one frame, or a fragmented message, for the owner. */
struct rawe_deferred {
    struct rawe_deferred *next;
    struct rawe_conn *conn;
    size_t len_bytes;
    uint8_t *buffer;   /**< of a fragmented message; NULL: fragments in `payload` */
    uint8_t tag;       /**< of a fragmented message */
    uint8_t payload[];
};

void rawe_engine_defer_begin(struct rawe_engine *engine)
{
    engine->deferring = true;
}

void rawe_engine_defer_end(struct rawe_engine *engine)
{
    engine->deferring = false;
}

/** Append an entry with room for `payload_bytes`; NULL without memory. */
static struct rawe_deferred *append(struct rawe_engine *engine, struct rawe_conn *conn,
                                size_t payload_bytes, size_t len_bytes)
{
    struct rawe_deferred *deferred = malloc(sizeof(*deferred) + payload_bytes);
    if (deferred == NULL) {
        return NULL;
    }
    deferred->next = NULL;
    deferred->conn = conn;
    deferred->len_bytes = len_bytes;
    deferred->buffer = NULL;
    if (engine->deferred == NULL) {
        engine->deferred_tail = &engine->deferred;
    }
    *engine->deferred_tail = deferred;
    engine->deferred_tail = &deferred->next;
    engine->deferred_bytes += len_bytes;
    engine->has_deferred = true;
    return deferred;
}

bool rawe_engine_defer(struct rawe_engine *engine, struct rawe_conn *conn, const uint8_t *payload,
                      size_t len_bytes)
{
    struct rawe_deferred *deferred = engine->deferred_bytes < RAWE_DEFERRED_BYTES_MAX
                                         ? append(engine, conn, len_bytes, len_bytes)
                                         : NULL;
    if (deferred == NULL) {
        return false;
    }
    memcpy(deferred->payload, payload, len_bytes);
    return true;
}

void rawe_engine_defer_fragmented(struct rawe_engine *engine, struct rawe_conn *conn)
{
    struct rawe_reassembly *reassembly = conn->reassembly;
    while (reassembly != NULL && rawe_reassembly_ready(reassembly)) {
        struct rawe_deferred *deferred = append(engine, conn, 0, 0);
        if (deferred == NULL) {
            engine->has_deferred = engine->fragments_wait = true; /* they stay where they are */
            return;
        }
        struct rawe_partial whole;
        (void)rawe_reassembly_take(reassembly, &whole);
        deferred->buffer = whole.buffer;
        deferred->tag = whole.tag;
        deferred->len_bytes = whole.total_bytes;
        engine->deferred_bytes += whole.total_bytes;
    }
}

static void drop(struct rawe_engine *engine, struct rawe_deferred *deferred)
{
    engine->deferred_bytes -= deferred->len_bytes;
    if (deferred->buffer != NULL) {
        rawe_buffer_give(&engine->reassembly_buffers, deferred->buffer);
    }
    free(deferred);
}

void rawe_engine_drop_deferred(struct rawe_engine *engine, const struct rawe_conn *conn)
{
    struct rawe_deferred **link = &engine->deferred;
    while (*link != NULL) {
        struct rawe_deferred *deferred = *link;
        if (deferred->conn == conn) {
            *link = deferred->next;
            drop(engine, deferred);
        } else {
            link = &deferred->next;
        }
    }
    engine->deferred_tail = link;
}

void rawe_engine_defer_completion(struct rawe_engine *engine, struct rawe_send *list,
                              enum rawe_status status)
{
    unsigned which = status == RAWE_STATUS_DONE ? 0 : 1;
    struct rawe_send **tail =
        engine->finished[which] == NULL ? &engine->finished[which] : engine->finished_tail[which];
    *tail = list;
    while (*tail != NULL) {
        tail = &(*tail)->next;
    }
    engine->finished_tail[which] = tail;
    engine->has_deferred = true;
}

void rawe_engine_complete_deferred(struct rawe_engine *engine)
{
    for (unsigned which = 0; which < 2; which++) {
        struct rawe_send *list = engine->finished[which];
        engine->finished[which] = NULL;
        rawe_conn_complete(engine, list, which == 0 ? RAWE_STATUS_DONE : RAWE_STATUS_FAILED);
    }
}

void rawe_engine_deliver_deferred(struct rawe_engine *engine)
{
    engine->has_deferred = false;
    rawe_engine_complete_deferred(engine);
    while (engine->deferred != NULL) {
        struct rawe_deferred *deferred = engine->deferred;
        engine->deferred = deferred->next;
        if (deferred->buffer != NULL) {
            rawe_conn_deliver(deferred->conn, deferred->tag, deferred->buffer, deferred->len_bytes);
        } else {
            rawe_conn_deliver_messages(deferred->conn, deferred->payload,
                                       deferred->payload + deferred->len_bytes);
        }
        drop(engine, deferred);
    }
    if (engine->fragments_wait) {
        engine->fragments_wait = false;
        for (uint32_t i = 0; i < engine->table_size; i++) {
            if (engine->table[i] != NULL) {
                rawe_conn_deliver_fragmented(engine->table[i]);
            }
        }
    }
}
