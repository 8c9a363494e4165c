/* SPDX-License-Identifier: BSD-3-Clause */
#include "rawe_operation.h"

#include <string.h>

#include "pull/rawe_budget.h"

void rawe_operation_table_init(struct rawe_operation_table *table, uint64_t last_key)
{
    memset(table, 0, sizeof(*table));
    rawe_list_init(&table->under_way);
    table->last_key = last_key;
}

/** Return the index of the counter of this peer's operations, which other peers may share. */
static uint32_t counter_of(const struct rawe_peer *peer)
{
    const uint64_t hash = (uintptr_t)peer * UINT64_C(0x9E3779B97F4A7C15);
    return (uint32_t)(hash >> 32) % RAWE_OPERATIONS_MAX;
}

bool rawe_operation_has_room(const struct rawe_operation_table *table, const struct rawe_peer *peer)
{
    const uint32_t free_count = RAWE_OPERATIONS_MAX - table->in_use;
    const struct rawe_link *all = &table->under_way;
    uint32_t count = table->of_peer[counter_of(peer)];
    if (count >= free_count) {
        count = 0; /* without those of other peers */
        for (struct rawe_link *link = all->next; link != all; link = link->next) {
            count += rawe_operation_of(link)->peer == peer;
        }
    }
    return count < free_count;
}

bool rawe_operation_enter(struct rawe_operation_table *table, struct rawe_operation *operation)
{
    if (!rawe_operation_has_room(table, operation->peer)) {
        return false;
    }
    while (table->entries[table->next] != NULL) {
        table->next = (table->next + 1) % RAWE_OPERATIONS_MAX;
    }
    operation->table = table;
    operation->index = table->next;
    operation->key = ++table->last_key;
    table->entries[table->next] = operation;
    table->in_use++;
    table->of_peer[counter_of(operation->peer)]++;
    rawe_list_append(&table->under_way, &operation->link);
    return true;
}

void rawe_operation_remove(struct rawe_operation *operation)
{
    struct rawe_operation_table *table = operation->table;
    table->entries[operation->index] = NULL;
    table->next = operation->index;
    table->in_use--;
    table->of_peer[counter_of(operation->peer)]--;
    if (operation->budget != NULL) {
        rawe_budget_take_off(operation->budget, operation->left_bytes);
    }
    rawe_list_remove(&operation->link);
    operation->table = NULL;
}

struct rawe_operation *rawe_operation_find(const struct rawe_operation_table *table, uint32_t index,
                                           uint64_t key, uint32_t peer_key, uint16_t peer_port)
{
    struct rawe_operation *operation = index < RAWE_OPERATIONS_MAX ? table->entries[index] : NULL;
    return operation != NULL && operation->key == key && operation->peer_key == peer_key &&
                   operation->peer_port == peer_port
               ? operation
               : NULL;
}

uint64_t rawe_operation_progress_ns(const struct rawe_operation_table *table, uint32_t peer_key,
                                    uint16_t peer_port, bool *began)
{
    const struct rawe_link *all = &table->under_way;
    uint64_t progress_ns = 0;
    *began = false;
    for (struct rawe_link *link = all->next; link != all; link = link->next) {
        const struct rawe_operation *operation = rawe_operation_of(link);
        if (operation->peer_key == peer_key && operation->peer_port == peer_port &&
            operation->progress_ns > progress_ns) {
            progress_ns = operation->progress_ns;
            *began = operation->left_bytes == operation->len_bytes;
        }
    }
    return progress_ns;
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
    struct rawe_link *next;
    for (struct rawe_link *link = table->under_way.next; link != &table->under_way; link = next) {
        struct rawe_operation *operation = rawe_operation_of(link);
        next = link->next;
        if (operation->peer_key == peer_key && operation->peer_port == peer_port &&
            operation->len_bytes >= least_bytes &&
            /* The request has left the queue, although its `done` may still be deferred. */
            operation->request.send.framed_bytes == operation->request.send.total_bytes) {
            rawe_operation_remove(operation);
            rawe_sends_append(completions, &operation->completion.send);
        }
    }
}
