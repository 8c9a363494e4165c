/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Deferral: see rawe_deferral.h.
 */
#include "rawe_deferral.h"

#include <stdlib.h>
#include <string.h>

/** A message shorter than this part of a reassembly buffer is copied, and its buffer used again. */
#define COPIED_PART 2u

/** Append an entry with room for `payload_bytes` of its `len_bytes`; NULL without memory. */
static struct rawe_deferred *append(struct rawe_deferral *deferral, struct rawe_conn *conn,
                                    size_t payload_bytes, size_t len_bytes)
{
    struct rawe_deferred *entry = malloc(sizeof(*entry) + payload_bytes);
    if (entry == NULL) {
        return NULL;
    }
    entry->next = NULL;
    entry->conn = conn;
    entry->len_bytes = len_bytes;
    entry->allocated_bytes = sizeof(*entry) + payload_bytes;
    entry->buffer = NULL;
    entry->fragmented = false;
    if (deferral->first == NULL) {
        deferral->tail = &deferral->first;
    }
    *deferral->tail = entry;
    deferral->tail = &entry->next;
    deferral->bytes += entry->allocated_bytes;
    deferral->pending = true;
    return entry;
}

bool rawe_deferral_keep(struct rawe_deferral *deferral, struct rawe_conn *conn,
                        const uint8_t *payload, size_t len_bytes)
{
    if (deferral->discards) {
        return true;
    }
    struct rawe_deferred *entry = append(deferral, conn, len_bytes, len_bytes);
    if (entry == NULL) {
        return false;
    }
    memcpy(entry->payload, payload, len_bytes);
    return true;
}

/** Keep the next fragmented message, which is whole. False without memory. */
static bool keep_next(struct rawe_deferral *deferral, struct rawe_buffer_pool *pool,
                      struct rawe_conn *conn, struct rawe_reassembly *reassembly)
{
    const struct rawe_partial *next = rawe_reassembly_ready(reassembly);
    struct rawe_partial whole;
    bool copied = next->total_bytes < pool->buffer_bytes / COPIED_PART;
    struct rawe_deferred *entry =
        append(deferral, conn, copied ? next->total_bytes : 0, next->total_bytes);
    if (entry == NULL) {
        return false;
    }
    (void)rawe_reassembly_take(reassembly, &whole);
    entry->fragmented = whole.kind == RAWE_FRAGMENT_PART;
    entry->tag = whole.tag;
    if (copied) {
        memcpy(entry->payload, whole.buffer, whole.total_bytes);
        rawe_buffer_give(pool, whole.buffer);
    } else {
        entry->buffer = whole.buffer;
        entry->allocated_bytes += pool->buffer_bytes;
        deferral->bytes += pool->buffer_bytes;
    }
    return true;
}

/** The owner never comes back: what is whole goes nowhere. */
static void discard_fragmented(const struct rawe_deferral *deferral, struct rawe_buffer_pool *pool,
                               struct rawe_reassembly *reassembly)
{
    struct rawe_partial whole;
    while (deferral->discards && rawe_reassembly_take(reassembly, &whole)) {
        rawe_buffer_give(pool, whole.buffer);
    }
}

void rawe_deferral_keep_fragmented(struct rawe_deferral *deferral, struct rawe_buffer_pool *pool,
                                   struct rawe_conn *conn, struct rawe_reassembly *reassembly)
{
    discard_fragmented(deferral, pool, reassembly);
    while (rawe_reassembly_ready(reassembly) != NULL) {
        if (rawe_deferral_full(deferral) || !keep_next(deferral, pool, conn, reassembly)) {
            deferral->pending = deferral->fragments_wait = true;
            return;
        }
    }
}

void rawe_deferral_rescue_fragmented(struct rawe_deferral *deferral, struct rawe_buffer_pool *pool,
                                     struct rawe_conn *conn, struct rawe_reassembly *reassembly)
{
    discard_fragmented(deferral, pool, reassembly);
    bool deferred = true;
    while (deferred && rawe_reassembly_ready(reassembly) != NULL) {
        deferred = keep_next(deferral, pool, conn, reassembly);
    }
}

void rawe_deferral_keep_completed(struct rawe_deferral *deferral, struct rawe_send *list,
                                  enum rawe_status status)
{
    unsigned which = status == RAWE_STATUS_DONE ? 0 : 1;
    struct rawe_send **tail = deferral->completed[which] == NULL ? &deferral->completed[which]
                                                                 : deferral->completed_tail[which];
    *tail = list;
    while (*tail != NULL) {
        tail = &(*tail)->next;
    }
    deferral->completed_tail[which] = tail;
    deferral->pending = true;
}

struct rawe_send *rawe_deferral_take_completed(struct rawe_deferral *deferral,
                                               enum rawe_status status)
{
    unsigned which = status == RAWE_STATUS_DONE ? 0 : 1;
    struct rawe_send *list = deferral->completed[which];
    deferral->completed[which] = NULL;
    return list;
}

struct rawe_deferred *rawe_deferral_take(struct rawe_deferral *deferral)
{
    struct rawe_deferred *entry = deferral->first;
    if (entry != NULL) {
        deferral->first = entry->next;
    }
    return entry;
}

void rawe_deferral_drop(struct rawe_deferral *deferral, struct rawe_buffer_pool *pool,
                        struct rawe_deferred *entry)
{
    deferral->bytes -= entry->allocated_bytes;
    if (entry->buffer != NULL) {
        rawe_buffer_give(pool, entry->buffer);
    }
    free(entry);
}

void rawe_deferral_discard(struct rawe_deferral *deferral, struct rawe_buffer_pool *pool)
{
    struct rawe_deferred *entry;
    while ((entry = rawe_deferral_take(deferral)) != NULL) {
        rawe_deferral_drop(deferral, pool, entry);
    }
    deferral->pending = deferral->fragments_wait = false;
    deferral->discards = true;
}

void rawe_deferral_forget(struct rawe_deferral *deferral, struct rawe_buffer_pool *pool,
                          const struct rawe_conn *conn)
{
    struct rawe_deferred **link = &deferral->first;
    while (*link != NULL) {
        struct rawe_deferred *entry = *link;
        if (entry->conn == conn) {
            *link = entry->next;
            rawe_deferral_drop(deferral, pool, entry);
        } else {
            link = &entry->next;
        }
    }
    deferral->tail = link;
}
