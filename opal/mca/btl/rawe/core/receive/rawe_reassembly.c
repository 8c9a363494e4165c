/* SPDX-License-Identifier: BSD-3-Clause */
#include "rawe_reassembly.h"

#include <stdlib.h>
#include <string.h>

void rawe_buffer_pool_init(struct rawe_buffer_pool *pool, size_t buffer_bytes, unsigned limit)
{
    pool->free = NULL;
    pool->buffer_bytes = buffer_bytes < sizeof(void *) ? sizeof(void *) : buffer_bytes;
    pool->allocated = 0;
    pool->limit = limit;
}

void rawe_buffer_pool_free(struct rawe_buffer_pool *pool)
{
    while (pool->free != NULL) {
        void *buffer = pool->free;
        memcpy(&pool->free, buffer, sizeof(void *));
        free(buffer);
        pool->allocated--;
    }
}

void *rawe_buffer_take(struct rawe_buffer_pool *pool)
{
    return pool->free == NULL && pool->allocated >= pool->limit ? NULL
                                                                : rawe_buffer_take_urgent(pool);
}

void *rawe_buffer_take_urgent(struct rawe_buffer_pool *pool)
{
    void *buffer = pool->free;
    if (buffer != NULL) {
        memcpy(&pool->free, buffer, sizeof(void *));
        return buffer;
    }
    buffer = malloc(pool->buffer_bytes);
    if (buffer != NULL) {
        pool->allocated++;
    }
    return buffer;
}

void rawe_buffer_give(struct rawe_buffer_pool *pool, void *buffer)
{
    if (pool->allocated > pool->limit) {
        free(buffer); /* rawe_buffer_take_urgent had exceeded the limit */
        pool->allocated--;
        return;
    }
    memcpy(buffer, &pool->free, sizeof(void *));
    pool->free = buffer;
}

/** Find or create the message of a fragment. On failure, returns NULL and sets `*why`. */
static struct rawe_partial *find_partial(struct rawe_reassembly *reassembly,
                                         struct rawe_buffer_pool *pool,
                                         const struct rawe_fragment *fragment,
                                         enum rawe_reassembly_result *why)
{
    uint32_t ahead = fragment->id - reassembly->next;
    *why = RAWE_REASSEMBLY_REFUSED;
    if (fragment->data_bytes == 0 ||
        sizeof(struct rawe_partial) + fragment->total_bytes > pool->buffer_bytes ||
        ahead >= RAWE_REASSEMBLY_MESSAGES) {
        return NULL;
    }
    struct rawe_partial **link = &reassembly->first;
    while (*link != NULL && (*link)->number - reassembly->next < ahead) {
        link = &(*link)->next;
    }
    struct rawe_partial *partial = *link;
    if (partial == NULL || partial->number != fragment->id) {
        partial = ahead == 0 ? rawe_buffer_take_urgent(pool) : rawe_buffer_take(pool);
        if (partial == NULL) {
            *why = RAWE_REASSEMBLY_NO_BUFFER;
            return NULL;
        }
        *partial = (struct rawe_partial){
            .next = *link,
            .number = fragment->id,
            .total_bytes = fragment->total_bytes,
            .tag = fragment->tag,
            .kind = fragment->kind,
        };
        *link = partial;
    } else if (partial->total_bytes != fragment->total_bytes || partial->tag != fragment->tag ||
               partial->kind != fragment->kind ||
               fragment->data_bytes > partial->total_bytes - partial->received_bytes) {
        return NULL;
    }
    return partial;
}

uint8_t *rawe_reassembly_place(struct rawe_reassembly *reassembly, struct rawe_buffer_pool *pool,
                               const struct rawe_fragment *fragment)
{
    enum rawe_reassembly_result why;
    struct rawe_partial *partial = find_partial(reassembly, pool, fragment, &why);
    return partial == NULL ? NULL : partial->content + fragment->offset;
}

