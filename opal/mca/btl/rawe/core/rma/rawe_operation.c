/* SPDX-License-Identifier: BSD-3-Clause */
#include "rawe_operation.h"

#include <stdlib.h>
#include <string.h>

#define FIRST_SIZE 64u

void rawe_operation_table_free(struct rawe_operation_table *table)
{
    free(table->entries);
    memset(table, 0, sizeof(*table));
}

static bool grow(struct rawe_operation_table *table)
{
    uint32_t size = table->size == 0 ? FIRST_SIZE : table->size * 2;
    struct rawe_operation **entries =
        size <= RAWE_OPERATIONS_MAX
            ? realloc(table->entries, size * sizeof(struct rawe_operation *))
            : NULL;
    if (entries == NULL) {
        return false;
    }
    for (uint32_t i = table->size; i < size; i++) {
        entries[i] = NULL;
    }
    table->next = table->size;
    table->entries = entries;
    table->size = size;
    return true;
}

bool rawe_operation_enter(struct rawe_operation_table *table, struct rawe_operation *operation)
{
    if (table->in_use == table->size && !grow(table)) {
        return false;
    }
    while (table->entries[table->next] != NULL) {
        table->next = (table->next + 1) % table->size;
    }
    operation->table = table;
    operation->index = table->next;
    operation->key = ++table->last_key;
    table->entries[table->next] = operation;
    table->next = (table->next + 1) % table->size;
    table->in_use++;
    return true;
}

void rawe_operation_remove(struct rawe_operation *operation)
{
    struct rawe_operation_table *table = operation->table;
    table->entries[operation->index] = NULL;
    table->next = operation->index;
    table->in_use--;
    operation->table = NULL;
}

struct rawe_operation *rawe_operation_find(const struct rawe_operation_table *table, uint32_t index,
                                           uint64_t key, uint32_t peer_key, uint16_t peer_port)
{
    struct rawe_operation *operation = index < table->size ? table->entries[index] : NULL;
    return operation != NULL && operation->key == key && operation->peer_key == peer_key &&
                   operation->peer_port == peer_port
               ? operation
               : NULL;
}

uint64_t rawe_operation_progress_ns(const struct rawe_operation_table *table, uint32_t peer_key,
                                    uint16_t peer_port, bool *began)
{
    uint32_t left = table->in_use;
    uint64_t progress_ns = 0;
    *began = false;
    for (uint32_t i = 0; left != 0; i++) {
        const struct rawe_operation *operation = table->entries[i];
        if (operation != NULL && operation->peer_key == peer_key &&
            operation->peer_port == peer_port && operation->progress_ns > progress_ns) {
            progress_ns = operation->progress_ns;
            *began = operation->left_bytes == operation->len_bytes;
        }
        left -= operation != NULL;
    }
    return progress_ns;
}

bool rawe_operation_has_rival(const struct rawe_operation *operation)
{
    const struct rawe_operation_table *table = operation->table;
    for (uint32_t i = 0, left = table->in_use; left != 0; i++) {
        const struct rawe_operation *other = table->entries[i];
        left -= other != NULL;
        if (other != NULL && other->inflow != NULL && other->peer != operation->peer) {
            return true;
        }
    }
    return false;
}

uint8_t *rawe_operation_place(const struct rawe_operation *operation, uint64_t offset,
                              uint64_t len_bytes)
{
    bool fits = offset <= operation->len_bytes && len_bytes <= operation->len_bytes - offset &&
                len_bytes <= operation->left_bytes;
    return fits ? operation->local + offset : NULL;
}

void rawe_operation_abandon(struct rawe_operation_table *table, uint32_t peer_key,
                            uint16_t peer_port, uint8_t lane, struct rawe_sends *completions)
{
    uint64_t least_bytes = lane == RAWE_LANE_BULK ? RAWE_OPERATION_SHORT_BYTES + 1 : 0;
    for (uint32_t i = 0; i < table->size && table->in_use != 0; i++) {
        struct rawe_operation *operation = table->entries[i];
        if (operation != NULL && operation->peer_key == peer_key &&
            operation->peer_port == peer_port && operation->len_bytes >= least_bytes &&
            /* The request has left the queue; its `done` may be deferred still. */
            operation->request.send.framed_bytes == operation->request.send.total_bytes) {
            rawe_operation_remove(operation);
            rawe_sends_append(completions, &operation->completion.send);
        }
    }
}
