/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Watches. A watch has the address of another responder, the token of the PINGs that are sent to
 * it, and the content of its newest answers. Each responder has a table of them. Any thread may
 * call the functions.
 */
#ifndef RAWE_WATCH_H
#define RAWE_WATCH_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/rawe_wire.h"

/** Address of a responder. */
struct rawe_ping_address {
    uint8_t mac[RAWE_MAC_BYTES];
    uint16_t port;
    uint32_t key;
};

/** Outstanding PINGs to an address. Only the token is on the wire; a forger cannot know it. */
struct rawe_watch {
    uint64_t token;       /**< 40 bits, all random except the first, then its index */
    uint64_t pong_ns;     /**< when the newest answer arrived (CLOCK_MONOTONIC); 0: never; atomic */
    uint64_t from;        /**< MAC address of the newest answer's sender, as a number; atomic */
    uint64_t absent_ns;   /**< time of the newest answer without RAWE_FLAG_SERVICED; atomic */
    bool heard;           /**< for a search: a PING has come from there, too; atomic */
    bool refused;         /**< the newest answer said that the process has given us up; atomic */
    bool given_up;        /**< we have given the process up: owned by the table. Its lock */
    uint32_t asked_bytes; /**< payload of the longest PING sent; atomic */
    uint32_t pong_bytes;  /**< payload of the longest answer that found us, 0: none; atomic */
    struct rawe_ping_address to;
};

/** All of a responder's watches. */
struct rawe_watch_table {
    pthread_mutex_t lock;
    struct rawe_watch **watches; /**< by index; NULL: not in use */
    uint32_t used;               /**< the highest number ever in use */
    uint32_t free_from;          /**< all lower indices are in use */
    unsigned given_up;           /**< those of processes that were given up; atomic */
    unsigned sought; /**< those of searches, or given up; atomic. 0: PINGs tell nothing */
};

/** Prepare a table whose memory is 0. */
void rawe_watch_table_init(struct rawe_watch_table *table);

/** Free the table and its watches. */
void rawe_watch_table_destroy(struct rawe_watch_table *table);

/** Watch an address. Returns NULL when out of memory, or without random numbers. */
struct rawe_watch *rawe_watch_begin(struct rawe_watch_table *table,
                                    const struct rawe_ping_address *to);

/** NULL is allowed. */
void rawe_watch_end(struct rawe_watch_table *table, struct rawe_watch *watch);

/** Watch an address for a search, which forgets that its process was given up. As above. */
struct rawe_watch *rawe_watch_seek(struct rawe_watch_table *table,
                                   const struct rawe_ping_address *to);

/** End a watch for a search. NULL is allowed. */
void rawe_watch_unseek(struct rawe_watch_table *table, struct rawe_watch *watch);

/** Give up the process that a search has not found: the watch belongs to the table from now on. */
void rawe_watch_give_up(struct rawe_watch_table *table, struct rawe_watch *watch);

/** Forget that the process at this address was given up. */
void rawe_watch_take_back(struct rawe_watch_table *table, const struct rawe_ping_address *to);

/** Note a PING. Returns true if its sender was given up, which the answer has to say. */
bool rawe_watch_pinged(struct rawe_watch_table *table, const struct rawe_ping *ping);

/**
 * Record an answer from this address, and UDP port (0: a raw frame), if it matches a PING. Returns
 * true if it does.
 */
bool rawe_watch_answered(struct rawe_watch_table *table, const uint8_t source[RAWE_MAC_BYTES],
                         uint16_t source_port, uint64_t token, const struct rawe_header *pong,
                         uint64_t now_ns);

/** Return when the newest answer arrived (CLOCK_MONOTONIC, 0: never). Takes no lock. */
uint64_t rawe_watch_last_pong_ns(const struct rawe_watch *watch);

/** Return the same of the newest answer whose process was making no progress. */
uint64_t rawe_watch_last_absent_ns(const struct rawe_watch *watch);

/** Get the address that sent the newest answer. It may be new. Returns false before any answer. */
bool rawe_watch_answered_from(const struct rawe_watch *watch, uint8_t mac[RAWE_MAC_BYTES]);

#endif