enum rawe_reassembly_result rawe_reassembly_add(struct rawe_reassembly *reassembly,
                                                struct rawe_buffer_pool *pool,
                                                const struct rawe_fragment *fragment)
{
    enum rawe_reassembly_result why;
    struct rawe_partial *partial = find_partial(reassembly, pool, fragment, &why);
    if (partial == NULL) {
        return why;
    }
    if (partial->content + fragment->offset != fragment->data) {
        memmove(partial->content + fragment->offset, fragment->data, fragment->data_bytes);
    }
    partial->received_bytes += fragment->data_bytes;
    return RAWE_REASSEMBLY_TAKEN;
}

const struct rawe_partial *rawe_reassembly_ready(const struct rawe_reassembly *reassembly)
{
    const struct rawe_partial *first = reassembly->first;
    return first != NULL && first->number == reassembly->next &&
                   first->received_bytes == first->total_bytes
               ? first
               : NULL;
}

struct rawe_partial *rawe_reassembly_take(struct rawe_reassembly *reassembly)
{
    struct rawe_partial *first = reassembly->first;
    if (rawe_reassembly_ready(reassembly) == NULL) {
        return NULL;
    }
    reassembly->first = first->next;
    reassembly->next++;
    return first;
}

void rawe_reassembly_clear(struct rawe_reassembly *reassembly, struct rawe_buffer_pool *pool,
                           uint32_t first)
{
    while (reassembly->first != NULL) {
        struct rawe_partial *partial = reassembly->first;
        reassembly->first = partial->next;
        rawe_buffer_give(pool, partial);
    }
    reassembly->next = first;
}

struct rawe_sliced {
    uint32_t sequence;
    uint32_t received_bytes; /**< from the beginning of the payload */
    struct rawe_slice first;
    uint8_t payload[];
};

void rawe_sliced_free(struct rawe_sliced **sliced)
{
    free(*sliced);
    *sliced = NULL;
}

enum rawe_slice_result rawe_sliced_add(struct rawe_sliced **sliced, uint32_t payload_max_bytes,
                                       struct rawe_header *header, const uint8_t **payload,
                                       void **memory)
{
    struct rawe_slice slice;
    if (rawe_slice_decode(&slice, *payload, header->payload_bytes) != RAWE_DECODE_OK ||
        slice.total_bytes > payload_max_bytes) {
        return RAWE_SLICE_INVALID;
    }
    struct rawe_sliced *frame = *sliced;
    if (slice.offset == 0) {
        frame = frame != NULL ? frame : malloc(sizeof(*frame) + payload_max_bytes);
        if (frame == NULL) {
            return RAWE_SLICE_NO_MEMORY;
        }
        *sliced = frame;
        *frame = (struct rawe_sliced){.sequence = header->sequence, .first = slice};
    } else if (frame == NULL || frame->sequence != header->sequence ||
               frame->received_bytes != slice.offset ||
               frame->first.total_bytes != slice.total_bytes || frame->first.type != slice.type) {
        return RAWE_SLICE_REFUSED;
    }
    size_t data_bytes = header->payload_bytes - RAWE_SLICE_BYTES;
    memcpy(frame->payload + slice.offset, *payload + RAWE_SLICE_BYTES, data_bytes);
    frame->received_bytes += (uint32_t)data_bytes;
    if (frame->received_bytes != slice.total_bytes) {
        return RAWE_SLICE_ADDED;
    }
    /* While this frame is delivered, a callback may receive slices of the next one. */
    *sliced = NULL;
    *memory = frame;
    *payload = frame->payload;
    header->payload_bytes = slice.total_bytes;
    return RAWE_SLICE_WHOLE;
}

/* ---- deferral ---- */

/** A message shorter than 1/COPIED_PART of a reassembly buffer is copied, to reuse the buffer. */
#define COPIED_PART 2u

void rawe_deferral_init(struct rawe_deferral *deferral, size_t limit_bytes)
{
    *deferral = (struct rawe_deferral){.limit_bytes = limit_bytes};
}

