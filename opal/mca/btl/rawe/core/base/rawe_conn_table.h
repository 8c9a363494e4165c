/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Connection table: finds the connection a frame is for by the id that the frame carries.
 *
 *   id:  31 ... 20 generation | 19 ... 0 index
 *
 * The generation is renewed with each life of a connection, so that late frames of an earlier one
 * find nothing. It is never 0, hence neither is an id.
 */
#ifndef RAWE_CONN_TABLE_H
#define RAWE_CONN_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct rawe_conn;
struct rawe_rest;

struct rawe_conn_entry {
    struct rawe_conn *conn; /**< NULL: free, or at rest */
    struct rawe_rest *rest; /**< what is kept of a connection at rest, else NULL */
    uint32_t id;            /**< of the connection that is or was there last */
};

struct rawe_conn_table {
    struct rawe_conn_entry *entries; /**< by index */
    uint32_t size;
    uint32_t full_below; /**< no index below is free */
    uint32_t migrated;   /**< connections that do not use their preferred route */
    uint32_t generation; /**< entries that are used for the first time begin behind it */
};

/** Add a connection. Returns its id, or 0 without memory or when the table is full (2^20). */
uint32_t rawe_conn_table_add(struct rawe_conn_table *table, struct rawe_conn *conn);

/** A new generation for the connection with this id. Returns the new id. */
uint32_t rawe_conn_table_renew(struct rawe_conn_table *table, uint32_t id);

void rawe_conn_table_remove(struct rawe_conn_table *table, uint32_t id);

/** The connection with this id comes to rest (`conn` NULL), or is whole again (`rest` NULL). */
void rawe_conn_table_replace(struct rawe_conn_table *table, uint32_t id, struct rawe_conn *conn,
                             struct rawe_rest *rest);

/** The connection that has this id now, or NULL. Untrusted. */
static inline struct rawe_conn *rawe_conn_table_find(const struct rawe_conn_table *table,
                                                     uint32_t id)
{
    uint32_t index = id & 0xFFFFFu;
    return index < table->size && table->entries[index].id == id ? table->entries[index].conn
                                                                 : NULL;
}

/** The same of a connection at rest. */
static inline struct rawe_rest *rawe_conn_table_find_rest(const struct rawe_conn_table *table,
                                                          uint32_t id)
{
    uint32_t index = id & 0xFFFFFu;
    return index < table->size && table->entries[index].id == id ? table->entries[index].rest
                                                                 : NULL;
}

/** Free the empty table. If it is filled again, late frames of before find nothing. */
void rawe_conn_table_free(struct rawe_conn_table *table);

#endif
