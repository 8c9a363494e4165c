/* SPDX-License-Identifier: BSD-3-Clause */
#include "rawe_conn_table.h"

#include <assert.h>
#include <stdlib.h>

#define INDEX_BITS 20u
#define INDEX_MASK ((1u << INDEX_BITS) - 1)
#define GENERATION_MAX 0xFFFu
#define FIRST_SIZE 16u

static bool grow_conns(struct rawe_conn_table *table)
{
    uint32_t size = table->size == 0 ? FIRST_SIZE : table->size * 2;
    if (size > 1u << INDEX_BITS) {
        return false;
    }
    struct rawe_conn_entry *entries = realloc(table->entries, size * sizeof(*entries));
    if (entries == NULL) {
        return false;
    }
    table->entries = entries;
    for (uint32_t i = table->size; i < size; i++) {
        entries[i] = (struct rawe_conn_entry){.id = i | table->generation << INDEX_BITS};
    }
    table->size = size;
    return true;
}

uint32_t rawe_conn_table_add(struct rawe_conn_table *table, struct rawe_conn *conn)
{
    uint32_t index = table->full_below;
    while (index < table->size && table->entries[index].conn != NULL) {
        index++;
    }
    if (index == table->size && !grow_conns(table)) {
        return 0;
    }
    table->entries[index].conn = conn;
    table->full_below = index + 1;
    return rawe_conn_table_renew(table, index);
}

uint32_t rawe_conn_table_renew(struct rawe_conn_table *table, uint32_t id)
{
    uint32_t index = id & INDEX_MASK;
    uint32_t generation = (table->entries[index].id >> INDEX_BITS) % GENERATION_MAX + 1;
    table->entries[index].id = index | generation << INDEX_BITS;
    return table->entries[index].id;
}

void rawe_conn_table_remove(struct rawe_conn_table *table, uint32_t id)
{
    uint32_t index = id & INDEX_MASK;
    table->entries[index].conn = NULL;
    if (index < table->full_below) {
        table->full_below = index;
    }
}

void rawe_conn_table_free(struct rawe_conn_table *table)
{
    uint32_t newest = table->generation;
    for (uint32_t i = 0; i < table->size; i++) {
        assert(table->entries[i].conn == NULL);
        uint32_t generation = table->entries[i].id >> INDEX_BITS;
        newest = generation > newest ? generation : newest;
    }
    free(table->entries);
    *table = (struct rawe_conn_table){.generation = newest};
}