/** Append an entry of `len_bytes`, `payload_bytes` of them in the entry. NULL: out of memory. */
static struct rawe_deferred *append_deferred(struct rawe_deferral *deferral, struct rawe_conn *conn,
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
    entry->whole = NULL;
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
    struct rawe_deferred *entry = append_deferred(deferral, conn, len_bytes, len_bytes);
    if (entry == NULL) {
        return false;
    }
    memcpy(entry->payload, payload, len_bytes);
    return true;
}

/** Keep the next fragmented message, which must be complete. Returns false when out of memory. */
static bool keep_next(struct rawe_deferral *deferral, struct rawe_conn *conn,
                      struct rawe_reassembly *reassembly, struct rawe_buffer_pool *pool)
{
    const struct rawe_partial *next = rawe_reassembly_ready(reassembly);
    if (deferral->discards) {
        rawe_buffer_give(pool, rawe_reassembly_take(reassembly));
        return true;
    }
    bool copied = next->total_bytes < pool->buffer_bytes / COPIED_PART;
    struct rawe_deferred *entry =
        append_deferred(deferral, conn, copied ? next->total_bytes : 0, next->total_bytes);
    if (entry == NULL) {
        return false;
    }
    struct rawe_partial *whole = rawe_reassembly_take(reassembly);
    entry->fragmented = whole->kind == RAWE_FRAGMENT_PART;
    entry->tag = whole->tag;
    if (copied) {
        memcpy(entry->payload, whole->content, whole->total_bytes);
        rawe_buffer_give(pool, whole);
    } else {
        entry->whole = whole;
        entry->pool = pool;
        entry->allocated_bytes += pool->buffer_bytes;
        deferral->bytes += pool->buffer_bytes;
    }
    return true;
}

void rawe_deferral_keep_fragmented(struct rawe_deferral *deferral, struct rawe_conn *conn,
                                   struct rawe_reassembly *reassembly,
                                   struct rawe_buffer_pool *pool, bool all)
{
    while (rawe_reassembly_ready(reassembly) != NULL) {
        if ((!all && rawe_deferral_full(deferral)) ||
            !keep_next(deferral, conn, reassembly, pool)) {
            deferral->pending = deferral->fragments_wait = true;
            return;
        }
    }
}

static struct rawe_sends *completed_sends(struct rawe_deferral *deferral, enum rawe_status status)
{
    return &deferral->completed[status == RAWE_STATUS_DONE ? 0 : 1];
}

void rawe_deferral_keep_completed(struct rawe_deferral *deferral, struct rawe_send *list,
                                  enum rawe_status status)
{
    rawe_sends_append_all(completed_sends(deferral, status), list);
    deferral->pending = true;
}

struct rawe_send *rawe_deferral_take_completed(struct rawe_deferral *deferral,
                                               enum rawe_status status)
{
    struct rawe_send *list = completed_sends(deferral, status)->first;
    completed_sends(deferral, status)->first = NULL;
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

void rawe_deferral_drop(struct rawe_deferral *deferral, struct rawe_deferred *entry)
{
    deferral->bytes -= entry->allocated_bytes;
    if (entry->whole != NULL) {
        rawe_buffer_give(entry->pool, entry->whole);
    }
    free(entry);
}

void rawe_deferral_discard(struct rawe_deferral *deferral)
{
    struct rawe_deferred *entry;
    while ((entry = rawe_deferral_take(deferral)) != NULL) {
        rawe_deferral_drop(deferral, entry);
    }
    deferral->pending = deferral->fragments_wait = deferral->losses_wait = false;
    deferral->discards = true;
}

void rawe_deferral_forget(struct rawe_deferral *deferral, const struct rawe_conn *conn)
{
    struct rawe_deferred **link = &deferral->first;
    while (*link != NULL) {
        struct rawe_deferred *entry = *link;
        if (entry->conn == conn) {
            *link = entry->next;
            rawe_deferral_drop(deferral, entry);
        } else {
            link = &entry->next;
        }
    }
    deferral->tail = link;
}
