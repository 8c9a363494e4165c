/* SPDX-License-Identifier: BSD-3-Clause */
#include "rawe_conn_table.h"

#include <assert.h>
#include <stdlib.h>

#define INDEX_BITS 20u
#define INDEX_MASK ((1u << INDEX_BITS) - 1)
#define GENERATION_MAX 0xFFFu
#define FIRST_SIZE 16u

static bool grow(struct rawe_conn_table *table)
{
    uint32_t size = table->size == 0 ? FIRST_SIZE : table->size * 2;
    if (size > 1u << INDEX_BITS) {
        return false;
    }
    struct rawe_conn **entries = realloc(table->entries, size * sizeof(*entries));
    if (entries == NULL) {
        return false;
    }
    table->entries = entries;
    struct rawe_rest **rests = realloc(table->rests, size * sizeof(*rests));
    if (rests == NULL) {
        return false;
    }
    table->rests = rests;
    uint32_t *ids = realloc(table->ids, size * sizeof(*ids));
    if (ids == NULL) {
        return false;
    }
    table->ids = ids;
    for (uint32_t i = table->size; i < size; i++) {
        entries[i] = NULL;
        rests[i] = NULL;
        ids[i] = i | table->generation << INDEX_BITS;
    }
    table->size = size;
    return true;
}

uint32_t rawe_conn_table_add(struct rawe_conn_table *table, struct rawe_conn *conn)
{
    uint32_t index = table->full_below;
    while (index < table->size && (table->entries[index] != NULL || table->rests[index] != NULL)) {
        index++;
    }
    if (index == table->size && !grow(table)) {
        return 0;
    }
    table->entries[index] = conn;
    table->full_below = index + 1;
    table->used++;
    return rawe_conn_table_renew(table, index);
}

uint32_t rawe_conn_table_renew(struct rawe_conn_table *table, uint32_t id)
{
    uint32_t index = id & INDEX_MASK;
    uint32_t generation = (table->ids[index] >> INDEX_BITS) % GENERATION_MAX + 1;
    table->ids[index] = index | generation << INDEX_BITS;
    return table->ids[index];
}

void rawe_conn_table_remove(struct rawe_conn_table *table, uint32_t id)
{
    uint32_t index = id & INDEX_MASK;
    table->entries[index] = NULL;
    table->rests[index] = NULL;
    if (index < table->full_below) {
        table->full_below = index;
    }
    table->used--;
}

void rawe_conn_table_rest(struct rawe_conn_table *table, uint32_t id, struct rawe_rest *rest)
{
    table->entries[id & INDEX_MASK] = NULL;
    table->rests[id & INDEX_MASK] = rest;
}

void rawe_conn_table_wake(struct rawe_conn_table *table, uint32_t id, struct rawe_conn *conn)
{
    table->entries[id & INDEX_MASK] = conn;
    table->rests[id & INDEX_MASK] = NULL;
}

void rawe_conn_table_free(struct rawe_conn_table *table)
{
    uint32_t newest = table->generation;
    assert(table->used == 0);
    for (uint32_t i = 0; i < table->size; i++) {
        uint32_t generation = table->ids[i] >> INDEX_BITS;
        newest = generation > newest ? generation : newest;
    }
    free(table->entries);
    free(table->rests);
    free(table->ids);
    *table = (struct rawe_conn_table){.generation = newest};
}
