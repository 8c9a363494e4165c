/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Connection table: finds a frame's connection by the id in the frame's header.
 *
 *   id:  31 ... 20 generation | 19 ... 0 index
 *
 * A connection gets a new generation each time it is established, so that late frames from before
 * match nothing. Generations, and hence ids, are never 0.
 */
#ifndef RAWE_CONN_TABLE_H
#define RAWE_CONN_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct rawe_conn;

struct rawe_conn_entry {
    struct rawe_conn *conn; /**< NULL: free */
    uint32_t id;            /**< id of the current or last connection in this entry */
};

struct rawe_conn_table {
    struct rawe_conn_entry *entries; /**< by index */
    uint32_t size;
    uint32_t full_below; /**< all entries below this index are in use */
    uint32_t migrated;   /**< connections that do not use their preferred route */
    uint32_t generation; /**< an entry used for the first time gets the next one */
};

/** Add a connection. Returns its id; 0 when out of memory or if the table is full (2^20). */
uint32_t rawe_conn_table_add(struct rawe_conn_table *table, struct rawe_conn *conn);

/** Give the connection with this id a new generation. Returns its new id. */
uint32_t rawe_conn_table_renew(struct rawe_conn_table *table, uint32_t id);

void rawe_conn_table_remove(struct rawe_conn_table *table, uint32_t id);

/** Return the connection that currently has this (untrusted) id, or NULL. */
static inline struct rawe_conn *rawe_conn_table_find(const struct rawe_conn_table *table,
                                                     uint32_t id)
{
    uint32_t index = id & 0xFFFFFu;
    return index < table->size && table->entries[index].id == id ? table->entries[index].conn
                                                                 : NULL;
}

/** Free an empty table. Late frames match nothing even if the table is filled again. */
void rawe_conn_table_free(struct rawe_conn_table *table);

#endif
