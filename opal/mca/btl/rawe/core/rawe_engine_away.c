/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The engine while its owner is away: it goes on acknowledging, asking and sending again, but
 * nobody above it may be called. What would have been told is kept until the owner is back.
 */
#include "rawe_conn.h"

#include <stdlib.h>
#include <string.h>

/** The messages of one frame, or a segmented message, for the owner. */
struct rawe_kept {
    struct rawe_kept *next;
    struct rawe_conn *conn;
    size_t len_bytes;
    uint8_t *buffer;   /**< of a segmented message; NULL: chunks in `payload` */
    uint8_t tag;       /**< of a segmented message */
    uint8_t payload[];
};

void rawe_engine_leave(struct rawe_engine *engine)
{
    engine->away = true;
}

void rawe_engine_return(struct rawe_engine *engine)
{
    engine->away = false;
}

/** Append an entry with room for `payload_bytes`; NULL without memory. */
static struct rawe_kept *append(struct rawe_engine *engine, struct rawe_conn *conn,
                                size_t payload_bytes, size_t len_bytes)
{
    struct rawe_kept *kept = malloc(sizeof(*kept) + payload_bytes);
    if (kept == NULL) {
        return NULL;
    }
    kept->next = NULL;
    kept->conn = conn;
    kept->len_bytes = len_bytes;
    kept->buffer = NULL;
    if (engine->kept == NULL) {
        engine->kept_tail = &engine->kept;
    }
    *engine->kept_tail = kept;
    engine->kept_tail = &kept->next;
    engine->kept_bytes += len_bytes;
    engine->keeps = true;
    return kept;
}

bool rawe_engine_keep(struct rawe_engine *engine, struct rawe_conn *conn, const uint8_t *payload,
                      size_t len_bytes)
{
    struct rawe_kept *kept = append(engine, conn, len_bytes, len_bytes);
    if (kept == NULL) {
        return false;
    }
    memcpy(kept->payload, payload, len_bytes);
    return true;
}

void rawe_engine_keep_segmented(struct rawe_engine *engine, struct rawe_conn *conn)
{
    struct rawe_reassembly *reassembly = conn->reassembly;
    while (reassembly != NULL && rawe_reassembly_ready(reassembly)) {
        struct rawe_kept *kept = append(engine, conn, 0, 0);
        if (kept == NULL) {
            engine->keeps = engine->segments_wait = true; /* they stay where they are */
            return;
        }
        struct rawe_partial whole;
        (void)rawe_reassembly_take(reassembly, &whole);
        kept->buffer = whole.buffer;
        kept->tag = whole.tag;
        kept->len_bytes = whole.total_bytes;
        engine->kept_bytes += whole.total_bytes;
    }
}

static void drop(struct rawe_engine *engine, struct rawe_kept *kept)
{
    engine->kept_bytes -= kept->len_bytes;
    if (kept->buffer != NULL) {
        rawe_buffer_give(&engine->reassembly_buffers, kept->buffer);
    }
    free(kept);
}

void rawe_engine_forget(struct rawe_engine *engine, const struct rawe_conn *conn)
{
    struct rawe_kept **link = &engine->kept;
    while (*link != NULL) {
        struct rawe_kept *kept = *link;
        if (kept->conn == conn) {
            *link = kept->next;
            drop(engine, kept);
        } else {
            link = &kept->next;
        }
    }
    engine->kept_tail = link;
}

void rawe_engine_finish_later(struct rawe_engine *engine, struct rawe_send *list,
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
    engine->keeps = true;
}

void rawe_engine_tell(struct rawe_engine *engine)
{
    engine->keeps = false;
    for (unsigned which = 0; which < 2; which++) {
        struct rawe_send *list = engine->finished[which];
        engine->finished[which] = NULL;
        rawe_conn_complete(engine, list, which == 0 ? RAWE_STATUS_DONE : RAWE_STATUS_FAILED);
    }
    while (engine->kept != NULL) {
        struct rawe_kept *kept = engine->kept;
        engine->kept = kept->next;
        if (kept->buffer != NULL) {
            rawe_conn_deliver(kept->conn, kept->tag, kept->buffer, kept->len_bytes);
        } else {
            rawe_conn_deliver_messages(kept->conn, kept->payload,
                                       kept->payload + kept->len_bytes);
        }
        drop(engine, kept);
    }
    if (engine->segments_wait) {
        engine->segments_wait = false;
        for (uint32_t i = 0; i < engine->table_size; i++) {
            if (engine->table[i] != NULL) {
                rawe_conn_deliver_segmented(engine->table[i]);
            }
        }
    }
}
